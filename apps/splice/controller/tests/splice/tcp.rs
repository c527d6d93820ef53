//! A small TCP: sends, resends, reassembles, and finds fault with everything that a real one would.

use std::collections::{BTreeMap, BTreeSet};

use wire::flow_key::FlowKey;
use wire::icmp::{IcmpError, Problem};
use wire::segment::{ACK, FIN, RST, SYN, Segment, TcpOptions};
use wire::seq::before;

/// From one try to the next, in nanoseconds.
const RESEND: u64 = 400_000_000;

/// One end of a connection.
pub struct Tcp {
    pub flow_key: FlowKey,
    pub macs: ([u8; 6], [u8; 6]),
    /// What it announces; the timestamps are its clock at time 0.
    options: TcpOptions,
    /// What both have announced.
    times: bool,
    /// The peer's window scale, and the own one; without both, none counts.
    peer_scale: u8,
    own_scale: u8,
    /// Its clock when it sent its SYN the first and the last time.
    syn_sent: Option<(u32, u32)>,
    first: u32,
    una: u32,
    next: u32,
    /// Behind the last byte that it has ever sent.
    most: u32,
    edge: u32,
    /// Everything it sends, from the number behind its SYN on.
    out: Vec<u8>,
    closing: bool,
    expected: Option<u32>,
    pub received: Vec<u8>,
    early: BTreeMap<u32, Vec<u8>>,
    pub peer_closed: bool,
    pub was_reset: bool,
    /// Whether it had ended, and a reset has come since then: its flow key may begin anew.
    pub forgotten: bool,
    latest: u32,
    resend: u64,
    mss: usize,
    /// Selective acknowledgements that came.
    pub sacked: usize,
    /// Bytes that it has room for, and how many of those that came have been read; all at once, where nothing says
    /// otherwise.
    pub buffer: u32,
    pub read: Option<usize>,
    /// How far its windows have reached, and whether nothing may come from behind that.
    advertised: Option<u32>,
    pub window_matters: bool,
    /// The largest window that the peer has advertised.
    most_room: u32,
    /// The sequence number of what told it the peer's window last.
    window_seq: u32,
    /// The values of its clock that it has sent, and whether all that comes must echo one of them, and not only until
    /// it is connected.
    clocks: BTreeSet<u32>,
    pub echoes_matter: bool,
    /// Whether that is so until then at least: not where a process has taken it up that does not know what was said
    /// before.
    pub handshake_matters: bool,
    /// Whether nothing overtakes anything on the way to it, so that clocks never go back.
    pub ordered: bool,
    last_clock: Option<u32>,
    /// As a server: how its listener is at present.
    pub listener: Listener,
}

/// What becomes of segments that would end a handshake.
#[derive(Clone, Copy, Debug, Default)]
pub struct Listener {
    /// So many find no room in its queue: they are thrown away without a word.
    pub full: usize,
    /// It keeps nothing of the sender of a SYN (RFC 4987 section 3.6). The negotiated options are in the number of its
    /// answer and in its clock, so that it is read out of whatever comes back; the first byte's number is told by the
    /// first segment.
    pub cookies: bool,
}

impl Tcp {
    pub fn new(flow_key: FlowKey, macs: ([u8; 6], [u8; 6]), first: u32, options: TcpOptions) -> Tcp {
        Tcp {
            flow_key,
            macs,
            options,
            times: options.times.is_some(),
            peer_scale: 0,
            own_scale: options.scale.unwrap_or(0),
            syn_sent: None,
            first,
            una: first,
            next: first,
            most: first,
            edge: first.wrapping_add(1),
            out: Vec::new(),
            closing: false,
            expected: None,
            received: Vec::new(),
            early: BTreeMap::new(),
            peer_closed: false,
            was_reset: false,
            forgotten: false,
            latest: 0,
            resend: 0,
            mss: 536,
            sacked: 0,
            buffer: 40_000,
            read: None,
            advertised: None,
            window_matters: true,
            most_room: 0,
            window_seq: 0,
            clocks: BTreeSet::new(),
            echoes_matter: true,
            handshake_matters: true,
            ordered: true,
            last_clock: None,
            listener: Listener::default(),
        }
    }

    fn clock(&self, now: u64) -> u32 {
        self.options.times.map_or(0, |(start, _)| start).wrapping_add((now / 1_000_000) as u32)
    }

    /// The window that it announces now, in bytes: never a little (RFC 9293 section 3.8.6.2.2), and the edge does not
    /// go back.
    fn window(&self) -> u32 {
        let waiting = self.read.map_or(0, |read| self.received.len() - read) as u32;
        let free = self.buffer.saturating_sub(waiting);
        let (Some(advertised), Some(expected)) = (self.advertised, self.expected) else { return free };
        let left = if before(advertised, expected) { 0 } else { advertised.wrapping_sub(expected) };
        if free >= left + (self.buffer / 2).min(self.mss as u32).max(1) { free } else { left }
    }

    /// Reads some of what came.
    pub fn read_more(&mut self, bytes: usize, now: u64) -> Vec<Vec<u8>> {
        let Some(read) = &mut self.read else { return Vec::new() };
        let before_it = *read;
        *read = (*read + bytes).min(self.received.len());
        let (advertised, expected) = (self.advertised, self.expected);
        let opens = advertised
            .zip(expected)
            .is_some_and(|(advertised, expected)| before(advertised, expected.wrapping_add(self.window())));
        if self.read == Some(before_it) || !opens || !self.is_open() {
            return Vec::new();
        }
        vec![self.segment(0, self.next, &[], now)]
    }

    fn segment(&mut self, flags: u8, seq: u32, payload: &[u8], now: u64) -> Vec<u8> {
        let syn = flags & SYN != 0;
        let mut options = if syn { self.options } else { TcpOptions::default() };
        let scale = if syn { 0 } else { self.own_scale };
        let window = (self.window() >> scale).min(65535) as u16;
        if let Some(expected) = self.expected {
            let edge = expected.wrapping_add(u32::from(window) << scale);
            self.advertised = Some(self.advertised.filter(|advertised| !before(*advertised, edge)).unwrap_or(edge));
        }
        // A SYN and ACK announces nothing that the SYN did not.
        if syn && self.expected.is_some() {
            options.scale = options.scale.filter(|_| self.own_scale > 0 || self.peer_scale > 0);
        }
        options.times = self.times.then_some((self.clock(now), self.latest));
        self.clocks.insert(self.clock(now));
        if !syn && self.options.sack {
            options.sack_blocks = self.sack_blocks();
        }
        Segment {
            dst_mac: self.macs.1,
            src_mac: self.macs.0,
            flow_key: self.flow_key,
            seq,
            ack: self.expected.unwrap_or(0),
            flags: if self.expected.is_some() { flags | ACK } else { flags },
            window,
            options,
            payload,
        }
        .frame()
    }

    /// A segment that it has sent so many milliseconds ago, with the numbers of the next one.
    pub fn old(&mut self, payload: &[u8], age: u32, now: u64) -> Vec<u8> {
        self.segment(0, self.next, payload, now - u64::from(age) * 1_000_000)
    }

    /// A host that knows no connection says so (RFC 9293 section 3.10.7.1).
    fn reset(&self, segment: &Segment) -> Vec<u8> {
        Segment {
            dst_mac: self.macs.1,
            src_mac: self.macs.0,
            flow_key: self.flow_key,
            seq: segment.ack,
            ack: 0,
            flags: RST,
            window: 0,
            options: TcpOptions::default(),
            payload: &[],
        }
        .frame()
    }

    /// What came early, as selective acknowledgements (RFC 2018 section 4).
    fn sack_blocks(&self) -> [Option<(u32, u32)>; 4] {
        let mut sack_blocks: Vec<(u32, u32)> = Vec::new();
        for (from, bytes) in &self.early {
            let end = from.wrapping_add(bytes.len() as u32);
            match sack_blocks.last_mut() {
                Some((_, last)) if !before(*last, *from) => *last = if before(*last, end) { end } else { *last },
                _ => sack_blocks.push((*from, end)),
            }
        }
        // As many as there is always room for.
        std::array::from_fn(|at| sack_blocks.get(at).copied().filter(|_| at < 3))
    }

    /// Adds to what is sent.
    pub fn write(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    pub fn close(&mut self) {
        self.closing = true;
    }

    /// Whether all that it has sent has come.
    pub fn is_acknowledged(&self) -> bool {
        self.una == self.end()
    }

    /// Whether its FIN has come, too.
    pub fn is_closed(&self) -> bool {
        self.closing && self.una == self.end().wrapping_add(1)
    }

    /// Whether a segment brings bytes that have not come before.
    pub fn is_news(&self, segment: &Segment) -> bool {
        let end = segment.seq.wrapping_add(segment.payload.len() as u32);
        !segment.payload.is_empty() && self.expected.is_some_and(|expected| before(expected, end))
    }

    fn is_open(&self) -> bool {
        self.expected.is_some() && self.una != self.first
    }

    fn end(&self) -> u32 {
        self.first.wrapping_add(1 + self.out.len() as u32)
    }

    /// What it sends now.
    pub fn pump(&mut self, now: u64) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        if self.was_reset {
            return frames;
        }
        let asks = self.is_open() && self.una == self.next && self.edge == self.next && now >= self.resend;
        let keeps_nothing = self.listener.cookies && self.expected.is_some() && self.una == self.first;
        if self.una != self.next && now >= self.resend && !keeps_nothing {
            self.next = self.una;
        }
        if self.next == self.first {
            frames.push(self.segment(SYN, self.first, &[], now));
            let clock = self.clock(now);
            self.syn_sent = Some((self.syn_sent.map_or(clock, |(first, _)| first), clock));
            self.next = self.first.wrapping_add(1);
        } else if self.is_open() {
            loop {
                let from = self.next.wrapping_sub(self.first.wrapping_add(1)) as usize;
                let room = if before(self.edge, self.next) { 0 } else { self.edge.wrapping_sub(self.next) as usize };
                // One byte asks for a window (RFC 9293 section 3.8.6.1).
                let room = if asks && frames.is_empty() { room.max(1) } else { room };
                let length = self.out.len().saturating_sub(from).min(self.mss).min(room);
                // A little room is left alone for a while, where there was more once (RFC 9293 section 3.8.6.2.1).
                // Behind its FIN nothing is left.
                let is_little = length == room && length < self.mss && length < self.out.len().saturating_sub(from);
                if is_little && (length as u32) < self.most_room / 2 && !(self.una == self.next && now >= self.resend) {
                    break;
                }
                if length > 0 {
                    let bytes = self.out[from..from + length].to_vec();
                    frames.push(self.segment(0, self.next, &bytes, now));
                    self.next = self.next.wrapping_add(length as u32);
                } else if self.closing && self.next == self.end() {
                    frames.push(self.segment(FIN, self.next, &[], now));
                    self.next = self.next.wrapping_add(1);
                } else {
                    break;
                }
            }
        }
        if !frames.is_empty() {
            self.resend = now + RESEND;
        }
        if before(self.most, self.next) {
            self.most = self.next;
        }
        frames
    }

    /// An ICMP error comes: what is too big is sent again in smaller pieces (RFC 1191 section 6.4).
    pub fn receive_error(&mut self, error: &IcmpError, now: u64) -> Vec<Vec<u8>> {
        assert_eq!(error.flow_key, self.flow_key);
        // A late one may be about what the server before has sent: each compares it with what it has under way.
        assert!(before(error.seq, self.most), "about what was not sent");
        let Problem::TooBig(mtu) = error.problem else { return Vec::new() };
        let mss = usize::from(mtu) - 40 - 12;
        if before(error.seq, self.una) || mss >= self.mss {
            return Vec::new();
        }
        (self.mss, self.next) = (mss, self.una);
        self.pump(now)
    }

    /// A segment comes; what it answers at once.
    pub fn receive(&mut self, segment: &Segment, now: u64) -> Vec<Vec<u8>> {
        assert_eq!(segment.flow_key.reversed(), self.flow_key);
        if segment.has(RST) {
            // Without anything to lose that is no harm.
            if self.closing && self.peer_closed && self.una == self.end().wrapping_add(1) {
                self.forgotten |= Some(segment.seq) == self.expected;
                return Vec::new();
            }
            // RFC 5961 section 3.2.
            let exact = Some(segment.seq) == self.expected;
            self.was_reset |= exact || (self.expected.is_none() && segment.ack == self.next);
            let asks = !exact && self.expected.is_some_and(|expected| segment.seq.wrapping_sub(expected) < 40_000);
            return if asks { vec![self.segment(0, self.next, &[], now)] } else { Vec::new() };
        }
        if let Some((value, echo)) = segment.options.times.filter(|_| self.times) {
            let back = self.last_clock.is_some_and(|last| before(value, last));
            // A process that begins anew knows nothing of connections that were in its predecessor's idle pool.
            let meets = segment.has(SYN) && !self.handshake_matters;
            assert!(!self.ordered || !back || meets, "a clock goes back from {:?} to {value}", self.last_clock);
            self.last_clock = if back { self.last_clock } else { Some(value) };
            let is_new = self.expected.is_some() && self.una == self.first;
            let matters = self.echoes_matter || (self.handshake_matters && is_new);
            let known = !matters || !segment.has(ACK) || self.clocks.contains(&echo);
            assert!(known, "an echo of {echo}, which was never sent: {:?}", self.clocks);
        }
        if let Some(advertised) = self.advertised.filter(|_| !segment.payload.is_empty()) {
            let end = segment.seq.wrapping_add(segment.payload.len() as u32);
            let asks = segment.payload.len() == 1 && end == advertised.wrapping_add(1);
            assert!(
                !self.window_matters || !before(advertised, end) || asks,
                "{} bytes beyond the window",
                end.wrapping_sub(advertised)
            );
        }
        if segment.has(ACK) {
            assert!(
                !before(self.most, segment.ack) || before(segment.ack, self.first),
                "acknowledges what was not sent"
            );
        }
        for (from, to) in segment.options.sack_blocks.into_iter().flatten() {
            // An old segment may speak of what the server before has sent.
            let (was_sent, is_old) = (before(self.first, from) && !before(self.most, to), !before(self.una, to));
            assert!(self.options.sack && before(from, to) && (was_sent || is_old), "acknowledges {from} to {to}");
            self.sacked += usize::from(before(self.una, to));
        }
        if segment.flags == SYN && self.is_open() {
            // RFC 5961 section 4.2.
            return vec![self.segment(0, self.next, &[], now)];
        }
        let ends_handshake = !segment.has(SYN) && self.expected.is_some() && self.una == self.first;
        if ends_handshake && self.listener.cookies {
            if Some(segment.seq) != self.expected {
                return vec![self.reset(segment)];
            }
            let echo = segment.options.times.filter(|_| self.times).map(|(_, echo)| echo);
            let of_syn = self.syn_sent.filter(|_| self.times).map(|(_, last)| last);
            assert_eq!(echo, of_syn, "other options are read than were agreed on");
        }
        if segment.has(SYN) {
            if self.expected.is_none() {
                self.expected = Some(segment.seq.wrapping_add(1));
                self.mss = usize::from(segment.options.mss.unwrap_or(536)) - 12;
                self.times &= segment.options.times.is_some();
                let scales = segment.options.scale.is_some() && self.options.scale.is_some();
                self.peer_scale = segment.options.scale.filter(|_| scales).unwrap_or(0);
                self.own_scale = if scales { self.own_scale } else { 0 };
                self.options.scale = self.options.scale.filter(|_| scales);
                self.options.sack &= segment.options.sack;
                self.latest = segment.options.times.map_or(0, |(value, _)| value);
                self.window_seq = segment.seq;
                if !segment.has(ACK) {
                    return self.pump(now);
                }
            }
        } else if self.times {
            let Some((value, echo)) = segment.options.times else {
                // The answer to a SYN of before, from a host that knows nothing of clocks (RFC 7323 section 3.2 has it
                // dropped).
                assert!(segment.flags == ACK && segment.payload.is_empty(), "timestamps were agreed on");
                return Vec::new();
            };
            assert!(!segment.has(ACK) || !before(self.clock(now), echo), "an echo from the future");
            // PAWS (RFC 7323 section 5.3).
            if before(value, self.latest) {
                return vec![self.segment(0, self.next, &[], now)];
            }
            // Until its SYN is acknowledged it takes nothing that does not echo one of them, as Linux does from 6.15
            // on.
            let of_syn = |(first, last): (u32, u32)| !before(echo, first) && !before(last, echo);
            if self.expected.is_some() && self.una == self.first && !self.syn_sent.is_some_and(of_syn) {
                assert!(!self.handshake_matters, "an echo of {echo}, which is none of its SYNs'");
                return vec![self.segment(0, self.next, &[], now)];
            }
            if self.expected.is_some_and(|expected| !before(expected, segment.seq)) {
                self.latest = value;
            }
        } else {
            assert!(segment.options.times.is_none(), "timestamps that were not negotiated");
        }
        if ends_handshake && segment.ack == self.first.wrapping_add(1) && self.listener.full > 0 {
            self.listener.full -= 1;
            return Vec::new();
        }
        if segment.has(ACK) && !before(segment.ack, self.una) && !before(self.most, segment.ack) {
            let una = self.una;
            if segment.ack != self.una {
                self.resend = now + RESEND;
            }
            self.una = segment.ack;
            self.next = if before(self.next, self.una) { self.una } else { self.next };
            let scale = if segment.has(SYN) { 0 } else { self.peer_scale };
            let edge = segment.ack.wrapping_add(u32::from(segment.window) << scale);
            self.most_room = self.most_room.max(u32::from(segment.window) << scale);
            // As Linux has it: with the same numbers a window does not become smaller.
            let is_later = before(self.window_seq, segment.seq) || segment.ack != una;
            if is_later || (self.window_seq == segment.seq && before(self.edge, edge)) {
                (self.edge, self.window_seq) = (edge, segment.seq);
            }
        }
        let Some(mut expected) = self.expected else { return Vec::new() };
        let is_last = segment.has(FIN);
        if !segment.payload.is_empty() || is_last {
            let mut bytes = segment.payload.to_vec();
            let room = expected.wrapping_add(self.window()).wrapping_sub(segment.seq) as i32;
            let cut = bytes.len() > room.max(0) as usize;
            bytes.truncate(room.max(0) as usize);
            let is_last = is_last && !cut;
            // A FIN is a byte that cannot be one: 1 more than there are.
            if !before(expected, segment.seq) {
                let known = expected.wrapping_sub(segment.seq) as usize;
                if known <= bytes.len() && !self.peer_closed {
                    bytes.drain(..known);
                    expected = expected.wrapping_add(bytes.len() as u32);
                    self.received.extend(bytes);
                    while let Some((seq, piece)) = self.early.pop_first() {
                        if before(expected, seq) {
                            self.early.insert(seq, piece);
                            break;
                        }
                        let known = expected.wrapping_sub(seq) as usize;
                        if known < piece.len() {
                            self.received.extend(&piece[known..]);
                            expected = expected.wrapping_add((piece.len() - known) as u32);
                        }
                    }
                }
            } else if expected.wrapping_sub(segment.seq).wrapping_neg() < 1 << 20 && !bytes.is_empty() {
                self.early.insert(segment.seq, bytes);
            }
            if is_last && !self.peer_closed && segment.seq.wrapping_add(segment.payload.len() as u32) == expected {
                expected = expected.wrapping_add(1);
                self.peer_closed = true;
            }
            self.expected = Some(expected);
        }
        let mut frames = self.pump(now);
        if segment.space() > 0 && frames.is_empty() {
            frames.push(self.segment(0, self.next, &[], now));
        }
        frames
    }
}
