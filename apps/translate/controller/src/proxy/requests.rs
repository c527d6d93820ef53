//! Requests are read, and decided about.

use std::net::IpAddr;
use std::time::Duration;

use media::settings::access::Access;
use wire::flow_key::FlowKey;
use wire::rtsp::auth::Authorization;

use super::Proxy;
use super::connections::Answer;
use super::world::{Effect, World};
use crate::http::answer;
use crate::http::refusal::{
    BODY, CONNECTIONS, EXPECTATION, GUESSED, LATE, METHOD, NO_PASSWORD, NO_TOKEN, NOT_YOURS, NOTHING, OF_CLIENT,
    Refusal, WRONG_PASSWORD, WRONG_TOKEN,
};
use crate::http::request::{Reader, Request};
use crate::http::target::{Source, Target, target, token};
use crate::tables::Order;

/// A connection whose request is not whole yet.
pub(super) struct Reading {
    reader: Reader,
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
        self.reading.insert(key, Reading { reader: Reader::default(), since: self.now, mss });
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
        match reading.reader.push(payload, most) {
            Ok(None) => {}
            Ok(Some((request, rest))) => self.serve(key, request, &rest),
            Err(refusal) => {
                self.counts.requests += 1;
                self.refuse_unread(key, refusal);
            }
        }
    }

    /// Answers what was not read, or not to its end.
    fn refuse_unread(&mut self, key: &FlowKey, refusal: Refusal) {
        let Some(reading) = self.forget(key) else { return };
        self.open(*key, reading.mss, None, Answer::Refusal(refusal));
    }

    /// Requests that do not come in time, and connections that never ask.
    pub(super) fn readings_tick(&mut self) {
        let (now, limit) = (self.now, self.settings.timeouts.request);
        let late = self.reading.iter().filter(|(_, own)| now.saturating_sub(own.since) >= limit);
        let late: Vec<(FlowKey, bool)> = late.map(|(key, own)| (*key, own.reader.has_begun())).collect();
        for (key, has_begun) in late {
            // Nobody asked anything, so there is nothing to answer.
            if has_begun { self.refuse_unread(&key, LATE) } else { self.reset(&key) }
        }
    }

    /// Answers a request; `rest` came behind its head.
    fn serve(&mut self, key: &FlowKey, request: Request, rest: &[u8]) {
        self.counts.requests += 1;
        let Some(reading) = self.forget(key) else { return };
        let answer = self.decide(key, &request, rest).unwrap_or_else(Answer::Refusal);
        self.open(*key, reading.mss, Some(Box::new(request)), answer);
    }

    fn decide(&mut self, key: &FlowKey, request: &Request, rest: &[u8]) -> Result<Answer, Refusal> {
        let target = target(request, &self.settings)?;
        let is_head = request.method == "HEAD";
        let is_read = is_head || request.method == "GET";
        if target == Target::Other {
            return match self.settings.http_server {
                Some(_) => Ok(Answer::Relay(rest.to_vec())),
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
        let document = |kind, body: String| Answer::Document(answer::document(200, kind, "", body.as_bytes(), is_head));
        Ok(match target {
            Target::Stream(_) if is_head => Answer::Document(answer::stream()),
            Target::Stream(source) => Answer::Stream(source),
            Target::Playlist => document("audio/x-mpegurl; charset=utf-8", self.playlist(key, request)),
            Target::Status { json: true } => document("application/json", self.status_json()),
            Target::Status { json: false } => document("text/html; charset=utf-8", self.status_page()),
            Target::Other => return Err(NOTHING),
        })
    }

    /// Whether a client may have what it asks for.
    fn admit(&mut self, client: IpAddr, request: &Request, access: &Access) -> Result<(), Refusal> {
        if !access.takes(client) {
            return Err(NOT_YOURS);
        }
        if access.is_open() {
            return Ok(());
        }
        if self.guesses.of(client, self.now) >= self.settings.limits.guesses {
            self.counts.locked += 1;
            return Err(GUESSED);
        }
        let token = token(request).filter(|_| !access.tokens.is_empty());
        if token.as_deref().is_some_and(|token| access.knows(token)) {
            return Ok(());
        }
        let asked = if access.users.is_empty() { NO_TOKEN } else { NO_PASSWORD };
        let refusal = match (&request.authorization, token) {
            (Some(field), _) if !access.users.is_empty() => match Authorization::parse(field) {
                Some(said @ Authorization::Basic { .. }) => {
                    // Who does not exist takes as long as who does.
                    let known = access.users.iter().any(|user| user == said.user());
                    let password = self.settings.sources.password(said.user()).filter(|_| known);
                    if said.proves(password.unwrap_or(""), &request.method) && password.is_some() {
                        return Ok(());
                    }
                    WRONG_PASSWORD
                }
                _ => WRONG_PASSWORD,
            },
            (_, Some(_)) => WRONG_TOKEN,
            (_, None) => return Err(asked),
        };
        self.counts.wrong += 1;
        self.guesses.add(client, self.now);
        tracing::warn!(%client, "wrong password or token");
        Err(refusal)
    }
}
