//! Connections of a process that has ended: their flow entries are still there, and packets pass by them. Here
//! another process takes them up.
//!
//! | of the connection | after that |
//! |---|---|
//! | bodies pass, no request is under way | it goes on as if nothing had happened; the next request is routed |
//! | a request is on its way, and the client keeps it | it comes again, and is served |
//! | a response's head, or line of a chunk, has come in part or behind a gap | it passes through to its end as passthrough |
//! | the server has more of a request than has come to this process | the same |
//! | Millrace has acknowledged part of a request that no server has, or answered itself | it is reset |
//! | its server's flow entry is gone | it is forgotten, and reset when its client says something |

use std::collections::HashMap;

use wire::body::{Body, Framing};
use wire::flow_key::FlowKey;
use wire::http::Request;
use wire::seq::before;

use super::{Owner, Splicer};
use crate::cluster::NegotiatedOptions;
use crate::connection::RESEND;
use crate::connection::client::{Client, Persistence};
use crate::connection::clock::{AHEAD_UNSEEN, ClientClock};
use crate::connection::effect::Metric;
use crate::connection::event::Event;
use crate::connection::exchange::Account;
use crate::connection::facts::{ClientFacts, ServerFacts, response_body, response_limit};
use crate::connection::out_of_order::OutOfOrder;
use crate::connection::serving::passthrough;
use crate::connection::state::{Connection, Joined, Pending, Reading, Resetting, State};
use crate::connection::stream::Stream;
use crate::connection::upstream::{HEAD, Hop, Offered, Offsets, Peer, ServerConn, Upstream};
use crate::data_path::{DataPath, FlowReader, MARGIN};
use crate::tables::answered::CLOSES;
use crate::tables::flow_entry::{FlowEntry, Mode, are_over, second};

/// Lines about connections that can't be taken up; their number follows.
const MOST_TOLD: usize = 16;

/// How many connections there were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Restored {
    /// Those that go on.
    pub live: usize,
    /// Those of them that go on to their end with the server that they have.
    pub passthrough: usize,
    /// Those that had to be reset.
    pub lost: usize,
}

impl<P: DataPath> Splicer<P> {
    /// Takes up the connections whose flow entries are there, and the admin states of servers. To be called once,
    /// before anything else.
    pub fn restore(&mut self) -> Restored {
        self.recall_admin();
        let macs = self.path.own().macs.into_iter().filter(|(_, mac)| *mac != [0; 6]);
        self.shared.macs = macs.map(|(port, mac)| (port as u8, mac)).collect();
        let seconds = second(self.path.now());
        let mut entries: HashMap<FlowKey, FlowEntry> = self.path.entries().into_iter().collect();
        let mut restored = Restored::default();
        let clients: Vec<FlowKey> =
            entries.iter().filter(|(_, own)| ClientFacts::of(own).is_some()).map(|own| *own.0).collect();
        for key in clients {
            let Some(client) = entries.remove(&key) else { continue };
            let back = client.to.reversed();
            let joined = back != key;
            let mut server = None;
            if joined && entries.get(&back).is_some_and(|own| own.to == key.reversed()) {
                entries.remove(&back);
                // What the data path has read by now is all that it reads.
                server = self.path.end_awaiting(&back);
            }
            if are_over([client.ended, server.as_ref().map_or(0, |own| own.ended)]) {
                // Both are done with it: the data path sees to the rest.
                continue;
            }
            self.restore_one(key, &client, server.as_ref().map(|own| (back, own)), joined, &mut restored);
        }
        // What is left is of no connection: those that were being made, checks. An entry that ages does so by itself,
        // unless the clock has begun anew.
        for (key, entry) in entries {
            if entry.ended == 0 || entry.seen > seconds {
                self.path.remove_entry(&key);
            }
        }
        restored
    }

    fn restore_one(
        &mut self,
        key: FlowKey,
        entry: &FlowEntry,
        server: Option<(FlowKey, &FlowEntry)>,
        joined: bool,
        restored: &mut Restored,
    ) {
        let Some(mut facts) = ClientFacts::of(entry) else { return };
        let mut entry = entry.clone();
        if let Some((_, own)) = server.filter(|(_, own)| own.mode == Mode::Answered && facts.asking) {
            let has = own.acked.wrapping_sub(entry.seq);
            // Else the answer is that of the request before. One behind which the data path has closed is of this one.
            if entry.mode == Mode::Finishing || before(entry.limit, has) {
                // The server has all of the request, which nobody has noted here.
                facts = ClientFacts { asking: false, is_head: false, lost: false, ..facts };
                (entry.limit, entry.framing) = (has, Body::empty().word());
            }
        }
        let entry = &entry;
        let settings = self.cluster.settings.clone();
        let upstream = server.and_then(|(back, own)| self.restore_upstream(entry, back, own));
        // A server that is not in the configuration any more: both sides go on to the end without the controller.
        if let (Some((back, own)), None) = (server, &upstream) {
            for (key, entry) in [(key, entry), (back, own)] {
                self.path.set_entry(&key, &FlowEntry { mode: Mode::Open, ..entry.clone() });
            }
            restored.live += 1;
            return;
        }
        if joined && upstream.is_none() {
            // Nothing says by which port its client is reached. What that sends next is of an unknown connection, and
            // answered by a reset.
            self.tell_lost(&key, entry.mode, &facts, restored);
            self.path.remove_entry(&key);
            restored.lost += 1;
            return;
        }
        let next = upstream.as_ref().map_or(entry.acked, Upstream::response_end);
        let client = self.restore_client(key, (entry, &facts), server.map(|(_, own)| own), next, joined);
        let has_none = !facts.asking && (upstream.is_none() || client.requests.body.is_none());
        let lost = facts.lost || has_none;
        if lost {
            self.tell_lost(&key, entry.mode, &facts, restored);
        }
        let (id, service) = (self.new_id(), client.service);
        let mut upstream = upstream.map(Box::new);
        if let Some(u) = &mut upstream {
            self.by_server.insert(u.conn.peer.key, Owner::Connection(id));
            self.cluster.servers[u.conn.peer.server].active += 1;
            if server.is_some_and(|(_, own)| ServerFacts::of(own).lost) {
                u.pass_through();
                self.metrics.count(&settings, service, Metric::Passthrough);
                restored.passthrough += 1;
            }
        }
        let now = self.path.now();
        let state = match upstream {
            upstream if facts.asking => State::Reading(Reading::until(now + settings.timeouts.request, upstream)),
            Some(upstream) => {
                let pending =
                    Pending { request: request(facts.is_head), start: client.requests.limit(), tried: Vec::new() };
                State::Joined(Joined { pending, upstream, deadline: now + settings.timeouts.response })
            }
            None => State::Resetting(Resetting { end: next, tries: 0, resend: now, deadline: now }),
        };
        self.add(id, Connection::new(client, state));
        self.handle(id, Event::TakenUp { lost }, &[]);
        restored.lost += usize::from(lost);
        restored.live += usize::from(!lost);
    }

    fn tell_lost(&self, key: &FlowKey, mode: Mode, facts: &ClientFacts, restored: &Restored) {
        if restored.lost < MOST_TOLD {
            tracing::warn!(?key, ?mode, ?facts, "a connection can't be taken up");
        }
    }

    /// The client's side, with the number that it expects `next`.
    fn restore_client(
        &self,
        key: FlowKey,
        (entry, facts): (&FlowEntry, &ClientFacts),
        server: Option<&FlowEntry>,
        next: u32,
        joined: bool,
    ) -> Client {
        let settings = &self.cluster.settings;
        let endpoint = settings.endpoints().find(|(_, endpoint)| *endpoint == (key.dst, key.dst_port));
        let limit = match server {
            // The server has all that there was.
            Some(own) if entry.mode == Mode::Finishing => own.acked.wrapping_sub(entry.seq),
            _ => entry.limit,
        };
        let mut requests = Stream::new(limit, settings.request_head + MARGIN);
        requests.body = Body::of_word(entry.framing).filter(|_| !facts.asking);
        requests.bytes.insert(limit, &[], facts.done);
        let (port, mac) = server.map_or((entry.port, entry.dst_mac), |own| (own.port, own.dst_mac));
        let times = if joined { (0, 0) } else { (entry.tsval, entry.tsecr) };
        let heard = times != (0, 0);
        let now = self.path.now();
        Client {
            key,
            service: endpoint.map_or(usize::MAX, |(service, _)| service),
            hop: Hop { port, mac, own_mac: self.own_mac(port) },
            options: NegotiatedOptions {
                mss: facts.mss,
                scale: facts.scale.then_some(entry.scale),
                sack: facts.sack,
                times: facts.times,
            },
            requests,
            out_of_order: OutOfOrder::default(),
            acknowledged: server.filter(|_| !facts.asking).map_or(limit, |own| own.acked.wrapping_sub(entry.seq)),
            next,
            acked: entry.acked,
            window: (entry.edge.wrapping_sub(entry.acked) >> entry.scale).min(65535) as u16,
            clock: ClientClock { times, ahead: AHEAD_UNSEEN, heard, at: now, ..ClientClock::default() },
            done: facts.done,
            persistence: Persistence::new(facts.keeps_alive, facts.closes),
            connects: 0,
            account: Account::new(now),
        }
    }

    /// The server's side. None where the server is not in the configuration.
    fn restore_upstream(&self, client: &FlowEntry, key: FlowKey, entry: &FlowEntry) -> Option<Upstream> {
        let server = self.cluster.find(&key)?;
        let facts = ServerFacts::of(entry);
        let client_facts = ClientFacts::of(client)?;
        // The client's entry may be that of the next request already.
        let closes = match entry.mode {
            Mode::Answered => entry.facts & CLOSES != 0,
            _ => client_facts.closes && !client_facts.asking,
        };
        let limit = response_limit(entry, closes);
        let mut responses = Stream::new(limit, HEAD);
        responses.body = response_body(entry);
        responses.bytes.insert(limit, &[], facts.ended);
        let server_mss = self.cluster.servers[server].learned.and_then(|own| own.mss).unwrap_or(536);
        let peer = Peer {
            server,
            key,
            hop: Hop { port: client.port, mac: client.dst_mac, own_mac: self.own_mac(client.port) },
            mss: server_mss.min(client_facts.mss),
            offered: Offered { mss: client_facts.mss, sack: client_facts.sack, times: client_facts.times },
            is_nat: true,
        };
        let conn = ServerConn {
            peer,
            scale: entry.scale,
            advertised_scale: client.advertised_scale,
            // In numbers of the client's stream.
            edge: entry.edge.wrapping_sub(client.seq),
            tsval: 0,
            recent: Default::default(),
            responses,
        };
        let offsets = Offsets { shift: client.seq, clock: client.tsval, seq: entry.seq, tsval: entry.tsval };
        let mut u = Upstream::new(conn, offsets);
        let acked = entry.acked.wrapping_sub(client.seq);
        (u.kept.at, u.acked, u.sent) = (acked, acked, acked);
        (u.kept.resend, u.kept.backoff) = (u64::MAX, RESEND);
        // Its own SYN is not known any more: it serves this client alone.
        (u.private, u.joined, u.taken_up) = (true, true, true);
        // Where it has ended it may have been told so already.
        u.begun = facts.begun;
        u.response = facts.response.then(|| passthrough(if facts.tunnel { 101 } else { 200 }));
        Some(u)
    }

    /// The own Ethernet address on a port: that of the configuration, or else the kernel's.
    fn own_mac(&self, port: u8) -> [u8; 6] {
        let interfaces = &self.cluster.settings.interfaces;
        let given = interfaces.iter().find(|own| own.port == port && !own.is_shared).map(|own| own.mac);
        given.or_else(|| self.shared.macs.get(&port).copied()).unwrap_or_default()
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
