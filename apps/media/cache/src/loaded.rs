//! Blocks and indexes as they are read, shared by all readers that are at the same place.

use std::collections::HashMap;
use std::fs::File;
use std::hash::Hash;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::format::entry::Entry;
use crate::format::index::Chunk;

/// From so many entries on those that nobody has are looked for.
const MANY: usize = 256;

/// A block as it was recorded.
#[derive(Debug)]
pub struct Part {
    /// Its packets,
    pub entries: Vec<Entry>,
    /// where each begins in `data`,
    pub places: Vec<u32>,
    /// and their bytes.
    pub data: Vec<u8>,
}

/// By recording, segment and offset.
type Blocks = HashMap<(u64, u32, u64), Weak<Part>>;
/// By recording and segment.
type Indexes = HashMap<(u64, u32), Weak<Vec<Arc<Chunk>>>>;

/// What somebody has.
#[derive(Debug, Default)]
pub struct Loaded {
    parts: Mutex<Blocks>,
    indexes: Mutex<Indexes>,
}

/// What is there, or what is made now. Two that make the same at once both have one of their own.
fn shared<K: Hash + Eq, T, E>(
    all: &Mutex<HashMap<K, Weak<T>>>,
    key: K,
    make: impl FnOnce() -> Result<T, E>,
) -> Result<Arc<T>, E> {
    let locked = || all.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(own) = locked().get(&key).and_then(Weak::upgrade) {
        return Ok(own);
    }
    let made = Arc::new(make()?);
    let mut all = locked();
    if all.len() >= MANY {
        all.retain(|_, own| own.strong_count() > 0);
    }
    all.insert(key, Arc::downgrade(&made));
    Ok(made)
}

impl Loaded {
    /// The packets of a chunk, each behind so many bytes; an error where they are not as they were written.
    pub fn part(&self, key: (u64, u32), chunk: &Chunk, overhead: u32, file: &File) -> io::Result<Arc<Part>> {
        shared(&self.parts, (key.0, key.1, chunk.offset), || {
            let mut data = vec![0; chunk.length as usize];
            file.read_exact_at(&mut data, chunk.offset)?;
            if crc32fast::hash(&data) != chunk.checksum {
                return Err(io::ErrorKind::InvalidData.into());
            }
            let entries = chunk.packets(overhead).ok_or(io::ErrorKind::InvalidData)?;
            let mut at = 0;
            let places = entries.iter().map(|own| {
                let place = at + overhead;
                at = place + own.length;
                place
            });
            Ok(Part { places: places.collect(), entries, data })
        })
    }

    /// The index of a segment that is whole.
    pub fn index(
        &self,
        key: (u64, u32),
        read: impl FnOnce() -> io::Result<Vec<Arc<Chunk>>>,
    ) -> io::Result<Arc<Vec<Arc<Chunk>>>> {
        shared(&self.indexes, key, read)
    }
}
