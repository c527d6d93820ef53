//! Waiting for descriptors, and waking the thread that waits.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::time::Duration;

use super::call::check;

/// Waits until one of the descriptors is readable or the time is over. Interruptions count as time over. Whether there
/// is nothing but an error at one of them, which would be there at once the next time, too.
pub fn poll(fds: &mut [libc::pollfd], timeout: Duration) -> bool {
    let timeout = libc::timespec { tv_sec: timeout.as_secs() as libc::time_t, tv_nsec: timeout.subsec_nanos().into() };
    // SAFETY: the pointer and the length describe the slice; signals stay as they are.
    unsafe { libc::ppoll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, &timeout, std::ptr::null()) };
    let any = |events| fds.iter().any(|fd| fd.revents & events != 0);
    any(libc::POLLERR | libc::POLLNVAL | libc::POLLHUP) && !any(libc::POLLIN)
}

/// Wakes a thread that sleeps in [`poll`], and costs nothing while it does not.
#[derive(Debug)]
pub struct Doorbell {
    fd: OwnedFd,
    sleeping: AtomicBool,
}

impl Doorbell {
    /// A new one; its owner is awake.
    pub fn new() -> io::Result<Self> {
        // SAFETY: creates a descriptor that only the result owns.
        let fd = unsafe { OwnedFd::from_raw_fd(check(libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK))?) };
        Ok(Doorbell { fd, sleeping: AtomicBool::new(false) })
    }

    /// What the owner waits for.
    pub fn fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// To be called after what the owner is to see was made visible.
    pub fn ring(&self) {
        // Either the owner sees what was made visible before it sleeps, or this sees that it sleeps.
        fence(Ordering::SeqCst);
        if self.sleeping.load(Ordering::Relaxed) {
            let one = 1u64;
            // SAFETY: the kernel reads eight bytes. It fails only where the bell has been rung 2^64 times.
            unsafe { libc::write(self.fd(), (&raw const one).cast(), size_of::<u64>()) };
        }
    }

    /// The owner is about to sleep. It looks once more at what it waits for between this and [`poll`].
    pub fn sleep(&self) {
        self.sleeping.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// The owner is awake again.
    pub fn wake_up(&self) {
        self.sleeping.store(false, Ordering::Relaxed);
        let mut rung = 0u64;
        // SAFETY: the kernel writes eight bytes, or nothing where it was not rung.
        unsafe { libc::read(self.fd(), (&raw mut rung).cast(), size_of::<u64>()) };
    }
}
