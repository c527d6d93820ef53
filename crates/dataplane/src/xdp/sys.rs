//! The system call bpf(2), as far as it is needed.

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use crate::sys::check;

/// Commands (`enum bpf_cmd`).
const MAP_CREATE: libc::c_long = 0;
const MAP_LOOKUP_ELEM: libc::c_long = 1;
const MAP_UPDATE_ELEM: libc::c_long = 2;
const MAP_DELETE_ELEM: libc::c_long = 3;
const PROG_LOAD: libc::c_long = 5;
const OBJ_PIN: libc::c_long = 6;
const OBJ_GET: libc::c_long = 7;
const PROG_TEST_RUN: libc::c_long = 10;
const OBJ_GET_INFO_BY_FD: libc::c_long = 15;
const RAW_TRACEPOINT_OPEN: libc::c_long = 17;
const LINK_CREATE: libc::c_long = 28;
const LINK_UPDATE: libc::c_long = 29;
const LINK_GET_FD_BY_ID: libc::c_long = 30;
const LINK_GET_NEXT_ID: libc::c_long = 31;
const LINK_DETACH: libc::c_long = 34;

/// Kinds of maps (`enum bpf_map_type`).
#[derive(Clone, Copy, Debug)]
#[repr(u32)]
pub enum MapType {
    Hash = 1,
    Array = 2,
    ProgArray = 3,
    ArrayOfMaps = 12,
    DevMap = 14,
    XskMap = 17,
}

/// The process can map it.
pub const MMAPABLE: u32 = 1 << 10;

/// `BPF_PROG_TYPE_XDP`, `BPF_PROG_TYPE_RAW_TRACEPOINT`
const XDP: u32 = 6;
const RAW_TRACEPOINT: u32 = 17;
/// `BPF_LINK_TYPE_XDP`
const XDP_LINK: u32 = 6;
/// `BPF_XDP`, of `enum bpf_attach_type`
const ATTACH_XDP: u32 = 37;

/// Frames of a test run are sent (`BPF_F_TEST_XDP_LIVE_FRAMES`).
const LIVE_FRAMES: u32 = 1 << 1;

/// Packets in several parts are shown to the program, too (`BPF_F_XDP_HAS_FRAGS`).
pub const FRAGS: u32 = 1 << 5;

#[repr(C)]
#[derive(Default)]
struct MapCreate {
    map_type: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
    map_flags: u32,
    inner_map_fd: u32,
    numa_node: u32,
    map_name: [u8; 16],
}

#[repr(C)]
#[derive(Default)]
struct MapElem {
    map_fd: u32,
    _pad: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[repr(C)]
#[derive(Default)]
struct ProgLoad {
    prog_type: u32,
    insn_cnt: u32,
    insns: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log_buf: u64,
    kern_version: u32,
    prog_flags: u32,
    prog_name: [u8; 16],
}

#[repr(C)]
#[derive(Default)]
struct Pin {
    pathname: u64,
    bpf_fd: u32,
    file_flags: u32,
}

#[repr(C)]
#[derive(Default)]
struct GetInfo {
    bpf_fd: u32,
    info_len: u32,
    info: u64,
}

#[repr(C)]
#[derive(Default)]
struct OpenTracepoint {
    name: u64,
    prog_fd: u32,
    _pad: u32,
    cookie: u64,
}

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

#[repr(C)]
#[derive(Default)]
struct TestRun {
    prog_fd: u32,
    retval: u32,
    data_size_in: u32,
    data_size_out: u32,
    data_in: u64,
    data_out: u64,
    repeat: u32,
    duration: u32,
    ctx_size_in: u32,
    ctx_size_out: u32,
    ctx_in: u64,
    ctx_out: u64,
    flags: u32,
    cpu: u32,
    batch_size: u32,
    _pad: u32,
}

/// # Safety
/// What the structure's pointers lead to is as the command wants it, for as long as the call takes.
unsafe fn bpf<T>(command: libc::c_long, attributes: &mut T) -> io::Result<i32> {
    // SAFETY: the structure begins with what the kernel reads and writes, and its size is told; the rest by the caller.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, (&raw mut *attributes), size_of::<T>()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as i32) }
}

/// # Safety
/// The number is a descriptor that nobody owns yet.
unsafe fn owned(fd: i32) -> OwnedFd {
    // SAFETY: by the caller's promise.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

/// A name as the kernel takes it.
fn name(text: &str) -> [u8; 16] {
    let mut name = [0; 16];
    let good = text.bytes().map(|byte| if byte.is_ascii_alphanumeric() { byte } else { b'_' });
    name.iter_mut().take(15).zip(good).for_each(|(to, from)| *to = from);
    name
}

/// An instruction (`struct bpf_insn`), little-endian.
pub const fn instruction(op: u8, to: u8, from: u8, offset: i16, number: i32) -> [u8; 8] {
    let ([o0, o1], [n0, n1, n2, n3]) = (offset.to_le_bytes(), number.to_le_bytes());
    [op, from << 4 | to, o0, o1, n0, n1, n2, n3]
}

/// A map.
pub fn map_create(kind: MapType, value_size: u32, entries: u32, flags: u32, named: &str) -> io::Result<OwnedFd> {
    let mut attributes = MapCreate {
        map_type: kind as u32,
        key_size: 4,
        value_size,
        max_entries: entries,
        map_flags: flags,
        map_name: name(named),
        ..MapCreate::default()
    };
    // SAFETY: no pointers; the result is a new descriptor.
    unsafe { Ok(owned(bpf(MAP_CREATE, &mut attributes)?)) }
}

/// A set of keys of so many bytes, at most so many of them.
pub fn set_create(key_size: u32, entries: u32, named: &str) -> io::Result<OwnedFd> {
    let mut attributes = MapCreate {
        map_type: MapType::Hash as u32,
        key_size,
        value_size: 1,
        max_entries: entries,
        map_name: name(named),
        ..MapCreate::default()
    };
    // SAFETY: no pointers; the result is a new descriptor.
    unsafe { Ok(owned(bpf(MAP_CREATE, &mut attributes)?)) }
}

/// Adds a key, which has as many bytes as the set's keys.
pub fn set_insert<const N: usize>(set: &OwnedFd, key: &[u8; N]) -> io::Result<()> {
    let (key, value) = (key.as_ptr() as u64, (&raw const PRESENT) as u64);
    let mut attributes = MapElem { map_fd: set.as_raw_fd() as u32, key, value, ..MapElem::default() };
    // SAFETY: key and value live through the call and are as long as the set's.
    unsafe { bpf(MAP_UPDATE_ELEM, &mut attributes).map(drop) }
}

/// The value of a set's keys.
static PRESENT: u8 = 1;

/// Takes a key out of a set; nothing where it is not there.
pub fn set_remove<const N: usize>(set: &OwnedFd, key: &[u8; N]) -> io::Result<()> {
    let mut attributes = MapElem { map_fd: set.as_raw_fd() as u32, key: key.as_ptr() as u64, ..MapElem::default() };
    // SAFETY: the key lives through the call and is as long as the set's.
    match unsafe { bpf(MAP_DELETE_ELEM, &mut attributes) } {
        Err(error) if error.raw_os_error() != Some(libc::ENOENT) => Err(error),
        _ => Ok(()),
    }
}

/// An array of one map like `inner`, which is in it from now on.
pub fn map_of_maps(inner: &OwnedFd, named: &str) -> io::Result<OwnedFd> {
    let mut attributes = MapCreate {
        map_type: MapType::ArrayOfMaps as u32,
        key_size: 4,
        value_size: 4,
        max_entries: 1,
        inner_map_fd: inner.as_raw_fd() as u32,
        map_name: name(named),
        ..MapCreate::default()
    };
    // SAFETY: no pointers; the result is a new descriptor.
    let outer = unsafe { owned(bpf(MAP_CREATE, &mut attributes)?) };
    map_update(&outer, 0, number(inner) as u32)?;
    Ok(outer)
}

/// Sets an element of a map of 32-bit values.
pub fn map_update(map: &OwnedFd, key: u32, value: u32) -> io::Result<()> {
    let (key, value) = ((&raw const key) as u64, (&raw const value) as u64);
    let mut attributes = MapElem { map_fd: map.as_raw_fd() as u32, key, value, ..MapElem::default() };
    // SAFETY: key and value are words that live through the call.
    unsafe { bpf(MAP_UPDATE_ELEM, &mut attributes).map(drop) }
}

/// A map that holds a text.
pub fn text_map(text: &str) -> io::Result<OwnedFd> {
    let mut bytes = text.as_bytes().to_vec();
    // The kernel's values are whole words; what is behind the text is zero.
    bytes.resize((text.len() + 1).next_multiple_of(8), 0);
    let map = map_create(MapType::Array, bytes.len() as u32, 1, 0, "text")?;
    let (key, first) = (0u32, bytes.as_ptr() as u64);
    let (map_fd, key) = (map.as_raw_fd() as u32, (&raw const key) as u64);
    let mut attributes = MapElem { map_fd, key, value: first, ..MapElem::default() };
    // SAFETY: key and value live through the call and are as long as the map's.
    unsafe { bpf(MAP_UPDATE_ELEM, &mut attributes)? };
    Ok(map)
}

/// The text of a map of [`text_map`].
pub fn text_of_map(map: &OwnedFd) -> io::Result<String> {
    // The first fields of `struct bpf_map_info`: type, number, sizes of keys and values.
    let mut numbers = [0u32; 4];
    // SAFETY: plain numbers.
    unsafe { info(map, &mut numbers)? };
    let (mut bytes, key) = (vec![0u8; (numbers[3] as usize).next_multiple_of(8)], 0u32);
    let (map_fd, key) = (map.as_raw_fd() as u32, (&raw const key) as u64);
    let mut attributes = MapElem { map_fd, key, value: bytes.as_mut_ptr() as u64, ..MapElem::default() };
    // SAFETY: key and value live through the call and are as long as the map's.
    unsafe { bpf(MAP_LOOKUP_ELEM, &mut attributes)? };
    bytes.truncate(bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len()));
    String::from_utf8(bytes).map_err(io::Error::other)
}

/// Takes an element out of a map; nothing where there is none.
pub fn map_delete(map: &OwnedFd, key: u32) -> io::Result<()> {
    let key = (&raw const key) as u64;
    let mut attributes = MapElem { map_fd: map.as_raw_fd() as u32, key, ..MapElem::default() };
    // SAFETY: the key is a word that lives through the call.
    match unsafe { bpf(MAP_DELETE_ELEM, &mut attributes) } {
        Err(error) if error.raw_os_error() != Some(libc::ENOENT) => Err(error),
        _ => Ok(()),
    }
}

/// An XDP program, with flags such as [`FRAGS`]. The log of the kernel's verifier goes to `log`, as far as it fits, where that is
/// not empty.
pub fn prog_load(code: &[u8], named: &str, flags: u32, log: &mut [u8]) -> io::Result<OwnedFd> {
    load(XDP, code, named, flags, log)
}

/// A program for tracepoints.
pub fn tracer_load(code: &[u8], named: &str) -> io::Result<OwnedFd> {
    load(RAW_TRACEPOINT, code, named, 0, &mut [])
}

/// Runs a program at a tracepoint for as long as the result is open.
pub fn trace(program: &OwnedFd, tracepoint: &CStr) -> io::Result<OwnedFd> {
    let (name, prog_fd) = (tracepoint.as_ptr() as u64, program.as_raw_fd() as u32);
    let mut attributes = OpenTracepoint { name, prog_fd, ..OpenTracepoint::default() };
    // SAFETY: the name ends with a zero byte and lives through the call; the result is a new descriptor.
    unsafe { Ok(owned(bpf(RAW_TRACEPOINT_OPEN, &mut attributes)?)) }
}

/// The kernel's number of a map.
pub fn object_id(object: &OwnedFd) -> io::Result<u32> {
    // The first fields of `struct bpf_map_info` and of `struct bpf_prog_info`: type and number.
    let mut numbers = [0u32; 2];
    // SAFETY: plain numbers.
    unsafe { info(object, &mut numbers)? };
    Ok(numbers[1])
}

/// What a link is.
pub fn link_info(link: &OwnedFd) -> io::Result<LinkInfo> {
    let mut found = LinkInfo::default();
    // SAFETY: plain numbers, as the kernel has them.
    unsafe { info(link, &mut found)? };
    Ok(found)
}

/// Gives an object a name in a BPF file system.
pub fn pin(object: &OwnedFd, path: &CStr) -> io::Result<()> {
    let mut attributes = Pin { pathname: path.as_ptr() as u64, bpf_fd: object.as_raw_fd() as u32, file_flags: 0 };
    // SAFETY: the name is a string that lives through the call.
    unsafe { bpf(OBJ_PIN, &mut attributes).map(drop) }
}

/// The object with a name.
pub fn pinned(path: &CStr) -> io::Result<OwnedFd> {
    let mut attributes = Pin { pathname: path.as_ptr() as u64, ..Pin::default() };
    // SAFETY: as above; the result is a new descriptor.
    unsafe { Ok(owned(bpf(OBJ_GET, &mut attributes)?)) }
}

/// Whether a BPF file system is mounted there.
pub fn is_bpf_fs(path: &CStr) -> io::Result<bool> {
    // SAFETY: statfs is plain data for which zero is valid; the kernel fills it.
    let found = unsafe {
        let mut found: libc::statfs = std::mem::zeroed();
        if libc::statfs(path.as_ptr(), &mut found) != 0 {
            return Err(io::Error::last_os_error());
        }
        found
    };
    Ok(found.f_type == libc::BPF_FS_MAGIC)
}

/// Mounts one into which its owner alone may look.
pub fn mount_bpf_fs(path: &CStr) -> io::Result<()> {
    let (kind, options) = (c"bpf".as_ptr(), c"mode=0700".as_ptr());
    let flags = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
    // SAFETY: all are strings.
    let result = unsafe { libc::mount(kind, path.as_ptr(), kind, flags, options.cast()) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Enters another mount namespace, with the calling thread alone: its directories are its own from then on.
pub fn enter_mounts(namespace: &File) -> io::Result<()> {
    // SAFETY: numbers only.
    unsafe {
        check(libc::unshare(libc::CLONE_FS))?;
        check(libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNS)).map(drop)
    }
}

/// What the kernel tells of an object.
///
/// # Safety
/// The structure is the beginning of what the kernel tells of such objects, and of plain numbers.
unsafe fn info<T>(object: &OwnedFd, to: &mut T) -> io::Result<()> {
    let (bpf_fd, info_len) = (object.as_raw_fd() as u32, size_of::<T>() as u32);
    let mut attributes = GetInfo { bpf_fd, info_len, info: (&raw mut *to) as u64 };
    // SAFETY: the kernel writes as many bytes as is told, where the structure lies.
    unsafe { bpf(OBJ_GET_INFO_BY_FD, &mut attributes).map(drop) }
}

/// Takes the program with a number off an interface, if a link of anybody's holds it there; whether one did.
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

fn load(kind: u32, code: &[u8], named: &str, flags: u32, log: &mut [u8]) -> io::Result<OwnedFd> {
    let license = c"GPL";
    let mut attributes = ProgLoad {
        prog_type: kind,
        insn_cnt: (code.len() / 8) as u32,
        insns: code.as_ptr() as u64,
        license: license.as_ptr() as u64,
        log_level: u32::from(!log.is_empty()),
        log_size: log.len() as u32,
        log_buf: if log.is_empty() { 0 } else { log.as_mut_ptr() as u64 },
        prog_flags: flags,
        prog_name: name(named),
        ..ProgLoad::default()
    };
    // SAFETY: the pointers lead to memory as long as is told, which lives through the call; the result is a new descriptor.
    unsafe { Ok(owned(bpf(PROG_LOAD, &mut attributes)?)) }
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

/// Runs an XDP program once with this packet, of which so many bytes are the first piece. Gives what it returned and how many bytes
/// of `out` hold the packet now, and how many nanoseconds it took.
pub fn test_run(program: &OwnedFd, packet: &[u8], first: usize, out: &mut [u8]) -> io::Result<(u32, usize, u32)> {
    let context = Context { data_end: first as u32, ..Context::default() };
    // A whole packet needs none.
    let ctx_size_in = if first < packet.len() { size_of::<Context>() as u32 } else { 0 };
    let mut attributes = TestRun {
        prog_fd: program.as_raw_fd() as u32,
        data_size_in: packet.len() as u32,
        data_size_out: out.len() as u32,
        data_in: packet.as_ptr() as u64,
        data_out: out.as_mut_ptr() as u64,
        ctx_size_in,
        ctx_in: if ctx_size_in == 0 { 0 } else { (&raw const context) as u64 },
        repeat: 1,
        ..TestRun::default()
    };
    // SAFETY: the pointers lead to memory as long as is told, which lives through the call.
    unsafe { bpf(PROG_TEST_RUN, &mut attributes)? };
    Ok((attributes.retval, attributes.data_size_out as usize, attributes.duration))
}

/// `struct xdp_md`
#[repr(C)]
#[derive(Default)]
struct Context {
    data: u32,
    data_end: u32,
    data_meta: u32,
    ingress_ifindex: u32,
    rx_queue_index: u32,
    egress_ifindex: u32,
}

/// Runs an XDP program so many times over frames of zeros that the kernel then really sends where the program says, as if they came in
/// at an interface of the current network namespace (live frames, Documentation/bpf/bpf_prog_run.rst).
pub fn send_live(program: BorrowedFd, interface: u32, len: usize, count: u32) -> io::Result<()> {
    let frame = vec![0u8; len];
    let context = Context { data_end: len as u32, ingress_ifindex: interface, ..Context::default() };
    let mut attributes = TestRun {
        prog_fd: program.as_raw_fd() as u32,
        data_size_in: len as u32,
        data_in: frame.as_ptr() as u64,
        repeat: count,
        ctx_size_in: size_of::<Context>() as u32,
        ctx_in: (&raw const context) as u64,
        flags: LIVE_FRAMES,
        ..TestRun::default()
    };
    // SAFETY: the pointers lead to memory as long as is told, which lives through the call.
    unsafe { bpf(PROG_TEST_RUN, &mut attributes).map(drop) }
}

/// The number of a descriptor, as instructions hold it.
pub fn number(fd: &OwnedFd) -> RawFd {
    fd.as_raw_fd()
}

/// Unmounts a file system, as soon as nobody uses it.
pub fn unmount(path: &CStr) -> io::Result<()> {
    // SAFETY: the path is a string.
    let result = unsafe { libc::umount2(path.as_ptr(), libc::MNT_DETACH) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
