//! What was kept, put back at the start.

use baker::ir::{Program, TableId};
use dataplane::TableAccess;

use super::declared::{Configured, StateError, declared};
use super::store::Store;

/// What was there at the start.
#[derive(Debug, Default)]
pub struct Restored {
    /// Nothing was kept yet.
    pub is_first: bool,
    /// Entries that were put back.
    pub entries: usize,
    /// Entries that the configuration had then.
    pub configured: Configured,
    /// What was not put back, and why, a line each.
    pub notes: Vec<String>,
}

/// Puts entries back into the tables of a program that processes no packet yet.
pub fn restore(store: &Store, program: &Program, tables: &mut TableAccess) -> Result<Restored, StateError> {
    let (known, configured) = (store.declared()?, store.configured()?);
    let mut restored = Restored { is_first: known.is_empty(), configured, ..Restored::default() };
    for (name, was) in known {
        let Some(id) = program.tables.iter().position(|table| table.name == name) else {
            restored.notes.push(format!("table {name} is no more: its entries are left out"));
            continue;
        };
        let table = &program.tables[id];
        if declared(program, table) != was {
            restored.notes.push(format!("table {name} was declared otherwise: it starts empty"));
            // As if the configuration had none of them.
            restored.configured.retain(|(own, _)| *own != name);
            continue;
        }
        let (entries, mut left_out) = (store.entries(&name)?, 0);
        for entry in &entries {
            match tables.insert_kept(TableId(id as u32), entry) {
                Ok(()) => restored.entries += 1,
                Err(_) => left_out += 1,
            }
        }
        if left_out > 0 {
            restored.notes.push(format!(
                "table {name} has become smaller: {left_out} of its {} entries are left out",
                entries.len()
            ));
        }
    }
    Ok(restored)
}
