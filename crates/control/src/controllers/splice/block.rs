//! Control blocks as the program has them (`block_t` of `apps/splice`), and the ends that they are found by.

use std::net::Ipv6Addr;

use dataplane::controller::Record;

/// The ends of a connection as the packets of one direction have them; IPv4 addresses are mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ends {
    /// Who sends.
    pub src: Ipv6Addr,
    /// Who receives.
    pub dst: Ipv6Addr,
    /// The sender's port.
    pub src_port: u16,
    /// The receiver's port.
    pub dst_port: u16,
}

impl Ends {
    /// The other direction.
    pub fn turned(self) -> Ends {
        Ends { src: self.dst, dst: self.src, src_port: self.dst_port, dst_port: self.src_port }
    }
}

impl Record for Ends {
    const FIELDS: usize = 4;

    fn to_fields(&self, fields: &mut Vec<u128>) {
        (self.src, self.dst, self.src_port, self.dst_port).to_fields(fields);
    }

    fn from_fields(fields: &[u128]) -> Option<Self> {
        let (src, dst, src_port, dst_port) = Record::from_fields(fields)?;
        Some(Ends { src, dst, src_port, dst_port })
    }
}

/// What becomes of the segments of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// All go to the controller.
    #[default]
    Held,
    /// Those that end before the block's limit pass, the others go to the controller.
    Limited,
    /// All pass.
    Open,
    /// As limited, and a FIN at the limit passes, too: nothing else is to come.
    Closing,
}

/// The control block of one direction. Sequence numbers are those of this direction's sender, before they are changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// What becomes of its segments.
    pub mode: Mode,
    /// Bit 0: a FIN came this way; bit 1: a reset.
    pub ended: u8,
    /// The port that its segments leave by.
    pub port: u8,
    /// The sender's window scale.
    pub scale: u8,
    /// The scale that the receiver was told.
    pub told: u8,
    /// The next hop's address.
    pub dst_mac: [u8; 6],
    /// The ends that its segments get.
    pub to: Ends,
    /// What is added to sequence numbers.
    pub seq: Offset,
    /// What is added to acknowledgements.
    pub ack: Offset,
    /// What is added to the clock of timestamps.
    pub tsval: u32,
    /// What is added to their echo.
    pub tsecr: u32,
    /// The sequence number behind the last byte that passes.
    pub limit: u32,
    /// The last acknowledgement, as it came.
    pub acked: u32,
    /// How far its window reached.
    pub edge: u32,
    /// Second of the last segment.
    pub seen: u32,
    /// What the controller knows of the message that passes, from `limit` on, and of the connection: see `note`.
    pub framing: u64,
    /// See `framing`.
    pub facts: u32,
}

/// An offset of sequence numbers: `add` from the number `from` on, `early` before it. The two differ where something was
/// inserted into the stream there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offset {
    /// What is added.
    pub add: u32,
    /// Where that begins.
    pub from: u32,
    /// What is added before.
    pub early: u32,
}

impl Offset {
    /// The same everywhere.
    pub fn constant(add: u32) -> Offset {
        Offset { add, from: 0, early: add }
    }

    /// A number after it.
    pub fn moved(self, number: u32) -> u32 {
        number.wrapping_add(if before(number, self.from) { self.early } else { self.add })
    }
}

/// Whether a sequence number comes before another one (RFC 9293 section 3.4).
pub fn before(one: u32, other: u32) -> bool {
    (one.wrapping_sub(other) as i32) < 0
}

/// A time of the path, in nanoseconds, in the seconds that blocks have. None has 0.
pub fn second(now: u64) -> u32 {
    (now / 1_000_000_000) as u32 + 1
}

/// Whether a connection is over, by the `ended` of its two blocks: each side has sent its FIN, or one of them a reset.
pub fn are_over(ended: [u8; 2]) -> bool {
    ended[0] & ended[1] & 1 != 0 || (ended[0] | ended[1]) & 2 != 0
}

impl Block {
    /// A block whose segments go to the controller.
    pub fn held(to: Ends, seen: u32) -> Block {
        Block {
            mode: Mode::Held,
            ended: 0,
            port: 0,
            scale: 0,
            told: 0,
            dst_mac: [0; 6],
            to,
            seq: Offset::default(),
            ack: Offset::default(),
            tsval: 0,
            tsecr: 0,
            limit: 0,
            acked: 0,
            edge: 0,
            seen,
            framing: 0,
            facts: 0,
        }
    }
}

impl Record for Block {
    const FIELDS: usize = 24;

    fn to_fields(&self, fields: &mut Vec<u128>) {
        let mode = match self.mode {
            Mode::Held => 0u8,
            Mode::Limited => 1,
            Mode::Open => 2,
            Mode::Closing => 3,
        };
        (mode, self.ended, self.port, self.scale, self.told, self.dst_mac).to_fields(fields);
        self.to.to_fields(fields);
        (self.seq.add, self.seq.from, self.seq.early).to_fields(fields);
        (self.ack.add, self.ack.from, self.ack.early).to_fields(fields);
        (self.tsval, self.tsecr, self.limit, self.acked, self.edge, self.seen).to_fields(fields);
        (self.framing, self.facts).to_fields(fields);
    }

    fn from_fields(fields: &[u128]) -> Option<Self> {
        if fields.len() != Self::FIELDS {
            return None;
        }
        let (mode, ended, port, scale, told, dst_mac) = Record::from_fields(&fields[..6])?;
        let to = Ends::from_fields(&fields[6..10])?;
        let offset = |at: usize| {
            let (add, from, early) = Record::from_fields(&fields[at..at + 3])?;
            Some(Offset { add, from, early })
        };
        let (tsval, tsecr, limit, acked, edge, seen) = Record::from_fields(&fields[16..22])?;
        let (framing, facts) = Record::from_fields(&fields[22..])?;
        let mode = match mode {
            0u8 => Mode::Held,
            1 => Mode::Limited,
            2 => Mode::Open,
            3 => Mode::Closing,
            _ => return None,
        };
        let (seq, ack) = (offset(10)?, offset(13)?);
        Some(Block {
            mode,
            ended,
            port,
            scale,
            told,
            dst_mac,
            to,
            seq,
            ack,
            tsval,
            tsecr,
            limit,
            acked,
            edge,
            seen,
            framing,
            facts,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_its_fields() {
        let ends = Ends { src: Ipv6Addr::LOCALHOST, dst: Ipv6Addr::UNSPECIFIED, src_port: 7, dst_port: 80 };
        let mut block = Block::held(ends, 9);
        (block.mode, block.seq, block.edge) = (Mode::Limited, Offset { add: 1, from: 2, early: 3 }, 4);
        (block.framing, block.facts) = (u64::MAX, 5);
        let mut fields = Vec::new();
        block.to_fields(&mut fields);
        assert_eq!(fields.len(), Block::FIELDS);
        assert_eq!(Block::from_fields(&fields), Some(block));
    }

    #[test]
    fn an_offset_changes_at_its_number() {
        let offset = Offset { add: 10, from: 5, early: 3 };
        assert_eq!([4, 5, u32::MAX].map(|number| offset.moved(number)), [7, 15, 2]);
        assert_eq!(Offset::constant(7).moved(u32::MAX), 6);
    }
}
