//! Entries as they outlast a process: of a table whose entries age, with one number more, whether this one does.
//!
//! Those of the control plane stay until they are removed; those of packets go where they are not used. When they are
//! put back their time begins anew.

use baker::ir::{TableEntry, TableError};
use codegen::abi::unpack_key;

use super::table::{Kind, Table};
use crate::sys::monotonic_ns;

impl Table {
    /// As [`Table::dump`], to be kept.
    pub fn dump_kept(&self) -> Vec<TableEntry> {
        match self {
            Table { kind, key, value, idle: Some(idle), .. } if let Kind::Hash(hash) = &**kind => {
                let kept = |(packed, bytes): (Vec<u64>, Vec<u8>)| {
                    let mut numbers = value.decode(&bytes);
                    numbers.push(u128::from(bytes[idle.offset..idle.offset + 8] != [0; 8]));
                    TableEntry { key: unpack_key(key, &packed), prefix_len: None, value: numbers }
                };
                hash.dump().into_iter().map(kept).collect()
            }
            _ => self.dump(),
        }
    }

    /// Inserts an entry that was kept.
    pub fn insert_kept(&self, entry: &TableEntry) -> Result<(), TableError> {
        let Table { kind, key_codec, value, idle: Some(idle), .. } = self else {
            return self.put(&entry.key, entry.prefix_len, &entry.value);
        };
        let (Kind::Hash(hash), Some((ages, numbers))) = (&**kind, entry.value.split_last()) else {
            return Err(TableError::OutOfRange);
        };
        let mut bytes = value.encode(numbers).ok_or(TableError::OutOfRange)?;
        if *ages != 0 {
            bytes[idle.offset..idle.offset + 8].copy_from_slice(&monotonic_ns().to_ne_bytes());
        }
        let key = key_codec.pack(&entry.key).ok_or(TableError::OutOfRange)?;
        hash.set(&key, &bytes).then_some(()).ok_or(TableError::Full)
    }
}
