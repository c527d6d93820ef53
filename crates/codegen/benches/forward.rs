//! Time per packet of two small programs at each level, and time to compile them.
//!
//! `l2`: compares the destination address with the port's own, looks the port's neighbour up in an array, rewrites both
//! addresses, to `tx`. `l3`: besides, decapsulates, checks and decrements the TTL, routes by an lpm table,
//! encapsulates. Frames are in the cache; the work of ports and workers is not in the numbers.

#[path = "../tests/common/mod.rs"]
mod common;

use baker::opt::Level;
use std::time::{Duration, Instant};

use baker::ir::*;
use codegen::OptLevel;
use common::Machine;
use common::asm::{Asm, add_layout, add_table, dest, program};
use common::tables::TestTable;

const ETHER: u32 = 0;
const IPV4: u32 = 1;
const TO_TX: u32 = 1;
const TO_HOST: u32 = 2;
const TO_ROUTE: u32 = 3;
const NO_ROUTE: DropId = DropId(5);

/// `if (pkt->dst == macs[port].own) …`: ends in the block where it is, with the packet and the entry.
fn classify(asm: &mut Asm, packet: Value, table: TableId, layout: LayoutId) -> Value {
    let port = asm.int(8, Op::MetaLoad { packet, field: Program::RX_PORT });
    let index = asm.resize(port, 32);
    let entry = asm.def(Ty::Entry(layout), Op::Lookup { table, key: vec![index] });
    let null = asm.int(1, Op::IsNull(entry));
    let (known, _) = asm.new_block(&[]);
    let (mine, _) = asm.new_block(&[]);
    let (other, _) = asm.new_block(&[]);
    asm.end(Terminator::Branch(null, dest(other, &[]), dest(known, &[])), other);
    asm.put(packet, TO_HOST);
    asm.end(Terminator::Return, known);
    let own = asm.int(48, Op::EntryLoad { entry, field: 0 });
    let dst = asm.load(packet, 0, 48);
    let equal = asm.cmp(CmpOp::Eq, own, dst);
    asm.end(Terminator::Branch(equal, dest(mine, &[]), dest(other, &[])), mine);
    entry
}

/// Both addresses and the port from an entry (own, neighbour, port), then to `tx`.
fn rewrite(asm: &mut Asm, packet: Value, entry: Value) {
    let [own, neighbour] = [0, 1].map(|field| asm.int(48, Op::EntryLoad { entry, field }));
    asm.store(packet, 0, neighbour);
    asm.store(packet, 48, own);
    let port = asm.int(8, Op::EntryLoad { entry, field: 2 });
    asm.effect(Op::MetaStore { packet, field: Program::TX_PORT, value: port });
    asm.put(packet, TO_TX);
}

fn with_tables(mut program: Program) -> Program {
    let key = add_layout(&mut program, &[32]);
    let value = add_layout(&mut program, &[48, 48, 8]);
    add_table(&mut program, TableKind::Array, key, value, 64);
    add_table(&mut program, TableKind::Lpm, key, value, 64);
    program.drop_reasons.push(DropReason { name: "no_route".into() });
    program
}

fn l2() -> Program {
    let (mut asm, packet) = Asm::new(ETHER);
    let entry = classify(&mut asm, packet, TableId(0), LayoutId(1));
    rewrite(&mut asm, packet, entry);
    let channels = [(ETHER, Target::Ppf(PpfId(0))), (ETHER, Target::Tx), (ETHER, Target::Host)];
    with_tables(program(&[14, 20], &channels, vec![(ETHER, asm.body)]))
}

fn l3() -> Program {
    let (mut asm, packet) = Asm::new(ETHER);
    classify(&mut asm, packet, TableId(0), LayoutId(1));
    let bytes = asm.constant(32, 34);
    let long = asm.int(1, Op::Has { packet, bytes });
    let (decap, _) = asm.new_block(&[]);
    let (short, _) = asm.new_block(&[]);
    asm.end(Terminator::Branch(long, dest(decap, &[]), dest(short, &[])), short);
    asm.effect(Op::Drop { packet, reason: DropId::TRUNCATED });
    asm.end(Terminator::Return, decap);
    let bytes = asm.constant(32, 14);
    let ip = asm.def(Ty::Packet(ProtocolId(IPV4)), Op::Pull { packet, bytes });
    asm.put(ip, TO_ROUTE);

    let (mut route, ip) = Asm::new(IPV4);
    let ttl = route.load(ip, 64, 8);
    let one = route.constant(8, 1);
    let expired = route.cmp(CmpOp::Ule, ttl, one);
    let (alive, _) = route.new_block(&[]);
    let (drop, _) = route.new_block(&[]);
    let (found, _) = route.new_block(&[]);
    route.end(Terminator::Branch(expired, dest(drop, &[]), dest(alive, &[])), drop);
    route.effect(Op::Drop { packet: ip, reason: NO_ROUTE });
    route.end(Terminator::Return, alive);
    let dst = route.load(ip, 128, 32);
    let entry = route.def(Ty::Entry(LayoutId(1)), Op::Lookup { table: TableId(1), key: vec![dst] });
    let null = route.int(1, Op::IsNull(entry));
    route.end(Terminator::Branch(null, dest(drop, &[]), dest(found, &[])), found);
    let less = route.bin(BinOp::Sub, ttl, one);
    route.store(ip, 64, less);
    // RFC 1624, equation 3, for a TTL that is one less: add 0x0100 with end-around carry.
    let sum = route.load(ip, 80, 16);
    let wide = route.resize(sum, 32);
    let step = route.constant(32, 0x100);
    let sum = route.bin(BinOp::Add, wide, step);
    let (sixteen, low) = (route.constant(32, 16), route.constant(32, 0xffff));
    let carry = route.bin(BinOp::LShr, sum, sixteen);
    let sum = route.bin(BinOp::And, sum, low);
    let sum = route.bin(BinOp::Add, sum, carry);
    let sum = route.resize(sum, 16);
    route.store(ip, 80, sum);
    let ether = route.def(Ty::Packet(ProtocolId(ETHER)), Op::Push { packet: ip, bytes: 14 });
    let kind = route.constant(16, 0x0800);
    route.store(ether, 96, kind);
    rewrite(&mut route, ether, entry);
    let channels =
        [(ETHER, Target::Ppf(PpfId(0))), (ETHER, Target::Tx), (ETHER, Target::Host), (IPV4, Target::Ppf(PpfId(1)))];
    with_tables(program(&[14, 20], &channels, vec![(ETHER, asm.body), (IPV4, route.body)]))
}

/// Nanoseconds per packet: the best of some rounds.
fn measure(program: &Program, opt: OptLevel) -> (Duration, f64) {
    let start = Instant::now();
    let mut machine = Machine::new(program, opt);
    let compile = start.elapsed();
    machine.tables[0].set_entry(1, &[0x0200_0000_0001, 0x0200_0000_0002, 1]);
    machine.tables[1].set_entry(0, &[0x0200_0000_0003, 0x0200_0000_0001, 2]);
    if let TestTable::Lpm { tbl24, .. } = &mut machine.tables[1] {
        tbl24[0x0a_00_00] = 1;
    }
    // Its own address as neighbour, so that the packet can go round.
    machine.tables[0].set_entry(1, &[0x0200_0000_0001, 0x0200_0000_0001, 1]);
    let mut packet = vec![0; 64];
    packet[..6].copy_from_slice(&[2, 0, 0, 0, 0, 1]);
    packet[22] = 64;
    packet[30..34].copy_from_slice(&[10, 0, 0, 1]);
    let frames: Vec<u32> = (0..64).map(|_| machine.receive(128, &packet, 1)).collect();
    let mut best = f64::MAX;
    for _ in 0..200 {
        for &frame in &frames {
            machine.frame(frame)[128 + 22] = 64;
        }
        let start = Instant::now();
        for _ in 0..50 {
            assert_eq!(machine.run(&frames).len(), 64);
        }
        best = best.min(start.elapsed().as_nanos() as f64 / (50.0 * 64.0));
    }
    assert_eq!(machine.channel(TO_TX), 200 * 50 * 64);
    (compile, best)
}

fn main() {
    if std::env::args().any(|arg| arg == "--asm") {
        println!("{}", codegen::emit(&l2(), OptLevel::O3, Level::Base, codegen::Emit::Asm).unwrap());
        println!("{}", codegen::emit(&l3(), OptLevel::O3, Level::Base, codegen::Emit::Asm).unwrap());
        return;
    }
    println!("{:<8} {:<6} {:>12} {:>12}", "program", "level", "compile ms", "ns/packet");
    for (name, program) in [("l2", l2()), ("l3", l3())] {
        for opt in [OptLevel::O0, OptLevel::O3] {
            let (compile, ns) = measure(&program, opt);
            println!("{name:<8} {opt:<6?} {:>12.1} {ns:>12.2}", compile.as_secs_f64() * 1e3);
        }
    }
}
