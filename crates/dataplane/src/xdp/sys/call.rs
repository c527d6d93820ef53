//! The call itself, and what it tells of any object.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// A command (`enum bpf_cmd`).
const OBJ_GET_INFO_BY_FD: libc::c_long = 15;

#[repr(C)]
#[derive(Default)]
struct GetInfo {
    bpf_fd: u32,
    info_len: u32,
    info: u64,
}

/// # Safety
/// What the structure's pointers lead to is as the command wants it, for as long as the call takes.
pub(super) unsafe fn bpf<T>(command: libc::c_long, attributes: &mut T) -> io::Result<i32> {
    // SAFETY: the structure begins with what the kernel reads and writes, and its size is told; the rest by the caller.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, (&raw mut *attributes), size_of::<T>()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as i32) }
}

/// # Safety
/// The number is a descriptor without an owner yet.
pub(super) unsafe fn owned(fd: i32) -> OwnedFd {
    // SAFETY: by the caller's promise.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

/// A name as the kernel takes it.
pub(super) fn name(text: &str) -> [u8; 16] {
    let mut name = [0; 16];
    let good = text.bytes().map(|byte| if byte.is_ascii_alphanumeric() { byte } else { b'_' });
    name.iter_mut().take(15).zip(good).for_each(|(to, from)| *to = from);
    name
}

/// What the kernel tells of an object.
///
/// # Safety
/// The structure is the beginning of what the kernel tells of such objects, and of plain numbers.
pub(super) unsafe fn info<T>(object: &OwnedFd, to: &mut T) -> io::Result<()> {
    let (bpf_fd, info_len) = (object.as_raw_fd() as u32, size_of::<T>() as u32);
    let mut attributes = GetInfo { bpf_fd, info_len, info: (&raw mut *to) as u64 };
    // SAFETY: the kernel writes as many bytes as is told, where the structure lies.
    unsafe { bpf(OBJ_GET_INFO_BY_FD, &mut attributes).map(drop) }
}

/// The kernel's number of a map.
pub fn object_id(object: &OwnedFd) -> io::Result<u32> {
    // The first fields of `struct bpf_map_info` and of `struct bpf_prog_info`: type and number.
    let mut numbers = [0u32; 2];
    // SAFETY: plain numbers.
    unsafe { info(object, &mut numbers)? };
    Ok(numbers[1])
}

/// The number of a descriptor, as instructions hold it.
pub fn number(fd: &OwnedFd) -> RawFd {
    fd.as_raw_fd()
}
