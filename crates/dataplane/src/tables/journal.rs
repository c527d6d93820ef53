//! The control plane's changes of tables, for the thread that keeps them on disk. What packets change is not among
//! them.

use std::sync::mpsc::SyncSender;
use std::sync::{Arc, OnceLock};

use baker::ir::TableEntry;

/// A change that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableChange {
    /// The table's full name.
    pub table: Arc<str>,
    /// The entry as it is kept ([`super::Tables::dump_kept`]), without a value where it was removed.
    pub entry: TableEntry,
    /// Whether it was removed; that of an array was set to what it is at first.
    pub removed: bool,
}

/// Where changes are told.
#[derive(Debug, Default)]
pub struct Journal(OnceLock<SyncSender<TableChange>>);

impl Journal {
    pub fn tell(&self, changes: SyncSender<TableChange>) {
        // The first one has it.
        let _ = self.0.set(changes);
    }

    /// Whether changes are told, so that who makes one may have to wait for a disk.
    pub fn is_told(&self) -> bool {
        self.0.get().is_some()
    }

    pub fn note(
        &self,
        table: &Arc<str>,
        key: &[u128],
        prefix_len: Option<u32>,
        value: Option<impl Iterator<Item = u128>>,
    ) {
        let Some(changes) = self.0.get() else { return };
        let removed = value.is_none();
        let value = value.into_iter().flatten().collect();
        let entry = TableEntry { key: key.to_vec(), prefix_len, value };
        // Where they are not kept any more there is nothing to keep.
        let _ = changes.send(TableChange { table: table.clone(), entry, removed });
    }
}
