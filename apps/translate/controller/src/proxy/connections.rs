//! Connections from their answer to their end.

use std::net::IpAddr;
use std::time::Duration;

use wire::flow_key::FlowKey;

use super::Proxy;
use super::outgoing::Outgoing;
use super::records::Said;
use super::relaying::Relay;
use super::requests::client_of;
use super::world::{Effect, Ended, Ending, World};
use crate::http::answer;
use crate::http::refusal::Refusal;
use crate::http::request::Request;
use crate::http::target::Source;
use crate::settings::Delivery;
use crate::tables::{NO_STREAM, Next, Notice, Order, Over, Totals};

/// A connection that was opened.
pub(super) struct Connection {
    pub(super) key: FlowKey,
    pub(super) generation: u32,
    pub(super) client: IpAddr,
    pub(super) since: Duration,
    pub(super) outgoing: Outgoing,
    pub(super) state: State,
    /// Of its request, as far as it was read.
    pub(super) said: Said,
    pub(super) status: u16,
    /// Why it ends, where that is known already.
    pub(super) ending: Option<Ending>,
    /// The stream that it has, or had.
    pub(super) stream: Option<String>,
}

/// How far a connection is.
#[derive(Debug)]
pub(super) enum State {
    /// All of its answer is there, and goes out.
    Answers,
    /// The first packet of a stream is awaited.
    Waits(u32),
    /// It has a stream.
    Plays(u32),
    /// It has the answer of the host's own HTTP server.
    Relays(Relay),
}

/// What a request is answered with.
pub(super) enum Answer {
    /// A refusal.
    Refusal(Refusal),
    /// A document, with its head.
    Document(Vec<u8>),
    /// A stream.
    Stream(Source),
    /// What the host's own HTTP server says; what came behind the request's head.
    Relay(Vec<u8>),
}

impl<W: World> Proxy<W> {
    /// Opens a connection, and answers its request.
    pub(super) fn open(&mut self, key: FlowKey, mss: u16, request: Option<Box<Request>>, mut answer: Answer) {
        let Some(number) = self.new_connection() else {
            self.counts.reset += 1;
            return self.effect(Effect::Order(0, 0, Order::Refuse(key)));
        };
        let (mut stream, mut delivery) = (None, Delivery::default());
        if let Answer::Stream(source) = &answer {
            match self.stream_for(source) {
                Ok(found) => {
                    delivery = self.streams[&found].delivery.clone();
                    stream = Some(found);
                }
                Err(refusal) => answer = Answer::Refusal(refusal),
            }
        }
        self.generation = self.generation.wrapping_add(1);
        let (generation, client) = (self.generation, client_of(&key));
        self.count_client(client);
        self.by_key.insert(key, number);
        let Delivery { fill, rate, policy, .. } = delivery;
        let order = Order::Open { key, stream: stream.unwrap_or(NO_STREAM), fill, rate, policy };
        self.effect(Effect::Order(number, generation, order));
        let connection = Connection {
            key,
            generation,
            client,
            since: self.now,
            outgoing: Outgoing::new(mss),
            state: State::Answers,
            said: request.as_deref().map(Said::of).unwrap_or_default(),
            status: 200,
            ending: None,
            stream: None,
        };
        self.connections.insert(number, connection);
        match (answer, stream) {
            (_, Some(stream)) => self.view(number, stream),
            (Answer::Refusal(refusal), _) => self.refuse(number, refusal),
            (Answer::Document(bytes), _) => self.answer(number, &bytes),
            (Answer::Relay(rest), _) => request.iter().for_each(|own| self.begin_relay(number, own, &rest)),
            // It has a number, or was refused.
            (Answer::Stream(_), None) => {}
        }
    }

    /// Answers with a document, and then the connection ends.
    fn answer(&mut self, number: u32, bytes: &[u8]) {
        let Some(own) = self.connections.get_mut(&number) else { return };
        own.state = State::Answers;
        own.outgoing.push(bytes);
        if own.outgoing.finish(Next::Close) {
            return self.flush(number);
        }
        let generation = own.generation;
        self.effect(Effect::Order(number, generation, Order::Close));
    }

    /// Answers with a refusal.
    pub(super) fn refuse(&mut self, number: u32, refusal: Refusal) {
        self.counts.refused += 1;
        let Some(own) = self.connections.get_mut(&number) else { return };
        own.status = refusal.status;
        let is_head = own.said.is_head;
        self.answer(number, &answer::refusal(refusal, is_head));
    }

    /// Sends what may be sent.
    pub(super) fn flush(&mut self, number: u32) {
        let Some(own) = self.connections.get_mut(&number) else { return };
        while let Some((index, next, bytes)) = own.outgoing.next() {
            self.effects.push_back(Effect::Document { connection: number, index, next, bytes });
        }
    }

    /// The program says something about a connection.
    pub fn notice(&mut self, number: u32, generation: u32, notice: Notice) {
        if matches!(notice, Notice::Ended(_)) && self.left.get(&number) == Some(&generation) {
            self.left.remove(&number);
            return self.free_connections.push_back(number);
        }
        let Some(own) = self.connections.get_mut(&number).filter(|own| own.generation == generation) else { return };
        match notice {
            Notice::Acked(documents) => {
                own.outgoing.acked(documents);
                self.flush(number);
                self.read_on(number);
            }
            Notice::HalfClosed => match own.state {
                // Documents are sent to their end: some clients say at once that they ask nothing more.
                State::Answers | State::Relays(_) => {}
                State::Waits(_) | State::Plays(_) => self.close(number, Ending::Client),
            },
            Notice::Ended(over) => self.ended(number, over),
        }
    }

    /// Ends a connection: a stream at once, documents behind what was sent.
    pub(super) fn close(&mut self, number: u32, ending: Ending) {
        let Some(own) = self.connections.get_mut(&number) else { return };
        if own.ending.replace(ending).is_some() {
            return;
        }
        let generation = own.generation;
        let order = match std::mem::replace(&mut own.state, State::Answers) {
            // Its end is on its way.
            State::Answers => return,
            State::Waits(stream) | State::Plays(stream) => {
                self.leave(stream, number);
                Order::Close
            }
            // The client must not take what it has for all.
            State::Relays(_) => {
                self.effect(Effect::Disconnect(number));
                Order::Abort
            }
        };
        self.effect(Effect::Order(number, generation, order));
    }

    /// Ends a connection for an operator, by its generation; whether there is one.
    pub fn kick(&mut self, id: u32) -> bool {
        let Some((number, _)) = self.connections.iter().find(|(_, own)| own.generation == id) else { return false };
        let number = *number;
        self.close(number, Ending::Kicked);
        self.effect(Effect::Order(number, id, Order::Abort));
        true
    }

    /// A connection is over.
    fn ended(&mut self, number: u32, over: Over) {
        let Some(own) = self.connections.remove(&number) else { return };
        self.touch(number);
        match own.state {
            State::Waits(stream) | State::Plays(stream) => self.leave(stream, number),
            State::Relays(_) => self.effect(Effect::Disconnect(number)),
            State::Answers => {}
        }
        if self.by_key.get(&own.key) == Some(&number) {
            self.by_key.remove(&own.key);
        }
        self.uncount_client(own.client);
        self.free_connections.push_back(number);
        let found = match over {
            Over::Closed if own.outgoing.is_done() => Ending::Complete,
            Over::Closed | Over::Reset | Over::NoFlow | Over::Aborted => Ending::Client,
            Over::TimedOut => Ending::Vanished,
            Over::Lost => Ending::Behind,
        };
        // What ends it in order ends it so only where nothing was in the way.
        let ending = own.ending.unwrap_or(found);
        let ended = self.logged(number, &own, ending);
        self.effect(Effect::Log(Box::new(ended)));
    }
    /// What the log has of a connection.
    pub(super) fn logged(&mut self, number: u32, own: &Connection, ending: Ending) -> Ended {
        let Totals { packets, bytes, again, nulls, fresh, skipped, srtt_us, .. } = self.world.totals(number);
        Ended {
            id: own.generation,
            client: own.client.to_string(),
            request: own.said.line.clone(),
            stream: own.stream.clone(),
            status: own.status,
            duration_ms: super::state::ms(self.now.saturating_sub(own.since)),
            packets,
            bytes,
            again,
            nulls,
            fresh,
            skipped,
            round_trip_us: srtt_us,
            ended: ending.name(),
            user_agent: own.said.agent.clone(),
            referer: own.said.referer.clone(),
        }
    }
}
