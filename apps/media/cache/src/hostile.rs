//! For fuzzers: files that somebody else has written are mended as if a crash had left them.

use std::fs;
use std::io;
use std::path::Path;

use crate::format::index::{CHUNK, HEADER};
use crate::info::{Kind, Recording, Segment, Source};
use crate::layout::Layout;
use crate::mend;
use crate::recovery::Report;

/// The number of the recording.
pub const ID: u64 = 1;

/// What is left of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mended {
    /// What is known of it.
    pub segment: Segment,
    /// Its bytes.
    pub data: Vec<u8>,
    /// Its index.
    pub index: Vec<u8>,
    /// Whether anything was lost, or made anew.
    pub is_clean: bool,
}

/// Mends the first segment of a recording in a directory that is this call's alone; none where nothing is left.
///
/// # Errors
///
/// Files can't be written or read.
pub fn mended(root: &Path, kind: Kind, data: &[u8], index: &[u8]) -> io::Result<Option<Mended>> {
    let layout = Layout { root: root.to_owned() };
    let directory = layout.recording(ID);
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory)?;
    fs::write(layout.segment(ID, 0, kind), data)?;
    fs::write(layout.index(ID, 0), index)?;
    let source = Source {
        key: String::new(),
        track: 0,
        kind,
        encoding: "H264".to_owned(),
        clock_rate: 90_000,
        format: String::new(),
        sdp: String::new(),
        film: None,
    };
    let recording = Recording { id: ID, source, began: 1 << 50, end: None, pinned: false };
    let mut report = Report::default();
    let Some(segment) = mend::segment(&layout, &recording, 0, None, &mut report)? else { return Ok(None) };
    let segment = Segment { reference: None, ..segment };
    let (data, index) = (fs::read(layout.segment(ID, 0, kind))?, fs::read(layout.index(ID, 0))?);
    Ok(Some(Mended { segment, data, index, is_clean: report.is_clean() }))
}

/// The checksum of a chunk's bytes.
pub fn checksum(bytes: &[u8]) -> u32 {
    crc32fast::hash(bytes)
}

/// Makes the checksums of an index right, so that what it says is looked at.
pub fn seal(index: &mut [u8]) {
    let Some(head) = index.get_mut(..HEADER) else { return };
    let checksum = crc32fast::hash(&head[..HEADER - 4]);
    head[HEADER - 4..].copy_from_slice(&checksum.to_le_bytes());
    let mut at = HEADER;
    while let Some(rest) = index.get_mut(at..).filter(|rest| rest.len() >= CHUNK) {
        let entries = u32::from_le_bytes([rest[4], rest[5], rest[6], rest[7]]) as usize;
        let Some(whole) = rest.get_mut(..CHUNK.saturating_add(entries)) else { return };
        let checksum = crc32fast::hash(&whole[12..]);
        whole[8..12].copy_from_slice(&checksum.to_le_bytes());
        at += whole.len();
    }
}
