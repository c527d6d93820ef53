//! The thread that keeps the catalogue, and room on the disk.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, RwLockReadGuard};
use std::time::{Duration, Instant};

use crate::catalogue::{Catalogue, Changes, Error, Order};
use crate::info::{End, Recording, Segment};
use crate::inner::{Inner, now};
use crate::recovery;

/// How often age and free space are looked at, and use is noted.
const PERIOD: Duration = Duration::from_secs(1);
/// A catalogue that can't be written is tried again so much later.
const AGAIN: Duration = Duration::from_secs(5);
/// So many segments are removed in one transaction.
const AT_ONCE: usize = 64;

/// Something that the catalogue is to know.
#[derive(Clone, Debug)]
pub enum Event {
    /// A recording begins.
    Began(Arc<Recording>),
    /// A segment is whole.
    Closed(Segment),
    /// A recording has ended.
    Ended(u64, End),
    /// A segment is read.
    Used(u64, u32),
    /// The cache is closed.
    Stop,
}

/// What the thread has to do.
pub struct Keeper {
    inner: Arc<Inner>,
    events: Receiver<Event>,
    /// What is not in the catalogue yet.
    pending: Vec<(Event, u64)>,
    /// Uses, each once.
    used: HashMap<(u64, u32), u64>,
    failed: Option<Instant>,
}

impl Keeper {
    /// A keeper that takes these events.
    pub fn new(inner: Arc<Inner>, events: Receiver<Event>) -> Keeper {
        Keeper { inner, events, pending: Vec::new(), used: HashMap::new(), failed: None }
    }

    /// Keeps until it is told to stop.
    pub fn run(mut self) {
        let mut last = Instant::now();
        loop {
            let first = match self.events.recv_timeout(PERIOD) {
                Err(RecvTimeoutError::Disconnected) => return,
                first => first.ok(),
            };
            let stops = self.take(first);
            let is_time = last.elapsed() >= PERIOD;
            self.store(is_time || stops);
            if is_time || stops || !self.pending.is_empty() {
                last = Instant::now();
            }
            self.make_room();
            if stops {
                return;
            }
        }
    }

    /// Takes all events that are there; whether the cache is closed.
    fn take(&mut self, first: Option<Event>) -> bool {
        let mut stops = false;
        let now = now();
        for event in first.into_iter().chain(self.events.try_iter()) {
            match event {
                Event::Stop => stops = true,
                Event::Used(id, number) => drop(self.used.insert((id, number), now)),
                event => self.pending.push((event, now)),
            }
        }
        stops
    }

    /// Brings the catalogue up to date.
    fn store(&mut self, with_uses: bool) {
        let has_uses = with_uses && !self.used.is_empty();
        if self.pending.is_empty() && !has_uses || self.failed.is_some_and(|at| at.elapsed() < AGAIN) {
            return;
        }
        let (pending, used) = (&self.pending, &self.used);
        let stored = self.inner.changing(|changes| {
            for (event, now) in pending {
                note(changes, event, *now)?;
            }
            if has_uses {
                for ((id, number), now) in used {
                    changes.touch(*id, *number, *now)?;
                }
            }
            Ok(())
        });
        match stored {
            Ok(()) => {
                for (event, _) in self.pending.drain(..) {
                    let Event::Ended(id, end) = event else { continue };
                    self.inner.forget(id);
                    if end == End::Finished {
                        // Where nothing came there is nothing to see. What can't be removed is found again.
                        let _ = self.inner.remove_if_empty(id);
                    }
                }
                if has_uses {
                    self.used.clear();
                }
                self.failed = None;
            }
            Err(error) => {
                if self.failed.replace(Instant::now()).is_none() {
                    tracing::error!(%error, "the cache's catalogue can't be written; it is tried again");
                }
                let _files = self.inner.files();
                self.inner.open_catalogue_again();
            }
        }
    }

    /// Removes what is too old, or too much.
    fn make_room(&self) {
        if let Err(error) = self.try_to_make_room() {
            tracing::warn!(%error, "the cache can't make room");
        }
    }

    fn try_to_make_room(&self) -> Result<(), Error> {
        let settings = &self.inner.settings;
        if let Some(age) = settings.age_seconds {
            let least = now().saturating_sub(age * 1_000_000);
            while self.remove_some(Order::Age, |time, _| time < least)? > 0 {}
        }
        loop {
            let used = self.inner.used();
            let free = self.inner.free_space().unwrap_or(u64::MAX);
            let missing = used.saturating_sub(settings.quota).max(settings.free_space.saturating_sub(free));
            if missing == 0 {
                return Ok(());
            }
            if self.remove_some(Order::Use, |_, before| before < missing)? == 0 {
                self.inner.stop_all(End::CacheFull);
                return Ok(());
            }
        }
    }

    /// Removes the first segments in an order, as long as they are wanted: by their time, and by how many bytes are
    /// removed already. How many these are; none where there are no more.
    fn remove_some(&self, order: Order, mut wanted: impl FnMut(u64, u64) -> bool) -> Result<usize, Error> {
        let _files = self.inner.files();
        let mut victims: Vec<(u64, u32)> = Vec::new();
        let mut bytes = 0;
        {
            let catalogue = self.catalogue();
            let Some(catalogue) = catalogue.as_ref() else { return Ok(0) };
            let mut sizes = Ok(());
            catalogue.oldest(order, |time, id, number| {
                if !wanted(time, bytes) || victims.len() == AT_ONCE {
                    return false;
                }
                if self.inner.begin_removal(id, number) {
                    match catalogue.segment(id, number) {
                        Ok(segment) => bytes += segment.map_or(0, |own| own.size()),
                        Err(error) => sizes = Err(error),
                    }
                    victims.push((id, number));
                }
                true
            })?;
            sizes?;
        }
        // First the files: what is left in the catalogue by a crash in between is removed once more.
        let gone = |(id, number): &&(u64, u32)| remove_files(&self.inner, *id, *number);
        let gone: Vec<(u64, u32)> = victims.iter().filter(gone).copied().collect();
        let result = self.inner.changing(|changes| {
            for (id, number) in &gone {
                changes.remove_segment(*id, *number)?;
            }
            Ok(())
        });
        victims.iter().for_each(|(id, number)| self.inner.end_removal(*id, *number));
        result?;
        self.inner.count_removed(gone.len() as u64);
        let mut by_recording: HashMap<u64, HashSet<u32>> = HashMap::new();
        gone.iter().for_each(|(id, number)| _ = by_recording.entry(*id).or_default().insert(*number));
        for (id, numbers) in by_recording {
            match self.inner.live(id) {
                Some((live, _)) => live.remove(&numbers),
                None => self.inner.remove_if_empty(id)?,
            }
        }
        Ok(gone.len())
    }

    fn catalogue(&self) -> RwLockReadGuard<'_, Option<Catalogue>> {
        self.inner.catalogue()
    }
}

fn note(changes: &mut Changes<'_>, event: &Event, now: u64) -> Result<(), Error> {
    match event {
        Event::Began(recording) => {
            // It may have been pinned already.
            let pinned = changes.recording(recording.id)?.is_some_and(|own| own.pinned);
            changes.put_recording(&Recording { pinned, ..recording.as_ref().clone() })
        }
        Event::Closed(segment) => changes.put_segment(segment, now),
        Event::Ended(id, end) => changes.end(*id, *end),
        Event::Used(..) | Event::Stop => Ok(()),
    }
}

/// Removes a segment's files; whether they are gone.
fn remove_files(inner: &Inner, id: u64, number: u32) -> bool {
    let layout = &inner.layout;
    let kinds = [crate::info::Kind::Ts, crate::info::Kind::Rtp].map(|kind| layout.segment(id, number, kind));
    let paths = kinds.into_iter().chain([layout.index(id, number)]);
    let mut removed = true;
    for path in paths {
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(path = %path.display(), %error, "a segment can't be removed");
                removed = false;
            }
            _ => {}
        }
    }
    removed
}

/// Makes a catalogue of what the segments say.
pub(crate) fn rebuild(inner: &Inner, catalogue: &Catalogue) -> Result<recovery::Report, Error> {
    recovery::all(&inner.layout, catalogue, true, &inner.in_progress())
}
