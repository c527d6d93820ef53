//! What a format finds in a file, whichever it is.

use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// Link type of Ethernet, in both formats.
pub(super) const ETHERNET: u32 = 1;
/// Bytes of the longest packet that is taken for one; libpcap's limit, too.
pub(super) const LONGEST: usize = 262_144;

/// What a format finds at the window's beginning.
pub(super) enum Found {
    /// A whole packet: where its bytes lie, and how many bytes its record has.
    Packet {
        bytes: Range<usize>,
        record: usize,
        time: Duration,
        /// Number of the interface in its section, where the format has interfaces.
        number: Option<u32>,
        interface: Option<Arc<str>>,
        outgoing: bool,
    },
    /// Something else, which the window has left behind.
    Other,
    /// The end of what can be read.
    End,
}

/// Why a file can't be read on.
pub(super) enum Trouble {
    /// The system.
    Read(io::Error),
    /// Packets of another link type.
    Link(u32),
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Self {
        Trouble::Read(error)
    }
}
