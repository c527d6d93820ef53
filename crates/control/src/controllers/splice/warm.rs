//! Connections to servers that no client uses: made ahead, or left by clients. The next request that fits goes out on one of
//! them, which saves the handshake.

use std::collections::HashMap;

use super::block::Ends;
use super::connection::{Stream, Upstream};
use super::icmp::{IcmpError, Problem};
use super::isn::initial;
use super::path::{DataPath, SCALE};
use super::segment::{ACK, FIN, RST, SYN, Segment, TcpOptions, is_v6};
use super::server::{AHEAD, HEAD};
use super::splicer::Splicer;
use super::turn::Owner;

/// A connection that nobody uses.
#[derive(Clone, Debug)]
pub struct Idle {
    /// The connection. Its numbers and clocks are no client's any more, so `shift`, `seq_add` and the like mean nothing.
    pub upstream: Upstream,
    /// The sequence number that the server expects.
    pub next: u32,
    /// What the clock of timestamps was for the server, and when.
    pub clock: (u32, u64),
    /// Bytes that the server may send behind what was acknowledged, as it was told last.
    pub window: u32,
    /// Whether the server has answered the SYN.
    connected: bool,
    /// Whether the server must still be told that all of its last response has come.
    owes: bool,
    /// When it is given up.
    due: u64,
}

/// All of them.
#[derive(Clone, Debug, Default)]
pub struct Warm {
    /// By server, those that were used last at the end.
    idle: HashMap<usize, Vec<Idle>>,
    /// When it is looked next whether there are enough, and none too many.
    due: u64,
}

/// From look to look, in nanoseconds.
const LOOK: u64 = 200_000_000;
/// How long the server waits for an acknowledgement where no request takes it along, in nanoseconds: less than it takes to send again (RFC
/// 9293 section 3.8.6.3 allows 500 ms, Linux waits 40).
const DELAY: u64 = 40_000_000;
/// Bytes that servers are told to have room for before anybody asks: no more than clients have.
const WINDOW: u32 = 16384;
/// Connections to one server that are made ahead at a time, so that no flood of SYNs comes to it.
const AT_ONCE: usize = 8;

impl Idle {
    /// One that a client leaves, who had room for `window` bytes; `heard` says whether the server knows that all of its response has come.
    /// The client's clock may have passed later than is known here.
    pub fn left(upstream: Upstream, next: u32, clock: (u32, u64), due: u64, heard: bool, window: u32) -> Idle {
        let clock = (clock.0.wrapping_add(AHEAD), clock.1);
        Idle { upstream, next, clock, window, connected: true, owes: !heard, due }
    }

    /// The clock that the server is to see at a time: it has gone on since it saw the last one.
    pub fn clock_at(&self, now: u64) -> u32 {
        self.clock.0.wrapping_add((now.saturating_sub(self.clock.1) / 1_000_000) as u32 + 1)
    }

    /// A segment of Millrace's own to the server.
    fn segment(&self, flags: u8, now: u64) -> Vec<u8> {
        let u = &self.upstream;
        let syn = flags & SYN != 0;
        let options = if syn {
            TcpOptions { mss: Some(u.told_mss), scale: Some(SCALE), sack: u.sack, ..TcpOptions::default() }
        } else {
            TcpOptions::default()
        };
        Segment {
            dst_mac: u.mac,
            src_mac: u.own_mac,
            ends: u.ends.turned(),
            seq: if syn { self.next.wrapping_sub(1) } else { self.next },
            ack: if syn { 0 } else { u.responses.bytes.next() },
            flags: if syn { flags } else { flags | ACK },
            window: if syn { u16::MAX } else { (self.window >> u.told).min(65535) as u16 },
            options: TcpOptions { times: u.times.then(|| (self.clock_at(now), u.tsval)), ..options },
            payload: &[],
        }
        .frame()
    }
}

impl Warm {
    /// Takes one of a server's that fits, the one that was used last.
    pub fn take(&mut self, server: usize, fits: impl Fn(&Upstream) -> bool) -> Option<Idle> {
        let idle = self.idle.get_mut(&server)?;
        let found = idle.iter().rposition(|own| own.connected && fits(&own.upstream))?;
        Some(idle.remove(found))
    }

    /// Keeps one.
    pub fn keep(&mut self, idle: Idle, now: u64) {
        if idle.owes {
            self.due = self.due.min(now + DELAY);
        }
        self.idle.entry(idle.upstream.server).or_default().push(idle);
    }

    /// Connections that there are to a server.
    pub fn count(&self, server: usize) -> usize {
        self.idle.get(&server).map_or(0, Vec::len)
    }

    fn find(&mut self, server: usize, ends: &Ends) -> Option<&mut Idle> {
        self.idle.get_mut(&server)?.iter_mut().find(|own| own.upstream.ends == *ends)
    }

    fn remove(&mut self, server: usize, ends: &Ends) -> Option<Idle> {
        let idle = self.idle.get_mut(&server)?;
        let found = idle.iter().position(|own| own.upstream.ends == *ends)?;
        Some(idle.remove(found))
    }
}

impl<P: DataPath> Splicer<P> {
    /// When idle connections must be looked after.
    pub(super) fn next_warm(&self) -> u64 {
        let wanted = self.cluster.settings.pools.iter().any(|pool| pool.warm > 0);
        if wanted || self.warm.idle.values().any(|idle| !idle.is_empty()) { self.warm.due } else { u64::MAX }
    }

    /// Ends those that were idle for too long or whose server is not to be asked any more, and makes new ones.
    pub(super) fn keep_warm(&mut self) {
        let now = self.path.now();
        if now < self.warm.due {
            return;
        }
        self.warm.due = now + LOOK;
        for server in 0..self.cluster.servers.len() {
            for own in self.warm.idle.get_mut(&server).into_iter().flatten() {
                if std::mem::take(&mut own.owes) {
                    self.path.send(own.upstream.port, &own.segment(0, now));
                }
            }
            let usable = self.cluster.is_usable(server);
            let over: Vec<Ends> = self.warm.idle.get(&server).map_or_else(Vec::new, |idle| {
                let sources = &self.cluster.servers[server].server.sources;
                let over = |own: &&Idle| own.due <= now || !usable || !sources.contains(&own.upstream.ends.dst);
                idle.iter().filter(over).map(|own| own.upstream.ends).collect()
            });
            over.iter().for_each(|ends| self.end_warm(server, ends, FIN));
            let wanted = self.cluster.servers[server].pool.warm;
            for _ in self.warm.count(server)..wanted.min(self.warm.count(server) + AT_ONCE) {
                if usable {
                    self.make_warm(server, now);
                }
            }
        }
    }

    /// Sends the SYN of one.
    fn make_warm(&mut self, server: usize, now: u64) {
        let settings = self.cluster.settings.clone();
        let known = &self.cluster.servers[server];
        let (Some(mac), Some(learned)) = (known.mac, known.learned) else { return };
        let Some(ends) = self.own_ends(server, now) else { return };
        let known = &self.cluster.servers[server];
        let own = known.interface.clone();
        // As clients at common links have it, so that it fits most of them.
        let told_mss = if is_v6(&ends) { 1440 } else { 1460 };
        let mss = learned.mss.unwrap_or(536).clamp(100, told_mss);
        let mut upstream = Upstream::new(server, ends, (own.port, mac, own.mac), mss);
        (upstream.told_mss, upstream.sack, upstream.times) = (told_mss, learned.sack, learned.times.is_some());
        let next = initial(self.path.secret(), &ends, now).wrapping_add(1);
        let due = now + settings.timeouts.connect;
        let clock = ((now / 1_000_000) as u32, now);
        let idle = Idle { upstream, next, clock, window: WINDOW, connected: false, owes: false, due };
        let syn = idle.segment(SYN, now);
        self.path.send(own.port, &syn);
        self.by_server.insert(ends, Owner::Warm(server));
        self.warm.keep(idle, now);
    }

    /// A segment of a server on such a connection.
    pub(super) fn on_warm(&mut self, server: usize, segment: &Segment) {
        let now = self.path.now();
        let idle_for = self.cluster.settings.timeouts.warm;
        let Some(idle) = self.warm.find(server, &segment.ends) else { return };
        let u = &mut idle.upstream;
        if !idle.connected {
            let answers = segment.has(ACK) && segment.ack == idle.next;
            let options = segment.options;
            if !answers {
                return;
            }
            if segment.has(RST) || !segment.has(SYN) {
                return self.forget_warm(server, &segment.ends);
            }
            if (u.sack && !options.sack) || (u.times && options.times.is_none()) {
                return self.end_warm(server, &segment.ends, RST);
            }
            u.responses = Stream::new(segment.seq.wrapping_add(1), HEAD);
            u.tsval = options.times.map_or(0, |(value, _)| value);
            (u.scale, u.told) = options.scale.map_or((0, 0), |scale| (scale, SCALE));
            u.edge = segment.ack.wrapping_add(segment.window.into());
            (idle.connected, idle.due) = (true, now + idle_for);
        } else if segment.has(RST) {
            if segment.seq != u.responses.bytes.next() {
                return;
            }
            return self.forget_warm(server, &segment.ends);
        } else {
            if let Some((tsval, _)) = segment.options.times.filter(|times| !super::block::before(times.0, u.tsval)) {
                u.tsval = tsval;
            }
            if segment.has(ACK) && segment.ack == idle.next {
                u.edge = segment.ack.wrapping_add(u32::from(segment.window) << u.scale);
            }
            let expected = u.responses.bytes.next();
            if segment.seq == expected && !segment.payload.is_empty() {
                // Nobody has asked it anything.
                return self.end_warm(server, &segment.ends, RST);
            }
            if segment.seq == expected && segment.has(FIN) {
                u.responses.bytes.insert(segment.seq, &[], true);
                return self.end_warm(server, &segment.ends, FIN);
            }
            // It asks whether somebody is there (RFC 9293 section 3.8.4), or has not heard that all has come.
            if segment.seq == expected {
                return;
            }
        }
        let (port, answer) = (idle.upstream.port, idle.segment(0, now));
        self.path.send(port, &answer);
    }

    /// An error about one: only those about SYNs say that there will be none.
    pub(super) fn on_warm_error(&mut self, server: usize, error: &IcmpError) {
        let ends = error.ends.turned();
        let asked = self.warm.find(server, &ends).is_some_and(|own| !own.connected);
        if asked && error.problem == Problem::Unreachable {
            self.forget_warm(server, &ends);
        }
    }

    /// Ends one, and says so to the server by a FIN or a reset.
    fn end_warm(&mut self, server: usize, ends: &Ends, flags: u8) {
        let now = self.path.now();
        if let Some(idle) = self.warm.find(server, ends) {
            let flags = if idle.connected { flags } else { RST };
            let (port, frame) = (idle.upstream.port, idle.segment(flags, now));
            self.path.send(port, &frame);
        }
        self.forget_warm(server, ends);
    }

    fn forget_warm(&mut self, server: usize, ends: &Ends) {
        self.warm.remove(server, ends);
        self.by_server.remove(ends);
        self.path.remove_block(ends);
    }
}
