//! The `Range` header (RFC 2326 sections 3.5 to 3.7, 12.29).

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
    /// Absolute time, or SMPTE timestamps: passed on as they are.
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
        "clock" => (is_clock(start) && (end.is_empty() || is_clock(end))).then_some(Range::Other),
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

/// `19961108T142300.25Z`
fn is_clock(text: &str) -> bool {
    let Some((date, time)) = text.strip_suffix('Z').and_then(|text| text.split_once('T')) else { return false };
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let (whole, fraction) = time.split_once('.').unwrap_or((time, "0"));
    date.len() == 8 && digits(date) && whole.len() == 6 && digits(whole) && digits(fraction)
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
        assert_eq!(parse("clock=19961108T142300Z-19961108T143520.5Z"), Some(Range::Other));
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
            "bytes=0-5",
            "npt=inf-",
        ] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "\\PC{0,40}", tail in "(npt|clock|smpte)=[0-9:.a-zTZ-]{0,20}") {
            parse(&text);
            parse(&tail);
        }
    }
}
