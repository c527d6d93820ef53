//! Elements of arrays by an index that is known at run time only. An array is as many fields of a struct.

use super::Lowering;
use crate::check::hir::{Elements, Expr, ExprKind, Type};
use crate::ir::{BinOp, CastOp, CmpOp, Op, Ty, Value};

impl<'p> Lowering<'p> {
    /// An element; zero beyond the end.
    pub(super) fn element(&mut self, holder: &'p Expr, elements: Elements, index: &'p Expr, ty: Ty) -> Value {
        let fields = elements.first..elements.first + elements.count;
        let (index, values) = match holder.ty {
            Type::Struct(_) => {
                let all = self.values(holder, holder.ty);
                let index = self.value(index);
                (index, all[fields.start as usize..fields.end as usize].to_vec())
            }
            _ => {
                let entry = self.value(holder);
                let index = self.value(index);
                (index, fields.map(|field| self.b.push(ty, Op::EntryLoad { entry, field })).collect())
            }
        };
        let bits = elements.count.next_power_of_two().ilog2();
        let picked = self.picked(index, &values, bits);
        let inside = self.is_below(index, elements.count);
        let Ty::Int(width) = ty else { unreachable!("elements are numbers") };
        let zero = self.b.constant(width, 0);
        self.b.push(ty, Op::Select(inside, picked, zero))
    }

    /// One of at most 2^`bits` values, by the low bits of an index.
    fn picked(&mut self, index: Value, values: &[Value], bits: u32) -> Value {
        let [first, ..] = values[..] else { unreachable!("an array has elements") };
        if values.len() == 1 {
            return first;
        }
        let (low, high) = values.split_at(values.len().min(1 << (bits - 1)));
        let low = self.picked(index, low, bits - 1);
        if high.is_empty() {
            return low;
        }
        let high = self.picked(index, high, bits - 1);
        let shift = self.b.constant(32, (bits - 1).into());
        let bit = self.b.binary(BinOp::LShr, index, shift);
        let bit = self.b.push(Ty::Int(1), Op::Cast(CastOp::Trunc, bit));
        self.b.push(self.b.ty(low), Op::Select(bit, high, low))
    }

    /// Sets an element; beyond the end, nothing.
    pub(super) fn set_element(&mut self, holder: &'p Expr, elements: Elements, index: &'p Expr, value: &'p Expr) {
        match (&holder.kind, holder.ty) {
            (ExprKind::Local(local), Type::Struct(_)) => {
                let (index, value) = (self.value(index), self.value(value));
                let vars = self.vars(*local);
                for (element, var) in (0..elements.count).zip(&vars[elements.first as usize..]) {
                    let element = self.b.constant(32, element.into());
                    let is_this = self.b.push(Ty::Int(1), Op::Cmp(CmpOp::Eq, index, element));
                    let old = self.b.get(*var);
                    let new = self.b.push(self.b.ty(old), Op::Select(is_this, value, old));
                    self.b.set(*var, new);
                }
            }
            (ExprKind::ArrayValue(table, entry), _) => {
                let (entry, index, value) = (self.value(entry), self.value(index), self.value(value));
                self.if_in_range(*table, entry, |this, entry| this.store_element(entry, elements, index, value));
            }
            _ => {
                let (entry, index, value) = (self.value(holder), self.value(index), self.value(value));
                self.store_element(entry, elements, index, value);
            }
        }
    }

    fn store_element(&mut self, entry: Value, elements: Elements, index: Value, value: Value) {
        let inside = self.is_below(index, elements.count);
        let all = (0, elements.count);
        self.where_(inside, |this| this.store_one(entry, (elements.first, all), index, value));
    }

    /// Stores in the element of the index, which is one from `from` to below `end`.
    fn store_one(&mut self, entry: Value, (first, (from, end)): (u32, (u32, u32)), index: Value, value: Value) {
        if end - from == 1 {
            return self.b.effect(Op::EntryStore { entry, field: first + from, value });
        }
        let middle = from + (end - from) / 2;
        let is_low = self.is_below(index, middle);
        let (low, high, join) = (self.b.block(), self.b.block(), self.b.block());
        self.b.branch(is_low, low, high);
        for (block, part) in [(low, (from, middle)), (high, (middle, end))] {
            self.b.seal(block);
            self.b.switch_to(block);
            self.store_one(entry, (first, part), index, value);
            self.b.jump(join);
        }
        self.b.seal(join);
        self.b.switch_to(join);
    }

    fn is_below(&mut self, index: Value, end: u32) -> Value {
        let end = self.b.constant(32, end.into());
        self.b.push(Ty::Int(1), Op::Cmp(CmpOp::Ult, index, end))
    }
}
