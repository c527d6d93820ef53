//! PLAY, PAUSE and parameters. A presentation that a session has for itself is played, paused and searched at the
//! origin; one that is shared goes on there, and the session joins and leaves.

use wire::rtsp::message::{Request, Response};
use wire::rtsp::range;
use wire::rtsp::rtp_info::{self, RtpInfo};

use super::request::Job;
use super::target::track_url;
use super::track::TrackState;
use super::upstream::Upstream;
use super::world::World;
use super::{ClientId, Proxy, SessionId, UpstreamId};

impl<W: World> Proxy<W> {
    /// The session of a request about a whole presentation.
    pub(super) fn aggregate(&mut self, id: ClientId, request: &Request) -> Option<SessionId> {
        let session = match self.session_of(id, request) {
            Ok(session) => session,
            Err(status) => {
                self.refuse(id, request, status);
                return None;
            }
        };
        let target = self.target_of(id, request)?;
        let own = self.sessions.get(&session)?;
        let single = own.viewers.len() == 1;
        let status = match target.track {
            _ if own.base != target.base => 454,
            Some(_) if !single => 460,
            _ if own.viewers.is_empty() => 455,
            _ => return Some(session),
        };
        self.refuse(id, request, status);
        None
    }

    pub(super) fn play(&mut self, id: ClientId, request: Request) {
        let Some(session) = self.aggregate(id, &request) else { return };
        let range = request.headers.get("range");
        if range.is_some() && range.and_then(range::parse).is_none() {
            return self.refuse(id, &request, 457);
        }
        if !self.waits_for_way(id, &request, session) {
            self.play_now(id, request, session);
        }
    }

    pub(super) fn play_now(&mut self, id: ClientId, request: Request, session: SessionId) {
        let Some(upstream) = self.sessions.get(&session).map(|own| own.upstream) else { return };
        let Some(own) = self.upstreams.get_mut(&upstream) else { return self.refuse(id, &request, 454) };
        if own.live {
            if own.playing {
                return self.joined(id, session, &request);
            }
            // The first one has it played; others wait for that.
            let asked = own.is_asked_to_play();
            own.waiting.push((id, request));
            if !asked {
                self.play_all(upstream);
            }
            return;
        }
        // Packets must find the way as soon as they come.
        self.set_playing(session, true);
        self.await_answer(session);
        self.update_flows(upstream);
        let headers = ["range", "scale", "speed"]
            .iter()
            .filter_map(|name| Some(((*name).to_owned(), request.headers.get(name)?.to_owned())));
        let mut headers: Vec<_> = headers.collect();
        match request.headers.get("range") {
            None => headers.extend(self.upstreams.get(&upstream).and_then(Upstream::lost_position)),
            // What was sent before is wanted once more.
            Some(_) => {
                let own = self.upstreams.get_mut(&upstream).into_iter();
                own.flat_map(|own| &mut own.tracks).for_each(|own| own.tail = None);
            }
        }
        self.ask(upstream, Job::Play { headers, waiter: Some((id, request, session)) });
    }

    /// Has the origin play all tracks of a presentation without end: later viewers may want what the first one does
    /// not, and few servers add tracks to what plays.
    pub(super) fn play_all(&mut self, upstream: UpstreamId) {
        let Some(own) = self.upstreams.get(&upstream) else { return };
        let new = |track: &usize| own.tracks[*track].state == TrackState::New;
        let tracks: Vec<usize> = (0..own.tracks.len()).filter(new).collect();
        for track in tracks {
            // Without own ports for it, it is asked for when somebody wants it.
            let _ = self.setup_at_origin(upstream, track);
        }
        self.ask(upstream, Job::Play { headers: Vec::new(), waiter: None });
    }

    /// A session joins a presentation that plays.
    fn joined(&mut self, id: ClientId, session: SessionId, request: &Request) {
        let again = self.sessions.get(&session).is_some_and(|own| own.has_played);
        self.set_playing(session, true);
        let Some(own) = self.sessions.get_mut(&session) else { return self.refuse(id, request, 454) };
        own.has_played = true;
        let (upstream, base) = (own.upstream, own.base.clone());
        let viewers: Vec<_> = own.viewers.iter().map(|(track, viewer)| (track, viewer.rewrite)).collect();
        let mut infos = Vec::new();
        let tracks: Vec<usize> = viewers.iter().map(|(track, _)| *track).collect();
        for (track, rewrite) in viewers {
            let first = if again { None } else { self.begin_late(upstream, session, track) };
            self.update_viewer(upstream, session, track);
            if let Some(first) = first.map(|own| rewrite.apply(own)) {
                let (seq, rtptime) = (Some(first.sequence), Some(first.timestamp));
                infos.push(RtpInfo { url: track_url(&base, track), seq, rtptime });
                continue;
            }
            let of = self.upstreams.get(&upstream).map(|own| &own.tracks[track]).filter(|own| own.before.is_none());
            let Some(number) = of.map(|own| own.number) else { continue };
            let progress = self.world.progress(number);
            // What comes next. Where nothing has come yet, that is not known, and need not be said.
            if progress.seen != 0 {
                let seq = (progress.highest as u16).wrapping_add(1).wrapping_add(rewrite.sequence);
                let rtptime = progress.timestamp.wrapping_add(rewrite.timestamp);
                infos.push(RtpInfo {
                    url: self.track_url(session, &base, track),
                    seq: Some(seq),
                    rtptime: Some(rtptime),
                });
            }
        }
        let mut response = Response::new(200, request.cseq());
        response.headers.push("Range", "npt=now-");
        if !infos.is_empty() {
            response.headers.push("RTP-Info", rtp_info::text(&infos));
        }
        self.name_session(&mut response, session);
        self.push_via(&mut response);
        self.respond(id, response);
        tracks.into_iter().for_each(|track| self.feed_first(upstream, session, track));
    }

    /// The URL of a track as a session's client has it.
    fn track_url(&self, session: SessionId, base: &str, track: usize) -> String {
        let own = self.sessions.get(&session).filter(|own| own.forwarded);
        let of = own.and_then(|own| self.upstreams.get(&own.upstream)?.tracks.get(track));
        of.map_or_else(|| track_url(base, track), |of| of.control.clone())
    }

    /// The origin plays a presentation for one session.
    pub(super) fn played(&mut self, id: ClientId, request: &Request, session: SessionId, answer: &Response) {
        let Some(own) = self.sessions.get_mut(&session) else { return self.refuse(id, request, 454) };
        let (upstream, base, again) = (own.upstream, own.base.clone(), own.has_played);
        own.has_played = true;
        let said = answer.headers.get("rtp-info").map(rtp_info::parse).unwrap_or_default();
        let mut infos = Vec::new();
        for (at, info) in said.into_iter().enumerate() {
            let Some(track) = self.track_of(upstream, &info.url, at) else { continue };
            if self.is_pending(upstream, track) {
                continue;
            }
            if again {
                self.go_on(session, track, &info);
            }
            let Some(rewrite) = self.sessions.get(&session).and_then(|own| Some(own.viewers.get(track)?.rewrite))
            else {
                continue;
            };
            infos.push(RtpInfo {
                url: self.track_url(session, &base, track),
                seq: info.seq.map(|seq| seq.wrapping_add(rewrite.sequence)),
                rtptime: info.rtptime.map(|time| time.wrapping_add(rewrite.timestamp)),
            });
        }
        self.update_flows(upstream);
        let mut response = Response::new(200, request.cseq());
        for name in ["Range", "Scale", "Speed"] {
            answer.headers.get(name).into_iter().for_each(|value| response.headers.push(name, value));
        }
        if !infos.is_empty() {
            response.headers.push("RTP-Info", rtp_info::text(&infos));
        }
        self.name_session(&mut response, session);
        self.push_via(&mut response);
        self.respond(id, response);
        self.send_early(session);
    }

    /// The origin does not play a presentation for a session, which plays as little as before.
    pub(super) fn not_played(&mut self, session: SessionId) {
        if self.sessions.get(&session).is_some_and(|own| !own.has_played) {
            self.set_playing(session, false);
        }
        self.send_early(session);
    }

    /// Numbers of a track go on where they ended (RFC 2326 appendix B), though the origin begins anew.
    fn go_on(&mut self, session: SessionId, track: usize, info: &RtpInfo) {
        let Some(upstream) = self.sessions.get(&session).map(|own| own.upstream) else { return };
        let Some((number, rate)) =
            self.upstreams.get(&upstream).map(|own| (own.tracks[track].number, own.tracks[track].rate))
        else {
            return;
        };
        let (progress, clock) = (self.world.progress(number), self.world.clock());
        let Some(viewer) = self.sessions.get_mut(&session).and_then(|own| own.viewers.get_mut(track)) else { return };
        let next = (progress.highest as u16).wrapping_add(1);
        // Origins that count on do it right: what was lost at the end may be missing.
        let Some(seq) = info.seq.filter(|seq| progress.seen != 0 && seq.wrapping_sub(next) > 100) else { return };
        viewer.rewrite.sequence = viewer.rewrite.sequence.wrapping_add(next.wrapping_sub(seq));
        if let Some(time) = info.rtptime {
            let pause = u128::from(clock.saturating_sub(progress.heard)) * u128::from(rate) / 1_000_000_000;
            let expected = progress.timestamp.wrapping_add(pause as u32);
            viewer.rewrite.timestamp = viewer.rewrite.timestamp.wrapping_add(expected.wrapping_sub(time));
        }
    }

    pub(super) fn pause(&mut self, id: ClientId, request: Request) {
        let Some(session) = self.aggregate(id, &request) else { return };
        let Some(own) = self.sessions.get(&session).filter(|own| own.playing) else {
            return self.refuse(id, &request, 455);
        };
        let upstream = own.upstream;
        if self.upstreams.get(&upstream).is_some_and(|own| !own.live) {
            return self.ask(upstream, Job::Pause { waiter: (id, request, session) });
        }
        let tracks: Vec<usize> = own.viewers.tracks().collect();
        self.set_playing(session, false);
        tracks.into_iter().for_each(|track| self.update_viewer(upstream, session, track));
        let mut response = Response::new(200, request.cseq());
        self.name_session(&mut response, session);
        self.respond(id, response);
    }

    /// The origin has paused a presentation for one session.
    pub(super) fn paused(&mut self, id: ClientId, request: &Request, session: SessionId, answer: &Response) {
        self.set_playing(session, false);
        let Some(own) = self.sessions.get(&session) else { return self.refuse(id, request, 454) };
        let upstream = own.upstream;
        self.update_flows(upstream);
        let mut response = Response::new(200, request.cseq());
        answer.headers.get("range").into_iter().for_each(|range| response.headers.push("Range", range));
        self.name_session(&mut response, session);
        self.respond(id, response);
    }

    /// GET_PARAMETER and SET_PARAMETER: without a body they are signs of life. Parameters are the origin's, which is
    /// asked where a session has the presentation for itself.
    pub(super) fn parameter(&mut self, id: ClientId, request: Request) {
        let session = match request.headers.get("session") {
            None => None,
            Some(_) => match self.session_of(id, &request) {
                Ok(session) => Some(session),
                Err(status) => return self.refuse(id, &request, status),
            },
        };
        let own = session.and_then(|session| Some((session, self.sessions.get(&session)?.upstream)));
        let alone = own.filter(|(_, upstream)| self.upstreams.get(upstream).is_some_and(|own| !own.live));
        match alone {
            // Who proves itself at the origin keeps its session there, too.
            _ if request.body.is_empty() && !own.is_some_and(|(_, own)| self.is_proved(own)) => {
                let mut response = Response::new(200, request.cseq());
                session.into_iter().for_each(|session| self.name_session(&mut response, session));
                self.respond(id, response);
            }
            Some((session, upstream)) => self.ask(upstream, Job::Parameter { waiter: (id, request, session) }),
            None => self.refuse(id, &request, 451),
        }
    }

    fn is_proved(&self, id: UpstreamId) -> bool {
        self.upstreams.get(&id).is_some_and(Upstream::is_proved)
    }

    /// The origin's answer about parameters.
    pub(super) fn parameters(&mut self, id: ClientId, request: &Request, session: SessionId, answer: Response) {
        let mut response = Response::new(answer.status, request.cseq());
        answer.headers.get("content-type").into_iter().for_each(|kind| response.headers.push("Content-Type", kind));
        response.body = answer.body;
        self.name_session(&mut response, session);
        self.respond(id, response);
    }
}
