//! Accesses to packets and their descriptors.

use baker::ir::interp::Touched;

use super::Sequence;
use super::bursts::{Object, Open};
use crate::micro::{Command, Unit};
use crate::platform::Memory;

impl Sequence<'_, '_> {
    /// Between transfer registers and registers: nothing where whole words lie at their places, else one each, and a
    /// mask.
    pub(super) fn extract(&mut self, words: u32, first_bit: u32, bits: u32, touched: Touched) {
        if words == 0 {
            return;
        }
        if self.base() {
            // The byte at which it begins is known to the routine alone.
            self.run(Unit::Csr, 1);
            self.run(Unit::ByteAlign, words + 1);
            return self.run(Unit::Shift, u32::from(!bits.is_multiple_of(32)));
        }
        let aligned = matches!(touched, Touched::Packet { from, .. } if from.is_multiple_of(4));
        let whole = bits.is_multiple_of(32) && first_bit.is_multiple_of(8);
        self.run(Unit::ByteAlign, if aligned { 0 } else { words });
        self.run(Unit::Shift, u32::from(!whole));
    }

    /// Reads where a packet is, if that is not in registers.
    pub(super) fn resolve(&mut self, packet: u32) {
        if self.base() {
            // Call and return of the generic routine; head plus offset, the unit, the distance in it.
            self.run(Unit::Branch, 3);
            self.command(self.lowering.platform.place.descriptors, Command::Read, 8, true);
            return self.run(Unit::Alu, 5);
        }
        if self.resolved.insert((self.code, packet)) {
            self.command(self.lowering.platform.place.descriptors, Command::Read, 8, true);
        }
        self.run(Unit::Alu, 1);
    }

    pub(super) fn packet_access(&mut self, touched: Touched, write: bool) {
        let Touched::Packet { packet, from, end } = touched else { return };
        if from >= end {
            return;
        }
        if !self.base() && self.extend(Object::Packet(packet), write, from, end) {
            return;
        }
        self.resolve(packet);
        let parameters = self.lowering.platform.memory(Memory::Dram);
        let (unit, burst) = (parameters.unit.whole(), parameters.burst.whole());
        if self.base() {
            let window =
                (end - from + unit - 1).next_multiple_of(unit).max(self.lowering.platform.access.base_bytes.whole());
            if write && parameters.masked_writes.whole() == 0 {
                self.split(Memory::Dram, Command::Read, window);
            }
            self.run(Unit::Alu, 2 * u32::from(write));
            let command = if write { Command::Write } else { Command::Read };
            return self.split(Memory::Dram, command, window);
        }
        let object = Object::Packet(packet);
        let mut at = from;
        while at < end {
            // The first part ends where a burst from its unit does.
            let stop = end.min(at / unit * unit + burst);
            self.begin(object, Memory::Dram, write, at, stop);
            at = stop;
        }
    }

    /// A packet's descriptor or metadata.
    pub(super) fn descriptor(&mut self, packet: u32, write: bool, bytes: u32) {
        let memory = self.lowering.platform.place.descriptors;
        let object = Object::Descriptor(packet);
        // The compiler lays out the fields of a descriptor as they are used.
        let end = self.open.as_ref().filter(|open| open.object == object).map_or(0, Open::end);
        if !self.base() && self.extend(object, write, end, end + bytes) {
            return;
        }
        self.begin(object, memory, write, 0, bytes);
    }
}
