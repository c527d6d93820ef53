//! Which recording of a stream a URL means: `rtsp://proxy/NAME?start=…`.

use std::time::Duration;

use jiff::SignedDuration;
use wire::rtsp::range;

/// The host of recordings in URLs. No name has this end (RFC 6761 section 6.4), so none is asked for it.
pub const HOST: &str = "recordings.invalid";
/// The parameter that says where to begin.
pub const START: &str = "start";

/// How long ago that may be, in seconds.
const LONGEST: u64 = 366 * 86_400;

/// Where to begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// So long ago.
    Ago(Duration),
    /// At this time, since 1970.
    At(Duration),
    /// At the beginning of the last recording, and of those before that go with it.
    Beginning,
}

impl Start {
    /// Reads it: `-10m`, `-1h30m`, `-45` (seconds), `20261124T190000Z` (as `clock` of RFC 2326 section 3.7), `0`.
    pub fn parse(text: &str) -> Option<Start> {
        if text == "0" {
            return Some(Start::Beginning);
        }
        match text.strip_prefix('-') {
            Some(span) => seconds(span).map(|own| Start::Ago(Duration::from_secs(own))),
            None => range::clock(text).map(|own| Start::At(Duration::from_secs_f64(own))),
        }
    }
}

/// Seconds of `1h30m`, `45s`, `45`.
fn seconds(text: &str) -> Option<u64> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let seconds = match text.bytes().all(|byte| byte.is_ascii_digit()) {
        true => text.parse().ok()?,
        false => text.parse::<SignedDuration>().ok().filter(|_| is_plain)?.as_secs(),
    };
    u64::try_from(seconds).ok().filter(|own| *own <= LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read() {
        let ago = |seconds| Some(Start::Ago(Duration::from_secs(seconds)));
        let at = |seconds| Some(Start::At(Duration::from_secs(seconds)));
        for (text, start) in [
            ("0", Some(Start::Beginning)),
            ("-10m", ago(600)),
            ("-1h30m", ago(5400)),
            ("-45", ago(45)),
            ("-26h3m4s", ago(93_784)),
            // As `date -u -d … +%s` says.
            ("20261124T190000Z", at(1_795_546_800)),
            ("20240229T235959Z", at(1_709_251_199)),
            ("20000301T000000Z", at(951_868_800)),
            ("19700101T000000Z", at(0)),
            ("20230229T000000Z", None),
            ("20261324T190000Z", None),
            ("20261124T190000", None),
            ("20991231T235959Z", at(4_102_444_799)),
            ("-", None),
            ("-m", None),
            ("-10x", None),
            ("-10m1h", None),
            ("-99999999999999999999", None),
            ("-9000h", None),
            ("10", None),
            ("", None),
            ("-１", None),
        ] {
            assert_eq!(Start::parse(text), start, "{text}");
        }
    }
}
