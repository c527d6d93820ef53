//! What is recorded now: a recorder for each track.

use std::collections::HashMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use media_cache::{Arrival, Cache, End, Ended, FilmSource, Kind, Recorder, Source};
use wire::rtp::Header;
use wire::sdp::Description;

use super::copies::Confirmed;
use crate::settings::cache::CacheSettings;

/// What is recorded.
#[derive(Debug)]
pub struct Recorded<'a> {
    /// The stream's name in the configuration.
    pub name: &'a str,
    /// The description of all of it.
    pub description: &'a Description,
    /// The track's place in that.
    pub track: usize,
    /// Of which film it is a part; none: it is of a stream without end.
    pub film: Option<FilmPart>,
}

/// A part of a film.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilmPart {
    /// Which part of which film.
    pub source: FilmSource,
    /// The sequence number of its first packet, where its origin says it: those before it are of another part.
    pub first: Option<u16>,
}

/// What was counted since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Recordings that began,
    pub begun: u64,
    /// and those that ended though their streams went on, by [`End::BROKEN`].
    pub broken: [u64; End::BROKEN.len()],
    /// Packets that were recorded,
    pub packets: u64,
    /// that never came,
    pub lost: u64,
    /// and that were left out: double, late, or not what the stream is said to be.
    pub dropped: u64,
}

/// Packets that wait for the answer to PLAY at most.
const MOST_EXPECTED: usize = 1024;
/// Copies of the last packets of a track come this long after its end at most.
const UNDER_WAY: Duration = Duration::from_millis(300);

/// See the module.
#[derive(Debug)]
pub struct Recordings {
    cache: Cache,
    recorders: HashMap<u32, Recorder>,
    /// When those end whose tracks have ended.
    ends: HashMap<u32, Duration>,
    /// Packets of tracks of which it is not said yet which part of a film they are.
    expected: HashMap<u32, Vec<(Arrival, Vec<u8>)>>,
    /// The first packets' numbers of those that have not come yet.
    firsts: HashMap<u32, u16>,
    /// Films that are as they were recorded.
    pub confirmed: Confirmed,
    /// Tracks whose recordings have ended before them, since that was asked last.
    broken: Vec<u32>,
    counts: Counts,
}

fn now(clock: Duration) -> Arrival {
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Arrival { monotonic: clock.as_micros() as u64, clock: wall.as_micros() as u64 }
}

/// How a track's packets are recorded.
fn source(what: &Recorded<'_>) -> Source {
    let Recorded { name, description, track, film } = what;
    let encoding = description.encoding(*track).unwrap_or_default();
    let kind = if encoding.eq_ignore_ascii_case("mp2t") { Kind::Mp2t } else { Kind::Rtp };
    Source {
        key: (*name).to_owned(),
        track: *track as u16,
        kind,
        encoding: encoding.to_owned(),
        clock_rate: description.clock_rate(*track).unwrap_or(90_000),
        format: description.formats(),
        film: film.as_ref().map(|own| own.source.clone()),
        sdp: description.text(),
    }
}

impl Recordings {
    /// Opens a cache.
    ///
    /// # Errors
    /// Why it can't be used.
    pub fn open(settings: &CacheSettings) -> Result<Recordings, String> {
        let wrong = |error: media_cache::Error| format!("the cache: {error}");
        let cache = Cache::open(&settings.directory, settings.own.clone()).map_err(wrong)?;
        Ok(Recordings {
            cache,
            recorders: HashMap::new(),
            ends: HashMap::new(),
            expected: HashMap::new(),
            firsts: HashMap::new(),
            confirmed: Confirmed::default(),
            broken: Vec::new(),
            counts: Counts::default(),
        })
    }

    /// The cache.
    pub fn cache(&self) -> &Cache {
        &self.cache
    }

    /// Begins to record a track, by its number in the proxy.
    pub fn begin(&mut self, number: u32, what: &Recorded<'_>) {
        tracing::info!(stream = what.name, track = what.track, "a recording begins");
        self.counts.begun += 1;
        self.finish(number);
        self.broken.retain(|own| *own != number);
        self.recorders.insert(number, self.cache.record(source(what)));
        let first = what.film.as_ref().and_then(|own| own.first);
        first.into_iter().for_each(|first| _ = self.firsts.insert(number, first));
        for (arrival, packet) in self.expected.remove(&number).unwrap_or_default() {
            self.put_at(number, &packet, arrival);
        }
    }

    /// Packets of a track are kept until it is said of which part of a film they are.
    pub fn expect(&mut self, number: u32) {
        self.finish(number);
        self.expected.insert(number, Vec::new());
    }

    /// Removes all that there is of a film, which is not what it was.
    pub fn forget(&self, key: &str) {
        let (cache, key) = (self.cache.clone(), key.to_owned());
        let remove = move || {
            let found = super::timeline::summaries(&cache, &key, 0);
            // What is written now goes with the next one that is newer.
            found.into_iter().flatten().for_each(|own| drop(cache.remove(own.recording.id)));
        };
        if let Err(error) = std::thread::Builder::new().name("cache-forget".into()).spawn(remove) {
            tracing::warn!(%error, "an old film is not removed");
        }
    }

    /// A packet of a track.
    pub fn put(&mut self, number: u32, packet: &[u8], clock: Duration) {
        self.put_at(number, packet, now(clock));
    }

    fn put_at(&mut self, number: u32, packet: &[u8], arrival: Arrival) {
        if let Some(expected) = self.expected.get_mut(&number) {
            if expected.len() < MOST_EXPECTED {
                expected.push((arrival, packet.to_vec()));
            }
            return;
        }
        let Some(own) = self.recorders.get_mut(&number) else { return };
        if let Some(first) = self.firsts.get(&number) {
            if Header::read(packet).is_some_and(|own| own.sequence.wrapping_sub(*first) >= 0x8000) {
                return;
            }
            self.firsts.remove(&number);
        }
        if let Err(ended) = own.put(arrival, packet) {
            self.leave(number, ended);
        }
    }

    /// What time does.
    pub fn poll(&mut self, clock: Duration) {
        let arrival = now(clock);
        let ended =
            self.recorders.iter_mut().filter_map(|(number, own)| Some((*number, own.poll(arrival.monotonic).err()?)));
        let ended: Vec<(u32, Ended)> = ended.collect();
        ended.into_iter().for_each(|(number, why)| self.leave(number, why));
        let over: Vec<u32> = self.ends.iter().filter(|(_, at)| **at <= clock).map(|(number, _)| *number).collect();
        over.into_iter().for_each(|number| self.finish(number));
    }

    /// A recording can't go on; its stream does.
    fn leave(&mut self, number: u32, Ended(why): Ended) {
        self.ends.remove(&number);
        let Some(own) = self.recorders.remove(&number) else { return };
        let (source, reason) = (&own.recording().source, why.name());
        tracing::warn!(stream = source.key, track = source.track, reason, "a recording has ended before its stream");
        let reason = End::BROKEN.iter().position(|own| *own == why);
        reason.into_iter().for_each(|own| self.counts.broken[own] += 1);
        self.broken.push(number);
        self.add(&own);
    }

    /// Tracks whose recordings have ended before them, since this was asked last.
    pub fn take_broken(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.broken)
    }

    /// A track has ended; what of it is on its way to the controller belongs to it.
    pub fn end(&mut self, number: u32, clock: Duration) {
        self.expected.remove(&number);
        self.broken.retain(|own| *own != number);
        self.ends.insert(number, clock + UNDER_WAY);
    }

    fn finish(&mut self, number: u32) {
        self.ends.remove(&number);
        self.firsts.remove(&number);
        if let Some(own) = self.recorders.remove(&number) {
            self.add(&own);
            own.finish();
        }
    }

    fn add(&mut self, own: &Recorder) {
        add(&mut self.counts, own);
    }

    /// What was counted.
    pub fn counts(&self) -> Counts {
        let mut counts = self.counts;
        self.recorders.values().for_each(|own| add(&mut counts, own));
        counts
    }
}

fn add(counts: &mut Counts, own: &Recorder) {
    let of = own.counts();
    counts.packets += of.recorded;
    counts.lost += of.lost;
    counts.dropped += of.dropped.iter().sum::<u64>();
}
