//! The ring by which copies leave the kernel while their packets stay there: a BPF ring buffer
//! (Documentation/bpf/ringbuf.rst), with one reader.
//!
//! ```text
//! page 0: how far the reader is │ page 1: how far the kernel is │ records │ the same records once more
//!         written here          │         read only             │         │ so that none goes around the end
//! ```
//!
//! Programs on several CPUs write at the same time. The reader stops at a record that is not written yet, so records
//! come out in the order in which they were begun.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use codegen::kernel::Hook;

use super::sys;
use crate::sys::{Mapping, page_size};

/// Bytes: 28 ms of a stream of 1 Gbit/s in packets of 1328 bytes.
const BYTES: u32 = 4 << 20;
/// At traffic control, where packets that are handed over come by it, too: 250 super-packets, as some senders have
/// under way.
const AT_TC: u32 = 16 << 20;
/// Bytes in front of a record: its length and flags, and where it lies.
const HEADER: usize = 8;
/// Flags in a record's length: it is not written yet; it is to be passed over (`BPF_RINGBUF_BUSY_BIT`, `_DISCARD_BIT`).
const BUSY: u32 = 1 << 31;
const DISCARDED: u32 = 1 << 30;

/// What a reader does with a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// It has taken it, and wants more.
    More,
    /// It has taken it, and wants no more now.
    Enough,
    /// It has not done with it, and comes back.
    Stays,
}

/// A ring, and its reader's side.
#[derive(Debug)]
pub struct TapRing {
    map: OwnedFd,
    consumer: Mapping,
    /// The producer's page, and the records behind it.
    records: Mapping,
    /// Bytes of a page.
    page: usize,
    /// Bytes of the records.
    bytes: usize,
}

impl TapRing {
    /// An empty one.
    pub fn new(named: &str) -> io::Result<Self> {
        Self::with_bytes(BYTES, named)
    }

    /// An empty one for programs at a hook.
    pub fn at(hook: Hook, named: &str) -> io::Result<Self> {
        Self::with_bytes(if hook == Hook::Tc { AT_TC } else { BYTES }, named)
    }

    /// An empty one of so many bytes, a power of two and at least a page.
    pub fn with_bytes(bytes: u32, named: &str) -> io::Result<Self> {
        let (map, page, bytes) = (sys::ring_create(bytes, named)?, page_size(), bytes as usize);
        let consumer = Mapping::of_fd(map.as_raw_fd(), page)?;
        let records = Mapping::read_only_of_fd_at(map.as_raw_fd(), page + 2 * bytes, page as i64)?;
        Ok(TapRing { map, consumer, records, page, bytes })
    }

    /// An array of so many rings, none of which is there yet.
    pub(super) fn array(entries: u32, named: &str) -> io::Result<OwnedFd> {
        let like = sys::ring_create(page_size() as u32, named)?;
        sys::array_of_maps(&like, entries, named)
    }

    pub(super) fn map(&self) -> &OwnedFd {
        &self.map
    }

    /// Readable while there is a record, for who begins to wait then; who waits already is woken when the kernel's
    /// program says so.
    pub fn fd(&self) -> RawFd {
        self.map.as_raw_fd()
    }

    /// How far the kernel is: bytes since the beginning.
    pub fn written(&self) -> u64 {
        // SAFETY: the page begins with this number, which the kernel writes at once.
        unsafe { AtomicU64::from_ptr(self.records.ptr().cast()) }.load(Ordering::Acquire)
    }

    /// How far its reader is.
    pub fn read(&self) -> u64 {
        self.consumer().load(Ordering::Relaxed)
    }

    /// Whether there is nothing to read.
    pub fn is_empty(&self) -> bool {
        self.read() == self.written()
    }

    /// Bytes that wait to be read.
    pub fn waiting(&self) -> u64 {
        self.written().saturating_sub(self.read())
    }

    /// Bytes that can wait.
    pub fn size(&self) -> u64 {
        self.bytes as u64
    }

    fn consumer(&self) -> &AtomicU64 {
        // SAFETY: the page begins with this number, and is the reader's.
        unsafe { AtomicU64::from_ptr(self.consumer.ptr().cast()) }
    }

    /// Gives records in order to `take`, as long as it wants more, and makes room for others. One thread at a time.
    pub fn take(&self, mut take: impl FnMut(&[u8]) -> bool) {
        self.take_each(|record| if take(record) { Taken::More } else { Taken::Enough });
    }

    /// As [`TapRing::take`], with what may stay where it is.
    pub fn take_each(&self, mut take: impl FnMut(&[u8]) -> Taken) {
        let (mut at, end) = (self.read(), self.written());
        let mut taken = Taken::More;
        while taken == Taken::More && at < end {
            let place = self.page + at as usize % self.bytes;
            // SAFETY: a record begins there, with its length, in the mapping.
            let len = unsafe { AtomicU32::from_ptr(self.records.ptr().add(place).cast()) }.load(Ordering::Acquire);
            if len & BUSY != 0 {
                break;
            }
            let bytes = (len & !DISCARDED) as usize;
            if len & DISCARDED == 0 {
                // SAFETY: the record lies there, in one piece, for what goes around the end is mapped behind it; nobody
                // writes it before it is given back.
                taken = take(unsafe { std::slice::from_raw_parts(self.records.ptr().add(place + HEADER), bytes) });
            }
            if taken == Taken::Stays {
                break;
            }
            at += (HEADER + bytes).next_multiple_of(HEADER) as u64;
            self.consumer().store(at, Ordering::Release);
        }
    }
}
