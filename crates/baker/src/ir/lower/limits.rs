//! Static bounds over all paths: how much is pushed in front of a packet, and how many copies it becomes.

use std::collections::HashMap;

use crate::check::hir::{self, Code, Expr, ExprKind, Stmt, StmtKind};
use crate::ir::{ChannelId, Limits, Op, PpfId, Program, Target, Value};

/// The bounds of a program. The graph of channels has no cycle.
pub(super) fn limits(typed: &hir::Program, program: &Program) -> Limits {
    let mut headroom = Headroom { program, entry: vec![i64::MIN; program.ppfs.len()], most: 0 };
    headroom.put(Program::RX, 0);
    Limits { headroom: headroom.most as u32, copies: copies(typed) }
}

/// Copies that one received packet becomes at most.
pub(crate) fn copies(typed: &hir::Program) -> u32 {
    Copies { program: typed, known: HashMap::new() }.of_channel(Program::RX)
}

/// How far in front of the received packet's first byte a head may come to lie, in bytes.
struct Headroom<'p> {
    program: &'p Program,
    /// Greatest value seen at each PPF's entry.
    entry: Vec<i64>,
    most: i64,
}

impl Headroom<'_> {
    fn put(&mut self, channel: ChannelId, offset: i64) {
        if let Target::Ppf(ppf) = self.program.channels[channel.0 as usize].target
            && offset > self.entry[ppf.0 as usize]
        {
            self.entry[ppf.0 as usize] = offset;
            self.ppf(ppf, offset);
        }
    }

    /// Blocks are visited until nothing changes. Handles are never assigned, so a loop cannot push without end.
    fn ppf(&mut self, ppf: PpfId, offset: i64) {
        let program = self.program;
        let body = &program.ppfs[ppf.0 as usize].body;
        let mut offsets: HashMap<Value, i64> = HashMap::new();
        offsets.insert(body.blocks[0].params[0], offset);
        let mut constants = HashMap::new();
        let mut puts = Vec::new();
        let mut changed = true;
        while std::mem::take(&mut changed) {
            puts.clear();
            for block in &body.blocks {
                for inst in &block.insts {
                    let made = match &inst.op {
                        Op::Const(value) => {
                            constants.insert(inst.result, *value);
                            None
                        }
                        Op::Push { packet, bytes } => offsets.get(packet).map(|o| o + *bytes as i64),
                        Op::Pull { packet, bytes } => {
                            let least = constants.get(&Some(*bytes)).map_or(0, |&c| c as i64);
                            offsets.get(packet).map(|o| o - least)
                        }
                        Op::Copy { packet } => offsets.get(packet).copied(),
                        Op::Put { packet, channel } => {
                            puts.extend(offsets.get(packet).map(|&o| (*channel, o)));
                            None
                        }
                        _ => None,
                    };
                    if let (Some(made), Some(result)) = (made, inst.result) {
                        changed |= offsets.insert(result, made) != Some(made);
                        self.most = self.most.max(made);
                    }
                }
                for dest in block.term.dests() {
                    for (param, arg) in body.blocks[dest.block.0 as usize].params.iter().zip(&dest.args) {
                        if let Some(&passed) = offsets.get(arg)
                            && offsets.get(param).is_none_or(|&o| passed > o)
                        {
                            offsets.insert(*param, passed);
                            changed = true;
                        }
                    }
                }
            }
        }
        for (channel, offset) in puts {
            self.put(channel, offset);
        }
    }
}

/// Copies made of one packet until all of them have left the program.
struct Copies<'p> {
    program: &'p hir::Program,
    known: HashMap<PpfId, u32>,
}

/// Copies on the paths through some statements: of those that go on, and of all.
#[derive(Clone, Copy)]
struct Paths {
    on: Option<u32>,
    all: u32,
}

impl Copies<'_> {
    fn of_channel(&mut self, channel: ChannelId) -> u32 {
        let Target::Ppf(ppf) = self.program.channels[channel.0 as usize].target else { return 0 };
        if let Some(&known) = self.known.get(&ppf) {
            return known;
        }
        let program = self.program;
        let code = &program.ppfs[ppf.0 as usize].code;
        let copies = self.statements(&code.body).all;
        self.known.insert(ppf, copies);
        copies
    }

    fn statements(&mut self, statements: &[Stmt]) -> Paths {
        let (mut on, mut all) = (0u32, 0);
        for statement in statements {
            let paths = self.statement(statement);
            all = all.max(on.saturating_add(paths.all));
            match paths.on {
                Some(more) => on = on.saturating_add(more),
                None => return Paths { on: None, all },
            }
        }
        Paths { on: Some(on), all }
    }

    fn statement(&mut self, statement: &Stmt) -> Paths {
        let own: u32 = statement.kind.expressions().into_iter().map(|e| self.expr(e)).fold(0, u32::saturating_add);
        match &statement.kind {
            StmtKind::Put(channel, _) => {
                let copies = own.saturating_add(self.of_channel(*channel));
                Paths { on: Some(copies), all: copies }
            }
            StmtKind::If(_, then, other) => {
                let (a, b) = (self.statements(then), self.statements(other));
                let on = [a.on, b.on].into_iter().flatten().max();
                Paths { on: on.map(|on| on.saturating_add(own)), all: a.all.max(b.all).saturating_add(own) }
            }
            StmtKind::For(for_) => {
                let body = self.statements(&for_.body).all.saturating_add(self.statements(&for_.step).all);
                let copies = body.saturating_add(own).saturating_mul(for_.trips).saturating_add(own);
                Paths { on: Some(copies), all: copies }
            }
            StmtKind::Block(body) => self.statements(body),
            StmtKind::Return(_) => Paths { on: None, all: own },
            // What follows `break` or `continue` is skipped, yet the loop goes on or ends: counted with the body.
            _ => Paths { on: Some(own), all: own },
        }
    }

    fn expr(&mut self, expr: &Expr) -> u32 {
        let mut operands: Vec<&Expr> = Vec::new();
        expr.for_each_operand(|operand| operands.push(operand));
        let inside = operands.into_iter().map(|e| self.expr(e)).fold(0, u32::saturating_add);
        let own = match expr.kind {
            ExprKind::Copy(_) => 1,
            ExprKind::Call(function, _) => {
                let program = self.program;
                let Code { body, .. } = &program.functions[function.0 as usize].code;
                self.statements(body).all
            }
            _ => 0,
        };
        inside.saturating_add(own)
    }
}
