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
mod checksum;
mod expr;
mod packet;
mod stmt;
mod timer;

use super::build::{Builder, Var};
use super::{BlockId, Limits, Op, Ppf, Program, Table, TableId, Timer, Ty, Value};
use crate::check::hir::{self, LocalId, Type};

/// Lowers a checked program.
pub fn lower(program: &hir::Program) -> Program {
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
        limits: Default::default(),
    };
    for ppf in &program.ppfs {
        let body = Lowering::new(program).ppf(ppf);
        lowered.ppfs.push(Ppf {
            name: ppf.name.clone(),
            protocol: ppf.protocol,
            pin: ppf.pin,
            body,
            span: Some(ppf.span),
        });
    }
    for timer in &program.timers {
        let body = Lowering::new(program).timer(timer);
        let hir::Timer { table, period, slice, span, .. } = *timer;
        lowered.timers.push(Timer { name: timer.name.clone(), table, period, slice, body, span: Some(span) });
    }
    // A function that nobody calls asks for nothing. The language's own table is the last one.
    if lowered.port_mtus().is_some_and(|id| !looks_up(&lowered, id)) {
        lowered.tables.pop();
    }
    let created = created(&lowered);
    lowered.limits = Limits { headroom: program.headroom, copies: program.copies, encap: program.encap, created };
    lowered
}

/// Whether the program looks something up in a table.
fn looks_up(program: &Program, id: TableId) -> bool {
    let insts = program.bodies().flat_map(|body| body.blocks.iter().flat_map(|block| &block.insts));
    insts.into_iter().any(|inst| matches!(&inst.op, Op::Lookup { table, .. } if *table == id))
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
    /// Indices of handles in scope that look into packets, innermost last.
    peeked: Vec<usize>,
    /// Of the open loops and `switch`es, innermost last.
    exits: Vec<Exits>,
}

/// What the locals of one PPF or inlined function stand for.
struct Frame {
    slots: Vec<Option<Slot>>,
    /// Where `return` goes in a function, and the variables that take its result.
    exit: Option<(BlockId, Vec<Var>)>,
    /// Handles before these look into packets from outside of the function.
    peeked: usize,
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
    /// For a handle that looks into the packet: where.
    place: Option<Place>,
    /// Sum of the changes not yet in the checksum field; `None` where the program keeps the checksum itself.
    delta: Option<Var>,
    /// Sum of the changes of a pseudo header that are not yet in the checksum behind it.
    carried: Var,
    /// Terms added to it since it was last folded, on the longest path so far.
    terms: u32,
}

/// Where a handle looks into a packet.
#[derive(Clone, Copy)]
struct Place {
    /// The handle of the header around it.
    parent: usize,
    /// Bytes from the packet's head to the handle's header.
    base: Value,
    /// Whether the header is still there: 1 bit.
    there: Var,
}

/// What `break` and `continue` lead to.
struct Exits {
    /// The loop's next trip; a `switch` has none.
    next: Option<BlockId>,
    exit: BlockId,
    /// The packets that are owned where a `break` leads to the exit.
    owned: Option<Vec<usize>>,
    /// Handles before these look into packets from outside.
    peeked: usize,
}

impl<'p> Lowering<'p> {
    fn new(program: &'p hir::Program) -> Self {
        Lowering {
            program,
            b: Builder::default(),
            frames: Vec::new(),
            packets: Vec::new(),
            owned: Vec::new(),
            peeked: Vec::new(),
            exits: Vec::new(),
        }
    }

    fn ppf(mut self, ppf: &'p hir::Ppf) -> super::Body {
        let entry = self.b.block();
        self.b.seal(entry);
        self.b.switch_to(entry);
        let packet = self.b.param(entry, Ty::Packet(ppf.protocol));
        self.frames.push(Frame { slots: vec![None; ppf.code.locals.len()], exit: None, peeked: 0 });
        let own = checksum::OwnChecksum::find(self.program, &ppf.code);
        self.bind_packet(LocalId(0), ppf.protocol, (packet, None), &own);
        self.statements(&ppf.code.body, &ppf.code, &own);
        self.b.ret();
        self.b.finish()
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
