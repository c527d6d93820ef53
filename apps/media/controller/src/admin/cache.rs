//! Queries about recordings. They are answered by the catalogue, a page at a time, as the proxy waits for them.

use control::application::{Answer, QueryError};
use media_cache::{Cache, End, Error, Segment, Summary};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};
use wire::sdp::Description;

/// Recordings, or segments, of an answer at most.
pub const PAGE: usize = 256;

/// A recording as operators see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordingState {
    /// Its number.
    pub id: u64,
    /// The stream's name.
    pub stream: String,
    /// The track's place in its description.
    pub track: u16,
    /// What it is coded as.
    pub encoding: String,
    /// When it began, in milliseconds since 1970.
    pub began_ms: u64,
    /// How long it is.
    pub length_ms: u64,
    /// Packets in it.
    pub packets: u64,
    /// Packets that are missing.
    pub lost: u64,
    /// Bytes on the disk.
    pub bytes: u64,
    /// Whether it is never removed to make room.
    pub pinned: bool,
    /// Why it ended; none: it is written now.
    pub ended: Option<String>,
}

/// Which recordings are asked for: those behind one, [`PAGE`] at most.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Page {
    /// Its number; 0: all of them.
    #[serde(default)]
    pub behind: u64,
}

/// A segment as operators see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentState {
    /// Its number. One that is left out was removed to make room.
    pub number: u32,
    /// When it began, in milliseconds since 1970.
    pub began_ms: u64,
    /// How long it is.
    pub length_ms: u64,
    /// Packets in it.
    pub packets: u64,
    /// Packets that are missing.
    pub lost: u64,
    /// At how many of its packets a decoder can begin.
    pub access_points: u64,
    /// Bytes on the disk.
    pub bytes: u64,
}

/// All of a recording.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordingShown {
    /// What lists have of it.
    pub recording: RecordingState,
    /// The tracks of its session: what they are, and what they are coded as.
    pub tracks: Vec<String>,
    /// Its segments from a number on, [`PAGE`] at most.
    pub segments: Vec<SegmentState>,
}

/// Which recording is to be shown, and from which segment on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Show {
    /// Its number.
    pub id: u64,
    /// The number of the first segment.
    #[serde(default)]
    pub from: u32,
}

/// Which recording is meant, and whether it is to be pinned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pin {
    /// Its number.
    pub id: u64,
    /// Whether it is.
    pub pinned: bool,
}

/// Which recording is to be removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Remove {
    /// Its number.
    pub id: u64,
}

fn failed(error: &Error) -> QueryError {
    match error {
        Error::Unknown(id) => QueryError::NotFound(format!("there is no recording {id}")),
        _ => QueryError::Bad(error.to_string()),
    }
}

fn state(own: Summary) -> RecordingState {
    let length = own.length();
    let Summary { recording, sums, .. } = own;
    RecordingState {
        id: recording.id,
        stream: recording.source.key,
        track: recording.source.track,
        encoding: recording.source.encoding,
        began_ms: recording.began / 1000,
        length_ms: length / 1000,
        packets: sums.packets,
        lost: sums.lost,
        bytes: sums.bytes,
        pinned: recording.pinned,
        ended: recording.end.map(|end: End| end.name().to_owned()),
    }
}

fn segment(own: &Segment) -> SegmentState {
    SegmentState {
        number: own.number,
        began_ms: own.first_clock / 1000,
        length_ms: own.latest_npt.saturating_sub(own.first_npt) / 1000,
        packets: own.packets,
        lost: own.lost,
        access_points: own.access_points,
        bytes: own.size(),
    }
}

/// Answers a query; none: it is not about recordings.
pub fn answer(cache: Option<&Cache>, name: &str, with: &Json) -> Option<Answer> {
    if !["cache", "recording", "pin", "remove"].contains(&name) {
        return None;
    }
    let Some(cache) = cache else {
        return Some(Err(QueryError::NotFound("nothing is recorded: there is no `cache` in the configuration".into())));
    };
    Some(match name {
        "cache" => all(cache, with),
        "recording" => show(cache, with),
        "pin" => read(with).and_then(|own: Pin| {
            cache.pin(own.id, own.pinned).map_err(|error| failed(&error))?;
            Ok(json!({ "id": own.id, "pinned": own.pinned }))
        }),
        _ => read(with).and_then(|own: Remove| {
            cache.remove(own.id).map_err(|error| failed(&error))?;
            Ok(json!({ "removed": own.id }))
        }),
    })
}

fn read<T: DeserializeOwned>(with: &Json) -> Result<T, QueryError> {
    T::deserialize(with).map_err(|error| QueryError::Bad(error.to_string()))
}

fn shown(value: &impl Serialize) -> Answer {
    serde_json::to_value(value).map_err(|error| QueryError::Bad(error.to_string()))
}

fn all(cache: &Cache, with: &Json) -> Answer {
    let Page { behind } = if with.is_null() { Page::default() } else { read(with)? };
    let page = cache.summaries(behind, PAGE).map_err(|error| failed(&error))?;
    shown(&page.into_iter().map(state).collect::<Vec<_>>())
}

fn show(cache: &Cache, with: &Json) -> Answer {
    let Show { id, from } = read(with)?;
    let known = cache.summary(id).map_err(|error| failed(&error))?;
    let description = cache.description(id).map_err(|error| failed(&error))?;
    let description = Description::parse(description.as_bytes());
    let track = |own: &Description, at: usize| {
        let coded = own.encoding(at).map_or_else(String::new, |name| format!(" {name}"));
        let rate = own.clock_rate(at).map_or_else(String::new, |rate| format!("/{rate}"));
        format!("{}{coded}{rate}", own.media_kind(at))
    };
    let tracks = description.map_or_else(|_| Vec::new(), |own| (0..own.media()).map(|at| track(&own, at)).collect());
    let segments = cache.segments_from(id, from, PAGE).map_err(|error| failed(&error))?;
    shown(&RecordingShown { recording: state(known), tracks, segments: segments.iter().map(segment).collect() })
}
