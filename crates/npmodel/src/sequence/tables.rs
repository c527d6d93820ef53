//! Look-ups, and the fields of entries.

use baker::ir::interp::Touched;
use baker::ir::{TableId, TableKind, Ty, Value, storage_size};

use super::Sequence;
use super::bursts::Object;
use crate::demanded::width;
use crate::micro::{Command, Unit};
use crate::platform::Memory;

impl Sequence<'_, '_> {
    pub(super) fn entry(&mut self, ppf: usize, entry: Value, field: u32, write: bool) {
        let body = &self.lowering.program.ppfs[ppf].body;
        let Ty::Entry(layout) = body.ty(entry) else { return };
        let Some(field) = self.lowering.program.layouts[layout.0 as usize].fields.get(field as usize) else { return };
        let behind = self.keys.get(&(self.code, entry)).copied().unwrap_or(0);
        let (from, end) = (behind + field.offset, behind + field.offset + storage_size(field.width));
        let object = Object::Entry(self.code, entry);
        self.run(Unit::ByteAlign, u32::from(!write && field.width < 32));
        self.run(Unit::Alu, if write { field.width.div_ceil(32) } else { 0 });
        if !self.base() && self.extend(object, write, from, end) {
            return;
        }
        self.begin(object, self.lowering.platform.place.tables, write, from, end);
    }

    pub(super) fn lookup(&mut self, ppf: usize, table: TableId, key: &[Value], entry: Option<Value>, touched: Touched) {
        let memory = self.lowering.platform.place.tables;
        let program = self.lowering.program;
        let body = &program.ppfs[ppf].body;
        let words: u32 = key.iter().map(|value| width(body, *value).div_ceil(32)).sum();
        let table = &program.tables[table.0 as usize];
        match table.kind {
            // Compared with the capacity, times the entry's size, plus the table's place.
            TableKind::Array => {
                self.run(Unit::Alu, 2);
                self.run(Unit::Shift, 1);
                self.run(Unit::Branch, 1);
                self.open = None;
            }
            TableKind::Hash => {
                self.run(Unit::Alu, words);
                self.command(Memory::Scratch, Command::Hash, (4 * words).next_multiple_of(8), true);
                self.run(Unit::Alu, 2);
                // The bucket: the next in it, the key, and the entry.
                self.table_read(memory, 4 * words + 4, entry.map(|entry| (entry, 4 * words + 4)));
                self.run(Unit::Alu, words + 1);
                self.run(Unit::Branch, 1);
            }
            TableKind::Lpm => {
                let lpm = &self.lowering.platform.lpm;
                let matched = if let Touched::Found { prefix } = touched { u32::from(prefix) } else { 0 };
                let further = matched.saturating_sub(lpm.first.whole()).div_ceil(lpm.next.whole());
                // An entry of one word lies in the last node itself.
                let inside = program.layouts[table.value.0 as usize].size <= 4;
                for step in 0..=further {
                    self.run(Unit::Shift, 1);
                    self.run(Unit::Alu, 1);
                    let entry = entry.filter(|_| inside && step == further);
                    self.table_read(memory, 4, entry.map(|entry| (entry, 0)));
                    self.run(Unit::Branch, 1);
                }
            }
        }
    }

    /// Reads a node of a table. Where an entry begins so many bytes behind its beginning, what is read of the entry
    /// next comes in the same burst.
    fn table_read(&mut self, memory: Memory, bytes: u32, entry: Option<(Value, u32)>) {
        match entry {
            Some((entry, behind)) if !self.base() => {
                self.keys.insert((self.code, entry), behind);
                self.begin(Object::Entry(self.code, entry), memory, false, 0, bytes);
            }
            _ => self.command(memory, Command::Read, bytes, true),
        }
    }
}
