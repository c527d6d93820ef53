//! Queries about recordings.

use control::application::{Answer, QueryError};
use media_cache::{Cache, End, Error, Recording};
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

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

fn state(cache: &Cache, own: Recording) -> Result<RecordingState, Error> {
    let segments = cache.read(own.id)?.all_segments();
    let (first, latest) =
        (segments.first().map_or(0, |own| own.first_npt), segments.iter().map(|own| own.latest_npt).max());
    Ok(RecordingState {
        id: own.id,
        stream: own.source.key,
        track: own.source.track,
        encoding: own.source.encoding,
        began_ms: own.began / 1000,
        length_ms: latest.map_or(0, |latest| latest.saturating_sub(first) / 1000),
        packets: segments.iter().map(|own| own.packets).sum(),
        lost: segments.iter().map(|own| own.lost).sum(),
        bytes: segments.iter().map(media_cache::Segment::size).sum(),
        pinned: own.pinned,
        ended: own.end.map(|end: End| end.name().to_owned()),
    })
}

/// Answers a query; none: it is not about recordings.
pub fn answer(cache: Option<&Cache>, name: &str, with: &Json) -> Option<Answer> {
    if !["cache", "pin", "remove"].contains(&name) {
        return None;
    }
    let Some(cache) = cache else {
        return Some(Err(QueryError::NotFound("nothing is recorded: there is no `cache` in the configuration".into())));
    };
    Some(match name {
        "cache" => all(cache),
        "pin" => Pin::deserialize(with).map_err(|error| QueryError::Bad(error.to_string())).and_then(|own| {
            cache.pin(own.id, own.pinned).map_err(|error| failed(&error))?;
            Ok(json!({ "id": own.id, "pinned": own.pinned }))
        }),
        _ => Remove::deserialize(with).map_err(|error| QueryError::Bad(error.to_string())).and_then(|own| {
            cache.remove(own.id).map_err(|error| failed(&error))?;
            Ok(json!({ "removed": own.id }))
        }),
    })
}

fn all(cache: &Cache) -> Answer {
    let mut states = Vec::new();
    for own in cache.recordings().map_err(|error| failed(&error))? {
        // One that is removed meanwhile is not there.
        states.extend(state(cache, own).ok());
    }
    serde_json::to_value(states).map_err(|error| QueryError::Bad(error.to_string()))
}
