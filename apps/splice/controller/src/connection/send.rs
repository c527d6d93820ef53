//! Segments of Millrace's own to both sides.

use wire::segment::{ACK, FIN, PSH, SYN, Segment, TcpOptions};
use wire::seq::before;

use super::client::{Client, Progress};
use super::clock::AHEAD;
use super::context::Context;
use super::effect::Effect;
use super::upstream::{SynSent, Upstream};
use crate::data_path::SCALE;
use crate::tables::flow_entry::FlowEntry;

/// From one try of Millrace's own segments to the next, in nanoseconds, at first.
pub const RESEND: u64 = 300_000_000;

/// A pause until the next try that is a little longer for some connections than for others: where a server had room for
/// few of those that came at the same moment, the rest must not come at the same moment again.
pub fn spread(pause: u64, id: u64) -> u64 {
    pause + pause / 256 * (id % 64)
}

/// A window as the receiver reads it; see `tcp_window` of the program.
pub fn window(window: u16, scale: u8, advertised_scale: u8) -> u16 {
    ((u32::from(window) << scale) >> advertised_scale).min(65535) as u16
}

impl Client {
    /// The window scale that the client was told.
    pub fn advertised_scale(&self) -> u8 {
        if self.options.scale.is_some() { SCALE } else { 0 }
    }

    /// Sends the client a segment. It acknowledges all that has come in order: see
    /// [`State::send`](super::state::State).
    pub fn send(&mut self, cx: &mut Context, flags: u8, seq: u32, payload: &[u8]) {
        let next = self.requests.bytes.next();
        if before(self.acknowledged, next) {
            self.acknowledged = next;
        }
        let segment = self.segment((next, self.requests.bytes.room() as u32), flags, seq, payload);
        cx.send(self.hop.port, segment.frame());
    }

    /// Tells the client once more what its server has, and what is kept here: a segment has come behind a gap, and
    /// without an answer to each the client would fill it at the pace of its timer (RFC 5681 section 3.2).
    pub fn tell_gap(&mut self, u: &Upstream, cx: &mut Context) {
        self.hear(cx);
        let (next, room) = (u.acked, u.conn.edge.wrapping_sub(u.acked));
        let sack_blocks = if self.options.sack { self.out_of_order.sack_blocks() } else { Default::default() };
        let mut segment = self.segment((next, room), 0, self.acked, &[]);
        segment.options.sack_blocks = sack_blocks;
        cx.send(self.hop.port, segment.frame());
    }

    /// One with an acknowledgement, and bytes that there is room for.
    fn segment<'p>(&self, (next, room): (u32, u32), flags: u8, seq: u32, payload: &'p [u8]) -> Segment<'p> {
        Segment {
            dst_mac: self.hop.mac,
            src_mac: self.hop.own_mac,
            flow_key: self.key.reversed(),
            seq,
            ack: next,
            flags: flags | ACK,
            window: (room >> self.advertised_scale()).min(65535) as u16,
            options: TcpOptions {
                times: (self.options.times && self.clock.heard).then_some((self.clock.times.1, self.clock.times.0)),
                ..TcpOptions::default()
            },
            payload,
        }
    }

    /// All of the client's segments come to the controller from now on.
    pub fn hold(&self, progress: Progress, cx: &mut Context) {
        let scale = self.options.scale.unwrap_or(0);
        let mut entry = FlowEntry {
            port: self.hop.port,
            scale,
            dst_mac: self.hop.mac,
            // A held segment is not rewritten, so here they are the client's own.
            tsval: self.clock.times.0,
            tsecr: self.clock.times.1,
            acked: self.next,
            edge: self.next.wrapping_add(self.room()),
            ..FlowEntry::held(self.key.reversed(), cx.seconds())
        };
        self.note(progress, &mut entry);
        cx.push(Effect::Set { key: self.key, entry });
    }
}

impl Upstream {
    /// Sends the server a segment of the client's stream.
    pub fn send(&mut self, flags: u8, seq: u32, payload: &[u8], cl: &mut Client, cx: &mut Context) {
        let (port, frame) = self.word(flags, seq, payload, cl, cx);
        cx.send(port, frame);
    }

    /// Such a segment, with its port.
    pub fn word(&self, flags: u8, seq: u32, payload: &[u8], cl: &mut Client, cx: &mut Context) -> (u8, Vec<u8>) {
        if self.begun {
            cl.hear(cx);
        }
        (self.conn.peer.hop.port, self.frame(flags, seq, payload, cl, cx.now))
    }

    fn frame(&self, flags: u8, seq: u32, payload: &[u8], cl: &Client, now: u64) -> Vec<u8> {
        let (conn, offsets) = (&self.conn, &self.offsets);
        // Of a response on its way the server hears what the client has: the rest is nowhere kept, and would not come
        // again.
        let (next, had) = (conn.responses.bytes.next(), cl.acked.wrapping_sub(offsets.seq));
        let ack = if self.begun && before(had, conn.responses.limit()) { had } else { next };
        // With a FIN this is the last word, and the client's own may have passed with a later clock than is known here.
        let late = (now.saturating_sub(cl.clock.at) / 1_000_000) as u32 + AHEAD;
        let ahead = if flags & FIN != 0 && !self.kept.fin { late } else { 0 };
        let clock = cl.clock.times.0.wrapping_add(offsets.clock).wrapping_add(ahead);
        let segment = Segment {
            dst_mac: conn.peer.hop.mac,
            src_mac: conn.peer.hop.own_mac,
            flow_key: conn.peer.key.reversed(),
            seq: seq.wrapping_add(offsets.shift),
            ack,
            flags: flags | ACK,
            window: window(cl.window, cl.options.scale.unwrap_or(0), conn.advertised_scale),
            options: TcpOptions {
                times: (cl.options.times && cl.clock.heard).then_some((clock, conn.tsval)),
                ..TcpOptions::default()
            },
            payload,
        };
        segment.frame()
    }

    /// Sends what the server's window has room for of the kept bytes.
    pub fn send_kept(&mut self, cl: &mut Client, cx: &mut Context) {
        let again = self.kept.backoff > RESEND;
        // Timestamps take twelve bytes of each segment.
        let longest = usize::from(self.conn.peer.mss) - 12;
        let mut sent_any = false;
        loop {
            let from = self.sent.wrapping_sub(self.kept.at) as usize;
            let edge = self.conn.edge;
            let room = if before(edge, self.sent) { 0 } else { edge.wrapping_sub(self.sent) as usize };
            // A server that knows the connection by its first segment alone resets it at any other one: see
            // `Upstream::is_silent`.
            if (again || self.kept.alone) && sent_any && self.is_silent() {
                break;
            }
            let length = self.kept.bytes.len().saturating_sub(from).min(self.first_length(longest)).min(room);
            let last = from + length == self.kept.bytes.len();
            let fin = last && self.kept.fin && before(self.sent, self.kept.end());
            if length == 0 && !fin {
                break;
            }
            let flags = if last { PSH } else { 0 } | if fin { FIN } else { 0 };
            if self.begun {
                cl.hear(cx);
            }
            let frame = self.frame(flags, self.sent, &self.kept.bytes[from..from + length], cl, cx.now);
            cx.send(self.conn.peer.hop.port, frame);
            sent_any = true;
            self.sent = self.sent.wrapping_add(length as u32).wrapping_add(fin.into());
        }
        if !sent_any {
            self.send(0, self.sent, &[], cl, cx);
        }
    }

    /// The same again from the first byte that the server has not acknowledged.
    pub fn resend_kept(&mut self, cl: &mut Client, cx: &mut Context) {
        self.sent = if before(self.acked, self.kept.at) { self.kept.at } else { self.acked };
        // One byte asks for a window where there is none (RFC 9293 section 3.8.6.1).
        let least = self.sent.wrapping_add(1);
        self.conn.edge = if before(self.conn.edge, least) { least } else { self.conn.edge };
        self.send_kept(cl, cx);
    }
}

impl SynSent {
    /// Sends the SYN, once more. The time to connect ends at `deadline`.
    pub fn send_syn(&mut self, deadline: u64, cl: &Client, cx: &mut Context) {
        self.resend = (cx.now + spread(self.backoff, cx.id)).min(deadline);
        self.backoff *= 2;
        let options = TcpOptions {
            mss: Some(cl.options.mss),
            scale: cl.options.scale,
            sack: cl.options.sack,
            times: cl.options.times.then_some((cl.clock.times.0, 0)),
            ..TcpOptions::default()
        };
        let frame = self.frame(SYN, self.start.wrapping_sub(1), cl.room().clamp(1, 65535) as u16, options);
        cx.send(self.peer.hop.port, frame);
    }

    /// Sends another segment, with a number of the client's stream.
    pub fn send(&self, flags: u8, seq: u32, cl: &Client, cx: &mut Context) {
        let times = (cl.options.times && cl.clock.heard).then_some((cl.clock.times.0, 0));
        let options = TcpOptions { times, ..TcpOptions::default() };
        let frame = self.frame(flags | ACK, seq, window(cl.window, cl.options.scale.unwrap_or(0), 0), options);
        cx.send(self.peer.hop.port, frame);
    }

    fn frame(&self, flags: u8, seq: u32, window: u16, options: TcpOptions) -> Vec<u8> {
        let segment = Segment {
            dst_mac: self.peer.hop.mac,
            src_mac: self.peer.hop.own_mac,
            flow_key: self.peer.key.reversed(),
            seq: seq.wrapping_add(self.shift),
            ack: 0,
            flags,
            window,
            options,
            payload: &[],
        };
        segment.frame()
    }
}
