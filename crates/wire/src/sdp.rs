//! Session descriptions (RFC 8866, RFC 2326 appendix C), read and rewritten line by line: what is not known passes as
//! it is, and what servers leave out is not missed.

use std::fmt::Write as _;
use std::net::IpAddr;

use crate::picture::Coding;
use crate::refused::Refused;
use crate::rtsp::range::{self, Range};
use crate::rtsp::url::{self, Url};

/// Lines of a description at most.
const MOST_LINES: usize = 2000;
/// Streams of a description at most.
const MOST_MEDIA: usize = 64;

/// Attributes that name the origin or another address than the proxy's, and so are not passed on.
const HIDDEN: [&str; 8] =
    ["control", "source-filter", "rtcp", "candidate", "remote-candidates", "alt", "rtpred1", "rtpred2"];

/// A description.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// Lines in front of the first stream, and those of each stream.
    sections: Vec<Vec<(char, String)>>,
}

/// What is written in place of the origin's.
#[derive(Clone, Debug)]
pub struct Written<'w> {
    /// The address that the description comes from.
    pub address: IpAddr,
    /// The session's number in `o=`.
    pub session: u64,
    /// The URL of the whole presentation.
    pub control: &'w str,
    /// The URL of each stream.
    pub media: &'w [String],
}

impl Description {
    /// Reads a description. Only what is no text, has no `v=` or `m=` line at all, or is too long is refused.
    ///
    /// # Errors
    /// 502, as the peer that sent it is a server.
    pub fn parse(bytes: &[u8]) -> Result<Description, Refused> {
        let text = String::from_utf8_lossy(bytes);
        let mut sections = vec![Vec::new()];
        let mut version = false;
        for (count, line) in text.lines().enumerate() {
            let line = line.trim_end();
            let mut chars = line.chars();
            // Empty lines, and a lone word that some servers send behind the last line, mean nothing.
            let (Some(kind), Some('=')) = (chars.next(), chars.next()) else { continue };
            let value = chars.as_str();
            version |= kind == 'v';
            if kind == 'm' {
                sections.push(Vec::new());
            }
            if count >= MOST_LINES || sections.len() > MOST_MEDIA + 1 || !kind.is_ascii_lowercase() {
                return Err(Refused(502));
            }
            let value: String = value.chars().filter(|own| !own.is_control() || *own == '\t').collect();
            sections.last_mut().ok_or(Refused(502))?.push((kind, value));
        }
        if version && sections.len() > 1 { Ok(Description { sections }) } else { Err(Refused(502)) }
    }

    /// Its lines, from which [`Description::parse`] makes the same.
    pub fn text(&self) -> String {
        self.sections.iter().flatten().map(|(kind, value)| format!("{kind}={value}\r\n")).collect()
    }

    /// Number of streams.
    pub fn media(&self) -> usize {
        self.sections.len() - 1
    }

    fn attribute<'d>(lines: &'d [(char, String)], name: &str) -> Option<&'d str> {
        lines.iter().filter(|(kind, _)| *kind == 'a').find_map(|(_, value)| {
            let (own, value) = value.split_once(':').unwrap_or((value, ""));
            own.trim().eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    /// The URL of the whole presentation at its server. `base` is what the server's answer says: see [`base`].
    pub fn control(&self, base: &str) -> String {
        url::join(base, Description::attribute(&self.sections[0], "control").unwrap_or("*"))
    }

    /// The URL of a stream at its server. A presentation whose own URL is absolute is the base of its streams.
    pub fn media_control(&self, index: usize, base: &str) -> String {
        let own = Description::attribute(&self.sections[0], "control").filter(|own| Url::parse(own).is_some());
        let base = own.unwrap_or(base);
        let control = self.sections.get(index + 1).and_then(|lines| Description::attribute(lines, "control"));
        url::join(base, control.unwrap_or("*"))
    }

    /// What a stream is: `video`, `audio`, …
    pub fn media_kind(&self, index: usize) -> &str {
        let line = self.sections.get(index + 1).and_then(|lines| lines.first());
        line.and_then(|(_, value)| value.split(' ').next()).unwrap_or("")
    }

    /// Where a stream is sent to, where a description says it that no server gives: its address and port (`c=`, `m=`).
    pub fn media_place(&self, index: usize) -> (Option<IpAddr>, Option<u16>) {
        let lines = |at: usize| self.sections.get(at).map_or(&[][..], Vec::as_slice);
        let connection = |at| lines(at).iter().find(|(kind, _)| *kind == 'c').map(|(_, value)| value.as_str());
        let address = connection(index + 1).or_else(|| connection(0));
        // `IN IP4 239.1.2.3/127`
        let address = address.and_then(|own| own.split_whitespace().nth(2)?.split('/').next()?.parse().ok());
        let media = lines(index + 1).first().map_or("", |(_, value)| value.as_str());
        let port = media.split_whitespace().nth(1).and_then(|own| own.split('/').next()?.parse().ok());
        (address, port.filter(|own| *own != 0))
    }

    /// Whether a stream is RTP, with payload types.
    pub fn is_rtp(&self, index: usize) -> bool {
        let line = self.sections.get(index + 1).and_then(|lines| lines.first()).map_or("", |(_, value)| value.as_str());
        let mut words = line.split_whitespace().skip(2);
        let profile = words.next().is_some_and(|own| own.eq_ignore_ascii_case("RTP/AVP"));
        let mut types = words.map(|word| word.parse().is_ok_and(|own: u8| own < 128)).peekable();
        profile && types.peek().is_some() && types.all(|own| own)
    }

    /// The clock rate of a stream's first payload type, in hertz: that of its `rtpmap`, or of the static types of RFC
    /// 3551 table 4 and 5.
    pub fn clock_rate(&self, index: usize) -> Option<u32> {
        let lines = self.sections.get(index + 1)?;
        let payload = lines.first()?.1.split_whitespace().nth(3)?;
        let map = lines.iter().filter(|(kind, _)| *kind == 'a').find_map(|(_, value)| {
            let (own, map) = value.strip_prefix("rtpmap:")?.trim().split_once(' ')?;
            (own == payload).then(|| map.split('/').nth(1)?.trim().parse().ok())?
        });
        map.filter(|rate| *rate > 0).or_else(|| {
            Some(match payload.parse::<u8>().ok()? {
                0 | 3..=5 | 7..=9 | 12 | 13 | 15 | 18 => 8000,
                6 => 16000,
                10 | 11 => 44100,
                16 => 11025,
                17 => 22050,
                14 | 25 | 26 | 28 | 31..=34 => 90000,
                _ => return None,
            })
        })
    }

    /// How a stream's first payload type is coded, where its packets tell something of pictures.
    pub fn coding(&self, index: usize) -> Option<Coding> {
        Coding::named(self.encoding(index)?)
    }

    /// The name of the encoding of a stream's first payload type; of static types only that of MPEG-TS is known.
    pub fn encoding(&self, index: usize) -> Option<&str> {
        let lines = self.sections.get(index + 1)?;
        let payload = lines.first()?.1.split_whitespace().nth(3)?;
        let mut maps = lines.iter().filter(|(kind, _)| *kind == 'a').filter_map(|(_, value)| {
            let (own, map) = value.strip_prefix("rtpmap:")?.trim().split_once(' ')?;
            (own == payload).then(|| map.trim().split('/').next())?
        });
        match maps.next() {
            Some(name) => Some(name),
            // RFC 3551 table 5.
            None => (payload == "33").then_some("MP2T"),
        }
    }

    /// Whether the packets of a stream are those of another description's: the same kind, protocol, payload types, and
    /// what these mean. Parameters of coders are not compared: they come in the stream, too.
    pub fn has_format_of(&self, other: &Description, index: usize) -> bool {
        let format = |own: &Description| -> Option<(Vec<String>, Vec<String>)> {
            let lines = own.sections.get(index + 1)?;
            let mut words: Vec<String> = lines.first()?.1.split_whitespace().map(str::to_ascii_lowercase).collect();
            // Its port.
            if words.len() > 1 {
                words.remove(1);
            }
            let mut maps: Vec<String> = lines
                .iter()
                .filter(|(kind, value)| *kind == 'a' && value.starts_with("rtpmap:"))
                .map(|(_, value)| value.to_ascii_lowercase().replace(' ', ""))
                .collect();
            maps.sort_unstable();
            Some((words, maps))
        };
        format(self).is_some_and(|own| format(other) == Some(own))
    }

    /// What a decoder must know of all streams: descriptions with the same have packets that can follow each other.
    pub fn formats(&self) -> String {
        let of_stream = |lines: &Vec<(char, String)>| {
            let media = lines.first().map(|(_, value)| without_port(value)).unwrap_or_default();
            let coded = |value: &&String| value.starts_with("rtpmap:") || value.starts_with("fmtp:");
            let attributes = lines.iter().filter(|(kind, _)| *kind == 'a').map(|(_, value)| value);
            let mut attributes: Vec<&str> = attributes.filter(coded).map(|own| own.trim()).collect();
            attributes.sort_unstable();
            [&[media.as_str()], &attributes[..]].concat().join(" ")
        };
        self.sections[1..].iter().map(of_stream).collect::<Vec<_>>().join("; ")
    }

    /// What a stream, or without an index all of the presentation, takes at most as it says (`b=AS:`), in bits per
    /// second with the headers of IP and UDP.
    pub fn bandwidth(&self, index: Option<usize>) -> Option<u64> {
        let lines = self.sections.get(index.map_or(0, |index| index + 1))?;
        let kilobits = lines.iter().find_map(|(kind, value)| {
            let value = value.strip_prefix("AS:").filter(|_| *kind == 'b')?;
            value.trim().parse::<u32>().ok()
        });
        kilobits.map(|own| u64::from(own) * 1000)
    }

    /// The presentation's range, if it says one.
    pub fn range(&self) -> Option<Range> {
        self.sections.iter().find_map(|lines| Description::attribute(lines, "range")).and_then(range::parse)
    }

    /// The same with another range of the whole presentation, such as `npt=0-12.5`.
    pub fn with_range(mut self, range: &str) -> Description {
        let is_range = |(kind, value): &(char, String)| *kind == 'a' && value.starts_with("range:");
        self.sections.iter_mut().for_each(|lines| lines.retain(|line| !is_range(line)));
        self.sections[0].push(('a', format!("range:{range}")));
        self
    }

    /// Whether it has no end: it says no range, or an open one.
    pub fn is_live(&self) -> bool {
        self.range().is_none_or(|range| range.is_open())
    }

    /// The description as the proxy gives it: its own address in `o=` and `c=`, its own URLs, no ports, and nothing
    /// that names the origin.
    pub fn written(&self, own: &Written) -> String {
        let kind = if own.address.is_ipv6() { "IP6" } else { "IP4" };
        let any = if own.address.is_ipv6() { "::" } else { "0.0.0.0" };
        let mut text = String::new();
        // Writing to a text can't fail.
        let _ = write!(text, "v=0\r\no=- {} 1 IN {kind} {}\r\n", own.session, own.address);
        let session = &self.sections[0];
        if !session.iter().any(|(kind, _)| *kind == 's') {
            text.push_str("s=-\r\n");
        }
        let mut connected = false;
        let line = |text: &mut String, kind: char, value: &str| _ = write!(text, "{kind}={value}\r\n");
        // `c=` stands before `b=` and `t=` (RFC 8866 section 5).
        for (kind, value) in session {
            match kind {
                'v' | 'o' | 'c' | 'u' | 'e' | 'p' | 'k' => {}
                'a' if is_hidden(value) => {}
                _ => {
                    if matches!(kind, 'b' | 't' | 'r' | 'z' | 'a') && !connected {
                        line(&mut text, 'c', &connection(own.address, any));
                        connected = true;
                    }
                    line(&mut text, *kind, value);
                }
            }
        }
        if !connected {
            line(&mut text, 'c', &connection(own.address, any));
        }
        if !session.iter().any(|(kind, _)| *kind == 't') {
            line(&mut text, 't', "0 0");
        }
        line(&mut text, 'a', &format!("control:{}", own.control));
        for (index, lines) in self.sections[1..].iter().enumerate() {
            for (kind, value) in lines {
                match kind {
                    'c' | 'k' => {}
                    'm' => line(&mut text, 'm', &without_port(value)),
                    'a' if is_hidden(value) => {}
                    _ => line(&mut text, *kind, value),
                }
            }
            if let Some(control) = own.media.get(index) {
                line(&mut text, 'a', &format!("control:{control}"));
            }
        }
        text
    }
}

fn connection(address: IpAddr, any: &str) -> String {
    format!("IN {} {any}", if address.is_ipv6() { "IP6" } else { "IP4" })
}

fn is_hidden(attribute: &str) -> bool {
    let name = attribute.split(':').next().unwrap_or("").trim();
    HIDDEN.iter().any(|hidden| name.eq_ignore_ascii_case(hidden))
}

/// `video 0 RTP/AVP 96` of `video 5004/2 RTP/AVP 96`: the ports are said in SETUP.
fn without_port(media: &str) -> String {
    let mut words: Vec<&str> = media.split_whitespace().collect();
    if let Some(port) = words.get_mut(1) {
        *port = "0";
    }
    words.join(" ")
}

/// What relative URLs of a description are seen from: `Content-Base`, else `Content-Location`, else the URL that was
/// asked for (RFC 2326 appendix C.1.1). One that is no URL, as some cameras write it, is passed over.
pub fn base<'b>(content_base: Option<&'b str>, content_location: Option<&'b str>, asked: &'b str) -> &'b str {
    let is_url = |text: &&str| Url::parse(text).is_some();
    content_base.filter(is_url).or(content_location.filter(is_url)).unwrap_or(asked)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CAMERA: &str = "v=0\r\no=- 1 1 IN IP4 10.0.2.11\r\ns=Camera\r\nu=http://10.0.2.11/\r\nc=IN IP4 10.0.2.11\r\n\
        t=0 0\r\na=control:*\r\na=range:npt=0-12.5\r\na=tool:x\r\nm=video 5004 RTP/AVP 96\r\nc=IN IP4 10.0.2.11\r\n\
        b=AS:500\r\na=rtpmap:96 H264/90000\r\na=fmtp:96 packetization-mode=1\r\na=control:trackID=0\r\n\
        m=audio 0 RTP/AVP 0\r\na=control:rtsp://10.0.2.11/x/audio\r\na=rtcp:5007 IN IP4 10.0.2.11\r\n";

    fn written(description: &Description) -> String {
        let media: Vec<String> = (0..description.media()).map(|track| format!("rtsp://p/a/trackID={track}")).collect();
        let address = "192.0.2.1".parse().unwrap();
        description.written(&Written { address, session: 7, control: "rtsp://p/a/", media: &media })
    }

    #[test]
    fn the_origin_is_not_named() {
        let description = Description::parse(CAMERA.as_bytes()).unwrap();
        let text = written(&description);
        assert!(!text.contains("10.0.2.11"), "{text}");
        assert_eq!(
            text,
            "v=0\r\no=- 7 1 IN IP4 192.0.2.1\r\ns=Camera\r\nc=IN IP4 0.0.0.0\r\nt=0 0\r\na=range:npt=0-12.5\r\na=tool:x\r\n\
             a=control:rtsp://p/a/\r\nm=video 0 RTP/AVP 96\r\nb=AS:500\r\na=rtpmap:96 H264/90000\r\n\
             a=fmtp:96 packetization-mode=1\r\na=control:rtsp://p/a/trackID=0\r\nm=audio 0 RTP/AVP 0\r\n\
             a=control:rtsp://p/a/trackID=1\r\n"
        );
    }

    #[test]
    fn streams_are_known() {
        let description = Description::parse(CAMERA.as_bytes()).unwrap();
        assert_eq!((description.media(), description.media_kind(1)), (2, "audio"));
        assert_eq!([0, 1, 2].map(|track| description.clock_rate(track)), [Some(90000), Some(8000), None]);
        let address = "10.0.2.11".parse().ok();
        assert_eq!([0, 1].map(|track| description.media_place(track)), [(address, Some(5004)), (address, None)]);
        assert!(!description.is_live() && description.is_rtp(0) && !description.is_rtp(2));
        for media in ["video 0 RTP/SAVP 96", "video 0 RTP/AVP", "video 0 RTP/AVP 96 x", "video 0 udp 33"] {
            assert!(!Description::parse(format!("v=0\nm={media}\n").as_bytes()).unwrap().is_rtp(0), "{media}");
        }
        let base = base(Some("rtsp://10.0.2.11/x/"), None, "rtsp://10.0.2.11/x");
        assert_eq!(description.control(base), "rtsp://10.0.2.11/x/");
        assert_eq!(description.media_control(0, base), "rtsp://10.0.2.11/x/trackID=0");
        assert_eq!(description.media_control(1, base), "rtsp://10.0.2.11/x/audio");
    }

    #[test]
    fn formats_are_compared_and_bandwidths_read() {
        let description = Description::parse(CAMERA.as_bytes()).unwrap();
        assert_eq!(
            [None, Some(0), Some(1), Some(2)].map(|own| description.bandwidth(own)),
            [None, Some(500_000), None, None]
        );
        for (from, to, first, second) in [
            ("video 5004", "Video 6000", true, true),
            ("packetization-mode=1", "packetization-mode=0", true, true),
            ("H264/90000", "H265/90000", false, true),
            ("RTP/AVP 96", "RTP/AVP 97", false, true),
            ("audio 0", "video 0", true, false),
            ("m=audio", "a=x\r\nk=audio", true, false),
        ] {
            let other = Description::parse(CAMERA.replacen(from, to, 1).as_bytes()).unwrap();
            let same = [0, 1].map(|index| other.has_format_of(&description, index));
            assert_eq!(same, [first, second], "{to}");
        }
    }

    #[test]
    fn odd_descriptions_are_read() {
        // No origin, no name, no time, lines that end with LF, a base that is none.
        let description = Description::parse(b"v=0\nm=video 0 RTP/AVP 33\n\nend\n").unwrap();
        assert!(description.is_live());
        assert_eq!(base(Some("10.0.2.11/x/"), None, "rtsp://h/x"), "rtsp://h/x");
        assert_eq!(description.media_control(0, "rtsp://h/x"), "rtsp://h/x");
        assert!(written(&description).contains("s=-\r\nc=IN IP4 0.0.0.0\r\nt=0 0\r\n"));
        let own =
            Description::parse(b"v=0\na=control:rtsp://h/all/\na=range:npt=now-\nm=a 0 b 1\na=control:t1\n").unwrap();
        assert_eq!((own.control("rtsp://h/x"), own.is_live()), ("rtsp://h/all/".into(), true));
        assert_eq!(own.media_control(0, "rtsp://h/x"), "rtsp://h/all/t1");
        for wrong in [&b""[..], b"v=0\r\n", b"m=video 0 RTP/AVP 96\r\n", b"\xff\xfe", b"v=0\nM=video\n"] {
            assert_eq!(Description::parse(wrong), Err(Refused(502)));
        }
    }

    proptest! {
        /// What is written is read as the same, and nothing in it comes from an address of the origin.
        #[test]
        fn what_is_written_is_read(
            lines in prop::collection::vec("[a-z]=(10\\.0\\.2\\.11|control:[a-z/:*]{0,9}|[a-z0-9 :/]{0,12})", 0..20)
        ) {
            let text = format!("v=0\r\n{}\r\nm=video 1 RTP/AVP 33\r\n", lines.join("\r\n"));
            let Ok(description) = Description::parse(text.as_bytes()) else { return Ok(()) };
            let once = written(&description);
            let again = Description::parse(once.as_bytes()).unwrap();
            prop_assert_eq!(written(&again), once);
            prop_assert_eq!(again.media(), description.media());
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = Description::parse(&bytes);
        }
    }
}
