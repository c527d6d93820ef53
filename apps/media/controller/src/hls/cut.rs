//! Where segments are cut for players. Datagrams are recorded as a whole, and an access point may begin in the middle
//! of one: what is in front of it is the end of the segment before. hls.js, which takes that for a picture, plays
//! nothing behind the first segment otherwise.

use std::ops::Range;

use hyper::body::Bytes;
use media_cache::{Cache, Segment, SegmentFile};

use super::body::Part;

/// Bytes of a packet of MPEG-TS.
const TS: usize = 188;
/// Packets in front of an access point at most: a datagram has seven mostly.
const MOST: usize = 16;

/// How many of these bytes, the first of a segment, lie in front of its access point, or of the tables in front of that
/// (ISO/IEC 13818-1 section 2.4.3); none where there is none.
fn ahead(bytes: &[u8]) -> usize {
    let begins = |packet: &[u8]| {
        let starts = packet[1] & 0x40 != 0;
        let is_table = packet[1] & 0x1f == 0 && packet[2] == 0;
        let is_random = packet[3] & 0x20 != 0 && packet[4] != 0 && packet[5] & 0x40 != 0;
        packet[0] == 0x47 && starts && (is_table || is_random)
    };
    bytes.chunks_exact(TS).position(begins).map_or(0, |at| at * TS)
}

/// A segment as players get it: without what is in front of its access point, and with that of the next one.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Cut {
    file: Range<u64>,
    tail: Bytes,
}

impl Cut {
    /// Finds it; none where it is not known yet what follows the segment.
    ///
    /// # Errors
    /// The segment, or the cache, can't be read.
    pub(super) fn of(cache: &Cache, file: &SegmentFile) -> Result<Option<Cut>, String> {
        let Segment { recording: id, number, bytes: length, .. } = *file.about();
        let first = |number: u32| cache.first_bytes(id, number, MOST * TS).map_err(|error| error.to_string());
        let mut own = vec![0; (MOST * TS).min(length as usize)];
        file.read_at(0, &mut own).map_err(|error| error.to_string())?;
        let is_over = || cache.summary(id).is_ok_and(|own| own.recording.end.is_some());
        // It may have gone on since that was asked.
        let next = match first(number + 1)? {
            None if !is_over() => return Ok(None),
            None => first(number + 1)?.unwrap_or_default(),
            Some(next) => next,
        };
        let skip = ahead(&own) as u64;
        let tail = Bytes::copy_from_slice(&next[..ahead(&next)]);
        Ok(Some(Cut { file: skip.min(length)..length, tail }))
    }

    /// One of a file of a length alone.
    #[cfg(test)]
    pub(super) fn whole(length: u64) -> Cut {
        Cut { file: 0..length, tail: Bytes::new() }
    }

    /// Its bytes.
    pub(super) fn length(&self) -> u64 {
        self.file.end - self.file.start + self.tail.len() as u64
    }

    /// Some of them.
    pub(super) fn parts(&self, range: Range<u64>) -> Vec<Part> {
        let of_file = self.file.end - self.file.start;
        let file = self.file.start + range.start.min(of_file)..self.file.start + range.end.min(of_file);
        let tail = range.start.saturating_sub(of_file) as usize..range.end.saturating_sub(of_file) as usize;
        let parts = [Part::File(file), Part::Text(self.tail.slice(tail))];
        parts.into_iter().filter(|own| own.length() != 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packets(all: &[[u8; 6]]) -> Vec<u8> {
        all.iter().flat_map(|own| own.iter().copied().chain([0; TS - 6])).collect()
    }

    #[test]
    fn an_access_point_is_found_with_its_tables() {
        let (picture, table) = ([0x47, 1, 0, 0x10, 0, 0], [0x47, 0x40, 0, 0x10, 0, 0]);
        let (begins, random) = ([0x47, 0x41, 0, 0x10, 0, 0x40], [0x47, 0x41, 0, 0x30, 7, 0x50]);
        for (all, at) in [
            (&[picture, begins, table, random][..], 2),
            (&[picture, random], 1),
            (&[random, table], 0),
            (&[picture, begins], 0),
            (&[], 0),
        ] {
            assert_eq!(ahead(&packets(all)), at * TS, "{all:?}");
        }
        assert_eq!(ahead(&packets(&[picture, table])[..300]), 0, "a part of a packet");
    }

    #[test]
    fn ranges_are_of_both_files() {
        let cut = Cut { file: 100..1000, tail: Bytes::from_static(b"0123456789") };
        let shown = |range: Range<u64>| {
            let text = |own: &Part| match own {
                Part::Text(bytes) => String::from_utf8(bytes.to_vec()).unwrap(),
                Part::File(range) => format!("<{}..{}>", range.start, range.end),
            };
            cut.parts(range).iter().map(text).collect::<String>()
        };
        assert_eq!(cut.length(), 910);
        for (range, expected) in [
            (0..910, "<100..1000>0123456789"),
            (0..900, "<100..1000>"),
            (10..20, "<110..120>"),
            (890..903, "<990..1000>012"),
            (902..905, "234"),
        ] {
            assert_eq!(shown(range.clone()), expected, "{range:?}");
        }
    }
}
