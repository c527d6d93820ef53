//! The idle pool is looked after: connections are made ahead, kept alive, and closed.

use wire::flow_key::FlowKey;
use wire::icmp::{IcmpError, Problem};
use wire::isn::initial;
use wire::segment::{ACK, FIN, RST, SYN, Segment, TcpOptions, is_v6};
use wire::seq::before;

use super::{Owner, Splicer};
use crate::connection::stream::Stream;
use crate::connection::upstream::{HEAD, Hop, IdleUpstream, Offered, Peer, ServerConn};
use crate::data_path::{DataPath, SCALE};

/// From look to look, in nanoseconds.
const LOOK: u64 = 200_000_000;
/// Bytes that servers are told to have room for before a client asks: no more than clients have.
const WINDOW: u32 = 16384;
/// Connections to one server that are made ahead at a time, so that no flood of SYNs comes to it.
const AT_ONCE: usize = 8;

impl IdleUpstream {
    /// A segment of Millrace's own to the server.
    fn segment(&self, flags: u8, now: u64) -> Vec<u8> {
        let (conn, peer) = (&self.conn, &self.conn.peer);
        let (syn, offered) = (flags & SYN != 0, peer.offered);
        let options = if syn {
            TcpOptions { mss: Some(offered.mss), scale: Some(SCALE), sack: offered.sack, ..TcpOptions::default() }
        } else {
            TcpOptions::default()
        };
        Segment {
            dst_mac: peer.hop.mac,
            src_mac: peer.hop.own_mac,
            flow_key: peer.key.reversed(),
            seq: if syn { self.next.wrapping_sub(1) } else { self.next },
            ack: if syn { 0 } else { conn.responses.bytes.next() },
            flags: if syn { flags } else { flags | ACK },
            window: if syn { u16::MAX } else { (self.window >> conn.advertised_scale).min(65535) as u16 },
            options: TcpOptions { times: offered.times.then(|| (self.clock_at(now), conn.tsval)), ..options },
            payload: &[],
        }
        .frame()
    }

    /// An acknowledgement of all that has come. Where that is news, a server takes a smaller window, too (RFC 9293
    /// section 3.10.7.4), and is told no more room than the next client has for certain.
    fn acknowledgement(&mut self, now: u64) -> Vec<u8> {
        if std::mem::take(&mut self.owes_ack) {
            self.window = self.window.min(WINDOW);
        }
        self.segment(0, now)
    }
}

impl<P: DataPath> Splicer<P> {
    /// When the idle pool must be looked after.
    pub(super) fn next_preconnect(&self) -> u64 {
        let wanted = self.cluster.settings.pools.iter().any(|pool| pool.preconnect > 0);
        if wanted || !self.idle.is_empty() { self.idle.due } else { u64::MAX }
    }

    /// Ends connections that were idle for too long or whose server gets no requests any more, and makes new ones.
    pub(super) fn preconnect(&mut self) {
        let now = self.path.now();
        if now < self.idle.due {
            return;
        }
        self.idle.due = now + LOOK;
        for server in 0..self.cluster.servers.len() {
            for own in self.idle.of_server_mut(server) {
                if own.owes_ack {
                    self.path.send(own.conn.peer.hop.port, &own.acknowledgement(now));
                }
            }
            let usable = self.cluster.is_usable(server);
            let sources = &self.cluster.servers[server].server.sources;
            let over = |own: &IdleUpstream| own.due <= now || !usable || !sources.contains(&own.conn.peer.key.dst);
            let idle = self.idle.of_server(server).iter();
            let over: Vec<FlowKey> = idle.filter(|own| over(own)).map(|own| own.conn.peer.key).collect();
            over.iter().for_each(|key| self.end_idle(server, key, FIN));
            let wanted = self.cluster.servers[server].pool.preconnect;
            for _ in self.idle.count(server)..wanted.min(self.idle.count(server) + AT_ONCE) {
                if usable {
                    self.make_idle(server, now);
                }
            }
        }
    }

    /// Sends the SYN of one.
    fn make_idle(&mut self, server: usize, now: u64) {
        let settings = self.cluster.settings.clone();
        let known = &self.cluster.servers[server];
        let (Some(mac), Some(learned)) = (known.mac, known.learned) else { return };
        let Some(key) = self.own_key(server, now) else { return };
        let own = &self.cluster.servers[server].interface;
        // As clients at common links have it, so that it fits most of them.
        let mss = if is_v6(&key) { 1440 } else { 1460 };
        let offered = Offered { mss, sack: learned.sack, times: learned.times.is_some() };
        let peer = Peer {
            server,
            key,
            hop: Hop { port: own.port, mac, own_mac: own.mac },
            mss: learned.mss.unwrap_or(536).clamp(100, mss),
            offered,
            is_nat: true,
        };
        let conn = ServerConn {
            peer,
            scale: 0,
            advertised_scale: 0,
            edge: 0,
            tsval: 0,
            recent: Default::default(),
            responses: Stream::new(0, 65536),
        };
        let next = initial(self.path.secret(), &key, now).wrapping_add(1);
        let due = now + settings.timeouts.connect;
        let clock = ((now / 1_000_000) as u32, now);
        let idle = IdleUpstream { conn, next, clock, window: WINDOW, connected: false, owes_ack: false, due };
        self.path.send(peer.hop.port, &idle.segment(SYN, now));
        self.by_server.insert(key, Owner::Idle(server));
        self.idle.keep(Box::new(idle), now);
    }

    /// A segment of a server on such a connection.
    pub(super) fn on_idle(&mut self, server: usize, segment: &Segment) {
        let now = self.path.now();
        let idle_for = self.cluster.settings.timeouts.idle_pool;
        let Some(idle) = self.idle.find(server, &segment.flow_key) else { return };
        let conn = &mut idle.conn;
        if !idle.connected {
            let answers = segment.has(ACK) && segment.ack == idle.next;
            let options = segment.options;
            if !answers {
                return;
            }
            if segment.has(RST) || !segment.has(SYN) {
                return self.forget_idle(server, &segment.flow_key);
            }
            let offered = conn.peer.offered;
            if (offered.sack && !options.sack) || (offered.times && options.times.is_none()) {
                return self.end_idle(server, &segment.flow_key, RST);
            }
            conn.responses = Stream::new(segment.seq.wrapping_add(1), HEAD);
            conn.tsval = options.times.map_or(0, |(value, _)| value);
            (conn.scale, conn.advertised_scale) = options.scale.map_or((0, 0), |scale| (scale, SCALE));
            conn.edge = segment.ack.wrapping_add(segment.window.into());
            (idle.connected, idle.due) = (true, now + idle_for);
        } else if segment.has(RST) {
            if segment.seq != conn.responses.bytes.next() {
                return;
            }
            return self.forget_idle(server, &segment.flow_key);
        } else {
            if let Some((tsval, _)) = segment.options.times.filter(|times| !before(times.0, conn.tsval)) {
                conn.tsval = tsval;
            }
            if segment.has(ACK) && segment.ack == idle.next {
                conn.edge = segment.ack.wrapping_add(u32::from(segment.window) << conn.scale);
            }
            let expected = conn.responses.bytes.next();
            if segment.seq == expected && !segment.payload.is_empty() {
                // It has got no request.
                return self.end_idle(server, &segment.flow_key, RST);
            }
            if segment.seq == expected && segment.has(FIN) {
                conn.responses.bytes.insert(segment.seq, &[], true);
                return self.end_idle(server, &segment.flow_key, FIN);
            }
            // It probes the connection (RFC 9293 section 3.8.4), or has not heard that all has come.
            if segment.seq == expected {
                return;
            }
        }
        let (port, answer) = (idle.conn.peer.hop.port, idle.acknowledgement(now));
        self.path.send(port, &answer);
    }

    /// An error about one: only those about SYNs say that there will be none.
    pub(super) fn on_idle_error(&mut self, server: usize, error: &IcmpError) {
        let key = error.flow_key.reversed();
        let connecting = self.idle.find(server, &key).is_some_and(|own| !own.connected);
        if connecting && error.problem == Problem::Unreachable {
            self.forget_idle(server, &key);
        }
    }

    /// Ends one, and says so to the server by a FIN or a reset.
    fn end_idle(&mut self, server: usize, key: &FlowKey, flags: u8) {
        let now = self.path.now();
        if let Some(idle) = self.idle.find(server, key) {
            let flags = if idle.connected { flags } else { RST };
            let (port, frame) = (idle.conn.peer.hop.port, idle.segment(flags, now));
            self.path.send(port, &frame);
        }
        self.forget_idle(server, key);
    }

    fn forget_idle(&mut self, server: usize, key: &FlowKey) {
        self.idle.remove(server, key);
        self.by_server.remove(key);
        self.path.remove_entry(key);
    }
}
