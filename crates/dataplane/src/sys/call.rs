//! What system calls have in common: results, and options of sockets.

use std::ffi::c_void;
use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, OwnedFd};

/// Turns a −1 result into the error that `errno` holds.
pub fn check(result: i32) -> io::Result<i32> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Sets a socket option. `T` is the structure that the kernel defines for this option: plain data.
pub fn set_option<T: Copy>(fd: &OwnedFd, level: i32, name: i32, value: &T) -> io::Result<()> {
    // SAFETY: the kernel reads `size_of::<T>()` bytes from the value and keeps nothing.
    unsafe {
        let len = size_of::<T>() as libc::socklen_t;
        check(libc::setsockopt(fd.as_raw_fd(), level, name, (&raw const *value).cast::<c_void>(), len)).map(drop)
    }
}
