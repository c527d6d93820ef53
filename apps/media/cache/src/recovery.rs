//! What a crash has left is made whole, and what is missing is made anew from what is there.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::catalogue::{Catalogue, Error};
use crate::info::{End, Kind, Recording, Segment, Source};
use crate::inner::now;
use crate::layout::{ABOUT, Layout, about, read_about};
use crate::mend;

/// Something about a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Note {
    /// The file, or directory.
    pub path: PathBuf,
    /// What is the matter.
    pub what: String,
}

/// What was looked at, and what was found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Recordings that were looked at.
    pub recordings: u64,
    /// Their segments.
    pub segments: u64,
    /// Segments that were whole.
    pub whole: u64,
    /// What was made whole without a loss, or is by now.
    pub mended: Vec<Note>,
    /// What is lost.
    pub lost: Vec<Note>,
    /// How many bytes that is.
    pub lost_bytes: u64,
    /// Whether the catalogue was made anew.
    pub rebuilt: bool,
}

impl Report {
    /// Whether nothing was found.
    pub fn is_clean(&self) -> bool {
        self.mended.is_empty() && self.lost.is_empty()
    }

    pub(crate) fn mended(&mut self, path: PathBuf, what: impl Into<String>) {
        self.mended.push(Note { path, what: what.into() });
    }

    pub(crate) fn lost(&mut self, path: PathBuf, what: impl Into<String>, bytes: u64) {
        self.lost.push(Note { path, what: what.into() });
        self.lost_bytes += bytes;
    }
}

/// Opens the catalogue, or makes a new one where that fails, and mends what was written when the process ended.
///
/// # Errors
///
/// No catalogue can be made, or the directory can't be read.
pub fn open(layout: &Layout) -> Result<(Catalogue, Report), Error> {
    let path = layout.catalogue();
    let was_there = path.exists();
    let opened = Catalogue::open(&path);
    let (catalogue, problem) = match opened {
        Ok(catalogue) => (catalogue, (!was_there).then(|| "was not there".to_owned())),
        Err(error) => {
            fs::remove_file(&path).map_err(|own| Error::of(format!("{error}; it can't be removed: {own}")))?;
            (Catalogue::open(&path)?, Some(error.to_string()))
        }
    };
    let is_new = problem.is_some();
    let mut report = all(layout, &catalogue, is_new, &HashSet::new())?;
    if let Some(problem) = problem.filter(|_| was_there || report.recordings > 0) {
        report.mended(path, format!("the catalogue {problem}: made anew from the segments"));
        report.rebuilt = true;
    }
    Ok((catalogue, report))
}

/// Mends recordings, but for some: all of them, or those that the catalogue does not know, or as unfinished.
pub(crate) fn all(layout: &Layout, catalogue: &Catalogue, every: bool, but: &HashSet<u64>) -> Result<Report, Error> {
    let mut report = Report::default();
    let there = layout.all().map_err(Error::of)?;
    let known: HashSet<u64> = catalogue.recordings()?.into_iter().map(|own| own.id).collect();
    let unfinished: HashSet<u64> = catalogue.unfinished()?.into_iter().collect();
    let is_suspect = |id: &&u64| every || unfinished.contains(id) || !known.contains(id);
    for id in there.iter().filter(|id| !but.contains(id)).filter(is_suspect) {
        recording(layout, catalogue, *id, &mut report)?;
    }
    // What has no directory any more.
    let there: HashSet<u64> = there.into_iter().collect();
    for id in known.difference(&there).filter(|id| !but.contains(id)) {
        let segments = catalogue.segments(*id)?;
        catalogue.change(|changes| {
            for segment in &segments {
                changes.remove_segment(*id, segment.number)?;
            }
            changes.remove_recording(*id)
        })?;
        let bytes = segments.iter().map(Segment::size).sum();
        if bytes > 0 {
            report.lost(layout.recording(*id), "the recording is gone", bytes);
        }
    }
    Ok(report)
}

/// Mends a recording, and puts it into the catalogue.
fn recording(layout: &Layout, catalogue: &Catalogue, id: u64, report: &mut Report) -> Result<(), Error> {
    let directory = layout.recording(id);
    let (numbers, is_ts) = layout.segments(id).map_err(Error::of)?;
    report.recordings += 1;
    let own = match read_about(&directory, id) {
        Some(own) => own,
        None => named(&directory, catalogue.recording(id)?, nameless(id, is_ts), report),
    };
    let known = catalogue.segments(id)?;
    let (mut before, mut segments): (Option<Segment>, Vec<Segment>) = (None, Vec::new());
    let mut unread = false;
    for number in numbers {
        report.segments += 1;
        match mend::segment(layout, &own, number, before.as_ref(), report) {
            Ok(Some(segment)) => {
                before = Some(segment.clone());
                segments.push(segment);
            }
            Ok(None) => {}
            // It is left as it is, in the catalogue, too: whoever may read it, or another disk, finds it there.
            Err(error) => {
                unread = true;
                segments.extend(known.iter().find(|own| own.number == number).cloned());
                report.lost(layout.segment(id, number, own.source.kind), error.to_string(), 0);
            }
        }
    }
    // What is as it should be keeps the time of its last use.
    if known == segments && !known.is_empty() && catalogue.recording(id)?.is_some_and(|own| own.end.is_some()) {
        return Ok(());
    }
    let time = now();
    catalogue.change(|changes| {
        for segment in &known {
            changes.remove_segment(id, segment.number)?;
        }
        let end = changes.recording(id)?.and_then(|own| own.end).unwrap_or(End::Interrupted);
        changes.put_recording(&Recording { end: Some(end), ..own })?;
        for segment in &segments {
            changes.put_segment(segment, time)?;
        }
        if segments.is_empty() { changes.remove_recording(id) } else { Ok(()) }
    })?;
    if segments.is_empty() && !unread {
        // What can't be removed is found again.
        let _ = fs::remove_dir_all(&directory);
    }
    Ok(())
}

/// A recording whose [`ABOUT`] is lost, as the catalogue knows it, or else by its number. What can't be read stays as
/// it is: another version of this program may read it.
fn named(directory: &Path, known: Option<Recording>, nameless: Recording, report: &mut Report) -> Recording {
    let path = directory.join(ABOUT);
    let is_lost = !path.exists();
    let (own, what) = match known {
        Some(own) => (own, "as the catalogue has it"),
        None => (nameless, "the recording has its number as its key"),
    };
    let is_written = is_lost && fs::write(&path, about(&own)).is_ok();
    let fate = match (is_lost, is_written) {
        (true, true) => "lost, and made anew",
        (true, false) => "lost",
        (false, _) => "can't be read",
    };
    report.mended(path, format!("{fate}: {what}"));
    own
}

/// A recording of which nothing but its segments is known.
pub(crate) fn nameless(id: u64, is_ts: bool) -> Recording {
    let source = Source {
        key: format!("{id:016x}"),
        track: 0,
        kind: if is_ts { Kind::Mp2t } else { Kind::Rtp },
        encoding: String::new(),
        clock_rate: 90_000,
        format: String::new(),
        film: None,
        sdp: String::new(),
    };
    Recording { id, source, began: id, end: None, pinned: false }
}
