//! Places in recordings that follow each other, against a search through all packets.

use std::time::{SystemTime, UNIX_EPOCH};

use media_cache::{Arrival, Durability, FilmSource, Kind, Settings, Source};

use super::super::copies::{Confirmed, CopiedFilm, Found};
use super::super::film::Next;
use super::*;

/// When takes begin, and how long they are, in seconds.
const TAKES: [(u64, u64); 3] = [(0, 20), (50, 10), (90, 15)];
/// Between two packets of each track, in microseconds.
const PACE: [u64; 2] = [40_000, 20_000];
/// Between two access points of the first one.
const ACCESS: u64 = 25;
/// Microseconds.
const EARLY: u64 = 7000;
const SEEKS: usize = 10_000;

const SDP: &str = "v=0\r\nm=video 0 RTP/AVP 96\r\na=rtpmap:96 H264/90000\r\nm=audio 0 RTP/AVP 0\r\n";

struct Directory(std::path::PathBuf);

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A packet: when it comes in the film, its track, its take, and its number there.
type Known = (u64, usize, usize, u64);

fn packet(track: usize, take: usize, number: u64) -> Vec<u8> {
    let mut packet = vec![0x80, if track == 0 { 96 } else { 0 }];
    packet.extend((number as u16).to_be_bytes());
    packet.extend((number as u32 * [3600, 160][track]).to_be_bytes());
    packet.extend([take as u8; 4]);
    packet.extend([if number.is_multiple_of(ACCESS) { 0x65 } else { 0x41 }, track as u8, take as u8]);
    packet.extend(number.to_be_bytes());
    packet
}

fn cache(name: &str) -> (Directory, Cache) {
    let directory = Directory(std::env::temp_dir().join(format!("millrace-test-{}-{name}", std::process::id())));
    let settings = Settings { block: 64 << 10, sync: Durability::Never, free_space: 0, ..Settings::default() };
    let cache = Cache::open(&directory.0, settings).unwrap();
    (directory, cache)
}

/// Records the takes of a stream, or of a film from its beginning on; all packets, in order.
fn record(cache: &Cache, takes: &[(u64, u64)], film: Option<&FilmSource>) -> Vec<Known> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros() as u64;
    let mut all = Vec::new();
    for (take, (begin, length)) in takes.iter().copied().enumerate() {
        for (track, pace) in PACE.into_iter().enumerate() {
            let source = Source {
                key: film.map_or("door", |_| "film x").into(),
                track: track as u16,
                kind: Kind::Rtp,
                encoding: if track == 0 { "H264".into() } else { String::new() },
                clock_rate: 90_000,
                format: "both".into(),
                sdp: film.map_or(SDP.to_owned(), |_| SDP.replace("m=video", "a=range:npt=0-60\r\nm=video")),
                film: film.cloned(),
            };
            let mut recorder = cache.record(source);
            for number in 0..length * 1_000_000 / pace {
                // Those of films come a little early, as seen by the first one.
                let early = if film.is_some() && number > 0 { EARLY } else { 0 };
                let npt = begin * 1_000_000 + number * pace - early;
                let arrival = Arrival { monotonic: 1 << 40 | npt, clock: now + npt };
                recorder.put(arrival, &packet(track, take, number)).unwrap();
                all.push((npt, track, take, number));
            }
            recorder.finish();
        }
        while cache.status().recordings > 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    all.sort_unstable();
    all
}

fn random(state: &mut u64, below: u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) % below
}

/// What comes from a time on.
fn expected(all: &[Known], time: u64) -> Vec<Known> {
    let is_in = |(begin, length): &(u64, u64)| time < (begin + length) * 1_000_000;
    let take = TAKES.iter().position(is_in).unwrap_or(TAKES.len() - 1);
    let time = time.max(TAKES[take].0 * 1_000_000);
    let of_take = || all.iter().filter(|own| own.2 == take);
    let is_access = |own: &&Known| own.1 == 0 && own.0 <= time && own.3.is_multiple_of(ACCESS);
    let begin = of_take().filter(is_access).max().unwrap().0;
    all.iter().filter(|own| own.2 >= take && own.0 >= begin).copied().collect()
}

#[test]
fn ten_thousand_seeks() {
    let (_directory, cache) = cache("seeks");
    let all = record(&cache, &TAKES, None);
    let film = RecordedFilm::open(&cache, "door", Start::Beginning, Duration::ZERO);
    let mut film = film.unwrap().unwrap();
    assert_eq!(film.length().as_millis(), 104_980);
    let mut state = 7;
    for round in 0..SEEKS {
        let time = random(&mut state, 110_000_000);
        // The last packet's time is the end; what is behind it, but in the same take, is its last access point.
        let ends = TAKES.iter().any(|(begin, length)| time.abs_diff((begin + length) * 1_000_000) < 50_000);
        if ends {
            continue;
        }
        let begin = film.seek(Duration::from_micros(time), &[0, 1], false).unwrap();
        let due = expected(&all, time);
        assert_eq!(begin.npt.as_micros() as u64, due[0].0, "{round}: {time}");
        // Now and then all of it, across takes.
        let count = if round % 1000 == 0 { due.len() } else { 6 };
        for own in due.iter().take(count) {
            let Reading::Packet(Next { track, npt, packet: bytes, .. }) = film.read().unwrap() else { panic!() };
            assert_eq!((npt.as_micros() as u64, track), (own.0, own.1), "{round}: {time}");
            assert_eq!(bytes, packet(own.1, own.2, own.3));
        }
        if count >= due.len() {
            assert_eq!(film.read().unwrap(), Reading::End);
        }
    }
    // By key frames alone: each of them, and nothing else.
    film.seek(Duration::ZERO, &[0, 1], true).unwrap();
    let mut keys = Vec::new();
    while let Reading::Packet(own) = film.read().unwrap() {
        keys.push((own.npt.as_micros() as u64, own.track));
    }
    let due = all.iter().filter(|own| own.1 == 0 && own.3.is_multiple_of(ACCESS)).map(|own| (own.0, 0));
    assert_eq!(keys, due.collect::<Vec<_>>());
}

/// A part of a film is left where a decoder can begin at the origin, but for the sound.
#[test]
fn a_part_of_a_film_is_left_at_an_access_point() {
    let (_directory, cache) = cache("part");
    let film = FilmSource { position: 0, modified: String::new(), expires: u64::MAX };
    let all = record(&cache, &[(0, 20)], Some(&film));
    let found = CopiedFilm::open(&cache, "film x", &Confirmed::default(), false, Duration::ZERO);
    let Found::Film(mut film) = found.unwrap() else { panic!("it is there") };
    // The last access point is that of 19 s, by its timestamp; 24 more pictures are there.
    let at = Duration::from_micros(19_000_000 - EARLY);
    film.seek(Duration::from_secs(7), &[0, 1], false).unwrap();
    let mut read = Vec::new();
    let end = loop {
        match film.read().unwrap() {
            Reading::Packet(own) => read.push(own),
            other => break other,
        }
    };
    assert_eq!(end, Reading::Elsewhere(Duration::from_secs(19)));
    assert!(read.iter().all(|own| own.npt <= at), "all of it is due then");
    let of = |track: usize| read.iter().filter(|own| own.track == track).map(|own| own.packet.clone()).collect();
    let due = |track: usize, until: u64| -> Vec<Vec<u8>> {
        let is_due = |own: &&Known| own.1 == track && own.0 >= 7_000_000 - EARLY && own.0 < until - EARLY;
        all.iter().filter(is_due).map(|own| packet(track, 0, own.3)).collect()
    };
    let both: [Vec<Vec<u8>>; 2] = [of(0), of(1)];
    assert_eq!(both, [due(0, 19_000_000), due(1, 19_500_001)]);
    // What the origin may send again: a group of pictures, and those that were left out.
    let mut around = Vec::new();
    film.around(Duration::from_secs(19), &[0], &mut |own| around.push(own.packet.clone())).unwrap();
    assert_eq!(around, (450..500).map(|number| packet(0, 0, number)).collect::<Vec<_>>());
    // Behind the last access point there is nothing to leave at.
    film.seek(Duration::from_millis(19_500), &[0, 1], false).unwrap();
    let mut last = Duration::ZERO;
    let end = loop {
        match film.read().unwrap() {
            Reading::Packet(own) => last = own.npt,
            other => break other,
        }
    };
    assert_eq!(end, Reading::Elsewhere(last));
    assert_eq!(last, Duration::from_micros(19_980_000 - EARLY));
}
