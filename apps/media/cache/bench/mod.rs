//! `bench cache`: what recording costs, and what a full catalogue does to it.
//!
//! | file | what |
//! |---|---|
//! | `record` | a stream of 1 Gbit/s to a disk, against one write for each packet |
//! | `entries` | operations with 10, 1000, 100 000 segments in the catalogue |
//! | `forwarding` | how much a stream in the kernel is slowed where it is recorded |
//! | `http` | segments by HTTP, against nginx with the same files |
//! | `rtsp` | a recorded film by RTSP, against VLC's server with the same film |
//! | `many` | 40 streams that are recorded while 400 viewers are served by HTTP |
//! | `client`, `files`, `cost` | who asks for segments; what there is on the disk; what serving costs |

mod client;
mod cost;
mod entries;
mod files;
mod forwarding;
mod http;
mod many;
mod record;
mod rtsp;

use std::path::{Path, PathBuf};

use crate::results::Results;
use crate::{Effort, text};

/// A directory that ends with the measurement.
struct Directory(PathBuf);

impl Directory {
    /// On the disk that is to be measured: `DIRECTORY`, or `target/bench`.
    fn new(name: &str) -> Result<Directory, String> {
        Directory::at(&std::env::var_os("DIRECTORY").map_or_else(|| PathBuf::from("target/bench"), PathBuf::from), name)
    }

    /// Where other users may read.
    fn of_all(name: &str) -> Result<Directory, String> {
        Directory::at(&std::env::temp_dir(), name)
    }

    fn at(on: &Path, name: &str) -> Result<Directory, String> {
        let path = on.join(format!("cache-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).map_err(text)?;
        Ok(Directory(path))
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Runs all parts, or those that `PART=record` names: record, entries, forwarding, http,
/// rtsp, many.
pub fn run(effort: Effort) -> Result<Results, String> {
    let mut results = Results::default();
    let parts = std::env::var("PART").unwrap_or_default();
    let wanted = |part: &str| parts.is_empty() || parts.split(',').any(|named| named == part);
    if wanted("record") {
        record::measure(effort, &mut results)?;
    }
    if wanted("entries") {
        entries::measure(effort, &mut results)?;
    }
    let live = lab::has_privileges().map_err(text)? && std::thread::available_parallelism().map_or(1, |n| n.get()) > 1;
    if !live {
        results.note("forwarding, http, rtsp, many: not measured, they need root and two CPUs");
    }
    if live && wanted("forwarding") {
        forwarding::measure(effort, &mut results)?;
    }
    if live && wanted("http") {
        http::measure(effort, &mut results)?;
    }
    if live && wanted("rtsp") {
        rtsp::measure(effort, &mut results)?;
    }
    if live && wanted("many") {
        many::measure(effort, &mut results)?;
    }
    Ok(results)
}

/// What is recorded here.
fn source(key: &str) -> media_cache::Source {
    media_cache::Source {
        key: key.to_owned(),
        track: 0,
        kind: media_cache::Kind::Mp2t,
        encoding: "MP2T".to_owned(),
        clock_rate: 90_000,
        format: String::new(),
        film: None,
        sdp: String::new(),
    }
}

/// An RTP packet of MPEG-TS with a number.
fn packet(number: u64) -> Vec<u8> {
    let mut bytes = vec![0x80, 33];
    bytes.extend((number as u16).to_be_bytes());
    bytes.extend((number as u32).to_be_bytes());
    bytes.extend([0, 0, 0, 1]);
    for _ in 0..7 {
        bytes.extend([0x47, 1, 0, 0x10]);
        bytes.extend([number as u8; 184]);
    }
    bytes
}
