//! The BPF file system: names of objects, and where it is mounted.

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use super::call::{bpf, owned};
use crate::sys::check;

/// Commands (`enum bpf_cmd`).
const OBJ_PIN: libc::c_long = 6;
const OBJ_GET: libc::c_long = 7;

#[repr(C)]
#[derive(Default)]
struct Pin {
    pathname: u64,
    bpf_fd: u32,
    file_flags: u32,
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

/// Unmounts a file system, as soon as it is not used.
pub fn unmount(path: &CStr) -> io::Result<()> {
    // SAFETY: the path is a string.
    let result = unsafe { libc::umount2(path.as_ptr(), libc::MNT_DETACH) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
