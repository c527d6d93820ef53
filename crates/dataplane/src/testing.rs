//! What tests share: a small program built by hand, packets, and a repeatable source of numbers.

use std::sync::Arc;

use baker::ir::*;

/// splitmix64 (Steele, Lea, Flood, 2014).
pub struct SplitMix64(pub u64);

impl SplitMix64 {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}

/// A scalar layout.
pub fn scalar(width: u32) -> Layout {
    let (name, size) = (format!("u{width}"), storage_size(width));
    let field = LayoutField {
        name: String::new(),
        type_name: name.clone(),
        width,
        signed: false,
        names: Vec::new(),
        offset: 0,
    };
    Layout { name, fields: vec![field], size, align: storage_align(width) }
}

/// Two 64-bit fields.
pub fn pair() -> Layout {
    let one = scalar(64).fields.remove(0);
    let fields = [("a", 0), ("b", 8)].map(|(name, offset)| LayoutField { name: name.into(), offset, ..one.clone() });
    Layout { name: "pair_t".into(), fields: fields.into(), size: 16, align: 8 }
}

/// A program with these tables and nothing else.
pub fn tables_only(tables: &[(TableKind, Layout, Layout, u32)]) -> Program {
    let mut program = forward();
    (program.ppfs, program.tables, program.layouts) = (Vec::new(), Vec::new(), Vec::new());
    for (kind, key, value, capacity) in tables {
        let id = LayoutId(program.layouts.len() as u32);
        program.layouts.extend([key.clone(), value.clone()]);
        let name = format!("m.t{}", program.tables.len());
        let table = Table {
            name,
            kind: *kind,
            is_set: false,
            idle: None,
            meter: None,
            hold: None,
            group: None,
            locked: false,
            into: None,
            key: id,
            value: LayoutId(id.0 + 1),
            capacity: *capacity,
            span: None,
        };
        program.tables.push(table);
    }
    program
}

/// A program with a meter of four cells and nothing else.
pub fn meter_only(rate: u64, burst: u64) -> Program {
    let mut layout = pair();
    let third = LayoutField { name: "taken_up_to".into(), offset: 16, ..layout.fields[0].clone() };
    layout.fields.push(third);
    layout.size = 24;
    let mut program = tables_only(&[(TableKind::Array, scalar(32), layout, 4)]);
    program.tables[0].meter = Some(meter::MeterRate { rate, burst });
    program
}

/// EtherType of packets that go to the host.
pub const TO_HOST: u16 = 0x0806;
/// EtherType of packets that are dropped as `unwanted`.
pub const TO_DROP: u16 = 0xdead;
/// EtherType of packets that leave twice.
pub const TWICE: u16 = 0x88b5;

/// Sends every packet to port `rx.port ^ 1`, but for the EtherTypes above; learns source addresses in `m.macs`.
pub fn forward() -> Program {
    let ether = Protocol {
        name: "ether".into(),
        size: 14,
        fields: [("dst", 0, 48), ("src", 48, 48), ("type", 96, 16)]
            .map(|(name, offset, width)| Field {
                name: name.into(),
                type_name: format!("u{width}"),
                bits: BitRange { offset, width },
                default: 0,
            })
            .into(),
        checksum: None,
        pseudo: Vec::new(),
    };
    let meta = |name: &str, width, offset| MetaField { name: name.into(), type_name: "u".into(), width, offset };
    let channel =
        |name: &str, target| Channel { name: name.into(), from: None, protocol: ProtocolId(0), target, batch: None };
    let mut reasons: Vec<_> = BUILTIN_DROP_REASONS.map(|(name, _)| DropReason { name: name.into() }).into();
    reasons.push(DropReason { name: "unwanted".into() });
    let macs = Table {
        name: "m.macs".into(),
        kind: TableKind::Hash,
        is_set: false,
        idle: None,
        meter: None,
        hold: None,
        group: None,
        locked: false,
        into: None,
        key: LayoutId(0),
        value: LayoutId(1),
        capacity: 64,
        span: None,
    };
    Program {
        name: "forward".into(),
        protocols: vec![ether],
        metadata: vec![meta("rx.port", 8, 0), meta("tx.port", 8, 1), meta("next_hop", 32, 4)],
        metadata_size: 8,
        layouts: vec![scalar(48), scalar(8)],
        tables: vec![macs],
        counters: vec![Counter { name: "m.seen".into(), size: 4 }],
        drop_reasons: reasons,
        controllers: Vec::new(),
        externs: Vec::new(),
        timers: Vec::new(),
        queues: Vec::new(),
        channels: vec![
            channel("rx", Target::Ppf(PpfId(0))),
            channel("m.out", Target::Tx),
            channel("m.host", Target::Host),
        ],
        ppfs: vec![Ppf { name: "m.forward".into(), protocol: ProtocolId(0), pin: None, body: body(), span: None }],
        limits: Limits { copies: 1, ..Limits::default() },
        sums: Default::default(),
        timed: false,
    }
}

fn body() -> Body {
    let mut body = Body::default();
    let [entry, host, not_host, drop, not_drop, twice, out] = std::array::from_fn(|_| body.block());
    let packet = body.value(Ty::Packet(ProtocolId(0)));
    body.blocks[entry.0 as usize].params.push(packet);
    let load = |body: &mut Body, offset, width| {
        body.push(entry, Ty::Int(width), Op::Load { packet, bits: BitRange { offset, width } }, None)
    };
    let (source, kind) = (load(&mut body, 48, 48), load(&mut body, 96, 16));
    let port = body.push(entry, Ty::Int(8), Op::MetaLoad { packet, field: Program::RX_PORT }, None);
    let one = body.push(entry, Ty::Int(8), Op::Const(1), None);
    let other = body.push(entry, Ty::Int(8), Op::Bin(BinOp::Xor, port, one), None);
    body.effect(entry, Op::MetaStore { packet, field: Program::TX_PORT, value: other }, None);
    let (table, cell) = (TableId(0), body.push(entry, Ty::Int(32), Op::Cast(CastOp::ZExt, port), None));
    body.push(entry, Ty::Int(1), Op::Insert { table, key: vec![source], value: vec![port], new: false }, None);
    let amount = body.push(entry, Ty::Int(64), Op::Const(1), None);
    body.effect(entry, Op::Count { counter: CounterId(0), index: cell, amount }, None);
    let dest = |block| Dest { block, args: Vec::new() };
    let mut branch = |from: BlockId, value: u16, then, other| {
        let value = body.push(from, Ty::Int(16), Op::Const(value.into()), None);
        let equal = body.push(from, Ty::Int(1), Op::Cmp(CmpOp::Eq, kind, value), None);
        body.blocks[from.0 as usize].term = Terminator::Branch(equal, dest(then), dest(other));
    };
    branch(entry, TO_HOST, host, not_host);
    branch(not_host, TO_DROP, drop, not_drop);
    branch(not_drop, TWICE, twice, out);
    body.effect(host, Op::Put { packet, channel: ChannelId(2) }, None);
    body.effect(drop, Op::Drop { packet, reason: DropId(BUILTIN_DROP_REASONS.len() as u32) }, None);
    let copy = body.push(twice, Ty::Packet(ProtocolId(0)), Op::Copy { packet }, None);
    body.effect(twice, Op::Put { packet: copy, channel: ChannelId(1) }, None);
    body.blocks[twice.0 as usize].term = Terminator::Jump(dest(out));
    body.effect(out, Op::Put { packet, channel: ChannelId(1) }, None);
    body
}

/// [`forward`], ready to share.
pub fn forward_program() -> Arc<Program> {
    Arc::new(forward())
}

/// An Ethernet frame of `len` bytes with a number in its source address and payload.
pub fn frame(kind: u16, number: u32, len: usize) -> Vec<u8> {
    let mut bytes = vec![2, 0, 0, 0, 0, 1, 2, 0];
    bytes.extend(number.to_be_bytes());
    bytes.extend(kind.to_be_bytes());
    bytes.extend((14..len.max(14)).map(|i| (i as u32).wrapping_mul(31).wrapping_add(number) as u8));
    bytes
}

/// A program from its text.
pub fn compiled(text: &str) -> Arc<Program> {
    compiled_by(text, lower)
}

/// The same in the form in which hosts may leave checksums to devices.
pub fn compiled_with_operations(text: &str) -> Arc<Program> {
    compiled_by(text, lower_with_operations)
}

fn compiled_by(text: &str, lower: fn(&baker::check::hir::Program) -> Program) -> Arc<Program> {
    let found = baker::check::check("test.baker", text, &baker::library::Library);
    let text = baker::diag::render(&found.diagnostics, &found.sources, false);
    Arc::new(lower(&found.program.unwrap_or_else(|| panic!("{text}"))))
}
