//! Quiescent-state reclamation: table entries are reused only when no look-up can still hold a pointer to them.
//!
//! Each worker announces, before every batch, that it holds no pointer from before (McKenney and Slingwine, "Read-copy
//! update", 1998). A removed entry gets a stamp; it may be reused once every registered worker has announced a
//! later one. A worker that sleeps says so and is not waited for. With no worker registered everything is free at once.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use super::space::{Block, Space, Use};

/// Workers, and others that read tables, at most.
pub const MAX_READERS: usize = 64;

/// The slot's worker holds no pointer: it sleeps or does not exist.
const OFFLINE: u64 = u64::MAX;

#[repr(align(64))]
#[derive(Debug)]
struct Slot {
    seen: AtomicU64,
    taken: AtomicU64,
}

/// The epochs of all workers.
#[derive(Debug)]
pub struct Epochs {
    /// The clock: 64 bits. Code in the kernel advances it, too.
    clock: Block,
    slots: Box<[Slot]>,
}

impl Epochs {
    /// Their clock lies in this space.
    pub(crate) fn new(space: &Space) -> io::Result<Self> {
        let slot = |_| Slot { seen: AtomicU64::new(OFFLINE), taken: AtomicU64::new(0) };
        let epochs = Epochs {
            clock: space.take(size_of::<AtomicU64>(), Use::Index)?,
            slots: (0..MAX_READERS).map(slot).collect(),
        };
        epochs.now().store(1, Ordering::Relaxed);
        Ok(epochs)
    }

    /// Where the clock lies.
    pub(crate) fn clock(&self) -> *mut u8 {
        self.clock.ptr()
    }

    fn now(&self) -> &AtomicU64 {
        // SAFETY: the block holds it, aligned to a page; it is only accessed atomically.
        unsafe { AtomicU64::from_ptr(self.clock.ptr().cast()) }
    }

    /// Registers a worker; `None` where there are [`MAX_READERS`] already. It starts offline.
    pub fn register(self: &Arc<Self>) -> Option<Registration> {
        let free = |slot: &Slot| slot.taken.compare_exchange(0, 1, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        let slot = self.slots.iter().position(free)?;
        Some(Registration { epochs: self.clone(), slot })
    }

    /// Stamp for something that was just made unreachable for new look-ups.
    pub(crate) fn retire(&self) -> u64 {
        self.now().fetch_add(1, Ordering::SeqCst) + 1
    }

    /// Everything with a stamp at or below the result may be reused.
    pub(crate) fn safe(&self) -> u64 {
        // Pairs with the fence in `online`: either we see the worker online, or it sees what we unlinked.
        fence(Ordering::SeqCst);
        let seen = self.slots.iter().map(|slot| slot.seen.load(Ordering::Acquire));
        seen.min().unwrap_or(OFFLINE)
    }
}

/// A worker's place among the epochs; freed on drop.
#[derive(Debug)]
pub struct Registration {
    epochs: Arc<Epochs>,
    slot: usize,
}

impl Registration {
    /// Announces that the worker holds no pointer into a table from before. To be called before each batch, and it must
    /// be called before the first look-up after [`Registration::offline`]. Whether anything was retired since the last
    /// time: only then what was replaced before may have to be looked at anew.
    pub fn quiescent(&self) -> bool {
        let now = self.epochs.now().load(Ordering::SeqCst);
        let seen = &self.epochs.slots[self.slot].seen;
        let moved = seen.load(Ordering::Relaxed) != now;
        if moved {
            seen.store(now, Ordering::SeqCst);
            fence(Ordering::SeqCst);
        }
        moved
    }

    /// The stamp of what was retired last.
    pub(crate) fn now(&self) -> u64 {
        self.epochs.now().load(Ordering::SeqCst)
    }

    /// Whether something with this stamp waits for this place.
    pub(crate) fn is_behind(&self, stamp: u64) -> bool {
        self.epochs.slots[self.slot].seen.load(Ordering::Relaxed) < stamp
    }

    /// Announces that no reader for which this place stands holds a pointer from before that stamp was there.
    pub(crate) fn announce(&self, stamp: u64) {
        self.epochs.slots[self.slot].seen.store(stamp, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// Announces that the worker holds no pointer and takes none until [`Registration::quiescent`].
    pub fn offline(&self) {
        self.epochs.slots[self.slot].seen.store(OFFLINE, Ordering::Release);
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.offline();
        self.epochs.slots[self.slot].taken.store(0, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_retired_entry_waits_for_every_online_worker() {
        let epochs = Arc::new(Epochs::new(&Space::Private).unwrap());
        let stamp = epochs.retire();
        assert!(stamp <= epochs.safe(), "no worker: at once");
        let (a, b) = (epochs.register().unwrap(), epochs.register().unwrap());
        a.quiescent();
        b.quiescent();
        let stamp = epochs.retire();
        assert!(stamp > epochs.safe());
        a.quiescent();
        assert!(stamp > epochs.safe(), "b may still hold it");
        b.offline();
        assert!(stamp <= epochs.safe());
        b.quiescent();
        let stamp = epochs.retire();
        a.quiescent();
        assert!(stamp > epochs.safe());
        drop(b);
        assert!(stamp <= epochs.safe());
    }

    #[test]
    fn places_are_limited_and_given_back() {
        let epochs = Arc::new(Epochs::new(&Space::Private).unwrap());
        let all: Vec<_> = (0..MAX_READERS).map(|_| epochs.register().unwrap()).collect();
        assert!(epochs.register().is_none());
        drop(all);
        assert!(epochs.register().is_some());
    }
}
