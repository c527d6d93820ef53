//! What a program may cost: functions are inlined, so code can grow much larger than its text; and an engine reserves a
//! frame for every copy that one packet can become.

use super::headroom::headroom;
use super::hir::{Expr, ExprKind, Stmt, StmtKind};
use super::names::Checker;
use super::paths::{Bounds, bounds, timer_bounds};
use crate::diag::Diagnostic;
use crate::ir::{self, ChannelId, PpfId, Target};
use crate::source::Span;

/// Statements and operations of a PPF at most, its functions inlined.
pub(super) const MAX_CODE: u32 = 1 << 14;

/// How deep statements and expressions nest at most, through the functions that are called.
const MAX_DEPTH: u32 = 640;

/// Copies that one packet becomes at most.
const MAX_COPIES: u32 = 1024;

/// Bytes of headers that are put in front of a received packet at most.
const MAX_HEADROOM: u32 = 4096;

/// Operations that one packet and its copies, or one call of a timer, take at most, so that none holds up the others
/// for long.
const MAX_STEPS: u32 = 1 << 18;

/// Calls of a timer at most that are made one after the other; as many packets are in a batch.
const MAX_SLICE: u32 = 64;

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
        let ppfs = self.hir.ppfs.iter().map(|ppf| ("PPF", &ppf.name, &ppf.code, ppf.span));
        let timers = self.hir.timers.iter().map(|timer| ("timer", &timer.name, &timer.code, timer.span));
        let mut errors = Vec::new();
        for (what, name, code, span) in ppfs.chain(timers) {
            let cost = self.statements_cost(&code.body, 0, &mut functions);
            sizes.push(cost.size);
            if cost.depth > MAX_DEPTH {
                let error = Diagnostic::new("calls-too-deep", span, "calls nest too deeply")
                    .label(format!("more than {MAX_DEPTH} levels of statements, operations and calls"));
                // What lies deeper is not known.
                return self.error(error);
            }
            if cost.size > MAX_CODE {
                errors.push(
                    Diagnostic::new("code-too-large", span, format!("the {what} `{name}` is too large"))
                        .label(format!("{} operations, of at most {MAX_CODE}", cost.size))
                        .hint("every call of a function counts, for functions are inlined: split a PPF by a channel"),
                );
            }
        }
        self.errors.append(&mut errors);
        if self.errors.is_empty() {
            let (ppfs, timers) = sizes.split_at(self.hir.ppfs.len());
            self.check_instances_cost(ppfs, timers);
        }
    }

    /// Checks what one packet, or one call of a timer, costs.
    pub(super) fn check_limits(&mut self) {
        if !self.check_bounds() {
            return;
        }
        let rooms = headroom(&self.hir);
        (self.hir.headroom, self.hir.encap, self.hir.front) = (rooms.headroom, rooms.encap, rooms.front);
        if self.hir.headroom > MAX_HEADROOM {
            let title = format!("headers of more than {MAX_HEADROOM} bytes can be put in front of one packet");
            let entry = self.entries().first().map(|(_, PpfId(ppf))| self.hir.ppfs[*ppf as usize].span);
            // Otherwise a timer creates the packet.
            let place = entry.or(self.hir.timers.first().map(|timer| timer.span));
            self.errors.extend(place.map(|place| {
                Diagnostic::new("too-many-headers", place, title)
                    .label("more than any frame has room for")
                    .hint("let loops that call packet_encap make fewer trips")
            }));
        }
    }

    /// The PPFs that packets enter by, each with a channel that leads to it.
    fn entries(&self) -> Vec<(ChannelId, PpfId)> {
        let mut entries: Vec<(ChannelId, PpfId)> = Vec::new();
        for (id, channel) in (0..).map(ChannelId).zip(&self.hir.channels) {
            let enters = id == ir::Program::RX || channel.from.is_some();
            if let (true, Target::Ppf(ppf)) = (enters, channel.target)
                && !entries.iter().any(|(_, known)| *known == ppf)
            {
                entries.push((id, ppf));
            }
        }
        entries
    }

    /// Checks what one packet, or one call of a timer, can lead to; whether that is right. Sets the limits that engines
    /// size their resources by.
    fn check_bounds(&mut self) -> bool {
        for (channel, PpfId(ppf)) in self.entries() {
            let (found, span) = (bounds(&self.hir, channel), self.hir.ppfs[ppf as usize].span);
            self.check_bound(found, span, ("one packet", "for a packet that enters here"));
        }
        for index in 0..self.hir.timers.len() {
            let timer = &self.hir.timers[index];
            let (found, span) = (timer_bounds(&self.hir, &timer.code), timer.span);
            self.check_bound(found, span, ("one call of a timer", "in one call"));
            self.hir.timers[index].slice = (MAX_STEPS / found.steps.max(1)).clamp(1, MAX_SLICE);
        }
        self.errors.is_empty()
    }

    fn check_bound(&mut self, Bounds { copies, steps }: Bounds, span: Span, (what, when): (&str, &str)) {
        self.hir.copies = self.hir.copies.max(copies);
        if copies > MAX_COPIES {
            let title = format!("{what} can become more than {MAX_COPIES} copies");
            self.error(
                Diagnostic::new("too-many-copies", span, title)
                    .label(format!("up to {copies} copies {when}").replace("copies for", "copies of"))
                    .hint("a frame is reserved for each copy: let loops that copy make fewer trips"),
            );
        } else if steps > MAX_STEPS {
            let title = format!("{what} can take more than {MAX_STEPS} operations");
            self.error(
                Diagnostic::new("too-many-steps", span, title)
                    .label(format!("up to {steps} operations {when}"))
                    .hint("let loops make fewer trips, above all those within other loops"),
            );
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
            // Of a reason that is known at run time only, it is found out which one it is.
            if let StmtKind::Drop(_, reason) | StmtKind::Require(_, reason) = &statement.kind
                && !matches!(reason.kind, ExprKind::Const(_))
            {
                cost.beside(Cost { size: 2 * self.hir.reasons.len() as u32, depth: 1 });
            }
            if let StmtKind::SetElement(_, elements, ..) = &statement.kind {
                cost.beside(Cost { size: 2 * elements.count, depth: 1 });
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
            if let ExprKind::Element(_, elements, _) = &expr.kind {
                cost.beside(Cost { size: 2 * elements.count, depth: 1 });
            }
            expr.for_each_operand(|operand| cost.beside(self.expr_cost(operand, above + 1, known)));
        }
        cost.inside()
    }
}
