//! Tables whose entries age: a look-up finds an entry only within its idle time, and brings its time up to date.
//!
//! The time is the last field of the value (see [`crate::ir::Table::idle`]). So ageing is made of ordinary operations,
//! and all engines agree on it; the control plane removes the entries that are not asked for any more.

use super::Lowering;
use crate::ir::{BinOp, CmpOp, Op, TableId, Ty, Value};

impl Lowering<'_> {
    /// The entry under a key, or null.
    pub(super) fn lookup(&mut self, table: TableId, key: Vec<Value>) -> Value {
        let info = self.table(table);
        let ty = Ty::Entry(info.value);
        let entry = self.b.push(ty, Op::Lookup { table, key: key.clone() });
        let Some(idle) = info.idle else { return entry };
        let field = self.program.layouts[info.value.0 as usize].fields.len() as u32 - info.hidden_fields() as u32;
        let result = self.b.var(ty);
        self.b.set(result, entry);
        let (found, ages, young, old, done) =
            (self.b.block(), self.b.block(), self.b.block(), self.b.block(), self.b.block());

        let is_null = self.b.push(Ty::Int(1), Op::IsNull(entry));
        self.b.branch(is_null, done, found);
        self.b.seal(found);
        self.b.switch_to(found);
        let used = self.b.push(Ty::Int(64), Op::EntryLoad { entry, field });
        let zero = self.b.constant(64, 0);
        let stays = self.b.push(Ty::Int(1), Op::Cmp(CmpOp::Eq, used, zero));
        self.b.branch(stays, done, ages);

        self.b.seal(ages);
        self.b.switch_to(ages);
        let now = self.now();
        // Negative where a worker whose batch began later has used it: young too.
        let unused = self.b.binary(BinOp::Sub, now, used);
        let idle = self.b.constant(64, idle.into());
        let is_young = self.b.push(Ty::Int(1), Op::Cmp(CmpOp::Sle, unused, idle));
        self.b.branch(is_young, young, old);

        self.b.seal(young);
        self.b.switch_to(young);
        self.b.effect(Op::EntryStore { entry, field, value: now });
        self.b.jump(done);

        self.b.seal(old);
        self.b.switch_to(old);
        self.b.push(Ty::Int(1), Op::Remove { table, key });
        let null = self.b.push(ty, Op::Const(0));
        self.b.set(result, null);
        self.b.jump(done);

        self.b.seal(done);
        self.b.switch_to(done);
        self.b.get(result)
    }

    /// The time for an entry that is used now; never 0.
    pub(super) fn now(&mut self) -> Value {
        let now = self.b.push(Ty::Int(64), Op::Now);
        let one = self.b.constant(64, 1);
        self.b.binary(BinOp::Or, now, one)
    }
}
