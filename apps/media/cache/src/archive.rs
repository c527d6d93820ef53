//! Recordings of a directory, to be read alone: nothing is locked, mended or written there, so a proxy that has the
//! directory is not disturbed. What is being recorded ends with the last block that is on the disk.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use crate::cache::Error;
use crate::format::index::{Chunk, Index};
use crate::info::Recording;
use crate::layout::{Layout, read_about};
use crate::loaded::Loaded;
use crate::mend;
use crate::reader::{Missing, Packet};
use crate::recovery::nameless;

/// See the module.
#[derive(Debug)]
pub struct Archive {
    layout: Layout,
}

/// What a walk over a recording meets.
#[derive(Clone, Copy, Debug)]
pub enum Met<'r> {
    /// A packet.
    Packet(Packet<'r>),
    /// Packets are missing, so many where that is known.
    Gap(Missing, Option<u64>),
}

/// Why a walk has ended before its time.
#[derive(Debug, thiserror::Error)]
pub enum Stopped<E> {
    /// A file can't be read.
    #[error("{0}: {1}")]
    Read(PathBuf, io::Error),
    /// Who was told has had enough.
    #[error("{0}")]
    Told(E),
}

impl Archive {
    /// That of a directory.
    ///
    /// # Errors
    ///
    /// It has no recordings, or can't be read.
    pub fn open(root: &Path) -> Result<Archive, Error> {
        let layout = Layout { root: root.to_owned() };
        let folder = layout.recordings();
        fs::read_dir(&folder).map_err(|error| Error::System(folder, error))?;
        Ok(Archive { layout })
    }

    /// The numbers of all recordings, in order.
    ///
    /// # Errors
    ///
    /// The directory can't be read.
    pub fn all(&self) -> Result<Vec<u64>, Error> {
        self.layout.all().map_err(|error| Error::System(self.layout.recordings(), error))
    }

    /// What a recording is of. Why it ended is not in its directory.
    ///
    /// # Errors
    ///
    /// There is no such recording.
    pub fn recording(&self, id: u64) -> Result<Recording, Error> {
        let (_, is_ts) = self.layout.segments(id).map_err(|_| Error::Unknown(id))?;
        Ok(read_about(&self.layout.recording(id), id).unwrap_or_else(|| nameless(id, is_ts)))
    }

    /// Tells of each packet of a recording, and of those that are missing, in order.
    ///
    /// # Errors
    ///
    /// A file can't be read, or `each` has failed. Damaged bytes are gaps.
    pub fn walk<E>(
        &self,
        recording: &Recording,
        mut each: impl FnMut(Met<'_>) -> Result<(), E>,
    ) -> Result<(), Stopped<E>> {
        let (id, kind) = (recording.id, recording.source.kind);
        let folder = self.layout.recording(id);
        let (numbers, _) = self.layout.segments(id).map_err(|error| Stopped::Read(folder, error))?;
        let loaded = Loaded::default();
        let (mut due, mut last) = (None, None);
        for number in numbers {
            let path = self.layout.segment(id, number, kind);
            let wrong = |error| Stopped::Read(path.clone(), error);
            let file = match File::open(&path) {
                // It was removed meanwhile, and its index is next.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                file => file.map_err(wrong)?,
            };
            let index = fs::read(self.layout.index(id, number)).map_err(wrong)?;
            let is_next = last.is_none_or(|own| own + 1 == number);
            last = Some(number);
            for chunk in Index::decode(&index).chunks {
                let missing = if is_next { Missing::Lost } else { Missing::Removed };
                let Some(part) = part(&loaded, (id, number), &chunk, mend::overhead(kind), &file).map_err(wrong)?
                else {
                    let from = due.unwrap_or(chunk.first.sequence).min(chunk.first.sequence);
                    due = Some(chunk.last_sequence.saturating_add(1));
                    each(Met::Gap(Missing::Damaged, due.and_then(|own| own.checked_sub(from))))
                        .map_err(Stopped::Told)?;
                    continue;
                };
                for (about, begin) in part.entries.iter().zip(&part.places) {
                    let gap = match due.replace(about.sequence.saturating_add(1)) {
                        Some(due) if due == about.sequence => None,
                        Some(_) if about.restart => Some(Met::Gap(Missing::Restart, None)),
                        Some(due) => about.sequence.checked_sub(due).map(|count| Met::Gap(missing, Some(count))),
                        None => None,
                    };
                    gap.map_or(Ok(()), &mut each).map_err(Stopped::Told)?;
                    let bytes = &part.data[*begin as usize..(*begin + about.length) as usize];
                    each(Met::Packet(Packet { about: *about, bytes })).map_err(Stopped::Told)?;
                }
            }
        }
        Ok(())
    }
}

/// A chunk's packets; none where they are not as they were written.
fn part(
    loaded: &Loaded,
    key: (u64, u32),
    chunk: &Chunk,
    overhead: u32,
    file: &File,
) -> io::Result<Option<std::sync::Arc<crate::loaded::Part>>> {
    match loaded.part(key, chunk, overhead, file) {
        Ok(part) => Ok(Some(part)),
        Err(error) if matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof) => Ok(None),
        Err(error) => Err(error),
    }
}
