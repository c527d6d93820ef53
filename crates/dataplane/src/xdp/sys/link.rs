//! Links: what holds a program at an interface.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use super::call::{bpf, info, owned};

/// Commands (`enum bpf_cmd`).
const LINK_CREATE: libc::c_long = 28;
const LINK_UPDATE: libc::c_long = 29;
const LINK_GET_FD_BY_ID: libc::c_long = 30;
const LINK_GET_NEXT_ID: libc::c_long = 31;
const LINK_DETACH: libc::c_long = 34;

/// `BPF_LINK_TYPE_XDP`
const XDP_LINK: u32 = 6;
/// `BPF_XDP`, of `enum bpf_attach_type`
const ATTACH_XDP: u32 = 37;

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

/// The first fields of `struct bpf_link_info`.
#[repr(C)]
#[derive(Default)]
pub struct LinkInfo {
    kind: u32,
    id: u32,
    /// Number of its program.
    pub program: u32,
    _pad: u32,
    /// Of a link of an XDP program: number of its interface, or 0 where that is gone.
    pub interface: u32,
    _rest: u32,
}

/// What a link is.
pub fn link_info(link: &OwnedFd) -> io::Result<LinkInfo> {
    let mut found = LinkInfo::default();
    // SAFETY: plain numbers, as the kernel has them.
    unsafe { info(link, &mut found)? };
    Ok(found)
}

/// Takes the program with a number off an interface, if a link of any process holds it there; whether one did.
pub fn links_detach(program: u32, interface: i32) -> io::Result<bool> {
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
        if (found.kind, found.program, found.interface) == (XDP_LINK, program, interface as u32) {
            let mut attributes = link.as_raw_fd() as u32;
            // SAFETY: the structure of this command has the descriptor only.
            return unsafe { bpf(LINK_DETACH, &mut attributes).map(|_| true) };
        }
    }
}

/// Attaches an XDP program to an interface for as long as the result is open.
pub fn link_create(program: &OwnedFd, interface: i32, flags: u32) -> io::Result<OwnedFd> {
    let mut attributes = LinkCreate {
        prog_fd: program.as_raw_fd() as u32,
        target_ifindex: interface as u32,
        attach_type: ATTACH_XDP,
        flags,
    };
    // SAFETY: no pointers; the result is a new descriptor.
    unsafe { Ok(owned(bpf(LINK_CREATE, &mut attributes)?)) }
}

/// Puts another program in the place of a link's, between two packets.
pub fn link_update(link: &OwnedFd, program: &OwnedFd) -> io::Result<()> {
    let (link_fd, new_prog_fd) = (link.as_raw_fd() as u32, program.as_raw_fd() as u32);
    let mut attributes = LinkUpdate { link_fd, new_prog_fd, ..LinkUpdate::default() };
    // SAFETY: no pointers.
    unsafe { bpf(LINK_UPDATE, &mut attributes).map(drop) }
}
