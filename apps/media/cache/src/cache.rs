//! A cache, as its users see it.

use std::fs::{self, DirBuilder, File, TryLockError};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use crate::blocks::{Place, Pool};
use crate::catalogue::Catalogue;
use crate::core::Core;
use crate::info::{Recording, Segment, Source, Summary};
use crate::inner::{self, Inner, Space};
use crate::keeper::Keeper;
use crate::layout::{Layout, PINNED, SDP};
use crate::live::Live;
use crate::reader::Reader;
use crate::recorder::Recorder;
use crate::recovery::{self, Report};
use crate::settings::Settings;
use crate::sys::{self, System};
use crate::writer::{Counts, Queue, Writer};

/// Why a cache can't be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Another process has the directory.
    #[error("{0}: another instance has it: give each a directory of its own")]
    Taken(PathBuf),
    /// A setting is wrong.
    #[error("{0}")]
    Settings(String),
    /// The system refuses something.
    #[error("{0}: {1}")]
    System(PathBuf, io::Error),
    /// The catalogue can't be read, or written.
    #[error("the catalogue: {0}")]
    Catalogue(#[from] crate::catalogue::Error),
    /// There is no such recording.
    #[error("there is no recording {0:016x}")]
    Unknown(u64),
    /// The recording is being written.
    #[error("recording {0:016x} is being written")]
    InProgress(u64),
}

/// How a cache does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// How blocks are written: `io_uring` or `pwrite`.
    pub system: String,
    /// Whether they are written past the page cache.
    pub direct: bool,
    /// Writes so far.
    pub writes: u64,
    /// Bytes written so far, with what blocks are filled up with.
    pub bytes: u64,
    /// How often recorders have woken the writer.
    pub wake_ups: u64,
    /// Blocks that nobody has.
    pub free_blocks: usize,
    /// Bytes of memory that wait to be written, or are written,
    pub memory: u64,
    /// and that there are for that.
    pub memory_limit: u64,
    /// Bytes on the disk,
    pub used: u64,
    /// and how many there may be.
    pub limit: u64,
    /// Segments removed to make room.
    pub removed: u64,
    /// Recordings in progress.
    pub recordings: usize,
}

/// How long a directory is another process's until that is an error.
const TAKEN: Duration = Duration::from_millis(200);

/// Makes what writes, given where the blocks lie.
pub type MakeSystem = Box<dyn FnOnce(&[Place]) -> Box<dyn System>>;

/// What a cache does with the system, other than by default; for tests.
pub struct Means {
    /// What writes.
    pub system: MakeSystem,
    /// How much is free.
    pub space: Space,
}

/// A cache.
#[derive(Clone, Debug)]
pub struct Cache {
    pub(crate) core: Arc<Core>,
    opened: Arc<Report>,
}

impl Cache {
    /// Opens the cache of a directory, or makes one. What a crash has left is mended.
    ///
    /// # Errors
    ///
    /// Another process has it; the settings are wrong; the directory can't be used.
    pub fn open(root: &Path, settings: Settings) -> Result<Cache, Error> {
        let io_uring = settings.io_uring;
        let system = Box::new(move |places: &[Place]| sys::best(places, io_uring));
        Cache::open_with(root, settings, Means { system, space: Box::new(inner::free_space) })
    }

    /// Whether a directory is that of a cache.
    pub fn is_in(root: &Path) -> bool {
        Layout { root: root.to_owned() }.is_there()
    }

    /// Opens it with other means.
    ///
    /// # Errors
    ///
    /// As above.
    pub fn open_with(root: &Path, settings: Settings, means: Means) -> Result<Cache, Error> {
        settings.check().map_err(Error::Settings)?;
        let wrong = |error| Error::System(root.to_owned(), error);
        let layout = Layout { root: root.to_owned() };
        DirBuilder::new().recursive(true).mode(0o750).create(layout.recordings()).map_err(wrong)?;
        let lock = File::open(root).map_err(wrong)?;
        // A program that is just being started has copies of the descriptors of who starts it, for a moment.
        let begun = Instant::now();
        loop {
            match lock.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) if begun.elapsed() > TAKEN => return Err(Error::Taken(root.to_owned())),
                Err(TryLockError::WouldBlock) => thread::sleep(TAKEN / 20),
                Err(TryLockError::Error(error)) => return Err(wrong(error)),
            }
        }
        let (catalogue, report) = recovery::open(&layout)?;
        if !report.is_clean() {
            let (mended, lost) = (report.mended.len(), report.lost.len());
            tracing::warn!(path = %root.display(), mended, lost, bytes = report.lost_bytes, "the cache was mended");
        }
        let settings = Arc::new(settings);
        let (sender, events) = channel();
        let last = layout.all().map_err(wrong)?.last().copied().unwrap_or(0);
        let inner = Arc::new(Inner::new(layout.clone(), settings.clone(), catalogue, sender.clone(), means.space));
        inner.follow(last);
        let (pool, places) = Pool::new(settings.buffers, settings.block);
        let counts = Arc::new(Counts::default());
        let queue = Queue::new(pool, counts.clone()).map_err(wrong)?;
        let system = (means.system)(&places);
        let name = system.name();
        let writer = Writer::new(system, settings, layout, sender, queue.clone());
        let keeper = Keeper::new(inner.clone(), events);
        let spawn = |name: &str| thread::Builder::new().name(name.to_owned());
        let core = Core {
            inner,
            queue,
            counts,
            system: name,
            recordings: AtomicU64::new(0),
            writer: Some(spawn("cache-writer").spawn(|| writer.run()).map_err(wrong)?),
            keeper: Some(spawn("cache-keeper").spawn(|| keeper.run()).map_err(wrong)?),
            _lock: lock,
        };
        Ok(Cache { core: Arc::new(core), opened: Arc::new(report) })
    }

    /// What was found when it was opened.
    pub fn opened(&self) -> &Report {
        &self.opened
    }

    /// Begins a recording. This waits for nothing: where it can't be written, the recorder's packets say so.
    pub fn record(&self, source: Source) -> Recorder {
        let inner = &self.core.inner;
        let began = inner::now();
        let id = inner.next_id(began);
        let recording = Arc::new(Recording { id, source, began, end: None, pinned: false });
        let live = Arc::new(Live::new(id));
        self.core.recordings.fetch_add(1, Ordering::Relaxed);
        inner.begin(live.clone(), recording.clone());
        self.core.queue.begin(&live, &recording);
        Recorder::new(&self.core, &recording, &live)
    }

    /// All recordings, the first one first, without their descriptions.
    ///
    /// # Errors
    ///
    /// The catalogue can't be read; so below.
    pub fn recordings(&self) -> Result<Vec<Recording>, Error> {
        let known = self.core.inner.reading(Catalogue::recordings)?;
        Ok(self.with_live(known, |_| true))
    }

    /// The recordings of a key and track, the first one first.
    ///
    /// # Errors
    ///
    /// As above.
    pub fn find(&self, key: &str, track: u16) -> Result<Vec<Recording>, Error> {
        let known = self.core.inner.reading(|catalogue| catalogue.find(key, track))?;
        Ok(self.with_live(known, |own| own.source.key == key && own.source.track == track))
    }

    /// Recordings behind one, by number, so many at most, without a look at their files.
    ///
    /// # Errors
    ///
    /// As above.
    pub fn summaries(&self, behind: u64, most: usize) -> Result<Vec<Summary>, Error> {
        let known = self.core.inner.reading(|catalogue| catalogue.summaries(behind, most))?;
        let mut all = self.with_progress(known, |own| own.id > behind);
        all.truncate(most);
        Ok(all)
    }

    /// Those of a key and track behind one.
    ///
    /// # Errors
    ///
    /// As above.
    pub fn summaries_of(&self, key: &str, track: u16, behind: u64, most: usize) -> Result<Vec<Summary>, Error> {
        let known = self.core.inner.reading(|catalogue| catalogue.summaries_of(key, track, behind, most))?;
        let own = |own: &Recording| own.id > behind && own.source.track == track && own.source.key == key;
        let mut all = self.with_progress(known, own);
        all.truncate(most);
        Ok(all)
    }

    /// What is known of a recording.
    ///
    /// # Errors
    ///
    /// There is no such recording; or as above.
    pub fn summary(&self, id: u64) -> Result<Summary, Error> {
        let known = self.core.inner.reading(|catalogue| catalogue.summary(id))?;
        self.with_progress(known.into_iter().collect(), |own| own.id == id).pop().ok_or(Error::Unknown(id))
    }

    /// Of those that are written, the catalogue knows the segments that are whole.
    fn with_progress(&self, mut known: Vec<Summary>, wanted: impl Fn(&Recording) -> bool) -> Vec<Summary> {
        for (live, recording) in self.core.inner.all_in_progress() {
            if !wanted(&recording) {
                continue;
            }
            let there = known.iter_mut().find(|own| own.recording.id == recording.id);
            let pinned = there.as_ref().map_or(live.is_pinned(), |own| own.recording.pinned);
            let recording = Recording { pinned, ..recording.as_ref().clone() };
            let summary = Summary::of_segments(recording, &live.all_segments());
            match there {
                Some(own) => *own = summary,
                None => known.push(summary),
            }
        }
        known.sort_by_key(|own| own.recording.id);
        known
    }

    /// With those that the catalogue does not know yet.
    fn with_live(&self, mut known: Vec<Recording>, wanted: impl Fn(&Recording) -> bool) -> Vec<Recording> {
        for recording in self.core.inner.all_live() {
            if wanted(&recording) && known.iter().all(|own| own.id != recording.id) {
                known.push(recording.as_ref().clone());
            }
        }
        known.sort_by_key(|own| own.id);
        known
    }

    /// A recording's segments that are whole, in order.
    ///
    /// # Errors
    ///
    /// As above.
    pub fn segments(&self, id: u64) -> Result<Vec<Segment>, Error> {
        Ok(self.core.inner.reading(|catalogue| catalogue.segments(id))?)
    }

    /// A recording's segments from a number on, so many at most, with the one that is written.
    ///
    /// # Errors
    ///
    /// As above.
    pub fn segments_from(&self, id: u64, number: u32, most: usize) -> Result<Vec<Segment>, Error> {
        match self.core.inner.live(id) {
            Some((live, _)) => {
                let all = live.all_segments().into_iter();
                Ok(all.filter(|own| own.number >= number).take(most).collect())
            }
            None => Ok(self.core.inner.reading(|catalogue| catalogue.segments_from(id, number, most))?),
        }
    }

    /// The description of a recording's session, as it was recorded; empty where it is lost.
    ///
    /// # Errors
    ///
    /// As above.
    pub fn description(&self, id: u64) -> Result<String, Error> {
        let inner = &self.core.inner;
        match inner.live(id) {
            Some((_, recording)) => Ok(recording.source.sdp.clone()),
            None => Ok(fs::read_to_string(inner.layout.recording(id).join(SDP)).unwrap_or_default()),
        }
    }

    /// Reads a recording, from its first packet on; also one that is written now.
    ///
    /// # Errors
    ///
    /// There is no such recording; or as above.
    pub fn read(&self, id: u64) -> Result<Reader, Error> {
        let inner = &self.core.inner;
        if let Some((live, recording)) = inner.live(id) {
            return Ok(Reader::new(self.core.clone(), recording, Some(live), Vec::new()));
        }
        let known = inner.reading(|catalogue| Ok(catalogue.recording(id)?.zip(Some(catalogue.segments(id)?))))?;
        let (mut recording, segments) = known.ok_or(Error::Unknown(id))?;
        // A recording can be played without it.
        recording.source.sdp = fs::read_to_string(inner.layout.recording(id).join(SDP)).unwrap_or_default();
        Ok(Reader::new(self.core.clone(), Arc::new(recording), None, segments))
    }

    /// Has a recording's segments not removed, or again.
    ///
    /// # Errors
    ///
    /// There is no such recording; the system refuses it; or as above.
    pub fn pin(&self, id: u64, pinned: bool) -> Result<(), Error> {
        let inner = &self.core.inner;
        let path = inner.layout.recording(id).join(PINNED);
        let live = inner.live(id);
        let mut is_there = false;
        inner.changing(|changes| {
            // One that has begun just now.
            if let Some((_, recording)) = live.as_ref().filter(|_| !matches!(changes.recording(id), Ok(Some(_)))) {
                changes.put_recording(recording)?;
            }
            is_there = changes.pin(id, pinned)?;
            Ok(())
        })?;
        if !is_there {
            return Err(Error::Unknown(id));
        }
        if let Some((live, _)) = &live {
            live.set_pinned(pinned);
        }
        // A catalogue that is made anew knows it by this.
        let noted = if pinned { File::create(&path).map(drop) } else { fs::remove_file(&path) };
        match noted {
            // Who makes the directory of one that begins notes it there.
            Err(error) if error.kind() == io::ErrorKind::NotFound && (!pinned || live.is_some()) => Ok(()),
            Err(error) => Err(Error::System(path, error)),
            _ => Ok(()),
        }
    }

    /// Removes a recording, also one that is pinned. Who reads it reads on to the end of the segment.
    ///
    /// # Errors
    ///
    /// There is no such recording, or it is written now; the system refuses it; or as above.
    pub fn remove(&self, id: u64) -> Result<(), Error> {
        let inner = &self.core.inner;
        if inner.live(id).is_some() {
            return Err(Error::InProgress(id));
        }
        let _files = inner.files();
        let segments = inner.reading(|catalogue| Ok(catalogue.recording(id)?.zip(Some(catalogue.segments(id)?))))?;
        let (_, segments) = segments.ok_or(Error::Unknown(id))?;
        let directory = inner.layout.recording(id);
        match fs::remove_dir_all(&directory) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(Error::System(directory, error)),
            _ => {}
        }
        inner.changing(|changes| {
            for segment in &segments {
                changes.remove_segment(id, segment.number)?;
            }
            changes.remove_recording(id)
        })?;
        Ok(())
    }

    /// Reads all that is not being written, byte for byte, and mends what is damaged.
    ///
    /// # Errors
    ///
    /// As above.
    pub fn check(&self) -> Result<Report, Error> {
        let inner = &self.core.inner;
        let _files = inner.files();
        let report = inner.reading(|catalogue| recovery::all(&inner.layout, catalogue, true, &inner.in_progress()))?;
        Ok(report)
    }

    /// How it does.
    pub fn status(&self) -> Status {
        let (core, counts) = (&self.core, &self.core.counts);
        Status {
            system: core.system.clone(),
            direct: counts.direct.load(Ordering::Relaxed),
            writes: counts.writes.load(Ordering::Relaxed),
            bytes: counts.bytes.load(Ordering::Relaxed),
            wake_ups: counts.wake_ups.load(Ordering::Relaxed),
            free_blocks: core.queue.pool.free(),
            memory: core.queue.pool.used() as u64,
            memory_limit: core.queue.pool.bytes() as u64,
            used: core.inner.used(),
            limit: core.inner.settings.quota,
            removed: core.inner.removed(),
            recordings: core.inner.in_progress().len(),
        }
    }
}
