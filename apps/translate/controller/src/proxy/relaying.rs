//! Answers of the host's own HTTP server, which has all paths that are not the proxy's: one connection to it for each
//! request. What it says is passed on as it comes, but for what its heads say of connections; what clients send behind
//! the head, as far as it is the request's body.

use std::time::Duration;

use wire::body::{Body, Next as BodyNext};

use super::Proxy;
use super::connections::State;
use super::tunnels::Tunnel;
use super::world::{Effect, Ending, World};
use crate::http::forward::{self, Answer};
use crate::http::refusal::{HOST_DOWN, HOST_SILENT, HOST_WRONG, MALFORMED, Refusal, TLS_DOWN};
use crate::http::request::Request;
use crate::tables::Order;

/// Bytes that may wait for a client before no more is read.
pub(super) const BACKLOG: usize = 64 << 10;

/// An answer on its way.
#[derive(Debug)]
pub(super) struct Relay {
    /// The request's body.
    body: Body,
    answer: Answer,
    /// Whether the client has got something of the answer.
    began: bool,
    /// Whether more is awaited from the server, and since when.
    awaits: Option<Duration>,
}

/// What is due of a connection with a server of the host.
enum Late {
    /// Its server says nothing, and has said nothing yet.
    Unanswered,
    /// It says nothing any more.
    Silent,
    /// Neither side does.
    Idle,
}

impl<W: World> Proxy<W> {
    /// Asks the host's own HTTP server what a connection has asked.
    pub(super) fn begin_relay(&mut self, number: u32, request: &Request) {
        let (now, server) = (self.now, self.settings.http_server);
        let Some(own) = self.connections.get_mut(&number) else { return };
        let mut body = Body::new(request.framing);
        let Ok(first) = own.input.body(&mut body) else {
            own.keeps = false;
            return self.refuse(number, MALFORMED);
        };
        // It was there when this was decided.
        let Some(server) = server else { return self.refuse(number, HOST_DOWN) };
        let bytes = [&forward::request(request, own.client)[..], &first].concat();
        let generation = own.generation;
        own.state =
            State::Relays(Box::new(Relay { body, answer: Answer::new(request), began: false, awaits: Some(now) }));
        self.counts.relayed += 1;
        self.effect(Effect::Connect { connection: number, generation, server, bytes });
        self.effect(Effect::ReadServer(number));
        if !first.is_empty() {
            // The head's is given when the next request is awaited: until then there is less than for a new one.
            self.effect(Effect::Order(number, generation, Order::Credit(first.len() as u32)));
        }
    }

    /// A client goes on sending: other requests, the body of its request, or what is of no use any more.
    pub(super) fn client_sends(&mut self, number: u32, payload: &[u8]) {
        let now = self.now;
        let Some(own) = self.connections.get_mut(&number) else { return };
        match &mut own.state {
            State::Reads => {
                if !own.input.has_begun() {
                    own.since = now;
                }
                own.input.push(payload);
                self.proceed(number);
            }
            State::Waits(_) => own.input.push(payload),
            State::Relays(relay) => {
                own.input.push(payload);
                match own.input.body(&mut relay.body) {
                    Ok(bytes) if bytes.is_empty() => {}
                    Ok(bytes) => self.effect(Effect::ToServer(number, bytes)),
                    Err(_) => self.close(number, Ending::Client),
                }
            }
            State::Tunnels(tunnel) => {
                tunnel.since = now;
                self.effect(Effect::ToServer(number, payload.to_vec()));
            }
            State::Plays(_) | State::Answers => {}
        }
    }

    /// The server has taken so many bytes of a client.
    pub fn server_took(&mut self, number: u32, generation: u32, bytes: u32) {
        let now = self.now;
        let Some(own) = self.connections.get_mut(&number).filter(|own| own.generation == generation) else { return };
        match &mut own.state {
            State::Relays(relay) => relay.awaits = relay.awaits.map(|_| now),
            State::Tunnels(tunnel) => tunnel.since = now,
            _ => return,
        }
        self.effect(Effect::Order(number, generation, Order::Credit(bytes)));
    }

    /// Something came from the server.
    pub fn server_says(&mut self, number: u32, generation: u32, bytes: &[u8]) {
        let now = self.now;
        let Some(own) = self.connections.get_mut(&number).filter(|own| own.generation == generation) else { return };
        match &mut own.state {
            State::Relays(relay) => {
                relay.awaits = None;
                let keeps = own.keeps && relay.body.next() == BodyNext::End;
                let Ok(passed) = relay.answer.take(bytes, keeps) else {
                    return if relay.began {
                        self.close(number, Ending::Server)
                    } else {
                        self.fail(number, HOST_WRONG)
                    };
                };
                relay.began |= !passed.is_empty();
                own.status = relay.answer.status().unwrap_or(own.status);
                own.outgoing.push(&passed);
                if relay.answer.is_switched() {
                    self.switch(number);
                } else if relay.answer.is_whole() {
                    return self.end_relay(number);
                }
            }
            // Nothing follows its end.
            State::Tunnels(_) if own.outgoing.is_finished() => return,
            State::Tunnels(tunnel) => {
                (tunnel.awaits, tunnel.since) = (false, now);
                own.outgoing.push(bytes);
            }
            _ => return,
        }
        self.flush(number);
        self.read_on(number);
    }

    /// All of an answer has come.
    fn end_relay(&mut self, number: u32) {
        self.effect(Effect::Disconnect(number));
        let Some(own) = self.connections.get_mut(&number) else { return };
        if let State::Relays(relay) = &own.state {
            own.keeps = relay.answer.keeps();
        }
        self.answered(number);
        self.proceed(number);
    }

    /// Client and server go on with another protocol.
    fn switch(&mut self, number: u32) {
        let now = self.now;
        let Some(own) = self.connections.get_mut(&number) else { return };
        own.keeps = false;
        own.state = State::Tunnels(Tunnel::new(now));
        self.counts.tunnels += 1;
        let (rest, credit, generation) = (own.input.all(), own.input.credit(), own.generation);
        self.effect(Effect::Order(number, generation, Order::Credit(credit)));
        if !rest.is_empty() {
            self.effect(Effect::ToServer(number, rest));
        }
    }

    /// The server has failed before the client got anything of an answer.
    fn fail(&mut self, number: u32, refusal: Refusal) {
        self.effect(Effect::Disconnect(number));
        let Some(own) = self.connections.get_mut(&number) else { return };
        if let State::Relays(relay) = &own.state {
            own.keeps &= relay.body.next() == BodyNext::End;
        }
        self.refuse(number, refusal);
        self.proceed(number);
    }

    /// The server has ended what it says; `Err` where it could not be connected to, or the connection has broken.
    pub fn server_ended(&mut self, number: u32, generation: u32, result: Result<(), String>) {
        let Some(own) = self.connections.get_mut(&number).filter(|own| own.generation == generation) else { return };
        match &own.state {
            State::Relays(relay) if result.is_ok() && relay.answer.is_rest() => self.end_relay(number),
            State::Relays(relay) if relay.began => self.close(number, Ending::Server),
            State::Relays(_) => {
                let why = result.err().unwrap_or_else(|| "it has closed the connection".into());
                tracing::warn!("the HTTP server of the host: {why}");
                self.fail(number, HOST_DOWN);
            }
            State::Tunnels(_) if result.is_ok() => self.tunnel_server_ended(number),
            State::Tunnels(_) if own.outgoing.pushed() == 0 => {
                tracing::warn!("the TLS server of the host: {}", result.err().unwrap_or_default());
                self.fail(number, TLS_DOWN);
            }
            State::Tunnels(_) => self.close(number, Ending::Server),
            _ => {}
        }
    }

    /// Reads more of what the server says, where there is room for it.
    pub(super) fn read_on(&mut self, number: u32) {
        let now = self.now;
        let Some(own) = self.connections.get_mut(&number) else { return };
        if own.outgoing.waiting() >= BACKLOG {
            return;
        }
        let reads = match &mut own.state {
            State::Relays(relay) if relay.awaits.is_none() => {
                relay.awaits = Some(now);
                true
            }
            State::Tunnels(tunnel) => !std::mem::replace(&mut tunnel.awaits, true),
            _ => false,
        };
        if reads {
            self.effect(Effect::ReadServer(number));
        }
    }

    /// Servers that say nothing any more.
    pub(super) fn relays_tick(&mut self) {
        let (now, timeouts) = (self.now, self.settings.timeouts);
        let is_over = |since: Duration, limit: Duration| now.saturating_sub(since) >= limit;
        let late = self.connections.iter().filter_map(|(number, own)| match &own.state {
            State::Relays(relay) if relay.awaits.is_some_and(|since| is_over(since, timeouts.server)) => {
                Some((*number, if relay.began { Late::Silent } else { Late::Unanswered }))
            }
            State::Tunnels(tunnel) if is_over(tunnel.since, timeouts.tunnel) => Some((*number, Late::Idle)),
            _ => None,
        });
        for (number, late) in late.collect::<Vec<_>>() {
            match late {
                Late::Unanswered => self.fail(number, HOST_SILENT),
                Late::Silent => self.close(number, Ending::Server),
                Late::Idle => self.close(number, Ending::Idle),
            }
        }
    }
}
