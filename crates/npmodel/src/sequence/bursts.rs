//! Accesses that become one.
//!
//! ```text
//! read  e.port   (bytes 0 to 1)       sram[read, 12 bytes]           bytes 0 to 12
//! read  e.mac    (bytes 4 to 12)      sram[read, 4 bytes], ctx_swap  bytes 40 to 44: what lies between takes longer
//! read  e.trust  (byte 40)                                           to read than another command; both are waited for
//! at once
//! ```

use baker::ir::Value;
use baker::ir::interp::Code;

use super::{Micro, Sequence};
use crate::micro::{Command, MicroOp};
use crate::platform::{Memory, MemoryParameters};

/// What an access is to. Accesses to one object may become one burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Object {
    Packet(u32),
    Descriptor(u32),
    Entry(Code, Value),
}

/// The accesses to an object that the next one may become part of.
#[derive(Clone, Debug)]
pub(super) struct Open {
    pub(super) object: Object,
    write: bool,
    /// One behind the other, the last of which is waited for.
    bursts: Vec<Burst>,
}

impl Open {
    /// Byte after the last one.
    pub(super) fn end(&self) -> u32 {
        self.bursts.iter().map(|burst| burst.end).max().unwrap_or(0)
    }
}

#[derive(Clone, Copy, Debug)]
struct Burst {
    /// Index of the micro-operation.
    at: usize,
    from: u32,
    end: u32,
}

impl Burst {
    /// This one and other bytes as one, if that is allowed and no slower than another command.
    fn with(self, object: Object, from: u32, end: u32, memory: &MemoryParameters) -> Option<Burst> {
        let unit = memory.unit.whole();
        let together = Burst { at: self.at, from: self.from.min(from), end: self.end.max(end) };
        let whole = bytes(together.from, together.end, unit);
        let between = whole.saturating_sub(bytes(self.from, self.end, unit) + bytes(from, end, unit));
        let near = match object {
            // As packets' accesses are combined by the optimiser, which `explain` counts.
            Object::Packet(_) => from == self.end,
            _ => f64::from(between) / memory.bandwidth.get() <= 1.0 / memory.commands.get(),
        };
        (near && whole <= memory.burst.whole()).then_some(together)
    }
}

/// Bytes moved, in whole units.
fn bytes(from: u32, end: u32, unit: u32) -> u32 {
    (end.div_ceil(unit) - from / unit) * unit
}

impl Sequence<'_, '_> {
    /// A command of its own, which belongs to no burst.
    pub(super) fn command(&mut self, memory: Memory, command: Command, bytes: u32, wait: bool) {
        let unit = self.lowering.platform.memory(memory).unit.whole();
        self.push(MicroOp::Access { memory, command, bytes: bytes.next_multiple_of(unit), wait });
        self.open = None;
    }

    /// Bytes that take several commands where there are many.
    pub(super) fn split(&mut self, memory: Memory, command: Command, bytes: u32) {
        let burst = self.lowering.platform.memory(memory).burst.whole();
        let wait = command == Command::Read || self.base();
        for from in (0..bytes).step_by(burst as usize) {
            self.command(memory, command, burst.min(bytes - from), wait);
        }
    }

    /// Starts an access that may grow.
    pub(super) fn begin(&mut self, object: Object, memory: Memory, write: bool, from: u32, end: u32) {
        let at = self.out.len();
        if write && matches!(object, Object::Packet(_)) {
            self.writes.push((at, from, end));
        }
        self.push(self.access(memory, write, from, end));
        self.open = Some(Open { object, write, bursts: vec![Burst { at, from, end }] });
    }

    fn access(&self, memory: Memory, write: bool, from: u32, end: u32) -> MicroOp {
        let unit = self.lowering.platform.memory(memory).unit.whole();
        let command = if write { Command::Write } else { Command::Read };
        MicroOp::Access { memory, command, bytes: bytes(from, end, unit), wait: !write || self.base() }
    }

    /// Makes bytes part of the accesses before, if they are to the same object.
    pub(super) fn extend(&mut self, object: Object, write: bool, from: u32, end: u32) -> bool {
        let Some(open) = &mut self.open else { return false };
        if open.object != object || open.write != write {
            return false;
        }
        let last = open.bursts[open.bursts.len() - 1].at;
        let MicroOp::Access { memory, .. } = self.out[last].op else { return false };
        let parameters = self.lowering.platform.memory(memory);
        let grown = open.bursts.iter_mut().find_map(|burst| {
            *burst = burst.with(object, from, end, parameters)?;
            Some(*burst)
        });
        if let Some(burst) = grown {
            if let Some(write) = self.writes.last_mut().filter(|write| write.0 == burst.at) {
                (write.1, write.2) = (burst.from, burst.end);
            }
            if let MicroOp::Access { bytes: moved, .. } = &mut self.out[burst.at].op {
                *moved = bytes(burst.from, burst.end, parameters.unit.whole());
            }
            return true;
        }
        if matches!(object, Object::Packet(_)) {
            return false;
        }
        // Another command right behind the last one. Commands to a memory end in order, so only the last is waited for.
        open.bursts.push(Burst { at: last + 1, from, end });
        let micro = Micro { code: self.code, op: self.access(memory, write, from, end) };
        self.out.insert(last + 1, micro);
        if let MicroOp::Access { wait, .. } = &mut self.out[last].op {
            *wait = false;
        }
        true
    }

    /// Adds the reads in front of writes of parts of units, where the memory can't write parts.
    pub(super) fn finish(mut self) -> Vec<Micro> {
        let parameters = self.lowering.platform.memory(Memory::Dram);
        let (unit, masked) = (parameters.unit.whole(), parameters.masked_writes.whole() == 1);
        if masked || self.base() {
            return self.out;
        }
        for (at, from, end) in self.writes.into_iter().rev() {
            let Micro { code, op: MicroOp::Access { memory, bytes, .. } } = self.out[at] else { continue };
            if !from.is_multiple_of(unit) || !end.is_multiple_of(unit) {
                let op = MicroOp::Access { memory, command: Command::Read, bytes, wait: true };
                self.out.insert(at, Micro { code, op });
            }
        }
        self.out
    }
}
