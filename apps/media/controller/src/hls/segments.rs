//! Requests for segments: files that never change (RFC 9110 sections 13 and 14).

use std::ops::Range;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hyper::{StatusCode, header};
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use super::body::{Part, Source};
use super::cut::Cut;
use super::ranges::{Wanted, wanted};
use super::respond::{Front, Reply, Wish, unavailable};

/// What a segment is.
const TYPE: &str = "video/mp2t";
/// Between parts. It is no matter whether it occurs in them: each says how long it is.
const BOUNDARY: &str = "millrace-part";
const DATE: &str = "%a, %d %b %Y %H:%M:%S GMT";

/// Whether a tag is one of a list (section 8.8.3.2, weakly), or anything is meant.
pub(super) fn matches(list: &str, tag: &str) -> bool {
    list.split(',').map(str::trim).any(|own| own == "*" || own.strip_prefix("W/").unwrap_or(own) == tag)
}

/// A time as it is written in headers.
fn date(seconds: u64) -> String {
    Timestamp::from_second(i64::try_from(seconds).unwrap_or(i64::MAX)).unwrap_or_default().strftime(DATE).to_string()
}

/// Seconds since 1970.
fn seconds(date: &str) -> Option<u64> {
    let time = DateTime::strptime(DATE, date.trim()).ok()?.to_zoned(TimeZone::UTC).ok()?;
    let time: SystemTime = time.timestamp().into();
    Some(time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs())
}

/// Answers one. This may wait for the disk.
pub(super) fn answer(front: &Front, name: &str, id: u64, number: u32, wish: &Wish) -> Reply {
    let Some(cache) = front.cache() else { return unavailable("there is no cache") };
    let file = match cache.open_segment(id, number) {
        Ok(Some(file)) if file.key() == name && file.kind().is_ts() => Arc::new(file),
        Ok(Some(_)) => return Reply::text(StatusCode::NOT_FOUND, "there is no such segment of the stream\n"),
        Ok(None) => return missing(front, name, id, number),
        Err(error) => {
            tracing::warn!(stream = name, id, number, "a segment can't be opened: {error}");
            return unavailable("it can't be read");
        }
    };
    let cut = match Cut::of(&cache, &file) {
        Ok(Some(cut)) => cut,
        Ok(None) => return unavailable("it has just ended"),
        Err(error) => {
            tracing::warn!(stream = name, id, number, "what follows a segment can't be read: {error}");
            return unavailable("it can't be read");
        }
    };
    let (length, changed) = (cut.length(), file.about().latest_clock / 1_000_000);
    let tag = format!("\"{id:x}-{number}-{length:x}\"");
    let source = Some(Source { file, blocks: front.blocks.clone() });
    let reply = |status| {
        Reply { status, headers: Vec::new(), parts: Vec::new(), source: None }
            .with(header::ETAG, tag.clone())
            .with(header::LAST_MODIFIED, date(changed))
            .with(header::CACHE_CONTROL, wish.kept("max-age=31536000, immutable"))
            .with(header::ACCEPT_RANGES, "bytes")
    };
    let time = |name| wish.header(name).and_then(seconds);
    // In the order of section 13.2.2.
    let is_other = match wish.header(header::IF_MATCH) {
        Some(own) => !own.split(',').map(str::trim).any(|own| own == "*" || own == tag),
        None => time(header::IF_UNMODIFIED_SINCE).is_some_and(|own| changed > own),
    };
    if is_other {
        return reply(StatusCode::PRECONDITION_FAILED);
    }
    let is_known = match wish.header(header::IF_NONE_MATCH) {
        Some(own) => matches(own, &tag),
        None => time(header::IF_MODIFIED_SINCE).is_some_and(|own| changed <= own),
    };
    if is_known {
        return reply(StatusCode::NOT_MODIFIED);
    }
    // A tag that is weak is never the same, and a date only where it is exactly that (section 13.1.5).
    let holds = wish.header(header::IF_RANGE).is_none_or(|own| own.trim() == tag || seconds(own) == Some(changed));
    let field = wish.header(header::RANGE).filter(|_| holds && !wish.is_head);
    match field.map_or(Wanted::All, |own| wanted(own, length)) {
        Wanted::All => {
            let parts = cut.parts(0..length);
            Reply { parts, source, ..reply(StatusCode::OK).with(header::CONTENT_TYPE, TYPE) }
        }
        Wanted::None => {
            let reply = Reply::text(StatusCode::RANGE_NOT_SATISFIABLE, "there are no such bytes\n");
            reply.with(header::CONTENT_RANGE, format!("bytes */{length}"))
        }
        Wanted::Parts(parts) => match &parts[..] {
            [one] => {
                let reply = reply(StatusCode::PARTIAL_CONTENT).with(header::CONTENT_TYPE, TYPE);
                let reply = reply.with(header::CONTENT_RANGE, shown(one, length));
                Reply { parts: cut.parts(one.clone()), source, ..reply }
            }
            several => {
                let kind = format!("multipart/byteranges; boundary={BOUNDARY}");
                let reply = reply(StatusCode::PARTIAL_CONTENT).with(header::CONTENT_TYPE, kind);
                Reply { parts: multipart(several, &cut), source, ..reply }
            }
        },
    }
}

fn shown(part: &Range<u64>, length: u64) -> String {
    format!("bytes {}-{}/{length}", part.start, part.end.saturating_sub(1))
}

/// The body of an answer with several parts (section 14.6).
fn multipart(several: &[Range<u64>], cut: &Cut) -> Vec<Part> {
    let mut parts = Vec::new();
    for (at, own) in several.iter().enumerate() {
        let before = if at == 0 { "" } else { "\r\n" };
        let range = shown(own, cut.length());
        let head = format!("{before}--{BOUNDARY}\r\nContent-Type: {TYPE}\r\nContent-Range: {range}\r\n\r\n");
        parts.push(Part::Text(head.into()));
        parts.extend(cut.parts(own.clone()));
    }
    parts.push(Part::Text(format!("\r\n--{BOUNDARY}--\r\n").into()));
    parts
}

/// One that was there is told from one that never was.
fn missing(front: &Front, name: &str, id: u64, number: u32) -> Reply {
    let known = front.known(name);
    let known = known.lock().unwrap_or_else(PoisonError::into_inner);
    let was_there = known.line.entries.iter().any(|own| own.id == id && own.number == number);
    let (status, why) = match was_there {
        true => (StatusCode::GONE, "it was removed to make room\n"),
        false => (StatusCode::NOT_FOUND, "there is no such segment\n"),
    };
    Reply::text(status, why).with(header::CACHE_CONTROL, "no-store")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_written_and_read() {
        assert_eq!(date(784_111_777), "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(seconds("Sun, 06 Nov 1994 08:49:37 GMT"), Some(784_111_777));
        for wrong in ["", "yesterday", "\"5-0-1\"", "Sun, 99 Nov 1994 08:49:37 GMT"] {
            assert_eq!(seconds(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn tags_are_compared() {
        for (list, same) in [("\"a\"", true), ("\"b\", W/\"a\"", true), ("*", true), ("\"b\"", false), ("a", false)] {
            assert_eq!(matches(list, "\"a\""), same, "{list}");
        }
    }

    #[test]
    fn several_parts_say_what_they_are() {
        let text = |own: &Part| match own {
            Part::Text(bytes) => String::from_utf8(bytes.to_vec()).unwrap(),
            Part::File(range) => format!("<{}..{}>", range.start, range.end),
        };
        let all: String = multipart(&[0..10, 90..100], &Cut::whole(100)).iter().map(text).collect();
        let expected = "--millrace-part\r\nContent-Type: video/mp2t\r\nContent-Range: bytes 0-9/100\r\n\r\n<0..10>\r\n\
            --millrace-part\r\nContent-Type: video/mp2t\r\nContent-Range: bytes 90-99/100\r\n\r\n<90..100>\r\n\
            --millrace-part--\r\n";
        assert_eq!(all, expected);
    }
}
