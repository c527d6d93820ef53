//! Expressions and conditions.

use super::{Lowering, Slot};
use crate::check::hir::{Comparison, Expr, ExprKind, LocalId, Type};
use crate::ir::{BinOp, BlockId, CastOp, CmpOp, DropReason, Op, Ty, Value};

impl<'p> Lowering<'p> {
    /// The one value of a scalar.
    pub(super) fn value(&mut self, expr: &'p Expr) -> Value {
        Self::one(self.values(expr, expr.ty))
    }

    /// Zero or null of a type.
    pub(super) fn zeros(&mut self, ty: Type) -> Vec<Value> {
        self.scalars(ty).into_iter().map(|ty| self.b.push(ty, Op::Const(0))).collect()
    }

    /// The scalars of an expression. `ty` is what it is used as: it tells a `null` which pointer it is.
    pub(super) fn values(&mut self, expr: &'p Expr, ty: Type) -> Vec<Value> {
        let one = |value| vec![value];
        match &expr.kind {
            ExprKind::Const(_) if matches!(expr.ty, Type::Null | Type::Pointer(_) | Type::Loaded { .. }) => {
                self.zeros(ty)
            }
            ExprKind::Const(value) => {
                let width = self.width(expr.ty);
                one(self.b.constant(width, *value))
            }
            ExprKind::Local(local) => match self.slot(*local) {
                Slot::Vars(vars) => vars.into_iter().map(|var| self.b.get(var)).collect(),
                Slot::Packet(_) => one(self.consume(expr)),
            },
            ExprKind::StructField(value, field) => one(self.values(value, value.ty)[*field as usize]),
            ExprKind::Field(packet, field) => one(self.load_field(*packet, *field)),
            ExprKind::Meta(packet, field) => {
                let (packet, ty) = (self.packet_value(*packet), self.int(expr.ty));
                one(self.b.push(ty, Op::MetaLoad { packet, field: *field }))
            }
            ExprKind::Now => one(self.b.push(Ty::Int(64), Op::Now)),
            ExprKind::Length(packet) => {
                let index = self.packet_index(*packet);
                one(self.length(index))
            }
            ExprKind::Binary(op, a, b) => {
                let (a, b) = (self.value(a), self.value(b));
                one(self.fold(*op, a, b))
            }
            ExprKind::Compare(comparison, a, b) => one(self.compare(*comparison, a, b)),
            ExprKind::Not(a) => {
                let a = self.value(a);
                let one_bit = self.b.constant(1, 1);
                one(self.b.binary(BinOp::Xor, a, one_bit))
            }
            ExprKind::And(..) | ExprKind::Or(..) => {
                let result = self.b.var(Ty::Int(1));
                let (then, other, join) = (self.b.block(), self.b.block(), self.b.block());
                self.condition(expr, then, other);
                for (block, value) in [(then, 1), (other, 0)] {
                    self.b.seal(block);
                    self.b.switch_to(block);
                    let value = self.b.constant(1, value);
                    self.b.set(result, value);
                    self.b.jump(join);
                }
                self.b.seal(join);
                self.b.switch_to(join);
                one(self.b.get(result))
            }
            ExprKind::Ternary(condition, a, b) => {
                let results: Vec<_> = self.scalars(ty).into_iter().map(|ty| self.b.var(ty)).collect();
                let (then, other, join) = (self.b.block(), self.b.block(), self.b.block());
                self.condition(condition, then, other);
                for (block, arm) in [(then, a), (other, b)] {
                    self.b.seal(block);
                    self.b.switch_to(block);
                    for (&var, value) in results.iter().zip(self.values(arm, ty)) {
                        self.b.set(var, value);
                    }
                    self.b.jump(join);
                }
                self.b.seal(join);
                self.b.switch_to(join);
                results.into_iter().map(|var| self.b.get(var)).collect()
            }
            ExprKind::Cast(operand) => one(self.cast(operand, expr.ty)),
            ExprKind::Call(function, arguments) => self.call(*function, arguments),
            ExprKind::Extern(function, arguments) => {
                let (function, args) = (*function, arguments.iter().map(|argument| self.value(argument)).collect());
                let op = Op::Extern { function, args };
                match self.scalars(expr.ty)[..] {
                    [ty] => one(self.b.push(ty, op)),
                    _ => {
                        self.b.effect(op);
                        Vec::new()
                    }
                }
            }
            ExprKind::Lookup(table, key) => {
                let key = self.key(key);
                one(self.lookup(*table, key))
            }
            ExprKind::Member(table, packet) => one(self.member(*table, *packet)),
            ExprKind::ArrayValue(table, index) => {
                let index = self.value(index);
                let types = self.scalars(expr.ty);
                let results: Vec<_> = types.iter().map(|&ty| self.b.var(ty)).collect();
                for (&var, zero) in results.iter().zip(self.zeros(expr.ty)) {
                    self.b.set(var, zero);
                }
                self.if_in_range(*table, index, |this, entry| {
                    for (field, (&var, &ty)) in results.iter().zip(&types).enumerate() {
                        let value = this.b.push(ty, Op::EntryLoad { entry, field: field as u32 });
                        this.b.set(var, value);
                    }
                });
                results.into_iter().map(|var| self.b.get(var)).collect()
            }
            ExprKind::EntryField(pointer, _) if matches!(pointer.ty, Type::Loaded { .. }) => {
                one(self.values(pointer, pointer.ty)[1])
            }
            ExprKind::EntryField(pointer, field) => {
                let (entry, ty) = (self.value(pointer), self.int(expr.ty));
                one(self.b.push(ty, Op::EntryLoad { entry, field: *field }))
            }
            ExprKind::Element(holder, elements, index) => {
                one(self.element(holder, *elements, index, self.int(expr.ty)))
            }
            ExprKind::Entry(pointer) => {
                let entry = self.value(pointer);
                let types = self.scalars(expr.ty).into_iter().enumerate();
                types.map(|(field, ty)| self.b.push(ty, Op::EntryLoad { entry, field: field as u32 })).collect()
            }
            ExprKind::Struct(fields) => fields.iter().map(|field| self.value(field)).collect(),
            ExprKind::Insert(table, key, value, new) => {
                let key = self.key(key);
                let mut value = self.values(value, value.ty);
                if self.table(*table).idle.is_some() {
                    let has_deadlines =
                        || self.program.timers.iter().any(|timer| timer.period == 0 && timer.table == Some(*table));
                    if *new || has_deadlines() {
                        // One that is too old is not there any more, nor is its deadline.
                        self.lookup(*table, key.clone());
                    }
                    value.push(self.now());
                }
                one(self.b.push(Ty::Int(1), Op::Insert { table: *table, key, value, new: *new }))
            }
            ExprKind::Remove(table, key) => {
                let key = self.key(key);
                one(self.b.push(Ty::Int(1), Op::Remove { table: *table, key }))
            }
            ExprKind::SetDeadline(table, key, at) => {
                let (table, key, at) = (*table, self.key(key), self.value(at));
                if self.table(table).idle.is_some() {
                    // Removes the entry where it is too old, and is a use of it otherwise.
                    self.lookup(table, key.clone());
                }
                one(self.b.push(Ty::Int(1), Op::SetDeadline { table, key, at }))
            }
            ExprKind::Take(table, index, amount) => one(self.take_tokens(*table, index, amount)),
            ExprKind::Copy(_)
            | ExprKind::Create
            | ExprKind::HoldGet(..)
            | ExprKind::Decap(..)
            | ExprKind::Encap(_)
            | ExprKind::Replace(_) => one(self.consume(expr)),
            ExprKind::Peek(..) => unreachable!("the checker has refused a peek without a name"),
            ExprKind::Packet(..) => self.packet_call(expr),
        }
    }

    fn key(&mut self, key: &'p [Expr]) -> Vec<Value> {
        key.iter().flat_map(|part| self.values(part, part.ty)).collect()
    }

    fn width(&self, ty: Type) -> u32 {
        match ty {
            Type::Int { width, .. } => width,
            Type::Bool => 1,
            Type::Reason => DropReason::WIDTH,
            _ => unreachable!("an integer, bool or drop reason"),
        }
    }

    fn int(&self, ty: Type) -> Ty {
        Ty::Int(self.width(ty))
    }

    /// Arithmetic, computed here where both operands are constants.
    fn fold(&mut self, op: BinOp, a: Value, b: Value) -> Value {
        let Ty::Int(width) = self.b.ty(a) else { unreachable!("arithmetic is on integers") };
        match (self.b.as_constant(a), self.b.as_constant(b)) {
            (Some(x), Some(y)) => self.b.constant(width, op.eval(width, x, y)),
            _ => self.b.binary(op, a, b),
        }
    }

    fn compare(&mut self, comparison: Comparison, a: &'p Expr, b: &'p Expr) -> Value {
        let pointer = match (a.ty, b.ty) {
            (Type::Pointer(_) | Type::Loaded { .. }, Type::Null) => Some(a),
            (Type::Null, Type::Pointer(_) | Type::Loaded { .. }) => Some(b),
            _ => None,
        };
        if let Some(pointer) = pointer {
            let (test, tests_null) = self.null_test(pointer);
            if (comparison == Comparison::Eq) == tests_null {
                return test;
            }
            let one = self.b.constant(1, 1);
            return self.b.binary(BinOp::Xor, test, one);
        }
        let signed = matches!(a.ty, Type::Int { signed: true, .. });
        let (a, b) = (self.value(a), self.value(b));
        let (less, less_equal) = if signed { (CmpOp::Slt, CmpOp::Sle) } else { (CmpOp::Ult, CmpOp::Ule) };
        let (op, a, b) = match comparison {
            Comparison::Eq => (CmpOp::Eq, a, b),
            Comparison::Ne => (CmpOp::Ne, a, b),
            Comparison::Lt => (less, a, b),
            Comparison::Le => (less_equal, a, b),
            Comparison::Gt => (less, b, a),
            Comparison::Ge => (less_equal, b, a),
        };
        self.b.push(Ty::Int(1), Op::Cmp(op, a, b))
    }

    fn cast(&mut self, operand: &'p Expr, to: Type) -> Value {
        let signed = matches!(operand.ty, Type::Int { signed: true, .. });
        let (from, to) = (self.width(operand.ty), self.width(to));
        let value = self.value(operand);
        self.resize(value, from, to, signed)
    }

    /// Changes a value's width.
    pub(super) fn resize(&mut self, value: Value, from: u32, to: u32, signed: bool) -> Value {
        let op = match from.cmp(&to) {
            std::cmp::Ordering::Equal => return value,
            std::cmp::Ordering::Greater => CastOp::Trunc,
            std::cmp::Ordering::Less if signed => CastOp::SExt,
            std::cmp::Ordering::Less => CastOp::ZExt,
        };
        match self.b.as_constant(value) {
            Some(constant) => self.b.constant(to, op.eval(from, to, constant)),
            None => self.b.push(Ty::Int(to), Op::Cast(op, value)),
        }
    }

    /// Branches on a condition. Tests of pointers become branches of their own, so that what lies behind them is seen
    /// to be not null.
    pub(super) fn condition(&mut self, expr: &'p Expr, then: BlockId, other: BlockId) {
        match &expr.kind {
            ExprKind::Not(a) => self.condition(a, other, then),
            ExprKind::And(a, b) => {
                let second = self.b.block();
                self.condition(a, second, other);
                self.b.seal(second);
                self.b.switch_to(second);
                self.condition(b, then, other);
            }
            ExprKind::Or(a, b) => {
                let second = self.b.block();
                self.condition(a, then, second);
                self.b.seal(second);
                self.b.switch_to(second);
                self.condition(b, then, other);
            }
            ExprKind::Compare(comparison, a, b) if a.ty == Type::Null || b.ty == Type::Null => {
                let pointer = if b.ty == Type::Null { a } else { b };
                let (test, tests_null) = self.null_test(pointer);
                match (*comparison == Comparison::Eq) == tests_null {
                    true => self.b.branch(test, then, other),
                    false => self.b.branch(test, other, then),
                }
            }
            _ => {
                let value = self.value(expr);
                match self.b.as_constant(value) {
                    Some(0) => self.b.jump(other),
                    Some(_) => self.b.jump(then),
                    None => self.b.branch(value, then, other),
                }
            }
        }
    }

    /// A truth value that says whether a pointer is null, or, where the second is false, that it is not.
    fn null_test(&mut self, pointer: &'p Expr) -> (Value, bool) {
        match pointer.ty {
            Type::Loaded { .. } => (self.values(pointer, pointer.ty)[0], false),
            _ => {
                let entry = self.value(pointer);
                (self.b.push(Ty::Int(1), Op::IsNull(entry)), true)
            }
        }
    }

    /// The packet behind a local.
    pub(super) fn packet_index(&self, local: LocalId) -> usize {
        match self.slot(local) {
            Slot::Packet(index) => index,
            Slot::Vars(_) => unreachable!("a handle"),
        }
    }

    /// The handle's present value; does not consume it.
    pub(super) fn packet_value(&mut self, local: LocalId) -> Value {
        let var = self.packets[self.packet_index(local)].var;
        self.b.get(var)
    }
}
