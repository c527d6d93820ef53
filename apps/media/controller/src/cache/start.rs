//! Which recording of a stream a URL means: `rtsp://proxy/NAME?start=…`.

use std::time::Duration;

/// The host of recordings in URLs. No name has this end (RFC 6761 section 6.4), so none is asked for it.
pub const HOST: &str = "recordings.invalid";
/// The parameter that says where to begin.
pub const START: &str = "start";

/// Where to begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// So long ago.
    Ago(Duration),
    /// At this time, since 1970.
    At(Duration),
    /// At the beginning of the last recording.
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
            None => clock(text).map(|own| Start::At(Duration::from_secs(own))),
        }
    }
}

/// `1h30m`, `45s`, `45`.
fn seconds(text: &str) -> Option<u64> {
    let (mut sum, mut rest, mut last) = (0u64, text, u64::MAX);
    while !rest.is_empty() {
        let end = rest.find(|own: char| !own.is_ascii_digit()).unwrap_or(rest.len());
        let number: u64 = rest[..end].parse().ok()?;
        let (unit, behind) = match rest[end..].chars().next() {
            Some('d') => (86_400, end + 1),
            Some('h') => (3600, end + 1),
            Some('m') => (60, end + 1),
            Some('s') => (1, end + 1),
            None => (1, end),
            Some(_) => return None,
        };
        // From large to small, each once.
        if unit >= last {
            return None;
        }
        last = unit;
        sum = sum.checked_add(number.checked_mul(unit)?)?;
        rest = &rest[behind..];
    }
    (last != u64::MAX && sum <= 366 * 86_400).then_some(sum)
}

/// Seconds since 1970 of `20261124T190000Z`.
fn clock(text: &str) -> Option<u64> {
    let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
    let plain = |own: &str, length| own.len() == length && own.bytes().all(|byte| byte.is_ascii_digit());
    if !plain(date, 8) || !plain(time, 6) {
        return None;
    }
    let number = |own: &str| own.parse::<u64>().ok();
    let (year, month, day) = (number(&date[..4])?, number(&date[4..6])?, number(&date[6..])?);
    let (hour, minute, second) = (number(&time[..2])?, number(&time[2..4])?, number(&time[4..])?);
    let is_leap = |year: u64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let lengths = [31, 28 + u64::from(is_leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let length = *lengths.get(usize::try_from(month).ok()?.checked_sub(1)?)?;
    if year < 1970 || day == 0 || day > length || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let years: u64 = (1970..year).map(|year| 365 + u64::from(is_leap(year))).sum();
    let days = years + lengths[..month as usize - 1].iter().sum::<u64>() + day - 1;
    Some(days * 86_400 + hour * 3600 + minute * 60 + second)
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
            ("-1d2h3m4s", ago(93_784)),
            // By `date -u -d … +%s`.
            ("20261124T190000Z", at(1_795_546_800)),
            ("20240229T235959Z", at(1_709_251_199)),
            ("20000301T000000Z", at(951_868_800)),
            ("19700101T000000Z", at(0)),
            ("20230229T000000Z", None),
            ("20261324T190000Z", None),
            ("20261124T190000", None),
            ("99991231T235959Z", at(253_402_300_799)),
            ("-", None),
            ("-m", None),
            ("-10x", None),
            ("-10m1h", None),
            ("-1m1m", None),
            ("-99999999999999999999", None),
            ("-367d", None),
            ("10", None),
            ("", None),
            ("-１", None),
        ] {
            assert_eq!(Start::parse(text), start, "{text}");
        }
    }
}
