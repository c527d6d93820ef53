//! What one packet that enters, or one call of a timer, can lead to, over all paths and channels: how many copies, and
//! how many operations.

use std::collections::HashMap;

use super::hir::{Code, Expr, ExprKind, FunctionId, Program, Stmt, StmtKind};
use super::wiring::puts;
use crate::ir::{ChannelId, PpfId, Target};

/// What a call of a function of a controller counts as.
const EXTERN_STEPS: u32 = 64;

/// Upper bounds.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct Bounds {
    /// Packets made of or for one packet until all of them have left the program.
    pub copies: u32,
    /// Statements and operations that are run for it and its copies.
    pub steps: u32,
}

impl Bounds {
    fn then(self, next: Bounds) -> Bounds {
        Bounds { copies: self.copies.saturating_add(next.copies), steps: self.steps.saturating_add(next.steps) }
    }

    fn times(self, count: u32) -> Bounds {
        Bounds { copies: self.copies.saturating_mul(count), steps: self.steps.saturating_mul(count) }
    }

    fn or(self, other: Bounds) -> Bounds {
        Bounds { copies: self.copies.max(other.copies), steps: self.steps.max(other.steps) }
    }
}

/// The bounds for a packet that is put into a channel. The graph of channels has no cycle, and no function calls
/// itself.
pub(super) fn bounds(program: &Program, channel: ChannelId) -> Bounds {
    let mut paths = Paths { program, ppfs: HashMap::new(), functions: HashMap::new() };
    if let Target::Ppf(ppf) = program.channels[channel.0 as usize].target {
        paths.ppf(ppf);
    }
    paths.channel(channel)
}

/// The bounds for one run of a timer's code.
pub(super) fn timer_bounds(program: &Program, code: &Code) -> Bounds {
    let mut paths = Paths { program, ppfs: HashMap::new(), functions: HashMap::new() };
    paths.code(code)
}

struct Paths<'p> {
    program: &'p Program,
    ppfs: HashMap<PpfId, Bounds>,
    functions: HashMap<u32, Bounds>,
}

/// The paths through some statements: those that go on after them, if any, and all.
#[derive(Clone, Copy)]
struct Through {
    on: Option<Bounds>,
    all: Bounds,
}

impl Paths<'_> {
    /// Works out a PPF, those that come after it first.
    fn ppf(&mut self, ppf: PpfId) {
        if self.ppfs.contains_key(&ppf) {
            return;
        }
        let program = self.program;
        let bounds = self.code(&program.ppfs[ppf.0 as usize].code);
        self.ppfs.insert(ppf, bounds);
    }

    /// Works out some code, the PPFs that it puts packets into first.
    fn code(&mut self, code: &Code) -> Bounds {
        let program = self.program;
        for (channel, _) in puts(program, code) {
            if let Target::Ppf(next) = program.channels[channel.0 as usize].target {
                self.ppf(next);
            }
        }
        self.statements(&code.body).all
    }

    fn channel(&self, channel: ChannelId) -> Bounds {
        match self.program.channels[channel.0 as usize].target {
            Target::Ppf(ppf) => self.ppfs[&ppf],
            _ => Bounds::default(),
        }
    }

    fn statements(&mut self, statements: &[Stmt]) -> Through {
        let (mut on, mut all) = (Bounds::default(), Bounds::default());
        for statement in statements {
            let through = self.statement(statement);
            all = all.or(on.then(through.all));
            match through.on {
                Some(more) => on = on.then(more),
                None => return Through { on: None, all },
            }
        }
        Through { on: Some(on), all }
    }

    fn statement(&mut self, statement: &Stmt) -> Through {
        let mut own = Bounds { copies: 0, steps: 1 };
        for expr in statement.kind.expressions() {
            own = own.then(self.expr(expr));
        }
        if let StmtKind::SetElement(_, elements, ..) = &statement.kind {
            own.steps += elements.count;
        }
        match &statement.kind {
            StmtKind::Put(channel, _) | StmtKind::PutAt(channel, ..) | StmtKind::PutAll(channel, ..) => {
                if let Some(function) = statement.kind.function() {
                    own = own.then(Bounds { copies: function.row().makes, steps: 0 });
                }
                let all = own.then(self.channel(*channel));
                Through { on: Some(all), all }
            }
            StmtKind::If(_, then, other) => {
                let (a, b) = (self.statements(then), self.statements(other));
                let on = match (a.on, b.on) {
                    (Some(a), Some(b)) => Some(a.or(b)),
                    (a, b) => a.or(b),
                };
                Through { on: on.map(|on| own.then(on)), all: own.then(a.all.or(b.all)) }
            }
            StmtKind::Switch(_, arms, other) => {
                let compares = Bounds { copies: 0, steps: arms.iter().map(|arm| arm.values.len() as u32).sum() };
                let own = own.then(compares);
                // An arm may be left by `break`, which ends none of the paths after the switch.
                let mut all = self.statements(other).all;
                for arm in arms {
                    all = all.or(self.statements(&arm.body).all);
                }
                Through { on: Some(own.then(all)), all: own.then(all) }
            }
            StmtKind::For(for_) => {
                let trip = self.statements(&for_.body).all.then(self.statements(&for_.step).all);
                let all = trip.then(own).times(for_.trips).then(own);
                Through { on: Some(all), all }
            }
            StmtKind::Block(body) => self.statements(body),
            StmtKind::Critical(_, body) => {
                let inside = self.statements(body);
                Through { on: inside.on.map(|on| own.then(on)), all: own.then(inside.all) }
            }
            StmtKind::Return(_) => Through { on: None, all: own },
            // What follows `break` or `continue` is skipped, yet the loop goes on or ends: counted with the body.
            _ => Through { on: Some(own), all: own },
        }
    }

    fn expr(&mut self, expr: &Expr) -> Bounds {
        let mut all = match (&expr.kind, expr.kind.function()) {
            (ExprKind::Extern(..), _) => Bounds { copies: 0, steps: EXTERN_STEPS },
            (ExprKind::Element(_, elements, _), _) => Bounds { copies: 0, steps: 2 * elements.count },
            (_, Some(function)) => Bounds { copies: function.row().makes, steps: function.row().steps },
            _ => Bounds { copies: 0, steps: 1 },
        };
        if let ExprKind::Call(function, _) = expr.kind {
            all = all.then(self.function(function));
        }
        expr.for_each_operand(|operand| all = all.then(self.expr(operand)));
        all
    }

    fn function(&mut self, function: FunctionId) -> Bounds {
        if let Some(&known) = self.functions.get(&function.0) {
            return known;
        }
        let program = self.program;
        let bounds = self.statements(&program.functions[function.0 as usize].code.body).all;
        self.functions.insert(function.0, bounds);
        bounds
    }
}
