//! The two flow entries of a connection that is joined, brought up to date.

use super::client::{Client, Progress};
use super::context::Context;
use super::effect::Effect;
use super::upstream::Upstream;
use crate::tables::answered::CLOSES;
use crate::tables::flow_entry::{FlowEntry, Mode};

/// What the entries depend on beside both sides.
#[derive(Clone, Copy, Debug)]
pub enum Phase {
    /// No request is there, or none that was read to the end of its head.
    Reading,
    /// The server has a request, which begins at a sequence number.
    Serving {
        /// The number.
        start: u32,
        /// Whether it is a HEAD.
        is_head: bool,
    },
}

impl Upstream {
    /// The modes of both entries, the client's first.
    fn modes(&self, cl: &Client, is_serving: bool) -> [Mode; 2] {
        if self.awaits {
            return [Mode::Acknowledging, Mode::Awaiting];
        }
        let responses = &self.conn.responses;
        let tunnel = self.response.is_some_and(|response| response.status == 101);
        // A FIN that is not for the client must not pass when it comes again.
        let open = tunnel || (responses.bytes.is_ended() && !cl.keeps_fin(self));
        let waiting = cl.requests.is_done() && !cl.requests.bytes.ready().is_empty();
        let last = cl.done || !(cl.persistence.keeps_alive() || cl.persistence.closes());
        // An unheard request must come to the next process, if there is one.
        // What is kept comes from here, and nothing of the client's may overtake it: see `Upstream::is_silent`.
        let kept = self.is_unheard() || !self.has_all();
        let finishing = is_serving && cl.is_finishing(self);
        let client = if finishing && cl.requests.is_done() && self.has_all() {
            Mode::Finishing
        } else if !is_serving || waiting || kept || finishing {
            Mode::Held
        } else if cl.done || open {
            Mode::Open
        } else if last && cl.requests.is_done() && self.begun {
            Mode::Closing
        } else {
            Mode::Limited
        };
        // Before its response, acknowledgements alone pass.
        let answered = self.response.is_some();
        // Nor do those of a request that a process before has sent: else the client would not say once more what it
        // was.
        let unknown = !is_serving && !answered;
        let server = if unknown || !self.has_all() {
            Mode::Held
        } else if answered && (responses.is_endless() || open || (last && responses.is_done())) {
            Mode::Open
        } else {
            Mode::Limited
        };
        [client, server]
    }

    /// Where the client's messages are. A request that may still need another connection is read again by the next
    /// process, when it comes again.
    fn progress(&self, cl: &Client, phase: Phase) -> Progress {
        match phase {
            Phase::Reading => cl.at_limit(),
            Phase::Serving { start, is_head } if self.is_unheard() => {
                Progress { start, delivered: start, served: false, is_head, answers: false }
            }
            Phase::Serving { is_head, .. } => {
                Progress { delivered: self.acked, served: true, is_head, ..cl.at_limit() }
            }
        }
    }

    /// Brings both flow entries up to date.
    pub fn update_entries(&mut self, cl: &Client, phase: Phase, cx: &mut Context) {
        let [client_mode, server_mode] = self.modes(cl, matches!(phase, Phase::Serving { .. }));
        let (conn, offsets) = (&self.conn, &self.offsets);
        let mut client = FlowEntry {
            mode: client_mode,
            port: conn.peer.hop.port,
            scale: cl.options.scale.unwrap_or(0),
            advertised_scale: conn.advertised_scale,
            dst_mac: conn.peer.hop.mac,
            seq: offsets.shift,
            ack: offsets.seq.wrapping_neg(),
            tsval: offsets.clock,
            tsecr: offsets.tsval.wrapping_neg(),
            acked: cl.acked,
            edge: cl.acked.wrapping_add(cl.room()),
            ..FlowEntry::held(conn.peer.key.reversed(), cx.seconds())
        };
        let mut server = FlowEntry {
            mode: server_mode,
            port: cl.hop.port,
            scale: conn.scale,
            advertised_scale: cl.advertised_scale(),
            dst_mac: cl.hop.mac,
            seq: offsets.seq,
            ack: offsets.shift.wrapping_neg(),
            tsval: offsets.tsval,
            tsecr: offsets.clock.wrapping_neg(),
            acked: self.acked.wrapping_add(offsets.shift),
            edge: conn.edge.wrapping_add(offsets.shift),
            ..FlowEntry::held(cl.key.reversed(), cx.seconds())
        };
        cl.note(self.progress(cl, phase), &mut client);
        if client_mode == Mode::Finishing {
            client.limit = self.response_end();
        }
        self.note(&mut server, cl.persistence.closes());
        if server_mode == Mode::Awaiting {
            server.framing = self.kept.end().wrapping_add(self.offsets.shift).into();
            server.facts |= if cl.persistence.closes() { CLOSES } else { 0 };
        }
        // Mostly nothing has changed but what the data path notes itself.
        let written = Some([&client, &server].map(|entry| (entry.mode, entry.limit, entry.framing, entry.facts)));
        if self.written == written {
            return;
        }
        self.written = written;
        let mut both = [(cl.key, client), (conn.peer.key, server)];
        // Another process may begin between the two: a client's entry never leads to one that does not lead back, and
        // says first that the next request is expected.
        if !std::mem::replace(&mut self.joined, true) {
            both.reverse();
        }
        both.into_iter().for_each(|(key, entry)| cx.push(Effect::Update { key, entry }));
    }
}
