//! Super-packets: what a batch has of a flow of TCP or UDP goes to the kernel as one, which it divides, or a device
//! does, or the kernel takes as it is (GSO). So the way through the kernel is taken once for all of them.
//!
//! What leaves is what would leave packet by packet, but for identifications of IPv4 packets that must not be
//! fragmented (RFC 6864: they have no meaning): see [`part`]. Packets with wrong checksums, which would be made right
//! where a super-packet is divided, leave as they are.

mod joined;
mod joiner;
mod outgoing;
mod part;
mod plan;

pub use joined::Joined;
pub use joiner::{Joiner, Outcome};
pub use outgoing::{Outgoing, PLAIN};
pub use plan::{Plan, WINDOW};

use crate::sys;

/// Whether the kernel knows super-packets of UDP that a program makes.
pub fn knows_udp() -> bool {
    sys::is_linux_from(6, 2)
}
