//! Disks that are full, slow or broken: recordings end with a reason, and what was written can be read.

mod support;

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use media_cache::sys::{Completion, Operation, Plain, System};
use media_cache::{Cache, Durability, End, Kind, Means, Recorder, Settings};
use nix::sys::eventfd::EventFd;
use support::*;

/// Fails the call with a number, and all later ones, after it has done half of it.
struct Failing {
    plain: Plain,
    calls: Arc<AtomicU64>,
    fails_at: u64,
    errno: i32,
    done: Vec<Completion>,
}

impl Failing {
    fn check(&mut self) -> io::Result<()> {
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        if call >= self.fails_at { Err(io::Error::from_raw_os_error(self.errno)) } else { Ok(()) }
    }
}

impl System for Failing {
    fn name(&self) -> String {
        "failing".to_owned()
    }

    fn make_directory(&mut self, path: &Path) -> io::Result<()> {
        self.check()?;
        self.plain.make_directory(path)
    }

    fn write_whole(&mut self, path: &Path, contents: &[u8]) -> io::Result<()> {
        self.check()?;
        self.plain.write_whole(path, contents)
    }

    fn create(&mut self, path: &Path, direct: bool) -> io::Result<(File, bool)> {
        self.check()?;
        self.plain.create(path, direct)
    }

    fn submit(&mut self, token: u64, operation: Operation) {
        match self.check() {
            Ok(()) => self.plain.submit(token, operation),
            Err(error) => {
                use std::os::unix::fs::FileExt;
                // A write that is torn.
                match &operation {
                    Operation::Block { file, offset, block, length, .. } => {
                        let half = length / 2 / 4096 * 4096;
                        file.write_all_at(&block.bytes()[..half], *offset).unwrap();
                    }
                    Operation::Bytes { file, offset, bytes, .. } => {
                        file.write_all_at(&bytes[..bytes.len() / 2], *offset).unwrap();
                    }
                    Operation::Sync { .. } => {}
                }
                self.done.push(Completion { token, result: Err(error) });
            }
        }
    }

    fn wait(&mut self, wake: &EventFd, timeout: Duration, done: &mut Vec<Completion>) -> io::Result<()> {
        done.append(&mut self.done);
        self.plain.wait(wake, if done.is_empty() { timeout } else { Duration::ZERO }, done)
    }

    fn truncate(&mut self, file: &File, length: u64) -> io::Result<()> {
        self.check()?;
        self.plain.truncate(file, length)
    }
}

fn means(system: impl System + 'static) -> Means {
    Means { system: Box::new(move |_| Box::new(system)), space: Box::new(|_| Ok(u64::MAX)) }
}

/// Records as long as it goes on; how many packets were taken, and why it ended.
fn record_until_it_ends(cache: &Cache, kind: Kind, most: u64) -> (u64, End) {
    let mut recorder = cache.record(source(kind));
    let id = recorder.recording().id;
    let mut end = End::Finished;
    for number in 0..most {
        until("blocks are not given back", || cache.status().free_blocks > 16);
        if let Err(ended) = recorder.put(arrival(number), &packet(kind, number)) {
            end = ended.0;
            break;
        }
    }
    recorder.finish();
    (id, end)
}

#[test]
fn each_write_in_turn_fails() {
    for (errno, end) in [(libc::ENOSPC, End::DiskFull), (libc::EIO, End::DiskFailed)] {
        for kind in [Kind::Mp2t, Kind::Rtp] {
            let mut fails_at = 0;
            loop {
                let directory = Directory::new();
                let calls = Arc::new(AtomicU64::new(0));
                let system = Failing { plain: Plain::default(), calls: calls.clone(), fails_at, errno, done: vec![] };
                let settings = Settings { sync: Durability::Segment, ..settings() };
                let cache = Cache::open_with(&directory.0, settings.clone(), means(system)).unwrap();
                let (id, ended) = record_until_it_ends(&cache, kind, 700);
                settle(&cache);
                let failed = calls.load(Ordering::Relaxed) > fails_at;
                assert!(ended == end || ended == End::Finished, "{fails_at}: {ended:?}");
                let known = cache.recordings().unwrap();
                assert_eq!(known.len(), 1, "{fails_at}");
                assert_eq!(known[0].end, Some(if failed { end } else { End::Finished }), "{kind:?} {fails_at}");
                // Before and after it is opened again.
                let (before, gaps) = read_all(&mut cache.read(id).unwrap());
                assert_eq!(gaps, []);
                drop(cache);
                let cache = Cache::open(&directory.0, settings).unwrap();
                let after = cache.read(id).map(|mut reader| read_all(&mut reader).0).unwrap_or_default();
                assert!(after.len() >= before.len(), "{kind:?} {fails_at}: {} {}", after.len(), before.len());
                for (at, own) in before.iter().enumerate() {
                    assert!(*own == expected(kind, at as u64, 0), "{kind:?} {fails_at} {at}");
                    assert!(after[at].bytes == own.bytes, "{kind:?} {fails_at} {at}");
                }
                // At most what was under way is missing: all blocks whose writes were done are there.
                if !failed {
                    assert_eq!(before.len(), 700);
                    break;
                }
                fails_at += 1;
            }
            assert!(fails_at > 20, "{fails_at}");
        }
    }
}

/// Ends no write as long as it is told so.
struct Stuck {
    plain: Plain,
    is_stuck: Arc<AtomicBool>,
    held: VecDeque<(u64, Operation)>,
}

impl System for Stuck {
    fn name(&self) -> String {
        "stuck".to_owned()
    }

    fn submit(&mut self, token: u64, operation: Operation) {
        self.held.push_back((token, operation));
    }

    fn wait(&mut self, wake: &EventFd, _: Duration, done: &mut Vec<Completion>) -> io::Result<()> {
        if !self.is_stuck.load(Ordering::Relaxed) {
            for (token, operation) in self.held.drain(..) {
                self.plain.submit(token, operation);
            }
        }
        self.plain.wait(wake, Duration::from_millis(1), done)
    }
}

/// Lets writes end, also where a test fails.
struct Unstick(Arc<AtomicBool>);

impl Drop for Unstick {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

#[test]
fn a_slow_disk_never_blocks() {
    let directory = Directory::new();
    let is_stuck = Arc::new(AtomicBool::new(false));
    let system = Stuck { plain: Plain::default(), is_stuck: is_stuck.clone(), held: VecDeque::new() };
    let settings = Settings { queue: 16, ..settings() };
    let cache = Cache::open_with(&directory.0, settings.clone(), means(system)).unwrap();
    let mut recorder = cache.record(source(Kind::Mp2t));
    let _unstick = Unstick(is_stuck.clone());
    let id = recorder.recording().id;
    for number in 0..500 {
        put(&cache, &mut recorder, Kind::Mp2t, number);
        if number % 100 == 0 {
            recorder.flush().unwrap();
            until("not written", || read_all(&mut cache.read(id).unwrap()).0.len() as u64 > number);
        }
    }
    recorder.flush().unwrap();
    until("not written", || read_all(&mut cache.read(id).unwrap()).0.len() == 500);
    is_stuck.store(true, Ordering::Relaxed);
    let begin = Instant::now();
    let mut taken = 500;
    let end = loop {
        match recorder.put(arrival(taken), &packet(Kind::Mp2t, taken)) {
            Ok(()) => taken += 1,
            Err(ended) => break ended.0,
        }
    };
    assert_eq!(end, End::DiskSlow);
    assert!(begin.elapsed() < Duration::from_secs(20));
    // As many as blocks may wait, of which some are not full because a segment ends, and no more.
    assert!(taken > 500 + 16 * 30 && taken < 500 + 17 * 50, "{taken}");
    // What waits is seen beside what may.
    let (block, status) = (settings.block as u64, cache.status());
    assert_eq!((status.memory_limit, status.limit), (settings.buffers as u64 * block, settings.quota));
    assert!((16 * block..=18 * block).contains(&status.memory), "{status:?}");
    recorder.finish();
    is_stuck.store(false, Ordering::Relaxed);
    settle(&cache);
    let (found, gaps) = read_all(&mut cache.read(id).unwrap());
    assert_eq!(gaps, []);
    assert!(found.iter().enumerate().all(|(at, own)| *own == expected(Kind::Mp2t, at as u64, 0)));
    // The block that could not be had, and the packets that wait for a segment's end.
    assert!(found.len() as u64 + 50 + 64 >= taken, "what waited is written: {} of {taken}", found.len());
    assert_eq!(cache.recordings().unwrap()[0].end, Some(End::DiskSlow));
    assert_eq!((cache.status().free_blocks, cache.status().memory), (settings.buffers, 0));
}

/// Each recording fills a block: more of them than blocks are told so, and the disk is not blamed.
#[test]
fn more_recordings_than_blocks() {
    let directory = Directory::new();
    let cache = Cache::open(&directory.0, Settings { buffers: 8, ..settings() }).unwrap();
    let mut all: Vec<_> = (0..8).map(|_| cache.record(source(Kind::Mp2t))).collect();
    all.iter_mut().for_each(|own| own.put(arrival(0), &packet(Kind::Mp2t, 0)).unwrap());
    let mut one_more = cache.record(source(Kind::Mp2t));
    let id = one_more.recording().id;
    // Either this packet finds no block, or the next one tells.
    let ended = (0..2).find_map(|number| one_more.put(arrival(number), &packet(Kind::Mp2t, number)).err());
    assert_eq!(ended.map(|own| own.0), Some(End::NoMemory));
    all.into_iter().for_each(Recorder::finish);
    drop(one_more);
    settle(&cache);
    let ends = cache.recordings().unwrap();
    assert_eq!(ends.iter().filter(|own| own.end == Some(End::Finished)).count(), 8);
    assert!(ends.iter().all(|own| own.id != id || own.end == Some(End::NoMemory)), "{ends:?}");
    drop(cache);
    assert!(Cache::open(&directory.0, settings()).unwrap().check().unwrap().is_clean());
}

#[test]
fn a_full_file_system() {
    // Mounts are this thread's alone, and threads that it starts.
    std::thread::spawn(|| {
        nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNS).unwrap();
        use nix::mount::{MsFlags, mount};
        let none = None::<&str>;
        mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).unwrap();
        for kind in [Kind::Mp2t, Kind::Rtp] {
            let directory = Directory::new();
            let own = directory.0.join("small");
            std::fs::create_dir(&own).unwrap();
            // The catalogue takes more than a recording here.
            mount(Some("tmpfs"), &own, Some("tmpfs"), MsFlags::empty(), Some("size=4m")).unwrap();
            let filled = own.join("filled");
            let cache = Cache::open(&own, settings()).unwrap();
            let free = nix::sys::statvfs::statvfs(&own).unwrap();
            let free = free.blocks_available() * free.fragment_size();
            std::fs::write(&filled, vec![1; (free - (1 << 20)) as usize]).unwrap();
            let (id, end) = record_until_it_ends(&cache, kind, 100_000);
            assert_eq!(end, End::DiskFull);
            let (found, _) = read_all(&mut cache.read(id).unwrap());
            assert!(found.len() > 300, "{}", found.len());
            assert!(found.iter().enumerate().all(|(at, own)| *own == expected(kind, at as u64, 0)));
            // With room again all of it is as it was, and others are recorded.
            std::fs::remove_file(&filled).unwrap();
            drop(cache);
            let cache = Cache::open(&own, settings()).unwrap();
            let (again, _) = read_all(&mut cache.read(id).unwrap());
            assert!(again.len() >= found.len() && again[..found.len()] == found);
            record(&cache, kind, 0..100);
            drop(cache);
            nix::mount::umount(&own).unwrap();
        }
    })
    .join()
    .unwrap();
}

#[test]
fn without_io_uring_it_is_the_same() {
    let directory = Directory::new();
    let settings = Settings { io_uring: false, direct: false, ..settings() };
    let cache = Cache::open(&directory.0, settings).unwrap();
    let id = record(&cache, Kind::Mp2t, 0..1000);
    let status = cache.status();
    assert_eq!((status.system.as_str(), status.direct), ("pwrite", false));
    let (found, _) = read_all(&mut cache.read(id).unwrap());
    assert!(found == (0..1000).map(|number| expected(Kind::Mp2t, number, 0)).collect::<Vec<_>>());
}

#[test]
fn one_wake_up_and_two_writes_a_block() {
    let directory = Directory::new();
    let settings = Settings { block: 512 << 10, segment_bytes: 16 << 20, segment_seconds: 60, ..settings() };
    let cache = Cache::open(&directory.0, settings).unwrap();
    record(&cache, Kind::Mp2t, 0..8000);
    let status = cache.status();
    assert!(status.system.starts_with("io_uring"), "{status:?}");
    // 10 MB are 21 blocks, a beginning and an end.
    assert!(status.writes <= 2 * 21 + 2 && status.wake_ups <= 21 + 3, "{status:?}");
}
