//! The process and its threads.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use nix::unistd::User;

use super::call::check;

/// The user that the systemd unit runs instances as.
const SERVICE_USER: &str = "millrace";

/// The user by whose rights this process acts.
pub fn effective_user() -> u32 {
    // SAFETY: the call reads a number, and cannot fail.
    unsafe { libc::geteuid() }
}

/// Whether this process may rely on what belongs to a user: root's and its own. Root itself looks after the service's.
pub fn is_trusted(owner: u32) -> bool {
    let is_service =
        || User::from_name(SERVICE_USER).is_ok_and(|found| found.is_some_and(|user| user.uid == owner.into()));
    owner == 0 || owner == effective_user() || (effective_user() == 0 && is_service())
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

/// Has this thread, and those that it starts, woken as soon as a time is over, and not up to 50 µs later.
pub fn wake_on_time() {
    // SAFETY: numbers only. Where it is refused, wake-ups are somewhat late.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong, 0, 0, 0) };
}

/// Has this thread, and those that it starts, get a third of the CPU time of another one that wants the same CPU.
pub fn give_way() {
    // SAFETY: numbers only; 0 names the calling thread. Any thread may take less.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 5) };
}

/// Whether the kernel is Linux of this version, or a later one; not where it does not tell.
pub fn is_linux_from(major: u32, minor: u32) -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|number| number.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= (major, minor)
}
