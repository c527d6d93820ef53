//! What must hold on every path: a handle is consumed exactly once, a pointer is tested before it is used, a function
//! with a result returns one.
//!
//! An abstract interpretation of the typed statements. The state says of each handle whether it is still held and of
//! each pointer whether it is known not to be null; where paths join, states join.

use std::collections::HashMap;

use super::hir::{Code, Comparison, Expr, ExprKind, Function, LocalId, Ppf, Program, Stmt, StmtKind, Timer, Type};
use crate::builtin::OnPacket;
use crate::diag::Diagnostic;
use crate::source::Span;

/// Checks a PPF.
pub(super) fn check_ppf(program: &Program, ppf: &Ppf, errors: &mut Vec<Diagnostic>) {
    Flow::new(program, &ppf.code, 1, false, errors).run();
}

/// Checks a timer.
pub(super) fn check_timer(program: &Program, timer: &Timer, errors: &mut Vec<Diagnostic>) {
    Flow::new(program, &timer.code, timer.params, false, errors).run();
}

/// Checks a function.
pub(super) fn check_function(program: &Program, function: &Function, errors: &mut Vec<Diagnostic>) {
    let mut flow = Flow::new(program, &function.code, function.params, true, errors);
    let (reaches_end, only_passed) = (flow.run(), flow.only_passed.cloned());
    if reaches_end && !matches!(function.result, Type::Void | Type::Error) {
        let span = function.code.end.or(function.code.locals.first().map(|l| l.span));
        errors.extend(span.map(|span| {
            let title = format!("`{}` can end without returning a value", function.name);
            let error = Diagnostic::new("missing-return", span, title)
                .label("this is reached without `return`")
                .hint("return a value on every path");
            only_passed.iter().fold(error, passes)
        }));
    }
}

/// What is known of a handle.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Handle {
    /// Held.
    Held,
    /// Consumed at this place on every path.
    Consumed(Span),
    /// Consumed at this place on some paths.
    Perhaps(Span),
    /// This test says that it is null.
    Null(Span),
    /// Already reported.
    Reported,
}

/// State on one path.
#[derive(Clone, Default, PartialEq, Debug)]
struct State {
    handles: HashMap<LocalId, Handle>,
    /// Pointers, and whether they are known not to be null.
    pointers: HashMap<LocalId, bool>,
}

impl State {
    fn join(mut self, other: &State) -> State {
        for (local, theirs) in &other.handles {
            let Some(ours) = self.handles.get_mut(local) else { continue };
            *ours = match (*ours, *theirs) {
                (a, b) if a == b => a,
                (Handle::Reported, _) | (_, Handle::Reported) => Handle::Reported,
                (Handle::Consumed(a), Handle::Consumed(_)) => Handle::Consumed(a),
                (Handle::Null(_), Handle::Consumed(at)) | (Handle::Consumed(at), Handle::Null(_)) => {
                    Handle::Consumed(at)
                }
                (Handle::Null(at), Handle::Null(_)) => Handle::Null(at),
                (Handle::Held, Handle::Consumed(at) | Handle::Perhaps(at) | Handle::Null(at))
                | (Handle::Consumed(at) | Handle::Perhaps(at) | Handle::Null(at), _) => Handle::Perhaps(at),
                (Handle::Held, Handle::Held) => Handle::Held,
            };
        }
        self.handles.retain(|local, _| other.handles.contains_key(local));
        self.pointers.retain(|local, _| other.pointers.contains_key(local));
        for (local, tested) in &mut self.pointers {
            *tested &= other.pointers[local];
        }
        self
    }
}

fn join(a: Option<State>, b: Option<State>) -> Option<State> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.join(&b)),
        (a, b) => a.or(b),
    }
}

/// What `break` and `continue` lead out of.
#[derive(Default)]
struct Exits {
    /// A `switch`, which `continue` passes by.
    is_switch: bool,
    /// Handles from outside of it.
    outside: Vec<LocalId>,
    breaks: Option<State>,
    continues: Option<State>,
}

struct Flow<'a> {
    program: &'a Program,
    code: &'a Code,
    /// The first locals are parameters.
    params: u32,
    /// Whether they are lent by a caller: then they can't be consumed and need not be.
    lent: bool,
    /// Handles that only look into a packet, and the handle of that packet. They end with it.
    peeked: HashMap<LocalId, LocalId>,
    /// The handle that each of them was made of.
    around: HashMap<LocalId, LocalId>,
    /// Handles that are still held behind a `switch` because a value without a label passes it by: what it looks at,
    /// and which value.
    passed: HashMap<LocalId, &'a (Span, String)>,
    /// The last `switch` that only a value without a label gets past.
    only_passed: Option<&'a (Span, String)>,
    exits: Vec<Exits>,
    /// The handle that the statement before got of a hold table, where this statement tests it.
    tested: Option<LocalId>,
    errors: &'a mut Vec<Diagnostic>,
}

/// A remark on the `switch` that a value without a label gets past.
fn passes(error: Diagnostic, (switch, which): &(Span, String)) -> Diagnostic {
    error.also(*switch, format!("goes on behind this `switch` where it is {which}: add `default`"))
}

impl<'a> Flow<'a> {
    fn new(program: &'a Program, code: &'a Code, params: u32, lent: bool, errors: &'a mut Vec<Diagnostic>) -> Flow<'a> {
        let (peeked, around, passed) = (HashMap::new(), HashMap::new(), HashMap::new());
        let (only_passed, exits, tested) = (None, Vec::new(), None);
        Flow { program, code, params, lent, peeked, around, passed, only_passed, exits, tested, errors }
    }

    /// Whether the end can be reached.
    fn run(&mut self) -> bool {
        let mut state = State::default();
        for (index, local) in self.code.locals.iter().enumerate().take(self.params as usize) {
            match local.ty {
                Type::Packet(_) => drop(state.handles.insert(LocalId(index as u32), Handle::Held)),
                // A timer is called for an entry that is there.
                Type::Pointer(_) => drop(state.pointers.insert(LocalId(index as u32), true)),
                _ => {}
            }
        }
        let code = self.code;
        self.note_peeks(&code.body);
        let after = self.statements(Some(state), &code.body, code.end);
        if let Some(mut state) = after {
            self.leave(&mut state, |_| true, code.end);
            return true;
        }
        false
    }

    /// Notes the handles that look into packets.
    fn note_peeks(&mut self, statements: &[Stmt]) {
        for statement in statements {
            if let StmtKind::Let(local, Some(value)) = &statement.kind {
                let around = match &value.kind {
                    ExprKind::Peek(of, _) => Some(*of),
                    ExprKind::Replace(of) => self.around.get(of).copied(),
                    _ => None,
                };
                if let Some(around) = around {
                    self.peeked.insert(*local, self.peeked.get(&around).copied().unwrap_or(around));
                    self.around.insert(*local, around);
                }
            }
            for nested in statement.kind.nested() {
                self.note_peeks(nested);
            }
        }
    }

    fn name(&self, local: LocalId) -> &'a str {
        &self.code.locals[local.0 as usize].name
    }

    fn is_lent(&self, local: LocalId) -> bool {
        self.lent && local.0 < self.params
    }

    fn declared(&self, local: LocalId) -> Span {
        self.code.locals[local.0 as usize].span
    }

    /// Reports handles that are still held where their scope, or the PPF, ends.
    fn leave(&mut self, state: &mut State, which: impl Fn(LocalId) -> bool, at: Option<Span>) {
        let mut held: Vec<_> = state.handles.iter().map(|(l, h)| (*l, *h)).collect();
        held.sort_by_key(|(local, _)| *local);
        for (local, handle) in held {
            if !which(local) || self.is_lent(local) || self.peeked.contains_key(&local) {
                continue;
            }
            let (name, declared) = (self.name(local), self.declared(local));
            let hint = "hand it over with channel_put, or drop it with packet_drop and a reason";
            let mut error = match handle {
                Handle::Held => Diagnostic::new("handle-lost", declared, format!("the packet `{name}` is lost"))
                    .label("this handle is not consumed on every path")
                    .hint(hint),
                Handle::Perhaps(consumed) => Diagnostic::new(
                    "handle-lost-on-a-path",
                    declared,
                    format!("the packet `{name}` is consumed on one path and lost on another"),
                )
                .label("this handle is not consumed on every path")
                .also(consumed, "consumed here, on one path only")
                .hint(hint),
                Handle::Consumed(_) | Handle::Null(_) | Handle::Reported => continue,
            };
            if let Some(at) = at.filter(|at| *at != declared) {
                error = error.also(at, "still held here");
            }
            error = self.passed.get(&local).copied().into_iter().fold(error, passes);
            self.errors.push(error);
            state.handles.insert(local, Handle::Reported);
        }
    }

    fn statements(&mut self, mut state: Option<State>, statements: &[Stmt], end: Option<Span>) -> Option<State> {
        let mut declared = Vec::new();
        let mut untested = None;
        for statement in statements {
            let Some(mut now) = state else {
                self.errors.push(
                    Diagnostic::new("unreachable", statement.span, "this statement can never run")
                        .label("every path has ended before it")
                        .hint("remove it"),
                );
                return None;
            };
            if let StmtKind::Let(local, _) = &statement.kind {
                declared.push(*local);
            }
            self.tested = self.test_of(untested.take(), statement, &mut now);
            state = self.statement(now, statement);
            if let StmtKind::Let(local, Some(Expr { kind: ExprKind::HoldGet(..), span, .. })) = &statement.kind {
                untested = Some((*local, *span));
            }
        }
        if let Some((local, at)) = untested {
            self.untested(local, at);
            if let Some(state) = &mut state {
                state.handles.insert(local, Handle::Reported);
            }
        }
        if let Some(state) = &mut state {
            let last =
                statements.last().map(|s| Span { start: s.span.end.saturating_sub(1).max(s.span.start), ..s.span });
            self.leave(state, |local| declared.contains(&local), end.or(last));
            for local in declared {
                state.handles.remove(&local);
                state.pointers.remove(&local);
            }
        }
        state
    }

    /// The handle that was got by the statement before, where this one tests it.
    fn test_of(&mut self, untested: Option<(LocalId, Span)>, statement: &Stmt, state: &mut State) -> Option<LocalId> {
        let (local, at) = untested?;
        match &statement.kind {
            StmtKind::If(condition, ..) if condition.tests_handle().is_some_and(|(tested, _)| tested == local) => {
                Some(local)
            }
            _ => {
                self.untested(local, at);
                state.handles.insert(local, Handle::Reported);
                None
            }
        }
    }

    /// Behind the test nothing says any more whether there is a packet: where there was one it must be consumed.
    fn lost_where_held(&mut self, held: Option<&mut State>, local: LocalId) {
        let Some(state) = held.filter(|state| state.handles.get(&local) == Some(&Handle::Held)) else { return };
        let (name, declared) = (self.name(local), self.declared(local));
        self.errors.push(
            Diagnostic::new("handle-lost", declared, format!("the packet `{name}` is lost"))
                .label("this handle is not consumed where it is not null")
                .hint("hand it over with channel_put, or drop it with packet_drop and a reason, in the `if` that tests it"),
        );
        state.handles.insert(local, Handle::Reported);
    }

    fn untested(&mut self, local: LocalId, at: Span) {
        let name = self.name(local);
        self.errors.push(
            Diagnostic::new("pointer-untested", at, format!("`{name}` may be null"))
                .label("null where nothing is held under the number")
                .hint(format!("test it in the next statement: `if ({name} == null) {{ … }}`")),
        );
    }

    fn statement(&mut self, mut state: State, statement: &Stmt) -> Option<State> {
        match &statement.kind {
            StmtKind::Let(local, Some(Expr { kind: ExprKind::Peek(packet, bytes), span, .. })) => {
                if let Some(bytes) = bytes {
                    self.value(&mut state, bytes);
                }
                self.used(&mut state, *packet, *span);
                state.handles.insert(*local, Handle::Held);
            }
            StmtKind::Let(local, Some(Expr { kind: ExprKind::Replace(packet), span, .. }))
                if self.peeked.contains_key(packet) =>
            {
                self.replaced(&mut state, *packet, *span);
                state.handles.insert(*local, Handle::Held);
            }
            StmtKind::Let(local, Some(Expr { kind: ExprKind::HoldGet(_, key), .. })) => {
                self.value(&mut state, key);
                state.handles.insert(*local, Handle::Held);
            }
            StmtKind::Let(local, value) => {
                let nonnull = value.as_ref().is_some_and(|value| self.value(&mut state, value));
                match self.code.locals[local.0 as usize].ty {
                    Type::Packet(_) => drop(state.handles.insert(*local, Handle::Held)),
                    Type::Pointer(_) | Type::Loaded { .. } => drop(state.pointers.insert(*local, nonnull)),
                    _ => {}
                }
            }
            StmtKind::SetLocal(local, value) if matches!(value.ty, Type::Packet(_)) => {
                self.value(&mut state, value);
                self.rebound(&mut state, *local, statement.span);
            }
            StmtKind::SetLocal(local, value) => {
                let nonnull = self.value(&mut state, value);
                if let Some(tested) = state.pointers.get_mut(local) {
                    *tested = nonnull;
                }
            }
            StmtKind::SetField(packet, _, value) | StmtKind::SetMeta(packet, _, value) => {
                self.value(&mut state, value);
                self.used(&mut state, *packet, statement.span);
            }
            StmtKind::SetEntryField(pointer, _, value) | StmtKind::SetEntry(pointer, value) => {
                self.dereferenced(&mut state, pointer);
                self.value(&mut state, value);
            }
            StmtKind::SetElement(holder, _, index, value) => {
                if matches!(holder.ty, Type::Pointer(_)) {
                    self.dereferenced(&mut state, holder);
                } else {
                    self.value(&mut state, holder);
                }
                self.value(&mut state, index);
                self.value(&mut state, value);
            }
            StmtKind::Expr(expr) => {
                self.value(&mut state, expr);
                if matches!(expr.ty, Type::Packet(_)) {
                    self.errors.push(
                        Diagnostic::new("handle-lost", expr.span, "this packet is lost at once")
                            .label("makes a packet that nothing takes")
                            .hint("give it a name, or hand it to channel_put"),
                    );
                }
            }
            StmtKind::SetLocalField(..)
            | StmtKind::SetArrayField(..)
            | StmtKind::Put(..)
            | StmtKind::PutAt(..)
            | StmtKind::PutAll(..)
            | StmtKind::Drop(..)
            | StmtKind::HoldPut(..)
            | StmtKind::Fence
            | StmtKind::Count(..) => {
                for expr in statement.kind.expressions() {
                    self.value(&mut state, expr);
                }
            }
            StmtKind::If(condition, then, other) => {
                let tested = condition.tests_handle().filter(|(local, _)| self.tested.take() == Some(*local));
                let (yes, no) = match tested {
                    Some((local, is_null)) => {
                        let mut null = state.clone();
                        null.handles.insert(local, Handle::Null(condition.span));
                        if is_null { (null, state) } else { (state, null) }
                    }
                    None => self.condition(state, condition),
                };
                let yes = self.statements(Some(yes), then, None);
                let mut no = self.statements(Some(no), other, None);
                if let (Some((local, is_null)), Some(_), Some(_)) = (tested, &yes, &no) {
                    let mut yes = yes;
                    let held = if is_null { &mut no } else { &mut yes };
                    self.lost_where_held(held.as_mut(), local);
                    return join(yes, no);
                }
                return join(yes, no);
            }
            StmtKind::Require(condition, reason) => {
                let (holds, mut fails) = self.condition(state, condition);
                self.value(&mut fails, reason);
                return Some(holds);
            }
            StmtKind::For(for_) => return self.for_(state, for_, statement.span),
            StmtKind::Return(value) => {
                if let Some(value) = value {
                    self.value(&mut state, value);
                }
                self.leave(&mut state, |_| true, Some(statement.span));
                return None;
            }
            StmtKind::Break | StmtKind::Continue => {
                let is_break = matches!(statement.kind, StmtKind::Break);
                let at = self.exits.iter().rposition(|exits| is_break || !exits.is_switch);
                let at = at.expect("break and continue stand in a loop or switch");
                // What was made inside must be consumed by now; what comes from outside is still needed.
                let outside = self.exits[at].outside.clone();
                self.leave(&mut state, |local| !outside.contains(&local), Some(statement.span));
                let exits = &mut self.exits[at];
                let exit = if is_break { &mut exits.breaks } else { &mut exits.continues };
                *exit = join(exit.take(), Some(state));
                return None;
            }
            StmtKind::Switch(value, arms, other) => {
                self.value(&mut state, value);
                let outside = state.handles.keys().copied().collect();
                self.exits.push(Exits { is_switch: true, outside, ..Exits::default() });
                let mut after = None;
                for arm in arms {
                    let arm = self.statements(Some(state.clone()), &arm.body, None);
                    after = join(after, arm);
                }
                let arms_after = after.clone();
                after = join(after, self.statements(Some(state.clone()), other, None));
                let breaks = self.exits.pop().expect("pushed above").breaks;
                let code = self.code;
                if let Some(passed) = code.unlabelled.iter().find(|(at, _)| *at == value.span) {
                    self.passes_by(&state, arms_after.as_ref(), breaks.as_ref(), passed);
                }
                return join(after, breaks);
            }
            StmtKind::Block(body) => return self.statements(Some(state), body, None),
            StmtKind::Critical(entry, body) => {
                self.dereferenced(&mut state, entry);
                return self.statements(Some(state), body, None);
            }
        }
        Some(state)
    }

    /// Notes what is held behind a `switch` for the sake of a value that has no label there.
    fn passes_by(&mut self, state: &State, after: Option<&State>, breaks: Option<&State>, passed: &'a (Span, String)) {
        let labelled: Vec<&State> = after.into_iter().chain(breaks).collect();
        if labelled.is_empty() {
            self.only_passed = Some(passed);
        }
        let gone = |state: &&State, local| matches!(state.handles.get(local), Some(Handle::Consumed(_)));
        for (local, handle) in &state.handles {
            if *handle == Handle::Held && labelled.iter().all(|state| gone(state, local)) {
                self.passed.insert(*local, passed);
            }
        }
    }

    fn for_(&mut self, mut before: State, for_: &super::hir::For, span: Span) -> Option<State> {
        // A pointer tested before the loop may be set to something else in it.
        for local in assigned(&for_.body).into_iter().chain(assigned(&for_.step)) {
            if let Some(tested) = before.pointers.get_mut(&local) {
                *tested = false;
            }
        }
        // A handle that looks into a packet from before the loop ends where the loop moves the packet's bytes: on the
        // next trip it is gone.
        for (packet, at) in moved(&for_.body).into_iter().chain(moved(&for_.step)) {
            self.end_peeks(&mut before, packet, at);
        }
        for (packet, at) in replaced(&for_.body) {
            self.end_beside(&mut before, packet, at);
        }
        let (inside, done) = self.condition(before.clone(), &for_.condition);
        let outside = before.handles.keys().copied().collect();
        self.exits.push(Exits { outside, ..Exits::default() });
        let body = self.statements(Some(inside), &for_.body, None);
        let exits = self.exits.pop().expect("pushed above");
        let mut again = join(body, exits.continues);
        if let Some(state) = &mut again {
            // The next trip starts with this state: what was held at the loop's head must be held again.
            for (local, handle) in state.handles.clone() {
                if self.peeked.contains_key(&local) {
                    continue;
                }
                if let (Some(Handle::Held), Handle::Consumed(at) | Handle::Perhaps(at) | Handle::Null(at)) =
                    (before.handles.get(&local), handle)
                {
                    self.errors.push(
                        Diagnostic::new(
                            "handle-consumed-in-loop",
                            at,
                            format!("the packet `{}` would be consumed again on the next trip", self.name(local)),
                        )
                        .label("consumed here")
                        .also(self.declared(local), "made once, outside the loop")
                        .also(Span { end: (span.start + 3).min(span.end), ..span }, "this loop runs it more than once")
                        .hint("consume a packet_copy of it in the loop, or leave the loop after this"),
                    );
                    state.handles.insert(local, Handle::Reported);
                }
            }
            again = self.statements(again, &for_.step, None);
        }
        let done = match again {
            Some(state) => join(Some(done), Some(state)),
            None => Some(done),
        };
        join(done, exits.breaks)
    }

    /// The states where a condition is true and where it is false.
    fn condition(&mut self, mut state: State, expr: &Expr) -> (State, State) {
        match &expr.kind {
            ExprKind::Not(a) => {
                let (yes, no) = self.condition(state, a);
                (no, yes)
            }
            ExprKind::And(a, b) => {
                let (yes, no) = self.condition(state, a);
                let (both, second) = self.condition(yes, b);
                (both, no.join(&second))
            }
            ExprKind::Or(a, b) => {
                let (yes, no) = self.condition(state, a);
                let (second, neither) = self.condition(no, b);
                (yes.join(&second), neither)
            }
            ExprKind::Compare(..) if let Some((local, _)) = expr.tests_handle() => {
                if state.handles.insert(local, Handle::Reported) == Some(Handle::Reported) {
                    return (state.clone(), state);
                }
                self.errors.push(
                    Diagnostic::new("handle-not-null", expr.span, "a handle is compared with null in one place only")
                        .label("not behind a `hold_get`")
                        .hint("the statement behind `P_packet_t *p = hold_get(…);` is `if (p == null) { … }`"),
                );
                (state.clone(), state)
            }
            ExprKind::Compare(comparison, a, b) if a.ty == Type::Null || b.ty == Type::Null => {
                let pointer = if b.ty == Type::Null { a } else { b };
                self.value(&mut state, pointer);
                let ExprKind::Local(local) = pointer.kind else { return (state.clone(), state) };
                let mut tested = state.clone();
                tested.pointers.insert(local, true);
                match comparison {
                    Comparison::Eq => (state, tested),
                    _ => (tested, state),
                }
            }
            _ => {
                self.value(&mut state, expr);
                (state.clone(), state)
            }
        }
    }

    /// Walks an expression; whether it is a pointer known not to be null.
    fn value(&mut self, state: &mut State, expr: &Expr) -> bool {
        match &expr.kind {
            ExprKind::Local(local) => match expr.ty {
                Type::Packet(_) => {
                    self.consumed(state, *local, expr.span);
                    false
                }
                _ => state.pointers.get(local).copied().unwrap_or(false),
            },
            ExprKind::Field(packet, _) | ExprKind::Meta(packet, _) => {
                self.used(state, *packet, expr.span);
                false
            }
            ExprKind::HoldGet(..) => {
                self.errors.push(
                    Diagnostic::new("pointer-untested", expr.span, "there may be no such packet")
                        .label("null where nothing is held under the number")
                        .hint(
                            "declare a variable, and test it: `ipv4_packet_t *ip = hold_get(…); if (ip == null) { … }`",
                        ),
                );
                false
            }
            ExprKind::Peek(..) => {
                self.errors.push(
                    Diagnostic::new("unnamed-packet", expr.span, "a handle that looks into a packet needs a name")
                        .label("not the first value of a variable")
                        .hint("declare one: `tcp_packet_t *tcp = packet_peek(ip);`"),
                );
                false
            }
            ExprKind::EntryField(pointer, _) | ExprKind::Entry(pointer) => {
                self.dereferenced(state, pointer);
                false
            }
            ExprKind::Element(holder, _, index) if matches!(holder.ty, Type::Pointer(_)) => {
                self.dereferenced(state, holder);
                self.value(state, index);
                false
            }
            ExprKind::And(..) | ExprKind::Or(..) => {
                let (yes, no) = self.condition(state.clone(), expr);
                *state = yes.join(&no);
                false
            }
            ExprKind::Ternary(condition, a, b) => {
                let (mut yes, mut no) = self.condition(state.clone(), condition);
                let (first, second) = (self.value(&mut yes, a), self.value(&mut no, b));
                *state = yes.join(&no);
                first && second
            }
            ExprKind::Call(_, arguments) => {
                for argument in arguments {
                    match (argument.ty, &argument.kind) {
                        (Type::Packet(_), ExprKind::Local(local)) => self.used(state, *local, argument.span),
                        _ => drop(self.value(state, argument)),
                    }
                }
                false
            }
            ExprKind::Lookup(table, key) => {
                for part in key {
                    self.value(state, part);
                }
                let table = &self.program.tables[table.0 as usize];
                table.kind == crate::ir::TableKind::Array
                    && matches!(key[..], [Expr { kind: ExprKind::Const(index), .. }] if index < table.capacity as u128)
            }
            kind => {
                let mut operands = Vec::new();
                expr.for_each_operand(|operand| operands.push(operand));
                for operand in operands {
                    self.value(state, operand);
                }
                if let Some((function, packet)) = kind.function().zip(kind.packet()) {
                    match function.row().packet {
                        OnPacket::None => {}
                        OnPacket::Accesses => self.used(state, packet, expr.span),
                        OnPacket::Resizes => self.resized(state, packet, expr.span),
                        OnPacket::Consumes => self.consumed(state, packet, expr.span),
                    }
                }
                false
            }
        }
    }

    fn used(&mut self, state: &mut State, local: LocalId, at: Span) {
        let name = self.name(local);
        let error = match state.handles.get(&local) {
            Some(Handle::Consumed(before)) => {
                Diagnostic::new("handle-used-after", at, format!("the packet `{name}` is no longer here"))
                    .label("used here")
                    .also(*before, "consumed here")
                    .hint("use it before, or consume a packet_copy of it there")
            }
            Some(Handle::Null(test)) => Diagnostic::new("handle-null", at, format!("there is no packet `{name}` here"))
                .label("used here")
                .also(*test, "it is null, as this test says"),
            Some(Handle::Perhaps(before)) => {
                Diagnostic::new("handle-perhaps-gone", at, format!("the packet `{name}` may no longer be here"))
                    .label("used here")
                    .also(*before, "consumed here on some paths")
                    .hint("return after consuming it, or move this into the path that still holds it")
            }
            _ => return,
        };
        self.errors.push(error);
        state.handles.insert(local, Handle::Reported);
    }

    /// Reports that something is done with a handle that only looks into a packet; whether it is one.
    fn only_peeked(&mut self, state: &mut State, local: LocalId, at: Span) -> bool {
        let Some(packet) = self.peeked.get(&local).copied() else { return false };
        if state.handles.get(&local) != Some(&Handle::Reported) {
            // That the packet is not consumed is a consequence.
            state.handles.insert(packet, Handle::Reported);
            let (name, packet) = (self.name(local), self.name(packet));
            self.errors.push(
                Diagnostic::new("handle-peeked", at, format!("`{name}` only looks into the packet `{packet}`"))
                    .label("would take the packet itself")
                    .also(self.declared(local), "made by packet_peek")
                    .hint(format!("use `{packet}`, or make `{name}` by packet_decap")),
            );
            state.handles.insert(local, Handle::Reported);
        }
        true
    }

    /// Handles that look into a packet end where it is consumed or its bytes move.
    fn end_peeks(&self, state: &mut State, packet: LocalId, at: Span) {
        for (local, _) in self.peeked.iter().filter(|(_, of)| **of == packet) {
            if let Some(handle @ Handle::Held) = state.handles.get_mut(local) {
                *handle = Handle::Consumed(at);
            }
        }
    }

    /// A header further in becomes another one. It ends, and so does all that looks into the packet but for the headers
    /// around it.
    fn replaced(&mut self, state: &mut State, local: LocalId, at: Span) {
        self.used(state, local, at);
        let root = self.peeked[&local];
        if self.is_lent(root) {
            let hint = "let the PPF that calls it replace the header";
            return self.lent(root, at, "would make a header in it another one", hint);
        }
        self.end_beside(state, local, at);
    }

    /// All handles that look into the packet that this one looks into end, but for those of the headers around it.
    fn end_beside(&self, state: &mut State, local: LocalId, at: Span) {
        let Some(root) = self.peeked.get(&local) else { return };
        let around: Vec<&LocalId> = std::iter::successors(self.around.get(&local), |at| self.around.get(at)).collect();
        for (other, _) in self.peeked.iter().filter(|(other, of)| *of == root && !around.contains(other)) {
            if let Some(handle @ Handle::Held) = state.handles.get_mut(other) {
                *handle = Handle::Consumed(at);
            }
        }
    }

    /// A packet belongs to the caller, who may have handles that look into it.
    fn lent(&mut self, local: LocalId, at: Span, what: &str, hint: &str) {
        self.errors.push(
            Diagnostic::new("handle-lent", at, format!("the packet `{}` is only lent here", self.name(local)))
                .label(what)
                .also(self.declared(local), "belongs to the caller")
                .hint(hint),
        );
    }

    /// The packet gets longer or shorter, which only its owner may do.
    fn resized(&mut self, state: &mut State, local: LocalId, at: Span) {
        if self.only_peeked(state, local, at) {
            return;
        }
        if self.is_lent(local) {
            let hint = "compute the number of bytes here, and let the PPF that calls it change the length";
            return self.lent(local, at, "would change its length", hint);
        }
        self.used(state, local, at);
        self.end_peeks(state, local, at);
    }

    /// A handle gets a new packet: it may hold none.
    fn rebound(&mut self, state: &mut State, local: LocalId, at: Span) {
        if self.peeked.contains_key(&local) {
            self.only_peeked(state, local, at);
            return;
        }
        let error = Diagnostic::new("handle-assigned", at, format!("`{}` still stands for a packet", self.name(local)));
        let hint = "consume its packet first, as `h = packet_decap(h)` does, or give the new packet a name of its own";
        let error = match state.handles.get(&local) {
            Some(Handle::Held) => error.label("which would be lost"),
            Some(Handle::Perhaps(before)) => {
                error.label("which would be lost on some paths").also(*before, "consumed here, on one path only")
            }
            _ => {
                state.handles.insert(local, Handle::Held);
                return;
            }
        };
        self.errors.push(error.also(self.declared(local), "declared here").hint(hint));
        state.handles.insert(local, Handle::Reported);
    }

    fn consumed(&mut self, state: &mut State, local: LocalId, at: Span) {
        if self.only_peeked(state, local, at) {
            return;
        }
        self.end_peeks(state, local, at);
        if self.is_lent(local) {
            if state.handles.get(&local) != Some(&Handle::Reported) {
                let hint = "a function reads and writes a packet; the PPF that calls it consumes it";
                self.lent(local, at, "would consume it", hint);
            }
            state.handles.insert(local, Handle::Reported);
            return;
        }
        self.used(state, local, at);
        if state.handles.get(&local) != Some(&Handle::Reported) {
            state.handles.insert(local, Handle::Consumed(at));
        }
    }

    fn dereferenced(&mut self, state: &mut State, pointer: &Expr) {
        if self.value(state, pointer) {
            return;
        }
        let error = match pointer.kind {
            ExprKind::Local(local) => {
                state.pointers.insert(local, true);
                Diagnostic::new("pointer-untested", pointer.span, format!("`{}` may be null", self.name(local)))
                    .label("used here without a test")
                    .also(
                        self.declared(local),
                        match pointer.ty {
                            Type::Loaded { .. } => "null where the bytes lie beyond the packet's end",
                            _ => "a look-up yields null where there is no entry",
                        },
                    )
                    .hint(format!("test it first: `if ({} == null) {{ … }}`", self.name(local)))
            }
            _ => Diagnostic::new("pointer-untested", pointer.span, "this look-up may yield null")
                .label("used here without a test")
                .hint("give the pointer a name and test it against null first"),
        };
        self.errors.push(error);
    }
}

/// Packets that some statements put into other handles or change the length of, and where.
fn moved(statements: &[Stmt]) -> Vec<(LocalId, Span)> {
    let mut found = Vec::new();
    let mut exprs = Vec::new();
    for statement in statements {
        if let StmtKind::SetLocal(local, _) = statement.kind {
            found.push((local, statement.span));
        }
        exprs.extend(statement.kind.expressions());
        for nested in statement.kind.nested() {
            found.extend(moved(nested));
        }
    }
    while let Some(expr) = exprs.pop() {
        if let Some((function, packet)) = expr.kind.function().zip(expr.kind.packet())
            && function.resizes()
        {
            found.push((packet, expr.span));
        }
        expr.for_each_operand(|operand| exprs.push(operand));
    }
    found
}

/// Handles whose headers some statements replace, and where.
fn replaced(statements: &[Stmt]) -> Vec<(LocalId, Span)> {
    let mut found = Vec::new();
    for statement in statements {
        if let StmtKind::Let(_, Some(Expr { kind: ExprKind::Replace(packet), span, .. })) = statement.kind {
            found.push((packet, span));
        }
        for nested in statement.kind.nested() {
            found.extend(replaced(nested));
        }
    }
    found
}

/// Locals that some statements set.
fn assigned(statements: &[Stmt]) -> Vec<LocalId> {
    let mut found = Vec::new();
    for statement in statements {
        if let StmtKind::SetLocal(local, _) = statement.kind {
            found.push(local);
        }
        for nested in statement.kind.nested() {
            found.extend(assigned(nested));
        }
    }
    found
}
