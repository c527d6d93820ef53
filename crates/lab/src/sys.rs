//! The system calls that need `unsafe`.
#![allow(unsafe_code)]

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use nix::libc;
use nix::sys::prctl;
use nix::sys::signal::{SigHandler, Signal, signal};
use nix::unistd::getppid;
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
        // The parent may have died before the line above: then nobody would end this process.
        if getppid().as_raw().cast_unsigned() != parent {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        Ok(())
    };
    // SAFETY: between fork and exec the hook only makes async-signal-safe system calls; it neither allocates nor takes a
    // lock (io::Error::from_raw_os_error and From<Errno> store a number).
    unsafe { command.pre_exec(hook) };
}
