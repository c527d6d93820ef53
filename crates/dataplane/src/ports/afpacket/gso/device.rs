//! What divides super-packets at an interface, and whether packets come out at its other end then.

use std::os::fd::OwnedFd;

use crate::ports::spec::Gso;
use crate::sys::{self, ethtool};

/// What a device takes unfinished, if it is on: super-packets of UDP, and checksums.
const UNFINISHED: [&str; 4] = ["tx-udp-segmentation", "tx-checksum-ip-generic", "tx-checksum-ipv4", "tx-checksum-ipv6"];

/// Whether super-packets are sent to an interface, and a line about it: what divides them, or why they are not sent.
///
/// A virtual device that takes what is unfinished does not finish it, but hands it on. Behind it may be a kernel, which
/// takes it as it is, or a program like this one, which can't.
pub fn takes(socket: &OwnedFd, interface: &str, wanted: Gso) -> (bool, Option<String>) {
    // One that does not tell may have all of them.
    let on = ethtool::are_on(socket, interface, UNFINISHED).unwrap_or([true; UNFINISHED.len()]);
    let has_hardware = ethtool::has_hardware(socket, interface).unwrap_or(false);
    let divider = if on[0] { "the device" } else { "the kernel" };
    match wanted {
        Gso::Off => (false, None),
        // Older kernels do not know them of packet sockets.
        _ if !sys::is_linux_from(6, 2) => (false, Some("sends no super-packets of UDP: they take Linux 6.2".into())),
        Gso::Auto if !has_hardware && on.contains(&true) => (
            false,
            Some(format!(
                "sends no super-packets of UDP, for a virtual interface would hand them on undivided: run `ethtool -K \
                 {interface} tx off tx-udp-segmentation off`, or set gso = \"on\" where a kernel receives them"
            )),
        ),
        Gso::Auto | Gso::On => (true, Some(format!("sends super-packets of UDP, which {divider} divides"))),
    }
}
