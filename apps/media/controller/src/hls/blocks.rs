//! Pieces of segments in memory: who watches a live stream reads what others have just read.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use hyper::body::Bytes;
use media_cache::SegmentFile;

use super::counts::{Counts, add};

/// Bytes of a piece.
pub const BLOCK: u64 = 128 << 10;
/// Pieces that are kept.
const MOST: usize = 256;

/// Recording, segment, and the number of the piece in that.
type Key = (u64, u32, u64);

/// See the module. The pieces that were read first go first.
#[derive(Debug, Default)]
pub struct Blocks(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    all: HashMap<Key, Bytes>,
    order: VecDeque<Key>,
}

impl Blocks {
    fn key(file: &SegmentFile, number: u64) -> Key {
        (file.about().recording, file.about().number, number)
    }

    /// A piece that somebody has read.
    pub fn find(&self, file: &SegmentFile, number: u64, counts: &Counts) -> Option<Bytes> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = kept.all.get(&Blocks::key(file, number)).cloned();
        add(&counts.shared, u64::from(found.is_some()));
        found
    }

    /// Reads a piece. This may wait for the disk.
    pub fn read(&self, file: &Arc<SegmentFile>, number: u64, counts: &Counts) -> std::io::Result<Bytes> {
        let begin = number * BLOCK;
        let length = file.about().bytes.saturating_sub(begin).min(BLOCK);
        let mut bytes = vec![0; length as usize];
        file.read_at(begin, &mut bytes)?;
        add(&counts.reads, 1);
        let (bytes, key) = (Bytes::from(bytes), Blocks::key(file, number));
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.all.insert(key, bytes.clone()).is_none() {
            kept.order.push_back(key);
        }
        while kept.order.len() > MOST {
            let first = kept.order.pop_front();
            first.into_iter().for_each(|first| _ = kept.all.remove(&first));
        }
        Ok(bytes)
    }
}
