//! Reading a recording, packet by packet, also while it is written.

use std::fs::{self, File};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use crate::core::Core;
use crate::format::entry::Entry;
use crate::format::index::{Chunk, Index};
use crate::info::{End, Recording, Segment};
use crate::keeper::Event;
use crate::live::{Live, Written};
use crate::loaded::Part;
use crate::mend;

/// A recorded packet.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'r> {
    /// All that is known of it.
    pub about: Entry,
    /// The payload in recordings of MPEG-TS, else the whole RTP packet.
    pub bytes: &'r [u8],
}

/// Why packets are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Missing {
    /// They never came.
    Lost,
    /// Their bytes on the disk are not as they were written.
    Damaged,
    /// Their segments were removed.
    Removed,
    /// The sender has begun anew; whether any is missing is not known.
    Restart,
}

/// What comes next.
#[derive(Clone, Copy, Debug)]
pub enum Item<'r> {
    /// A packet.
    Packet(Packet<'r>),
    /// Packets are missing here, so many if that is known.
    Gap(Missing, Option<u64>),
    /// Nothing yet: the recording goes on.
    Pending,
    /// Nothing more; why the recording ended.
    End(End),
}

/// An item without its bytes.
enum Step {
    Packet,
    Gap(Missing, Option<u64>),
    Pending,
    End(End),
}

/// Reads a recording. What it is at is not removed meanwhile.
#[derive(Debug)]
pub struct Reader {
    pub(crate) core: Arc<Core>,
    pub(crate) recording: Arc<Recording>,
    pub(crate) live: Option<Arc<Live>>,
    /// Those of a recording that has ended.
    pub(crate) segments: Vec<Segment>,
    /// The segment that is read, or comes next.
    pub(crate) number: u32,
    pub(crate) current: Option<Current>,
    /// The chunk and the packet that come next.
    pub(crate) chunk: usize,
    pub(crate) entry: usize,
    /// The sequence number that is due; none after a seek.
    pub(crate) due: Option<u64>,
    /// Why it may not come.
    missing: Missing,
}

/// An open segment.
#[derive(Debug)]
pub(crate) struct Current {
    file: File,
    pub(crate) chunks: Arc<Vec<Arc<Chunk>>>,
    /// All chunks are there.
    is_whole: bool,
    /// The block that is read, and its chunk.
    part: Option<(usize, Arc<Part>)>,
}

impl Reader {
    pub(crate) fn new(
        core: Arc<Core>,
        recording: Arc<Recording>,
        live: Option<Arc<Live>>,
        segments: Vec<Segment>,
    ) -> Reader {
        let mut reader = Reader {
            core,
            recording,
            live,
            segments,
            number: 0,
            current: None,
            chunk: 0,
            entry: 0,
            due: None,
            missing: Missing::Lost,
        };
        reader.go_to(0);
        reader
    }

    /// The recording.
    pub fn recording(&self) -> &Recording {
        &self.recording
    }

    /// What comes next.
    ///
    /// # Errors
    ///
    /// A file can't be opened or read. Damaged bytes are gaps, not errors.
    pub fn next_item(&mut self) -> io::Result<Item<'_>> {
        Ok(match self.step()? {
            Step::Gap(missing, count) => Item::Gap(missing, count),
            Step::Pending => Item::Pending,
            Step::End(end) => Item::End(end),
            Step::Packet => {
                let (_, part) = self.current.as_ref().and_then(|own| own.part.as_ref()).ok_or(io::ErrorKind::Other)?;
                let at = self.entry - 1;
                let about = part.entries[at];
                let begin = part.places[at] as usize;
                Item::Packet(Packet { about, bytes: &part.data[begin..begin + about.length as usize] })
            }
        })
    }

    /// Waits until there may be more than there was, or the time is over.
    pub fn wait(&self, longest: Duration) {
        if let Some(live) = &self.live {
            let seen = live.written().changes;
            if !self.has_more(&live.written()) {
                live.wait(seen, longest);
            }
        }
    }

    /// Counts what is written while the recording is in progress: behind [`Item::Pending`] there is nothing to read
    /// before it is another number. None where nothing is written.
    pub fn changes(&self) -> Option<u64> {
        self.live.as_ref().map(|live| live.written().changes)
    }

    fn has_more(&self, written: &Written) -> bool {
        let open = written.open.as_ref().filter(|(number, _)| *number == self.number);
        match open {
            Some((_, chunks)) => chunks.len() > self.chunk,
            None => self.current.is_some() || written.segments.iter().any(|own| own.number >= self.number),
        }
    }

    fn step(&mut self) -> io::Result<Step> {
        loop {
            if self.current.is_none() && !self.open_next()? {
                return Ok(self.at_end());
            }
            let Some(current) = &mut self.current else { continue };
            let Some(chunk) = current.chunks.get(self.chunk).cloned() else {
                if current.is_whole {
                    self.leave();
                    self.go_to(self.number + 1);
                } else if !self.refresh()? {
                    return Ok(self.at_end());
                }
                continue;
            };
            let Some(part) = self.part(&chunk)? else {
                // What is missing before it is told first.
                let due = self.due.replace(chunk.first.sequence);
                if let Some(count) = due.and_then(|due| chunk.first.sequence.checked_sub(due)).filter(|own| *own > 0) {
                    return Ok(Step::Gap(std::mem::replace(&mut self.missing, Missing::Lost), Some(count)));
                }
                self.chunk += 1;
                self.entry = 0;
                self.due = Some(chunk.last_sequence.saturating_add(1));
                // With those that never came among them.
                return Ok(Step::Gap(
                    Missing::Damaged,
                    Some((chunk.last_sequence.saturating_add(1)).saturating_sub(chunk.first.sequence)),
                ));
            };
            let Some(entry) = part.entries.get(self.entry).copied() else {
                self.chunk += 1;
                self.entry = 0;
                continue;
            };
            let due = self.due.replace(entry.sequence);
            let missing = std::mem::replace(&mut self.missing, Missing::Lost);
            if due.is_some() && missing != Missing::Removed && entry.restart && due != Some(entry.sequence) {
                return Ok(Step::Gap(Missing::Restart, None));
            }
            if let Some(count) = due.and_then(|due| entry.sequence.checked_sub(due)).filter(|count| *count > 0) {
                return Ok(Step::Gap(missing, Some(count)));
            }
            self.due = Some(entry.sequence.saturating_add(1));
            self.entry += 1;
            return Ok(Step::Packet);
        }
    }

    fn at_end(&self) -> Step {
        let end = match &self.live {
            Some(live) => live.written().end,
            None => Some(self.recording.end.unwrap_or(End::Interrupted)),
        };
        end.map_or(Step::Pending, Step::End)
    }

    /// The next packet is the first of this segment, or of the next one that there is.
    pub(crate) fn go_to(&mut self, number: u32) {
        self.leave();
        (self.number, self.chunk, self.entry) = (number, 0, 0);
    }

    fn leave(&mut self) {
        if self.current.take().is_some() {
            self.core.inner.end_use(self.recording.id, self.number);
        }
    }

    /// The first segment from this number on.
    fn first_from(&self, number: u32) -> Option<u32> {
        match &self.live {
            None => {
                let at = self.segments.partition_point(|own| own.number < number);
                self.segments.get(at).map(|own| own.number)
            }
            Some(live) => {
                let written = live.written();
                let at = written.segments.partition_point(|own| own.number < number);
                let open = written.open.as_ref().map(|(own, _)| *own).filter(|own| *own >= number);
                written.segments.get(at).map(|own| own.number).or(open)
            }
        }
    }

    /// Opens the segment that comes next; whether there is one.
    pub(crate) fn open_next(&mut self) -> io::Result<bool> {
        while let Some(number) = self.first_from(self.number) {
            // Of what is written numbers have no gaps but those.
            if self.live.is_some() && number > self.number {
                self.missing = Missing::Removed;
            }
            if self.open(number)? {
                return Ok(true);
            }
            // It was removed.
            self.missing = Missing::Removed;
            self.number = number + 1;
        }
        Ok(false)
    }

    /// Opens a segment; whether it is there.
    pub(crate) fn open(&mut self, number: u32) -> io::Result<bool> {
        let id = self.recording.id;
        self.leave();
        if number != self.number {
            (self.chunk, self.entry) = (0, 0);
        }
        self.number = number;
        if !self.core.inner.begin_use(id, number) {
            return Ok(false);
        }
        let path = self.core.inner.layout.segment(id, number, self.recording.source.kind);
        let opened = File::open(&path).and_then(|file| {
            let (chunks, is_whole) = self.chunks()?;
            Ok(Current { file, chunks, is_whole, part: None })
        });
        match opened {
            Ok(current) => {
                self.current = Some(current);
                self.core.inner.tell(Event::Used(id, number));
                Ok(true)
            }
            Err(error) => {
                self.core.inner.end_use(id, number);
                if error.kind() == io::ErrorKind::NotFound { Ok(false) } else { Err(error) }
            }
        }
    }

    /// The chunks of the segment, and whether these are all.
    fn chunks(&self) -> io::Result<(Arc<Vec<Arc<Chunk>>>, bool)> {
        if let Some(live) = &self.live {
            let written = live.written();
            if let Some((_, chunks)) = written.open.as_ref().filter(|(own, _)| *own == self.number) {
                return Ok((Arc::new(chunks.clone()), false));
            }
        }
        let inner = &self.core.inner;
        let id = self.recording.id;
        let chunks = inner.loaded.index((id, self.number), || {
            let bytes = fs::read(inner.layout.index(id, self.number))?;
            Ok(Index::decode(&bytes).chunks.into_iter().map(Arc::new).collect())
        })?;
        Ok((chunks, true))
    }

    /// Takes the chunks that were written meanwhile; whether there are any, or the segment is whole.
    fn refresh(&mut self) -> io::Result<bool> {
        let (chunks, is_whole) = self.chunks()?;
        let Some(current) = &mut self.current else { return Ok(false) };
        let more = chunks.len() > current.chunks.len() || is_whole;
        (current.chunks, current.is_whole) = (chunks, is_whole);
        Ok(more)
    }

    /// The packets of the chunk that is read; none where it is damaged.
    pub(crate) fn part(&mut self, chunk: &Chunk) -> io::Result<Option<Arc<Part>>> {
        let (at, key) = (self.chunk, (self.recording.id, self.number));
        let overhead = mend::overhead(self.recording.source.kind);
        let Some(current) = &mut self.current else { return Ok(None) };
        if let Some((_, part)) = current.part.as_ref().filter(|(own, _)| *own == at) {
            return Ok(Some(part.clone()));
        }
        match self.core.inner.loaded.part(key, chunk, overhead, &current.file) {
            Ok(part) => {
                current.part = Some((at, part.clone()));
                Ok(Some(part))
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.leave();
    }
}
