//! Requests are read, and decided about.

use std::net::IpAddr;
use std::time::Duration;

use wire::flow_key::FlowKey;

use super::Proxy;
use super::connections::{Answer, State};
use super::input::Input;
use super::records::Said;
use super::relaying::BACKLOG;
use super::world::{Effect, World};
use crate::http::answer::Document;
use crate::http::refusal::{BODY, CONNECTIONS, EXPECTATION, LATE, METHOD, NO_TLS, NOTHING, OF_CLIENT, Refusal};
use crate::http::request::Request;
use crate::http::target::{Source, Target, target};
use crate::tables::Order;

/// How long what a client has sent may take to come by another worker than the news that it sends nothing more.
const SETTLED: Duration = Duration::from_millis(20);

/// A connection whose request is not whole yet.
pub(super) struct Reading {
    input: Input,
    since: Duration,
    mss: u16,
}

/// Bytes that a client has sent, in order, each once.
#[derive(Clone, Copy, Debug)]
pub struct Segment<'s> {
    /// What it came with.
    pub key: FlowKey,
    /// Whether it is the first one of its connection.
    pub first: bool,
    /// The segment size of the connection; 0: not known.
    pub mss: u16,
    /// The bytes.
    pub payload: &'s [u8],
}

/// The address of a client.
pub(super) fn client_of(key: &FlowKey) -> IpAddr {
    IpAddr::V6(key.src).to_canonical()
}

impl<W: World> Proxy<W> {
    /// Something came from a client.
    pub fn segment(&mut self, segment: Segment) {
        let Segment { key, first, mss, payload } = segment;
        if !first {
            if self.reading.contains_key(&key) {
                return self.read(&key, payload);
            }
            if let Some(number) = self.by_key.get(&key).copied() {
                return self.client_sends(number, payload);
            }
            // Of a process before.
            return self.effect(Effect::Order(0, 0, Order::Refuse(key)));
        }
        self.taken.held.remove(&key);
        // The program has forgotten what was there before.
        self.forget(&key);
        self.by_key.remove(&key);
        let client = client_of(&key);
        let (all, own) = (self.connections.len() + self.reading.len(), self.by_client.get(&client).copied());
        let (limits, own) = (self.settings.limits, own.unwrap_or_default());
        self.count_client(client);
        self.reading.insert(key, Reading { input: Input::default(), since: self.now, mss });
        if own >= limits.per_client {
            // Who goes on regardless gets no answers any more.
            if own >= 2 * limits.per_client {
                return self.reset(&key);
            }
            return self.refuse_unread(&key, OF_CLIENT);
        }
        if all >= limits.connections {
            return self.refuse_unread(&key, CONNECTIONS);
        }
        self.read(&key, payload);
    }

    /// The flow of a client that was not answered has ended: as it is not there any more, or another one begins.
    fn forget(&mut self, key: &FlowKey) -> Option<Reading> {
        let reading = self.reading.remove(key)?;
        self.uncount_client(client_of(key));
        Some(reading)
    }

    /// Resets a connection that was not answered.
    pub(super) fn reset(&mut self, key: &FlowKey) {
        if self.forget(key).is_some() {
            self.counts.reset += 1;
            self.effect(Effect::Order(0, 0, Order::Refuse(*key)));
        }
    }

    fn read(&mut self, key: &FlowKey, payload: &[u8]) {
        let most = self.settings.limits.head;
        let Some(reading) = self.reading.get_mut(key) else { return };
        reading.input.push(payload);
        match reading.input.request(most) {
            Ok(None) => {}
            Ok(Some(request)) => {
                let Some(reading) = self.forget(key) else { return };
                let answer = self.decide(key, &request);
                self.open(*key, reading.mss, reading.input, Some(Box::new(request)), answer);
            }
            Err(refusal) if refusal == NO_TLS && self.settings.https_server.is_some() => {
                let Some(reading) = self.forget(key) else { return };
                self.counts.requests += 1;
                self.open(*key, reading.mss, reading.input, None, Answer::Tunnel);
            }
            Err(refusal) => {
                self.counts.requests += 1;
                self.refuse_unread(key, refusal);
            }
        }
    }

    /// Answers what a connection has asked meanwhile, up to a request that is not answered at once.
    pub(super) fn proceed(&mut self, number: u32) {
        let most = self.settings.limits.head;
        while let Some(own) = self.connections.get_mut(&number) {
            if !matches!(own.state, State::Reads) || own.outgoing.waiting() >= BACKLOG {
                return;
            }
            match own.input.request(most) {
                Ok(Some(request)) => {
                    let key = own.key;
                    let answer = self.decide(&key, &request);
                    self.answer_next(number, request, answer);
                }
                Ok(None) => {
                    let (credit, generation) = (own.input.credit(), own.generation);
                    if credit != 0 {
                        self.effect(Effect::Order(number, generation, Order::Credit(credit)));
                    }
                    return;
                }
                Err(refusal) => {
                    self.counts.requests += 1;
                    return self.refuse_next(number, refusal);
                }
            }
        }
    }

    /// Refuses what a connection has sent behind a request, and ends it.
    fn refuse_next(&mut self, number: u32, refusal: Refusal) {
        let Some(own) = self.connections.get_mut(&number) else { return };
        (own.asked, own.keeps, own.said, own.stream) = (true, false, Said::default(), None);
        self.refuse(number, refusal);
    }

    /// Answers what was not read, or not to its end.
    fn refuse_unread(&mut self, key: &FlowKey, refusal: Refusal) {
        let Some(reading) = self.forget(key) else { return };
        self.open(*key, reading.mss, Input::default(), None, Answer::Refusal(refusal));
    }

    /// Requests that do not come in time, and connections that never ask, or ask nothing more.
    pub(super) fn readings_tick(&mut self) {
        let (now, timeouts) = (self.now, self.settings.timeouts);
        let is_over = |since: Duration, limit: Duration| now.saturating_sub(since) >= limit;
        let late = self.reading.iter().filter(|(_, own)| is_over(own.since, timeouts.request));
        let late: Vec<(FlowKey, bool)> = late.map(|(key, own)| (*key, own.input.has_begun())).collect();
        for (key, has_begun) in late {
            // Nobody asked anything, so there is nothing to answer.
            if has_begun { self.refuse_unread(&key, LATE) } else { self.reset(&key) }
        }
        let reads = self.connections.iter().filter(|(_, own)| matches!(own.state, State::Reads));
        let reads: Vec<u32> = reads.map(|(number, _)| *number).collect();
        for number in reads {
            // One that was not answered at once may be by now.
            self.proceed(number);
            let Some(own) = self.connections.get(&number).filter(|own| matches!(own.state, State::Reads)) else {
                continue;
            };
            if own.outgoing.waiting() != 0 {
                continue;
            }
            if own.half_closed.is_some_and(|since| is_over(since, SETTLED)) {
                self.finish(number);
            } else if own.input.has_begun() && is_over(own.since, timeouts.request) {
                self.refuse_next(number, LATE);
            } else if !own.input.has_begun() && is_over(own.since, timeouts.idle) {
                self.finish(number);
            }
        }
    }

    /// What a request is answered with.
    fn decide(&mut self, key: &FlowKey, request: &Request) -> Answer {
        self.counts.requests += 1;
        self.answer_of(key, request).unwrap_or_else(Answer::Refusal)
    }

    fn answer_of(&mut self, key: &FlowKey, request: &Request) -> Result<Answer, Refusal> {
        let target = target(request, &self.settings)?;
        let is_head = request.method == "HEAD";
        let is_read = is_head || request.method == "GET";
        if target == Target::Other {
            return match self.settings.http_server {
                Some(_) => Ok(Answer::Relay),
                None if is_read => Err(NOTHING),
                None => Err(METHOD),
            };
        }
        if !is_read {
            return Err(METHOD);
        }
        if request.has_body() {
            return Err(BODY);
        }
        if request.expects == Some(false) {
            return Err(EXPECTATION);
        }
        let name = match &target {
            Target::Stream(Source::Named(name)) => Some(name.as_str()),
            _ => None,
        };
        let own = name.and_then(|name| self.settings.sources.stream(name)?.viewers.clone());
        let access = own.unwrap_or_else(|| self.settings.sources.viewers.clone());
        self.admit(client_of(key), request, &access)?;
        let document = |kind, body: String| Answer::Document(Document::new(kind, body));
        Ok(match target {
            Target::Stream(_) if is_head => Answer::Head,
            Target::Stream(source) => Answer::Stream(source),
            Target::Playlist => document("audio/x-mpegurl; charset=utf-8", self.playlist(key, request)),
            Target::Status { json: true } => document("application/json", self.status_json()),
            Target::Status { json: false } => document("text/html; charset=utf-8", self.status_page()),
            Target::Other => return Err(NOTHING),
        })
    }
}
