//! An RTSP server for one film and one client (RFC 2326): the proxy asks it as it asks any origin, so that sessions,
//! seeks and pauses are the same. Packets go on the connection, paced as they were recorded.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use wire::rtcp::{self, SenderReport};
use wire::rtp::{self, Header};
use wire::rtsp::message::{Request, Response};
use wire::rtsp::range::{self, Npt, Range};
use wire::rtsp::rtp_info::{self, RtpInfo};
use wire::rtsp::transport::{self, Lower, Transport};
use wire::sdp::Written;

use super::film::{Begin, Film, Next, Reading};

/// The session's id: the connection is the client's alone.
const SESSION: &str = "1";
/// What stands in front of a track's number in its URL.
const TRACK: &str = "track=";
/// Between two reports of a track (RFC 3550 section 6.2).
const REPORTS: Duration = Duration::from_secs(5);
/// Between two looks for more of a film that grows.
const LOOK: Duration = Duration::from_millis(20);
/// Seconds between the epochs of NTP and Unix (RFC 5905 section 6).
const NTP: u64 = 2_208_988_800;
/// The name in reports.
const CNAME: &str = "recording";

/// A track that is set up.
#[derive(Debug, Default)]
struct Track {
    channels: (u8, u8),
    /// What was sent: packets, bytes of payload.
    sent: (u32, u32),
    /// The last packet's header.
    last: Option<Header>,
    reported: Option<Duration>,
}

/// How it plays.
#[derive(Clone, Copy, Debug)]
struct Playing {
    /// Where it began, by the clock and in the film,
    since: Duration,
    from: Duration,
    /// and where it is to end.
    until: Option<Duration>,
}

/// See the module. Times are those of one clock of the caller's.
#[derive(Debug)]
pub struct Server<F> {
    film: F,
    tracks: BTreeMap<usize, Track>,
    playing: Option<Playing>,
    /// Where it goes on after a pause,
    position: Duration,
    /// if it has begun.
    has_begun: bool,
    /// A packet that was read and is not due yet.
    next: Option<Next>,
}

/// What is to be sent on the connection: channel and packet.
pub type Data = (u8, Vec<u8>);

/// When there is something to do again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// At this time.
    At(Duration),
    /// With the next request.
    OnRequest,
}

/// What a server says that has no such film.
pub fn without_film(request: &Request) -> Response {
    Response::new(if request.method == "OPTIONS" { 200 } else { 404 }, request.cseq())
}

impl<F: Film> Server<F> {
    /// One that plays nothing yet, and begins there unless it is told otherwise.
    pub fn new(film: F, position: Duration) -> Server<F> {
        Server { film, tracks: BTreeMap::new(), playing: None, position, has_begun: false, next: None }
    }

    /// The answer to a request.
    pub fn answer(&mut self, request: &Request, now: Duration) -> Response {
        let result = match request.method.as_str() {
            "OPTIONS" => Ok(self.options()),
            "DESCRIBE" => Ok(self.describe(request)),
            "SETUP" => self.set_up(request),
            "PLAY" => self.play(request, now),
            "PAUSE" => self.pause(now),
            "TEARDOWN" => Ok(self.tear_down()),
            "GET_PARAMETER" | "SET_PARAMETER" if request.body.is_empty() => Ok(Response::new(200, None)),
            "GET_PARAMETER" | "SET_PARAMETER" => Err(451),
            _ => Err(501),
        };
        let mut response = result.unwrap_or_else(|status| Response::new(status, None));
        request.cseq().into_iter().for_each(|cseq| response.headers.push("CSeq", cseq.to_string()));
        if !self.tracks.is_empty() {
            response.headers.push("Session", SESSION);
        }
        response
    }

    fn options(&self) -> Response {
        let mut response = Response::new(200, None);
        response.headers.push("Public", "OPTIONS, DESCRIBE, SETUP, PLAY, PAUSE, TEARDOWN, GET_PARAMETER");
        response
    }

    fn describe(&self, request: &Request) -> Response {
        let length = self.film.length().as_secs_f64();
        let description = self.film.description().clone().with_range(&format!("npt=0-{length:.3}"));
        let media: Vec<String> = (0..description.media()).map(|track| format!("{TRACK}{track}")).collect();
        let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let written = Written { address, session: 1, control: "*", media: &media };
        let mut response = Response::new(200, None);
        response.headers.push("Content-Type", "application/sdp");
        response.headers.push("Content-Base", format!("{}/", request.url.trim_end_matches('/')));
        response.body = description.written(&written).into_bytes();
        response
    }

    fn set_up(&mut self, request: &Request) -> Result<Response, u16> {
        let track = request.url.rsplit_once(TRACK).and_then(|(_, number)| number.parse().ok());
        let track = track.filter(|own: &usize| *own < self.film.description().media()).ok_or(404u16)?;
        if self.playing.is_some() {
            return Err(455);
        }
        let wanted = transport::parse(request.headers.get("transport").unwrap_or(""));
        let channels = wanted.iter().filter(|own| own.lower == Lower::Tcp && !own.multicast);
        let channels = channels.filter_map(|own| own.interleaved).next().ok_or(461u16)?;
        self.tracks.insert(track, Track { channels, ..Track::default() });
        let mut response = Response::new(200, None);
        response.headers.push("Transport", Transport::tcp(channels).to_string());
        Ok(response)
    }

    fn play(&mut self, request: &Request, now: Duration) -> Result<Response, u16> {
        if self.tracks.is_empty() {
            return Err(455);
        }
        let (wanted, until) = match request.headers.get("range").map(range::parse) {
            None => (None, None),
            Some(Some(Range::Npt { start: Npt::At(start), end })) => (Some(start), end),
            Some(Some(Range::Npt { start: Npt::Open, end })) => (None, end),
            Some(Some(Range::Npt { start: Npt::Now, end })) => (Some(self.film.length().as_secs_f64()), end),
            Some(_) => return Err(457),
        };
        let time = |own: f64| Duration::try_from_secs_f64(own).map_err(|_| 457u16);
        let wanted = wanted.map(time).transpose()?;
        let until = until.map(time).transpose()?;
        // A PLAY of what plays, without a range, is a sign of life (RFC 2326 section 10.5).
        if wanted.is_none() && self.playing.is_some() {
            let mut response = Response::new(200, None);
            response.headers.push("Range", self.range(self.played(now)));
            return Ok(response);
        }
        let length = self.film.length();
        let to = wanted.unwrap_or(self.position);
        if to > length && !self.film.grows() {
            return Err(457);
        }
        // What is resumed goes on where it was; packets are not sent twice.
        let begin = match wanted.is_none() && self.has_begun {
            true => Begin { npt: self.position, first: Vec::new() },
            false => {
                let tracks: Vec<usize> = self.tracks.keys().copied().collect();
                self.next = None;
                self.film.seek(to.min(length), &tracks).map_err(|_| 500u16)?
            }
        };
        self.has_begun = true;
        self.playing = Some(Playing { since: now, from: begin.npt, until });
        let mut response = Response::new(200, None);
        response.headers.push("Range", self.range(begin.npt));
        response.headers.push("Scale", "1");
        let info = |(track, header): &(usize, Header)| RtpInfo {
            url: format!("{}/{TRACK}{track}", request.url.trim_end_matches('/')),
            seq: Some(header.sequence),
            rtptime: Some(header.timestamp),
        };
        if !begin.first.is_empty() {
            response.headers.push("RTP-Info", rtp_info::text(&begin.first.iter().map(info).collect::<Vec<_>>()));
        }
        Ok(response)
    }

    fn range(&self, from: Duration) -> String {
        match self.film.grows() {
            true => format!("npt={:.3}-", from.as_secs_f64()),
            false => format!("npt={:.3}-{:.3}", from.as_secs_f64(), self.film.length().as_secs_f64()),
        }
    }

    /// Where it is in the film.
    fn played(&self, now: Duration) -> Duration {
        self.playing.map_or(self.position, |own| own.from + now.saturating_sub(own.since)).min(self.film.length())
    }

    fn pause(&mut self, now: Duration) -> Result<Response, u16> {
        self.position = self.played(now);
        self.playing = None;
        let mut response = Response::new(200, None);
        response.headers.push("Range", self.range(self.position));
        Ok(response)
    }

    fn tear_down(&mut self) -> Response {
        self.tracks.clear();
        (self.playing, self.next, self.has_begun) = (None, None, false);
        Response::new(200, None)
    }

    /// Takes what is due, so many packets at most; when it is due again.
    ///
    /// # Errors
    /// Why no more can be read.
    pub fn take(&mut self, now: Duration, wall: Duration, most: usize, data: &mut Vec<Data>) -> Result<Due, String> {
        let Some(playing) = self.playing else { return Ok(Due::OnRequest) };
        for _ in 0..most {
            let next = match self.next.take() {
                Some(next) => next,
                None => match self.film.read()? {
                    Reading::Packet(next) => next,
                    Reading::Wait => return Ok(Due::At(now + LOOK)),
                    Reading::End => {
                        self.end(data);
                        return Ok(Due::OnRequest);
                    }
                },
            };
            if playing.until.is_some_and(|until| next.npt >= until) {
                self.end(data);
                return Ok(Due::OnRequest);
            }
            let due = playing.since + next.npt.saturating_sub(playing.from);
            if due > now {
                self.next = Some(next);
                return Ok(Due::At(due));
            }
            self.send(next, now, wall, data);
        }
        Ok(Due::At(now))
    }

    fn send(&mut self, next: Next, now: Duration, wall: Duration, data: &mut Vec<Data>) {
        let Next { track, packet, .. } = next;
        let Some(own) = self.tracks.get_mut(&track) else { return };
        let Some(header) = Header::read(&packet) else { return };
        own.sent.0 = own.sent.0.wrapping_add(1);
        own.sent.1 = own.sent.1.wrapping_add(rtp::payload(&packet).map_or(0, <[u8]>::len) as u32);
        own.last = Some(header);
        data.push((own.channels.0, packet));
        // The first one is due at once, as players align tracks by it.
        if own.reported.is_none_or(|then| now.saturating_sub(then) >= REPORTS) {
            own.reported = Some(now);
            let ntp = ((wall.as_secs() + NTP) << 32) | ((u64::from(wall.subsec_nanos()) << 32) / 1_000_000_000);
            let (packets, octets) = own.sent;
            let report = SenderReport { ssrc: header.ssrc, ntp, rtp: header.timestamp, packets, octets };
            data.push((own.channels.1, report.to_bytes(CNAME, false)));
        }
    }

    /// The film is over: receivers are told (RFC 3550 section 6.6).
    fn end(&mut self, data: &mut Vec<Data>) {
        (self.playing, self.position, self.has_begun) = (None, Duration::ZERO, false);
        for own in self.tracks.values() {
            if let Some(header) = own.last {
                data.push((own.channels.1, rtcp::bye(header.ssrc, CNAME, "")));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use wire::sdp::Description;

    use super::*;

    /// Two tracks, a packet of each every 100 ms; access points each second.
    struct Reel {
        description: Description,
        length: u64,
        grows: bool,
        at: u64,
        tracks: Vec<usize>,
    }

    const SDP: &str = "v=0\r\no=- 1 1 IN IP4 10.9.9.9\r\ns=x\r\nt=0 0\r\na=range:npt=now-\r\nm=video 0 RTP/AVP 96\r\n\
        a=rtpmap:96 H264/90000\r\na=control:rtsp://10.9.9.9/v\r\nm=audio 0 RTP/AVP 0\r\na=control:a\r\n";

    fn packet(track: usize, at: u64) -> Vec<u8> {
        let mut packet = vec![0x80, 96];
        packet.extend((at as u16).to_be_bytes());
        packet.extend((at as u32 * 9000).to_be_bytes());
        packet.extend([track as u8; 4]);
        packet.extend([track as u8, at as u8]);
        packet
    }

    impl Film for Reel {
        fn description(&self) -> &Description {
            &self.description
        }

        fn length(&self) -> Duration {
            Duration::from_millis(self.length * 100)
        }

        fn grows(&self) -> bool {
            self.grows
        }

        fn seek(&mut self, to: Duration, tracks: &[usize]) -> Result<Begin, String> {
            let begin = to.as_millis() as u64 / 1000 * 10;
            (self.at, self.tracks) = (2 * begin, tracks.to_vec());
            let header = |track: usize| Header::read(&packet(track, begin)).unwrap();
            let first = tracks.iter().map(|track| (*track, header(*track))).collect();
            Ok(Begin { npt: Duration::from_millis(begin * 100), first })
        }

        fn read(&mut self) -> Result<Reading, String> {
            loop {
                let (at, track) = (self.at / 2, (self.at % 2) as usize);
                if at >= self.length {
                    return Ok(if self.grows { Reading::Wait } else { Reading::End });
                }
                self.at += 1;
                if self.tracks.contains(&track) {
                    let npt = Duration::from_millis(at * 100);
                    return Ok(Reading::Packet(Next { track, npt, packet: packet(track, at) }));
                }
            }
        }
    }

    struct Test {
        server: Server<Reel>,
        now: Duration,
    }

    impl Test {
        fn new(length: u64, grows: bool) -> Test {
            let description = Description::parse(SDP.as_bytes()).unwrap();
            let reel = Reel { description, length, grows, at: 0, tracks: Vec::new() };
            Test { server: Server::new(reel, Duration::ZERO), now: Duration::from_secs(1000) }
        }

        fn ask(&mut self, method: &str, url: &str, headers: &[(&str, &str)]) -> Response {
            let mut request = Request::new(method, url);
            request.headers.push("CSeq", "7");
            headers.iter().for_each(|(name, value)| request.headers.push(name, *value));
            let answer = self.server.answer(&request, self.now);
            assert_eq!(answer.cseq(), Some(7));
            answer
        }

        fn set_up(&mut self, track: usize) {
            let transport = format!("RTP/AVP/TCP;unicast;interleaved={}-{}", 2 * track, 2 * track + 1);
            let answer = self.ask("SETUP", &format!("rtsp://x/f/track={track}"), &[("Transport", &transport)]);
            assert_eq!((answer.status, answer.headers.get("session")), (200, Some("1")));
        }

        /// What comes in a time: of each packet its channel, and for RTP its number.
        fn run(&mut self, time: Duration) -> Vec<(u8, Option<u16>)> {
            let end = self.now + time;
            let mut data = Vec::new();
            while let Due::At(due) = self.server.take(self.now, Duration::from_secs(5), 3, &mut data).unwrap() {
                if due > end {
                    break;
                }
                self.now = self.now.max(due);
            }
            self.now = end;
            let number =
                |channel: u8, bytes: &[u8]| channel.is_multiple_of(2).then(|| Header::read(bytes).unwrap().sequence);
            data.into_iter().map(|(channel, bytes)| (channel, number(channel, &bytes))).collect()
        }
    }

    fn numbers(of: &[(u8, Option<u16>)], channel: u8) -> Vec<u16> {
        of.iter().filter(|(own, _)| *own == channel).filter_map(|(_, number)| *number).collect()
    }

    #[test]
    fn a_film_is_played_as_it_was_recorded() {
        let mut test = Test::new(30, false);
        let answer = test.ask("DESCRIBE", "rtsp://x/f", &[]);
        let text = String::from_utf8(answer.body).unwrap();
        assert!(text.contains("a=range:npt=0-3.000") && !text.contains("now-") && !text.contains("10.9"), "{text}");
        assert!(text.contains("a=control:track=1"), "{text}");
        assert_eq!(test.ask("PLAY", "rtsp://x/f", &[]).status, 455);
        test.set_up(0);
        test.set_up(1);
        let answer = test.ask("PLAY", "rtsp://x/f", &[]);
        let infos = rtp_info::parse(answer.headers.get("rtp-info").unwrap());
        assert_eq!((infos.len(), infos[1].seq, answer.headers.get("range")), (2, Some(0), Some("npt=0.000-3.000")));
        let first = test.run(Duration::from_millis(950));
        assert_eq!(numbers(&first, 0), (0..10).collect::<Vec<_>>());
        assert_eq!(numbers(&first, 2), numbers(&first, 0));
        // A report of each track comes at once.
        assert_eq!(first.iter().filter(|(channel, _)| channel % 2 == 1).count(), 2);
        // A pause is one, and nothing is lost or comes twice.
        assert_eq!(test.ask("PAUSE", "rtsp://x/f", &[]).headers.get("range"), Some("npt=0.950-3.000"));
        assert_eq!(test.run(Duration::from_secs(9)), []);
        assert_eq!(test.ask("PLAY", "rtsp://x/f", &[]).headers.get("range"), Some("npt=0.950-3.000"));
        assert_eq!(numbers(&test.run(Duration::from_millis(100)), 0), [10]);
        // A seek begins at an access point.
        let answer = test.ask("PLAY", "rtsp://x/f", &[("Range", "npt=2.7-")]);
        assert_eq!(answer.headers.get("range"), Some("npt=2.000-3.000"));
        assert_eq!(rtp_info::parse(answer.headers.get("rtp-info").unwrap())[0].seq, Some(20));
        let last = test.run(Duration::from_secs(2));
        assert_eq!(numbers(&last, 2), (20..30).collect::<Vec<_>>());
        // The end is told to both, once.
        assert_eq!(last.iter().filter(|(channel, _)| channel % 2 == 1).count(), 2);
        assert_eq!(test.run(Duration::from_secs(2)), []);
        assert_eq!(test.ask("PLAY", "rtsp://x/f", &[]).headers.get("range"), Some("npt=0.000-3.000"));
        assert_eq!(test.ask("TEARDOWN", "rtsp://x/f", &[]).status, 200);
        assert_eq!(test.run(Duration::from_secs(2)), []);
    }

    #[test]
    fn ranges_end_where_they_say_and_films_grow() {
        let mut test = Test::new(20, true);
        test.set_up(1);
        let answer = test.ask("PLAY", "rtsp://x/f", &[("Range", "npt=1-1.5")]);
        assert_eq!(answer.headers.get("range"), Some("npt=1.000-"));
        assert_eq!(numbers(&test.run(Duration::from_secs(1)), 2), (10..15).collect::<Vec<_>>());
        test.ask("PLAY", "rtsp://x/f", &[("Range", "npt=1-")]);
        assert_eq!(numbers(&test.run(Duration::from_secs(3)), 2), (10..20).collect::<Vec<_>>());
        test.server.film.length = 25;
        assert_eq!(numbers(&test.run(Duration::from_millis(500)), 2), (20..25).collect::<Vec<_>>());
        test.server.film.grows = false;
        assert_eq!(test.run(Duration::from_millis(500)).len(), 1, "the end");
    }

    #[test]
    fn what_is_wrong_is_refused() {
        let mut test = Test::new(20, false);
        let tcp = [("Transport", "RTP/AVP/TCP;unicast;interleaved=0-1")];
        for (method, url, headers, status) in [
            ("SETUP", "rtsp://x/f/track=2", &tcp[..], 404),
            ("SETUP", "rtsp://x/f", &tcp, 404),
            ("SETUP", "rtsp://x/f/track=0", &[("Transport", "RTP/AVP;unicast;client_port=5000-5001")], 461),
            ("SETUP", "rtsp://x/f/track=0", &[], 461),
            ("SETUP", "rtsp://x/f/track=0", &tcp, 200),
            ("PLAY", "rtsp://x/f", &[("Range", "npt=7-")], 457),
            ("PLAY", "rtsp://x/f", &[("Range", "npt=1e300-")], 457),
            ("PLAY", "rtsp://x/f", &[("Range", "smpte=0:10:00-")], 457),
            ("PLAY", "rtsp://x/f", &[("Range", "wrong")], 457),
            ("RECORD", "rtsp://x/f", &[], 501),
            ("OPTIONS", "*", &[], 200),
        ] {
            assert_eq!(test.ask(method, url, headers).status, status, "{method} {url} {headers:?}");
        }
    }
}
