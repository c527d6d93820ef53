//! A server is chosen for a request, and connected to.

use wire::body::Framing;
use wire::icmp::{IcmpError, Problem};
use wire::segment::{ACK, RST, SYN, Segment};

use super::client::Client;
use super::context::Context;
use super::effect::{Effect, Policy, Select, Selection};
use super::release::ServerSide;
use super::send::RESEND;
use super::state::{Choosing, Connecting, Joined, Leftover, Pending, State};
use super::stream::Stream;
use super::upstream::{HEAD, IdleUpstream, Offsets, Peer, ServerConn, SynSent, Upstream};
use crate::settings::Reuse;

impl Choosing {
    /// Has a server of a pool chosen, with a connection that is there, or a new one.
    pub fn join(pending: Pending, pool: usize, kept: Vec<u8>, cl: &Client, cx: &mut Context) -> State {
        let request = &pending.request;
        let repeatable = request.is_idempotent() && request.framing == Framing::Length(0);
        let may = match cx.cluster.settings.pools[pool].reuse {
            Reuse::Always => true,
            Reuse::Safe => repeatable,
            Reuse::Never => false,
        };
        // A server that was once told of much room waits for a full segment's (RFC 9293 section 3.8.6.2.1), which a
        // small buffer never has.
        let may = may && cl.room() >= 2 * u32::from(cl.options.mss);
        Choosing::select(pending, pool, Policy::Reuse { may }, kept, cl, cx)
    }

    /// Has a server of a pool chosen, with a new connection.
    pub fn connect(pending: Pending, pool: usize, kept: Vec<u8>, cl: &Client, cx: &mut Context) -> State {
        Choosing::select(pending, pool, Policy::Fresh, kept, cl, cx)
    }

    /// A server can't have the request, and has lost its connection: another one gets it, or the client this answer.
    pub fn elsewhere(
        mut pending: Pending,
        server: usize,
        kept: Vec<u8>,
        status: u16,
        cl: &mut Client,
        cx: &mut Context,
    ) -> State {
        cl.exchange_retried(server, cx);
        pending.tried.push(server);
        match pending.route(cl, cx) {
            Some(pool) => Choosing::select(pending, pool, Policy::Elsewhere { status }, kept, cl, cx),
            None => Leftover::alone(pending.is_head()).answer(status, cl, cx),
        }
    }

    fn select(
        mut pending: Pending,
        pool: usize,
        policy: Policy,
        kept: Vec<u8>,
        cl: &Client,
        cx: &mut Context,
    ) -> State {
        let tried = std::mem::take(&mut pending.tried);
        cx.push(Effect::Select(Select { pool, client: cl.key, options: cl.options, policy, tried }));
        State::Choosing(Choosing { pending, kept })
    }

    /// A server was chosen, or there is none.
    pub fn on_selected(mut self, selection: Selection, tried: Vec<usize>, cl: &mut Client, cx: &mut Context) -> State {
        self.pending.tried = tried;
        match selection {
            Selection::None(status) => Leftover::alone(self.pending.is_head()).answer(status, cl, cx),
            Selection::Idle(idle) => self.take(*idle, cl, cx),
            Selection::New { peer, first, has_entry } => {
                let connecting = self.begin(peer, first, cl, cx);
                match has_entry {
                    true => connecting.start(cl, cx),
                    false => State::Connecting(connecting).answer(503, cl, cx),
                }
            }
        }
    }

    /// The request goes out on a connection of the idle pool. Offsets and clocks are others than those of the client
    /// before.
    fn take(self, idle: IdleUpstream, cl: &mut Client, cx: &mut Context) -> State {
        // What acknowledges something new may tell a smaller window, too.
        let shrinks = cl.room() < idle.window && !idle.owes_ack;
        let ahead = idle.clock_at(cx.now);
        let mut conn = idle.conn;
        let mut offsets = Offsets {
            shift: idle.next.wrapping_sub(self.pending.start),
            seq: cl.next.wrapping_sub(conn.responses.limit()),
            ..Offsets::default()
        };
        if cl.options.times {
            offsets.clock = ahead.wrapping_sub(cl.clock.times.0);
            offsets.tsval = cl.clock.of_next_server().wrapping_sub(conn.tsval);
        }
        conn.edge = conn.edge.wrapping_sub(offsets.shift);
        let server = conn.peer.server;
        let mut u = Box::new(Upstream::new(conn, offsets));
        u.begin(self.kept, self.pending.start);
        (u.used, u.kept.shrinks) = (true, shrinks);
        cl.exchange_with(server, false, cx);
        Joined::serve(self.pending, u, cl, cx)
    }

    /// A new connection. With full NAT it begins at the client's sequence number. Where the server sees the client's
    /// address and port, it may remember a connection of the same client that has ended at this very number: each
    /// begins further on than those before (RFC 9293 section 3.4.1), so that the server can tell them apart.
    fn begin(self, peer: Peer, first: u32, cl: &mut Client, cx: &Context) -> Connecting {
        cl.connects += 1;
        let (pending, kept) = (self.pending, self.kept);
        let start = pending.start;
        // Where it sees the client's address and port it may see them again within a tick.
        let first = first.wrapping_add(cl.connects);
        let shift = if peer.is_nat { 0 } else { first.wrapping_add(1).wrapping_sub(start) };
        let server = SynSent { peer, shift, start, kept, resend: 0, backoff: RESEND };
        Connecting { pending, server, deadline: cx.now + cx.timeouts().connect }
    }
}

impl Connecting {
    fn start(mut self, cl: &mut Client, cx: &mut Context) -> State {
        cl.exchange_with(self.server.peer.server, true, cx);
        cl.hold(self.pending.progress(), cx);
        self.server.send_syn(self.deadline, cl, cx);
        State::Connecting(self)
    }

    /// A segment of the server.
    pub fn on_server(mut self, segment: &Segment, cl: &mut Client, cx: &mut Context) -> State {
        let own = &mut self.server;
        if !segment.has(ACK) || segment.ack != own.start.wrapping_add(own.shift) {
            // Of an old connection: it is told that that is over, and the SYN comes again, at once for the first time.
            if segment.has(ACK) && !segment.has(RST) {
                own.send(RST, segment.ack.wrapping_sub(own.shift), cl, cx);
                if own.backoff <= 2 * RESEND {
                    own.send_syn(self.deadline, cl, cx);
                }
            }
            return State::Connecting(self);
        }
        if segment.has(RST) {
            return self.elsewhere(503, cl, cx);
        }
        if !segment.has(SYN) {
            return State::Connecting(self);
        }
        let options = segment.options;
        if (cl.options.sack && !options.sack) || (cl.options.times && options.times.is_none()) {
            // It has changed since it was checked.
            cx.push(Effect::Learn { server: own.peer.server, options });
            own.send(RST, segment.ack.wrapping_sub(own.shift), cl, cx);
            return self.elsewhere(503, cl, cx);
        }
        self.join(segment, cl, cx)
    }

    /// The server has accepted the connection.
    fn join(self, segment: &Segment, cl: &mut Client, cx: &mut Context) -> State {
        let (options, own) = (segment.options, self.server);
        let clock = cl.clock.of_next_server();
        let scales = cl.options.scale.and_then(|advertised_scale| Some((options.scale?, advertised_scale)));
        let (scale, advertised_scale) = scales.unwrap_or_default();
        let next = segment.seq.wrapping_add(1);
        let tsval = options.times.filter(|_| cl.options.times).map(|(tsval, _)| tsval);
        let offsets = Offsets {
            shift: own.shift,
            clock: 0,
            seq: cl.next.wrapping_sub(next),
            tsval: tsval.map_or(0, |tsval| clock.wrapping_sub(tsval)),
        };
        let conn = ServerConn {
            peer: own.peer,
            scale,
            advertised_scale,
            edge: own.start.wrapping_add(segment.window.into()),
            tsval: tsval.unwrap_or(0),
            recent: Default::default(),
            responses: Stream::new(next, HEAD),
        };
        let mut u = Box::new(Upstream::new(conn, offsets));
        u.begin(own.kept, own.start);
        cl.exchange_connected(cx);
        Joined::serve(self.pending, u, cl, cx)
    }

    /// An ICMP error about the SYN. Of these, one that the server is not reached does not pass by itself soon (RFC 5461
    /// section 4.1).
    pub fn on_error(self, error: &IcmpError, cl: &mut Client, cx: &mut Context) -> State {
        let seq = error.seq.wrapping_sub(self.server.shift);
        match error.problem == Problem::Unreachable && seq == self.server.start.wrapping_sub(1) {
            true => self.elsewhere(503, cl, cx),
            false => State::Connecting(self),
        }
    }

    /// The SYN is sent again, or another server gets the request.
    pub fn on_due(mut self, cl: &mut Client, cx: &mut Context) -> State {
        if cx.now >= self.deadline {
            return self.elsewhere(504, cl, cx);
        }
        self.server.send_syn(self.deadline, cl, cx);
        State::Connecting(self)
    }

    /// Another server gets the request, or the client this answer.
    pub fn elsewhere(mut self, status: u16, cl: &mut Client, cx: &mut Context) -> State {
        let (kept, server) = (std::mem::take(&mut self.server.kept), self.server.peer.server);
        ServerSide::Connecting(self.server).release(0, cl, cx);
        Choosing::elsewhere(self.pending, server, kept, status, cl, cx)
    }
}
