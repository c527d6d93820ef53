//! What a packet executed, as micro-operations.
//!
//! Packets lie in DRAM, descriptors and tables where the platform's file says. At level base, each access goes through
//! a generic routine: it reads the descriptor, finds the alignment, moves a window that holds the field wherever it
//! lies, and waits. At the other levels alignments are known, a packet's descriptor is read once per body, accesses to
//! bytes that follow each other with nothing but arithmetic between them are one burst, and no thread waits for a
//! write. At all levels what an execution path computes and never uses is left out: a compiler computes it where it is
//! used.

mod bursts;
mod packets;
mod tables;

use std::collections::{HashMap, HashSet};

use baker::ir::interp::{Code, Executed, Execution, Touched};
use baker::ir::{Inst, Op, Program, Target, Terminator, Value, storage_size};
use baker::opt::Level;

use self::bursts::Open;
use crate::alu;
use crate::demanded::Analysis;
use crate::micro::{Command, MicroOp, Unit};
use crate::platform::{Memory, Platform};
use crate::used::used;

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
        for (executed, used) in execution.executed.iter().zip(used(self.program, &execution.executed)) {
            if used {
                sequence.executed(executed);
            }
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
        Op::Checksum { .. } => Touched::Packet { packet: 0, from: 0, end: 2 },
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
    /// Of entries that lie behind their keys, how many bytes these are.
    keys: HashMap<(Code, Value), u32>,
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
        Sequence { lowering, out: Vec::new(), open: None, resolved, writes: Vec::new(), keys: HashMap::new(), code }
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
            Op::Checksum { .. } => {
                self.packet_access(touched, false);
                self.run(Unit::Alu, 12);
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
            Op::Has { .. } | Op::Len { .. } if self.base() => {
                self.descriptor(packet, false, 4);
                self.run(Unit::Alu, 1);
            }
            // The length comes with the place.
            Op::Has { .. } | Op::Len { .. } => self.resolve(packet),
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
            Op::HoldPut { .. } => {
                self.run(Unit::Alu, 4);
                self.split(place.tables, Command::Write, 12);
            }
            Op::HoldGet { .. } => {
                self.allocate();
                self.run(Unit::Alu, 4);
                self.split(place.tables, Command::Read, 12);
                self.command(descriptors, Command::Write, DESCRIPTOR + program.metadata_size, true);
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
            // Only the kernel's part of a program has any.
            Op::Tap { .. } => {}
            // The model has times of its own, and its tables are those of a trace.
            Op::Time { .. } | Op::Found { .. } => {}
            Op::Pass { .. } => {
                self.run(Unit::LocalMemory, 3);
                self.open = None;
            }
            Op::Discard { .. } | Op::Drop { .. } => {
                self.run(Unit::LocalMemory, 3);
                // Back to the free buffers.
                self.command(descriptors, Command::Put, 4, self.base());
            }
            Op::Lookup { table, key } => self.lookup(ppf, *table, key, inst.result, touched),
            Op::EntryLoad { entry, field } => self.entry(ppf, *entry, *field, false),
            Op::EntryStore { entry, field, .. } => self.entry(ppf, *entry, *field, true),
            Op::Lock { .. } => {
                self.command(place.tables, Command::TestAndSet, 4, true);
                self.run(Unit::Branch, 2);
            }
            Op::Unlock { .. } => self.command(place.tables, Command::Write, 4, self.base()),
            // Accesses of a thread keep their order there.
            Op::Fence => {}
            Op::Insert { table, key, .. } | Op::Remove { table, key } => {
                self.lookup(ppf, *table, key, None, touched);
                let table = &program.tables[table.0 as usize];
                let size = |layout: baker::ir::LayoutId| program.layouts[layout.0 as usize].size;
                self.split(place.tables, Command::Write, size(table.key) + size(table.value) + 4);
            }
            Op::SetDeadline { table, key, .. } | Op::TakeDeadline { table, key } => {
                self.lookup(ppf, *table, key, None, touched);
                // The time, and a timer that is taken out of one list and put into another.
                self.command(place.tables, Command::Write, 8, self.base());
                self.run(Unit::Alu, 12);
                self.command(Memory::Scratch, Command::Read, 16, true);
                self.command(Memory::Scratch, Command::Write, 16, self.base());
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
                // One word, as the memory adds; their reader does so before they begin anew.
                self.command(counters, Command::Add, 4, self.base());
            }
        }
    }

    /// A buffer for a new packet.
    fn allocate(&mut self) {
        self.command(self.lowering.platform.place.descriptors, Command::Get, 4, true);
        self.run(Unit::Alu, 2);
    }
}
