//! The time of use that entries of tables which age keep: see `lower/aging.rs`.

use std::collections::BTreeSet;

use super::inst::{Body, Op, Ty};
use super::program::{LayoutId, Program, Table};

/// The fields that keep the time of use.
#[derive(Clone, Debug, Default)]
pub struct Times(BTreeSet<(LayoutId, u32)>);

impl Times {
    /// Those of a program.
    pub fn new(program: &Program) -> Times {
        let field = |table: &Table| {
            let fields = program.layouts[table.value.0 as usize].fields.len() as u32;
            (table.value, fields - table.hidden_fields() as u32)
        };
        Times(program.tables.iter().filter(|table| table.idle.is_some()).map(field).collect())
    }

    /// Whether a field of a layout is one.
    pub fn has(&self, layout: LayoutId, field: u32) -> bool {
        self.0.contains(&(layout, field))
    }

    /// Whether an operation brings an entry's time of use up to date.
    pub fn is_touch(&self, body: &Body, op: &Op) -> bool {
        matches!(op, Op::EntryStore { entry, field, .. }
            if matches!(body.ty(*entry), Ty::Entry(layout) if self.has(layout, *field)))
    }
}
