//! What recordings are in all, without a look at each of their segments.

use std::collections::BTreeMap;

use redb::{ReadOnlyTable, ReadTransaction, ReadableTable, ReadableTableMetadata, TableDefinition};

use crate::catalogue::{Catalogue, Changes, KEYS, RECORDINGS, Result, SEGMENTS, decode, wrong};
use crate::info::{Recording, Segment, Summary, Sums};

/// What a recording's segments are in all: segments, bytes, packets, lost, access points.
pub type Sum = (u64, u64, u64, u64, u64);
/// By recording.
pub const SUMS: TableDefinition<'static, u64, Sum> = TableDefinition::new("sums");

/// What summaries are made of.
struct Summaries {
    recordings: ReadOnlyTable<u64, &'static [u8]>,
    segments: ReadOnlyTable<(u64, u32), &'static [u8]>,
    sums: ReadOnlyTable<u64, Sum>,
}

impl Summaries {
    fn new(read: &ReadTransaction) -> Result<Summaries> {
        Ok(Summaries {
            recordings: read.open_table(RECORDINGS).map_err(wrong)?,
            segments: read.open_table(SEGMENTS).map_err(wrong)?,
            sums: read.open_table(SUMS).map_err(wrong)?,
        })
    }

    fn of(&self, recording: Recording) -> Result<Summary> {
        let id = recording.id;
        let mut rows = self.segments.range((id, 0)..=(id, u32::MAX)).map_err(wrong)?;
        let first = rows.next().transpose().map_err(wrong)?.map(|row| decode(row.1.value())).transpose()?;
        let last = rows.next_back().transpose().map_err(wrong)?.map(|row| decode(row.1.value())).transpose()?;
        let ends = first.map(|first: Segment| (first.clone(), last.unwrap_or(first)));
        let sum = self.sums.get(id).map_err(wrong)?.map(|value| value.value());
        Ok(Summary { recording, sums: of_sum(sum.unwrap_or_default()), ends })
    }
}

fn of_sum((segments, bytes, packets, lost, access_points): Sum) -> Sums {
    Sums { segments, bytes, packets, lost, access_points }
}

fn to_sum(own: Sums) -> Sum {
    (own.segments, own.bytes, own.packets, own.lost, own.access_points)
}

impl Catalogue {
    /// Recordings behind one, by number, so many at most.
    pub fn summaries(&self, behind: u64, most: usize) -> Result<Vec<Summary>> {
        let own = Summaries::new(&self.read()?)?;
        let Some(from) = behind.checked_add(1) else { return Ok(Vec::new()) };
        let rows = own.recordings.range(from..).map_err(wrong)?.take(most);
        rows.map(|row| own.of(decode(row.map_err(wrong)?.1.value())?)).collect()
    }

    /// Those of a key and track behind one, by number, so many at most.
    pub fn summaries_of(&self, key: &str, track: u16, behind: u64, most: usize) -> Result<Vec<Summary>> {
        let read = self.read()?;
        let (own, keys) = (Summaries::new(&read)?, read.open_table(KEYS).map_err(wrong)?);
        let Some(from) = behind.checked_add(1) else { return Ok(Vec::new()) };
        let rows = keys.range((key, track, from)..=(key, track, u64::MAX)).map_err(wrong)?.take(most);
        let mut all = Vec::new();
        for row in rows {
            let id = row.map_err(wrong)?.0.value().2;
            let found = own.recordings.get(id).map_err(wrong)?;
            if let Some(found) = found {
                all.push(own.of(decode(found.value())?)?);
            }
        }
        Ok(all)
    }

    /// A recording's.
    pub fn summary(&self, id: u64) -> Result<Option<Summary>> {
        let own = Summaries::new(&self.read()?)?;
        let found = own.recordings.get(id).map_err(wrong)?;
        found.map(|value| own.of(decode(value.value())?)).transpose()
    }
}

impl Changes<'_> {
    /// A catalogue of a version before has no sums.
    pub(crate) fn sum_up(&mut self) -> Result<()> {
        if !self.sums.is_empty().map_err(wrong)? {
            return Ok(());
        }
        let mut all = BTreeMap::<u64, Sums>::new();
        for row in self.segments.iter().map_err(wrong)? {
            let segment: Segment = decode(row.map_err(wrong)?.1.value())?;
            let own = all.entry(segment.recording).or_default();
            *own = own.with(&segment);
        }
        all.into_iter().try_for_each(|(id, own)| self.sums.insert(id, to_sum(own)).map(drop)).map_err(wrong)
    }

    /// What is known of a recording's segments changes.
    pub(crate) fn sum(&mut self, id: u64, change: impl FnOnce(Sums) -> Sums) -> Result<()> {
        self.operations += 2;
        let before = self.sums.get(id).map_err(wrong)?.map(|value| of_sum(value.value())).unwrap_or_default();
        let after = change(before);
        if after.segments == 0 {
            self.sums.remove(id).map_err(wrong)?;
        } else {
            self.sums.insert(id, to_sum(after)).map_err(wrong)?;
        }
        Ok(())
    }
}
