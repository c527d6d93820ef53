//! Typed program → IR. Functions are inlined, checksums are kept, checks of decap become branches.
//!
//! ```text
//! ip->ttl = ip->ttl - 1;                v1: u8 = load v0 ipv4.ttl
//!                                  →    v2: u8 = sub v1, 1        (in 32 bits, then truncated)
//!                                       store v0 ipv4.ttl, v2
//! channel_put(output, ip);              …the checksum's one update for all writes of the PPF…
//!                                       put v0 -> m.output
//! ```

mod access;
mod aging;
mod arrays;
mod changes;
mod checksum;
mod expr;
mod extent;
mod fresh;
mod group;
mod layers;
mod lengths;
mod meter;
mod packet;
mod queue;
mod reasons;
mod stmt;
mod sums;
mod timer;
mod waiting;

use std::collections::BTreeSet;
use std::convert::Infallible;

use super::build::{Builder, Var};
use super::{BlockId, Body, DropReason, Limits, Op, Ppf, PpfId, Program, Sums, Table, TableId, Timer, Ty, Value};
use crate::check::hir::{self, LocalId, Type};
use crate::check::own::OwnFields;
use crate::parallel;
use crate::source::Span;

/// Instructions of a PPF's outermost statements, in the middle, with what these hold and call.
const OF_STATEMENT: usize = 50;

/// Lowers a checked program.
pub fn lower(program: &hir::Program) -> Program {
    lower_with(program, Sums::Arithmetic)
}

/// The same for hook and hosts that leave checksums to devices: checksums that cover pseudo headers are kept by
/// operations ([`Sums::Operations`]).
pub fn lower_with_operations(program: &hir::Program) -> Program {
    lower_with(program, Sums::Operations { whole: Vec::new() })
}

/// What a program declares, without code: PPFs and controllers, channels, tables, layouts, metadata. Configurations are
/// read by it, before it is known which hook to lower for.
pub fn declarations(program: &hir::Program) -> Program {
    let mut declared = declared(program, Sums::Arithmetic);
    let ppf = |ppf: &hir::Ppf| Ppf {
        name: ppf.name.clone(),
        protocol: ppf.protocol,
        pin: ppf.pin,
        body: Body::default(),
        span: Some(ppf.span),
    };
    declared.ppfs = program.ppfs.iter().map(ppf).collect();
    declared.limits = limits(program, 0);
    declared
}

/// All but PPFs, timers, and what follows from these.
fn declared(program: &hir::Program, sums: Sums) -> Program {
    let mut lowered = Program {
        name: program.name.clone(),
        protocols: program.protocols.clone(),
        metadata: program.metadata.clone(),
        metadata_size: program.metadata_size,
        layouts: program.layouts.clone(),
        tables: program.tables.clone(),
        counters: program.counters.clone(),
        drop_reasons: program.reasons.clone(),
        controllers: program.controllers.clone(),
        channels: program.channels.clone(),
        ppfs: Vec::new(),
        externs: program.externs.clone(),
        timers: Vec::new(),
        queues: program.queues.clone(),
        limits: Default::default(),
        sums,
        timed: false,
    };
    group::declare(program, &mut lowered);
    queue::declare(program, &mut lowered);
    lowered
}

fn limits(program: &hir::Program, created: u32) -> Limits {
    let hir::Program { headroom, front, copies, encap, .. } = *program;
    Limits { headroom, front, copies, encap, created }
}

fn lower_with(program: &hir::Program, sums: Sums) -> Program {
    let mut lowered = declared(program, sums);
    let operations = lowered.sums != Sums::Arithmetic;
    let lower = |ppf: &hir::Ppf| Ok::<_, Infallible>(lower_body(program, operations, |lowering| lowering.ppf(ppf)));
    let length = |ppf: &hir::Ppf| ppf.code.body.len() * OF_STATEMENT;
    let Ok(bodies) = parallel::each(&program.ppfs, length, lower);
    for ((ppf, (body, whole)), id) in program.ppfs.iter().zip(bodies).zip(0..) {
        if let (Sums::Operations { whole: found }, Some(span)) = (&mut lowered.sums, whole) {
            found.push((PpfId(id), span));
        }
        lowered.ppfs.push(Ppf {
            name: ppf.name.clone(),
            protocol: ppf.protocol,
            pin: ppf.pin,
            body,
            span: Some(ppf.span),
        });
    }
    for timer in &program.timers {
        let (body, _) = lower_body(program, operations, |lowering| lowering.timer(timer));
        let hir::Timer { table, period, slice, span, .. } = *timer;
        lowered.timers.push(Timer { name: timer.name.clone(), table, period, slice, body, span: Some(span) });
    }
    // A function that is not called asks for nothing. The language's own table is the last one.
    if lowered.port_mtus().is_some_and(|id| !looks_up(&lowered, id)) {
        lowered.tables.pop();
    }
    lowered.limits = limits(program, created(&lowered));
    lowered
}

/// Whether the program looks something up in a table.
fn looks_up(program: &Program, id: TableId) -> bool {
    let insts = program.bodies().flat_map(|body| body.blocks.iter().flat_map(|block| &block.insts));
    insts.into_iter().any(|inst| matches!(&inst.op, Op::Lookup { table, .. } if *table == id))
}

/// Lowers a body until it is known which headers change: there only is anything to be done about a checksum. A header
/// that lies around others changes with their checksums, so few rounds are enough. With the body where it first asks
/// for a whole checksum.
fn lower_body<'p>(
    program: &'p hir::Program,
    operations: bool,
    lower: impl Fn(&mut Lowering<'p>),
) -> (Body, Option<Option<Span>>) {
    let mut changed = BTreeSet::new();
    loop {
        let mut lowering = Lowering::new(program, operations, changed);
        lower(&mut lowering);
        if lowering.counted.is_subset(&lowering.changed) {
            return (lowering.b.finish(), lowering.whole);
        }
        changed = &lowering.changed | &lowering.counted;
    }
}

/// Bytes of the longest header that a packet is created with.
fn created(program: &Program) -> u32 {
    let sizes = program.bodies().flat_map(|body| {
        let insts = body.blocks.iter().flat_map(|block| &block.insts).filter(|inst| inst.op == Op::Create);
        insts.filter_map(|inst| match body.ty(inst.result?) {
            Ty::Packet(protocol) => Some(program.protocols[protocol.0 as usize].size),
            _ => None,
        })
    });
    sizes.max().unwrap_or(0)
}

/// Lowers one PPF or timer.
struct Lowering<'p> {
    program: &'p hir::Program,
    b: Builder,
    /// Variables of the PPF, and of the functions being inlined, innermost last.
    frames: Vec<Frame>,
    /// Packets of the PPF.
    packets: Vec<Packet>,
    /// Indices into `packets` that are owned here; a failed decap drops them.
    owned: Vec<usize>,
    /// What is known of the packets.
    layers: Vec<layers::Layer>,
    /// Sums that are ever added to, as far as is known.
    changed: BTreeSet<Sum>,
    /// Those that were added to.
    counted: BTreeSet<Sum>,
    /// Of the open loops and `switch`es, innermost last.
    exits: Vec<Exits>,
    /// Checksums with pseudo headers are kept by operations: [`changes`].
    operations: bool,
    /// Where one of them is first asked for as a whole.
    whole: Option<Option<Span>>,
}

/// What the locals of one PPF or inlined function stand for.
struct Frame {
    slots: Vec<Option<Slot>>,
    /// Where `return` goes in a function, and the variables that take its result.
    exit: Option<(BlockId, Vec<Var>)>,
}

/// What a local stands for.
#[derive(Clone)]
enum Slot {
    /// Scalars: one variable, or one per field of a struct.
    Vars(Vec<Var>),
    /// A packet; index into `packets`.
    Packet(usize),
}

/// A packet handle of the source program.
#[derive(Clone, Copy)]
struct Packet {
    var: Var,
    protocol: super::ProtocolId,
    /// For a handle that looks into the packet: bytes from the packet's head to its header.
    base: Option<Value>,
    /// Its header.
    layer: usize,
}

/// A sum of changes of a header, by its index into `layers`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Sum {
    /// What is not yet in its checksum.
    Own(usize),
    /// What is not yet in the checksum behind its pseudo header.
    Carried(usize),
}

/// What `break` and `continue` lead to.
struct Exits {
    /// The loop's next trip; a `switch` has none.
    next: Option<BlockId>,
    exit: BlockId,
    /// The packets that are owned where a `break` leads to the exit.
    owned: Option<Vec<usize>>,
    /// Headers before these were known before.
    layers: usize,
}

impl<'p> Lowering<'p> {
    fn new(program: &'p hir::Program, operations: bool, changed: BTreeSet<Sum>) -> Self {
        Lowering {
            program,
            b: Builder::default(),
            frames: Vec::new(),
            packets: Vec::new(),
            owned: Vec::new(),
            layers: Vec::new(),
            changed,
            counted: BTreeSet::new(),
            exits: Vec::new(),
            operations,
            whole: None,
        }
    }

    fn ppf(&mut self, ppf: &'p hir::Ppf) {
        let entry = self.b.block();
        self.b.seal(entry);
        self.b.switch_to(entry);
        let packet = self.b.param(entry, Ty::Packet(ppf.protocol));
        self.frames.push(Frame { slots: vec![None; ppf.code.locals.len()], exit: None });
        let own = OwnFields::find(self.program, &ppf.code);
        self.bind_packet(LocalId(0), ppf.protocol, packet::NewPacket::new(packet), &own);
        self.statements(&ppf.code.body, &ppf.code, &own);
        self.b.ret();
    }

    fn frame(&mut self) -> &mut Frame {
        self.frames.last_mut().expect("a frame is open")
    }

    fn slot(&self, local: LocalId) -> Slot {
        let frame = self.frames.last().expect("a frame is open");
        frame.slots[local.0 as usize].clone().expect("a local is declared before it is used")
    }

    fn vars(&self, local: LocalId) -> Vec<Var> {
        match self.slot(local) {
            Slot::Vars(vars) => vars,
            Slot::Packet(_) => unreachable!("a handle is no scalar"),
        }
    }

    fn table(&self, table: super::TableId) -> &'p Table {
        &self.program.tables[table.0 as usize]
    }

    /// IR types of the scalars that a type consists of.
    fn scalars(&self, ty: Type) -> Vec<Ty> {
        match ty {
            Type::Bool => vec![Ty::Int(1)],
            Type::Reason => vec![Ty::Int(DropReason::WIDTH)],
            Type::Int { width, .. } => vec![Ty::Int(width)],
            Type::Pointer(layout) => vec![Ty::Entry(layout)],
            // Whether the bytes are there, and what they are.
            Type::Loaded { width, .. } => vec![Ty::Int(1), Ty::Int(width)],
            Type::Packet(protocol) => vec![Ty::Packet(protocol)],
            Type::Struct(id) => {
                self.program.structs[id.0 as usize].fields.iter().flat_map(|f| self.scalars(f.1)).collect()
            }
            Type::Void => Vec::new(),
            Type::Null | Type::Error => unreachable!("not in a checked program"),
        }
    }

    fn one(values: Vec<Value>) -> Value {
        let [value] = values[..] else { unreachable!("a scalar") };
        value
    }
}
