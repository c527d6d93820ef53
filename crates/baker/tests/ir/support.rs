//! A small builder of programs, and models to compare with that share no code with the interpreter.

use baker::ir::*;

/// A program with the built-in metadata and drop reasons and nothing else.
pub fn program() -> Program {
    let metadata = |name: &str, offset| MetaField { name: name.into(), type_name: "u8".into(), width: 8, offset };
    Program {
        name: "test".into(),
        protocols: Vec::new(),
        metadata: vec![metadata("rx.port", 0), metadata("tx.port", 1)],
        metadata_size: 2,
        layouts: Vec::new(),
        tables: Vec::new(),
        counters: Vec::new(),
        drop_reasons: BUILTIN_DROP_REASONS.iter().map(|(name, _)| DropReason { name: (*name).into() }).collect(),
        controllers: Vec::new(),
        externs: Vec::new(),
        timers: Vec::new(),
        queues: Vec::new(),
        channels: Vec::new(),
        ppfs: Vec::new(),
        limits: Limits { headroom: 16, copies: 1, ..Limits::default() },
        sums: Default::default(),
        timed: false,
    }
}

/// A protocol with fields of these names and widths.
pub fn protocol(program: &mut Program, name: &str, fields: &[(&str, u32)]) -> ProtocolId {
    let mut offset = 0;
    let fields: Vec<Field> = fields
        .iter()
        .map(|&(name, width)| {
            let bits = BitRange { offset, width };
            offset += width;
            Field { name: name.into(), type_name: format!("u{width}"), bits, default: 0 }
        })
        .collect();
    program.protocols.push(Protocol {
        name: name.into(),
        size: offset / 8,
        fields,
        checksum: None,
        pseudo: Vec::new(),
    });
    ProtocolId(program.protocols.len() as u32 - 1)
}

pub fn metadata(program: &mut Program, name: &str, width: u32) -> MetaId {
    let offset = program.metadata_size.next_multiple_of(storage_size(width));
    program.metadata.push(MetaField { name: name.into(), type_name: format!("u{width}"), width, offset });
    program.metadata_size = offset + storage_size(width);
    MetaId(program.metadata.len() as u32 - 1)
}

/// A layout by C's rules.
pub fn layout(program: &mut Program, name: &str, fields: &[(&str, u32)]) -> LayoutId {
    let (mut offset, mut align) = (0u32, 1);
    let fields = fields
        .iter()
        .map(|&(name, width)| {
            let at = offset.next_multiple_of(storage_align(width));
            offset = at + storage_size(width);
            align = align.max(storage_align(width));
            let type_name = format!("u{width}");
            LayoutField { name: name.into(), type_name, width, signed: false, names: Vec::new(), offset: at }
        })
        .collect();
    program.layouts.push(Layout { name: name.into(), fields, size: offset.next_multiple_of(align), align });
    LayoutId(program.layouts.len() as u32 - 1)
}

pub fn table(
    program: &mut Program,
    kind: TableKind,
    name: &str,
    key: LayoutId,
    value: LayoutId,
    capacity: u32,
) -> TableId {
    program.tables.push(Table {
        name: name.into(),
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

pub fn counter(program: &mut Program, name: &str, size: u32) -> CounterId {
    program.counters.push(Counter { name: name.into(), size });
    CounterId(program.counters.len() as u32 - 1)
}

pub fn drop_reason(program: &mut Program, name: &str) -> DropId {
    program.drop_reasons.push(DropReason { name: name.into() });
    DropId(program.drop_reasons.len() as u32 - 1)
}

pub fn channel(program: &mut Program, name: &str, protocol: ProtocolId, target: Target) -> ChannelId {
    program.channels.push(Channel { name: name.into(), from: None, protocol, target, batch: None });
    ChannelId(program.channels.len() as u32 - 1)
}

pub fn ppf(program: &mut Program, name: &str, protocol: ProtocolId, code: Code) -> PpfId {
    program.ppfs.push(Ppf { name: name.into(), protocol, pin: None, body: code.body, span: None });
    PpfId(program.ppfs.len() as u32 - 1)
}

/// A body under construction; instructions go into the current block.
pub struct Code {
    pub body: Body,
    pub block: BlockId,
}

impl Code {
    /// A body with an entry block that takes a packet.
    pub fn new(protocol: ProtocolId) -> (Code, Value) {
        let mut code = Code { body: Body::default(), block: BlockId(0) };
        let entry = code.body.block();
        let packet = code.param(entry, Ty::Packet(protocol));
        (code, packet)
    }

    pub fn param(&mut self, block: BlockId, ty: Ty) -> Value {
        let value = self.body.value(ty);
        self.body.blocks[block.0 as usize].params.push(value);
        value
    }

    pub fn push(&mut self, ty: Ty, op: Op) -> Value {
        self.body.push(self.block, ty, op, None)
    }

    /// An instruction with an integer as result.
    pub fn int(&mut self, width: u32, op: Op) -> Value {
        self.push(Ty::Int(width), op)
    }

    pub fn effect(&mut self, op: Op) {
        self.body.effect(self.block, op, None);
    }

    pub fn constant(&mut self, width: u32, number: u128) -> Value {
        self.int(width, Op::Const(number))
    }

    pub fn load(&mut self, packet: Value, offset: u32, width: u32) -> Value {
        self.int(width, Op::Load { packet, bits: BitRange { offset, width } })
    }

    pub fn store(&mut self, packet: Value, offset: u32, width: u32, value: Value) {
        self.effect(Op::Store { packet, bits: BitRange { offset, width }, value });
    }

    pub fn put(&mut self, packet: Value, channel: ChannelId) {
        self.effect(Op::Put { packet, channel });
    }

    pub fn drop(&mut self, packet: Value) {
        self.effect(Op::Drop { packet, reason: DropId::MALFORMED });
    }

    pub fn jump(&mut self, block: BlockId, args: &[Value]) {
        self.body.blocks[self.block.0 as usize].term = Terminator::Jump(dest(block, args));
    }

    pub fn branch(&mut self, condition: Value, then: Dest, other: Dest) {
        self.body.blocks[self.block.0 as usize].term = Terminator::Branch(condition, then, other);
    }
}

pub fn dest(block: BlockId, args: &[Value]) -> Dest {
    Dest { block, args: args.to_vec() }
}

/// A program with one PPF behind `rx`; its packets go out through channel 1, `tx`, of the same protocol.
pub fn one_ppf(program: &mut Program, protocol: ProtocolId, code: Code) {
    let id = ppf(program, "m.p", protocol, code);
    program
        .channels
        .insert(0, Channel { name: "rx".into(), from: None, protocol, target: Target::Ppf(id), batch: None });
    program.channels.insert(1, Channel { name: "m.out".into(), from: None, protocol, target: Target::Tx, batch: None });
}

/// The channel to `tx` that [`one_ppf`] adds.
pub const OUT: ChannelId = ChannelId(1);

/// One bit of a header.
fn bit(bytes: &[u8], index: u32) -> u128 {
    (bytes[(index / 8) as usize] >> (7 - index % 8) & 1) as u128
}

/// A bit field, bit by bit.
pub fn naive_get(bytes: &[u8], bits: BitRange) -> u128 {
    (0..bits.width).fold(0, |value, i| value * 2 + bit(bytes, bits.offset + i))
}

/// Sets a bit field, bit by bit.
pub fn naive_set(bytes: &mut [u8], bits: BitRange, value: u128) {
    for i in 0..bits.width {
        let (index, one) = (bits.offset + i, value >> (bits.width - 1 - i) & 1);
        let (byte, place) = (&mut bytes[(index / 8) as usize], 7 - index % 8);
        *byte = *byte & !(1 << place) | (one as u8) << place;
    }
}

/// Deterministic random numbers: SplitMix64 (Steele, Lea, Flood 2014).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`.
    pub fn below(&mut self, end: u32) -> u32 {
        (self.next() % end as u64) as u32
    }

    pub fn bits(&mut self, width: u32) -> u128 {
        let wide = (self.next() as u128) << 64 | self.next() as u128;
        wide >> (128 - width)
    }

    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.next() as u8).collect()
    }
}
