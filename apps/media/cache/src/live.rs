//! What is known of a recording while it is written: the recorder, the writer and readers share it.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::format::index::Chunk;
use crate::info::{End, Segment};

/// A recording in progress, or one that has ended since a reader began.
#[derive(Debug)]
pub struct Live {
    /// The recording.
    pub id: u64,
    /// Blocks that wait for the disk.
    pub under_way: AtomicU32,
    /// Why it ended; 0 before that.
    end: AtomicU8,
    /// Whether its segments are not removed.
    pinned: AtomicBool,
    state: Mutex<Written>,
    changed: Condvar,
}

/// What is written.
#[derive(Debug, Default)]
pub struct Written {
    /// Segments that are whole, and were not removed.
    pub segments: Vec<Segment>,
    /// The segment that is written, by its number, and its chunks.
    pub open: Option<(u32, Vec<Arc<Chunk>>)>,
    /// Why the recording ended, when all of it is written that ever will be.
    pub end: Option<End>,
    /// Counts changes.
    pub changes: u64,
}

impl Written {
    /// A segment that is whole.
    fn segment(&self, number: u32) -> Option<Segment> {
        let at = self.segments.binary_search_by_key(&number, |own| own.number);
        at.ok().map(|at| self.segments[at].clone())
    }

    /// The segment that is written, as soon as there is something of it.
    fn open_segment(&self, id: u64) -> Option<Segment> {
        let (number, chunks) = self.open.as_ref().filter(|(_, chunks)| !chunks.is_empty())?;
        Some(Segment::of_chunks(id, *number, chunks.iter().map(Arc::as_ref)))
    }
}

impl Live {
    /// One that has nothing yet.
    pub fn new(id: u64) -> Live {
        Live {
            id,
            under_way: AtomicU32::new(0),
            end: AtomicU8::new(0),
            pinned: AtomicBool::new(false),
            state: Mutex::new(Written::default()),
            changed: Condvar::new(),
        }
    }

    /// What is written.
    pub fn written(&self) -> MutexGuard<'_, Written> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes what is written, and tells readers.
    pub fn change(&self, change: impl FnOnce(&mut Written)) {
        let mut state = self.written();
        change(&mut state);
        state.changes += 1;
        drop(state);
        self.changed.notify_all();
    }

    /// Waits until there are other changes than so many, or the time is over.
    pub fn wait(&self, seen: u64, longest: Duration) {
        let until = |state: &mut Written| state.changes == seen && state.end.is_none();
        drop(self.changed.wait_timeout_while(self.written(), longest, until));
    }

    /// Why nothing more is recorded.
    pub fn ended(&self) -> Option<End> {
        End::of_code(self.end.load(Ordering::Acquire))
    }

    /// Nothing more is recorded. Only the first reason counts, unless what was finished could not be written.
    pub fn stop(&self, end: End) {
        let first = |before: u8| (before == 0 || before == End::Finished.code()).then_some(end.code());
        let _ = self.end.fetch_update(Ordering::AcqRel, Ordering::Acquire, first);
    }

    /// Its segments are not removed, or may be again.
    pub fn set_pinned(&self, pinned: bool) {
        self.pinned.store(pinned, Ordering::SeqCst);
    }

    /// Whether they are not removed.
    pub fn is_pinned(&self) -> bool {
        self.pinned.load(Ordering::SeqCst)
    }

    /// Segments were removed to make room.
    pub fn remove(&self, numbers: &HashSet<u32>) {
        self.change(|written| written.segments.retain(|own| !numbers.contains(&own.number)));
    }

    /// The segments in order, with the one that is written.
    pub fn all_segments(&self) -> Vec<Segment> {
        let written = self.written();
        written.segments.iter().cloned().chain(written.open_segment(self.id)).collect()
    }

    /// A segment that is whole.
    pub fn segment(&self, number: u32) -> Option<Segment> {
        self.written().segment(number)
    }

    /// The same, or the one that is written.
    pub fn any_segment(&self, number: u32) -> Option<Segment> {
        let written = self.written();
        let open = || written.open_segment(self.id).filter(|own| own.number == number);
        written.segment(number).or_else(open)
    }

    /// Bytes of the segment that is written.
    pub fn open_bytes(&self) -> u64 {
        let state = self.written();
        let last = state.open.as_ref().and_then(|(_, chunks)| chunks.last());
        last.map_or(0, |chunk| chunk.offset + u64::from(chunk.length))
    }
}
