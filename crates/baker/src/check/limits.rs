//! What a program may cost: functions are inlined, so code can grow much larger than its text; and an engine reserves a
//! frame for every copy that one packet can become.

use super::hir::{Expr, ExprKind, Stmt};
use super::names::Checker;
use crate::diag::Diagnostic;
use crate::ir::{self, Target};

/// Statements and operations of a PPF at most, its functions inlined.
pub(super) const MAX_CODE: u32 = 1 << 14;

/// How deep calls of functions nest at most.
const MAX_CALLS: u32 = 32;

/// Copies that one packet becomes at most.
const MAX_COPIES: u32 = 1024;

/// What some code costs, its functions inlined.
#[derive(Clone, Copy, Default)]
struct Cost {
    size: u32,
    /// Nested calls.
    depth: u32,
}

impl Cost {
    fn add(&mut self, other: Cost) {
        self.size = self.size.saturating_add(other.size);
        self.depth = self.depth.max(other.depth);
    }
}

impl Checker<'_> {
    /// Checks what the program costs. No function calls itself.
    pub(super) fn check_limits(&mut self) {
        let mut functions = vec![None; self.hir.functions.len()];
        for index in 0..self.hir.ppfs.len() {
            let mut cost = Cost::default();
            self.statements_cost(&self.hir.ppfs[index].code.body, 0, &mut functions, &mut cost);
            let ppf = &self.hir.ppfs[index];
            if cost.depth > MAX_CALLS {
                let error = Diagnostic::new("calls-too-deep", ppf.span, "functions call each other too deeply")
                    .label(format!("leads to calls more than {MAX_CALLS} deep"));
                // The costs of functions further down are not known.
                return self.error(error);
            }
            if cost.size > MAX_CODE {
                self.errors.push(
                    Diagnostic::new("code-too-large", ppf.span, format!("the PPF `{}` is too large", ppf.name))
                        .label(format!("{} operations, of at most {MAX_CODE}", cost.size))
                        .hint("every call of a function counts, for functions are inlined: split the PPF by a channel"),
                );
            }
        }
        if let (true, Target::Ppf(first)) = (self.errors.is_empty(), self.hir.channels[0].target) {
            let copies = ir::copies(&self.hir);
            if copies > MAX_COPIES {
                self.error(
                    Diagnostic::new(
                        "too-many-copies",
                        self.hir.ppfs[first.0 as usize].span,
                        format!("one packet can become more than {MAX_COPIES} copies"),
                    )
                    .label(format!("up to {copies} copies of a packet that enters here"))
                    .hint("a frame is reserved for each copy: let loops that copy make fewer trips"),
                );
            }
        }
    }

    fn function_cost(&self, index: usize, depth: u32, known: &mut [Option<Cost>]) -> Cost {
        if depth > MAX_CALLS {
            return Cost { size: 0, depth };
        }
        if let Some(cost) = known[index] {
            return cost;
        }
        let mut cost = Cost::default();
        self.statements_cost(&self.hir.functions[index].code.body, depth, known, &mut cost);
        known[index] = Some(cost);
        cost
    }

    /// Adds what some statements cost, `depth` calls deep.
    fn statements_cost(&self, statements: &[Stmt], depth: u32, known: &mut [Option<Cost>], cost: &mut Cost) {
        for statement in statements {
            cost.add(Cost { size: 1, depth: 0 });
            for expr in statement.kind.expressions() {
                self.expr_cost(expr, depth, known, cost);
            }
            for nested in statement.kind.nested() {
                self.statements_cost(nested, depth, known, cost);
            }
        }
    }

    fn expr_cost(&self, expr: &Expr, depth: u32, known: &mut [Option<Cost>], cost: &mut Cost) {
        cost.add(Cost { size: 1, depth: 0 });
        if let ExprKind::Call(function, _) = expr.kind {
            let callee = self.function_cost(function.0 as usize, depth + 1, known);
            cost.add(Cost { size: callee.size, depth: callee.depth + 1 });
        }
        expr.for_each_operand(|operand| self.expr_cost(operand, depth, known, cost));
    }
}
