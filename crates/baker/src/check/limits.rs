//! What a program may cost: functions are inlined, so code can grow much larger than its text; and an engine reserves a
//! frame for every copy that one packet can become.

use super::headroom::headroom;
use super::hir::{Expr, ExprKind, Stmt};
use super::names::Checker;
use super::paths::{Bounds, bounds};
use crate::diag::Diagnostic;
use crate::ir::{self, Target};

/// Statements and operations of a PPF at most, its functions inlined.
pub(super) const MAX_CODE: u32 = 1 << 14;

/// How deep statements and expressions nest at most, through the functions that are called.
const MAX_DEPTH: u32 = 640;

/// Copies that one packet becomes at most.
const MAX_COPIES: u32 = 1024;

/// Bytes of headers that are put in front of a received packet at most.
const MAX_HEADROOM: u32 = 4096;

/// Operations that one packet and its copies take at most, so that none holds up the others for long.
const MAX_STEPS: u32 = 1 << 18;

/// What some code costs, its functions inlined.
#[derive(Clone, Copy, Default)]
struct Cost {
    /// Statements and operations.
    size: u32,
    /// How deep they nest.
    depth: u32,
}

impl Cost {
    /// Adds what lies beside.
    fn beside(&mut self, other: Cost) {
        self.size = self.size.saturating_add(other.size);
        self.depth = self.depth.max(other.depth);
    }

    /// The same inside of one more statement or operation.
    fn inside(self) -> Cost {
        Cost { size: self.size.saturating_add(1), depth: self.depth + 1 }
    }
}

impl Checker<'_> {
    /// Checks how much code the program has. No function calls itself.
    pub(super) fn check_code(&mut self) {
        let mut sizes = Vec::new();
        let mut functions = vec![None; self.hir.functions.len()];
        for index in 0..self.hir.ppfs.len() {
            let cost = self.statements_cost(&self.hir.ppfs[index].code.body, 0, &mut functions);
            sizes.push(cost.size);
            let ppf = &self.hir.ppfs[index];
            if cost.depth > MAX_DEPTH {
                let error = Diagnostic::new("calls-too-deep", ppf.span, "calls nest too deeply")
                    .label(format!("more than {MAX_DEPTH} levels of statements, operations and calls"));
                // What lies deeper is not known.
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
        if self.errors.is_empty() {
            self.check_instances_cost(&sizes);
        }
    }

    /// Checks what one packet costs.
    pub(super) fn check_limits(&mut self) {
        if let Target::Ppf(first) = self.hir.channels[0].target {
            let Bounds { copies, steps } = bounds(&self.hir, ir::Program::RX);
            self.hir.copies = copies;
            let first = self.hir.ppfs[first.0 as usize].span;
            if copies > MAX_COPIES {
                let title = format!("one packet can become more than {MAX_COPIES} copies");
                self.error(
                    Diagnostic::new("too-many-copies", first, title)
                        .label(format!("up to {copies} copies of a packet that enters here"))
                        .hint("a frame is reserved for each copy: let loops that copy make fewer trips"),
                );
            } else if steps > MAX_STEPS {
                let title = format!("one packet can take more than {MAX_STEPS} operations");
                self.error(
                    Diagnostic::new("too-many-steps", first, title)
                        .label(format!("up to {steps} operations for a packet that enters here"))
                        .hint("let loops make fewer trips, above all those within other loops"),
                );
            } else {
                (self.hir.headroom, self.hir.encap) = headroom(&self.hir);
                if self.hir.headroom > MAX_HEADROOM {
                    let title = format!("headers of more than {MAX_HEADROOM} bytes can be put in front of one packet");
                    self.error(
                        Diagnostic::new("too-many-headers", first, title)
                            .label("more than any frame has room for")
                            .hint("let loops that call packet_encap make fewer trips"),
                    );
                }
            }
        }
    }

    /// The costs of a function that is called `above` levels deep.
    fn function_cost(&self, index: usize, above: u32, known: &mut [Option<Cost>]) -> Cost {
        if let Some(cost) = known[index] {
            return cost;
        }
        let cost = self.statements_cost(&self.hir.functions[index].code.body, above, known);
        known[index] = Some(cost);
        cost
    }

    fn statements_cost(&self, statements: &[Stmt], above: u32, known: &mut [Option<Cost>]) -> Cost {
        let mut all = Cost::default();
        for statement in statements {
            let mut cost = Cost::default();
            for expr in statement.kind.expressions() {
                cost.beside(self.expr_cost(expr, above + 1, known));
            }
            for nested in statement.kind.nested() {
                cost.beside(self.statements_cost(nested, above + 1, known));
            }
            all.beside(cost.inside());
        }
        all
    }

    fn expr_cost(&self, expr: &Expr, above: u32, known: &mut [Option<Cost>]) -> Cost {
        let mut cost = Cost::default();
        if above <= MAX_DEPTH {
            if let ExprKind::Call(function, _) = expr.kind {
                cost.beside(self.function_cost(function.0 as usize, above + 1, known));
            }
            expr.for_each_operand(|operand| cost.beside(self.expr_cost(operand, above + 1, known)));
        }
        cost.inside()
    }
}
