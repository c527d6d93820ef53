//! How the control plane fills and reads tables, whatever engine holds them.

use super::arith::mask;
use super::program::TableId;

/// An entry as the control plane sees it: one number per field of the key's and the value's layout.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableEntry {
    /// Key fields.
    pub key: Vec<u128>,
    /// Prefix length in bits, for `lpm`.
    pub prefix_len: Option<u32>,
    /// Value fields.
    pub value: Vec<u128>,
}

/// Why an entry was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableError {
    /// The table holds as many entries as it can.
    Full,
    /// An array index at or above the capacity, or a group or member that groups cannot have.
    OutOfRange,
    /// A prefix length above the key's width, or bits set beyond it, or none given for `lpm`, or one given elsewhere.
    BadPrefix,
    /// There is no such entry.
    NotFound,
    /// A worker has been in one batch for so long that nothing could be changed.
    Busy,
}

impl std::fmt::Display for TableError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            TableError::Full => "the table is full",
            TableError::OutOfRange => "it is beyond the end of the table",
            TableError::BadPrefix => "not a prefix of this table's keys",
            TableError::NotFound => "there is no such entry",
            TableError::Busy => "a worker has not finished its batch for a second; try again",
        })
    }
}

impl std::error::Error for TableError {}

/// The bits of a key of `width` bits that a prefix of `len` bits fixes; `None` where it is longer than the key.
pub fn prefix_mask(width: u32, len: u32) -> Option<u128> {
    let rest = width.checked_sub(len)?;
    Some(mask(width) & u128::MAX.checked_shl(rest).unwrap_or(0))
}

/// Whether an entry that was last used at `used` is gone; times in nanoseconds, 0 for an entry that stays.
pub fn is_expired(now: u64, used: u64, idle: u64) -> bool {
    used != 0 && now.wrapping_sub(used).cast_signed() > idle.cast_signed()
}

/// The tables of one running program.
pub trait TableStore {
    /// Inserts an entry or replaces the value of the one with the same key (and prefix length).
    fn insert(&mut self, table: TableId, entry: &TableEntry) -> Result<(), TableError>;
    /// Inserts entries in order, up to the first that is refused. Where look-ups go on meanwhile, many entries of an
    /// array take less time than one by one.
    fn insert_all(&mut self, table: TableId, entries: &mut dyn Iterator<Item = &TableEntry>) -> Result<(), TableError> {
        for entry in entries {
            self.insert(table, entry)?;
        }
        Ok(())
    }
    /// Removes an entry; for an array, sets it to zero.
    fn remove(&mut self, table: TableId, key: &[u128], prefix_len: Option<u32>) -> Result<(), TableError>;
    /// The value of exactly this entry; `NotFound` where there is none.
    fn get(&self, table: TableId, key: &[u128], prefix_len: Option<u32>) -> Result<Vec<u128>, TableError>;
    /// Number of entries that `dump` gives.
    fn count(&self, table: TableId) -> usize;
    /// All entries, sorted by key and prefix length; of an array, only those that are not all zero.
    fn dump(&self, table: TableId) -> Vec<TableEntry>;
}
