//! A memory of the event model: a queue of commands, and one port or two that their bytes pass.

use super::{Access, Direction, MemoryUse, Timing};

/// Ports that an access occupies, as bits.
const READ: u8 = 1;
const WRITE: u8 = 2;

/// An access whose times are worked out.
#[derive(Clone, Copy)]
pub(super) struct Command {
    ports: u8,
    bytes: u32,
    occupied: u64,
}

impl Command {
    pub(super) fn new(access: &Access, timing: &Timing) -> Command {
        let ports = match access.direction {
            Direction::Write if timing.duplex => WRITE,
            Direction::Both if timing.duplex => READ | WRITE,
            _ => READ,
        };
        let occupied = timing.command.max(u64::from(access.bytes) * timing.byte);
        Command { ports, bytes: access.bytes, occupied }
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

    /// Occupies the memory; when the command will be done.
    pub(super) fn issue(&mut self, command: &Command, now: u64) -> u64 {
        let uses = |port: usize| command.ports >> port & 1 == 1;
        let mut begin = now.max(self.next);
        for port in 0..2 {
            begin = begin.max(if uses(port) { self.ports[port] } else { 0 });
        }
        self.next = begin + self.timing.command;
        for port in 0..2 {
            if uses(port) {
                self.ports[port] = begin + command.occupied;
                self.spent.ports[port] += command.occupied;
            }
        }
        self.spent.commands += self.timing.command;
        self.spent.accesses += 1;
        self.spent.bytes += u64::from(command.bytes);
        // Commands end in the order they came.
        self.last_done = self.last_done.max(begin + self.timing.latency.max(command.occupied));
        self.last_done
    }
}
