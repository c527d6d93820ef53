//! Value numbering: what is computed twice from the same values is computed once; what is known is folded.
//!
//! ```text
//! v2: u4 = trunc v1                     v2: u4 = trunc v1
//! v3: u32 = zext v2                     v3: u32 = zext v2
//! …                               →     …
//! v8: u4 = trunc v1
//! v9: u32 = zext v8                     (v3 in place of v9)
//! ```
//!
//! Only arithmetic is numbered, and only where the first computation dominates the second. Caching leaves many equal
//! shifts behind, one for each use of a field.

use std::collections::HashMap;

use crate::ir::analysis::{Cfg, Dominators};
use crate::ir::arith::mask;
use crate::ir::*;

/// Equal computations that are tried for dominance, the latest first, so that time stays in proportion to a body's
/// size.
const TRIED: usize = 8;

/// Numbers the values of all bodies.
pub fn number(program: &Program) -> Program {
    let mut numbered = program.clone();
    let timers = numbered.timers.iter_mut().map(|timer| &mut timer.body);
    numbered.ppfs.iter_mut().map(|ppf| &mut ppf.body).chain(timers).for_each(number_values_of);
    numbered
}

fn number_values_of(body: &mut Body) {
    let cfg = Cfg::new(body);
    let dominators = Dominators::new(&cfg);
    let mut numbering =
        ValueNumbering { ops: vec![None; body.values.len()], found: HashMap::new(), dominators: &dominators };
    let mut replaced: Vec<Value> = (0..body.values.len() as u32).map(Value).collect();
    for &id in &cfg.order {
        let mut block = std::mem::take(&mut body.blocks[id.0 as usize]);
        for inst in &mut block.insts {
            inst.op.operands_mut(|value| *value = replaced[value.0 as usize]);
            let Some(result) = inst.result else { continue };
            let Ty::Int(width) = body.ty(result) else { continue };
            match numbering.simplify(body, &inst.op, width) {
                Simpler::Value(value) => {
                    replaced[result.0 as usize] = value;
                    continue;
                }
                Simpler::Op(op) => inst.op = op,
                Simpler::No => {}
            }
            if let Some(same) = numbering.same(id, result, &inst.op, width) {
                replaced[result.0 as usize] = same;
            }
        }
        body.blocks[id.0 as usize] = block;
    }
    // Jumps may lead back to blocks that came before.
    for block in &mut body.blocks {
        if let Terminator::Branch(condition, then, other) = &mut block.term {
            *condition = replaced[condition.0 as usize];
            if let Some(Op::Const(number)) = &numbering.ops[condition.0 as usize] {
                block.term = Terminator::Jump(if *number == 1 { then.clone() } else { other.clone() });
            }
        }
        for arg in block.term.dests_mut().into_iter().flat_map(|dest| &mut dest.args) {
            *arg = replaced[arg.0 as usize];
        }
    }
    super::straighten::straighten(body);
}

enum Simpler {
    Value(Value),
    Op(Op),
    No,
}

struct ValueNumbering<'d> {
    /// What makes each number that arithmetic makes.
    ops: Vec<Option<Op>>,
    found: HashMap<(Op, u32), Vec<(BlockId, Value)>>,
    dominators: &'d Dominators,
}

impl ValueNumbering<'_> {
    /// A value computed before that is the same; else this one is remembered.
    fn same(&mut self, block: BlockId, result: Value, op: &Op, width: u32) -> Option<Value> {
        if !op.is_arithmetic() {
            return None;
        }
        let equals = self.found.entry((op.clone(), width)).or_default();
        let tried = equals.iter().rev().take(TRIED);
        let same = tried.copied().find(|(at, _)| self.dominators.dominates(*at, block));
        if let Some((_, value)) = same {
            return Some(value);
        }
        equals.push((block, result));
        self.ops[result.0 as usize] = Some(op.clone());
        None
    }

    fn constant(&self, value: Value) -> Option<u128> {
        match self.ops[value.0 as usize] {
            Some(Op::Const(number)) => Some(number),
            _ => None,
        }
    }

    /// The same result of `width` bits with less work.
    fn simplify(&self, body: &Body, op: &Op, width: u32) -> Simpler {
        let bits = |value: Value| match body.ty(value) {
            Ty::Int(bits) => bits,
            _ => 128,
        };
        if let Some(number) = op.fold(width, |value| Some((bits(value), self.constant(value)?))) {
            return Simpler::Op(Op::Const(number));
        }
        match *op {
            Op::Bin(bin, a, b) => match (self.constant(a), self.constant(b)) {
                (_, Some(0)) if neutral(bin) => Simpler::Value(a),
                (Some(0), _) if matches!(bin, BinOp::Or | BinOp::Xor | BinOp::Add) => Simpler::Value(b),
                (_, Some(ones)) if bin == BinOp::And && ones == mask(width) => Simpler::Value(a),
                _ => Simpler::No,
            },
            Op::Select(condition, a, b) => match self.constant(condition) {
                Some(chosen) => Simpler::Value(if chosen == 1 { a } else { b }),
                None if a == b => Simpler::Value(a),
                None => Simpler::No,
            },
            Op::Cast(cast, a) => match (cast, &self.ops[a.0 as usize]) {
                (CastOp::ZExt, Some(Op::Cast(CastOp::ZExt, inner))) => Simpler::Op(Op::Cast(CastOp::ZExt, *inner)),
                (CastOp::Trunc, Some(Op::Cast(CastOp::Trunc, inner))) => Simpler::Op(Op::Cast(CastOp::Trunc, *inner)),
                (CastOp::Trunc, Some(Op::Cast(CastOp::ZExt, inner))) => match bits(*inner).cmp(&width) {
                    std::cmp::Ordering::Equal => Simpler::Value(*inner),
                    std::cmp::Ordering::Less => Simpler::Op(Op::Cast(CastOp::ZExt, *inner)),
                    std::cmp::Ordering::Greater => Simpler::Op(Op::Cast(CastOp::Trunc, *inner)),
                },
                _ => Simpler::No,
            },
            _ => Simpler::No,
        }
    }
}

/// Whether 0 as the right operand changes nothing.
fn neutral(op: BinOp) -> bool {
    matches!(op, BinOp::Add | BinOp::Sub | BinOp::Or | BinOp::Xor | BinOp::Shl | BinOp::LShr | BinOp::AShr)
}
