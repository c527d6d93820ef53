//! What operations take that stay within the engine: 32 bits at a time, one cycle each.
//!
//! | operation | instructions |
//! |---|---|
//! | constant | none up to 8 bits (an immediate operand); one per 16 bits and word that are not zero |
//! | add, sub, and, or, xor | one per word that is computed; one more where the width is no multiple of 32 and a carry can leave it |
//! | shift by a constant | one per word; none by whole words, which are other registers |
//! | shift by a value | three (the amount, beyond the width) and two per word |
//! | mul | `mul_step` 6 per pair of words and the additions |
//! | division by a power of two | a shift |
//! | division by another constant | multiplication by its reciprocal (Granlund and Montgomery, 1994) |
//! | division by a value | a loop of 4 instructions per bit |
//! | comparison | one per word; two more where the result is kept as a number |
//! | select | two, and one per word |

use baker::ir::{BinOp, Body, CastOp, Inst, Op, Value};

use crate::demanded::{Analysis, Words, all, width};
use crate::micro::{MicroOp, Unit};

/// `mul_step` of two words: start, four steps of 8 bits, last.
const MULTIPLY: u32 = 6;

/// Instructions of a software division, per bit: shift, shift in, subtract, branch.
const DIVIDE: u32 = 4;

/// The micro-operations of an instruction, without those that go to memory.
pub fn lower(body: &Body, words: &Analysis, block: usize, inst: &Inst) -> Vec<MicroOp> {
    let mut out = Vec::new();
    let mut run = |unit: Unit, count: u32| out.extend((count > 0).then_some(MicroOp::Run(unit, count)));
    let needed = inst.result.map_or(0, |result| words.needed(result));
    let bits = inst.result.map_or(32, |result| width(body, result));
    // A number whose bits fill its registers needs no mask.
    let mask = |words: Words| u32::from(!bits.is_multiple_of(32) && words & highest(bits) != 0);
    match &inst.op {
        Op::Const(number) => run(Unit::Immediate, immediates(*number, needed)),
        Op::Bin(op, a, b) => {
            let operand = |value: &Value| words.nonzero(*value);
            let both = needed & operand(a) & operand(b);
            match op {
                BinOp::And => run(Unit::Alu, both.count_ones()),
                // Where one of them is zero the other's register is the result.
                BinOp::Or | BinOp::Xor => run(Unit::Alu, both.count_ones()),
                BinOp::Add | BinOp::Sub => run(Unit::Alu, needed.count_ones() + mask(needed)),
                BinOp::Mul => multiply(&mut run, needed.count_ones()),
                BinOp::Shl | BinOp::LShr | BinOp::AShr => match words.constant(*b) {
                    Some(by) if by % 32 == 0 => run(Unit::Alu, mask(needed)),
                    Some(_) => run(Unit::Shift, needed.count_ones() + if *op == BinOp::Shl { mask(needed) } else { 0 }),
                    None => {
                        run(Unit::Alu, 3);
                        run(Unit::Shift, 2 * needed.count_ones());
                    }
                },
                BinOp::UDiv | BinOp::SDiv | BinOp::URem | BinOp::SRem => {
                    divide(&mut run, *op, words.constant(*b), needed, bits);
                }
            }
        }
        Op::Cmp(_, a, b) if needed != 0 => {
            let compared = words.nonzero(*a) | words.nonzero(*b);
            let kept = inst.result.is_some_and(|result| !words.is_condition(body, block, result));
            run(Unit::Alu, compared.count_ones().max(1) + 2 * u32::from(kept));
        }
        Op::IsNull(_) if needed != 0 => {
            let kept = inst.result.is_some_and(|result| !words.is_condition(body, block, result));
            run(Unit::Alu, 1 + 2 * u32::from(kept));
        }
        Op::Cast(CastOp::SExt, _) => run(Unit::Shift, 2 * needed.count_ones().min(1) + needed.count_ones() / 2),
        Op::Cast(CastOp::Trunc, _) => run(Unit::Alu, mask(needed)),
        Op::Cast(CastOp::ZExt, _) => {}
        Op::Select(..) if needed != 0 => {
            run(Unit::Alu, 1 + needed.count_ones());
            run(Unit::Branch, 1);
        }
        // The timestamp register, and its conversion into nanoseconds by a multiplication and a shift.
        Op::Now if needed != 0 => {
            run(Unit::Csr, 2);
            multiply(&mut run, 2);
            run(Unit::Shift, 2);
        }
        _ => {}
    }
    out
}

/// The word that holds the highest bit.
fn highest(bits: u32) -> Words {
    all(bits) & !all(bits.saturating_sub(1) / 32 * 32)
}

fn immediates(number: u128, needed: Words) -> u32 {
    if number <= 0xff {
        return 0;
    }
    let halves = |word: u32| u32::from(word & 0xffff != 0) + u32::from(word >> 16 != 0);
    (0..4).filter(|word| needed >> word & 1 == 1).map(|word| halves((number >> (32 * word)) as u32)).sum()
}

/// The low `words` words of a product.
fn multiply(run: &mut impl FnMut(Unit, u32), words: u32) {
    let pairs = words * (words + 1) / 2;
    run(Unit::Multiply, MULTIPLY * pairs);
    run(Unit::Alu, 2 * pairs.saturating_sub(1));
}

fn divide(run: &mut impl FnMut(Unit, u32), op: BinOp, by: Option<u128>, needed: Words, bits: u32) {
    let words = bits.div_ceil(32);
    let remainder = matches!(op, BinOp::URem | BinOp::SRem);
    let signed = matches!(op, BinOp::SDiv | BinOp::SRem);
    if needed == 0 {
        return;
    }
    run(Unit::Alu, 4 * u32::from(signed));
    match by {
        Some(0) => {}
        Some(by) if by.is_power_of_two() => run(Unit::Shift, needed.count_ones()),
        Some(_) => {
            // The high half of a product of twice as many words, and a shift.
            let pairs = words * words;
            run(Unit::Multiply, MULTIPLY * pairs);
            run(Unit::Alu, 2 * pairs);
            run(Unit::Shift, words);
            if remainder {
                multiply(run, words);
                run(Unit::Alu, words);
            }
        }
        None => {
            run(Unit::Branch, 1);
            run(Unit::Alu, DIVIDE * bits * words);
        }
    }
}
