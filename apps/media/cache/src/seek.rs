//! Finding a place in a recording.

use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use crate::format::entry::Entry;
use crate::format::index::Chunk;
use crate::info::Segment;
use crate::reader::Reader;

/// By what a packet is looked for: the first one, in order, that is not before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Npt,
    Clock,
    Sequence,
}

impl By {
    fn of_segment(self, own: &Segment) -> u64 {
        match self {
            By::Npt => own.latest_npt,
            By::Clock => own.latest_clock,
            By::Sequence => own.last_sequence,
        }
    }

    fn of_chunk(self, own: &Chunk) -> u64 {
        match self {
            By::Npt => own.latest_npt,
            By::Clock => own.latest_clock,
            By::Sequence => own.last_sequence,
        }
    }

    fn of_entry(self, own: &Entry) -> u64 {
        match self {
            By::Npt => own.npt,
            By::Clock => own.clock,
            By::Sequence => own.sequence,
        }
    }
}

impl Reader {
    /// The next packet is the first, in order, that came at this time or later, in microseconds since the recording's
    /// start. Behind the last one it is what comes next.
    ///
    /// # Errors
    ///
    /// A file can't be opened or read; so below.
    pub fn seek_npt(&mut self, npt: u64) -> io::Result<()> {
        self.seek(By::Npt, npt)
    }

    /// The same by the wall clock, in microseconds since 1970: where that was set back, the first time it was so late.
    ///
    /// # Errors
    ///
    /// As above.
    pub fn seek_clock(&mut self, clock: u64) -> io::Result<()> {
        self.seek(By::Clock, clock)
    }

    /// The same by sequence number, as [`Entry::sequence`] has it.
    ///
    /// # Errors
    ///
    /// As above.
    pub fn seek_sequence(&mut self, sequence: u64) -> io::Result<()> {
        self.seek(By::Sequence, sequence)
    }

    fn seek(&mut self, by: By, least: u64) -> io::Result<()> {
        self.due = None;
        let mut from = 0;
        while let Some(number) = self.first_segment(from, |own| by.of_segment(own) >= least) {
            if self.open(number)? {
                self.seek_in_segment(by, least)?;
                return Ok(());
            }
            from = number + 1;
        }
        self.go_to_end()
    }

    fn seek_in_segment(&mut self, by: By, least: u64) -> io::Result<()> {
        let Some(current) = &self.current else { return Ok(()) };
        let chunks = current.chunks.clone();
        self.entry = 0;
        self.chunk = chunks.iter().position(|own| by.of_chunk(own) >= least).unwrap_or(chunks.len());
        if let Some(chunk) = chunks.get(self.chunk)
            && let Some(part) = self.part(chunk)?
        {
            self.entry = part.entries.iter().position(|own| by.of_entry(own) >= least).unwrap_or(0);
        }
        Ok(())
    }

    /// Behind all that there is.
    fn go_to_end(&mut self) -> io::Result<()> {
        match self.all_segments().last().map(|own| own.number) {
            Some(number) if self.open(number)? => {
                (self.chunk, self.entry) = (self.current.as_ref().map_or(0, |own| own.chunks.len()), 0);
            }
            number => self.go_to(number.map_or(0, |own| own + 1)),
        }
        Ok(())
    }

    /// The next packet is the last access point that came at this time or earlier, in microseconds since the start; the
    /// first packet where there is none. Whether there was one.
    ///
    /// # Errors
    ///
    /// As above.
    pub fn seek_access_point(&mut self, npt: u64) -> io::Result<bool> {
        self.seek_npt(npt.saturating_add(1))?;
        let mut end = self.entry;
        loop {
            let chunks: Arc<Vec<Arc<Chunk>>> = self.current.as_ref().map(|own| own.chunks.clone()).unwrap_or_default();
            let mut at = self.chunk + usize::from(self.chunk < chunks.len());
            while at > 0 {
                at -= 1;
                let is_first = at == self.chunk;
                if chunks[at].access_points == 0 {
                    continue;
                }
                let before = std::mem::replace(&mut self.chunk, at);
                if let Some(part) = self.part(&chunks[at])? {
                    let end = if is_first { end.min(part.entries.len()) } else { part.entries.len() };
                    if let Some(entry) = part.entries[..end].iter().rposition(|own| own.access_point) {
                        self.entry = entry;
                        return Ok(true);
                    }
                }
                self.chunk = before;
            }
            let number = self.number;
            let all = self.all_segments();
            let before = all.iter().rev().find(|own| own.number < number && own.access_points > 0);
            let Some(before) = before.map(|own| own.number) else {
                self.go_to(0);
                return Ok(false);
            };
            if self.open(before)? {
                self.chunk = self.current.as_ref().map_or(0, |own| own.chunks.len());
            }
            end = 0;
        }
    }

    /// Passes over packets up to the next access point, without reading what is in between; whether there is one yet.
    ///
    /// # Errors
    ///
    /// As above.
    pub fn skip_to_access_point(&mut self) -> io::Result<bool> {
        self.due = None;
        loop {
            if self.current.is_none() && !self.open_next()? {
                return Ok(false);
            }
            let chunks = self.current.as_ref().map(|own| own.chunks.clone()).unwrap_or_default();
            while let Some(chunk) = chunks.get(self.chunk) {
                if chunk.access_points > 0
                    && let Some(part) = self.part(chunk)?
                    && let Some(more) = part.entries[self.entry..].iter().position(|own| own.access_point)
                {
                    self.entry += more;
                    return Ok(true);
                }
                (self.chunk, self.entry) = (self.chunk + 1, 0);
            }
            if self.first_segment(self.number + 1, |_| true).is_none() {
                return Ok(false);
            }
            self.go_to(self.number + 1);
        }
    }

    /// The first segment from a number on that is wanted.
    fn first_segment(&self, from: u32, wanted: impl Fn(&Segment) -> bool) -> Option<u32> {
        self.all_segments().iter().find(|own| own.number >= from && wanted(own)).map(|own| own.number)
    }

    /// The segments in order, with the one that is written.
    pub fn all_segments(&self) -> Vec<Segment> {
        self.live.as_ref().map_or_else(|| self.segments.clone(), |live| live.all_segments())
    }

    /// Reads bytes of the segments as if they were one file, from an offset; how many. A recording of MPEG-TS is a
    /// playable file this way.
    ///
    /// # Errors
    ///
    /// As above; also where a segment was removed meanwhile.
    pub fn read_at(&mut self, mut offset: u64, mut bytes: &mut [u8]) -> io::Result<usize> {
        let mut done = 0;
        for segment in self.all_segments() {
            if offset >= segment.bytes {
                offset -= segment.bytes;
                continue;
            }
            if bytes.is_empty() {
                break;
            }
            let count = bytes.len().min((segment.bytes - offset) as usize);
            let (now, rest) = bytes.split_at_mut(count);
            self.read_segment(segment.number, offset, now)?;
            (bytes, offset, done) = (rest, 0, done + count);
        }
        Ok(done)
    }

    /// Reads bytes of one segment.
    ///
    /// # Errors
    ///
    /// As above.
    pub fn read_segment(&self, number: u32, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        let inner = &self.core.inner;
        let path = inner.layout.segment(self.recording.id, number, self.recording.source.kind);
        std::fs::File::open(path)?.read_exact_at(bytes, offset)
    }

    /// How long a segment is, in microseconds: up to the next one, or to its own last packet.
    pub fn duration(segment: &Segment, next: Option<&Segment>) -> u64 {
        next.map_or(segment.latest_npt, |own| own.first_npt).saturating_sub(segment.first_npt)
    }
}
