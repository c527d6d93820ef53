//! Meters: tokens are taken from an entry. Of a hash table with a rate a packet begins the meter of its key.

use super::Lowering;
use crate::check::hir::Expr;
use crate::ir::build::Var;
use crate::ir::{Op, TableId, TableKind, Ty, Value};

impl<'p> Lowering<'p> {
    /// `meter_take`; 1 bit.
    pub(super) fn take_tokens(&mut self, table: TableId, key: &'p Expr, amount: &'p Expr) -> Value {
        let key = self.values(key, key.ty);
        let amount = self.value(amount);
        let taken = self.b.var(Ty::Int(1));
        let none = self.b.constant(1, 0);
        self.b.set(taken, none);
        match (self.table(table).kind, &key[..]) {
            (TableKind::Array, &[index]) => {
                self.if_in_range(table, index, |this, entry| this.take_from(entry, amount, taken));
            }
            _ => {
                let entry = self.meter_of(table, key);
                let is_null = self.b.push(Ty::Int(1), Op::IsNull(entry));
                let (found, join) = (self.b.block(), self.b.block());
                self.b.branch(is_null, join, found);
                self.b.seal(found);
                self.b.switch_to(found);
                self.take_from(entry, amount, taken);
                self.b.jump(join);
                self.b.seal(join);
                self.b.switch_to(join);
            }
        }
        self.b.get(taken)
    }

    fn take_from(&mut self, entry: Value, amount: Value, taken: Var) {
        let took = self.b.push(Ty::Int(1), Op::Take { entry, amount });
        self.b.set(taken, took);
    }

    /// The meter of a key, or null. One that is not there begins full, where the table says with which rate.
    fn meter_of(&mut self, table: TableId, key: Vec<Value>) -> Value {
        let entry = self.lookup(table, key.clone());
        let info = self.table(table);
        let Some(meter) = info.meter.filter(|meter| info.kind == TableKind::Hash && meter.rate != 0) else {
            return entry;
        };
        let (ty, ages) = (Ty::Entry(info.value), info.idle.is_some());
        let result = self.b.var(ty);
        self.b.set(result, entry);
        let is_null = self.b.push(Ty::Int(1), Op::IsNull(entry));
        self.where_(is_null, |this| {
            let mut value = [meter.rate, meter.burst].map(|tokens| this.b.constant(64, tokens.into())).to_vec();
            if ages {
                value.push(this.now());
            }
            value.push(this.b.constant(64, 0));
            // Where another worker is faster, it is that one's.
            this.b.push(Ty::Int(1), Op::Insert { table, key: key.clone(), value, new: true });
            let begun = this.b.push(ty, Op::Lookup { table, key });
            this.b.set(result, begun);
        });
        self.b.get(result)
    }
}
