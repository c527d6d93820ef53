//! What a packet executed, as micro-operations.
//!
//! Packets lie in DRAM, descriptors and tables where the platform's file says. At level base, each access goes through a
//! generic routine: it reads the descriptor, finds the alignment, moves a window that holds the field wherever it lies, and
//! waits. At the other levels alignments are known, a packet's descriptor is read once per body, accesses to bytes that follow
//! each other with nothing but arithmetic between them are one burst, and nobody waits for a write.

use std::collections::HashSet;

use baker::ir::interp::{Code, Executed, Execution, Touched};
use baker::ir::{Inst, Op, Program, TableId, TableKind, Target, Terminator, Value, storage_size};
use baker::opt::Level;

use crate::alu;
use crate::micro::{Command, MicroOp, Unit};
use crate::platform::{Memory, Platform};
use crate::words::{Analysis, width};

/// Bytes of a ring's entry: the packet's handle, its head and length.
pub const RING_ENTRY: u32 = 8;

/// Bytes of a packet's descriptor, without metadata.
pub const DESCRIPTOR: u32 = 16;

/// A micro-operation, and whose code it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Micro {
    /// The body.
    pub code: Code,
    /// The micro-operation.
    pub op: MicroOp,
}

/// What an access is to. Accesses to one object may become one burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Object {
    Packet(u32),
    Descriptor(u32),
    Entry(Code, Value),
}

/// The access that the next one may belong to.
#[derive(Clone, Copy, Debug)]
struct Open {
    object: Object,
    write: bool,
    /// Index of the micro-operation.
    at: usize,
    from: u32,
    end: u32,
}

/// A program, prepared for a platform.
pub struct Lowering<'a> {
    program: &'a Program,
    platform: &'a Platform,
    level: Level,
    /// Of each body: what stays within the engine, by block and instruction.
    ppfs: Vec<Vec<Vec<Vec<MicroOp>>>>,
    analyses: Vec<Analysis>,
}

impl<'a> Lowering<'a> {
    /// Prepares a program that was optimised to this level.
    pub fn new(program: &'a Program, level: Level, platform: &'a Platform) -> Lowering<'a> {
        let analyses: Vec<Analysis> = program.ppfs.iter().map(|ppf| Analysis::new(&ppf.body)).collect();
        let block = |body, words, (index, block): (usize, &baker::ir::Block)| {
            block.insts.iter().map(|inst| alu::lower(body, words, index, inst)).collect::<Vec<_>>()
        };
        let ppfs = program.ppfs.iter().zip(&analyses).map(|(ppf, words)| {
            ppf.body.blocks.iter().enumerate().map(|found| block(&ppf.body, words, found)).collect()
        });
        Lowering { ppfs: ppfs.collect(), analyses, program, platform, level }
    }

    /// What a packet executed.
    pub fn sequence(&self, execution: &Execution) -> Vec<Micro> {
        let mut sequence = Sequence::new(self);
        for executed in &execution.executed {
            sequence.executed(executed);
        }
        sequence.finish()
    }

    /// Instructions in the code of a PPF.
    pub fn code_size(&self, ppf: usize) -> u32 {
        let body = &self.program.ppfs[ppf].body;
        let mut sequence = Sequence::new(self);
        for (block, code) in body.blocks.iter().enumerate() {
            for index in 0..=code.insts.len() {
                let touched = code.insts.get(index).map_or(Touched::Nothing, |inst| placeholder(&inst.op));
                let code = Code::Ppf(baker::ir::PpfId(ppf as u32));
                sequence.executed(&Executed { code, block: block as u32, index: index as u32, touched });
            }
        }
        sequence.finish().iter().map(|micro| micro.op.instructions()).sum()
    }
}

/// What an operation may touch, where it is counted without being executed.
fn placeholder(op: &Op) -> Touched {
    match op {
        Op::Load { bits, .. } | Op::Store { bits, .. } | Op::LoadAt { bits, .. } | Op::StoreAt { bits, .. } => {
            Touched::Packet { packet: 0, from: bits.first_byte(), end: bits.end_byte() }
        }
        Op::Push { bytes, .. } => Touched::Packet { packet: 0, from: 0, end: *bytes },
        Op::Sum { .. } | Op::Copy { .. } => Touched::Packet { packet: 0, from: 0, end: 8 },
        _ => Touched::Packet { packet: 0, from: 0, end: 0 },
    }
}

struct Sequence<'l, 'a> {
    lowering: &'l Lowering<'a>,
    out: Vec<Micro>,
    open: Option<Open>,
    /// Packets whose place a body has in registers.
    resolved: HashSet<(Code, u32)>,
    /// Writes to packets, as micro-operation, first byte and byte after the last.
    writes: Vec<(usize, u32, u32)>,
    code: Code,
}

impl<'l, 'a> Sequence<'l, 'a> {
    fn new(lowering: &'l Lowering<'a>) -> Self {
        let code = match lowering.program.channels[Program::RX.0 as usize].target {
            Target::Ppf(ppf) => Code::Ppf(ppf),
            _ => Code::Ppf(baker::ir::PpfId(0)),
        };
        // The ring says where the packet is.
        let resolved = HashSet::from([(code, 0)]);
        Sequence { lowering, out: Vec::new(), open: None, resolved, writes: Vec::new(), code }
    }

    fn base(&self) -> bool {
        self.lowering.level == Level::Base
    }

    fn push(&mut self, op: MicroOp) {
        self.out.push(Micro { code: self.code, op });
    }

    fn run(&mut self, unit: Unit, count: u32) {
        if count > 0 {
            self.push(MicroOp::Run(unit, count));
        }
    }

    /// A command of its own, which belongs to no burst.
    fn command(&mut self, memory: Memory, command: Command, bytes: u32, wait: bool) {
        let unit = self.lowering.platform.memory(memory).unit.whole();
        self.push(MicroOp::Access { memory, command, bytes: bytes.next_multiple_of(unit), wait });
        self.open = None;
    }

    fn executed(&mut self, executed: &Executed) {
        let Code::Ppf(ppf) = executed.code else { return };
        self.code = executed.code;
        let body = &self.lowering.program.ppfs[ppf.0 as usize].body;
        let block = &body.blocks[executed.block as usize];
        let Some(inst) = block.insts.get(executed.index as usize) else {
            return match &block.term {
                Terminator::Branch(..) => self.run(Unit::Branch, 1),
                Terminator::Jump(dest) => self.moves(dest.args.len()),
                Terminator::Return => {}
            };
        };
        let lowering = self.lowering;
        for op in &lowering.ppfs[ppf.0 as usize][executed.block as usize][executed.index as usize] {
            self.push(*op);
        }
        self.memory(ppf.0 as usize, inst, executed.touched);
    }

    /// A jump is laid out as falling through; arguments mostly get their registers at once, and half of them is moved.
    fn moves(&mut self, arguments: usize) {
        self.run(Unit::Alu, arguments as u32 / 2);
    }

    fn memory(&mut self, ppf: usize, inst: &Inst, touched: Touched) {
        let place = &self.lowering.platform.place;
        let (descriptors, counters) = (place.descriptors, place.counters);
        let program = self.lowering.program;
        let packet = if let Touched::Packet { packet, .. } = touched { packet } else { 0 };
        match &inst.op {
            Op::Const(_) | Op::Bin(..) | Op::Cmp(..) | Op::Cast(..) | Op::Select(..) | Op::Now | Op::IsNull(_) => {}
            Op::Load { bits, .. } | Op::LoadAt { bits, .. } => {
                self.packet_access(touched, false);
                let words = inst.result.map_or(0, |result| self.lowering.analyses[ppf].needed(result).count_ones());
                self.extract(words, bits.offset, bits.width, touched);
            }
            Op::Store { bits, .. } | Op::StoreAt { bits, .. } => {
                self.extract(bits.width.div_ceil(32), bits.offset, bits.width, touched);
                self.packet_access(touched, true);
            }
            Op::Sum { .. } => {
                let Touched::Packet { from, end, .. } = touched else { return };
                self.packet_access(touched, false);
                self.run(Unit::Alu, 2 * (end - from).div_ceil(4) + 3);
            }
            Op::Push { .. } => {
                self.descriptor(packet, true, 8);
                self.packet_access(touched, true);
                self.run(Unit::Alu, 2);
            }
            Op::Has { .. } | Op::Len { .. } => {
                self.descriptor(packet, false, 4);
                self.run(Unit::Alu, 1);
            }
            Op::Pull { .. } | Op::Move { .. } | Op::Trim { .. } | Op::Grow { .. } => {
                if self.base() {
                    self.descriptor(packet, false, 8);
                }
                self.run(Unit::Alu, 2);
                self.descriptor(packet, true, 8);
            }
            Op::MetaLoad { field, .. } => {
                let bits = program.metadata[field.0 as usize].width;
                self.descriptor(packet, false, storage_size(bits));
                self.run(Unit::ByteAlign, u32::from(bits < 32));
            }
            Op::MetaStore { field, .. } => {
                let bits = program.metadata[field.0 as usize].width;
                self.run(Unit::Alu, bits.div_ceil(32));
                self.descriptor(packet, true, storage_size(bits));
            }
            Op::Copy { .. } => {
                self.allocate();
                let Touched::Packet { from, end, .. } = touched else { return };
                for command in [Command::Read, Command::Write] {
                    self.split(Memory::Dram, command, end - from);
                }
                self.command(descriptors, Command::Read, DESCRIPTOR + program.metadata_size, true);
                self.command(descriptors, Command::Write, DESCRIPTOR + program.metadata_size, self.base());
            }
            Op::Create => {
                self.allocate();
                self.command(descriptors, Command::Write, DESCRIPTOR + program.metadata_size, self.base());
            }
            Op::Put { channel, .. } => match program.channels[channel.0 as usize].target {
                Target::Ppf(_) => {
                    self.run(Unit::LocalMemory, 3);
                    self.run(Unit::Branch, 2);
                    self.open = None;
                }
                _ => {
                    self.run(Unit::LocalMemory, 3);
                    self.run(Unit::Alu, 2);
                    self.command(Memory::Scratch, Command::Put, RING_ENTRY, self.base());
                }
            },
            Op::Pass { .. } => {
                self.run(Unit::LocalMemory, 3);
                self.open = None;
            }
            Op::Drop { .. } => {
                self.run(Unit::LocalMemory, 3);
                // Back to the free buffers.
                self.command(descriptors, Command::Put, 4, self.base());
            }
            Op::Lookup { table, key } => self.lookup(ppf, *table, key, touched),
            Op::EntryLoad { entry, field } => self.entry(ppf, *entry, *field, false),
            Op::EntryStore { entry, field, .. } => self.entry(ppf, *entry, *field, true),
            Op::Lock { .. } => {
                self.command(place.tables, Command::TestAndSet, 4, true);
                self.run(Unit::Branch, 2);
            }
            Op::Unlock { .. } => self.command(place.tables, Command::Write, 4, self.base()),
            Op::Insert { table, key, .. } | Op::Remove { table, key } => {
                self.lookup(ppf, *table, key, touched);
                let table = &program.tables[table.0 as usize];
                let size = |layout: baker::ir::LayoutId| program.layouts[layout.0 as usize].size;
                self.split(place.tables, Command::Write, size(table.key) + size(table.value) + 4);
            }
            Op::Extern { args, .. } => {
                self.command(Memory::Scratch, Command::Put, RING_ENTRY + 4 * args.len() as u32, self.base());
                self.command(Memory::Scratch, Command::Get, RING_ENTRY, true);
            }
            Op::Take { .. } => {
                self.command(place.tables, Command::Read, 24, true);
                // Two products of 64 bits, additions and comparisons of 64 bits.
                self.run(Unit::Multiply, 36);
                self.run(Unit::Alu, 14);
                self.command(place.tables, Command::Write, 8, self.base());
            }
            Op::Count { .. } => {
                self.run(Unit::Alu, 3);
                self.command(counters, Command::Add, 8, self.base());
            }
        }
    }

    /// A buffer for a new packet.
    fn allocate(&mut self) {
        self.command(self.lowering.platform.place.descriptors, Command::Get, 4, true);
        self.run(Unit::Alu, 2);
    }

    /// Bytes that take several commands where there are many.
    fn split(&mut self, memory: Memory, command: Command, bytes: u32) {
        let burst = self.lowering.platform.memory(memory).burst.whole();
        let wait = command == Command::Read || self.base();
        for from in (0..bytes).step_by(burst as usize) {
            self.command(memory, command, burst.min(bytes - from), wait);
        }
    }

    /// Between transfer registers and registers: nothing where whole words lie at their places, else one each, and a mask.
    fn extract(&mut self, words: u32, first_bit: u32, bits: u32, touched: Touched) {
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
    fn resolve(&mut self, packet: u32) {
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

    fn packet_access(&mut self, touched: Touched, write: bool) {
        let Touched::Packet { packet, from, end } = touched else { return };
        if from >= end {
            return;
        }
        if !self.base() && self.extend(Object::Packet(packet), write, from, end, true) {
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

    /// Starts an access that may grow.
    fn begin(&mut self, object: Object, memory: Memory, write: bool, from: u32, end: u32) {
        let unit = self.lowering.platform.memory(memory).unit.whole();
        let bytes = (end.div_ceil(unit) - from / unit) * unit;
        let command = if write { Command::Write } else { Command::Read };
        if write && matches!(object, Object::Packet(_)) {
            self.writes.push((self.out.len(), from, end));
        }
        self.open = Some(Open { object, write, at: self.out.len(), from, end });
        self.push(MicroOp::Access { memory, command, bytes, wait: !write || self.base() });
    }

    /// Makes bytes part of the access before, if they can be: right behind it, or, where `behind` is not asked, anywhere
    /// within a burst.
    fn extend(&mut self, object: Object, write: bool, from: u32, end: u32, behind: bool) -> bool {
        let Some(open) = &mut self.open else { return false };
        if open.object != object || open.write != write || behind && open.end != from {
            return false;
        }
        let MicroOp::Access { memory, bytes, .. } = &mut self.out[open.at].op else { return false };
        let parameters = self.lowering.platform.memory(*memory);
        let unit = parameters.unit.whole();
        let (from, end) = (from.min(open.from), end.max(open.end));
        let grown = (end.div_ceil(unit) - from / unit) * unit;
        if grown > parameters.burst.whole() {
            return false;
        }
        *bytes = grown;
        (open.from, open.end) = (from, end);
        if let Some(write) = self.writes.last_mut().filter(|write| write.0 == open.at) {
            (write.1, write.2) = (from, end);
        }
        true
    }

    /// A packet's descriptor or metadata.
    fn descriptor(&mut self, packet: u32, write: bool, bytes: u32) {
        let memory = self.lowering.platform.place.descriptors;
        let object = Object::Descriptor(packet);
        let end = self.open.filter(|open| open.object == object).map_or(0, |open| open.end);
        if !self.base() && self.extend(object, write, end, end + bytes, false) {
            return;
        }
        self.begin(object, memory, write, 0, bytes);
    }

    fn entry(&mut self, ppf: usize, entry: Value, field: u32, write: bool) {
        let body = &self.lowering.program.ppfs[ppf].body;
        let baker::ir::Ty::Entry(layout) = body.ty(entry) else { return };
        let Some(field) = self.lowering.program.layouts[layout.0 as usize].fields.get(field as usize) else { return };
        let (from, end) = (field.offset, field.offset + storage_size(field.width));
        let object = Object::Entry(self.code, entry);
        self.run(Unit::ByteAlign, u32::from(!write && field.width < 32));
        self.run(Unit::Alu, if write { field.width.div_ceil(32) } else { 0 });
        if !self.base() && self.extend(object, write, from, end, false) {
            return;
        }
        self.begin(object, self.lowering.platform.place.tables, write, from, end);
    }

    fn lookup(&mut self, ppf: usize, table: TableId, key: &[Value], touched: Touched) {
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
                // The bucket: the key and the entry's number.
                self.command(memory, Command::Read, 4 * words + 4, true);
                self.run(Unit::Alu, words + 1);
                self.run(Unit::Branch, 1);
            }
            TableKind::Lpm => {
                let lpm = &self.lowering.platform.lpm;
                let matched = if let Touched::Found { prefix } = touched { u32::from(prefix) } else { 0 };
                let further = matched.saturating_sub(lpm.first.whole()).div_ceil(lpm.next.whole());
                for _ in 0..=further {
                    self.run(Unit::Shift, 1);
                    self.run(Unit::Alu, 1);
                    self.command(memory, Command::Read, 4, true);
                    self.run(Unit::Branch, 1);
                }
            }
        }
    }

    /// Adds the reads in front of writes of parts of units, where the memory can't write parts.
    fn finish(mut self) -> Vec<Micro> {
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
