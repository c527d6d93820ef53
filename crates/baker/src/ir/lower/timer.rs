//! Timers: the body gets a key, looks it up, and goes on where the entry is there.
//!
//! ```text
//! timer age(mac_addr_t mac, station_t *entry) over stations every 30s { … }
//!
//!                                  b0(v0: u48):
//!                             →      v1: entry<station_t> = lookup m.stations(v0)
//!                                    v2: u1 = is_null v1
//!                                    br v2, b1(), b2()      b1: return; b2: the statements
//! ```
//!
//! So an entry that was removed since its key was read is passed over, and the data plane handles keys alone. The
//! look-up is not one by a packet: entries that age do not stay for it, and those that are too old are passed over.
//!
//! A timer at deadlines then takes the entry's deadline (`take_deadline`), and goes on where that has come. So the
//! data plane may name a key twice or too early.

use super::{Frame, Lowering, Slot};
use crate::check::hir::{LocalId, Timer};
use crate::check::own::OwnFields;
use crate::ir::{BinOp, CmpOp, Op, Table, TableId, Ty, Value};

impl<'p> Lowering<'p> {
    pub(super) fn timer(&mut self, timer: &'p Timer) {
        let entry = self.b.block();
        self.b.seal(entry);
        self.b.switch_to(entry);
        self.frames.push(Frame { slots: vec![None; timer.code.locals.len()], exit: None });
        if let Some(table) = timer.table {
            let layout = &self.program.layouts[self.table(table).key.0 as usize];
            let widths: Vec<u32> = layout.fields.iter().map(|field| field.width).collect();
            let key: Vec<Value> = widths.into_iter().map(|width| self.b.param(entry, Ty::Int(width))).collect();
            let value = self.swept(table, key.clone());
            if timer.period == 0 {
                self.take_deadline(table, key.clone());
            }
            self.bind_values(LocalId(0), &key);
            if timer.params > 1 {
                self.bind_values(LocalId(1), &[value]);
            }
        }
        let own = OwnFields::find(self.program, &timer.code);
        self.statements(&timer.code.body, &timer.code, &own);
        self.b.ret();
    }

    /// The entry under a key; goes on only where there is one.
    fn swept(&mut self, table: TableId, key: Vec<Value>) -> Value {
        let info = self.table(table);
        let entry = self.b.push(Ty::Entry(info.value), Op::Lookup { table, key });
        let is_null = self.b.push(Ty::Int(1), Op::IsNull(entry));
        let (gone, found) = (self.b.block(), self.b.block());
        self.b.branch(is_null, gone, found);
        self.b.seal(found);
        self.b.switch_to(found);
        if let Some(idle) = info.idle {
            let old = self.is_old(entry, info, idle);
            let young = self.b.block();
            self.b.branch(old, gone, young);
            self.b.seal(young);
            self.b.switch_to(young);
        }
        let there = self.b.current();
        self.b.seal(gone);
        self.b.switch_to(gone);
        self.b.ret();
        self.b.switch_to(there);
        entry
    }

    /// Goes on only where the deadline of the entry has come.
    fn take_deadline(&mut self, table: TableId, key: Vec<Value>) {
        let taken = self.b.push(Ty::Int(1), Op::TakeDeadline { table, key });
        let (due, not_due) = (self.b.block(), self.b.block());
        self.b.branch(taken, due, not_due);
        self.b.seal(due);
        self.b.seal(not_due);
        self.b.switch_to(not_due);
        self.b.ret();
        self.b.switch_to(due);
    }

    /// Whether an entry that ages was not used for longer than its idle time: see [`crate::ir::is_expired`].
    fn is_old(&mut self, entry: Value, info: &Table, idle: u64) -> Value {
        let field = self.program.layouts[info.value.0 as usize].fields.len() as u32 - info.hidden_fields() as u32;
        let used = self.b.push(Ty::Int(64), Op::EntryLoad { entry, field });
        let zero = self.b.constant(64, 0);
        let ages = self.b.push(Ty::Int(1), Op::Cmp(CmpOp::Ne, used, zero));
        let now = self.b.push(Ty::Int(64), Op::Now);
        let unused = self.b.binary(BinOp::Sub, now, used);
        let idle = self.b.constant(64, idle.into());
        let long = self.b.push(Ty::Int(1), Op::Cmp(CmpOp::Slt, idle, unused));
        self.b.binary(BinOp::And, ages, long)
    }

    /// Makes a local stand for these scalars.
    fn bind_values(&mut self, local: LocalId, values: &[Value]) {
        let mut vars = Vec::new();
        for value in values {
            let var = self.b.var(self.b.ty(*value));
            self.b.set(var, *value);
            vars.push(var);
        }
        self.frame().slots[local.0 as usize] = Some(Slot::Vars(vars));
    }
}
