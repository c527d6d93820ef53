//! Clients that want one response and the end of the connection with it (`Connection: close`). That is a matter between
//! them and Millrace (RFC 9110 section 7.6.1), and the server is not told: blanks stand in the word's place, so that no
//! number moves. Its connection stays for others, and it is Millrace that closes behind the response.
//!
//! The segment with the response's last byte comes to the controller, which adds a FIN. From then on what acknowledges
//! all of the response comes here, too ([`Mode::Finishing`](crate::tables::flow_entry::Mode::Finishing)), for it may
//! acknowledge that FIN, which is none of the server's; with that the server is left to others. Where the server closes
//! nevertheless, or the client does so before, the FIN of one goes to the other.

use wire::segment::{FIN, Segment, TcpOptions};
use wire::seq::before;

use super::answering::LINGER;
use super::client::Client;
use super::context::Context;
use super::effect::Effect;
use super::send::window;
use super::state::{Answering, Joined, State};
use super::upstream::Upstream;
use crate::tables::flow_entry::Mode;

impl Upstream {
    /// Sends the client the end of a response with a FIN. The data path does not rewrite that: the segment may come
    /// again, and the connection be another client's before it has passed, whose stream begins just where that FIN is.
    pub fn finish(&self, part: Segment, cl: &Client, cx: &mut Context) {
        let (conn, offsets) = (&self.conn, &self.offsets);
        let times = part.options.times.filter(|_| cl.options.times);
        let segment = Segment {
            dst_mac: cl.hop.mac,
            src_mac: cl.hop.own_mac,
            flow_key: cl.key.reversed(),
            seq: part.seq.wrapping_add(offsets.seq),
            ack: part.ack.wrapping_sub(offsets.shift),
            flags: part.flags | FIN,
            window: window(part.window, conn.scale, cl.advertised_scale()),
            options: TcpOptions {
                times: times
                    .map(|(tsval, tsecr)| (tsval.wrapping_add(offsets.tsval), tsecr.wrapping_sub(offsets.clock))),
                ..TcpOptions::default()
            },
            payload: part.payload,
        };
        cx.send(cl.hop.port, segment.frame());
    }
}

impl Joined {
    /// A segment of the client that has been sent all of the response.
    pub fn on_finishing_client(self, segment: &Segment, cl: &mut Client, cx: &mut Context) -> State {
        let (end, next) = (self.upstream.response_end(), cl.requests.limit());
        if before(cl.acked, end) || !self.upstream.has_all() || !cl.requests.is_done() {
            // What it acknowledges the server must know. Its FIN comes again.
            let ack = if before(end, segment.ack) { end } else { segment.ack };
            let seq = if segment.payload.is_empty() { segment.seq } else { next };
            let part = Segment { seq, ack, payload: &[], flags: segment.flags & !FIN, ..segment.clone() };
            cx.push(Effect::RelayPart(part.frame()));
            return State::Joined(self);
        }
        self.wait_for_fin(cl, cx).on_client(segment, cl, cx)
    }

    /// The client has all of the response: the server is left to others, and the client's FIN is waited for.
    fn wait_for_fin(mut self, cl: &mut Client, cx: &mut Context) -> Answering {
        let arrived = before(self.upstream.response_end(), cl.acked);
        cl.complete_exchange(&mut self.upstream, cx);
        let left = self.leave_or_close(cl, cx);
        let (tries, deadline) = (arrived.into(), cx.now + LINGER);
        let mut own = Answering { bytes: Vec::new(), tries, arrived, is_head: left.is_head, deadline };
        cl.hold(own.progress(cl), cx);
        if !arrived {
            own.send(cl, cx);
        }
        own
    }

    /// Looks what the data path knows of the end of a connection whose client has been sent all of the response: that
    /// the client has acknowledged the FIN, and that its own FIN has been answered. What is still to come is the
    /// controller's from here on.
    pub fn look_at_close(mut self, cl: &mut Client, cx: &mut Context) -> State {
        let server = self.upstream.conn.peer.key;
        let Some(entry) = cx.entry(&cl.key).filter(|entry| entry.to == server.reversed()) else {
            // The client has begun anew at the same flow key, which is that connection's from here on.
            self.leave_or_close(cl, cx);
            return State::Over;
        };
        if !before(self.upstream.response_end(), entry.acked) {
            self.update_entries(cl, cx);
            return State::Joined(self);
        }
        // The server is to hear that the client has got its clock. The data path has noted that, if nobody has written
        // the entries since then, and if there was one.
        let is_noted = cx.entry(&server).is_some_and(|own| own.mode == Mode::Answered);
        if cl.options.times && is_noted && entry.framing != 0 {
            let times = ((entry.framing >> 32) as u32, entry.framing as u32);
            cl.hear_clock(times, Some(&mut self.upstream), cx.now);
        }
        if entry.ended & 1 != 0 {
            return self.leave_or_close(cl, cx).over(cl, cx);
        }
        cl.hear(cx);
        State::Answering(self.wait_for_fin(cl, cx))
    }
}
