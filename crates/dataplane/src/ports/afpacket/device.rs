//! What divides super-packets at an interface, and whether packets come out at its other end then.

use std::os::fd::OwnedFd;

use crate::ports::gso::{self, Joiner};
use crate::ports::spec::Gso;
use crate::sys::ethtool;

/// What a device takes unfinished, if it is on: super-packets, and checksums.
const UNFINISHED: [&str; 6] = [
    "tx-udp-segmentation",
    "tx-tcp-segmentation",
    "tx-tcp6-segmentation",
    "tx-checksum-ip-generic",
    "tx-checksum-ipv4",
    "tx-checksum-ipv6",
];
/// Those of them that divide.
const DIVIDES: usize = 3;

/// The socket for super-packets to an interface, where there is to be one, and a line about it. `socket` asks.
pub fn joiner(socket: &OwnedFd, interface: &str, index: i32, wanted: Gso) -> (Option<Joiner>, Option<String>) {
    match takes(socket, interface, wanted) {
        (None, about) => (None, about),
        (Some(takes_udp), about) => match Joiner::open(index, takes_udp) {
            Ok(joiner) => (Some(joiner), about),
            Err(error) => (None, Some(format!("sends no super-packets: {error}"))),
        },
    }
}

/// Whether super-packets are sent to an interface: `None`, or whether they may be of UDP, too; and a line about it:
/// what divides them, or why they are not sent.
///
/// A virtual device that takes what is unfinished does not finish it, but hands it on. Behind it may be a kernel, which
/// takes it as it is, or a program that can't.
fn takes(socket: &OwnedFd, interface: &str, wanted: Gso) -> (Option<bool>, Option<String>) {
    // One that does not tell may have all of them.
    let on = ethtool::are_on(socket, interface, UNFINISHED).unwrap_or([true; UNFINISHED.len()]);
    let has_hardware = ethtool::has_hardware(socket, interface).unwrap_or(false);
    let divider = if on[..DIVIDES].contains(&false) { "the kernel" } else { "the device" };
    match wanted {
        Gso::Off => (None, None),
        Gso::Auto if !has_hardware && on.contains(&true) => (
            None,
            Some(format!(
                "sends no super-packets, for a virtual interface would hand them on undivided: run `ethtool -K {interface} tx \
                 off tx-udp-segmentation off`, or set gso = \"on\" where a kernel receives them"
            )),
        ),
        // Older kernels do not know those of UDP.
        Gso::Auto | Gso::On if !gso::knows_udp() => (
            Some(false),
            Some(format!("sends super-packets of TCP, which {divider} divides; those of UDP take Linux 6.2")),
        ),
        Gso::Auto | Gso::On => (Some(true), Some(format!("sends super-packets, which {divider} divides"))),
    }
}
