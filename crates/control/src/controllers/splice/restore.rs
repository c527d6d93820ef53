//! Connections of a process that has ended: their control blocks are still there, and packets pass by them. Here another process
//! takes them up.
//!
//! | of the connection | after that |
//! |---|---|
//! | bodies pass, nobody asks | it goes on as if nothing had happened; the next request is routed |
//! | a request is on its way, and the client keeps it | it comes again, and is served |
//! | a response's head, or line of a chunk, has come in part or behind a gap | the connection goes on to its end with the server that it has |
//! | the server has more of a request than has come to this process | the same |
//! | Millrace has acknowledged part of a request that no server has, or answered itself | it is reset |

use std::collections::HashMap;

use super::block::{Block, Ends, Mode, are_over, before, second};
use super::body::{Body, Framing};
use super::cluster::Agreed;
use super::connection::{Connection, Recent, State, Stream, Upstream};
use super::http::{Request, Response};
use super::note::{ClientNote, ServerNote, response_limit};
use super::path::{DataPath, MARGIN};
use super::server::AHEAD_UNSEEN;
use super::splicer::Splicer;
use super::turn::{Owner, RESEND, Turn};

/// How many connections there were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Restored {
    /// Those that go on.
    pub live: usize,
    /// Those of them that go on to their end with the server that they have.
    pub unread: usize,
    /// Those that had to be reset.
    pub lost: usize,
}

impl<P: DataPath> Splicer<P> {
    /// Takes up the connections whose blocks are there, and what was said about servers. To be called once, before anything else.
    pub fn restore(&mut self) -> Restored {
        self.recall_admin();
        let seconds = second(self.path.now());
        let mut blocks: HashMap<Ends, Block> = self.path.blocks().into_iter().collect();
        let mut restored = Restored::default();
        let clients: Vec<Ends> =
            blocks.iter().filter(|(_, own)| ClientNote::of(own).is_some()).map(|own| *own.0).collect();
        for ends in clients {
            let Some(client) = blocks.remove(&ends) else { continue };
            let back = client.to.turned();
            let joined = back != ends;
            let server = if joined { blocks.get(&back).filter(|own| own.to == ends.turned()).cloned() } else { None };
            if server.is_some() {
                blocks.remove(&back);
            }
            if are_over([client.ended, server.as_ref().map_or(0, |own| own.ended)]) {
                // Both are done with it: the data path sees to the rest.
                continue;
            }
            self.restore_one(ends, &client, server.as_ref().map(|own| (back, own)), joined, &mut restored);
        }
        // What is left belongs to nobody: connections that were being made, checks. What ages is of nobody, too, but it does so
        // by itself, unless the clock has begun anew.
        for (ends, block) in blocks {
            if block.ended == 0 || block.seen > seconds {
                self.path.remove_block(&ends);
            }
        }
        restored
    }

    fn restore_one(
        &mut self,
        ends: Ends,
        client: &Block,
        server: Option<(Ends, &Block)>,
        joined: bool,
        restored: &mut Restored,
    ) {
        let (Some(note), now) = (ClientNote::of(client), self.path.now()) else { return };
        let settings = self.cluster.settings.clone();
        let mac_of = |port: u8| settings.interfaces.iter().find(|own| own.port == port).map_or([0; 6], |own| own.mac);
        let endpoint = settings.endpoints().find(|(_, endpoint)| *endpoint == (ends.dst, ends.dst_port));
        let service = endpoint.map(|(service, _)| service);
        let scale = note.scale.then_some(client.scale);
        let limit = match server {
            // The server has all that there was.
            Some((_, own)) if client.mode == Mode::Finishing => own.acked.wrapping_sub(client.seq),
            _ => client.limit,
        };
        let mut requests = Stream::new(limit, settings.request_head + MARGIN);
        requests.body = Body::of_word(client.framing).filter(|_| !note.asking);
        requests.bytes.insert(limit, &[], note.done);
        let upstream = server.and_then(|(back, own)| self.restore_upstream(client, back, own, mac_of(client.port)));
        let next = upstream.as_ref().map_or(client.acked, Upstream::response_end);
        let leaves = server.map_or((client.port, client.dst_mac), |(_, own)| (own.port, own.dst_mac));
        // A server that is not in the configuration any more: both sides go on to the end without anybody.
        if let (Some((back, own)), None) = (server, &upstream) {
            for (ends, block) in [(ends, client), (back, own)] {
                self.path.set_block(&ends, &Block { mode: Mode::Open, ..block.clone() });
            }
            restored.live += 1;
            return;
        }
        let mut connection = Connection {
            client: ends,
            service: service.unwrap_or(usize::MAX),
            port: leaves.0,
            mac: leaves.1,
            own_mac: mac_of(leaves.0),
            agreed: Agreed { mss: note.mss, scale, sack: note.sack, times: note.times },
            state: if note.asking { State::Asking } else { State::Serving },
            requests,
            request: (!note.asking).then(|| request(note.is_head)),
            start: limit,
            acknowledged: server.filter(|_| !note.asking).map_or(limit, |(_, own)| own.acked.wrapping_sub(client.seq)),
            next,
            acked: client.acked,
            window: (client.edge.wrapping_sub(client.acked) >> client.scale).min(65535) as u16,
            times: if joined { (0, 0) } else { (client.tsval, client.tsecr) },
            heard: !joined && (client.tsval, client.tsecr) != (0, 0),
            recent: Recent::default(),
            ahead: AHEAD_UNSEEN,
            clock_at: now,
            upstream,
            connects: 0,
            tried: Vec::new(),
            answer: None,
            wake: u64::MAX,
            queued: u64::MAX,
            deadline: now + if note.asking { settings.timeouts.request } else { settings.timeouts.response },
            retry: u64::MAX,
            client_done: note.done,
            keeps_alive: note.keeps_alive,
            closes: note.closes,
            opened: now,
            asking: None,
            exchange: None,
            exchanges: 0,
            up: 0,
            down: 0,
        };
        let lost = note.lost
            || ((joined || !note.asking) && connection.upstream.is_none())
            || (!note.asking && connection.requests.body.is_none());
        if lost {
            tracing::info!(?ends, ?note, "can't be taken up");
        }
        let id = self.new_id();
        if let Some(u) = &mut connection.upstream {
            self.by_server.insert(u.ends, Owner::Connection(id));
            self.cluster.servers[u.server].active += 1;
            if server.is_some_and(|(_, own)| ServerNote::of(own).lost) {
                u.pass_unread();
                self.books.unread(&settings, connection.service);
                restored.unread += 1;
            }
        }
        self.add(id, connection);
        self.with(id, |turn| turn.go_on(lost));
        restored.lost += usize::from(lost);
        restored.live += usize::from(!lost);
    }

    /// The server's side. None where the server is not in the configuration.
    fn restore_upstream(&self, client: &Block, ends: Ends, block: &Block, own_mac: [u8; 6]) -> Option<Upstream> {
        let server = self.cluster.find(&ends)?;
        let note = ServerNote::of(block);
        let client_note = ClientNote::of(client)?;
        let limit = response_limit(block, client_note.closes);
        let mut responses = Stream::new(limit, super::server::HEAD);
        responses.body = Body::of_word(block.framing);
        responses.bytes.insert(limit, &[], note.ended);
        let server_mss = self.cluster.servers[server].learned.and_then(|own| own.mss).unwrap_or(536);
        let mut u =
            Upstream::new(server, ends, (client.port, client.dst_mac, own_mac), server_mss.min(client_note.mss));
        // In numbers of the client's stream.
        let acked = block.acked.wrapping_sub(client.seq);
        (u.kept_at, u.acked, u.sent) = (acked, acked, acked);
        u.edge = block.edge.wrapping_sub(client.seq);
        (u.resend, u.backoff) = (u64::MAX, RESEND);
        (u.told_mss, u.sack, u.times) = (client_note.mss, client_note.sack, client_note.times);
        // What it was told before nobody knows: it serves this client alone.
        u.private = true;
        // Where it has ended it may have been told so already.
        (u.begun, u.passed) = (note.begun, limit);
        (u.responses, u.response) = (responses, note.response.then(|| response(note.tunnel)));
        (u.scale, u.told) = (block.scale, client.told);
        (u.shift, u.clock) = (client.seq, client.tsval);
        (u.seq_add, u.tsval_add) = (block.seq, block.tsval);
        Some(u)
    }
}

/// What is still known of a response.
fn response(is_tunnel: bool) -> Response {
    Response {
        head: 0,
        status: if is_tunnel { 101 } else { 200 },
        framing: Framing::Rest,
        keeps_alive: true,
        private: true,
    }
}

/// What is still known of a request: it is not sent a second time.
fn request(is_head: bool) -> Request {
    Request {
        head: 0,
        method: if is_head { "HEAD" } else { "POST" }.to_owned(),
        host: String::new(),
        path: String::new(),
        framing: Framing::Rest,
        keeps_alive: true,
        close: None,
        private: true,
    }
}

impl Upstream {
    /// From here on it is as if both had agreed on another protocol.
    fn pass_unread(&mut self) {
        self.response = Some(response(true));
        self.responses.body = Some(Body::new(Framing::Rest));
    }
}

impl<P: DataPath> Turn<'_, P> {
    /// Looks whether the server has acknowledged more of a request than this process has seen: one before has sent it that. Then nobody knows
    /// any more where the request ends, and the connection goes on to its end, unread. Whether it does.
    pub(super) fn pass_if_overtaken(&mut self) -> bool {
        let c = &mut *self.c;
        let Some(u) = &mut c.upstream else { return false };
        let known = c.requests.is_done() || c.requests.is_endless() || !before(c.requests.bytes.next(), u.acked);
        if c.state != State::Serving || known {
            return false;
        }
        u.pass_unread();
        c.requests.body = Some(Body::new(Framing::Rest));
        self.books.unread(&self.cluster.settings, c.service);
        true
    }

    /// The connection goes on, or ends where part of it is lost.
    fn go_on(&mut self, lost: bool) {
        if lost {
            return self.reset_client();
        }
        match self.c.upstream {
            Some(_) => self.update_blocks(),
            None if self.c.client_done => self.answer(0),
            None => self.hold_client(),
        }
    }
}
