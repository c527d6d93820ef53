//! Byte ranges (RFC 9110 section 14).

use std::ops::Range;

/// Ranges of a request at most; one that asks for more gets all of it.
const MOST: usize = 16;

/// What of a file is to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// All (200).
    All,
    /// These parts (206).
    Parts(Vec<Range<u64>>),
    /// Nothing of what is there (416).
    None,
}

/// Reads `Range` for a file of a length. What is not understood asks for all (section 14.2).
pub fn wanted(field: &str, length: u64) -> Wanted {
    let Some((unit, set)) = field.split_once('=') else { return Wanted::All };
    if !unit.trim().eq_ignore_ascii_case("bytes") {
        return Wanted::All;
    }
    let (mut parts, mut count) = (Vec::new(), 0);
    for text in set.split(',').map(|own| own.trim_matches([' ', '\t'])).filter(|own| !own.is_empty()) {
        count += 1;
        match part(text, length) {
            Some(Some(part)) => parts.push(part),
            Some(None) => {}
            None => return Wanted::All,
        }
    }
    if count == 0 {
        return Wanted::All;
    }
    if parts.is_empty() {
        return Wanted::None;
    }
    // Many, or such as send bytes twice, are not worth it (section 14.2).
    let mut sorted = parts.clone();
    sorted.sort_by_key(|own| own.start);
    if count > MOST || sorted.windows(2).any(|two| two[1].start < two[0].end) {
        return Wanted::All;
    }
    Wanted::Parts(parts)
}

/// One of them: none where it is wrong, `Some(None)` where there is nothing of it.
fn part(text: &str, length: u64) -> Option<Option<Range<u64>>> {
    let (first, last) = text.split_once('-')?;
    let number = |text: &str| -> Option<u64> {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        // Beyond all files.
        digits.then(|| text.parse().unwrap_or(u64::MAX))
    };
    if first.is_empty() {
        let suffix = number(last)?.min(length);
        return Some((suffix > 0).then(|| length - suffix..length));
    }
    let first = number(first)?;
    let last = if last.is_empty() { u64::MAX } else { number(last)? };
    if last < first {
        return None;
    }
    Some((first < length).then(|| first..last.saturating_add(1).min(length)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read() {
        let parts = |all: &[(u64, u64)]| Wanted::Parts(all.iter().map(|(first, end)| *first..*end).collect());
        for (field, expected) in [
            ("bytes=0-499", parts(&[(0, 500)])),
            ("bytes=500-", parts(&[(500, 1000)])),
            ("bytes=-500", parts(&[(500, 1000)])),
            ("bytes=-5000", parts(&[(0, 1000)])),
            ("Bytes=0-0", parts(&[(0, 1)])),
            ("bytes=999-99999999999999999999999", parts(&[(999, 1000)])),
            ("bytes=0-0, 500-599 ,-1", parts(&[(0, 1), (500, 600), (999, 1000)])),
            ("bytes=700-799,0-9", parts(&[(700, 800), (0, 10)])),
            ("bytes=0-9,2000-", parts(&[(0, 10)])),
            ("bytes=1000-", Wanted::None),
            ("bytes=-0", Wanted::None),
            ("bytes=5-4", Wanted::All),
            ("bytes=0-9,5-14", Wanted::All),
            ("bytes=0-9,x", Wanted::All),
            ("bytes=+1-2", Wanted::All),
            ("bytes=", Wanted::All),
            ("bytes", Wanted::All),
            ("lines=0-9", Wanted::All),
        ] {
            assert_eq!(wanted(field, 1000), expected, "{field}");
        }
        let many: Vec<String> = (0..17).map(|own| format!("{}-{}", own * 10, own * 10)).collect();
        assert_eq!(wanted(&format!("bytes={}", many.join(",")), 1000), Wanted::All);
        assert_eq!(wanted("bytes=0-", 0), Wanted::None);
    }
}
