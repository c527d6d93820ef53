//! Drops whose reason is known at run time only.
//!
//! A value is looked for among the program's reasons by comparisons, as in a binary search. So a drop itself always has
//! one reason, and passes, engines and models need no other operation.

use super::Lowering;
use crate::check::hir::Expr;
use crate::ir::{BlockId, CmpOp, DropId, DropReason, Op, Ty, Value};

impl<'p> Lowering<'p> {
    /// Drops the packet for the reason that a value stands for; one that is none of the program's counts as
    /// `no_reason`.
    pub(super) fn drop_by(&mut self, packet: Value, value: Value) {
        let reasons = self.program.reasons.iter().zip(0..).map(|(reason, id)| (reason.value(), DropId(id)));
        let mut reasons: Vec<(u32, DropId)> = reasons.collect();
        if let Some(known) = self.b.as_constant(value) {
            let found = reasons.iter().find(|(value, _)| u128::from(*value) == known);
            let reason = found.map_or(DropId::NO_REASON, |(_, reason)| *reason);
            return self.b.effect(Op::Drop { packet, reason });
        }
        reasons.sort_unstable();
        let (unknown, after) = (self.b.block(), self.b.block());
        self.search(&reasons, packet, value, (unknown, after));
        self.b.seal(unknown);
        self.b.switch_to(unknown);
        self.b.effect(Op::Drop { packet, reason: DropId::NO_REASON });
        self.b.jump(after);
        self.b.seal(after);
        self.b.switch_to(after);
    }

    /// Where the condition does not hold, all packets that the PPF holds are dropped and it ends.
    pub(super) fn require(&mut self, condition: &'p Expr, reason: &'p Expr) {
        let holds = self.value(condition);
        let (good, bad) = (self.b.block(), self.b.block());
        self.b.branch(holds, good, bad);
        self.b.seal(bad);
        self.b.switch_to(bad);
        let reason = self.value(reason);
        for owned in self.owned.clone() {
            let packet = self.packet_of(owned);
            self.drop_by(packet, reason);
        }
        self.b.ret();
        self.b.seal(good);
        self.b.switch_to(good);
    }

    /// From here on, where the value is one of these reasons, the packet is dropped for it.
    fn search(&mut self, reasons: &[(u32, DropId)], packet: Value, value: Value, (unknown, after): (BlockId, BlockId)) {
        let (lower, upper) = reasons.split_at(reasons.len() / 2);
        let number = self.b.constant(DropReason::WIDTH, upper[0].0.into());
        let (first, second) = (self.b.block(), if lower.is_empty() { unknown } else { self.b.block() });
        let op = if lower.is_empty() { CmpOp::Eq } else { CmpOp::Ule };
        // `upper <= value`, or `upper == value`.
        let test = self.b.push(Ty::Int(1), Op::Cmp(op, number, value));
        self.b.branch(test, first, second);
        self.b.seal(first);
        self.b.switch_to(first);
        if lower.is_empty() {
            self.b.effect(Op::Drop { packet, reason: upper[0].1 });
            return self.b.jump(after);
        }
        self.search(upper, packet, value, (unknown, after));
        self.b.seal(second);
        self.b.switch_to(second);
        self.search(lower, packet, value, (unknown, after));
    }
}
