//! Quota, free space, age and pins; and that ffmpeg reads what is there.

mod support;

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use media_cache::{Cache, Durability, End, Item, Kind, Means, Missing, Settings};
use support::*;

const MIB: u64 = 1 << 20;

#[test]
fn the_least_used_goes_first_and_nothing_that_is_read() {
    let directory = Directory::new();
    let settings = Settings { quota: 6 * MIB, ..settings() };
    let cache = Cache::open(&directory.0, settings.clone()).unwrap();
    // 1.3 MB each.
    let ids: Vec<u64> = (0..4).map(|_| record(&cache, Kind::Mp2t, 0..1000)).collect();
    assert_eq!(cache.status().removed, 0);
    cache.pin(ids[1], true).unwrap();
    // The first is used: its first segment now, so the third's go first.
    let mut reader = cache.read(ids[0]).unwrap();
    assert!(matches!(reader.next_item().unwrap(), Item::Packet(_)));
    std::thread::sleep(std::time::Duration::from_millis(2500));
    let more: Vec<u64> = (0..4).map(|_| record(&cache, Kind::Mp2t, 0..1000)).collect();
    until("it is too much", || cache.status().used <= 6 * MIB);
    assert!(cache.status().removed > 0);
    assert!(!cache.segments(*more.last().unwrap()).unwrap().is_empty());
    // All of what is pinned is there, and what is read.
    assert_eq!(read_all(&mut cache.read(ids[1]).unwrap()).0.len(), 1000);
    let first = cache.segments(ids[0]).unwrap();
    assert_eq!(first[0].number, 0, "{first:?}");
    // The reader goes on behind what was removed, and says so.
    let (found, gaps) = read_all(&mut reader);
    assert!(found.iter().all(|own| own.bytes == payload(Kind::Mp2t, own.sequence)));
    let removed: u64 = gaps.iter().filter(|(why, _)| *why == Missing::Removed).filter_map(|(_, count)| *count).sum();
    let last = found.last().unwrap().sequence;
    assert_eq!(found.len() as u64 + removed, last, "{gaps:?}");
    drop(reader);
    // Files and catalogue say the same, and are within the quota.
    let known: u64 = cache.recordings().unwrap().iter().map(|own| cache.segments(own.id).unwrap().len() as u64).sum();
    assert_eq!(files(&directory.0, "ts").len() as u64, known);
    assert_eq!(files(&directory.0, "idx").len() as u64, known);
    cache.remove(ids[1]).unwrap();
    assert!(cache.read(ids[1]).is_err());
    drop(cache);
    let cache = Cache::open(&directory.0, settings).unwrap();
    assert!(cache.opened().is_clean() && cache.check().unwrap().is_clean());
}

/// A recording that goes on for long, as those of cameras do: what was removed of it is nowhere told of.
#[test]
fn what_is_removed_of_a_recording_that_goes_on() {
    let directory = Directory::new();
    let cache = Cache::open(&directory.0, Settings { quota: 2 * MIB, ..settings() }).unwrap();
    let mut recorder = cache.record(source(Kind::Mp2t));
    let id = recorder.recording().id;
    (0..400).for_each(|number| put(&cache, &mut recorder, Kind::Mp2t, number));
    let mut reader = cache.read(id).unwrap();
    until("nothing is written", || matches!(reader.next_item().unwrap(), Item::Packet(_)));
    (400..8400).for_each(|number| put(&cache, &mut recorder, Kind::Mp2t, number));
    until("it is too much", || cache.status().used <= 2 * MIB);
    // Blocks may still be on their way to the disk, and files on their way from it.
    let mut segments = Vec::new();
    until("list, files and sum are not the same", || {
        segments = cache.segments_from(id, 0, usize::MAX).unwrap();
        let sum = cache.summary(id).unwrap().sums.segments as usize;
        (files(&directory.0, "ts").len(), sum) == (segments.len(), segments.len())
    });
    // The first one is read, others behind it are gone.
    assert_eq!(segments[0].number, 0);
    assert!(segments[1].number > 4, "{:?}", segments[1]);
    // Who reads on is told so.
    let mut at = 1;
    loop {
        match reader.next_item().unwrap() {
            Item::Packet(own) => {
                assert_eq!(own.about.sequence & 0xffff, at);
                assert_eq!(own.bytes, payload(Kind::Mp2t, own.about.sequence));
                at += 1;
            }
            Item::Gap(why, count) => {
                assert_eq!((why, count.map(|own| own > 500)), (Missing::Removed, Some(true)));
                break;
            }
            other => panic!("{other:?}"),
        }
    }
    recorder.finish();
}

#[test]
fn what_is_pinned_fills_the_cache() {
    let directory = Directory::new();
    let cache = Cache::open(&directory.0, settings()).unwrap();
    let first = record(&cache, Kind::Mp2t, 0..2600);
    cache.pin(first, true).unwrap();
    drop(cache);
    let cache = Cache::open(&directory.0, Settings { quota: 3 * MIB, ..settings() }).unwrap();
    let mut recorder = cache.record(source(Kind::Mp2t));
    let mut number = 0;
    let end = loop {
        until("blocks are not given back", || cache.status().free_blocks > 16);
        if let Err(ended) = recorder.put(arrival(number), &packet(Kind::Mp2t, number)) {
            break ended.0;
        }
        number += 1;
        std::thread::sleep(std::time::Duration::from_micros(200));
        assert!(number < 60_000);
    };
    assert_eq!(end, End::CacheFull);
    drop(recorder);
    settle(&cache);
    assert_eq!(read_all(&mut cache.read(first).unwrap()).0.len(), 2600);
    // Others may be recorded when there is room again.
    cache.pin(first, false).unwrap();
    until("no room", || cache.status().used <= 3 * MIB);
    record(&cache, Kind::Mp2t, 0..100);
}

#[test]
fn some_space_is_left_free_and_old_segments_go() {
    let directory = Directory::new();
    let free = Arc::new(AtomicU64::new(u64::MAX));
    let own = free.clone();
    let means = Means {
        system: Box::new(|places| media_cache::sys::best(places, true)),
        space: Box::new(move |_| Ok(own.load(Ordering::Relaxed))),
    };
    let own = Settings { free_space: 10 * MIB, age_seconds: Some(4), ..settings() };
    let cache = Cache::open_with(&directory.0, own, means).unwrap();
    record(&cache, Kind::Mp2t, 0..2000);
    let before = cache.status().used;
    free.store(10 * MIB - 600_000, Ordering::Relaxed);
    until("nothing goes", || cache.status().used <= before - 600_000);
    free.store(u64::MAX, Ordering::Relaxed);
    // And all of it when it is old.
    until("nothing is old", || cache.recordings().unwrap().is_empty());
    assert_eq!(files(&directory.0, "ts").len(), 0);
}

#[test]
fn eviction_under_load() {
    let directory = Directory::new();
    let cache = Cache::open(&directory.0, Settings { quota: 8 * MIB, ..settings() }).unwrap();
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    for recording in cache.recordings().unwrap() {
                        let Ok(mut reader) = cache.read(recording.id) else { continue };
                        for own in read_all(&mut reader).0 {
                            assert!(own.bytes == payload(Kind::Mp2t, own.sequence));
                        }
                    }
                }
            });
        }
        for _ in 0..12 {
            let mut both = [cache.record(source(Kind::Mp2t)), cache.record(source(Kind::Mp2t))];
            for number in 0..1500 {
                both.iter_mut().for_each(|own| put(&cache, own, Kind::Mp2t, number));
            }
        }
        done.store(true, Ordering::Relaxed);
    });
    settle(&cache);
    until("it is too much", || cache.status().used <= 8 * MIB);
    assert!(cache.check().unwrap().is_clean());
}

#[test]
fn ffmpeg_reads_segments() {
    let directory = Directory::new();
    let cache = Cache::open(&directory.0, Settings { sync: Durability::Block, ..settings() }).unwrap();
    let film = directory.0.join("film.ts");
    let made = Command::new("ffmpeg")
        .args(["-v", "error", "-f", "lavfi", "-i", "testsrc2=size=640x360:rate=25", "-t", "12", "-c:v", "libx264"])
        .args(["-g", "25", "-bf", "0", "-b:v", "2M", "-f", "mpegts"])
        .arg(&film)
        .status()
        .expect("ffmpeg, as tools/setup installs it");
    assert!(made.success());
    let bytes = std::fs::read(&film).unwrap();
    let mut recorder = cache.record(source(Kind::Ts));
    let id = recorder.recording().id;
    let count = bytes.len().div_ceil(1316) as u64;
    for (number, own) in bytes.chunks(1316).enumerate() {
        until("the disk is slow", || cache.status().free_blocks > 16);
        // At its own pace.
        recorder.put(arrival(number as u64 * 12_000 / count), own).unwrap();
    }
    recorder.finish();
    settle(&cache);
    let segments = cache.segments(id).unwrap();
    assert!(segments.len() >= 4, "{segments:?}");
    let frames = |path: &std::path::Path| {
        let out = Command::new("ffprobe")
            .args(["-v", "error", "-count_frames", "-select_streams", "v:0"])
            .args(["-show_entries", "stream=nb_read_frames", "-of", "default=nokey=1:noprint_wrappers=1"])
            .arg(path)
            .output()
            .expect("ffprobe, as tools/setup installs it");
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        let shown = String::from_utf8_lossy(&out.stdout).trim().lines().next().unwrap_or("").to_owned();
        (shown.parse::<u32>().unwrap_or(0), said)
    };
    // Each can be played by itself. A segment begins with the datagram in which its first picture does, so what
    // that has of the picture before is not decoded here.
    let each: Vec<(u32, String)> = files(&directory.0, "ts").iter().map(|path| frames(path)).collect();
    let count = each.iter().map(|(count, _)| count).sum::<u32>() as usize;
    assert!(count <= 300 && count + segments.len() >= 300, "{each:?}");
    let mut whole = vec![0; bytes.len()];
    assert_eq!(cache.read(id).unwrap().read_at(0, &mut whole).unwrap(), bytes.len());
    assert!(whole == bytes);
    // As one file nothing is missing.
    let joined = directory.0.join("joined.ts");
    std::fs::write(&joined, &whole).unwrap();
    assert_eq!(frames(&joined), (300, String::new()));
}
