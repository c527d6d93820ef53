//! Packets as text: built, shown and compared with the program's own protocol declarations.
//!
//! ```text
//! ether(dst=02:00:00:00:01:01, src=02:00:00:00:00:11, type=0x0800)
//!     /ipv4(total_length=28, ttl=64, protocol=17, src=10.0.1.11, dst=10.0.2.13)/hex(00 01 02 03)/zero(4)/pad(60)
//! ```
//!
//! A layer is a protocol of the program, `hex(…)`, `text("…")`, `zero(BYTES)`, `pad(LENGTH)` (zeros up to a length of the
//! whole packet) or the name of a definition. A field that is not named has its declared default or zero; a declared
//! header checksum is computed unless it is given. `+` in place of `/` adds bytes to the header before it, such as
//! options: the checksum covers them.
//!
//! | file | what it does |
//! |---|---|
//! | `build` | text → bytes |
//! | `cursor` | characters, with their columns |
//! | `dissect` | bytes → headers with named fields |
//! | `show` | bytes → text; the differences of two packets |

mod build;
mod cursor;
mod dissect;
mod show;

use std::collections::BTreeMap;

pub use build::build;
pub use dissect::{FieldValue, Layer, dissect};
pub use show::{describe, differences, hex_dump, text};

/// Names that packet text may use: for packets, layers or field values.
pub type Definitions = BTreeMap<String, String>;

/// What is wrong with a packet's text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("column {column}: {problem}")]
pub struct PacketError {
    /// Column in characters, counted from 1.
    pub column: usize,
    /// What is wrong, and what is accepted.
    pub problem: String,
}

/// Longest packet that text may describe, in bytes.
pub const MAX_PACKET: usize = 65535;

/// The Internet checksum (RFC 1071) of a header whose checksum field is zero. An odd last byte is a word's upper half.
fn checksum(header: &[u8]) -> u16 {
    let word = |pair: &[u8]| u64::from(pair[0]) << 8 | u64::from(pair.get(1).copied().unwrap_or(0));
    let mut sum: u64 = header.chunks(2).map(word).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}
