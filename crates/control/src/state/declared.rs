//! What is kept beside entries: where they come from, and what their tables were declared as.

use std::path::{Path, PathBuf};

use baker::ir::{Layout, Program, Table, TableEntry};

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
    pub(super) fn new(path: &Path, problem: impl std::fmt::Display) -> Self {
        StateError { path: path.to_owned(), problem: problem.to_string() }
    }
}

/// Entries of the configuration, by the table's name.
pub type Configured = Vec<(String, TableEntry)>;

/// What a table is, as far as its entries' meaning depends on it.
pub(super) fn declared(program: &Program, table: &Table) -> String {
    let fields = |layout: &Layout| {
        let kind = |f: &baker::ir::LayoutField| match f.is_reason() {
            true => "reason",
            false if f.signed => "i",
            false => "u",
        };
        let field = |f: &baker::ir::LayoutField| format!("{}:{}{}", f.name, kind(f), f.width);
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
