//! Millrace ends a connection by itself: with an answer of its own, with resets, or because an operator wants it.

use wire::segment::{ACK, FIN, PSH, RST, Segment};
use wire::seq::before;

use super::client::{Client, Progress};
use super::context::Context;
use super::effect::Effect;
use super::exchange::Ending;
use super::release::ServerSide;
use super::send::RESEND;
use super::state::{Answering, Killing, Leftover, Resetting, State};
use super::stream::Stream;
use crate::tables::flow_entry::Mode;

/// How long an answered connection waits for the client's FIN, and a reset one for the client's segments, in
/// nanoseconds.
pub const LINGER: u64 = 3_000_000_000;
/// Times that kept bytes or an answer are sent.
pub const MOST_TRIES: u32 = 8;

/// The head and the body of an answer with a status.
fn text_of(status: u16) -> (String, String) {
    let reason = match status {
        400 => "Bad Request",
        408 => "Request Timeout",
        413 => "Content Too Large",
        431 => "Request Header Fields Too Large",
        503 => "Service Unavailable",
        _ => "Gateway Timeout",
    };
    let body = format!("{status} {reason}\n");
    let head = format!(
        "HTTP/1.1 {status} {reason}\r\nContent-Type: text/plain\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    (head, body)
}

impl State {
    /// Answers the client without a server, and closes.
    pub fn answer(self, status: u16, cl: &mut Client, cx: &mut Context) -> State {
        self.into_leftover().answer(status, cl, cx)
    }

    /// Ends the client's connection with a reset. What the client expects it knows itself (RFC 5961 section 3.2): it
    /// takes one of these, or asks back because one lies in its window. They may be lost, and a client that waits for a
    /// response says nothing: so for a while they come again, and each of its segments is answered so.
    pub fn reset(self, cl: &mut Client, cx: &mut Context) -> State {
        let end = self.upstream().map_or(cl.next, |u| u.response_end());
        let left = self.into_leftover();
        left.server.release(RST, cl, cx);
        cl.hold(Progress { answers: true, is_head: left.is_head, ..cl.at_limit() }, cx);
        Resetting { end, tries: 0, resend: 0, deadline: cx.now + LINGER }.send(cl, cx)
    }
}

impl Resetting {
    /// Sends resets, once more.
    pub fn send(mut self, cl: &mut Client, cx: &mut Context) -> State {
        cl.send(cx, RST, cl.acked, &[]);
        cl.send(cx, RST, self.end, &[]);
        self.tries += 1;
        self.resend = cx.now + (RESEND << self.tries.min(5));
        State::Resetting(self)
    }
}

impl Leftover {
    /// Answers the client without a server, and closes. With `status` 0 it only closes.
    pub fn answer(mut self, status: u16, cl: &mut Client, cx: &mut Context) -> State {
        let bytes = if status == 0 {
            cl.break_exchange(Ending::Complete, self.server.serving(), cx);
            Vec::new()
        } else {
            let (head, body) = text_of(status);
            let body = if self.is_head { "" } else { &body };
            let bytes = [head.as_bytes(), body.as_bytes()].concat();
            cl.answer_exchange(status, (bytes.len(), body.len()), self.began, cx);
            bytes
        };
        self.server.release(RST, cl, cx);
        let mut own = Answering { bytes, tries: 0, arrived: false, is_head: self.is_head, deadline: 0 };
        cl.hold(own.progress(cl), cx);
        own.send(cl, cx);
        State::Answering(own)
    }

    /// Forgets the connection.
    pub fn over(mut self, cl: &mut Client, cx: &mut Context) -> State {
        cl.break_exchange(Ending::Client, self.server.serving(), cx);
        self.server.release(RST, cl, cx);
        cx.push(Effect::Remove(cl.key));
        State::Over
    }

    /// Forgets the connection, whose flow entries are lost or others'.
    pub fn abandon(mut self, cl: &mut Client, cx: &mut Context) -> State {
        cl.break_exchange(Ending::Client, self.server.serving(), cx);
        let peer = match self.server {
            ServerSide::None => return State::Over,
            ServerSide::Connecting(own) => own.peer,
            ServerSide::Attached(u) | ServerSide::Serving(u) => u.conn.peer,
        };
        cx.push(Effect::Unbind { key: peer.key, server: peer.server });
        State::Over
    }

    /// Ends the connection on both sides at once.
    pub fn kill(mut self, cl: &mut Client, cx: &mut Context) -> State {
        cl.break_exchange(Ending::Killed, self.server.serving(), cx);
        // What the client takes its reset for is what it expects next, which is not known while data is under way.
        let passes = cx.entry(&cl.key).is_some_and(|entry| entry.mode != Mode::Held);
        cl.hear(cx);
        cl.next = if passes { cl.acked } else { cl.next };
        self.server.release(RST, cl, cx);
        cl.hold(Progress { answers: true, is_head: self.is_head, ..cl.at_limit() }, cx);
        Killing { tries: 0, deadline: 0 }.send(cl, cx)
    }
}

impl Answering {
    /// An answer is known to no other process, but for its FIN.
    pub fn progress(&self, cl: &Client) -> Progress {
        Progress { answers: !self.bytes.is_empty(), is_head: self.is_head, ..cl.at_limit() }
    }

    /// Sends the answer, once more.
    pub fn send(&mut self, cl: &mut Client, cx: &mut Context) {
        self.tries += 1;
        self.deadline = cx.now + (RESEND << self.tries.min(5));
        cl.send(cx, FIN | PSH, cl.next, &self.bytes);
    }

    /// An acknowledgement of the answer, or the client's FIN behind it.
    pub fn on_client(mut self, segment: &Segment, cl: &mut Client, cx: &mut Context) -> State {
        let end = cl.next.wrapping_add(self.bytes.len() as u32 + 1);
        self.arrived |= !before(cl.acked, end);
        // Data that is not wanted any more is taken all the same, else a reset would destroy the answer before it is
        // read.
        let expected = cl.requests.bytes.next();
        if !before(segment.end(), expected) && !before(expected, segment.seq) {
            cl.requests = Stream::new(segment.end(), 65536);
        }
        if segment.space() > 0 {
            cl.send(cx, 0, end, &[]);
        }
        if self.arrived && (segment.has(FIN) || cl.done) {
            return Leftover::alone(self.is_head).over(cl, cx);
        }
        State::Answering(self)
    }

    /// The answer is sent again, or the client's FIN has not come.
    pub fn on_due(mut self, cl: &mut Client, cx: &mut Context) -> State {
        if self.tries >= MOST_TRIES {
            return Leftover::alone(self.is_head).over(cl, cx);
        }
        if self.arrived {
            // Once more, for the client's FIN.
            (self.tries, self.deadline) = (MOST_TRIES, cx.now + LINGER);
        } else {
            self.send(cl, cx);
        }
        State::Answering(self)
    }
}

impl Killing {
    /// Sends the client a reset, and a segment that it answers if it did not take that.
    pub fn send(mut self, cl: &mut Client, cx: &mut Context) -> State {
        self.tries += 1;
        if self.tries > MOST_TRIES {
            return Leftover::alone(false).over(cl, cx);
        }
        self.deadline = cx.now + (RESEND << self.tries.min(5));
        cl.send(cx, RST, cl.next, &[]);
        cl.send(cx, 0, cl.next.wrapping_sub(1), &[]);
        State::Killing(self)
    }

    /// The client says what it expects, or that it is gone.
    pub fn on_client(self, segment: &Segment, cl: &mut Client, cx: &mut Context) -> State {
        if segment.has(RST) {
            return Leftover::alone(false).over(cl, cx);
        }
        if segment.has(ACK) {
            cl.send(cx, RST, segment.ack, &[]);
            // One that is lost comes again with the next try; a client that took it says nothing more, or resets.
            cl.next = segment.ack;
        }
        State::Killing(self)
    }
}
