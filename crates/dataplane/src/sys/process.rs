//! The process and its threads.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use super::call::check;

/// The user by whose rights this process acts.
pub fn effective_user() -> u32 {
    // SAFETY: the call reads a number, and cannot fail.
    unsafe { libc::geteuid() }
}

/// Enters another network namespace, with the calling thread alone.
pub fn enter_network(namespace: &File) -> io::Result<()> {
    // SAFETY: numbers only.
    unsafe { check(libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET)).map(drop) }
}

/// What a thread said when it panicked.
pub fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message")
}
