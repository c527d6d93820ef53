//! Health checks are begun, followed and ended.

use wire::flow_key::FlowKey;
use wire::icmp::{IcmpError, Problem};
use wire::isn::initial;
use wire::segment::{ACK, FIN, PSH, RST, SYN, Segment, TcpOptions};

use super::{Owner, Splicer};
use crate::cluster::checks::{Check, Running};
use crate::data_path::DataPath;
use crate::tables::flow_entry::{FlowEntry, second};

/// From one check to the next at most as long as it is not known whether a server works, in nanoseconds.
const UNDECIDED: u64 = 1_000_000_000;
/// Bytes of an answer that its status must be in.
const STATUS: usize = 512;

impl<P: DataPath> Splicer<P> {
    /// When the next check has something to do.
    pub(super) fn next_check(&self) -> u64 {
        if self.checks.len() < self.cluster.servers.len() {
            return 0;
        }
        self.checks.iter().map(|check| check.due).min().unwrap_or(u64::MAX)
    }

    /// Servers that are not checked any more may be in the configuration again.
    pub(super) fn check_soon(&mut self) {
        self.checks.iter_mut().filter(|check| check.due == u64::MAX).for_each(|check| check.due = 0);
    }

    /// Begins and ends checks.
    pub(super) fn run_checks(&mut self) {
        let now = self.path.now();
        self.checks.resize(self.cluster.servers.len(), Check { due: 0, running: None });
        for server in 0..self.checks.len() {
            if self.checks[server].due > now {
                continue;
            }
            if self.checks[server].running.is_some() {
                self.late_check(server);
            } else if self.cluster.servers[server].configured {
                self.begin_check(server, now);
            } else {
                self.checks[server].due = u64::MAX;
            }
        }
    }

    fn begin_check(&mut self, server: usize, now: u64) {
        let tracked = &self.cluster.servers[server];
        let pool = tracked.pool.clone();
        let check = &pool.check;
        // Where the next hop is not known yet, it is tried again soon.
        if tracked.mac.is_none() {
            if !tracked.up {
                let why = tracked.no_way.clone();
                self.cluster.servers[server].why =
                    why.unwrap_or_else(|| "no station answers for its address on the link".into());
            }
            self.checks[server].due = now + check.interval.min(200_000_000);
            return;
        }
        self.checks[server].due = now + check.timeout;
        let Some(flow_key) = self.own_key(server, now) else { return };
        let start = initial(self.path.secret(), &flow_key, now);
        self.by_server.insert(flow_key, Owner::Check(server));
        let next = start.wrapping_add(1);
        self.checks[server].running =
            Some(Running { flow_key, next, expected: 0, connected: false, answer: Vec::new() });
        let options =
            TcpOptions { mss: Some(1460), scale: Some(7), sack: true, times: Some((1, 0)), ..TcpOptions::default() };
        self.send_check(server, SYN, start, options, b"");
    }

    /// A flow key that no connection has, for one of Millrace's own to a server; what comes back is held for it.
    pub(super) fn own_key(&mut self, server: usize, now: u64) -> Option<FlowKey> {
        let (by_server, path) = (&self.by_server, &mut self.path);
        let flow_key = self
            .cluster
            .flow_key(server, None, |flow_key| !by_server.contains_key(flow_key) && path.entry(flow_key).is_none())?;
        self.path.set_entry(&flow_key, &FlowEntry::held(flow_key.reversed(), second(now))).then_some(flow_key)
    }

    fn send_check(&mut self, server: usize, flags: u8, seq: u32, options: TcpOptions, payload: &[u8]) {
        let tracked = &self.cluster.servers[server];
        let (Some(running), Some(mac)) = (&self.checks[server].running, tracked.mac) else { return };
        let own = &tracked.interface;
        let segment = Segment {
            dst_mac: mac,
            src_mac: own.mac,
            flow_key: running.flow_key.reversed(),
            seq,
            ack: if flags & ACK == 0 { 0 } else { running.expected },
            flags,
            window: 8192,
            options,
            payload,
        };
        self.path.send(own.port, &segment.frame());
    }

    /// A segment of a server that is being checked.
    pub(super) fn on_check(&mut self, server: usize, segment: &Segment) {
        let http = self.cluster.servers[server].pool.check.http.clone();
        let Some(running) = self.checks[server].running.as_mut() else { return };
        if !segment.has(ACK) || segment.ack != running.next && !running.connected {
            return;
        }
        if segment.has(RST) {
            // One that is no answer to the SYN must have the very number that is expected (RFC 5961 section 3.2).
            if running.connected && segment.seq != running.expected {
                return;
            }
            let why = if running.connected { "it reset the connection" } else { "it refuses connections" };
            return self.end_check(server, Err(why.into()));
        }
        let times = |options: &TcpOptions| options.times.map(|(value, _)| (2, value));
        let reply = TcpOptions { times: times(&segment.options), ..TcpOptions::default() };
        if segment.has(SYN) && !running.connected {
            running.connected = true;
            running.expected = segment.seq.wrapping_add(1);
            let before = self.cluster.servers[server].learned.replace(segment.options);
            let same = |own: TcpOptions| (own.mss, own.sack, own.times.is_some());
            if before.map(same) != Some(same(segment.options)) {
                self.offer_all();
            }
            let Some(http) = http else { return self.end_check(server, Ok(())) };
            let request = format!(
                "GET {} HTTP/1.1\r\nHost: {}\r\nUser-Agent: millrace\r\nConnection: close\r\n\r\n",
                http.path, http.host
            );
            let Some(running) = self.checks[server].running.as_mut() else { return };
            let seq = running.next;
            running.next = seq.wrapping_add(request.len() as u32);
            return self.send_check(server, ACK | PSH, seq, reply, request.as_bytes());
        }
        if segment.seq != running.expected || (segment.payload.is_empty() && !segment.has(FIN)) {
            return;
        }
        running.expected = segment.end();
        running.answer.extend_from_slice(segment.payload);
        let (next, answer) = (running.next, running.answer.clone());
        let status: Option<u16> =
            answer.strip_prefix(b"HTTP/1.").and_then(|rest| str::from_utf8(rest.get(2..5)?).ok()?.parse().ok());
        match (status, http) {
            (Some(status), Some(http)) if status == http.status => self.end_check(server, Ok(())),
            (Some(status), _) => self.end_check(server, Err(format!("status {status}"))),
            _ if segment.has(FIN) || answer.len() > STATUS => {
                self.end_check(server, Err("it answers without a status".into()));
            }
            _ => self.send_check(server, ACK, next, reply, b""),
        }
    }

    /// An error about a check's segment: one about its SYN ends it.
    pub(super) fn on_check_error(&mut self, server: usize, error: &IcmpError) {
        let running = self.checks[server].running.as_ref();
        let asked = running.is_some_and(|own| !own.connected && error.seq == own.next.wrapping_sub(1));
        if asked && error.problem == Problem::Unreachable {
            self.end_check(server, Err("it is unreachable".into()));
        }
    }

    /// A check takes too long.
    fn late_check(&mut self, server: usize) {
        let connected = self.checks[server].running.as_ref().is_some_and(|own| own.connected);
        let what = if connected { "no answer" } else { "no connection" };
        let timeout = self.cluster.servers[server].pool.check.timeout;
        self.end_check(server, Err(format!("{what} within {} ms", timeout / 1_000_000)));
    }

    /// A check is over: the server works, or why not.
    fn end_check(&mut self, server: usize, found: Result<(), String>) {
        if let Some(next) = self.checks[server].running.as_ref().filter(|own| own.connected).map(|own| own.next) {
            self.send_check(server, RST | ACK, next, TcpOptions::default(), b"");
        }
        if let Some(running) = self.checks[server].running.take() {
            self.by_server.remove(&running.flow_key);
            self.path.remove_entry(&running.flow_key);
        }
        let now = self.path.now();
        let changed = self.cluster.checked(server, found, now);
        let most = if self.cluster.awaits_checks(server) { UNDECIDED } else { u64::MAX };
        let tracked = &self.cluster.servers[server];
        self.checks[server].due = now + tracked.pool.check.interval.min(most);
        if changed {
            tracing::warn!(
                pool = tracked.pool.name,
                server = tracked.server.name,
                up = tracked.up,
                why = tracked.why,
                "server"
            );
        }
    }
}
