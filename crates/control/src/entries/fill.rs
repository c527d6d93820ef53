//! Entries on their way into the tables of an engine.

use std::fmt;

use baker::ir::{Program, TableEntry, TableError, TableId, TableStore};

/// Puts entries into the tables of an engine.
///
/// # Errors
/// The first entry that its table does not take, and why.
pub fn fill<S: TableStore + ?Sized>(
    program: &Program,
    entries: &[(TableId, TableEntry)],
    store: &mut S,
) -> Result<(), FillError> {
    for same in entries.chunk_by(|(one, _), (other, _)| one == other) {
        let id = same[0].0;
        store.insert_all(id, &mut same.iter().map(|(_, entry)| entry)).map_err(|error| {
            let table = &program.tables[id.0 as usize];
            FillError { table: table.name.clone(), capacity: table.capacity, error }
        })?;
    }
    Ok(())
}

/// A table did not take an entry of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FillError {
    /// Full name of the table.
    pub table: String,
    /// Its declared number of entries.
    pub capacity: u32,
    /// Why.
    pub error: TableError,
}

impl fmt::Display for FillError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FillError { table, capacity, error } = self;
        write!(f, "table {table}: {error}")?;
        match error {
            TableError::Full | TableError::OutOfRange => {
                write!(f, "; it is declared with {capacity} entries: declare it larger, or configure fewer")
            }
            TableError::BadPrefix | TableError::NotFound | TableError::Busy => Ok(()),
        }
    }
}

impl std::error::Error for FillError {}
