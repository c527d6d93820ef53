//! Links: what holds a program at an interface.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use codegen::kernel::Hook;

use super::call::{bpf, info, owned};

/// Commands (`enum bpf_cmd`).
const PROG_QUERY: libc::c_long = 16;
const LINK_CREATE: libc::c_long = 28;
const LINK_UPDATE: libc::c_long = 29;
const LINK_GET_FD_BY_ID: libc::c_long = 30;
const LINK_GET_NEXT_ID: libc::c_long = 31;
const LINK_DETACH: libc::c_long = 34;

/// `BPF_LINK_TYPE_XDP`, `BPF_LINK_TYPE_TCX`
const XDP_LINK: u32 = 6;
const TCX_LINK: u32 = 11;
/// `BPF_XDP`, `BPF_TCX_INGRESS`, of `enum bpf_attach_type`
const ATTACH_XDP: u32 = 37;
const ATTACH_TCX_INGRESS: u32 = 46;
/// In front of all others that are there (`BPF_F_BEFORE`).
const FIRST: u32 = 1 << 3;
/// Programs at one interface's ingress at most (`BPF_MPROG_MAX`).
const MOST: usize = 64;

#[repr(C)]
#[derive(Default)]
struct LinkCreate {
    prog_fd: u32,
    target_ifindex: u32,
    attach_type: u32,
    flags: u32,
}

#[repr(C)]
#[derive(Default)]
struct LinkUpdate {
    link_fd: u32,
    new_prog_fd: u32,
    flags: u32,
    old_prog_fd: u32,
}

#[repr(C)]
#[derive(Default)]
struct GetId {
    id: u32,
    next_id: u32,
    open_flags: u32,
}

/// The kernel's structure for queries.
#[repr(C)]
#[derive(Default)]
struct Query {
    target_ifindex: u32,
    attach_type: u32,
    query_flags: u32,
    attach_flags: u32,
    prog_ids: u64,
    count: u32,
    _pad: u32,
    prog_attach_flags: u64,
    link_ids: u64,
    link_attach_flags: u64,
    revision: u64,
}

/// The first fields of `struct bpf_link_info`.
#[repr(C)]
#[derive(Default)]
pub struct LinkInfo {
    kind: u32,
    /// Its own number.
    pub id: u32,
    /// Number of its program.
    pub program: u32,
    _pad: u32,
    /// Number of its interface, or 0 where that is gone.
    pub interface: u32,
    _rest: u32,
}

impl LinkInfo {
    /// Whether it holds a program at a hook.
    pub fn is_at(&self, hook: Hook) -> bool {
        self.kind
            == match hook {
                Hook::Xdp => XDP_LINK,
                Hook::Tc => TCX_LINK,
            }
    }
}

/// What a link is.
pub fn link_info(link: &OwnedFd) -> io::Result<LinkInfo> {
    let mut found = LinkInfo::default();
    // SAFETY: plain numbers, as the kernel has them.
    unsafe { info(link, &mut found)? };
    Ok(found)
}

/// Takes the program with a number off a hook of an interface, if a link of any process holds it there; whether one
/// did.
pub fn links_detach(hook: Hook, program: u32, interface: i32) -> io::Result<bool> {
    let mut id = 0;
    loop {
        let mut next = GetId { id, ..GetId::default() };
        // SAFETY: no pointers.
        match unsafe { bpf(LINK_GET_NEXT_ID, &mut next) } {
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => return Ok(false),
            result => result?,
        };
        id = next.next_id;
        let mut open = GetId { id, ..GetId::default() };
        // SAFETY: no pointers; the result is a new descriptor. A link may be gone by now.
        let Ok(link) = (unsafe { bpf(LINK_GET_FD_BY_ID, &mut open).map(|fd| owned(fd)) }) else { continue };
        let found = link_info(&link)?;
        if found.is_at(hook) && (found.program, found.interface) == (program, interface as u32) {
            let mut attributes = link.as_raw_fd() as u32;
            // SAFETY: the structure of this command has the descriptor only.
            return unsafe { bpf(LINK_DETACH, &mut attributes).map(|_| true) };
        }
    }
}

/// Attaches an XDP program to an interface for as long as the result is open.
pub fn link_create(program: &OwnedFd, interface: i32, flags: u32) -> io::Result<OwnedFd> {
    create(program, interface, ATTACH_XDP, flags)
}

/// Attaches a program to traffic control's ingress of an interface, in front of all that are there, for as long as the
/// result is open. `EINVAL` before Linux 6.6.
pub fn link_create_first(program: &OwnedFd, interface: i32) -> io::Result<OwnedFd> {
    create(program, interface, ATTACH_TCX_INGRESS, FIRST)
}

fn create(program: &OwnedFd, interface: i32, attach_type: u32, flags: u32) -> io::Result<OwnedFd> {
    let (prog_fd, target_ifindex) = (program.as_raw_fd() as u32, interface as u32);
    let mut attributes = LinkCreate { prog_fd, target_ifindex, attach_type, flags };
    // SAFETY: no pointers; the result is a new descriptor.
    unsafe { Ok(owned(bpf(LINK_CREATE, &mut attributes)?)) }
}

/// The programs at traffic control's ingress of an interface of this thread's network namespace, in their order: each
/// one's number, and that of the link that holds it there, 0 where none does.
pub fn at_ingress(interface: i32) -> io::Result<Vec<(u32, u32)>> {
    let (mut programs, mut links) = ([0u32; MOST], [0u32; MOST]);
    let mut query = Query {
        target_ifindex: interface as u32,
        attach_type: ATTACH_TCX_INGRESS,
        prog_ids: programs.as_mut_ptr() as u64,
        link_ids: links.as_mut_ptr() as u64,
        count: MOST as u32,
        ..Query::default()
    };
    // SAFETY: both arrays have as many places as is told, and live through the call.
    match unsafe { bpf(PROG_QUERY, &mut query) } {
        // Where none was ever.
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => return Ok(Vec::new()),
        result => result?,
    };
    Ok(programs.into_iter().zip(links).take(query.count as usize).collect())
}

/// Puts another program in the place of a link's, between two packets.
pub fn link_update(link: &OwnedFd, program: &OwnedFd) -> io::Result<()> {
    let (link_fd, new_prog_fd) = (link.as_raw_fd() as u32, program.as_raw_fd() as u32);
    let mut attributes = LinkUpdate { link_fd, new_prog_fd, ..LinkUpdate::default() };
    // SAFETY: no pointers.
    unsafe { bpf(LINK_UPDATE, &mut attributes).map(drop) }
}
