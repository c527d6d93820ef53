//! A playlist (RFC 8216): a part of a line as text.

use std::fmt::Write;

use jiff::Timestamp;

use super::line::Entry;

/// What a playlist is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The end of what is recorded now; its beginning goes.
    Live,
    /// From a time on; it only grows.
    Growing,
    /// From a time on, to the end.
    Ended,
}

/// A time in microseconds since 1970, as `EXT-X-PROGRAM-DATE-TIME` has it.
fn time(clock: u64) -> String {
    let time = Timestamp::from_microsecond(i64::try_from(clock).unwrap_or(i64::MAX)).unwrap_or_default();
    time.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()
}

/// The text. Behind each segment's URI stands `query`, which says who may have it.
pub fn text<'e>(entries: impl Iterator<Item = &'e Entry> + Clone, target: u64, form: Form, query: &str) -> String {
    let mut out = String::from("#EXTM3U\n#EXT-X-VERSION:3\n");
    // Writing to a text can't fail.
    let _ = writeln!(out, "#EXT-X-TARGETDURATION:{target}");
    if let Some(first) = entries.clone().next() {
        let _ = writeln!(out, "#EXT-X-MEDIA-SEQUENCE:{}", first.sequence);
        // That before the first one is not written: it is counted.
        let _ = writeln!(out, "#EXT-X-DISCONTINUITY-SEQUENCE:{}", first.discontinuity);
    }
    out.push_str(match form {
        Form::Live => "",
        Form::Growing => "#EXT-X-PLAYLIST-TYPE:EVENT\n#EXT-X-START:TIME-OFFSET=0\n",
        Form::Ended => "#EXT-X-PLAYLIST-TYPE:VOD\n",
    });
    for (at, own) in entries.enumerate() {
        if own.begins && at > 0 {
            out.push_str("#EXT-X-DISCONTINUITY\n");
        }
        if own.is_gone {
            out.push_str("#EXT-X-GAP\n");
        }
        let _ = writeln!(out, "#EXT-X-PROGRAM-DATE-TIME:{}", time(own.clock));
        let (seconds, millis) = (own.duration / 1_000_000, own.duration / 1000 % 1000);
        let _ = writeln!(out, "#EXTINF:{seconds}.{millis:03},\n{}/{}.ts{query}", own.id, own.number);
    }
    if form == Form::Ended {
        out.push_str("#EXT-X-ENDLIST\n");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_as_rfc_8216_says() {
        let entry = |number: u32| Entry {
            sequence: 7 + u64::from(number),
            discontinuity: 2 + u64::from(number / 2),
            begins: number.is_multiple_of(2),
            id: 5,
            number,
            duration: 10_040_999,
            clock: 1_795_342_410_250_000 + u64::from(number) * 10_000_000,
            is_gone: number == 1,
        };
        let all = [entry(0), entry(1), entry(2)];
        let expected = "#EXTM3U\n#EXT-X-VERSION:3\n#EXT-X-TARGETDURATION:13\n#EXT-X-MEDIA-SEQUENCE:7\n\
            #EXT-X-DISCONTINUITY-SEQUENCE:2\n#EXT-X-PLAYLIST-TYPE:VOD\n\
            #EXT-X-PROGRAM-DATE-TIME:2026-11-22T10:13:30.250Z\n#EXTINF:10.040,\n5/0.ts?token=x\n\
            #EXT-X-GAP\n#EXT-X-PROGRAM-DATE-TIME:2026-11-22T10:13:40.250Z\n#EXTINF:10.040,\n5/1.ts?token=x\n\
            #EXT-X-DISCONTINUITY\n#EXT-X-PROGRAM-DATE-TIME:2026-11-22T10:13:50.250Z\n#EXTINF:10.040,\n5/2.ts?token=x\n\
            #EXT-X-ENDLIST\n";
        assert_eq!(text(all.iter(), 13, Form::Ended, "?token=x"), expected);
        let live = text(all[2..].iter(), 13, Form::Live, "");
        assert!(live.contains("MEDIA-SEQUENCE:9\n#EXT-X-DISCONTINUITY-SEQUENCE:3\n#EXT-X-PROGRAM"), "{live}");
        assert!(!live.contains("#EXT-X-DISCONTINUITY\n") && !live.contains("ENDLIST"), "{live}");
    }
}
