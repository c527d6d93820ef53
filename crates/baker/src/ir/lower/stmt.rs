//! Statements.

use super::{Exits, Frame, Lowering, Slot};
use crate::check::hir::{self, ExprKind, FunctionId, LocalId, Stmt, StmtKind, Type};
use crate::check::own::OwnFields;
use crate::ir::{BlockId, CmpOp, Op, TableKind, Ty, Value};

impl<'p> Lowering<'p> {
    /// Statements of one scope.
    pub(super) fn statements(&mut self, statements: &'p [Stmt], code: &'p hir::Code, own: &OwnFields) {
        for statement in statements {
            if self.b.unreachable() {
                break;
            }
            self.b.span = Some(statement.span);
            self.statement(statement, code, own);
        }
    }

    fn statement(&mut self, statement: &'p Stmt, code: &'p hir::Code, own: &OwnFields) {
        match &statement.kind {
            StmtKind::Let(local, init) => self.let_(*local, init.as_ref(), code, own),
            StmtKind::SetLocal(local, value) => match code.locals[local.0 as usize].ty {
                Type::Packet(_) => {
                    let packet = self.new_packet(value);
                    self.rebind(*local, packet, own);
                }
                ty => {
                    let values = self.values(value, ty);
                    for (var, value) in self.vars(*local).into_iter().zip(values) {
                        self.b.set(var, value);
                    }
                }
            },
            StmtKind::SetLocalField(local, field, value) => {
                let value = self.value(value);
                let var = self.vars(*local)[*field as usize];
                self.b.set(var, value);
            }
            StmtKind::SetField(packet, field, value) => {
                let value = self.value(value);
                self.store_field(*packet, *field, value);
            }
            StmtKind::SetMeta(packet, field, value) => {
                let value = self.value(value);
                let packet = self.packet_value(*packet);
                self.b.effect(Op::MetaStore { packet, field: *field, value });
            }
            StmtKind::SetEntryField(pointer, field, value) => {
                let entry = self.value(pointer);
                let value = self.value(value);
                self.b.effect(Op::EntryStore { entry, field: *field, value });
            }
            StmtKind::SetEntry(pointer, value) => {
                let entry = self.value(pointer);
                for (field, value) in self.values(value, value.ty).into_iter().enumerate() {
                    self.b.effect(Op::EntryStore { entry, field: field as u32, value });
                }
            }
            StmtKind::SetArrayField(table, index, field, value) => {
                let index = self.value(index);
                let value = self.value(value);
                self.if_in_range(*table, index, |this, entry| {
                    this.b.effect(Op::EntryStore { entry, field: *field, value });
                });
            }
            StmtKind::SetElement(holder, elements, index, value) => self.set_element(holder, *elements, index, value),
            StmtKind::Put(channel, packet) => {
                let packet = self.consume(packet);
                self.b.effect(Op::Put { packet, channel: *channel });
            }
            StmtKind::PutAll(channel, groups, packet, which) => self.put_all((*channel, *groups), packet, which),
            StmtKind::PutAt(channel, queue, packet, line, at) => {
                self.put_at((*channel, *queue), packet, line, at);
            }
            StmtKind::Drop(packet, reason) => {
                let reason = self.value(reason);
                // The checksum of a packet that goes nowhere need not be brought up to date.
                let packet = match packet.kind {
                    ExprKind::Local(local) => self.release(local),
                    _ => self.consume(packet),
                };
                self.drop_by(packet, reason);
            }
            StmtKind::HoldPut(table, key, packet) => {
                let key = self.value(key);
                let packet = self.consume(packet);
                self.b.effect(Op::HoldPut { packet, table: *table, key });
            }
            StmtKind::Require(condition, reason) => self.require(condition, reason),
            StmtKind::Count(counter, index, amount) => {
                let index = self.value(index);
                let amount = self.value(amount);
                self.b.effect(Op::Count { counter: *counter, index, amount });
            }
            StmtKind::Fence => self.b.effect(Op::Fence),
            StmtKind::Expr(expr) => {
                self.values(expr, expr.ty);
            }
            StmtKind::If(condition, then, other) => match condition.tests_handle() {
                Some((local, true)) => self.if_held(local, other, then, code, own),
                Some((local, false)) => self.if_held(local, then, other, code, own),
                None => self.if_(condition, then, other, code, own),
            },
            StmtKind::For(for_) => self.for_(for_, code, own),
            StmtKind::Return(value) => self.return_(value.as_ref()),
            StmtKind::Switch(value, arms, other) => self.switch(value, arms, other, code, own),
            StmtKind::Break => {
                let exit = self.exits.last().expect("break stands in a loop or switch").exit;
                self.exits.last_mut().expect("still the same").owned = Some(self.owned.clone());
                self.b.jump(exit);
            }
            StmtKind::Continue => {
                let next = self.exits.iter().rev().find_map(|exits| Some((exits.next?, exits.layers)));
                let (next, layers) = next.expect("continue stands in a loop");
                self.forget_from(layers);
                self.b.jump(next);
            }
            StmtKind::Block(body) => self.statements(body, code, own),
            StmtKind::Critical(entry, body) => {
                let entry = self.value(entry);
                self.b.effect(Op::Lock { entry });
                self.statements(body, code, own);
                self.b.effect(Op::Unlock { entry });
            }
        }
    }

    fn let_(&mut self, local: LocalId, init: Option<&'p hir::Expr>, code: &'p hir::Code, own: &OwnFields) {
        let ty = code.locals[local.0 as usize].ty;
        if let Type::Packet(protocol) = ty {
            let init = init.expect("a handle is declared with a packet");
            if matches!(init.kind, ExprKind::Peek(..)) {
                return self.peek(local, init, own);
            }
            if let ExprKind::Replace(old) = init.kind
                && self.looks_into(old)
            {
                return self.replace_inner(local, old, protocol, own);
            }
            let packet = self.new_packet(init);
            self.bind_packet(local, protocol, packet, own);
            return;
        }
        let values = match init {
            Some(init) => self.values(init, ty),
            None => self.zeros(ty),
        };
        let types = self.scalars(ty);
        let vars: Vec<_> = types.into_iter().map(|ty| self.b.var(ty)).collect();
        for (&var, value) in vars.iter().zip(values) {
            self.b.set(var, value);
        }
        self.frame().slots[local.0 as usize] = Some(Slot::Vars(vars));
    }

    /// Where a hold table had a packet, and where it had none: what stands for that is given back.
    fn if_held(&mut self, local: LocalId, held: &'p [Stmt], none: &'p [Stmt], code: &'p hir::Code, own: &OwnFields) {
        let index = self.packet_index(local);
        let packet = self.packet_of(index);
        let length = self.b.push(Ty::Int(32), Op::Len { packet });
        let zero = self.b.constant(32, 0);
        let is_none = self.b.push(Ty::Int(1), Op::Cmp(CmpOp::Eq, length, zero));
        let (none_block, held_block, join) = (self.b.block(), self.b.block(), self.b.block());
        self.b.branch(is_none, none_block, held_block);
        let (owned, mut after) = (self.owned.clone(), None);
        self.b.seal(none_block);
        self.b.switch_to(none_block);
        let packet = self.release(local);
        self.b.effect(Op::Discard { packet });
        self.arm(none, join, code, own, &mut after);
        self.owned.clone_from(&owned);
        self.b.seal(held_block);
        self.b.switch_to(held_block);
        self.arm(held, join, code, own, &mut after);
        // As for `if_`.
        self.owned = after.unwrap_or(owned);
        self.b.seal(join);
        self.b.switch_to(join);
    }

    fn if_(
        &mut self,
        condition: &'p hir::Expr,
        then: &'p [Stmt],
        other: &'p [Stmt],
        code: &'p hir::Code,
        own: &OwnFields,
    ) {
        let (then_block, join) = (self.b.block(), self.b.block());
        let other_block = if other.is_empty() { join } else { self.b.block() };
        self.condition(condition, then_block, other_block);
        let (owned, mut after) = (self.owned.clone(), None);
        self.b.seal(then_block);
        self.b.switch_to(then_block);
        self.arm(then, join, code, own, &mut after);
        if !other.is_empty() {
            self.owned.clone_from(&owned);
            self.b.seal(other_block);
            self.b.switch_to(other_block);
            self.arm(other, join, code, own, &mut after);
        }
        // Where neither arm goes on, the join is unreachable and `after` does not matter; where both do, the checker
        // has proved that they own the same packets.
        self.owned = after.unwrap_or(owned);
        self.b.seal(join);
        self.b.switch_to(join);
    }

    fn for_(&mut self, for_: &'p hir::For, code: &'p hir::Code, own: &OwnFields) {
        let (head, start, next, exit) = (self.b.block(), self.b.block(), self.b.block(), self.b.block());
        self.b.jump(head);
        self.b.switch_to(head);
        self.condition(&for_.condition, start, exit);
        self.b.seal(start);
        self.b.switch_to(start);
        let owned = self.owned.clone();
        let layers = self.layers.len();
        self.exits.push(Exits { next: Some(next), exit, owned: None, layers });
        self.statements(&for_.body, code, own);
        if !self.b.unreachable() {
            self.forget_from(layers);
        }
        self.b.jump(next);
        self.exits.pop();
        self.owned = owned;
        self.b.seal(next);
        self.b.switch_to(next);
        self.statements(&for_.step, code, own);
        self.b.jump(head);
        self.b.seal(head);
        self.b.seal(exit);
        self.b.switch_to(exit);
    }

    /// Compares with one value after the other: the machine's compiler makes a jump table of it where that is better.
    fn switch(
        &mut self,
        value: &'p hir::Expr,
        arms: &'p [hir::Arm],
        other: &'p [Stmt],
        code: &'p hir::Code,
        own: &OwnFields,
    ) {
        let Type::Int { width, .. } = value.ty else { unreachable!("a number is switched on") };
        let value = self.value(value);
        let (exit, owned) = (self.b.block(), self.owned.clone());
        let mut after = None;
        self.exits.push(Exits { next: None, exit, owned: None, layers: self.layers.len() });
        for arm in arms {
            let body = self.b.block();
            for label in &arm.values {
                let label = self.b.constant(width, *label);
                let equal = self.b.push(Ty::Int(1), Op::Cmp(CmpOp::Eq, value, label));
                let next = self.b.block();
                self.b.branch(equal, body, next);
                self.b.seal(next);
                self.b.switch_to(next);
            }
            let next = self.b.current();
            self.b.seal(body);
            self.b.switch_to(body);
            self.arm(&arm.body, exit, code, own, &mut after);
            self.owned.clone_from(&owned);
            self.b.switch_to(next);
        }
        self.arm(other, exit, code, own, &mut after);
        let broken = self.exits.pop().expect("pushed above").owned;
        // As after an `if`: all arms that go on own the same packets.
        self.owned = after.or(broken).unwrap_or(owned);
        self.b.seal(exit);
        self.b.switch_to(exit);
    }

    /// One way through an `if` or a `switch`. Where it goes on, `after` is what it owns then.
    fn arm(
        &mut self,
        body: &'p [Stmt],
        exit: BlockId,
        code: &'p hir::Code,
        own: &OwnFields,
        after: &mut Option<Vec<usize>>,
    ) {
        self.statements(body, code, own);
        if !self.b.unreachable() {
            *after = Some(self.owned.clone());
        }
        self.b.jump(exit);
    }

    fn return_(&mut self, value: Option<&'p hir::Expr>) {
        let frame = self.frames.last().expect("a frame is open");
        match frame.exit.clone() {
            None => self.b.ret(),
            Some((exit, results)) => {
                if let Some(value) = value {
                    let values = self.values(value, value.ty);
                    for (var, value) in results.into_iter().zip(values) {
                        self.b.set(var, value);
                    }
                }
                self.b.jump(exit);
            }
        }
    }

    /// Inlines a call.
    pub(super) fn call(&mut self, function: FunctionId, arguments: &'p [hir::Expr]) -> Vec<Value> {
        let function = &self.program.functions[function.0 as usize];
        let code = &function.code;
        let mut slots = vec![None; code.locals.len()];
        for (i, argument) in arguments.iter().enumerate() {
            slots[i] = Some(match (argument.ty, &argument.kind) {
                (Type::Packet(_), ExprKind::Local(local)) => self.slot(*local),
                _ => {
                    let values = self.values(argument, code.locals[i].ty);
                    let types = self.scalars(code.locals[i].ty);
                    let vars: Vec<_> = types.into_iter().map(|ty| self.b.var(ty)).collect();
                    for (&var, value) in vars.iter().zip(values) {
                        self.b.set(var, value);
                    }
                    Slot::Vars(vars)
                }
            });
        }
        let exit = self.b.block();
        let types = self.scalars(function.result);
        let results: Vec<_> = types.into_iter().map(|ty| self.b.var(ty)).collect();
        for (&var, value) in results.iter().zip(self.zeros(function.result)) {
            self.b.set(var, value);
        }
        self.frames.push(Frame { slots, exit: Some((exit, results.clone())) });
        // What the function makes itself it has consumed when it ends; what the caller holds stays held.
        let (span, owned) = (self.b.span, self.owned.clone());
        let own = OwnFields::find(self.program, code);
        self.statements(&code.body, code, &own);
        (self.b.span, self.owned) = (span, owned);
        self.b.jump(exit);
        self.frames.pop();
        self.b.seal(exit);
        self.b.switch_to(exit);
        results.into_iter().map(|var| self.b.get(var)).collect()
    }

    /// Runs `inside` with an array's entry where the index is in range.
    pub(super) fn if_in_range(
        &mut self,
        table: crate::ir::TableId,
        index: Value,
        inside: impl FnOnce(&mut Self, Value),
    ) {
        let info = self.table(table);
        debug_assert_eq!(info.kind, TableKind::Array);
        let ty = Ty::Entry(info.value);
        let entry = self.b.push(ty, Op::Lookup { table, key: vec![index] });
        if self.b.as_constant(index).is_some_and(|i| i < info.capacity as u128) {
            return inside(self, entry);
        }
        let (found, join) = (self.b.block(), self.b.block());
        let is_null = self.b.push(Ty::Int(1), Op::IsNull(entry));
        self.b.branch(is_null, join, found);
        self.b.seal(found);
        self.b.switch_to(found);
        inside(self, entry);
        self.b.jump(join);
        self.b.seal(join);
        self.b.switch_to(join);
    }
}
