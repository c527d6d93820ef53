//! The catalogue: what there is, without a look at the segments. It can be made again from them.

use std::path::Path;

use redb::{Database, ReadTransaction, ReadableDatabase, ReadableTable, Table, TableDefinition, WriteTransaction};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::info::{End, Recording, Segment};
use crate::summaries::{SUMS, Sum};

type Definition<K> = TableDefinition<'static, K, &'static [u8]>;
/// By time, recording and segment.
type Times = TableDefinition<'static, (u64, u64, u32), ()>;

pub(crate) const RECORDINGS: Definition<u64> = TableDefinition::new("recordings");
pub(crate) const SEGMENTS: Definition<(u64, u32)> = TableDefinition::new("segments");
/// Recordings by what is asked for.
pub(crate) const KEYS: TableDefinition<'static, (&str, u16, u64), ()> = TableDefinition::new("keys");
/// Segments that may be removed, by last use,
const BY_USE: Times = TableDefinition::new("by_use");
/// and by the time when they were whole.
const BY_AGE: Times = TableDefinition::new("by_age");
/// Both times of a segment.
const TIMES: TableDefinition<'static, (u64, u32), (u64, u64)> = TableDefinition::new("times");
/// Bytes and segments, over all.
const TOTALS: TableDefinition<'static, &str, u64> = TableDefinition::new("totals");
/// Recordings that are written.
const OPEN: TableDefinition<'static, u64, ()> = TableDefinition::new("open");
const BYTES: &str = "bytes";
const COUNT: &str = "segments";

/// Something is wrong with the catalogue.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Error(String);

impl Error {
    pub(crate) fn of(error: impl std::fmt::Display) -> Error {
        Error(error.to_string())
    }

    /// It is not open.
    pub(crate) fn closed() -> Error {
        Error("it could not be written, and was not opened again yet".to_owned())
    }
}

pub(crate) fn wrong(error: impl std::fmt::Display) -> Error {
    Error(error.to_string())
}

pub(crate) type Result<T> = std::result::Result<T, Error>;

/// An open catalogue.
pub struct Catalogue {
    database: Database,
}

/// By what segments that may be removed are sorted.
#[derive(Clone, Copy, Debug)]
pub enum Order {
    /// The last use.
    Use,
    /// When they were whole.
    Age,
}

impl std::fmt::Debug for Catalogue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Catalogue").finish_non_exhaustive()
    }
}

fn encode(value: &impl Serialize) -> Result<Vec<u8>> {
    serde_json::to_vec(value).map_err(wrong)
}

pub(crate) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    serde_json::from_slice(bytes).map_err(wrong)
}

/// Changes that are made together.
pub struct Changes<'t> {
    recordings: Table<'t, u64, &'static [u8]>,
    pub(crate) segments: Table<'t, (u64, u32), &'static [u8]>,
    keys: Table<'t, (&'static str, u16, u64), ()>,
    by_use: Table<'t, (u64, u64, u32), ()>,
    by_age: Table<'t, (u64, u64, u32), ()>,
    times: Table<'t, (u64, u32), (u64, u64)>,
    totals: Table<'t, &'static str, u64>,
    open: Table<'t, u64, ()>,
    pub(crate) sums: Table<'t, u64, Sum>,
    /// Look-ups, stores and removals of entries.
    pub operations: u64,
}

impl Catalogue {
    /// Opens a catalogue, or makes one; one that is damaged is refused.
    pub fn open(path: &Path) -> Result<Catalogue> {
        let database = Database::builder()
            .set_check_integrity_on_open(true)
            .set_cache_size(16 << 20)
            .create(path)
            .map_err(wrong)?;
        let catalogue = Catalogue { database };
        catalogue.change(|changes| changes.sum_up())?;
        Ok(catalogue)
    }

    /// Makes changes, all or none; how many entries they took.
    pub fn change(&self, make: impl FnOnce(&mut Changes<'_>) -> Result<()>) -> Result<u64> {
        let write = self.database.begin_write().map_err(wrong)?;
        let operations = {
            let mut changes = Changes::new(&write)?;
            make(&mut changes)?;
            changes.operations
        };
        write.commit().map_err(wrong)?;
        Ok(operations)
    }

    pub(crate) fn read(&self) -> Result<ReadTransaction> {
        self.database.begin_read().map_err(wrong)
    }

    /// A recording.
    pub fn recording(&self, id: u64) -> Result<Option<Recording>> {
        let table = self.read()?.open_table(RECORDINGS).map_err(wrong)?;
        table.get(id).map_err(wrong)?.map(|value| decode(value.value())).transpose()
    }

    /// All recordings, by number.
    pub fn recordings(&self) -> Result<Vec<Recording>> {
        let table = self.read()?.open_table(RECORDINGS).map_err(wrong)?;
        let rows = table.iter().map_err(wrong)?;
        rows.map(|row| decode(row.map_err(wrong)?.1.value())).collect()
    }

    /// The numbers of the recordings that are written, or were when the process ended.
    pub fn unfinished(&self) -> Result<Vec<u64>> {
        let table = self.read()?.open_table(OPEN).map_err(wrong)?;
        let rows = table.iter().map_err(wrong)?;
        rows.map(|row| Ok(row.map_err(wrong)?.0.value())).collect()
    }

    /// The recordings of a key and track, by number.
    pub fn find(&self, key: &str, track: u16) -> Result<Vec<Recording>> {
        let ids: Vec<u64> = {
            let table = self.read()?.open_table(KEYS).map_err(wrong)?;
            let rows = table.range((key, track, 0)..=(key, track, u64::MAX)).map_err(wrong)?;
            rows.map(|row| Ok(row.map_err(wrong)?.0.value().2)).collect::<Result<_>>()?
        };
        let all = ids.into_iter().map(|id| self.recording(id));
        all.filter_map(Result::transpose).collect()
    }

    /// A recording's segments, in order.
    pub fn segments(&self, id: u64) -> Result<Vec<Segment>> {
        self.segments_from(id, 0, usize::MAX)
    }

    /// Those from a number on, so many at most.
    pub fn segments_from(&self, id: u64, number: u32, most: usize) -> Result<Vec<Segment>> {
        let table = self.read()?.open_table(SEGMENTS).map_err(wrong)?;
        let rows = table.range((id, number)..=(id, u32::MAX)).map_err(wrong)?.take(most);
        rows.map(|row| decode(row.map_err(wrong)?.1.value())).collect()
    }

    /// Bytes of all segments, and how many these are.
    pub fn totals(&self) -> Result<(u64, u64)> {
        let table = self.read()?.open_table(TOTALS).map_err(wrong)?;
        let get = |name| Ok(table.get(name).map_err(wrong)?.map_or(0, |value| value.value()));
        Ok((get(BYTES)?, get(COUNT)?))
    }

    /// The first segments that may be removed, with the times that they are sorted by, until enough of them are wanted.
    pub fn oldest(&self, order: Order, mut take: impl FnMut(u64, u64, u32) -> bool) -> Result<()> {
        let definition = match order {
            Order::Use => BY_USE,
            Order::Age => BY_AGE,
        };
        let table = self.read()?.open_table(definition).map_err(wrong)?;
        for row in table.iter().map_err(wrong)? {
            let (time, id, number) = row.map_err(wrong)?.0.value();
            if !take(time, id, number) {
                break;
            }
        }
        Ok(())
    }

    /// A segment.
    pub fn segment(&self, id: u64, number: u32) -> Result<Option<Segment>> {
        let table = self.read()?.open_table(SEGMENTS).map_err(wrong)?;
        table.get((id, number)).map_err(wrong)?.map(|value| decode(value.value())).transpose()
    }
}

impl Changes<'_> {
    fn new(write: &WriteTransaction) -> Result<Changes<'_>> {
        Ok(Changes {
            recordings: write.open_table(RECORDINGS).map_err(wrong)?,
            segments: write.open_table(SEGMENTS).map_err(wrong)?,
            keys: write.open_table(KEYS).map_err(wrong)?,
            by_use: write.open_table(BY_USE).map_err(wrong)?,
            by_age: write.open_table(BY_AGE).map_err(wrong)?,
            times: write.open_table(TIMES).map_err(wrong)?,
            totals: write.open_table(TOTALS).map_err(wrong)?,
            open: write.open_table(OPEN).map_err(wrong)?,
            sums: write.open_table(SUMS).map_err(wrong)?,
            operations: 0,
        })
    }

    /// A recording is there, or has changed. Its pin holds for all of its segments, and for those to come.
    pub fn put_recording(&mut self, recording: &Recording) -> Result<()> {
        let source = &recording.source;
        self.operations += 3;
        self.recordings.insert(recording.id, encode(recording)?.as_slice()).map_err(wrong)?;
        self.keys.insert((source.key.as_str(), source.track, recording.id), ()).map_err(wrong)?;
        if recording.end.is_none() {
            self.open.insert(recording.id, ()).map_err(wrong)?;
        } else {
            self.open.remove(recording.id).map_err(wrong)?;
        }
        Ok(())
    }

    /// A recording; its description is in its directory.
    pub fn recording(&mut self, id: u64) -> Result<Option<Recording>> {
        self.operations += 1;
        self.recordings.get(id).map_err(wrong)?.map(|value| decode(value.value())).transpose()
    }

    /// A recording has ended.
    pub fn end(&mut self, id: u64, end: End) -> Result<()> {
        match self.recording(id)? {
            Some(recording) => self.put_recording(&Recording { end: Some(end), ..recording }),
            None => Ok(()),
        }
    }

    fn add(&mut self, name: &'static str, change: i64) -> Result<()> {
        self.operations += 2;
        let before = self.totals.get(name).map_err(wrong)?.map_or(0, |value| value.value());
        self.totals.insert(name, before.saturating_add_signed(change)).map_err(wrong)?;
        Ok(())
    }

    /// A segment is whole since this time, in microseconds since 1970.
    pub fn put_segment(&mut self, segment: &Segment, now: u64) -> Result<()> {
        let (id, number) = (segment.recording, segment.number);
        self.remove_segment(id, number)?;
        self.operations += 2;
        self.segments.insert((id, number), encode(segment)?.as_slice()).map_err(wrong)?;
        self.times.insert((id, number), (now, now)).map_err(wrong)?;
        if self.recording(id)?.is_none_or(|own| !own.pinned) {
            self.set_removable((id, number), (now, now), true)?;
        }
        self.sum(id, |sums| sums.with(segment))?;
        self.add(BYTES, segment.size() as i64)?;
        self.add(COUNT, 1)
    }

    fn set_removable(&mut self, (id, number): (u64, u32), times: (u64, u64), is: bool) -> Result<()> {
        self.operations += 2;
        let (by_use, by_age) = ((times.0, id, number), (times.1, id, number));
        if is {
            self.by_use.insert(by_use, ()).map_err(wrong)?;
            self.by_age.insert(by_age, ()).map_err(wrong)?;
        } else {
            self.by_use.remove(by_use).map_err(wrong)?;
            self.by_age.remove(by_age).map_err(wrong)?;
        }
        Ok(())
    }

    /// A segment is gone; whether it was there.
    pub fn remove_segment(&mut self, id: u64, number: u32) -> Result<bool> {
        self.operations += 2;
        let before = self.segments.remove((id, number)).map_err(wrong)?;
        let Some(segment) = before.map(|value| decode::<Segment>(value.value())).transpose()? else { return Ok(false) };
        let times = self.times.remove((id, number)).map_err(wrong)?.map(|value| value.value());
        if let Some(times) = times {
            self.set_removable((id, number), times, false)?;
        }
        self.sum(id, |sums| sums.without(&segment))?;
        self.add(BYTES, -(segment.size() as i64))?;
        self.add(COUNT, -1)?;
        Ok(true)
    }

    /// Whether a recording has a segment.
    pub fn has_segments(&mut self, id: u64) -> Result<bool> {
        self.operations += 1;
        let mut rows = self.segments.range((id, 0)..=(id, u32::MAX)).map_err(wrong)?;
        Ok(rows.next().is_some())
    }

    /// A recording is gone, without its segments.
    pub fn remove_recording(&mut self, id: u64) -> Result<()> {
        self.operations += 3;
        let before = self.recordings.remove(id).map_err(wrong)?.map(|value| decode::<Recording>(value.value()));
        if let Some(recording) = before.transpose()? {
            let source = recording.source;
            self.keys.remove((source.key.as_str(), source.track, id)).map_err(wrong)?;
        }
        self.open.remove(id).map_err(wrong)?;
        Ok(())
    }

    /// A segment is used.
    pub fn touch(&mut self, id: u64, number: u32, now: u64) -> Result<()> {
        self.operations += 1;
        let times = self.times.get((id, number)).map_err(wrong)?.map(|value| value.value());
        let Some((used, whole)) = times.filter(|(used, _)| *used < now) else { return Ok(()) };
        self.operations += 3;
        // One that is pinned is not there.
        let was = self.by_use.remove((used, id, number)).map_err(wrong)?.is_some();
        if was {
            self.by_use.insert((now, id, number), ()).map_err(wrong)?;
        }
        self.times.insert((id, number), (now, whole)).map_err(wrong)?;
        Ok(())
    }

    /// A recording's segments are not removed, or may be again; whether there is such a recording.
    pub fn pin(&mut self, id: u64, pinned: bool) -> Result<bool> {
        let Some(recording) = self.recording(id)? else { return Ok(false) };
        self.put_recording(&Recording { pinned, ..recording })?;
        let rows = self.times.range((id, 0)..=(id, u32::MAX)).map_err(wrong)?;
        let all: Vec<_> = rows
            .map(|row| row.map(|(key, times)| (key.value(), times.value())).map_err(wrong))
            .collect::<Result<_>>()?;
        for (key, times) in all {
            self.set_removable(key, times, !pinned)?;
        }
        Ok(true)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::info::{Kind, Source};

    /// One that has ended.
    pub(crate) fn recording(id: u64) -> Recording {
        let source = Source {
            key: format!("rtsp://origin/{id}"),
            track: 0,
            kind: Kind::Rtp,
            encoding: String::new(),
            clock_rate: 90_000,
            format: String::new(),
            film: None,
            sdp: String::new(),
        };
        Recording { id, source, began: id, end: Some(End::Finished), pinned: false }
    }

    fn segment(id: u64, number: u32) -> Segment {
        Segment { recording: id, number, bytes: 100, ..Segment::default() }
    }

    /// What a segment costs that comes, is used, and goes, does not depend on how many there are.
    #[test]
    fn the_cost_is_flat() {
        let path = std::env::temp_dir().join(format!("millrace-test-{}-catalogue", std::process::id()));
        let mut costs = Vec::new();
        for count in [10, 1000, 100_000] {
            let _ = std::fs::remove_file(&path);
            let catalogue = Catalogue::open(&path).unwrap();
            let filled = catalogue.change(|changes| {
                for id in 0..count / 10 {
                    changes.put_recording(&recording(id))?;
                    (0..10).try_for_each(|number| {
                        changes.put_segment(&segment(id, number), 10 * id + u64::from(number))
                    })?;
                }
                Ok(())
            });
            filled.unwrap();
            assert_eq!(catalogue.totals().unwrap(), (100 * count, count));
            let mut seen = Vec::new();
            let oldest = catalogue.oldest(Order::Use, |time, id, number| {
                seen.push((time, id, number));
                seen.len() < 3
            });
            oldest.unwrap();
            assert_eq!(seen, [(0, 0, 0), (1, 0, 1), (2, 0, 2)]);
            let cost = catalogue.change(|changes| {
                changes.touch(0, 1, 1 << 40)?;
                changes.put_segment(&segment(count / 10 - 1, 10), 1 << 41)?;
                assert!(changes.remove_segment(0, 0)?);
                changes.end(0, End::Finished)
            });
            costs.push((cost.unwrap(), seen.len()));
            // One that has lost its first segment, and the last one, which has one more.
            let own = catalogue.summary(0).unwrap().unwrap();
            let (first, last) = own.ends.unwrap();
            let is_last = count == 10;
            assert_eq!((first.number, last.number), (1, if is_last { 10 } else { 9 }));
            assert_eq!((own.sums.segments, own.sums.bytes), if is_last { (10, 1000) } else { (9, 900) });
            let all = catalogue.summaries(0, 2).unwrap();
            assert_eq!(
                all.iter().map(|own| own.recording.id).collect::<Vec<_>>(),
                (1..3.min(count / 10)).collect::<Vec<_>>()
            );
            let last = catalogue.summary(count / 10 - 1).unwrap().unwrap().sums.segments;
            assert_eq!(last, if is_last { 10 } else { 11 });
            assert_eq!(catalogue.summaries_of("rtsp://origin/0", 0, 0, 9).unwrap(), []);
            assert_eq!(catalogue.find("rtsp://origin/0", 0).unwrap(), [recording(0)]);
            let mut first = None;
            catalogue.oldest(Order::Use, |_, id, number| first.replace((id, number)).is_some()).unwrap();
            assert_eq!(first, Some((0, 2)));
        }
        std::fs::remove_file(&path).unwrap();
        assert!(costs.iter().all(|own| *own == costs[0] && own.0 < 50), "{costs:?}");
    }
}
