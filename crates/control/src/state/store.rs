//! The database: for each table its entries, what it was declared as, and which entries the configuration had; and what
//! controllers keep.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use baker::ir::TableEntry;
use dataplane::TableChange;
use redb::{
    Database, DatabaseError, ReadableDatabase, ReadableTable, StorageError, TableDefinition, TableError,
    WriteTransaction,
};

use super::declared::{Configured, StateError};

/// What tables were declared as, by name.
const DECLARED: TableDefinition<&str, &str> = TableDefinition::new("declared");
/// Entries of the configuration, by the table's name and the key.
const CONFIGURED: TableDefinition<(&str, &[u8]), &[u8]> = TableDefinition::new("configured");
/// What controllers keep, by the controller's name and the key.
const KEPT: TableDefinition<(&str, &str), &[u8]> = TableDefinition::new("kept");
/// File in the state's directory.
const FILE: &str = "tables.redb";
/// Bytes of the database in memory: it is read at a start only, and what is written is not read again.
const CACHE: usize = 4 << 20;
/// In front of the name of a table of entries.
const ENTRIES: &str = "entries ";
/// What is wrong where another process has it.
const TAKEN: &str = "another instance has it: give each a directory of its own";
/// In place of a prefix length.
const NO_PREFIX: u8 = 255;

type Entries<'n> = TableDefinition<'n, &'static [u8], &'static [u8]>;

/// An open database. Only one process can have it.
pub struct Store {
    path: PathBuf,
    /// None after an error, from which on redb does nothing until it is opened again.
    database: Option<Database>,
    /// The directory, locked: it is this process's also while the database is not open.
    _lock: File,
}

/// All that is to be kept of a table.
pub struct Whole {
    /// Its name.
    pub name: String,
    /// What it is declared as.
    pub declared: String,
    /// Its entries.
    pub entries: Vec<TableEntry>,
}

/// What a controller keeps: its name, the key, the value; none where it is removed.
pub type KeptChange = (String, String, Option<Vec<u8>>);

/// Tables as they are now, and what controllers keep.
pub struct Everything {
    /// All of them.
    pub tables: Vec<Whole>,
    /// Entries of the configuration.
    pub configured: Configured,
    /// What controllers keep.
    pub kept: Vec<KeptChange>,
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Store {
    /// Opens the database of a directory, or makes both. What is made can be read by no other user: secrets of
    /// controllers are kept, too.
    pub fn open(path: &Path) -> Result<Store, StateError> {
        let system = |error: std::io::Error| StateError::new(path, error);
        make(path).map_err(system)?;
        let lock = File::open(path).map_err(system)?;
        // File systems that lock no directories have the database's own lock.
        if let Err(TryLockError::WouldBlock) = lock.try_lock() {
            return Err(StateError::new(path, TAKEN));
        }
        Ok(Store { path: path.to_owned(), database: Some(database(path)?), _lock: lock })
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn error(&self, error: impl std::fmt::Display) -> StateError {
        StateError::new(&self.path, format!("{FILE}: {error}"))
    }

    fn database(&self) -> Result<&Database, StateError> {
        self.database.as_ref().ok_or_else(|| self.error("could not be written, and was not opened again yet"))
    }

    /// The tables, with what they were declared as.
    pub fn declared(&self) -> Result<Vec<(String, String)>, StateError> {
        let read = self.database()?.begin_read().map_err(|error| self.error(error))?;
        let table = match read.open_table(DECLARED) {
            Err(TableError::TableDoesNotExist(_)) => return Ok(Vec::new()),
            table => table.map_err(|error| self.error(error))?,
        };
        let rows = table.iter().map_err(|error| self.error(error))?;
        let row = |row: Result<(redb::AccessGuard<'_, &str>, redb::AccessGuard<'_, &str>), _>| {
            let (name, declared) = row.map_err(|error| self.error(error))?;
            Ok((name.value().to_owned(), declared.value().to_owned()))
        };
        rows.map(row).collect()
    }

    /// The entries that the configuration had.
    pub fn configured(&self) -> Result<Configured, StateError> {
        let read = self.database()?.begin_read().map_err(|error| self.error(error))?;
        let table = match read.open_table(CONFIGURED) {
            Err(TableError::TableDoesNotExist(_)) => return Ok(Vec::new()),
            table => table.map_err(|error| self.error(error))?,
        };
        let mut configured = Vec::new();
        for row in table.iter().map_err(|error| self.error(error))? {
            let (key, value) = row.map_err(|error| self.error(error))?;
            let (name, key) = key.value();
            configured.push((name.to_owned(), self.entry(key, value.value())?));
        }
        Ok(configured)
    }

    /// The entries of a table.
    pub fn entries(&self, name: &str) -> Result<Vec<TableEntry>, StateError> {
        let read = self.database()?.begin_read().map_err(|error| self.error(error))?;
        let name = format!("{ENTRIES}{name}");
        let table = match read.open_table(Entries::new(&name)) {
            Err(TableError::TableDoesNotExist(_)) => return Ok(Vec::new()),
            table => table.map_err(|error| self.error(error))?,
        };
        let mut entries = Vec::new();
        for row in table.iter().map_err(|error| self.error(error))? {
            let (key, value) = row.map_err(|error| self.error(error))?;
            entries.push(self.entry(key.value(), value.value())?);
        }
        Ok(entries)
    }

    /// What a controller has kept, by key.
    pub fn kept(&self, controller: &str) -> Result<Vec<(String, Vec<u8>)>, StateError> {
        let read = self.database()?.begin_read().map_err(|error| self.error(error))?;
        let table = match read.open_table(KEPT) {
            Err(TableError::TableDoesNotExist(_)) => return Ok(Vec::new()),
            table => table.map_err(|error| self.error(error))?,
        };
        let mut kept = Vec::new();
        for row in table.range((controller, "")..).map_err(|error| self.error(error))? {
            let (key, value) = row.map_err(|error| self.error(error))?;
            match key.value() {
                (own, key) if own == controller => kept.push((key.to_owned(), value.value().to_vec())),
                _ => break,
            }
        }
        Ok(kept)
    }

    fn entry(&self, key: &[u8], value: &[u8]) -> Result<TableEntry, StateError> {
        let (Some((&prefix, key)), Some(value)) = (key.split_first(), numbers(value)) else {
            return Err(self.error("an entry is damaged"));
        };
        let key = numbers(key).ok_or_else(|| self.error("a key is damaged"))?;
        Ok(TableEntry { key, prefix_len: (prefix != NO_PREFIX).then_some(prefix.into()), value })
    }

    /// Replaces all that is there, at once.
    pub fn replace(&mut self, everything: &Everything) -> Result<(), StateError> {
        self.write(|write| {
            for table in write.list_tables()?.collect::<Vec<_>>() {
                write.delete_table(table)?;
            }
            let mut declared = write.open_table(DECLARED)?;
            for table in &everything.tables {
                declared.insert(&*table.name, &*table.declared)?;
                fill(write, &table.name, &table.entries)?;
            }
            let mut configured = write.open_table(CONFIGURED)?;
            for (name, entry) in &everything.configured {
                configured.insert((&**name, &*key(entry)), &*bytes(&entry.value))?;
            }
            keep(write, &everything.kept)
        })
    }

    /// Replaces the entries of tables, at once.
    pub fn renew(&mut self, tables: &[Whole]) -> Result<(), StateError> {
        self.write(|write| {
            for table in tables {
                write.delete_table(Entries::new(&format!("{ENTRIES}{}", table.name)))?;
                fill(write, &table.name, &table.entries)?;
            }
            Ok(())
        })
    }

    /// Makes changes of what controllers keep, at once.
    pub fn keep(&mut self, changes: &[KeptChange]) -> Result<(), StateError> {
        self.write(|write| keep(write, changes))
    }

    /// Makes changes, at once, in their order.
    pub fn apply(&mut self, changes: &[TableChange]) -> Result<(), StateError> {
        self.write(|write| {
            for same in changes.chunk_by(|one, other| one.table == other.table) {
                let name = format!("{ENTRIES}{}", same[0].table);
                let mut table = write.open_table(Entries::new(&name))?;
                for TableChange { entry, removed, .. } in same {
                    match removed {
                        true => drop(table.remove(&*key(entry))?),
                        false => drop(table.insert(&*key(entry), &*bytes(&entry.value))?),
                    }
                }
            }
            Ok(())
        })
    }

    /// Where it fails the database is closed, and opened again by the next attempt.
    fn write(&mut self, change: impl FnOnce(&WriteTransaction) -> Result<(), redb::Error>) -> Result<(), StateError> {
        let open = match self.database.take() {
            Some(open) => open,
            None => database(&self.path)?,
        };
        let attempt = || -> Result<(), redb::Error> {
            let write = open.begin_write()?;
            change(&write)?;
            Ok(write.commit()?)
        };
        attempt().map_err(|error| self.error(error))?;
        self.database = Some(open);
        Ok(())
    }
}

/// Makes a directory where it is missing, for its owner alone.
fn make(path: &Path) -> std::io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    path.parent().map_or(Ok(()), fs::create_dir_all)?;
    DirBuilder::new().mode(0o700).create(path)?;
    // Of this the umask may have taken away, too.
    fs::set_permissions(path, Permissions::from_mode(0o700))
}

/// Opens the database in a directory, or makes it.
fn database(path: &Path) -> Result<Database, StateError> {
    let system = |error: &dyn std::fmt::Display| StateError::new(path, format!("{FILE}: {error}"));
    let name = path.join(FILE);
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(&name);
    let file = file.map_err(|error| system(&error))?;
    let found = file.metadata().map_err(|error| system(&error))?;
    if found.permissions().mode() & 0o777 != 0o600 {
        file.set_permissions(Permissions::from_mode(0o600)).map_err(|error| system(&error))?;
    }
    Database::builder().set_cache_size(CACHE).create(&name).map_err(|error| {
        if found.len() == 0 {
            // Half of a new one, such as on a full disk, could not be opened the next time.
            let _ = file.set_len(0);
        }
        match error {
            DatabaseError::DatabaseAlreadyOpen => StateError::new(path, TAKEN),
            DatabaseError::Storage(StorageError::Io(error)) if error.raw_os_error().is_some() => system(&error),
            error => StateError::new(path, format!("{FILE}: {error}; to start without it, remove it")),
        }
    })
}

fn fill(write: &WriteTransaction, name: &str, entries: &[TableEntry]) -> Result<(), redb::Error> {
    let name = format!("{ENTRIES}{name}");
    let mut table = write.open_table(Entries::new(&name))?;
    for entry in entries {
        table.insert(&*key(entry), &*bytes(&entry.value))?;
    }
    Ok(())
}

fn keep(write: &WriteTransaction, changes: &[KeptChange]) -> Result<(), redb::Error> {
    let mut table = write.open_table(KEPT)?;
    for (controller, key, value) in changes {
        match value {
            Some(value) => drop(table.insert((&**controller, &**key), &**value)?),
            None => drop(table.remove((&**controller, &**key))?),
        }
    }
    Ok(())
}

/// A key in the database.
fn key(entry: &TableEntry) -> Vec<u8> {
    let prefix = entry.prefix_len.map_or(NO_PREFIX, |len| len as u8);
    [prefix].into_iter().chain(bytes(&entry.key)).collect()
}

fn bytes(numbers: &[u128]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_be_bytes()).collect()
}

/// None where it is damaged.
fn numbers(bytes: &[u8]) -> Option<Vec<u128>> {
    let (numbers, rest) = bytes.as_chunks();
    rest.is_empty().then(|| numbers.iter().map(|number| u128::from_be_bytes(*number)).collect())
}
