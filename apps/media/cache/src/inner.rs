//! What the cache's threads and its users share.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::catalogue::{Catalogue, Changes, Error};
use crate::info::{End, Recording};
use crate::keeper::{Event, rebuild};
use crate::layout::Layout;
use crate::live::Live;
use crate::loaded::Loaded;
use crate::settings::Settings;

/// How much a file system has free, in bytes.
pub type Space = Box<dyn Fn(&Path) -> io::Result<u64> + Send + Sync>;

/// A recording in progress.
type InProgress = (Arc<Live>, Arc<Recording>);

/// The wall clock, in microseconds since 1970.
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as u64)
}

/// A cache without its threads.
pub struct Inner {
    /// Where things are.
    pub layout: Layout,
    /// Its settings.
    pub settings: Arc<Settings>,
    /// Blocks that readers share.
    pub loaded: Loaded,
    /// Who reads does not wait for those who write.
    catalogue: RwLock<Option<Catalogue>>,
    live: Mutex<HashMap<u64, InProgress>>,
    uses: Mutex<HashMap<(u64, u32), Use>>,
    files: Mutex<()>,
    events: Mutex<Sender<Event>>,
    space: Space,
    /// The number of the last recording.
    last: AtomicU64,
    removed: AtomicU64,
}

/// Who has a segment.
#[derive(Clone, Copy, Default)]
struct Use {
    readers: u32,
    is_removed: bool,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What is free for us.
pub fn free_space(path: &Path) -> io::Result<u64> {
    let own = nix::sys::statvfs::statvfs(path)?;
    Ok(own.blocks_available().saturating_mul(own.fragment_size()))
}

impl Inner {
    /// One with this catalogue.
    pub fn new(
        layout: Layout,
        settings: Arc<Settings>,
        catalogue: Catalogue,
        events: Sender<Event>,
        space: Space,
    ) -> Inner {
        Inner {
            layout,
            settings,
            loaded: Loaded::default(),
            catalogue: RwLock::new(Some(catalogue)),
            live: Mutex::default(),
            uses: Mutex::default(),
            files: Mutex::default(),
            events: Mutex::new(events),
            space,
            last: AtomicU64::new(0),
            removed: AtomicU64::new(0),
        }
    }

    /// The catalogue; none while it can't be opened.
    pub fn catalogue(&self) -> RwLockReadGuard<'_, Option<Catalogue>> {
        self.catalogue.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the catalogue.
    pub fn changing(&self, make: impl FnOnce(&mut Changes<'_>) -> Result<(), Error>) -> Result<(), Error> {
        self.reading(|catalogue| catalogue.change(make).map(drop))
    }

    /// Asks the catalogue.
    pub fn reading<T>(&self, ask: impl FnOnce(&Catalogue) -> Result<T, Error>) -> Result<T, Error> {
        match self.catalogue().as_ref() {
            Some(catalogue) => ask(catalogue),
            None => Err(Error::closed()),
        }
    }

    /// After an error a database does nothing until it is opened again. One that can't be is made anew.
    pub fn open_catalogue_again(&self) {
        let mut own = self.catalogue.write().unwrap_or_else(PoisonError::into_inner);
        drop(own.take());
        let path = self.layout.catalogue();
        *own = Catalogue::open(&path).ok().or_else(|| {
            fs::remove_file(&path).ok()?;
            let catalogue = Catalogue::open(&path).ok()?;
            rebuild(self, &catalogue).ok()?;
            // Their segments so far are found when the cache is opened again.
            self.all_live().into_iter().for_each(|recording| self.tell(Event::Began(recording)));
            Some(catalogue)
        });
    }

    /// A number for a recording that begins now. Numbers grow, also when the wall clock is set back.
    pub fn next_id(&self, now: u64) -> u64 {
        let next = |last: u64| Some(now.max(last + 1));
        self.last.fetch_update(Ordering::AcqRel, Ordering::Acquire, next).map_or(now, |last| now.max(last + 1))
    }

    /// Numbers go on behind this one.
    pub fn follow(&self, id: u64) {
        self.last.fetch_max(id, Ordering::AcqRel);
    }

    /// A recording begins.
    pub fn begin(&self, live: Arc<Live>, recording: Arc<Recording>) {
        locked(&self.live).insert(recording.id, (live, recording.clone()));
        self.tell(Event::Began(recording));
    }

    /// A recording is written, and in the catalogue.
    pub fn forget(&self, id: u64) {
        locked(&self.live).remove(&id);
    }

    /// A recording in progress.
    pub fn live(&self, id: u64) -> Option<(Arc<Live>, Arc<Recording>)> {
        locked(&self.live).get(&id).cloned()
    }

    /// All that are in progress, with what is written of them.
    pub fn all_in_progress(&self) -> Vec<(Arc<Live>, Arc<Recording>)> {
        locked(&self.live).values().cloned().collect()
    }

    /// All that are in progress.
    pub fn all_live(&self) -> Vec<Arc<Recording>> {
        locked(&self.live).values().map(|(_, recording)| recording.clone()).collect()
    }

    /// Their numbers.
    pub fn in_progress(&self) -> HashSet<u64> {
        locked(&self.live).keys().copied().collect()
    }

    /// No recording goes on.
    pub fn stop_all(&self, end: End) {
        locked(&self.live).values().filter(|(live, _)| live.ended().is_none()).for_each(|(live, _)| live.stop(end));
    }

    /// Tells the keeper.
    pub fn tell(&self, event: Event) {
        // It is gone only when the cache is closed.
        let _ = locked(&self.events).send(event);
    }

    /// A reader begins with a segment; whether it is there.
    pub fn begin_use(&self, id: u64, number: u32) -> bool {
        let mut uses = locked(&self.uses);
        let own = uses.entry((id, number)).or_default();
        if own.is_removed {
            return false;
        }
        own.readers += 1;
        true
    }

    /// A reader is done with a segment.
    pub fn end_use(&self, id: u64, number: u32) {
        let mut uses = locked(&self.uses);
        if let Some(own) = uses.get_mut(&(id, number)) {
            own.readers = own.readers.saturating_sub(1);
            if own.readers == 0 && !own.is_removed {
                uses.remove(&(id, number));
            }
        }
    }

    /// Held while files and what the catalogue has of them are removed, or compared: in between they differ.
    pub fn files(&self) -> MutexGuard<'_, ()> {
        locked(&self.files)
    }

    /// A segment is to be removed; not if somebody reads it.
    pub fn begin_removal(&self, id: u64, number: u32) -> bool {
        let mut uses = locked(&self.uses);
        if uses.contains_key(&(id, number)) {
            return false;
        }
        uses.insert((id, number), Use { readers: 0, is_removed: true });
        true
    }

    /// It is removed.
    pub fn end_removal(&self, id: u64, number: u32) {
        locked(&self.uses).remove(&(id, number));
    }

    /// A recording without segments goes, unless it is written.
    pub fn remove_if_empty(&self, id: u64) -> Result<(), Error> {
        if self.live(id).is_some() {
            return Ok(());
        }
        let mut is_empty = false;
        self.changing(|changes| {
            is_empty = !changes.has_segments(id)?;
            if is_empty { changes.remove_recording(id) } else { Ok(()) }
        })?;
        if is_empty {
            // What is left over is found when the cache is opened again.
            let _ = fs::remove_dir_all(self.layout.recording(id));
        }
        Ok(())
    }

    /// Bytes on the disk.
    pub fn used(&self) -> u64 {
        let whole = self.reading(Catalogue::totals).map_or(0, |(bytes, _)| bytes);
        whole + locked(&self.live).values().map(|(live, _)| live.open_bytes()).sum::<u64>()
    }

    /// Bytes that are free on the file system.
    pub fn free_space(&self) -> io::Result<u64> {
        (self.space)(&self.layout.root)
    }

    /// So many segments were removed.
    pub fn count_removed(&self, count: u64) {
        self.removed.fetch_add(count, Ordering::Relaxed);
    }

    /// How many segments were removed to make room.
    pub fn removed(&self) -> u64 {
        self.removed.load(Ordering::Relaxed)
    }
}
