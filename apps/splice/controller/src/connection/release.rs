//! Connections to servers are given up by a client's connection: closed, or left to others in the idle pool.

use wire::flow_key::FlowKey;
use wire::segment::RST;
use wire::seq::before;

use super::client::Client;
use super::context::Context;
use super::effect::{Effect, LetGo};
use super::stream::Stream;
use super::upstream::{HEAD, IdleUpstream, SynSent, Upstream};
use crate::settings::{MOST_IDLE, Reuse};
use crate::tables::flow_entry::{FlowEntry, Mode};

/// The server's side of a connection whose state ends.
#[derive(Debug)]
pub enum ServerSide {
    /// There is none.
    None,
    /// A SYN was sent.
    Connecting(SynSent),
    /// It has served a request, or none yet.
    Attached(Box<Upstream>),
    /// It serves a request.
    Serving(Box<Upstream>),
}

impl ServerSide {
    /// The established connection, if there is one.
    pub fn upstream(&mut self) -> Option<&mut Upstream> {
        match self {
            ServerSide::None | ServerSide::Connecting(_) => None,
            ServerSide::Attached(u) | ServerSide::Serving(u) => Some(u),
        }
    }

    /// The connection that has a request, if there is one.
    pub fn serving(&mut self) -> Option<&mut Upstream> {
        match self {
            ServerSide::Serving(u) => Some(u),
            _ => None,
        }
    }

    /// Gives it up: the server is told so by a FIN or a reset, unless `flags` is 0.
    pub fn release(self, flags: u8, cl: &mut Client, cx: &mut Context) {
        // All that the server is to get is what it has got.
        let seq = |cl: &Client, kept_end: u32| if cl.requests.is_done() { cl.requests.limit() } else { kept_end };
        match self {
            ServerSide::None => {}
            ServerSide::Connecting(own) => {
                let seq = seq(cl, own.start.wrapping_add(own.kept.len() as u32));
                own.release(flags, seq, cl, cx);
            }
            ServerSide::Attached(u) => {
                let seq = seq(cl, u.kept.end());
                u.release(flags, seq, false, cl, cx);
            }
            ServerSide::Serving(u) => {
                let seq = seq(cl, u.kept.end());
                u.release(flags, seq, true, cl, cx);
            }
        }
    }
}

impl SynSent {
    fn release(self, flags: u8, seq: u32, cl: &mut Client, cx: &mut Context) {
        if flags != 0 {
            self.send(if self.peer.is_nat { flags } else { RST }, seq, cl, cx);
        }
        unbind(self.peer.key, self.peer.server, None, cx);
    }
}

impl Client {
    /// Goes back to how much of the client's stream has come for certain, now that no server says so. Of a body that
    /// passes the stream is at the end from the beginning; but a client that is told that more has come than it has
    /// sent drops what says so (RFC 9293 section 3.10.7.4).
    fn come_back(&mut self, u: &Upstream) {
        // What has come behind the request is the next one's, and stays.
        let limit = self.requests.limit();
        if before(u.acked, limit) && before(u.kept.end(), limit) {
            let came = if before(self.acknowledged, u.acked) { u.acked } else { self.acknowledged };
            self.requests = Stream::new(came, 65536);
        }
    }
}

impl Upstream {
    /// Gives the connection up, at a number of the client's stream that the server expects. It `serves` a request, or
    /// none.
    pub fn release(mut self, flags: u8, seq: u32, serves: bool, cl: &mut Client, cx: &mut Context) {
        let peer = self.conn.peer;
        // Segments are no longer answered in the client's name, so that the server must not wait for it; and its port
        // may be needed.
        let word = (flags != 0).then(|| self.word(if peer.is_nat { flags } else { RST }, seq, &[], cl, cx));
        self.detach(serves, cl, cx);
        unbind(peer.key, peer.server, word, cx);
    }

    /// The client goes on without the connection.
    fn detach(&mut self, serves: bool, cl: &mut Client, cx: &mut Context) {
        self.hear(cx);
        if serves {
            cl.come_back(self);
        }
        // Clocks never go back (RFC 7323 section 5.3). The server's latest may have passed unseen, and be under way to
        // the client.
        let passed = self.conn.recent.by(cx.now).filter(|clock| before(self.conn.tsval, *clock));
        let clock = passed.unwrap_or(self.conn.tsval).wrapping_add(self.offsets.tsval);
        if cl.clock.heard && self.offsets.tsval != 0 && before(cl.clock.times.1, clock) {
            cl.clock.times.1 = clock;
        }
    }

    /// Leaves the connection to others, where it is certain that nothing of the client's is under way on it; `next` is
    /// the number that the client's next byte has. It comes back where it must be closed.
    pub fn leave(
        mut self: Box<Self>,
        next: u32,
        serves: bool,
        cl: &mut Client,
        cx: &mut Context,
    ) -> Option<Box<Upstream>> {
        let peer = self.conn.peer;
        let reuse = cx.cluster.servers[peer.server].pool.reuse;
        let responses = &self.conn.responses;
        let ended = responses.bytes.is_ended() || !responses.bytes.ready().is_empty();
        let goes_on = self.response.is_some_and(|own| own.keeps_alive) && !responses.is_endless() && !ended;
        let has_room = cx.idle.count(peer.server) < MOST_IDLE && cx.cluster.is_usable(peer.server);
        if reuse == Reuse::Never || !has_room || !goes_on || !peer.is_nat || self.private {
            return Some(self);
        }
        let shifted = next.wrapping_add(self.offsets.shift);
        // A FIN that Millrace has added is not the server's.
        let fins = u8::from(cl.persistence.closes());
        let had_all = |entry: &FlowEntry| entry.ended & !fins == 0 && !before(entry.acked, shifted);
        let Some(entry) = cx.entry(&peer.key).filter(had_all) else { return Some(self) };
        let end = self.response_end();
        // What the client has acknowledged last the server may not have heard. The next request tells it.
        // What acknowledges Millrace's own FIN has not passed.
        let heard = cx.entry(&cl.key).is_some_and(|own| own.mode != Mode::Held && own.acked == end);
        cl.hear(cx);
        let (times, window) = (cl.clock.times, cl.room());
        self.detach(serves, cl, cx);
        cl.next = end;
        let echoed = times.1.wrapping_sub(self.offsets.tsval);
        let clock = IdleUpstream::ahead((times.0.wrapping_add(self.offsets.clock), cl.clock.at));
        let mut conn = self.conn;
        conn.tsval = if before(conn.tsval, echoed) { echoed } else { conn.tsval };
        conn.edge = entry.edge;
        conn.responses = Stream::new(conn.responses.limit(), HEAD);
        let held = FlowEntry { seen: entry.seen, ..FlowEntry::held(peer.key.reversed(), cx.seconds()) };
        let due = cx.now + cx.timeouts().idle_pool;
        // The entry is there already, so there is room.
        cx.push(Effect::LetGo(LetGo { key: peer.key, entry: Some(held), word: None }));
        let idle = IdleUpstream { conn, next: shifted, clock, window, connected: true, owes_ack: !heard, due };
        cx.push(Effect::Keep(Box::new(idle)));
        None
    }
}

fn unbind(key: FlowKey, server: usize, word: Option<(u8, Vec<u8>)>, cx: &mut Context) {
    cx.push(Effect::LetGo(LetGo { key, entry: None, word }));
    cx.push(Effect::Unbind { key, server });
}
