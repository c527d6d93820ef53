//! Processes that end at any moment, and files that are damaged anywhere.

mod support;

use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::Duration;

use media_cache::{Cache, End, Error, Item, Kind, Missing, Settings};
use proptest::prelude::*;
use support::*;

/// With this the test below records until it is killed.
const DIRECTORY: &str = "MEDIA_CACHE_TEST_DIRECTORY";

/// The child of the test below.
#[test]
fn records_until_it_is_killed() {
    let Some(directory) = std::env::var_os(DIRECTORY) else { return };
    let cache = Cache::open(directory.as_ref(), small()).unwrap();
    let kinds = [Kind::Mp2t, Kind::Rtp, Kind::Ts];
    let mut recorders = kinds.map(|kind| cache.record(source(kind)));
    let mut readers: Vec<_> = recorders.iter().map(|own| cache.read(own.recording().id).unwrap()).collect();
    let mut counts = [0; 3];
    for number in 0.. {
        for ((recorder, kind), (reader, count)) in
            recorders.iter_mut().zip(kinds).zip(readers.iter_mut().zip(&mut counts))
        {
            put(&cache, recorder, kind, number);
            if number % 20 == 0 {
                // What others can read must be there afterwards.
                let before = *count;
                *count += read_all(reader).0.len() as u64;
                if *count > before {
                    let mut out = std::io::stdout().lock();
                    writeln!(out, "written {} {count}", recorder.recording().id).unwrap();
                    out.flush().unwrap();
                }
            }
        }
        // At a live stream's pace in parts, so that the file system's own work lies in between, too.
        if number % 500 == 0 {
            std::thread::sleep(Duration::from_millis(3));
        }
    }
}

fn small() -> Settings {
    Settings { linger_ms: 50, ..settings() }
}

#[test]
fn killed_at_any_moment_it_loses_at_most_a_block() {
    let mut state = 12345u64;
    for round in 0..100 {
        let directory = Directory::new();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["records_until_it_is_killed", "--exact", "--nocapture", "--test-threads=1"])
            .env(DIRECTORY, &directory.0)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        std::thread::sleep(Duration::from_millis(20 + (state >> 33) % 130));
        child.kill().unwrap();
        child.wait().unwrap();
        let mut written = std::collections::HashMap::new();
        for line in BufReader::new(child.stdout.take().unwrap()).lines() {
            let line = line.unwrap();
            let own: Vec<&str> = line.split(' ').collect();
            if let ["written", id, count] = own[..] {
                written.insert(id.parse::<u64>().unwrap(), count.parse::<usize>().unwrap());
            }
        }
        let cache = Cache::open(&directory.0, small()).unwrap();
        let report = cache.opened().clone();
        assert!(report.lost_bytes <= 3 * (64 << 10), "{round}: {report:?}");
        for (id, least) in &written {
            let mut reader = cache.read(*id).unwrap_or_else(|error| panic!("{round}: {error} {report:?}"));
            let kind = reader.recording().source.kind;
            assert_eq!(reader.recording().end, Some(End::Interrupted));
            let (found, gaps) = read_all(&mut reader);
            assert!(found.len() >= *least, "{round} {kind:?}: {} of {least}, {report:?}", found.len());
            assert_eq!(gaps, [], "{round} {kind:?}: {report:?}");
            for (at, own) in found.iter().enumerate() {
                // What had its block on the disk, but not its part of the index, has the right bytes.
                let right = expected(kind, at as u64, 0);
                let is_right = if own.estimated {
                    own.bytes == right.bytes && own.sequence == right.sequence
                } else if at >= *least {
                    // A log's packets whose index is lost have the wall clock of those before.
                    Found { clock: own.clock, ..right.clone() } == *own
                } else {
                    *own == right
                };
                assert!(is_right, "{round} {kind:?} {at}: {own:?}");
            }
        }
        // What was mended is whole.
        let report = cache.check().unwrap();
        assert!(report.is_clean() && report.whole == report.segments, "{round}: {report:?}");
        drop(cache);
        let cache = Cache::open(&directory.0, small()).unwrap();
        assert!(cache.opened().is_clean());
    }
}

#[test]
fn a_second_instance_is_refused() {
    let directory = Directory::new();
    let cache = Cache::open(&directory.0, settings()).unwrap();
    let second = Cache::open(&directory.0, settings());
    assert!(matches!(&second, Err(Error::Taken(path)) if *path == directory.0));
    assert!(second.unwrap_err().to_string().ends_with("another instance has it: give each a directory of its own"));
    drop(cache);
    Cache::open(&directory.0, settings()).unwrap();
}

#[test]
fn a_lost_or_damaged_catalogue_is_made_anew() {
    let directory = Directory::new();
    let cache = Cache::open(&directory.0, settings()).unwrap();
    let first = record(&cache, Kind::Mp2t, 0..1000);
    let second = record(&cache, Kind::Rtp, 0..1000);
    cache.pin(second, true).unwrap();
    let segments = [first, second].map(|id| cache.segments(id).unwrap());
    drop(cache);
    let path = directory.0.join("catalogue.redb");
    let whole = fs::read(&path).unwrap();
    let mut damaged: Vec<Vec<u8>> = vec![Vec::new(), b"no database".to_vec(), vec![0; whole.len()]];
    damaged.push(whole[..whole.len() / 2].to_vec());
    for at in (0..whole.len()).step_by(whole.len() / 40) {
        let mut own = whole.clone();
        own[at..(at + 64).min(whole.len())].iter_mut().for_each(|byte| *byte ^= 0x5a);
        damaged.push(own);
    }
    for (at, bytes) in damaged.iter().enumerate() {
        fs::write(&path, bytes).unwrap();
        let cache = Cache::open(&directory.0, settings()).unwrap();
        assert!(cache.opened().lost.is_empty(), "{at}: {:?}", cache.opened());
        let found = cache.find("rtsp://origin/film", 0).unwrap();
        let known: Vec<_> = found.iter().map(|own| (own.id, own.pinned, own.source.kind)).collect();
        assert_eq!(known, [(first, false, Kind::Mp2t), (second, true, Kind::Rtp)], "{at}");
        assert_eq!([first, second].map(|id| cache.segments(id).unwrap()), segments, "{at}");
        assert_eq!(read_all(&mut cache.read(first).unwrap()).0.len(), 1000, "{at}");
        // A recording behind it has a number of its own.
        if at == 0 {
            let third = cache.record(source(Kind::Rtp));
            assert!(third.recording().id > second);
        }
    }
}

/// Of what is lost as much is made anew as the catalogue knows; what can't be read stays as it is.
#[test]
fn a_lost_description_is_made_anew() {
    for (damage, in_catalogue) in [(None, true), (None, false), (Some("version = 99"), true)] {
        let directory = Directory::new();
        let cache = Cache::open(&directory.0, settings()).unwrap();
        let id = record(&cache, Kind::Rtp, 0..100);
        drop(cache);
        let path = files(&directory.0, "toml").remove(0);
        let whole = fs::read(&path).unwrap();
        match damage {
            Some(text) => fs::write(&path, text).unwrap(),
            None => fs::remove_file(&path).unwrap(),
        }
        if !in_catalogue {
            fs::remove_file(directory.0.join("catalogue.redb")).unwrap();
        }
        let cache = Cache::open(&directory.0, settings()).unwrap();
        let reports = [cache.opened().clone(), cache.check().unwrap()];
        let told = reports.iter().flat_map(|report| &report.mended).filter(|note| note.path == path).count();
        assert_eq!(told, 1, "{damage:?} {in_catalogue}: {reports:?}");
        let key = if in_catalogue { "rtsp://origin/film".to_owned() } else { format!("{id:016x}") };
        assert_eq!(cache.find(&key, 0).unwrap().iter().map(|own| own.id).collect::<Vec<_>>(), [id]);
        let found = fs::read_to_string(&path).unwrap();
        match (damage, in_catalogue) {
            (Some(text), _) => assert_eq!(found, text),
            (None, true) => assert_eq!(found.as_bytes(), whole),
            (None, false) => assert!(found.contains(&format!("key = \"{key}\"")), "{found}"),
        }
        assert!(cache.check().unwrap().mended.len() <= damage.map_or(0, |_| 1));
    }
}

#[test]
fn a_lost_index_is_made_anew() {
    for kind in [Kind::Mp2t, Kind::Rtp] {
        let directory = Directory::new();
        let cache = Cache::open(&directory.0, settings()).unwrap();
        let id = record(&cache, kind, 0..2000);
        drop(cache);
        for path in files(&directory.0, "idx") {
            fs::remove_file(path).unwrap();
        }
        let cache = Cache::open(&directory.0, settings()).unwrap();
        assert!(cache.opened().is_clean());
        let report = cache.check().unwrap();
        assert!(report.lost.is_empty() && report.mended.len() > 3, "{report:?}");
        let mut reader = cache.read(id).unwrap();
        let (found, gaps) = read_all(&mut reader);
        assert_eq!((found.len(), gaps.len()), (2000, 0));
        for (at, own) in found.iter().enumerate() {
            let right = expected(kind, at as u64, 0);
            assert_eq!((&own.bytes, own.access_point), (&right.bytes, right.access_point), "{at}");
            assert_eq!((own.sequence, own.estimated), (right.sequence, kind == Kind::Mp2t), "{at}");
            // By PCR, which each tenth packet has.
            assert!(own.npt.abs_diff(right.npt) <= 11_000, "{kind:?} {at}: {} {}", own.npt, right.npt);
            assert!(kind == Kind::Mp2t || own.npt == right.npt);
        }
    }
}

/// What can't be read, as a file of another user's or on a failing disk, is left where it is, and found when it can.
#[test]
fn what_cannot_be_read_is_left_alone() {
    for (count, in_catalogue) in [(20, true), (20, false), (2000, true), (2000, false)] {
        let directory = Directory::new();
        let cache = Cache::open(&directory.0, settings()).unwrap();
        let id = record(&cache, Kind::Mp2t, 0..count);
        drop(cache);
        let (first, all) = (files(&directory.0, "idx").into_iter().min().unwrap(), files(&directory.0, "ts"));
        let kept = first.with_extension("kept");
        fs::rename(&first, &kept).unwrap();
        fs::create_dir(&first).unwrap();
        if !in_catalogue {
            fs::remove_file(directory.0.join("catalogue.redb")).unwrap();
        }
        let cache = Cache::open(&directory.0, settings()).unwrap();
        let report = cache.check().unwrap();
        assert_eq!(report.lost.len(), 1, "{report:?}");
        drop(cache);
        assert_eq!(files(&directory.0, "ts"), all, "{count} {in_catalogue}");
        fs::remove_dir(&first).unwrap();
        fs::rename(&kept, &first).unwrap();
        let cache = Cache::open(&directory.0, settings()).unwrap();
        assert!(cache.check().unwrap().lost.is_empty());
        let (found, gaps) = read_all(&mut cache.read(id).unwrap());
        assert_eq!((found.len() as u64, gaps.len()), (count, 0), "{count} {in_catalogue}");
    }
}

#[derive(Clone, Debug)]
enum Damage {
    Cut(usize),
    Flip(usize, u8),
    Zeros(usize, usize),
}

fn damage() -> impl Strategy<Value = Damage> {
    prop_oneof![
        any::<usize>().prop_map(Damage::Cut),
        (any::<usize>(), 0u8..8).prop_map(|(at, bit)| Damage::Flip(at, bit)),
        (any::<usize>(), 1usize..100_000).prop_map(|(at, length)| Damage::Zeros(at, length)),
    ]
}

fn apply(path: &std::path::Path, damage: &Damage) {
    let mut bytes = fs::read(path).unwrap();
    if bytes.is_empty() {
        return;
    }
    match damage {
        Damage::Cut(at) => bytes.truncate(at % bytes.len()),
        Damage::Flip(at, bit) => {
            let at = at % bytes.len();
            bytes[at] ^= 1 << bit;
        }
        Damage::Zeros(at, length) => {
            let (at, end) = (at % bytes.len(), bytes.len());
            bytes[at..end.min(at + length)].fill(0);
        }
    }
    OpenOptions::new().write(true).truncate(true).open(path).unwrap().write_all(&bytes).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, max_shrink_iters: 100, failure_persistence: None, ..ProptestConfig::default() })]

    /// Wherever files are damaged: what is read is in order and was put in, and no more is missing than the damaged
    /// blocks have, or what was behind it in the segment.
    #[test]
    fn files_may_be_damaged_anywhere(
        damages in prop::collection::vec((any::<bool>(), any::<usize>(), damage()), 1..4),
        kind in prop::sample::select(vec![Kind::Mp2t, Kind::Rtp]),
        without_catalogue in any::<bool>(),
    ) {
        let directory = Directory::new();
        let cache = Cache::open(&directory.0, settings()).unwrap();
        let id = record(&cache, kind, 0..1500);
        drop(cache);
        for (is_index, which, damage) in &damages {
            let all = files(&directory.0, if *is_index { "idx" } else { kind_extension(kind) });
            apply(&all[which % all.len()], damage);
        }
        if without_catalogue {
            fs::remove_file(directory.0.join("catalogue.redb")).unwrap();
        }
        let cache = Cache::open(&directory.0, settings()).unwrap();
        // Before and after it is mended.
        for round in 0..2 {
            let Ok(mut reader) = cache.read(id) else { panic!("the recording is gone") };
            // Which number comes next, by packets and gaps; they begin with 0.
            let (mut due, mut count) = (None, 0);
            loop {
                match reader.next_item().unwrap() {
                    Item::Gap(why, missing) => {
                        prop_assert!(why != Missing::Restart);
                        due = Some(due.unwrap_or(0) + missing.unwrap());
                    }
                    Item::Packet(own) => {
                        let number = own.about.sequence;
                        prop_assert!(due.is_none_or(|due| due == number), "{round}: {due:?} {number}");
                        due = Some(number + 1);
                        count += 1;
                        let right = expected(kind, number, 0);
                        // Packets without an index have other bounds where bytes are missing before them.
                        let is_right = own.bytes == right.bytes && own.about.npt == right.npt;
                        prop_assert!(is_right || own.about.estimated, "{round} {number}");
                    }
                    Item::End(_) | Item::Pending => break,
                }
            }
            // A segment has 256 KiB; the recording 2 MiB at least of MPEG-TS, and 1 MiB of the log.
            prop_assert!(count >= 1500 / 8, "{round}: {count}");
            let report = cache.check().unwrap();
            if round == 1 {
                prop_assert!(report.mended.is_empty(), "{report:?}");
            }
        }
    }
}

fn kind_extension(kind: Kind) -> &'static str {
    if kind == Kind::Rtp { "rtp" } else { "ts" }
}
