//! Programs and bodies written by hand.

use baker::ir::*;

/// A program without tables: protocols of these sizes, channels to these targets (channel 0 is `rx`).
pub fn program(sizes: &[u32], channels: &[(u32, Target)], bodies: Vec<(u32, Body)>) -> Program {
    let protocols = sizes.iter().enumerate().map(|(i, &size)| Protocol {
        name: format!("p{i}"),
        size,
        fields: Vec::new(),
        checksum: None,
        pseudo: Vec::new(),
    });
    let channels = channels.iter().enumerate().map(|(i, &(protocol, target))| Channel {
        from: None,
        name: if i == 0 { "rx".into() } else { format!("m.c{i}") },
        protocol: ProtocolId(protocol),
        target,
        batch: None,
    });
    let ppfs = bodies.into_iter().enumerate().map(|(i, (protocol, body))| Ppf {
        pin: None,
        name: format!("m.f{i}"),
        protocol: ProtocolId(protocol),
        body,
        span: None,
    });
    let port = |name: &str, offset| MetaField { name: name.into(), type_name: "u8".into(), width: 8, offset };
    Program {
        name: "test".into(),
        protocols: protocols.collect(),
        metadata: vec![port("rx.port", 0), port("tx.port", 1)],
        metadata_size: 2,
        layouts: Vec::new(),
        tables: Vec::new(),
        counters: Vec::new(),
        drop_reasons: BUILTIN_DROP_REASONS.iter().map(|(name, _)| DropReason { name: (*name).into() }).collect(),
        controllers: Vec::new(),
        externs: Vec::new(),
        timers: Vec::new(),
        queues: Vec::new(),
        channels: channels.collect(),
        ppfs: ppfs.collect(),
        limits: Limits::default(),
        sums: Default::default(),
        timed: false,
    }
}

/// Adds metadata of this width, and returns its id.
pub fn add_meta(program: &mut Program, width: u32) -> MetaId {
    let size = storage_size(width);
    let offset = program.metadata_size.next_multiple_of(size);
    program.metadata.push(MetaField { name: format!("m{offset}"), type_name: format!("u{width}"), width, offset });
    program.metadata_size = offset + size;
    MetaId(program.metadata.len() as u32 - 1)
}

/// Adds a layout by C rules with fields of these widths.
pub fn add_layout(program: &mut Program, widths: &[u32]) -> LayoutId {
    let (mut size, mut align) = (0u32, 1);
    let mut fields = Vec::new();
    for (i, &width) in widths.iter().enumerate() {
        let storage = storage_size(width);
        let offset = size.next_multiple_of(storage);
        fields.push(LayoutField {
            name: if widths.len() == 1 { String::new() } else { format!("f{i}") },
            type_name: format!("u{width}"),
            width,
            signed: false,
            names: Vec::new(),
            offset,
        });
        size = offset + storage;
        align = align.max(storage);
    }
    program.layouts.push(Layout { name: format!("{widths:?}"), fields, size: size.next_multiple_of(align), align });
    LayoutId(program.layouts.len() as u32 - 1)
}

pub fn add_table(program: &mut Program, kind: TableKind, key: LayoutId, value: LayoutId, capacity: u32) -> TableId {
    let name = format!("m.t{}", program.tables.len());
    program.tables.push(Table {
        name,
        kind,
        is_set: false,
        idle: None,
        meter: None,
        hold: None,
        group: None,
        locked: false,
        into: None,
        key,
        value,
        capacity,
        span: None,
    });
    TableId(program.tables.len() as u32 - 1)
}

/// A body on the way; instructions go to the current block.
pub struct Asm {
    pub body: Body,
    pub block: BlockId,
}

impl Asm {
    /// With the entry block and its packet.
    pub fn new(protocol: u32) -> (Self, Value) {
        let mut body = Body::default();
        let block = body.block();
        let packet = body.value(Ty::Packet(ProtocolId(protocol)));
        body.blocks[0].params.push(packet);
        (Asm { body, block }, packet)
    }

    pub fn def(&mut self, ty: Ty, op: Op) -> Value {
        self.body.push(self.block, ty, op, None)
    }

    pub fn int(&mut self, width: u32, op: Op) -> Value {
        self.def(Ty::Int(width), op)
    }

    pub fn effect(&mut self, op: Op) {
        self.body.effect(self.block, op, None);
    }

    pub fn constant(&mut self, width: u32, value: u128) -> Value {
        self.int(width, Op::Const(value))
    }

    pub fn width(&self, value: Value) -> u32 {
        match self.body.ty(value) {
            Ty::Int(width) => width,
            other => panic!("{other:?} has no width"),
        }
    }

    pub fn bin(&mut self, op: BinOp, a: Value, b: Value) -> Value {
        self.int(self.width(a), Op::Bin(op, a, b))
    }

    pub fn cmp(&mut self, op: CmpOp, a: Value, b: Value) -> Value {
        self.int(1, Op::Cmp(op, a, b))
    }

    pub fn cast(&mut self, op: CastOp, value: Value, width: u32) -> Value {
        self.int(width, Op::Cast(op, value))
    }

    /// Zero-extends or truncates.
    pub fn resize(&mut self, value: Value, width: u32) -> Value {
        let op = if width < self.width(value) { CastOp::Trunc } else { CastOp::ZExt };
        self.cast(op, value, width)
    }

    pub fn load(&mut self, packet: Value, offset: u32, width: u32) -> Value {
        self.int(width, Op::Load { packet, bits: BitRange { offset, width } })
    }

    pub fn store(&mut self, packet: Value, offset: u32, value: Value) {
        let width = self.width(value);
        self.effect(Op::Store { packet, bits: BitRange { offset, width }, value });
    }

    pub fn put(&mut self, packet: Value, channel: u32) {
        self.effect(Op::Put { packet, channel: ChannelId(channel) });
    }

    /// A new block with parameters of these types.
    pub fn new_block(&mut self, params: &[Ty]) -> (BlockId, Vec<Value>) {
        let block = self.body.block();
        let params: Vec<Value> = params.iter().map(|&ty| self.body.value(ty)).collect();
        self.body.blocks[block.0 as usize].params = params.clone();
        (block, params)
    }

    /// Ends the current block and goes on in `next`.
    pub fn end(&mut self, term: Terminator, next: BlockId) {
        self.body.blocks[self.block.0 as usize].term = term;
        self.block = next;
    }
}

pub fn dest(block: BlockId, args: &[Value]) -> Dest {
    Dest { block, args: args.to_vec() }
}
