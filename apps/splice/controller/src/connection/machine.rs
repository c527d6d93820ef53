//! The state machine of a connection: an event comes in, effects go out, and one state follows another.

use wire::segment::{ACK, FIN, RST, Segment};

use super::client::Client;
use super::context::Context;
use super::effect::Effect;
use super::entries::Phase;
use super::event::Event;
use super::release::ServerSide;
use super::state::{Connection, State};

impl Connection {
    /// Handles an event. What is to be done goes to the context, in order.
    pub fn handle(&mut self, event: Event, cx: &mut Context) {
        // A panic loses all connections, which are taken up again from their flow entries.
        let state = std::mem::replace(&mut self.state, State::Over);
        self.state = state.after(event, &mut self.client, cx);
    }

    /// Takes a segment of the client that came behind a gap, if all before it is known now: it is to be handled like
    /// one that has come behind `last`.
    pub fn next_in_order(&mut self, last: &Segment) -> Option<Vec<u8>> {
        match &self.state {
            State::Joined(_) | State::Reading(_) | State::Choosing(_) | State::Connecting(_) => {
                self.client.out_of_order.next(self.client.requests.bytes.next(), last)
            }
            _ => None,
        }
    }

    /// Counts what has been acknowledged of the request on its way, for a reader of the connection.
    pub fn refresh(&mut self, cx: &mut Context) {
        match &mut self.state {
            State::Joined(own) => self.client.count_exchange(Some(&mut own.upstream), cx),
            _ => self.client.count_exchange(None, cx),
        }
    }
}

impl State {
    fn after(mut self, event: Event, cl: &mut Client, cx: &mut Context) -> State {
        if let State::Joined(own) = self {
            if matches!(event, Event::Due) && own.is_left_alone(cl, cx) {
                return State::Joined(own);
            }
            self = own.catch_up(cl, cx);
            // Another state is that of an event to come.
            if matches!(self, State::Over) || (matches!(event, Event::Due) && !matches!(self, State::Joined(_))) {
                return self;
            }
        }
        match event {
            Event::Client(segment) => self.on_client(segment, cl, cx),
            Event::Server(segment) => self.on_server(segment, cl, cx),
            Event::ClientError => {
                // The own answers are short, and come again.
                if matches!(self, State::Joined(_)) {
                    cx.push(Effect::RelayError);
                }
                self
            }
            Event::ServerError(error) => self.on_server_error(error, cl, cx),
            Event::Due => self.on_due(cl, cx),
            Event::Selected(selection, tried) => match self {
                State::Choosing(own) => own.on_selected(selection, tried, cl, cx),
                other => other,
            },
            Event::Relayed { of_client } => match self {
                State::Joined(own) => own.on_relayed(of_client, cl, cx),
                other => other,
            },
            Event::TableFull => self.into_leftover().abandon(cl, cx),
            Event::Note => {
                cl.hold(cl.at_limit(), cx);
                self
            }
            Event::Replaced => self.into_leftover().over(cl, cx),
            Event::TakenUp { lost } => self.go_on(lost, cl, cx),
            Event::Reset => self.reset(cl, cx),
            Event::Kill => self.into_leftover().kill(cl, cx),
            Event::ServerDown => self.on_server_down(cl, cx),
            Event::Evict => self.evict(cl, cx),
        }
    }

    /// A connection that was taken up goes on, or ends where part of it is lost.
    fn go_on(mut self, lost: bool, cl: &mut Client, cx: &mut Context) -> State {
        if lost {
            return self.reset(cl, cx);
        }
        match self {
            State::Joined(own) if cl.is_finishing(&own.upstream) => return own.look_at_close(cl, cx),
            State::Joined(ref mut own) => own.update_entries(cl, cx),
            State::Reading(ref mut own) => match &mut own.upstream {
                Some(u) => u.update_entries(cl, Phase::Reading, cx),
                None if cl.done => return self.answer(0, cl, cx),
                None => cl.hold(cl.at_limit(), cx),
            },
            _ => {}
        }
        self
    }

    fn on_server_down(self, cl: &mut Client, cx: &mut Context) -> State {
        match self {
            State::Joined(own) => own.on_server_down(cl, cx),
            State::Connecting(own) => own.elsewhere(503, cl, cx),
            State::Reading(mut own) => {
                if let Some(u) = own.upstream.take() {
                    let end = u.response_end();
                    ServerSide::Attached(u).release(RST, cl, cx);
                    cl.next = end;
                    cl.hold(cl.at_limit(), cx);
                }
                State::Reading(own)
            }
            other => other,
        }
    }

    /// Ends a connection that is idle.
    fn evict(self, cl: &mut Client, cx: &mut Context) -> State {
        let mut state = match self {
            State::Joined(own) => {
                let left = own.leave_or_close(cl, cx);
                cl.send(cx, RST | ACK, cl.next, &[]);
                return left.over(cl, cx);
            }
            other => other,
        };
        if let State::Reading(own) = &mut state
            && let Some(u) = own.upstream.take()
        {
            let next = cl.requests.limit();
            cl.next = u.response_end();
            if let Some(u) = u.leave(next, false, cl, cx) {
                ServerSide::Attached(u).release(FIN, cl, cx);
            }
        }
        state.send(RST | ACK, cl.next, cl, cx);
        state.into_leftover().over(cl, cx)
    }
}
