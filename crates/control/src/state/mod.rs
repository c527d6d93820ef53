//! What of an instance outlasts its process: the entries of its tables, in a database in a directory (`--state DIR`).
//!
//! A start puts them back where a table is declared as it was. Entries of the configuration are treated as by a reload: what the
//! file has now and had not, or otherwise, is set, and what it has no more is removed; all else is as it was.
//!
//! | file | idea |
//! |---|---|
//! | `store` | the database: tables by name, with what they were declared as |
//! | `keeper` | a thread that keeps it up to date |

mod keeper;
mod store;

use std::path::{Path, PathBuf};

use baker::ir::{Layout, Program, Table, TableEntry, TableId};
use dataplane::TableAccess;

pub use self::keeper::Keeper;
pub use self::store::Store;

/// Why there is no state.
#[derive(Debug, thiserror::Error)]
#[error("state in {}: {problem}", path.display())]
pub struct StateError {
    /// The directory.
    pub path: PathBuf,
    /// What is wrong, and what to do about it.
    pub problem: String,
}

impl StateError {
    fn new(path: &Path, problem: impl std::fmt::Display) -> Self {
        StateError { path: path.to_owned(), problem: problem.to_string() }
    }
}

/// Entries of the configuration, by the table's name.
pub type Configured = Vec<(String, TableEntry)>;

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

/// What a table is, as far as its entries' meaning depends on it.
fn declared(program: &Program, table: &Table) -> String {
    let fields = |layout: &Layout| {
        let field = |f: &baker::ir::LayoutField| format!("{}:{}{}", f.name, if f.signed { "i" } else { "u" }, f.width);
        layout.fields.iter().map(field).collect::<Vec<_>>().join(",")
    };
    let key = fields(&program.layouts[table.key.0 as usize]);
    format!(
        "{:?} set={} ages={} meter={:?} {key} -> {}",
        table.kind,
        table.is_set,
        table.idle.is_some(),
        table.meter,
        fields(&program.shown_value(table))
    )
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

#[cfg(test)]
mod tests;
