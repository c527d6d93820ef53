//! A memory of the event model: a queue of commands, and one port or two that their bytes pass.

use super::{Direction, MemoryUse, Timing};

/// Ports that an access occupies, as bits: the one, or that for reading, and that for writing.
pub(super) fn ports(direction: Direction, timing: &Timing) -> u8 {
    match direction {
        Direction::Write if timing.duplex => 2,
        Direction::Both if timing.duplex => 3,
        _ => 1,
    }
}

pub(super) struct Memory {
    timing: Timing,
    /// When the next command may begin, and when each port is free.
    next: u64,
    ports: [u64; 2],
    last_done: u64,
    pub(super) spent: MemoryUse,
}

impl Memory {
    pub(super) fn new(timing: Timing) -> Memory {
        Memory { timing, next: 0, ports: [0; 2], last_done: 0, spent: MemoryUse::default() }
    }

    /// Occupies the memory and these of its ports; when the command will be done.
    #[inline(always)]
    pub(super) fn issue(&mut self, ports: u8, bytes: u32, now: u64) -> u64 {
        let occupied = self.timing.command.max(u64::from(bytes) * self.timing.byte);
        // All bits for a port that is occupied, else none: this runs for every access, and a branch would be guessed
        // wrong often.
        let mask = |port: usize| u64::from(ports >> port & 1).wrapping_neg();
        let begin = now.max(self.next).max(self.ports[0] & mask(0)).max(self.ports[1] & mask(1));
        self.next = begin + self.timing.command;
        for port in 0..2 {
            // Nothing is ever earlier than what a free port had.
            self.ports[port] = self.ports[port].max((begin + occupied) & mask(port));
            self.spent.ports[port] += occupied & mask(port);
        }
        self.spent.commands += self.timing.command;
        self.spent.accesses += 1;
        self.spent.bytes += u64::from(bytes);
        // Commands end in the order they came.
        self.last_done = self.last_done.max(begin + self.timing.latency.max(occupied));
        self.last_done
    }
}
