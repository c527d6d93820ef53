//! Declared checksums: what the compiler can't keep is refused.
//!
//! An abstract interpretation of PPFs and timers, with functions inlined as `ir::lower` does. Of each header that a
//! handle was made of, the state says whether what lies behind it is known: a write of a field that is a part of a
//! pseudo header, or says how far a checksum reaches, must reach the checksum behind. Where paths join, states join.

mod headers;
mod report;

use std::collections::HashMap;

use self::headers::{Facts, Headers, State};
use super::hir::{Code, Expr, ExprKind, FunctionId, LocalId, Program, Stmt, StmtKind, Type};
use super::own::OwnFields;
use crate::builtin::Function;
use crate::diag::Diagnostic;
use crate::ir::ProtocolId;
use crate::source::Span;

/// Statements that are gone over at most: loops more than once, functions wherever they are called.
const MAX_VISITS: u32 = 1 << 20;

/// Checks all PPFs and timers.
pub(super) fn check(program: &Program, errors: &mut Vec<Diagnostic>) {
    for ppf in &program.ppfs {
        let mut sums = Sums::new(program, errors);
        let frame = sums.frame(None, &ppf.code);
        let mut state = State::default();
        sums.hold(&mut state, frame, LocalId(0), ppf.protocol, Facts::default());
        sums.body(state, frame, &ppf.code);
    }
    for timer in &program.timers {
        let mut sums = Sums::new(program, errors);
        let frame = sums.frame(None, &timer.code);
        sums.body(State::default(), frame, &timer.code);
    }
}

/// Code that is gone over: of the PPF, or of a function called at some place.
#[derive(Clone, Copy)]
struct Frame<'a> {
    id: usize,
    code: &'a Code,
}

/// What `break`, `continue` and `return` lead out of.
enum Exit {
    Function(Option<State>),
    Switch(Option<State>),
    Loop { breaks: Option<State>, continues: Option<State> },
}

struct Sums<'a> {
    program: &'a Program,
    headers: Headers<'a>,
    /// Frames by the one that calls and the call.
    frames: HashMap<(usize, Span), usize>,
    own: Vec<OwnFields>,
    /// The first header that each loop makes known.
    loops: HashMap<(usize, Span), usize>,
    exits: Vec<Exit>,
    visits: u32,
    /// The critical section that is open.
    critical: Option<Span>,
    errors: &'a mut Vec<Diagnostic>,
}

fn join(a: Option<State>, b: Option<State>) -> Option<State> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.join(b)),
        (a, b) => a.or(b),
    }
}

impl<'a> Sums<'a> {
    fn new(program: &'a Program, errors: &'a mut Vec<Diagnostic>) -> Self {
        Sums {
            program,
            headers: Headers::new(program),
            frames: HashMap::new(),
            own: Vec::new(),
            loops: HashMap::new(),
            exits: Vec::new(),
            visits: 0,
            critical: None,
            errors,
        }
    }

    fn frame(&mut self, call: Option<(usize, Span)>, code: &'a Code) -> Frame<'a> {
        if let Some(known) = call.and_then(|call| self.frames.get(&call)) {
            return Frame { id: *known, code };
        }
        let id = self.own.len();
        self.own.push(OwnFields::find(self.program, code));
        if let Some(call) = call {
            self.frames.insert(call, id);
        }
        Frame { id, code }
    }

    fn body(&mut self, state: State, frame: Frame<'a>, code: &'a Code) {
        self.exits.push(Exit::Function(None));
        self.statements(Some(state), &code.body, frame);
        self.exits.pop();
    }

    /// A handle gets a packet.
    fn hold(&mut self, state: &mut State, frame: Frame<'a>, local: LocalId, protocol: ProtocolId, facts: Facts) {
        let own = self.own[frame.id].checksum(local);
        let name = &frame.code.locals[local.0 as usize];
        let header = self.headers.root(frame.id, local, (protocol, own), name);
        state.forget(&self.headers, header, false);
        let unset = facts.unset.filter(|_| !own);
        let made = facts.made && !self.own[frame.id].length(local);
        let facts = Facts { unset, made, ..facts };
        state.facts.insert(header, facts);
    }

    fn statements(&mut self, mut state: Option<State>, statements: &'a [Stmt], frame: Frame<'a>) -> Option<State> {
        for statement in statements {
            self.visits += 1;
            if self.visits > MAX_VISITS {
                if self.visits == MAX_VISITS + 1 {
                    self.too_many(statement.span);
                }
                return None;
            }
            state = self.statement(state?, statement, frame);
        }
        state
    }

    fn statement(&mut self, mut state: State, statement: &'a Stmt, frame: Frame<'a>) -> Option<State> {
        let span = statement.span;
        match &statement.kind {
            StmtKind::Let(local, Some(init)) => match (&init.kind, init.ty) {
                (ExprKind::Peek(of, bytes), Type::Packet(protocol)) => {
                    if let Some(bytes) = bytes {
                        self.value(&mut state, bytes, frame);
                    }
                    let own = self.own[frame.id].checksum(*local);
                    let variable = &frame.code.locals[local.0 as usize];
                    let site = (frame.id, *local);
                    let header =
                        self.headers.peeked(site, (frame.id, *of), bytes.as_deref(), (protocol, own), variable);
                    self.peek(&mut state, header, init.span);
                }
                (ExprKind::Replace(of), Type::Packet(protocol)) if self.headers.looks_into(frame.id, *of) => {
                    let own = self.own[frame.id].checksum(*local);
                    let variable = &frame.code.locals[local.0 as usize];
                    let old = self.headers.of(frame.id, *of);
                    let header = self.headers.replaced((frame.id, *local), old, (protocol, own), variable);
                    let unset = self.unset(init, protocol, false).filter(|_| !own);
                    self.replaced(&mut state, (old, header), unset, init.span);
                }
                (_, Type::Packet(protocol)) => {
                    let facts = self.made(&mut state, init, frame);
                    self.hold(&mut state, frame, *local, protocol, facts);
                }
                _ => self.value(&mut state, init, frame),
            },
            StmtKind::SetLocal(local, value) => match value.ty {
                Type::Packet(protocol) => {
                    let facts = self.made(&mut state, value, frame);
                    self.hold(&mut state, frame, *local, protocol, facts);
                }
                _ => self.value(&mut state, value, frame),
            },
            StmtKind::SetField(packet, field, value) => {
                self.value(&mut state, value, frame);
                let header = self.headers.of(frame.id, *packet);
                self.written(&mut state, header, *field, span);
            }
            StmtKind::HoldPut(_, key, packet) => {
                self.value(&mut state, key, frame);
                let local = matches!(packet.kind, ExprKind::Local(_));
                let facts = self.made(&mut state, packet, frame);
                if !local && let Type::Packet(protocol) = packet.ty {
                    self.nameless(&facts, protocol, packet.span);
                }
            }
            StmtKind::Put(_, packet) | StmtKind::PutAt(_, _, packet, ..) | StmtKind::PutAll(_, _, packet, _) => {
                if let StmtKind::PutAll(_, _, _, which) = &statement.kind {
                    self.value(&mut state, which, frame);
                }
                if let StmtKind::PutAt(_, _, _, line, at) = &statement.kind {
                    self.value(&mut state, line, frame);
                    self.value(&mut state, at, frame);
                }
                let local = matches!(packet.kind, ExprKind::Local(_));
                let facts = self.made(&mut state, packet, frame);
                if !local && let Type::Packet(protocol) = packet.ty {
                    self.nameless(&facts, protocol, packet.span);
                }
            }
            StmtKind::Drop(packet, reason) => {
                self.value(&mut state, reason, frame);
                match packet.kind {
                    ExprKind::Local(local) => {
                        let header = self.headers.of(frame.id, local);
                        state.forget(&self.headers, header, true);
                    }
                    _ => drop(self.made(&mut state, packet, frame)),
                }
            }
            StmtKind::If(condition, then, other) => {
                self.value(&mut state, condition, frame);
                let yes = self.statements(Some(state.clone()), then, frame);
                let no = self.statements(Some(state), other, frame);
                return join(yes, no);
            }
            StmtKind::Switch(value, arms, other) => {
                self.value(&mut state, value, frame);
                self.exits.push(Exit::Switch(None));
                let mut after = None;
                for body in arms.iter().map(|arm| &arm.body).chain([other]) {
                    let arm = self.statements(Some(state.clone()), body, frame);
                    after = join(after, arm);
                }
                let Some(Exit::Switch(breaks)) = self.exits.pop() else { unreachable!("pushed above") };
                return join(after, breaks);
            }
            StmtKind::For(for_) => {
                let first = *self.loops.entry((frame.id, span)).or_insert(self.headers.len());
                return self.for_(state, for_, (first, span), frame);
            }
            StmtKind::Return(value) => {
                if let Some(value) = value {
                    self.value(&mut state, value, frame);
                }
                let exit = self.exits.iter_mut().rev().find_map(|exit| match exit {
                    Exit::Function(returns) => Some(returns),
                    _ => None,
                });
                let returns = exit.expect("a body is open");
                *returns = join(returns.take(), Some(state));
                return None;
            }
            StmtKind::Break | StmtKind::Continue => {
                let is_break = matches!(statement.kind, StmtKind::Break);
                let exit = self.exits.iter_mut().rev().find_map(|exit| match exit {
                    Exit::Loop { breaks, .. } if is_break => Some(breaks),
                    Exit::Loop { continues, .. } => Some(continues),
                    Exit::Switch(breaks) if is_break => Some(breaks),
                    _ => None,
                });
                let exit = exit.expect("break and continue stand in a loop or switch");
                *exit = join(exit.take(), Some(state));
                return None;
            }
            StmtKind::Block(body) => return self.statements(Some(state), body, frame),
            StmtKind::Critical(entry, body) => {
                let outside = self.critical.replace(entry.span);
                let after = self.statements(Some(state), body, frame);
                self.critical = outside;
                return after;
            }
            _ => {
                for expr in statement.kind.expressions() {
                    self.value(&mut state, expr, frame);
                }
            }
        }
        Some(state)
    }

    /// Goes over a loop until nothing new is found. What became known in one trip is forgotten in the next one.
    fn for_(
        &mut self,
        before: State,
        for_: &'a super::hir::For,
        (first, span): (usize, Span),
        frame: Frame<'a>,
    ) -> Option<State> {
        let (mut head, mut out) = (before, None);
        loop {
            let mut inside = head.clone();
            self.value(&mut inside, &for_.condition, frame);
            let done = inside.clone();
            self.exits.push(Exit::Loop { breaks: None, continues: None });
            let body = self.statements(Some(inside), &for_.body, frame);
            let Some(Exit::Loop { breaks, continues }) = self.exits.pop() else { unreachable!("pushed above") };
            out = join(join(out, breaks), Some(done));
            let Some(mut again) = join(body, continues) else { return out };
            for header in self.headers.since(first) {
                self.ends(&mut again, header, span);
            }
            state_after(&self.headers, &mut again, first);
            let Some(again) = self.statements(Some(again), &for_.step, frame) else { return out };
            let joined = head.clone().join(again);
            if joined == head {
                return out;
            }
            head = joined;
        }
    }

    fn value(&mut self, state: &mut State, expr: &'a Expr, frame: Frame<'a>) {
        match &expr.kind {
            ExprKind::And(a, b) | ExprKind::Or(a, b) => {
                self.value(state, a, frame);
                let mut second = state.clone();
                self.value(&mut second, b, frame);
                *state = std::mem::take(state).join(second);
            }
            ExprKind::Ternary(condition, a, b) => {
                self.value(state, condition, frame);
                let mut second = state.clone();
                self.value(state, a, frame);
                self.value(&mut second, b, frame);
                *state = std::mem::take(state).join(second);
            }
            ExprKind::Call(function, arguments) => self.call(state, *function, arguments, expr.span, frame),
            ExprKind::Packet(call, packet, operands) => {
                for operand in operands {
                    self.value(state, operand, frame);
                }
                let header = self.headers.of(frame.id, *packet);
                self.packet_call(state, *call, header, expr.span);
            }
            ExprKind::Copy(_)
            | ExprKind::Create
            | ExprKind::HoldGet(..)
            | ExprKind::Encap(_)
            | ExprKind::Replace(_)
            | ExprKind::Decap(..) => {
                self.made(state, expr, frame);
            }
            _ => {
                let mut operands = Vec::new();
                expr.for_each_operand(|operand| operands.push(operand));
                for operand in operands {
                    self.value(state, operand, frame);
                }
            }
        }
    }

    fn call(&mut self, state: &mut State, id: FunctionId, arguments: &'a [Expr], span: Span, frame: Frame<'a>) {
        let code = &self.program.functions[id.0 as usize].code;
        let inside = self.frame(Some((frame.id, span)), code);
        for (index, argument) in (0..).zip(arguments) {
            match (argument.ty, &argument.kind) {
                (Type::Packet(_), ExprKind::Local(local)) => {
                    let header = self.headers.of(frame.id, *local);
                    self.headers.bind(inside.id, LocalId(index), header);
                }
                _ => self.value(state, argument, frame),
            }
        }
        self.exits.push(Exit::Function(None));
        let after = self.statements(Some(std::mem::take(state)), &code.body, inside);
        let Some(Exit::Function(returns)) = self.exits.pop() else { unreachable!("pushed above") };
        *state = join(after, returns).unwrap_or_default();
    }

    /// Where a header is made anew whose checksum is to be computed: it covers more than is known there, the header or,
    /// where it is `alone`, the packet.
    fn unset(&self, made: &Expr, protocol: ProtocolId, alone: bool) -> Option<Span> {
        let checksum = self.program.protocols[protocol.0 as usize].checksum.filter(|checksum| !checksum.optional)?;
        (checksum.pseudo || (checksum.payload && !alone)).then_some(made.span)
    }

    /// An expression that makes a packet, or hands one on: what is known of it.
    fn made(&mut self, state: &mut State, expr: &'a Expr, frame: Frame<'a>) -> Facts {
        let Type::Packet(protocol) = expr.ty else { unreachable!("a packet") };
        match &expr.kind {
            ExprKind::Local(local) => {
                let header = self.headers.of(frame.id, *local);
                self.consumed(state, header, expr.span);
                state.forget(&self.headers, header, true);
                Facts::default()
            }
            ExprKind::Copy(local) => {
                let header = self.headers.of(frame.id, *local);
                self.copied(state, header, expr.span)
            }
            ExprKind::HoldGet(_, key) => {
                self.value(state, key, frame);
                Facts::default()
            }
            ExprKind::Create => {
                let unset = self.unset(expr, protocol, true);
                Facts { apart: true, made: true, unset, ..Facts::default() }
            }
            ExprKind::Encap(local) | ExprKind::Replace(local) => {
                let header = self.headers.of(frame.id, *local);
                self.consumed(state, header, expr.span);
                state.forget(&self.headers, header, true);
                let unset = self.unset(expr, protocol, false);
                Facts { apart: true, made: true, unset, ..Facts::default() }
            }
            ExprKind::Decap(local, bytes) => {
                if let Some(bytes) = bytes {
                    self.value(state, bytes, frame);
                }
                let header = self.headers.of(frame.id, *local);
                self.decap(state, header, protocol, bytes.as_deref(), expr.span)
            }
            _ => unreachable!("no other expression makes a packet"),
        }
    }

    /// A call that leaves the packet where it is.
    fn packet_call(&mut self, state: &mut State, call: Function, header: usize, span: Span) {
        match call {
            Function::ChecksumNone => {
                let facts = state.facts.entry(header).or_default();
                *facts = Facts {
                    apart: true,
                    unset: facts.unset,
                    made: facts.made,
                    spoiled: facts.spoiled,
                    cut: facts.cut.take(),
                    ..Facts::default()
                };
            }
            Function::ChecksumSet => {
                let facts = state.facts.entry(header).or_default();
                (facts.unset, facts.spoiled) = (None, None);
                if let Some(scope) = self.headers.under(header) {
                    let facts = state.facts.entry(scope).or_default();
                    (facts.apart, facts.behind) = (false, Some([header].into()));
                }
            }
            call if call.resizes() => self.resized(state, call, header, span),
            _ => {}
        }
    }
}

/// The state in which the next trip of a loop begins.
fn state_after(headers: &Headers, state: &mut State, first: usize) {
    for header in headers.since(first) {
        state.end(headers, header);
    }
}
