//! Every operation at many widths, with edge values, against a model in this file.

mod common;

use baker::ir::*;
use common::asm::{Asm, dest, program};
use common::{Machine, Random, mask};

const WIDTHS: [u32; 14] = [1, 2, 7, 8, 13, 16, 31, 32, 48, 63, 64, 65, 127, 128];
const BIN_OPS: [BinOp; 13] = [
    BinOp::Add,
    BinOp::Sub,
    BinOp::Mul,
    BinOp::UDiv,
    BinOp::SDiv,
    BinOp::URem,
    BinOp::SRem,
    BinOp::And,
    BinOp::Or,
    BinOp::Xor,
    BinOp::Shl,
    BinOp::LShr,
    BinOp::AShr,
];
const CMP_OPS: [CmpOp; 6] = [CmpOp::Eq, CmpOp::Ne, CmpOp::Ult, CmpOp::Ule, CmpOp::Slt, CmpOp::Sle];

fn signed(value: u128, width: u32) -> i128 {
    ((value << (128 - width)) as i128) >> (128 - width)
}

fn model_bin(op: BinOp, a: u128, b: u128, width: u32) -> u128 {
    let (sa, sb) = (signed(a, width), signed(b, width));
    let too_far = b >= width.into();
    let full = match op {
        BinOp::Add => a.wrapping_add(b),
        BinOp::Sub => a.wrapping_sub(b),
        BinOp::Mul => a.wrapping_mul(b),
        BinOp::UDiv => a.checked_div(b).unwrap_or(0),
        BinOp::URem => a.checked_rem(b).unwrap_or(0),
        BinOp::SDiv if b == 0 => 0,
        BinOp::SDiv => sa.wrapping_div(sb) as u128,
        BinOp::SRem if b == 0 => 0,
        BinOp::SRem => sa.wrapping_rem(sb) as u128,
        BinOp::And => a & b,
        BinOp::Or => a | b,
        BinOp::Xor => a ^ b,
        BinOp::Shl | BinOp::LShr | BinOp::AShr if too_far => 0,
        BinOp::Shl => a << b,
        BinOp::LShr => a >> b,
        BinOp::AShr => (sa >> b) as u128,
    };
    full & mask(width)
}

fn model_cmp(op: CmpOp, a: u128, b: u128, width: u32) -> bool {
    let (sa, sb) = (signed(a, width), signed(b, width));
    match op {
        CmpOp::Eq => a == b,
        CmpOp::Ne => a != b,
        CmpOp::Ult => a < b,
        CmpOp::Ule => a <= b,
        CmpOp::Slt => sa < sb,
        CmpOp::Sle => sa <= sb,
    }
}

/// Values where operations of this width go wrong, if they do.
fn edges(width: u32) -> Vec<u128> {
    let w = u128::from(width);
    let least = 1 << (width - 1);
    let mut values: Vec<u128> =
        [0, 1, 2, 3, w - 1, w, w + 1, least, least - 1, least + 1, u128::MAX, u128::MAX - 1, u128::MAX - 2]
            .iter()
            .map(|value| value & mask(width))
            .collect();
    values.sort_unstable();
    values.dedup();
    values
}

fn pairs(width: u32) -> Vec<(u128, u128)> {
    let mut random = Random(u64::from(width) + 1);
    let edges = edges(width);
    let mut pairs: Vec<_> = edges.iter().flat_map(|&a| edges.iter().map(move |&b| (a, b))).collect();
    for _ in 0..64 {
        // Divisors and shifts of all magnitudes.
        let b = random.wide() >> random.below(128);
        pairs.push((random.wide() & mask(width), b & mask(width)));
    }
    pairs
}

/// All operations on two values, results one after the other as 128-bit numbers from byte 32.
fn results_body(width: u32, operands: Option<(u128, u128)>) -> (Body, u32) {
    let (mut asm, packet) = Asm::new(0);
    let (a, b) = match operands {
        Some((a, b)) => (asm.constant(width, a), asm.constant(width, b)),
        None => {
            let (a, b) = (asm.load(packet, 0, 128), asm.load(packet, 128, 128));
            (asm.resize(a, width), asm.resize(b, width))
        }
    };
    let mut results: Vec<Value> = BIN_OPS.iter().map(|&op| asm.bin(op, a, b)).collect();
    results.extend(CMP_OPS.map(|op| asm.cmp(op, a, b)));
    let less = asm.cmp(CmpOp::Ult, a, b);
    results.push(asm.int(width, Op::Select(less, a, b)));
    let mut at = 256;
    for result in results {
        let wide = asm.resize(result, 128);
        asm.store(packet, at, wide);
        at += 128;
    }
    let sext = asm.cast(CastOp::SExt, a, 128);
    asm.store(packet, at, sext);
    asm.put(packet, 1);
    (asm.body, at / 8 + 16)
}

fn expected(a: u128, b: u128, width: u32) -> Vec<u128> {
    let mut out: Vec<u128> = BIN_OPS.iter().map(|&op| model_bin(op, a, b, width)).collect();
    out.extend(CMP_OPS.map(|op| u128::from(model_cmp(op, a, b, width))));
    out.push(a.min(b));
    out.push(signed(a, width) as u128);
    out
}

fn results(packet: &[u8]) -> Vec<u128> {
    packet[32..].chunks(16).map(|chunk| u128::from_be_bytes(chunk.try_into().unwrap())).collect()
}

#[test]
fn every_operation_at_every_width() {
    for width in WIDTHS {
        let (body, size) = results_body(width, None);
        let program = program(&[size], &[(0, Target::Ppf(PpfId(0))), (0, Target::Tx)], vec![(0, body)]);
        for (level, mut machine) in Machine::both(&program).into_iter().enumerate() {
            for batch in pairs(width).chunks(64) {
                let frames: Vec<u32> = batch
                    .iter()
                    .map(|(a, b)| {
                        let mut packet = [a.to_be_bytes(), b.to_be_bytes()].concat();
                        packet.resize(size as usize, 0xee);
                        machine.receive(128, &packet, 0)
                    })
                    .collect();
                assert_eq!(machine.run(&frames).len(), batch.len());
                for (&(a, b), &frame) in batch.iter().zip(&frames) {
                    let got = results(&machine.packet(frame));
                    assert_eq!(got, expected(a, b, width), "width {width}, {a:#x} and {b:#x}, level {level}");
                }
                machine.release(&frames);
            }
        }
    }
}

/// LLVM computes with constants by other code than with variables.
#[test]
fn every_operation_on_constants() {
    for width in [1, 13, 32, 65, 128] {
        for (a, b) in pairs(width).into_iter().step_by(7) {
            let (body, size) = results_body(width, Some((a, b)));
            let program = program(&[size], &[(0, Target::Ppf(PpfId(0))), (0, Target::Tx)], vec![(0, body)]);
            let mut machine = Machine::new(&program, codegen::OptLevel::O3);
            let frame = machine.receive(128, &vec![0; size as usize], 0);
            machine.run(&[frame]);
            assert_eq!(results(&machine.packet(frame)), expected(a, b, width), "width {width}, {a:#x} and {b:#x}");
        }
    }
}

#[test]
fn casts_between_all_widths() {
    for from in WIDTHS {
        let (mut asm, packet) = Asm::new(0);
        let value = asm.load(packet, 0, 128);
        let value = asm.resize(value, from);
        let mut at = 256;
        for to in WIDTHS {
            let op = if to < from { CastOp::Trunc } else { CastOp::SExt };
            let cast = asm.cast(op, value, to);
            let wide = asm.resize(cast, 128);
            asm.store(packet, at, wide);
            at += 128;
        }
        asm.put(packet, 1);
        let program = program(&[at / 8], &[(0, Target::Ppf(PpfId(0))), (0, Target::Tx)], vec![(0, asm.body)]);
        for mut machine in Machine::both(&program) {
            for value in edges(from) {
                let mut packet = value.to_be_bytes().to_vec();
                packet.resize(at as usize / 8, 0);
                let frame = machine.receive(0, &packet, 0);
                machine.run(&[frame]);
                let want: Vec<u128> = WIDTHS.iter().map(|&to| signed(value, from) as u128 & mask(to)).collect();
                assert_eq!(results(&machine.packet(frame)), want, "from {from} bits, {value:#x}");
                machine.release(&[frame]);
            }
        }
    }
}

/// Fibonacci numbers: two values that change places in each round, as phis must do at once; and a sum.
#[test]
fn loops_pass_values() {
    let (mut asm, packet) = Asm::new(0);
    let rounds = asm.load(packet, 0, 8);
    let (zero, one) = (asm.constant(64, 0), asm.constant(64, 1));
    let none = asm.constant(8, 0);
    let (head, params) = asm.new_block(&[Ty::Int(8), Ty::Int(64), Ty::Int(64)]);
    let (body, _) = asm.new_block(&[]);
    let (exit, _) = asm.new_block(&[]);
    asm.end(Terminator::Jump(dest(head, &[none, zero, one])), head);
    let more = asm.cmp(CmpOp::Ult, params[0], rounds);
    asm.end(Terminator::Branch(more, dest(body, &[]), dest(exit, &[])), body);
    let step = asm.constant(8, 1);
    let next = asm.bin(BinOp::Add, params[0], step);
    let sum = asm.bin(BinOp::Add, params[1], params[2]);
    asm.end(Terminator::Jump(dest(head, &[next, params[2], sum])), exit);
    asm.store(packet, 64, params[1]);
    asm.put(packet, 1);
    let program = program(&[16], &[(0, Target::Ppf(PpfId(0))), (0, Target::Tx)], vec![(0, asm.body)]);
    for mut machine in Machine::both(&program) {
        let frames: Vec<u32> = (0..64).map(|n| machine.receive(7, &[n; 16], 0)).collect();
        machine.run(&frames);
        let (mut a, mut b) = (0u64, 1);
        for frame in frames {
            assert_eq!(machine.packet(frame)[8..], a.to_be_bytes());
            (a, b) = (b, a + b);
        }
    }
}

/// Both edges of a branch to one block, with different values; the entry block's order; blocks that nothing reaches.
#[test]
fn odd_control_flow() {
    let (mut asm, packet) = Asm::new(0);
    let bit = asm.load(packet, 7, 1);
    let (yes, no) = (asm.constant(8, 0xaa), asm.constant(8, 0x55));
    let (unreached, dead) = asm.new_block(&[Ty::Int(8)]);
    let (join, params) = asm.new_block(&[Ty::Packet(ProtocolId(0)), Ty::Int(8)]);
    asm.end(Terminator::Branch(bit, dest(join, &[packet, yes]), dest(join, &[packet, no])), unreached);
    // Refers to itself and to a block that is reached.
    asm.end(Terminator::Branch(bit, dest(unreached, &dead), dest(join, &[packet, dead[0]])), join);
    asm.store(params[0], 8, params[1]);
    asm.put(params[0], 1);
    let program = program(&[2], &[(0, Target::Ppf(PpfId(0))), (0, Target::Tx)], vec![(0, asm.body)]);
    for mut machine in Machine::both(&program) {
        let frames = [machine.receive(0, &[0, 0], 0), machine.receive(0, &[1, 0], 0)];
        machine.run(&frames);
        assert_eq!(machine.packet(frames[0]), [0, 0x55]);
        assert_eq!(machine.packet(frames[1]), [1, 0xaa]);
    }
}
