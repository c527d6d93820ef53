//! A segment as an open file: what a server of files needs. It is not removed meanwhile.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use crate::cache::{Cache, Error};
use crate::core::Core;
use crate::info::{Kind, Segment};
use crate::keeper::Event;
use crate::live::Live;

/// A whole segment that is open.
pub struct SegmentFile {
    core: Arc<Core>,
    file: File,
    about: Segment,
    key: String,
    kind: Kind,
}

impl fmt::Debug for SegmentFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SegmentFile").field("about", &self.about).finish_non_exhaustive()
    }
}

impl SegmentFile {
    /// What is known of it. Its bytes never change.
    pub fn about(&self) -> &Segment {
        &self.about
    }

    /// The key of its recording.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// What its packets are.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Reads bytes from an offset on, as many as there is room for.
    ///
    /// # Errors
    ///
    /// It can't be read, or ends before.
    pub fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(bytes, offset)
    }
}

impl Drop for SegmentFile {
    fn drop(&mut self) {
        self.core.inner.end_use(self.about.recording, self.about.number);
    }
}

impl Cache {
    /// What is known of a segment, with the key and the kind of its recording; `of_live` finds it in one that goes on.
    fn segment(
        &self,
        id: u64,
        number: u32,
        of_live: impl FnOnce(&Live, u32) -> Option<Segment>,
    ) -> Result<Option<(Segment, String, Kind)>, Error> {
        let inner = &self.core.inner;
        if let Some((live, recording)) = inner.live(id) {
            let source = &recording.source;
            return Ok(of_live(&live, number).map(|own| (own, source.key.clone(), source.kind)));
        }
        Ok(inner.reading(|catalogue| {
            let segment = catalogue.segments_from(id, number, 1)?.pop().filter(|own| own.number == number);
            let recording = catalogue.recording(id)?;
            Ok(segment.zip(recording).map(|(segment, own)| (segment, own.source.key, own.source.kind)))
        })?)
    }

    /// The first bytes of a segment, so many at most, also of the one that is written; none where there is none yet, or
    /// none any more.
    ///
    /// # Errors
    ///
    /// The catalogue, or the file, can't be read.
    pub fn first_bytes(&self, id: u64, number: u32, most: usize) -> Result<Option<Vec<u8>>, Error> {
        let found = self.segment(id, number, Live::any_segment)?.filter(|(about, ..)| about.bytes != 0);
        let Some((about, _, kind)) = found else { return Ok(None) };
        let path = self.core.inner.layout.segment(id, number, kind);
        let mut bytes = vec![0; most.min(about.bytes as usize)];
        match File::open(&path).and_then(|file| file.read_exact_at(&mut bytes, 0)) {
            Ok(()) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::System(path, error)),
        }
    }

    /// Opens a segment that is whole; none where there is none, or none any more.
    ///
    /// # Errors
    ///
    /// The catalogue, or the file, can't be read.
    pub fn open_segment(&self, id: u64, number: u32) -> Result<Option<SegmentFile>, Error> {
        let inner = &self.core.inner;
        let Some((about, key, kind)) = self.segment(id, number, Live::segment)? else { return Ok(None) };
        if !inner.begin_use(id, number) {
            return Ok(None);
        }
        let path = inner.layout.segment(id, number, kind);
        match File::open(&path) {
            Ok(file) => {
                inner.tell(Event::Used(id, number));
                Ok(Some(SegmentFile { core: self.core.clone(), file, about, key, kind }))
            }
            Err(error) => {
                inner.end_use(id, number);
                if error.kind() == io::ErrorKind::NotFound { Ok(None) } else { Err(Error::System(path, error)) }
            }
        }
    }
}
