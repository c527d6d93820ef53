//! `for` loops: every loop has a constant bound, proved by running its counter.
//!
//! The counter starts at a constant, is compared with a constant, is changed by a constant after each trip, and is not
//! set in the body. So the number of trips is known, and a program always ends.

use std::collections::HashMap;

use super::code::CodeChecker;
use super::hir::{Comparison, Expr, ExprKind, For, LocalId, Stmt, StmtKind, Type};
use crate::diag::Diagnostic;
use crate::ir::BinOp;
use crate::ir::arith::mask;
use crate::number::Number;
use crate::source::Span;
use crate::syntax::ast;

/// Trips of a loop at most.
const MAX_TRIPS: u32 = 4096;

impl CodeChecker<'_, '_> {
    pub(super) fn for_(&mut self, for_: &ast::ForStmt, span: Span) -> Option<StmtKind> {
        self.scopes.push(HashMap::new());
        let made = self.for_in_scope(for_, span);
        self.scopes.pop();
        made
    }

    fn for_in_scope(&mut self, for_: &ast::ForStmt, span: Span) -> Option<StmtKind> {
        let mistakes = self.checker.mistakes();
        let mut outer = Vec::new();
        if let Some(init) = for_.init() {
            self.statement(&init, &mut outer);
        }
        let condition = for_.condition().map(|c| self.expr(&c, None));
        let condition = condition.and_then(|c| self.condition(c));
        let mut step = Vec::new();
        if let Some(statement) = for_.step() {
            self.statement(&statement, &mut step);
        }
        let bound = match (&condition, self.checker.mistakes() == mistakes) {
            (Some(condition), true) => self.bound(&outer, condition, &step),
            _ => None,
        };
        if bound.is_none() && self.checker.mistakes() == mistakes {
            let head = Span { end: (span.start + 3).min(span.end), ..span };
            self.error(
                Diagnostic::new("unbounded-loop", head, "this loop has no constant bound")
                    .label("how often does it run?")
                    .hint("count from a constant to a constant: `for (u32 i = 0; i < 8; i++)`"),
            );
        }
        if let Some((_, trips)) = bound
            && trips > MAX_TRIPS
        {
            let head = Span { end: (span.start + 3).min(span.end), ..span };
            self.error(
                Diagnostic::new("loop-too-long", head, format!("this loop runs more than {MAX_TRIPS} times"))
                    .label("too many trips for one packet")
                    .hint("does the counter ever reach the limit? A u8 is never above 255, and no unsigned number below 0"),
            );
        }
        self.loops += 1;
        self.loop_counters.extend(bound.map(|(counter, _)| counter));
        let body = for_.body().map(|body| self.arm(&body)).unwrap_or_default();
        if bound.is_some() {
            self.loop_counters.pop();
        }
        self.loops -= 1;
        let (_, trips) = bound?;
        outer.push(Stmt { kind: StmtKind::For(Box::new(For { condition: condition?, step, body, trips })), span });
        Some(StmtKind::Block(outer))
    }

    /// The loop's counter and how often the loop runs at most.
    fn bound(&self, init: &[Stmt], condition: &Expr, step: &[Stmt]) -> Option<(LocalId, u32)> {
        let (counter, start) = match &init.first()?.kind {
            StmtKind::Let(local, Some(Expr { kind: ExprKind::Const(start), .. })) => (*local, *start),
            StmtKind::Let(local, None) => (*local, 0),
            StmtKind::SetLocal(local, Expr { kind: ExprKind::Const(start), .. }) => (*local, *start),
            _ => return None,
        };
        let Type::Int { width, signed: is_signed } = self.local_type(counter) else { return None };
        let [Stmt { kind: StmtKind::SetLocal(stepped, next), .. }] = step else { return None };
        if *stepped != counter {
            return None;
        }
        let ty = self.local_type(counter);
        let (op, change) = stepped_by(next, counter, ty)?;
        let (comparison, limit) = compared(condition, counter, ty)?;
        let mut value = start;
        let mut trips = 0;
        while trips <= MAX_TRIPS {
            let (a, b) = (Number::of_bits(value, width, is_signed), limit);
            let goes_on = match comparison {
                Comparison::Eq => a == b,
                Comparison::Ne => a != b,
                Comparison::Lt => a < b,
                Comparison::Le => a <= b,
                Comparison::Gt => a > b,
                Comparison::Ge => a >= b,
            };
            if !goes_on {
                return Some((counter, trips));
            }
            trips += 1;
            value = op.eval(width, value, change & mask(width));
        }
        Some((counter, trips))
    }
}

/// Whether every value of `from` is kept by a cast to `to`.
fn keeps_value(from: Type, to: Type) -> bool {
    match (from, to) {
        (Type::Int { width: a, signed: false }, Type::Int { width: b, signed: true }) => a < b,
        (Type::Int { width: a, signed: x }, Type::Int { width: b, signed: y }) => x == y && a <= b,
        _ => false,
    }
}

/// The counter, perhaps widened.
fn is_counter(expr: &Expr, counter: LocalId, ty: Type) -> bool {
    match &expr.kind {
        ExprKind::Local(local) => *local == counter,
        ExprKind::Cast(inner) => keeps_value(ty, expr.ty) && is_counter(inner, counter, ty),
        _ => false,
    }
}

/// `counter + constant` or `counter - constant`, computed in at least the counter's width.
fn stepped_by(next: &Expr, counter: LocalId, ty: Type) -> Option<(BinOp, u128)> {
    match &next.kind {
        ExprKind::Cast(inner) if next.ty == ty || keeps_value(ty, next.ty) => stepped_by(inner, counter, ty),
        ExprKind::Binary(op @ (BinOp::Add | BinOp::Sub), a, b) if is_counter(a, counter, ty) => match b.kind {
            ExprKind::Const(change) => Some((*op, change)),
            _ => None,
        },
        _ => None,
    }
}

/// The comparison with a constant that bounds the counter; other parts of an `&&` can only end the loop sooner.
fn compared(condition: &Expr, counter: LocalId, ty: Type) -> Option<(Comparison, Number)> {
    match &condition.kind {
        ExprKind::And(a, b) => compared(a, counter, ty).or_else(|| compared(b, counter, ty)),
        ExprKind::Compare(comparison, a, b) if is_counter(a, counter, ty) => match (&b.kind, b.ty) {
            (ExprKind::Const(limit), Type::Int { width, signed }) => {
                Some((*comparison, Number::of_bits(*limit, width, signed)))
            }
            _ => None,
        },
        _ => None,
    }
}
