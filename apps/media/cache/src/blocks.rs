//! Memory that is written from: a fixed number of aligned blocks, each of one owner at a time.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Offsets, lengths and addresses of direct writes are multiples of this.
pub const ALIGNMENT: usize = 4096;

/// A block; goes back to its pool when it is dropped.
pub struct Block {
    memory: Option<Memory>,
    pool: Arc<Shared>,
    /// It is filled, and waits for the disk.
    is_full: bool,
}

/// Memory with the number that the kernel knows it by.
struct Memory {
    bytes: Box<[u8]>,
    /// Where the aligned part begins.
    begin: usize,
    number: u16,
}

/// All blocks that nobody has.
#[derive(Clone)]
pub struct Pool(Arc<Shared>);

struct Shared {
    free: Mutex<Vec<Memory>>,
    count: usize,
    size: usize,
    /// Blocks that wait for the disk.
    full: AtomicUsize,
}

/// Where a block lies, for the kernel.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// Its address.
    pub address: usize,
    /// Its length.
    pub length: usize,
}

fn locked(free: &Mutex<Vec<Memory>>) -> MutexGuard<'_, Vec<Memory>> {
    free.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Pool {
    /// So many blocks of a size, and where each lies, by number.
    pub fn new(count: usize, size: usize) -> (Pool, Vec<Place>) {
        let memory = |number| {
            let bytes = vec![0; size + ALIGNMENT].into_boxed_slice();
            let begin = bytes.as_ptr().align_offset(ALIGNMENT);
            Memory { bytes, begin, number: number as u16 }
        };
        let all: Vec<Memory> = (0..count).map(memory).collect();
        let place = |own: &Memory| Place { address: own.bytes[own.begin..].as_ptr() as usize, length: size };
        let places = all.iter().map(place).collect();
        (Pool(Arc::new(Shared { free: Mutex::new(all), count, size, full: AtomicUsize::new(0) })), places)
    }

    /// A block, if there is one.
    pub fn take(&self) -> Option<Block> {
        let memory = locked(&self.0.free).pop()?;
        Some(Block { memory: Some(memory), pool: self.0.clone(), is_full: false })
    }

    /// Whether most of them wait for the disk.
    pub fn is_behind(&self) -> bool {
        self.0.full.load(Ordering::Relaxed) * 2 >= self.0.count
    }

    /// How many nobody has.
    pub fn free(&self) -> usize {
        locked(&self.0.free).len()
    }

    /// Bytes of all of them.
    pub fn bytes(&self) -> usize {
        self.0.count * self.0.size
    }

    /// Bytes of those that somebody has.
    pub fn used(&self) -> usize {
        (self.0.count - self.free()) * self.0.size
    }
}

impl Block {
    /// The number that its memory is registered by.
    pub fn number(&self) -> u16 {
        self.memory.as_ref().map_or(0, |memory| memory.number)
    }

    /// It is filled: the disk is to have it.
    pub fn fill(&mut self) {
        if !std::mem::replace(&mut self.is_full, true) {
            self.pool.full.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// All of its bytes.
    pub fn bytes(&self) -> &[u8] {
        self.memory.as_ref().map_or(&[], |memory| &memory.bytes[memory.begin..memory.begin + self.pool.size])
    }

    /// All of its bytes, to be written.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let size = self.pool.size;
        self.memory.as_mut().map_or(&mut [], |memory| &mut memory.bytes[memory.begin..memory.begin + size])
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        if self.is_full {
            self.pool.full.fetch_sub(1, Ordering::Relaxed);
        }
        locked(&self.pool.free).extend(self.memory.take());
    }
}

impl fmt::Debug for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Block").field("number", &self.number()).finish_non_exhaustive()
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("free", &self.free()).finish_non_exhaustive()
    }
}
