//! Where things are in the cache's directory.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::info::{Kind, Recording, Source};

/// The version of the layout.
const VERSION: u32 = 1;
/// The description of a session.
pub const SDP: &str = "session.sdp";
/// What a recording is of.
pub const ABOUT: &str = "recording.toml";
/// Is there where a recording is pinned.
pub const PINNED: &str = "pinned";

/// Paths in a cache.
#[derive(Clone, Debug)]
pub struct Layout {
    /// The cache's directory.
    pub root: PathBuf,
}

/// `recording.toml`.
#[derive(Serialize, Deserialize)]
struct About {
    version: u32,
    /// In microseconds since 1970.
    began: u64,
    source: Source,
}

impl Layout {
    /// Whether there is a cache.
    pub fn is_there(&self) -> bool {
        self.recordings().is_dir() || self.catalogue().exists()
    }

    /// Of all recordings.
    pub fn recordings(&self) -> PathBuf {
        self.root.join("recordings")
    }

    /// The catalogue.
    pub fn catalogue(&self) -> PathBuf {
        self.root.join("catalogue.redb")
    }

    /// Of a recording.
    pub fn recording(&self, id: u64) -> PathBuf {
        self.recordings().join(format!("{id:016x}"))
    }

    /// A segment.
    pub fn segment(&self, id: u64, number: u32, kind: Kind) -> PathBuf {
        self.recording(id).join(format!("{number:08}.{}", kind.extension()))
    }

    /// The index of a segment.
    pub fn index(&self, id: u64, number: u32) -> PathBuf {
        self.recording(id).join(format!("{number:08}.idx"))
    }

    /// The recordings that have a directory, by number.
    pub fn all(&self) -> io::Result<Vec<u64>> {
        let mut all = Vec::new();
        for entry in fs::read_dir(self.recordings())? {
            let name = entry?.file_name();
            let id = name.to_str().filter(|name| name.len() == 16).map(|name| u64::from_str_radix(name, 16));
            all.extend(id.and_then(Result::ok));
        }
        all.sort_unstable();
        Ok(all)
    }

    /// The numbers of a recording's segments, and whether any is MPEG-TS; also of those of which only the index is
    /// left.
    pub fn segments(&self, id: u64) -> io::Result<(Vec<u32>, bool)> {
        let (mut all, mut is_ts) = (Vec::new(), false);
        for entry in fs::read_dir(self.recording(id))? {
            let name = PathBuf::from(entry?.file_name());
            let extension = name.extension().and_then(|own| own.to_str()).unwrap_or_default();
            if !matches!(extension, "ts" | "rtp" | "idx") {
                continue;
            }
            is_ts |= extension == "ts";
            all.extend(name.file_stem().and_then(|own| own.to_str()).and_then(|own| own.parse::<u32>().ok()));
        }
        all.sort_unstable();
        all.dedup();
        Ok((all, is_ts))
    }
}

/// `recording.toml` of a recording.
pub fn about(recording: &Recording) -> String {
    let about = About { version: VERSION, began: recording.began, source: recording.source.clone() };
    toml::to_string(&about).unwrap_or_default()
}

/// A recording, as its directory says; none where the file is lost or damaged.
pub fn read_about(directory: &Path, id: u64) -> Option<Recording> {
    let about: About = toml::from_str(&fs::read_to_string(directory.join(ABOUT)).ok()?).ok()?;
    if about.version != VERSION {
        return None;
    }
    let sdp = fs::read_to_string(directory.join(SDP)).unwrap_or_default();
    let pinned = directory.join(PINNED).exists();
    Some(Recording { id, source: Source { sdp, ..about.source }, began: about.began, end: None, pinned })
}
