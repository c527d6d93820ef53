//! What of a capture file could not be used, in one line.

use std::fmt;

/// Damaged places that are named.
const NAMED: usize = 3;

/// Packets of a capture file that were passed over.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Skipped {
    /// The first damaged places.
    named: Vec<Position>,
    damaged: u64,
    /// Packets that were not captured whole, and the first of them: its number, its bytes in the file and in all.
    cut: u64,
    first_cut: Option<(u64, usize, u32)>,
    /// Where the file ends within a packet.
    incomplete: Option<Position>,
}

/// A place in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Position {
    /// Packets before it.
    behind: u64,
    /// Bytes before it.
    offset: u64,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.behind {
            0 => write!(f, "before the first packet, at byte {}", self.offset),
            behind => write!(f, "behind packet {behind}, at byte {}", self.offset),
        }
    }
}

impl Skipped {
    /// Whether all could be used.
    pub fn is_nothing(&self) -> bool {
        self.damaged == 0 && self.cut == 0 && self.incomplete.is_none()
    }

    /// A damaged place, with so many packets and bytes before it.
    pub(super) fn damaged(&mut self, behind: u64, offset: u64) {
        self.damaged += 1;
        if self.named.len() < NAMED {
            self.named.push(Position { behind, offset });
        }
    }

    /// A packet of which only some bytes were captured.
    pub(super) fn cut(&mut self, number: u64, captured: usize, original: u32) {
        self.cut += 1;
        self.first_cut.get_or_insert((number, captured, original));
    }

    /// What begins here can't be read: it is damaged, or else the file ends within it.
    pub(super) fn unreadable(&mut self, behind: u64, offset: u64, is_damaged: bool) {
        match is_damaged {
            true => self.damaged(behind, offset),
            false => self.incomplete = Some(Position { behind, offset }),
        }
    }
}

impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        if self.damaged > 0 {
            let named: Vec<String> = self.named.iter().map(Position::to_string).collect();
            let more = self.damaged - self.named.len() as u64;
            let more = if more > 0 { format!("; and {more} more") } else { String::new() };
            let s = if self.damaged == 1 { "" } else { "s" };
            parts.push(format!("{} damaged place{s} ({}{more})", self.damaged, named.join("; ")));
        }
        if let Some((number, captured, original)) = self.first_cut {
            let which =
                if self.cut == 1 { "1 packet that was".into() } else { format!("{} packets that were", self.cut) };
            parts.push(format!(
                "{which} not captured whole (packet {number}: only {captured} of {original} bytes; tcpdump -s 0 captures all)"
            ));
        }
        if let Some(position) = self.incomplete {
            parts.push(format!("the last packet, within which the file ends ({position})"));
        }
        write!(f, "passed over {}", parts.join(", and "))
    }
}
