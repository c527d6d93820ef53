//! Which bytes of packets operations touch: what costs, reports and tests go by.

use super::inst::{Op, Value};
use super::ops::Memory;
use super::program::BitRange;

/// What an operation touches of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touches {
    /// Bytes of a packet.
    Bytes {
        /// The packet.
        packet: Value,
        /// Which.
        span: Span,
        /// Whether it reads them, writes them, or reads them and writes them elsewhere.
        how: How,
    },
    /// The packet's descriptor or metadata.
    Descriptor,
    /// Nothing, and it changes nothing else either.
    Nothing,
    /// No packet, but something else: a table, a counter, what becomes of a packet.
    Other,
}

/// Bytes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Span {
    /// Bits, counted from the head, or from so many bytes behind it.
    Bits(Option<Value>, BitRange),
    /// From an offset on, so many.
    Range(Value, Value),
    /// So many in front of the head.
    Front(u32),
    /// From the head to the end.
    All,
}

impl Span {
    /// The first byte and the one behind the last, where the packet's head is at `head` and `len` bytes long. `get`
    /// gives values.
    pub(super) fn bytes(self, head: u64, len: u64, get: impl Fn(Value) -> u128) -> (u64, u64) {
        match self {
            Span::Bits(offset, bits) => {
                let from = head + offset.map_or(0, |offset| get(offset) as u64) + u64::from(bits.first_byte());
                (from, from + u64::from(bits.end_byte() - bits.first_byte()))
            }
            Span::Range(offset, bytes) => {
                let from = head + get(offset) as u64;
                (from, from + get(bytes) as u64)
            }
            Span::Front(bytes) => (head.saturating_sub(bytes.into()), head),
            Span::All => (head, head + len),
        }
    }
}

/// How bytes are touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// They are read.
    Load,
    /// They are written.
    Store,
    /// They are read and written elsewhere.
    Copy,
}

impl Op {
    /// What it touches of packets.
    pub fn touches(&self) -> Touches {
        use How::{Copy, Load, Store};
        let bytes = |packet, span, how| Touches::Bytes { packet, span, how };
        match *self {
            Op::Load { packet, bits } => bytes(packet, Span::Bits(None, bits), Load),
            Op::Store { packet, bits, .. } => bytes(packet, Span::Bits(None, bits), Store),
            Op::LoadAt { packet, offset, bits } => bytes(packet, Span::Bits(Some(offset), bits), Load),
            Op::StoreAt { packet, offset, bits, .. } => bytes(packet, Span::Bits(Some(offset), bits), Store),
            Op::Sum { packet, offset, bytes: count } => bytes(packet, Span::Range(offset, count), Load),
            Op::Checksum { packet, at, .. } => {
                bytes(packet, Span::Bits(Some(at), BitRange { offset: 0, width: 16 }), Store)
            }
            Op::Push { packet, bytes: count } => bytes(packet, Span::Front(count), Store),
            Op::Copy { packet } | Op::Tap { packet, .. } => bytes(packet, Span::All, Copy),
            _ => match self.row().memory {
                Memory::Nothing => Touches::Nothing,
                Memory::Descriptor => Touches::Descriptor,
                Memory::Bytes | Memory::Other => Touches::Other,
            },
        }
    }

    /// Whether it accesses bytes of a packet.
    pub fn accesses_packet(&self) -> bool {
        self.row().memory == Memory::Bytes
    }

    /// Operands that say where in a packet something is, or how long.
    pub(crate) fn dynamic_offsets(&self) -> impl Iterator<Item = Value> {
        let values = match (self.touches(), self) {
            (Touches::Bytes { span: Span::Bits(Some(offset), _), .. }, _) => [Some(offset), None],
            (Touches::Bytes { span: Span::Range(offset, bytes), .. }, _) => [Some(offset), Some(bytes)],
            (_, Op::Pull { bytes, .. } | Op::Has { bytes, .. }) => [Some(*bytes), None],
            _ => [None, None],
        };
        values.into_iter().flatten()
    }
}
