//! The system calls that need `unsafe`.
#![allow(unsafe_code)]

use std::io::{self, IoSlice};
use std::mem::{MaybeUninit, size_of, zeroed};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use nix::libc::{self, c_int, c_uint, socklen_t};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::prctl;
use nix::sys::signal::{SigHandler, Signal, signal};
use nix::unistd::{Pid, getppid};
use nix::{setsockopt_impl, sockopt_impl};

// The macro's expansion is nix's own setsockopt(2) call with the type `c_int` that packet(7) gives for this option.
sockopt_impl!(
    /// Asks for `struct tpacket_auxdata` with each frame: it holds the VLAN tag that the kernel took out of the frame.
    PacketAuxdata, SetOnly, libc::SOL_PACKET, libc::PACKET_AUXDATA, bool);

/// Makes the kernel kill the command's process when the thread that started it ends, and lets it take the signals that
/// end programs even where this process ignores them (as a shell's background jobs ignore SIGINT).
///
/// The kernel watches the thread, not the process, so start the command from a thread that lives long enough.
pub(crate) fn die_with_parent(command: &mut Command) {
    let parent = std::process::id();
    let hook = move || {
        for ending in [Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT, Signal::SIGTERM] {
            // SAFETY: SIG_DFL installs no handler, so there is none that could be unsound.
            unsafe { signal(ending, SigHandler::SigDfl) }?;
        }
        prctl::set_pdeathsig(Signal::SIGKILL)?;
        // The parent may have died before the line above: then nothing would end this process.
        if getppid().as_raw().cast_unsigned() != parent {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        Ok(())
    };
    // SAFETY: between fork and exec the hook only makes async-signal-safe system calls; it neither allocates nor takes
    // a lock (io::Error::from_raw_os_error and From<Errno> store a number).
    unsafe { command.pre_exec(hook) };
}

/// A type without padding or pointers that a socket option may have as its value.
///
/// # Safety
/// Every byte of a value is initialised, and every pattern of bytes is a value.
pub(crate) unsafe trait Plain: Copy {}
// SAFETY: integers.
unsafe impl Plain for c_int {}
// SAFETY: four integers of the same size.
unsafe impl Plain for libc::tpacket_req {}
// SAFETY: two integers of the same size.
unsafe impl Plain for libc::tpacket_stats {}

/// Sets a socket option, setsockopt(2).
pub(crate) fn set_option<T: Plain>(socket: BorrowedFd<'_>, level: c_int, name: c_int, value: &T) -> io::Result<()> {
    let length = size_of::<T>() as socklen_t;
    // SAFETY: the kernel reads `length` bytes at `value`, which are all initialised.
    let result = unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, (&raw const *value).cast(), length) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Reads a socket option, getsockopt(2).
pub(crate) fn option<T: Plain>(socket: BorrowedFd<'_>, level: c_int, name: c_int) -> io::Result<T> {
    let mut value = MaybeUninit::<T>::zeroed();
    let mut length = size_of::<T>() as socklen_t;
    // SAFETY: the kernel writes at most `length` bytes, the size of `value`.
    let result = unsafe { libc::getsockopt(socket.as_raw_fd(), level, name, value.as_mut_ptr().cast(), &mut length) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: all bytes were set to zero at least, and every pattern of bytes is a `T`.
    Ok(unsafe { value.assume_init() })
}

/// Binds a packet socket to a device and makes it receive frames of `protocol` (`ETH_P_…`, 0 for none).
pub(crate) fn bind_packet(socket: BorrowedFd<'_>, index: c_uint, protocol: u16) -> io::Result<()> {
    // SAFETY: integers and arrays of integers, for which zero is a value.
    let mut address: libc::sockaddr_ll = unsafe { zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = protocol.to_be();
    address.sll_ifindex = index.cast_signed();
    let length = size_of::<libc::sockaddr_ll>() as socklen_t;
    // SAFETY: the kernel reads `length` bytes at `address`.
    let result = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Most frames of one [`send_batch`].
pub(crate) const BATCH: usize = 64;

/// Sends frames, at most [`BATCH`], without waiting; sendmmsg(2). The number that the kernel took, at least one.
///
/// # Errors
/// Why it did not take the first.
pub(crate) fn send_batch(socket: BorrowedFd<'_>, frames: &[IoSlice<'_>]) -> io::Result<usize> {
    debug_assert!(!frames.is_empty());
    // SAFETY: integers and null pointers.
    let mut headers: [libc::mmsghdr; BATCH] = unsafe { zeroed() };
    let count = frames.len().min(BATCH);
    for (header, frame) in headers.iter_mut().zip(frames) {
        // IoSlice has the layout of `iovec` (its documentation promises that); the kernel only reads it.
        header.msg_hdr.msg_iov = (&raw const *frame).cast_mut().cast();
        header.msg_hdr.msg_iovlen = 1;
    }
    // SAFETY: `count` headers are initialised, each with one iovec that outlives the call.
    let sent = unsafe { libc::sendmmsg(socket.as_raw_fd(), headers.as_mut_ptr(), count as c_uint, libc::MSG_DONTWAIT) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// Asks for this thread to run before others when it wakes. Refused without privileges; then it waits its turn.
pub(crate) fn prefer_this_thread() {
    // SAFETY: no memory is involved.
    let _ = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, -15) };
}

/// Makes this thread run at once whenever it wants to, before all ordinary threads of its CPU (SCHED_RR, sched(7)). The
/// kernel leaves those a twentieth of the time.
pub(crate) fn run_first() -> io::Result<()> {
    let priority = libc::sched_param { sched_priority: 1 };
    // SAFETY: the kernel reads `priority`.
    let result = unsafe { libc::sched_setscheduler(0, libc::SCHED_RR, &raw const priority) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Keeps this thread on one CPU, if one is given.
pub(crate) fn stay_on(cpu: Option<usize>) -> crate::error::Result<()> {
    let Some(cpu) = cpu else { return Ok(()) };
    let mut cpus = CpuSet::new();
    cpus.set(cpu)
        .and_then(|()| sched_setaffinity(Pid::from_raw(0), &cpus))
        .map_err(|e| crate::error::Error::system(format!("cannot run on CPU {cpu}"), e))
}

/// A process that is meant by its descriptor, so that its number cannot come to mean another one meanwhile.
pub(crate) fn pidfd(process: i32) -> io::Result<OwnedFd> {
    // SAFETY: no memory is involved.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, process, 0) };
    match c_int::try_from(fd) {
        // SAFETY: the kernel made this descriptor for us just now, and closes it when a program is executed
        // (pidfd_open(2)).
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Kills a process.
pub(crate) fn kill_pidfd(process: BorrowedFd<'_>) -> io::Result<()> {
    let no_info = std::ptr::null::<libc::siginfo_t>();
    // SAFETY: without a siginfo_t the kernel reads no memory.
    let result = unsafe { libc::syscall(libc::SYS_pidfd_send_signal, process.as_raw_fd(), libc::SIGKILL, no_info, 0) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
