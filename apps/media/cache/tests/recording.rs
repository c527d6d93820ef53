//! What is read back is what was put in.

mod support;

use media_cache::{Arrival, Cache, Dropped, End, Item, Kind, Missing};
use proptest::prelude::*;
use support::*;

const KINDS: [Kind; 3] = [Kind::Mp2t, Kind::Ts, Kind::Rtp];

#[test]
fn packets_come_back_as_they_were() {
    for kind in KINDS {
        let directory = Directory::new();
        let cache = Cache::open(&directory.0, settings()).unwrap();
        let id = record(&cache, kind, 0..3000);
        let all: Vec<Found> = (0..3000).map(|number| expected(kind, number, 0)).collect();
        let mut reader = cache.read(id).unwrap();
        let (found, gaps) = read_all(&mut reader);
        assert!(found == all, "{kind:?}: {} packets", found.len());
        assert_eq!(gaps, []);
        assert!(matches!(reader.next_item().unwrap(), Item::End(End::Finished)));
        assert!(cache.segments(id).unwrap().len() > 5);
        drop(reader);
        drop(cache);
        // Again, by another process as it were.
        let cache = Cache::open(&directory.0, settings()).unwrap();
        assert!(cache.opened().is_clean(), "{:?}", cache.opened());
        let own = cache.find("rtsp://origin/film", 0).unwrap();
        assert_eq!((own.len(), own[0].id, own[0].end), (1, id, Some(End::Finished)));
        let mut reader = cache.read(id).unwrap();
        assert_eq!(reader.recording().source, source(kind));
        let (found, gaps) = read_all(&mut reader);
        assert!(found == all && gaps.is_empty());
        let report = cache.check().unwrap();
        assert!(report.is_clean() && report.whole == report.segments && report.segments > 5, "{report:?}");
    }
}

#[test]
fn segments_of_mpeg_ts_are_its_bytes_and_begin_at_access_points() {
    let directory = Directory::new();
    let cache = Cache::open(&directory.0, settings()).unwrap();
    let id = record(&cache, Kind::Mp2t, 0..3000);
    let all: Vec<u8> = (0..3000).flat_map(|number| payload(Kind::Mp2t, number)).collect();
    let paths = files(&directory.0, "ts");
    let on_disk: Vec<u8> = paths.iter().flat_map(|path| std::fs::read(path).unwrap()).collect();
    assert!(on_disk == all);
    let segments = cache.segments(id).unwrap();
    assert!(segments.iter().all(|own| own.first_sequence.is_multiple_of(ACCESS)), "{segments:?}");
    let lengths: Vec<u64> = segments.iter().map(|own| own.bytes).collect();
    assert!(lengths.iter().all(|own| *own <= 512 << 10));
    // As one file, by ranges.
    let mut reader = cache.read(id).unwrap();
    for (offset, length) in [(0, 100), (1_000_000, 1_500_000), (all.len() - 7, 7), (all.len() - 7, 100), (1 << 30, 1)] {
        let mut bytes = vec![0; length];
        let read = reader.read_at(offset as u64, &mut bytes).unwrap();
        let own = all.get(offset..).unwrap_or_default();
        assert!(bytes[..read] == own[..own.len().min(length)], "{offset} {length}");
    }
}

#[test]
fn a_reader_follows_the_writer() {
    for kind in KINDS {
        let directory = Directory::new();
        let cache = Cache::open(&directory.0, settings()).unwrap();
        let mut recorder = cache.record(source(kind));
        let id = recorder.recording().id;
        let mut reader = cache.read(id).unwrap();
        let mut found = Vec::new();
        for number in 0..3000 {
            put(&cache, &mut recorder, kind, number);
            if number % 37 == 0 {
                found.extend(read_all(&mut reader).0);
            }
        }
        // What is not yet written is there soon after.
        recorder.flush().unwrap();
        until("the reader does not get all", || {
            reader.wait(std::time::Duration::from_millis(100));
            found.extend(read_all(&mut reader).0);
            found.len() == 3000
        });
        assert!(matches!(reader.next_item().unwrap(), Item::Pending));
        recorder.finish();
        until("no end", || {
            reader.wait(std::time::Duration::from_millis(100));
            matches!(reader.next_item().unwrap(), Item::End(End::Finished))
        });
        let all: Vec<Found> = (0..3000).map(|number| expected(kind, number, 0)).collect();
        assert!(found == all, "{kind:?}");
    }
}

#[test]
fn readers_at_one_place_share_what_they_read() {
    let directory = Directory::new();
    let cache = Cache::open(&directory.0, settings()).unwrap();
    let id = record(&cache, Kind::Mp2t, 0..500);
    let mut readers: Vec<_> = (0..50).map(|_| cache.read(id).unwrap()).collect();
    for reader in &mut readers {
        let place = |reader: &mut media_cache::Reader| match reader.next_item().unwrap() {
            Item::Packet(packet) => packet.bytes.as_ptr() as usize,
            item => panic!("{item:?}"),
        };
        let first = place(reader);
        assert_eq!(place(reader), first + 1316);
    }
    let places: std::collections::HashSet<usize> = readers
        .iter_mut()
        .map(|reader| match reader.next_item().unwrap() {
            Item::Packet(packet) => packet.bytes.as_ptr() as usize,
            item => panic!("{item:?}"),
        })
        .collect();
    assert_eq!(places.len(), 1);
}

#[test]
fn clocks_may_jump() {
    let directory = Directory::new();
    let cache = Cache::open(&directory.0, settings()).unwrap();
    let mut recorder = cache.record(source(Kind::Rtp));
    let id = recorder.recording().id;
    // An hour back, two days forwards, and on.
    let jumped = |number: u64| match number {
        0..500 => 0,
        500..900 => -3_600_000_000,
        _ => 172_800_000_000i64,
    };
    let clock = |number: u64| arrival(number).clock.checked_add_signed(jumped(number)).unwrap();
    for number in 0..1500 {
        let own = Arrival { clock: clock(number), ..arrival(number) };
        until("the disk is slow", || cache.status().free_blocks > 16);
        recorder.put(own, &packet(Kind::Rtp, number)).unwrap();
    }
    recorder.finish();
    settle(&cache);
    let mut reader = cache.read(id).unwrap();
    let (found, _) = read_all(&mut reader);
    let clocks: Vec<u64> = found.iter().map(|own| own.clock).collect();
    assert_eq!(clocks, (0..1500).map(clock).collect::<Vec<_>>());
    assert!(found.iter().enumerate().all(|(at, own)| own.npt == 1000 * at as u64));
    for number in [0, 10, 499, 500, 899, 900, 1499] {
        reader.seek_clock(clock(number)).unwrap();
        let first = (0..1500).find(|own| clock(*own) >= clock(number)).unwrap();
        assert!(matches!(reader.next_item().unwrap(), Item::Packet(own) if own.about.sequence == first), "{number}");
    }
}

#[test]
fn what_does_not_belong_there_is_counted() {
    let directory = Directory::new();
    let cache = Cache::open(&directory.0, settings()).unwrap();
    let mut recorder = cache.record(source(Kind::Mp2t));
    recorder.put(arrival(0), &packet(Kind::Mp2t, 0)).unwrap();
    recorder.put(arrival(1), b"no packet").unwrap();
    recorder.put(arrival(1), &packet(Kind::Rtp, 1)).unwrap();
    recorder.put(arrival(1), &packet(Kind::Mp2t, 1)[..500]).unwrap();
    recorder.put(arrival(1), &packet(Kind::Mp2t, 1)).unwrap();
    recorder.put(arrival(2), &packet(Kind::Mp2t, 1)).unwrap();
    recorder.put(arrival(2), &[]).unwrap();
    let counts = recorder.counts();
    let of = |dropped: Dropped| counts.dropped[Dropped::ALL.iter().position(|own| *own == dropped).unwrap()];
    assert_eq!((counts.recorded, of(Dropped::NotRtp), of(Dropped::NotTs), of(Dropped::Duplicate)), (2, 2, 2, 1));
    drop(recorder);
    let mut recorder = cache.record(source(Kind::Rtp));
    let mut long = packet(Kind::Rtp, 0);
    long.resize(65_000, 0);
    recorder.put(arrival(0), &long).unwrap();
    assert_eq!(recorder.counts().dropped[Dropped::TooLong as usize], 1);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, max_shrink_iters: 100, failure_persistence: None, ..ProptestConfig::default() })]

    /// Lost, late, twice, over several openings: what is read is what came, in order, with the gaps known.
    #[test]
    fn order_and_gaps_are_known(
        first in 0u64..65536,
        fates in prop::collection::vec((0u64..6, prop::bool::weighted(0.05), prop::bool::weighted(0.05)), 100..1200),
        kind in prop::sample::select(vec![Kind::Mp2t, Kind::Rtp]),
        flushes in prop::collection::vec(0usize..1200, 0..5),
        again in any::<bool>(),
    ) {
        let directory = Directory::new();
        let mut cache = Cache::open(&directory.0, settings()).unwrap();
        let mut sent: Vec<(u64, u64)> = Vec::new();
        for (at, (delay, is_lost, is_twice)) in fates.iter().enumerate() {
            let number = first + at as u64;
            if at > 0 && *is_lost {
                continue;
            }
            sent.push((number + if at == 0 { 0 } else { *delay }, number));
            if *is_twice {
                sent.push((number + 9, number));
            }
        }
        sent.sort();
        let mut recorder = cache.record(source(kind));
        let id = recorder.recording().id;
        let mut came = std::collections::BTreeMap::new();
        for (at, (time, number)) in sent.iter().enumerate() {
            until("the disk is slow", || cache.status().free_blocks > 16);
            recorder.put(arrival(*time), &packet(kind, *number)).unwrap();
            came.entry(*number).or_insert(*time);
            if flushes.contains(&at) {
                recorder.flush().unwrap();
            }
        }
        recorder.finish();
        settle(&cache);
        if again {
            drop(cache);
            cache = Cache::open(&directory.0, settings()).unwrap();
        }
        let (found, gaps) = read_all(&mut cache.read(id).unwrap());
        let all: Vec<Found> = came.iter().map(|(number, time)| Found {
            npt: arrival(*time).monotonic - arrival(first).monotonic,
            clock: arrival(*time).clock,
            ..expected(kind, *number, first)
        }).collect();
        prop_assert!(found == all);
        let numbers: Vec<u64> = came.keys().copied().collect();
        let missing: Vec<_> = numbers.windows(2).map(|own| own[1] - own[0] - 1).filter(|own| *own > 0)
            .map(|own| (Missing::Lost, Some(own))).collect();
        prop_assert_eq!(gaps, missing);
    }
}
