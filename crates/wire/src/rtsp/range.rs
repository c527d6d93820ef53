//! The `Range` header (RFC 2326 sections 3.5 to 3.7, 12.29).

use std::time::Duration;

/// A range of a presentation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Range {
    /// Normal play time in seconds; a start of none is where it is now, an end of none the end.
    Npt {
        /// Where it begins.
        start: Npt,
        /// Where it ends.
        end: Option<f64>,
    },
    /// Absolute time, in seconds since 1970; an end of none the end.
    Clock {
        /// Where it begins.
        start: f64,
        /// Where it ends.
        end: Option<f64>,
    },
    /// SMPTE timestamps: passed on as they are.
    Other,
}

/// Where a range of normal play time begins.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Npt {
    /// The live edge.
    Now,
    /// Where it was paused, or its beginning: `-5`.
    Open,
    /// Seconds from the presentation's beginning.
    At(f64),
}

impl Range {
    /// Whether it says that there is no end, as live presentations do: `now-`, `0-`.
    pub fn is_open(&self) -> bool {
        matches!(self, Range::Npt { end: None, .. })
    }
}

/// Reads a header, or an attribute `a=range` of a description; none where its syntax is wrong. A time behind `;`, from
/// which on it counts, is passed over.
pub fn parse(text: &str) -> Option<Range> {
    let range = text.split(';').next()?.trim();
    let (unit, range) = range.split_once('=')?;
    let unit = unit.trim().to_ascii_lowercase();
    let (start, end) = range.trim().split_once('-')?;
    let (start, end) = (start.trim(), end.trim());
    match unit.as_str() {
        "npt" => {
            let start = match start {
                "now" => Npt::Now,
                "" => Npt::Open,
                _ => Npt::At(npt_time(start)?),
            };
            let end = if end.is_empty() { None } else { Some(npt_time(end)?) };
            let backwards = matches!((start, end), (Npt::At(start), Some(end)) if end < start);
            let nothing = start == Npt::Open && end.is_none();
            (!backwards && !nothing).then_some(Range::Npt { start, end })
        }
        "clock" => {
            let (start, end) = (clock(start)?, if end.is_empty() { None } else { Some(clock(end)?) });
            end.is_none_or(|end| end >= start).then_some(Range::Clock { start, end })
        }
        "smpte" | "smpte-25" | "smpte-30-drop" => {
            (is_smpte(start) && (end.is_empty() || is_smpte(end))).then_some(Range::Other)
        }
        _ => None,
    }
}

/// `12.5`, `1:02:03.5`.
fn npt_time(text: &str) -> Option<f64> {
    let parts: Vec<&str> = text.split(':').collect();
    let number = |text: &str| {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        text.parse::<f64>().ok().filter(|number| digits && number.is_finite())
    };
    match parts[..] {
        [seconds] => number(seconds),
        [hours, minutes, seconds] => Some(number(hours)? * 3600.0 + number(minutes)? * 60.0 + number(seconds)?),
        _ => None,
    }
}

/// Seconds since 1970 of `19961108T142300.25Z` (RFC 2326 section 3.7); none before that, or where it is no time.
pub fn clock(text: &str) -> Option<f64> {
    let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
    let (whole, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if date.len() != 8 || whole.len() != 6 || ![date, whole, fraction].into_iter().all(is_number) {
        return None;
    }
    let number = |text: &str| text.parse::<u64>().ok();
    let days = days(number(&date[..4])?, number(&date[4..6])?, number(&date[6..])?)?;
    let (hour, minute, second) = (number(&whole[..2])?, number(&whole[2..4])?, number(&whole[4..])?);
    // A leap second is the one behind it.
    if hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let fraction: f64 = format!("0.{fraction}").parse().ok()?;
    Some((days * 86_400 + hour * 3600 + minute * 60 + second) as f64 + fraction)
}

/// The text of a time since 1970, to a millisecond.
pub fn clock_text(time: Duration) -> String {
    let (second, milliseconds) = (time.as_secs(), time.subsec_millis());
    let day = second / 86_400;
    // The last year, and the last month of it, that do not begin behind that day.
    let mut year = 1970 + day / 366;
    while days(year + 1, 1, 1).is_some_and(|own| own <= day) {
        year += 1;
    }
    let month = (1..=12).rev().find(|month| days(year, *month, 1).is_some_and(|own| own <= day)).unwrap_or(1);
    let date = day - days(year, month, 1).unwrap_or(day) + 1;
    let (hour, minute, second) = (second / 3600 % 24, second / 60 % 60, second % 60);
    let fraction = if milliseconds == 0 { String::new() } else { format!(".{milliseconds:03}") };
    format!("{year:04}{month:02}{date:02}T{hour:02}{minute:02}{second:02}{fraction}Z")
}

/// Days from the first of 1970 to a date of the Gregorian calendar; none before that, or where there is no such date.
fn days(year: u64, month: u64, day: u64) -> Option<u64> {
    let is_leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let february = if is_leap { 29 } else { 28 };
    let lengths = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let before = usize::try_from(month.checked_sub(1)?).ok()?;
    if year < 1970 || day == 0 || day > *lengths.get(before)? {
        return None;
    }
    let leaps = |years: u64| years / 4 - years / 100 + years / 400;
    Some(365 * (year - 1970) + leaps(year - 1) - leaps(1969) + lengths[..before].iter().sum::<u64>() + day - 1)
}

/// `10:12:33:20.1`
fn is_smpte(text: &str) -> bool {
    let parts: Vec<&str> = text.split(':').collect();
    let number = |text: &&str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    (3..=4).contains(&parts.len()) && parts.iter().all(number)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ranges_of_real_peers_are_read() {
        let npt = |start, end| Some(Range::Npt { start, end });
        assert_eq!(parse("npt=0.000-"), npt(Npt::At(0.0), None));
        assert_eq!(parse("npt=now-"), npt(Npt::Now, None));
        assert_eq!(parse("npt=-5"), npt(Npt::Open, Some(5.0)));
        assert_eq!(parse("npt = 1:02:03.5 - 4000"), npt(Npt::At(3723.5), Some(4000.0)));
        assert_eq!(parse("npt=0-7.741000"), npt(Npt::At(0.0), Some(7.741)));
        assert_eq!(parse("npt=5-;time=19970123T143720Z"), npt(Npt::At(5.0), None));
        let absolute = |start, end| Some(Range::Clock { start, end });
        // As `date -u -d … +%s` says.
        assert_eq!(parse("clock=19961108T142300Z-19961108T143520.5Z"), absolute(847_462_980.0, Some(847_463_720.5)));
        assert_eq!(parse("clock=20240229T235959.25Z-"), absolute(1_709_251_199.25, None));
        assert_eq!(parse("smpte-25=10:12:33:20-"), Some(Range::Other));
        for wrong in [
            "",
            "npt",
            "npt=",
            "npt=-",
            "npt=5",
            "npt=9-5",
            "npt=a-",
            "npt=1:2-",
            "clock=now-",
            "clock=19961108T142300Z-19961108T142259Z",
            "clock=20230229T000000Z-",
            "clock=19961308T142300Z-",
            "clock=19961108T242300Z-",
            "clock=19690101T000000Z-",
            "clock=19961108T142300.Z-",
            "bytes=0-5",
            "npt=inf-",
        ] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn times_are_written_as_they_are_read(milliseconds in 0u64..253_402_300_800_000) {
            let time = Duration::from_millis(milliseconds);
            let text = clock_text(time);
            let read = clock(&text).unwrap();
            prop_assert!((read - time.as_secs_f64()).abs() < 0.0005, "{} {}", text, read);
        }

        #[test]
        fn any_text_is_read_or_refused(text in "\\PC{0,40}", tail in "(npt|clock|smpte)=[0-9:.a-zTZ-]{0,20}") {
            parse(&text);
            parse(&tail);
        }
    }
}
