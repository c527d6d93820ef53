//! How great the numbers of a body can be, as far as what they are computed from says it.

use std::cell::RefCell;
use std::collections::HashMap;

use crate::ir::analysis::{Definitions, Passed};
use crate::ir::*;

/// Operations that a number is traced back over.
const DEPTH: u32 = 100;

/// The lesser of two bounds, where there are such.
fn least(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

/// What bounds the numbers of a body.
pub(super) struct Bounds<'b> {
    pub body: &'b Body,
    definitions: Definitions<'b>,
    passed: Passed,
    /// What was found.
    known: RefCell<HashMap<Value, Option<u64>>>,
}

impl<'b> Bounds<'b> {
    pub fn new(body: &'b Body) -> Self {
        Bounds { body, definitions: Definitions::new(body), passed: Passed::new(body), known: RefCell::default() }
    }

    /// The greatest that a number can be, where that is not beyond all packets.
    pub fn most(&self, value: Value) -> Option<u64> {
        self.traced(value, DEPTH)
    }

    fn traced(&self, value: Value, depth: u32) -> Option<u64> {
        let all = match self.body.ty(value) {
            Ty::Int(width) if width < 16 => Some((1u64 << width) - 1),
            _ => None,
        };
        if let Some(known) = self.known.borrow().get(&value) {
            return *known;
        }
        // A path that comes by here again goes round a loop.
        self.known.borrow_mut().insert(value, all);
        let found = depth.checked_sub(1).and_then(|depth| self.computed(value, depth));
        // A number that may be too large may wrap around, so only what is small is known.
        let most = least(found.filter(|most| *most <= u64::from(u16::MAX)), all);
        self.known.borrow_mut().insert(value, most);
        most
    }

    fn computed(&self, value: Value, depth: u32) -> Option<u64> {
        let most = |value: &Value| self.traced(*value, depth);
        let constant = |value: &Value| u64::try_from(self.definitions.constant(*value)?).ok();
        let passed = self.passed.to(value);
        if !passed.is_empty() {
            return passed.iter().map(most).try_fold(0, |most, one| Some(most.max(one?)));
        }
        match self.definitions.op(value)? {
            Op::Const(number) => u64::try_from(*number).ok(),
            Op::Cast(CastOp::ZExt | CastOp::Trunc, from) => most(from),
            Op::Select(which, a, b) => {
                let (mut first, mut second) = (most(a), most(b));
                // The lesser of two is no more than either: `select (ule x y) x y`.
                if let Some(Op::Cmp(CmpOp::Ule | CmpOp::Ult, x, y)) = self.definitions.op(*which) {
                    if x == a {
                        first = least(first, most(y));
                    }
                    if y == b {
                        second = least(second, most(x));
                    }
                }
                Some(first?.max(second?))
            }
            Op::Bin(BinOp::And, a, b) => least(most(a), most(b)),
            Op::Bin(BinOp::Or | BinOp::Xor, a, b) => {
                Some((most(a)? | most(b)?).checked_add(1)?.next_power_of_two() - 1)
            }
            Op::Bin(BinOp::Add, a, b) => most(a)?.checked_add(most(b)?),
            Op::Bin(BinOp::Mul, a, b) => most(a)?.checked_mul(most(b)?),
            Op::Bin(BinOp::Shl, a, by) => most(a)?.checked_mul(1u64.checked_shl(u32::try_from(constant(by)?).ok()?)?),
            Op::Bin(BinOp::LShr, a, by) => match (most(a), constant(by)?, self.body.ty(*a)) {
                (Some(most), by, _) => Some(most.checked_shr(by as u32).unwrap_or(0)),
                // The upper bits of a word that is itself not bounded.
                (None, by, Ty::Int(width)) => {
                    let left = u64::from(width).saturating_sub(by);
                    (left < 16).then(|| (1u64 << left) - 1)
                }
                _ => None,
            },
            Op::Bin(BinOp::UDiv, a, _) => most(a),
            Op::Bin(BinOp::URem, a, b) => match (most(a), constant(b)) {
                (_, Some(b)) if b > 0 => Some(b - 1),
                (a, _) => a,
            },
            Op::Load { bits, .. } | Op::LoadAt { bits, .. } if bits.width < 16 => Some((1 << bits.width) - 1),
            _ => None,
        }
    }
}
