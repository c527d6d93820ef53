//! An RTSP server for one film and one client (RFC 2326): the proxy asks it as it asks any origin, so that sessions,
//! seeks and pauses are the same. Packets go on the connection, paced as they were recorded, and numbers go on whatever
//! is played.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use wire::rtcp::SenderReport;
use wire::rtp::{self, Header};
use wire::rtsp::message::{Request, Response};
use wire::rtsp::rtp_info::{self, RtpInfo};
use wire::rtsp::transport::{self, Lower, Transport};
use wire::sdp::Written;

use super::ahead::Ahead;
use super::film::{Begin, Film, Next, Reading};
use super::numbers::Numbers;
use super::seam::{Known, Rest, Seam};

mod wanted;

/// The session's id: the connection is the client's alone.
const SESSION: &str = "1";
/// What stands in front of a track's number in its URL.
const TRACK: &str = "track=";
/// Between two reports of a track (RFC 3550 section 6.2).
const REPORTS: Duration = Duration::from_secs(5);
/// Between two looks for more of a film that grows.
const LOOK: Duration = Duration::from_millis(20);
/// Nobody waits for longer in a gap of the film,
const LONGEST_GAP: Duration = Duration::from_secs(5);
/// and what follows it, or another range, is played so long behind what was before.
const STEP: Duration = Duration::from_millis(20);
/// What is sent is with its client after so long: only then it is sent elsewhere, as what is under way would be lost.
const UNDER_WAY: Duration = Duration::from_millis(100);
/// Ranges that wait for the one before at most.
const MOST_QUEUED: usize = 32;
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
    numbers: Numbers,
    /// The recording of the last packet.
    recording: u64,
    reported: Option<Duration>,
}

impl Track {
    /// What was sent up to a packet, and whether that was the last one (RFC 3550 sections 6.4.1 and 6.6).
    fn report(&self, last: Header, wall: Duration, ends: bool) -> Vec<u8> {
        let ntp = ((wall.as_secs() + NTP) << 32) | ((u64::from(wall.subsec_nanos()) << 32) / 1_000_000_000);
        let (packets, octets) = self.sent;
        SenderReport { ssrc: last.ssrc, ntp, rtp: last.timestamp, packets, octets }.to_bytes(CNAME, ends)
    }
}

/// How it plays.
#[derive(Clone, Copy, Debug)]
struct Playing {
    /// Where it began, by the clock and in the film,
    since: Duration,
    from: Duration,
    /// where it is to end,
    until: Option<Duration>,
    /// and how many times as fast as it was recorded: then only pictures at which a decoder can begin are sent.
    scale: u32,
}

impl Playing {
    /// When a time of the film is due.
    fn due(&self, npt: Duration) -> Duration {
        self.since + npt.saturating_sub(self.from) / self.scale
    }
}

/// See the module. Times are those of one clock of the caller's.
#[derive(Debug)]
pub struct Server<F> {
    film: F,
    ahead: Ahead,
    tracks: BTreeMap<usize, Track>,
    playing: Option<Playing>,
    /// Ranges that follow: where they begin and end, and their scale.
    queue: VecDeque<(Duration, Option<Duration>, u32)>,
    /// Where it goes on after a pause,
    position: Duration,
    /// at that scale, if it has begun.
    begun: Option<u32>,
    /// The time in the film of the packet that was sent last.
    reached: Duration,
}

/// What is to be sent on the connection: channel and packet.
pub type Data = (u8, Vec<u8>);

/// When there is something to do again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Due {
    /// At this time.
    At(Duration),
    /// With the next request.
    OnRequest,
    /// At once, but the film has to be read.
    Unread,
    /// The film goes on elsewhere.
    Elsewhere(Rest),
}

/// What a server says that has no such film: this status.
pub fn without_film(request: &Request, status: u16) -> Response {
    Response::new(if request.method == "OPTIONS" { 200 } else { status }, request.cseq())
}

impl<F: Film> Server<F> {
    /// One that plays nothing yet, and begins there unless it is told otherwise.
    pub fn new(film: F, position: Duration) -> Server<F> {
        Server {
            film,
            ahead: Ahead::default(),
            tracks: BTreeMap::new(),
            playing: None,
            queue: VecDeque::new(),
            position,
            begun: None,
            reached: position,
        }
    }

    /// The answer to a request.
    pub fn answer(&mut self, request: &Request, now: Duration) -> Response {
        self.film.refresh();
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
        let description = self.film.description();
        let track = track.filter(|own: &usize| *own < description.media()).ok_or(404u16)?;
        if self.playing.is_some() {
            return Err(455);
        }
        let wanted = transport::parse(request.headers.get("transport").unwrap_or(""));
        let channels = wanted.iter().filter(|own| own.lower == Lower::Tcp && !own.multicast);
        let channels = channels.filter_map(|own| own.interleaved).next().ok_or(461u16)?;
        let numbers = Numbers::new(description.clock_rate(track).unwrap_or(90_000));
        self.tracks.insert(track, Track { channels, numbers, ..Track::default() });
        let mut response = Response::new(200, None);
        response.headers.push("Transport", Transport::tcp(channels).to_string());
        Ok(response)
    }

    fn play(&mut self, request: &Request, now: Duration) -> Result<Response, u16> {
        if self.tracks.is_empty() {
            return Err(455);
        }
        let wanted = self.wanted(request)?;
        let before = self.playing.map_or(self.begun.unwrap_or(1), |own| own.scale);
        let scale = wanted.scale.unwrap_or(if self.playing.is_some() { before } else { 1 });
        // What is resumed goes on where it was; packets are not sent twice.
        let resumes = wanted.from.is_none() && self.playing.is_none() && self.begun == Some(scale);
        // Who is at the end of a copy is there already, and goes on elsewhere as it would have without the pause.
        if !resumes && !self.film.has(wanted.from.unwrap_or_else(|| self.played(now))) {
            return Err(302);
        }
        match (self.playing, wanted.from) {
            // A PLAY of what plays, without a range, is a sign of life (RFC 2326 section 10.5).
            (Some(_), None) if scale == before => {
                return Ok(self.played_response(self.played(now), wanted.until, scale, wanted.is_clock));
            }
            // A range follows one that has an end; one that has none would have it wait for ever.
            (Some(Playing { until: Some(_), .. }), Some(from)) => {
                if self.queue.len() >= MOST_QUEUED {
                    return Err(455);
                }
                self.queue.push_back((from, wanted.until, scale));
                return Ok(self.played_response(from, wanted.until, scale, wanted.is_clock));
            }
            _ => {}
        }
        self.queue.clear();
        let begin = match resumes {
            true => {
                let (since, from, until) = (now, self.position, wanted.until);
                self.playing = Some(Playing { since, from, until, scale });
                Begin { npt: from, first: Vec::new() }
            }
            false => {
                let from = wanted.from.unwrap_or_else(|| self.played(now));
                self.begin(from, wanted.until, scale, now).map_err(|_| 500u16)?
            }
        };
        let Some(playing) = self.playing else { return Err(500) };
        let mut response = self.played_response(begin.npt, wanted.until, playing.scale, wanted.is_clock);
        let info = |(track, header): &(usize, Header)| {
            // What it will be sent with.
            let mut numbers = self.tracks.get(track)?.numbers;
            let header = numbers.next(*header, playing.since, playing.scale);
            let url = format!("{}/{TRACK}{track}", request.url.trim_end_matches('/'));
            Some(RtpInfo { url, seq: Some(header.sequence), rtptime: Some(header.timestamp) })
        };
        let infos: Vec<RtpInfo> = begin.first.iter().filter_map(info).collect();
        if !infos.is_empty() {
            response.headers.push("RTP-Info", rtp_info::text(&infos));
        }
        Ok(response)
    }

    /// Plays from a place on, at a scale, or as recorded where there are no pictures to choose.
    fn begin(&mut self, from: Duration, until: Option<Duration>, scale: u32, since: Duration) -> Result<Begin, String> {
        let tracks: Vec<usize> = self.tracks.keys().copied().collect();
        self.ahead = Ahead::default();
        let (mut scale, to) = (scale, from.min(self.film.length()));
        let mut begin = self.film.seek(to, &tracks, scale > 1)?;
        if scale > 1 && begin.first.is_empty() {
            scale = 1;
            begin = self.film.seek(to, &tracks, false)?;
        }
        self.tracks.values_mut().for_each(|own| {
            own.numbers.join();
            own.reported = None;
        });
        self.playing = Some(Playing { since, from: begin.npt, until, scale });
        (self.begun, self.reached) = (Some(scale), begin.npt);
        Ok(begin)
    }

    fn played_response(&self, from: Duration, until: Option<Duration>, scale: u32, is_clock: bool) -> Response {
        let mut response = Response::new(200, None);
        response.headers.push("Range", self.range(from, until, is_clock));
        response.headers.push("Scale", scale.to_string());
        response
    }

    /// Where it is in the film.
    fn played(&self, now: Duration) -> Duration {
        let played = |own: Playing| own.from + now.saturating_sub(own.since) * own.scale;
        self.playing.map_or(self.position, played).min(self.film.length())
    }

    fn pause(&mut self, now: Duration) -> Result<Response, u16> {
        self.position = self.played(now);
        self.playing = None;
        self.queue.clear();
        let mut response = Response::new(200, None);
        response.headers.push("Range", self.range(self.position, None, false));
        Ok(response)
    }

    fn tear_down(&mut self) -> Response {
        self.tracks.clear();
        self.queue.clear();
        self.ahead = Ahead::default();
        (self.playing, self.begun) = (None, None);
        Response::new(200, None)
    }

    /// Takes what is due, so many packets at most; when it is due again. The film may be read for that.
    ///
    /// # Errors
    /// Why no more can be read.
    pub fn take(&mut self, now: Duration, wall: Duration, most: usize, data: &mut Vec<Data>) -> Result<Due, String> {
        self.paced(true, (now, wall), most, data)
    }

    /// The same of what was read already, which needs no thread that may wait for the disk.
    ///
    /// # Errors
    /// None of its own.
    pub fn take_read(
        &mut self,
        now: Duration,
        wall: Duration,
        most: usize,
        data: &mut Vec<Data>,
    ) -> Result<Due, String> {
        self.paced(false, (now, wall), most, data)
    }

    fn paced(
        &mut self,
        may_read: bool,
        (now, wall): (Duration, Duration),
        most: usize,
        data: &mut Vec<Data>,
    ) -> Result<Due, String> {
        for _ in 0..most {
            let Some(playing) = self.playing else { return Ok(Due::OnRequest) };
            let next = match self.ahead.at_hand() {
                Some(next) => Some(next),
                None if self.ahead.is_waiting(&self.film) => return Ok(Due::At(now + LOOK)),
                None if !may_read => return Ok(Due::Unread),
                None => match self.ahead.read(&mut self.film)? {
                    Reading::Packet(next) => Some(next),
                    Reading::Wait => return Ok(Due::At(now + LOOK)),
                    Reading::End => None,
                    Reading::Elsewhere(npt) => {
                        let last = playing.due(self.reached) + UNDER_WAY;
                        if now < last {
                            return Ok(Due::At(last));
                        }
                        self.playing = None;
                        let Playing { until, scale, .. } = playing;
                        return Ok(Due::Elsewhere(Rest { from: npt, until, scale, seam: self.seam(npt) }));
                    }
                },
            };
            let is_played = |own: &Next| playing.until.is_none_or(|until| own.npt < until);
            let next = match next {
                Some(next) if is_played(&next) => next,
                // Another range may begin elsewhere.
                Some(next) if !may_read => {
                    self.ahead.put_back(next);
                    return Ok(Due::Unread);
                }
                _ => {
                    self.end_range(now, wall, data)?;
                    continue;
                }
            };
            let playing = self.without_gap(playing, next.npt, now);
            let due = playing.due(next.npt);
            if due > now {
                self.ahead.put_back(next);
                return Ok(Due::At(due));
            }
            self.send(next, (due, now), playing.scale, wall, data);
        }
        Ok(if self.playing.is_some() { Due::At(now) } else { Due::OnRequest })
    }

    /// Leaves out what nobody would wait for before a time.
    fn without_gap(&mut self, playing: Playing, npt: Duration, now: Duration) -> Playing {
        if npt.saturating_sub(self.reached) / playing.scale <= LONGEST_GAP {
            return playing;
        }
        let since = self.end_of(playing, now);
        self.tracks.values_mut().for_each(|own| own.numbers.join());
        self.reached = npt;
        *self.playing.insert(Playing { since, from: npt, ..playing })
    }

    /// When what follows is played.
    fn end_of(&self, playing: Playing, now: Duration) -> Duration {
        (playing.due(self.reached) + STEP).max(now)
    }

    /// What is known of the packets around a place where the film goes on elsewhere.
    fn seam(&self, npt: Duration) -> Seam {
        let mut seam = Seam::default();
        if self.begun != Some(1) {
            return seam;
        }
        let tracks: Vec<usize> = self.tracks.keys().copied().collect();
        let read = self.film.around(npt, &tracks, &mut |Next { track, packet, recording, .. }| {
            // Those of other recordings have other numbers.
            let own = self.tracks.get(track).filter(|own| own.recording == *recording);
            let place = own.and_then(|own| own.numbers.place(Header::read(packet)?));
            if let Some((timestamp, is_sent)) = place {
                seam.entry(*track).or_default().note(packet, Known { timestamp, is_sent });
            }
        });
        if let Err(why) = read {
            tracing::warn!("what an origin may send again is not known: {why}");
        }
        seam
    }

    fn send(&mut self, next: Next, (due, now): (Duration, Duration), scale: u32, wall: Duration, data: &mut Vec<Data>) {
        let Next { track, mut packet, npt, anew, recording } = next;
        self.reached = self.reached.max(npt);
        let Some(own) = self.tracks.get_mut(&track) else { return };
        let Some(header) = Header::read(&packet) else { return };
        if anew {
            own.numbers.join();
        }
        let header = own.numbers.next(header, due, scale);
        own.recording = recording;
        header.write(&mut packet);
        own.sent.0 = own.sent.0.wrapping_add(1);
        own.sent.1 = own.sent.1.wrapping_add(rtp::payload(&packet).map_or(0, <[u8]>::len) as u32);
        data.push((own.channels.0, packet));
        // The first one is due at once, as players align tracks by it.
        if own.reported.is_none_or(|then| now.saturating_sub(then) >= REPORTS) {
            own.reported = Some(now);
            data.push((own.channels.1, own.report(header, wall, false)));
        }
    }

    /// A range is over: the next one follows, or receivers are told the end (RFC 3550 section 6.6).
    fn end_range(&mut self, now: Duration, wall: Duration, data: &mut Vec<Data>) -> Result<(), String> {
        let since = self.playing.map_or(now, |own| self.end_of(own, now));
        if let Some((from, until, scale)) = self.queue.pop_front() {
            return self.begin(from, until, scale, since).map(drop);
        }
        (self.playing, self.position, self.begun) = (None, Duration::ZERO, None);
        for own in self.tracks.values() {
            if let Some(header) = own.numbers.last() {
                data.push((own.channels.1, own.report(header, wall, true)));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
