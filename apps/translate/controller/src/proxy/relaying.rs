//! Answers of the host's own HTTP server, which has all paths that are not the proxy's: one connection to it for each
//! request. What it says is passed on as it comes; what clients send behind the head, as far as it is the request's
//! body.

use std::net::IpAddr;
use std::time::Duration;

use wire::body::{Body, Next as BodyNext};

use super::Proxy;
use super::connections::State;
use super::world::{Effect, Ending, World};
use crate::http::refusal::{HOST_DOWN, HOST_SILENT, MALFORMED};
use crate::http::request::Request;
use crate::tables::{Next, Order};

/// Bytes that may wait for a client before no more is read.
const BACKLOG: usize = 64 << 10;
/// Header fields that are about one connection alone (RFC 9110 section 7.6.1).
const OF_CONNECTION: [&str; 6] = ["connection", "keep-alive", "proxy-connection", "te", "upgrade", "x-forwarded-for"];

/// An answer on its way.
#[derive(Debug)]
pub(super) struct Relay {
    body: Body,
    /// Whether something has come of the answer.
    began: bool,
    /// Whether more is awaited from the server, and since when.
    awaits: Option<Duration>,
}

/// The request as the server gets it.
fn head(request: &Request, client: IpAddr) -> Vec<u8> {
    let mut out = Vec::with_capacity(request.head.len() + 128);
    let query = request.query.as_deref().map(|query| format!("?{query}")).unwrap_or_default();
    let version = request.line.rsplit(' ').next().unwrap_or("HTTP/1.1");
    out.extend(format!("{} {}{query} {version}\r\n", request.method, request.path).into_bytes());
    // Lines were read strictly: they end with CR LF, and none is folded.
    for line in request.head.split(|byte| *byte == b'\n').skip(1) {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let name = line.split(|byte| *byte == b':').next().unwrap_or_default();
        if line.is_empty() || OF_CONNECTION.iter().any(|own| name.eq_ignore_ascii_case(own.as_bytes())) {
            continue;
        }
        out.extend_from_slice(line);
        out.extend_from_slice(b"\r\n");
    }
    out.extend(format!("X-Forwarded-For: {client}\r\nConnection: close\r\n\r\n").into_bytes());
    out
}

impl<W: World> Proxy<W> {
    /// Asks the host's own HTTP server what a connection has asked.
    pub(super) fn begin_relay(&mut self, number: u32, request: &Request, rest: &[u8]) {
        let now = self.now;
        let Some(own) = self.connections.get_mut(&number) else { return };
        let mut body = Body::new(request.framing);
        let Ok(used) = body.feed(rest) else { return self.refuse(number, MALFORMED) };
        let mut bytes = head(request, own.client);
        bytes.extend_from_slice(&rest[..used]);
        let generation = own.generation;
        own.state = State::Relays(Relay { body, began: false, awaits: Some(now) });
        self.counts.relayed += 1;
        self.effect(Effect::Connect { connection: number, generation, bytes });
        self.effect(Effect::ReadServer(number));
        // What came with the head was taken of what the client may send.
        self.effect(Effect::Order(number, generation, Order::Credit(rest.len() as u32)));
    }

    /// A client goes on sending: the body of its request, or what is of no use any more.
    pub(super) fn client_sends(&mut self, number: u32, payload: &[u8]) {
        let Some(own) = self.connections.get_mut(&number) else { return };
        let State::Relays(relay) = &mut own.state else { return };
        if relay.body.next() == BodyNext::End {
            return;
        }
        match relay.body.feed(payload) {
            Ok(used) => self.effect(Effect::ToServer(number, payload[..used].to_vec())),
            Err(_) => self.close(number, Ending::Client),
        }
    }

    /// The server has taken so many bytes of a request's body.
    pub fn server_took(&mut self, number: u32, generation: u32, bytes: u32) {
        let now = self.now;
        let Some(own) = self.connections.get_mut(&number).filter(|own| own.generation == generation) else { return };
        if let State::Relays(relay) = &mut own.state {
            relay.awaits = relay.awaits.map(|_| now);
            self.effect(Effect::Order(number, generation, Order::Credit(bytes)));
        }
    }

    /// Something came from the server.
    pub fn server_says(&mut self, number: u32, generation: u32, bytes: &[u8]) {
        let Some(own) = self.connections.get_mut(&number).filter(|own| own.generation == generation) else { return };
        let State::Relays(relay) = &mut own.state else { return };
        if !std::mem::replace(&mut relay.began, true) {
            let status = bytes.get(9..12).and_then(|digits| str::from_utf8(digits).ok()?.parse().ok());
            own.status = status.unwrap_or(own.status);
        }
        relay.awaits = None;
        own.outgoing.push(bytes);
        self.flush(number);
        self.read_on(number);
    }

    /// The connection to the server has ended; `Err` where it could not be made, or has broken.
    pub fn server_ended(&mut self, number: u32, generation: u32, result: Result<(), String>) {
        let Some(own) = self.connections.get_mut(&number).filter(|own| own.generation == generation) else { return };
        let State::Relays(relay) = &own.state else { return };
        match (result, relay.began) {
            (Ok(()), true) => {
                own.state = State::Answers;
                if !own.outgoing.finish(Next::Close) {
                    return self.effect(Effect::Order(number, generation, Order::Close));
                }
                self.flush(number);
            }
            (result, false) => {
                let why = result.err().unwrap_or_else(|| "it has closed the connection".into());
                tracing::warn!("the HTTP server of the host: {why}");
                self.refuse(number, HOST_DOWN);
            }
            (Err(_), true) => self.close(number, Ending::Server),
        }
    }

    /// Reads more of the server's answer, where there is room for it.
    pub(super) fn read_on(&mut self, number: u32) {
        let now = self.now;
        let Some(own) = self.connections.get_mut(&number) else { return };
        let room = own.outgoing.waiting() < BACKLOG;
        if let State::Relays(relay) = &mut own.state
            && room
            && relay.awaits.is_none()
        {
            relay.awaits = Some(now);
            self.effect(Effect::ReadServer(number));
        }
    }

    /// Servers that say nothing any more.
    pub(super) fn relays_tick(&mut self) {
        let (now, limit) = (self.now, self.settings.timeouts.server);
        let silent = self.connections.iter().filter_map(|(number, own)| match &own.state {
            State::Relays(relay) if relay.awaits.is_some_and(|since| now.saturating_sub(since) >= limit) => {
                Some((*number, relay.began))
            }
            _ => None,
        });
        for (number, began) in silent.collect::<Vec<_>>() {
            if began {
                self.close(number, Ending::Server);
            } else {
                self.effect(Effect::Disconnect(number));
                self.refuse(number, HOST_SILENT);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::request::Reader;

    #[test]
    fn the_server_gets_the_request_without_what_was_the_proxy_s() {
        let text = "POST http://a/x?y HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, X\r\nUpgrade: websocket\r\n\
            X-Forwarded-For: 1.2.3.4\r\nContent-Length: 3\r\nX: y:z\r\n\r\nabc";
        let (request, rest) = Reader::default().push(text.as_bytes(), 8192).unwrap().unwrap();
        let expected = "POST /x?y HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nX: y:z\r\n\
            X-Forwarded-For: 10.0.1.11\r\nConnection: close\r\n\r\n";
        assert_eq!(String::from_utf8(head(&request, "10.0.1.11".parse().unwrap())).unwrap(), expected);
        assert_eq!(rest, b"abc");
    }
}
