//! The `RTP-Info` header (RFC 2326 section 12.33).

use std::fmt;

/// Where the stream of one URL begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RtpInfo {
    /// The stream's URL, as it is written.
    pub url: String,
    /// The sequence number of its first packet.
    pub seq: Option<u16>,
    /// The timestamp of the range's beginning.
    pub rtptime: Option<u32>,
}

/// All streams of a header. URLs may hold commas and semicolons: a stream begins at `url=`.
pub fn parse(header: &str) -> Vec<RtpInfo> {
    let mut found: Vec<RtpInfo> = Vec::new();
    for part in header.split([',', ';']) {
        let part = part.trim();
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        let (name, value) = (name.trim().to_ascii_lowercase(), value.trim());
        match (name.as_str(), found.last_mut()) {
            ("url", _) => found.push(RtpInfo { url: value.trim_matches('"').to_owned(), seq: None, rtptime: None }),
            ("seq", Some(own)) => own.seq = value.parse().ok(),
            // Some servers write more bits than there are.
            ("rtptime", Some(own)) => own.rtptime = value.parse::<u64>().ok().map(|time| time as u32),
            // The rest of a URL, before anything else was said of it.
            (_, Some(own)) if own.seq.is_none() && own.rtptime.is_none() && !part.is_empty() => {
                own.url.push(',');
                own.url.push_str(part);
            }
            _ => {}
        }
    }
    found
}

impl fmt::Display for RtpInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "url={}", self.url)?;
        self.seq.map_or(Ok(()), |seq| write!(f, ";seq={seq}"))?;
        self.rtptime.map_or(Ok(()), |time| write!(f, ";rtptime={time}"))
    }
}

/// The header of these streams.
pub fn text(all: &[RtpInfo]) -> String {
    all.iter().map(RtpInfo::to_string).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn streams_of_real_peers_are_read() {
        let all =
            parse("url=rtsp://h/a/trackID=0;seq=45102;rtptime=2890844526, url=trackID=1;seq=1;rtptime=5294967296");
        let info = |url: &str, seq, rtptime| RtpInfo { url: url.into(), seq: Some(seq), rtptime: Some(rtptime) };
        assert_eq!(all, [info("rtsp://h/a/trackID=0", 45102, 2890844526), info("trackID=1", 1, 1_000_000_000)]);
        assert_eq!(
            parse("url=\"rtsp://h/a\";rtptime=7;seq=x"),
            [RtpInfo { url: "rtsp://h/a".into(), seq: None, rtptime: Some(7) }]
        );
        assert_eq!(parse("seq=1;rtptime=2"), []);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(all in prop::collection::vec(
            ("rtsp://h/[a-z/=?,]{0,8}[a-z]", any::<u16>(), any::<u32>()), 0..4,
        )) {
            let all: Vec<_> = all.into_iter().map(|(url, seq, time)| RtpInfo { url, seq: Some(seq), rtptime: Some(time) }).collect();
            let plain = all.iter().all(|own| !own.url.contains(",url=") && !own.url.contains(",seq=") && !own.url.contains(",rtptime="));
            prop_assume!(plain && all.iter().all(|own| !own.url.contains(",,")));
            prop_assert_eq!(parse(&text(&all)), all);
        }

        #[test]
        fn any_text_is_read(text in "\\PC{0,60}", tail in "(url|seq|rtptime|[a-z,;=]){0,9}") {
            parse(&text);
            parse(&tail);
        }
    }
}
