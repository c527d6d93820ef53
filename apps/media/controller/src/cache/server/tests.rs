//! A server for a film whose packets are known.

use wire::sdp::Description;

use super::*;

/// Two tracks, a packet of each every 100 ms; access points each second.
struct Reel {
    description: Description,
    length: u64,
    grows: bool,
    at: u64,
    tracks: Vec<usize>,
    keys: bool,
    /// Whether it may be read now.
    may_be_read: bool,
    /// From which on they are of another recording.
    gap: Option<u64>,
    /// From which on they are elsewhere.
    leaves: Option<u64>,
}

/// When it was recorded: 24 November 2026, 19:00.
const CLOCK: Duration = Duration::from_secs(1_795_546_800);

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

    fn clock_at(&self, npt: Duration) -> Option<Duration> {
        Some(CLOCK + npt)
    }

    fn npt_at(&self, clock: Duration) -> Option<Duration> {
        Some(clock.saturating_sub(CLOCK))
    }

    fn around(&self, npt: Duration, tracks: &[usize], give: &mut dyn FnMut(&Next)) -> Result<(), String> {
        let at = npt.as_millis() as u64 / 100;
        for (at, track) in (at - 10..at + 2).flat_map(|at| tracks.iter().map(move |track| (at, *track))) {
            let next = |recording, number| Next { track, npt, packet: packet(track, number), anew: false, recording };
            give(&next(0, at));
            // Of another recording, with numbers that are as good as any.
            give(&next(7, at + 100));
        }
        Ok(())
    }

    // An origin has the last second, too.
    fn has(&self, npt: Duration) -> bool {
        self.leaves.is_none_or(|leaves| npt + Duration::from_secs(1) <= Duration::from_millis(leaves * 100))
    }

    fn seek(&mut self, to: Duration, tracks: &[usize], keys: bool) -> Result<Begin, String> {
        assert!(self.may_be_read);
        let begin = to.as_millis() as u64 / 1000 * 10;
        // Only the first track has pictures.
        let tracks: Vec<usize> = tracks.iter().copied().filter(|own| !keys || *own == 0).collect();
        (self.at, self.tracks, self.keys) = (2 * begin, tracks.clone(), keys);
        let header = |track: usize| Header::read(&packet(track, begin)).unwrap();
        let first = tracks.iter().map(|track| (*track, header(*track))).collect();
        Ok(Begin { npt: Duration::from_millis(begin * 100), first })
    }

    fn read(&mut self) -> Result<Reading, String> {
        assert!(self.may_be_read);
        loop {
            let (at, track) = (self.at / 2, (self.at % 2) as usize);
            if self.leaves == Some(at) {
                return Ok(Reading::Elsewhere(Duration::from_millis(at * 100)));
            }
            if at >= self.length {
                return Ok(if self.grows { Reading::Wait } else { Reading::End });
            }
            self.at += 1;
            if self.tracks.contains(&track) && (!self.keys || at.is_multiple_of(10)) {
                // In the middle there is a gap of a minute, and another recording behind it.
                let (gap, number) = match self.gap.filter(|gap| at >= *gap) {
                    Some(gap) => (Duration::from_secs(60), at + 7000 + gap),
                    None => (Duration::ZERO, at),
                };
                let npt = Duration::from_millis(at * 100) + gap;
                let anew = self.gap == Some(at);
                return Ok(Reading::Packet(Next { track, npt, packet: packet(track, number), anew, recording: 0 }));
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
        let (at, tracks, keys, may_be_read, gap, leaves) = (0, Vec::new(), false, true, None, None);
        let reel = Reel { description, length, grows, at, tracks, keys, may_be_read, gap, leaves };
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

    /// What is due now. What was read already is taken without the disk.
    fn take(&mut self, most: usize, data: &mut Vec<Data>) -> Due {
        let wall = Duration::from_secs(5);
        self.server.film.may_be_read = false;
        let due = self.server.take_read(self.now, wall, most, data).unwrap();
        self.server.film.may_be_read = true;
        if due == Due::Unread { self.server.take(self.now, wall, most, data).unwrap() } else { due }
    }

    /// What comes in a time: of each packet its channel, and for RTP its header and which packet of the film it is.
    fn run(&mut self, time: Duration) -> Vec<Got> {
        let end = self.now + time;
        let mut data = Vec::new();
        while let Due::At(due) = self.take(3, &mut data) {
            if due > end {
                break;
            }
            self.now = self.now.max(due);
        }
        self.now = end;
        got(data)
    }

    /// What comes until the film goes on elsewhere, and what is said of that.
    fn run_to_rest(&mut self) -> (Vec<Got>, Rest) {
        let mut data = Vec::new();
        loop {
            match self.take(64, &mut data) {
                Due::At(due) => self.now = self.now.max(due),
                Due::Elsewhere(rest) => return (got(data), rest),
                other => panic!("{other:?}"),
            }
        }
    }
}

/// A channel, and of RTP its header and which packet of the film it is.
type Got = (u8, Option<(Header, u8)>);

fn got(data: Vec<Data>) -> Vec<Got> {
    let read = |channel: u8, bytes: &[u8]| channel.is_multiple_of(2).then(|| (Header::read(bytes).unwrap(), bytes[13]));
    data.into_iter().map(|(channel, bytes)| (channel, read(channel, &bytes))).collect()
}

fn of_channel(of: &[Got], channel: u8) -> impl Iterator<Item = (Header, u8)> {
    of.iter().filter(move |(own, _)| *own == channel).filter_map(|(_, got)| *got)
}

fn numbers(of: &[Got], channel: u8) -> Vec<u16> {
    of_channel(of, channel).map(|(header, _)| header.sequence).collect()
}

fn places(of: &[Got], channel: u8) -> Vec<u8> {
    of_channel(of, channel).map(|(_, place)| place).collect()
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
    // A seek begins at an access point, and numbers go on.
    let answer = test.ask("PLAY", "rtsp://x/f", &[("Range", "npt=2.7-")]);
    assert_eq!(answer.headers.get("range"), Some("npt=2.000-3.000"));
    assert_eq!(rtp_info::parse(answer.headers.get("rtp-info").unwrap())[0].seq, Some(11));
    let last = test.run(Duration::from_secs(2));
    assert_eq!(numbers(&last, 2), (11..21).collect::<Vec<_>>());
    assert_eq!(places(&last, 2), (20..30).collect::<Vec<_>>());
    // A report of each track comes at once, and the end is told to both, once.
    assert_eq!(last.iter().filter(|(channel, _)| channel % 2 == 1).count(), 4);
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
    assert_eq!(answer.headers.get("range"), Some("npt=1.000-1.500"));
    assert_eq!(places(&test.run(Duration::from_secs(1)), 2), (10..15).collect::<Vec<_>>());
    test.ask("PLAY", "rtsp://x/f", &[("Range", "npt=1-")]);
    assert_eq!(places(&test.run(Duration::from_secs(3)), 2), (10..20).collect::<Vec<_>>());
    test.server.film.length = 25;
    assert_eq!(places(&test.run(Duration::from_millis(500)), 2), (20..25).collect::<Vec<_>>());
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

#[test]
fn a_gap_is_left_out() {
    let mut test = Test::new(20, false);
    test.server.film.gap = Some(10);
    test.set_up(0);
    test.ask("PLAY", "rtsp://x/f", &[]);
    let all = test.run(Duration::from_secs(3));
    // All of it comes in its own time, with numbers that go on, and as long a step of them as of time.
    assert_eq!(numbers(&all, 0), (0..20).collect::<Vec<_>>());
    let times: Vec<u32> = of_channel(&all, 0).map(|(header, _)| header.timestamp).collect();
    let expected = (0..10).map(|at| at * 9000).chain((0..10).map(|at| 9 * 9000 + 1800 + at * 9000));
    assert_eq!(times, expected.collect::<Vec<u32>>());
}

#[test]
fn ranges_follow_each_other() {
    let mut test = Test::new(60, false);
    test.set_up(1);
    let ask = |test: &mut Test, range: &str| {
        let answer = test.ask("PLAY", "rtsp://x/f", &[("Range", range)]);
        (answer.status, answer.headers.get("range").unwrap_or_default().to_owned())
    };
    assert_eq!(ask(&mut test, "npt=1-1.5"), (200, "npt=1.000-1.500".into()));
    // In times of the wall clock, and told so.
    assert_eq!(
        ask(&mut test, "clock=20261124T190003Z-20261124T190003.3Z"),
        (200, "clock=20261124T190003Z-20261124T190003.300Z".into())
    );
    assert_eq!(ask(&mut test, "npt=5-"), (200, "npt=5.000-6.000".into()));
    let all = test.run(Duration::from_secs(4));
    assert_eq!(places(&all, 2), (10..15).chain(30..33).chain(50..60).collect::<Vec<_>>());
    assert_eq!(numbers(&all, 2), (10..28).collect::<Vec<_>>());
    // One end is told: that of all. Those that wait are forgotten with a pause.
    assert_eq!(all.iter().filter(|(channel, _)| *channel == 3).count(), 1 + 3);
    ask(&mut test, "npt=1-2");
    ask(&mut test, "npt=5-");
    test.ask("PAUSE", "rtsp://x/f", &[]);
    ask(&mut test, "npt=2-2.2");
    assert_eq!(places(&test.run(Duration::from_secs(2)), 2), [20, 21]);
    // What has no end is left for the next one at once.
    ask(&mut test, "npt=1-");
    test.run(Duration::from_millis(150));
    ask(&mut test, "npt=4-4.3");
    assert_eq!(places(&test.run(Duration::from_secs(2)), 2), [40, 41, 42]);
    for _ in 0..33 {
        ask(&mut test, "npt=0-1");
    }
    assert_eq!(ask(&mut test, "npt=0-1").0, 455);
}

#[test]
fn fast_forward_has_some_pictures() {
    let mut test = Test::new(100, false);
    test.set_up(0);
    test.set_up(1);
    for (asked, used) in [("1", "1"), ("0.5", "1"), ("-4", "1"), ("x", "1"), ("2.9", "2"), ("1e9", "64")] {
        let answer = test.ask("PLAY", "rtsp://x/f", &[("Scale", asked), ("Range", "npt=0-")]);
        assert_eq!(answer.headers.get("scale"), Some(used), "{asked}");
    }
    test.ask("PLAY", "rtsp://x/f", &[("Scale", "1"), ("Range", "npt=0-")]);
    test.run(Duration::from_millis(2050));
    // From where it is.
    let answer = test.ask("PLAY", "rtsp://x/f", &[("Scale", "4")]);
    assert_eq!((answer.headers.get("scale"), answer.headers.get("range")), (Some("4"), Some("npt=2.000-10.000")));
    let all = test.run(Duration::from_millis(1100));
    assert_eq!((places(&all, 0), places(&all, 2)), (vec![20, 30, 40, 50, 60], vec![]));
    let headers: Vec<Header> = of_channel(&all, 0).map(|(header, _)| header).collect();
    for two in headers.windows(2) {
        assert_eq!(two[1].sequence, two[0].sequence.wrapping_add(1));
        assert_eq!(two[1].timestamp.wrapping_sub(two[0].timestamp), 90_000 / 4);
    }
    // And on as it was recorded.
    let answer = test.ask("PLAY", "rtsp://x/f", &[("Scale", "1")]);
    assert_eq!((answer.headers.get("scale"), answer.headers.get("range")), (Some("1"), Some("npt=6.000-10.000")));
    let all = test.run(Duration::from_millis(250));
    assert_eq!((places(&all, 0), places(&all, 2)), (vec![60, 61, 62], vec![60, 61, 62]));
    // What has no pictures is played as it was.
    let mut test = Test::new(20, false);
    test.set_up(1);
    let answer = test.ask("PLAY", "rtsp://x/f", &[("Scale", "4")]);
    assert_eq!(answer.headers.get("scale"), Some("1"));
}

/// What is known of a film that goes on elsewhere has the numbers that it was sent with.
#[test]
fn a_film_goes_on_elsewhere() {
    use super::super::seam::Place;
    let mut test = Test::new(100, false);
    test.server.film.leaves = Some(50);
    test.set_up(0);
    test.set_up(1);
    // Numbers are others than those of the recording.
    test.ask("PLAY", "rtsp://x/f", &[("Range", "npt=0-")]);
    test.run(Duration::from_millis(50));
    test.ask("PLAY", "rtsp://x/f", &[("Range", "npt=1-9")]);
    let first = test.run(Duration::from_millis(1950));
    assert_eq!(places(&first, 0), (10..30).collect::<Vec<_>>());
    // It is left when all of it has come.
    let begin = test.now;
    let (last, mut rest) = test.run_to_rest();
    assert_eq!((rest.from, rest.until, rest.scale), (Duration::from_secs(5), Some(Duration::from_secs(9)), 1));
    assert_eq!(places(&last, 0), (30..50).collect::<Vec<_>>());
    let (last, _) = of_channel(&last, 0).last().unwrap();
    let took = (test.now - begin).as_millis();
    assert!((2050..2100).contains(&took), "{took}");
    let tail = rest.seam.get_mut(&0).unwrap();
    assert_eq!((tail.place(&packet(0, 40)), tail.place(&packet(0, 49))), (Place::Sent, Place::Sent));
    assert_eq!(tail.clone().place(&packet(0, 141)), Place::Next(last.timestamp.wrapping_sub(49 * 9000)));
    // The origin's own numbers do not matter.
    let mut again = packet(0, 50);
    Header { sequence: 7, timestamp: 1000, ssrc: 9 }.write(&mut again);
    assert_eq!(tail.place(&again), Place::Next(last.timestamp.wrapping_add(9000).wrapping_sub(1000)));
    assert_eq!(rest.seam.len(), 2);
}

/// A pause at the end of a copy changes nothing: what was sent is known, and the rest goes on at the same speed.
#[test]
fn a_film_goes_on_elsewhere_behind_a_pause() {
    for (scale, played, place) in [(1, 3550, "4.550"), (2, 1550, "4.100")] {
        let mut test = Test::new(100, false);
        test.server.film.leaves = Some(50);
        test.set_up(0);
        test.ask("PLAY", "rtsp://x/f", &[("Range", "npt=1-"), ("Scale", &scale.to_string())]);
        let mut all = test.run(Duration::from_millis(played));
        let paused = test.ask("PAUSE", "rtsp://x/f", &[]);
        assert_eq!((paused.status, paused.headers.get("range")), (200, Some(&*format!("npt={place}-10.000"))));
        test.run(Duration::from_secs(7));
        // Of who begins there the origin is asked at once, but not of who goes on.
        assert_eq!(test.ask("PLAY", "rtsp://x/f", &[("Range", &format!("npt={place}-"))]).status, 302);
        assert_eq!(test.ask("PLAY", "rtsp://x/f", &[("Scale", &scale.to_string())]).status, 200);
        let (last, rest) = test.run_to_rest();
        assert_eq!((rest.from, rest.until, rest.scale), (Duration::from_secs(5), None, scale));
        all.extend(last);
        assert_eq!(places(&all, 0), (10..50).step_by(if scale == 1 { 1 } else { 10 }).collect::<Vec<_>>());
        // Numbers of what was left out say nothing of what follows.
        assert_eq!(rest.seam.is_empty(), scale != 1);
    }
}
