//! Connections from their first answer to their end.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::Duration;

use wire::flow_key::FlowKey;

use super::Proxy;
use super::accounts::Answered;
use super::input::Input;
use super::outgoing::Outgoing;
use super::records::Said;
use super::relaying::Relay;
use super::requests::client_of;
use super::tunnels::Tunnel;
use super::world::{Effect, Ending, World};
use crate::http::answer::{self, Document};
use crate::http::refusal::{NO_TLS, Refusal, TLS_DOWN};
use crate::http::request::Request;
use crate::http::target::Source;
use crate::settings::Delivery;
use crate::tables::{NO_STREAM, Next, Notice, Order, Over, Totals};

/// A connection that was opened.
pub(super) struct Connection {
    pub(super) key: FlowKey,
    pub(super) generation: u32,
    pub(super) client: IpAddr,
    /// When its request came; while none is there, since when.
    pub(super) since: Duration,
    pub(super) input: Input,
    pub(super) outgoing: Outgoing,
    pub(super) state: State,
    /// Requests so far.
    pub(super) requests: u32,
    /// Whether another one may follow.
    pub(super) keeps: bool,
    /// Since when its client sends nothing more.
    pub(super) half_closed: Option<Duration>,
    /// Whether there is a request, or something that is none, whose answer is not whole yet, or ends the connection.
    pub(super) asked: bool,
    /// Of that, as far as it was read.
    pub(super) said: Said,
    pub(super) status: u16,
    /// Why it ends, where that is known already.
    pub(super) ending: Option<Ending>,
    /// The stream that it has, or had.
    pub(super) stream: Option<String>,
    /// Answers in front of the present one that are on their way.
    pub(super) answered: VecDeque<Answered>,
    /// What the log has of it.
    pub(super) logged: Totals,
}

/// How far a connection is.
#[derive(Debug)]
pub(super) enum State {
    /// Another request is awaited; answers may be on their way.
    Reads,
    /// All of its last answer is there, and goes out.
    Answers,
    /// The first packet of a stream is awaited.
    Waits(u32),
    /// It has a stream.
    Plays(u32),
    /// It has the answer of the host's own HTTP server.
    Relays(Box<Relay>),
    /// It is one with a server of the host: TLS, WebSocket.
    Tunnels(Tunnel),
}

/// What a request is answered with.
pub(super) enum Answer {
    /// A refusal.
    Refusal(Refusal),
    /// A document.
    Document(Document),
    /// The head of a stream.
    Head,
    /// A stream.
    Stream(Source),
    /// What the host's own HTTP server says.
    Relay,
    /// What the host's own TLS server says.
    Tunnel,
}

/// Connections of all that there may be, in quarters, from which on each answer ends its connection.
const CROWD: usize = 3;

impl<W: World> Proxy<W> {
    /// Opens a connection, and answers its first request.
    pub(super) fn open(
        &mut self,
        key: FlowKey,
        mss: u16,
        input: Input,
        request: Option<Box<Request>>,
        mut answer: Answer,
    ) {
        let Some(number) = self.new_connection() else {
            self.counts.reset += 1;
            return self.effect(Effect::Order(0, 0, Order::Refuse(key)));
        };
        let stream = self.stream_of(&mut answer);
        self.generation = self.generation.wrapping_add(1);
        let (generation, client) = (self.generation, client_of(&key));
        self.count_client(client);
        self.by_key.insert(key, number);
        let (stream, Delivery { fill, rate, policy, .. }) = stream.unwrap_or((NO_STREAM, Delivery::default()));
        self.effect(Effect::Order(number, generation, Order::Open { key, stream, fill, rate, policy }));
        let connection = Connection {
            key,
            generation,
            client,
            since: self.now,
            input,
            outgoing: Outgoing::new(mss),
            state: State::Answers,
            requests: 0,
            keeps: false,
            half_closed: None,
            asked: true,
            said: Said::default(),
            status: 200,
            ending: None,
            stream: None,
            answered: VecDeque::new(),
            logged: Totals::default(),
        };
        self.connections.insert(number, connection);
        self.reply(number, request, answer, Some(stream).filter(|stream| *stream != NO_STREAM));
        self.proceed(number);
    }

    /// The stream that an answer is, if it is one; where it can't be had, it becomes the refusal.
    fn stream_of(&mut self, answer: &mut Answer) -> Option<(u32, Delivery)> {
        let Answer::Stream(source) = &*answer else { return None };
        match self.stream_for(source) {
            Ok(stream) => Some((stream, self.streams.get(&stream)?.delivery.clone())),
            Err(refusal) => {
                *answer = Answer::Refusal(refusal);
                None
            }
        }
    }

    /// Answers another request of a connection.
    pub(super) fn answer_next(&mut self, number: u32, request: Request, mut answer: Answer) {
        let stream = self.stream_of(&mut answer);
        if let (Some((stream, delivery)), Some(own)) = (&stream, self.connections.get(&number)) {
            let Delivery { fill, rate, policy, .. } = *delivery;
            let order = Order::Stream { stream: *stream, fill, rate, policy };
            let generation = own.generation;
            self.effect(Effect::Order(number, generation, order));
        }
        self.reply(number, Some(Box::new(request)), answer, stream.map(|(stream, _)| stream));
    }

    /// Gives a request its answer; `stream`: the one that it is.
    fn reply(&mut self, number: u32, request: Option<Box<Request>>, answer: Answer, stream: Option<u32>) {
        let crowd = self.connections.len() * 4 > self.settings.limits.connections * CROWD;
        let (now, most) = (self.now, self.settings.limits.requests);
        let Some(own) = self.connections.get_mut(&number) else { return };
        own.requests += 1;
        let passes = matches!(answer, Answer::Relay);
        own.keeps = request.as_deref().is_some_and(|request| {
            // A body that nobody reads would be taken for a request.
            request.keeps_alive && !crowd && own.requests < most && (passes || !request.has_body())
        });
        (own.asked, own.since, own.status, own.stream) = (true, now, 200, None);
        own.said = request.as_deref().map(Said::of).unwrap_or_default();
        match (answer, stream) {
            (_, Some(stream)) => self.view(number, stream),
            (Answer::Refusal(refusal), _) => self.refuse(number, refusal),
            (Answer::Document(document), _) => self.document(number, &document),
            (Answer::Head, _) => {
                let head = answer::stream(own.keeps);
                self.answer(number, &head);
            }
            (Answer::Relay, _) => request.iter().for_each(|request| self.begin_relay(number, request)),
            (Answer::Tunnel, _) => self.begin_tunnel(number),
            // It has a number, or was refused.
            (Answer::Stream(_), None) => {}
        }
    }

    fn document(&mut self, number: u32, document: &Document) {
        let Some(own) = self.connections.get_mut(&number) else { return };
        own.status = document.status;
        let bytes = document.bytes(own.said.is_head, own.keeps);
        self.answer(number, &bytes);
    }

    /// Answers with all that there is.
    fn answer(&mut self, number: u32, bytes: &[u8]) {
        let Some(own) = self.connections.get_mut(&number) else { return };
        own.outgoing.push(bytes);
        self.answered(number);
    }

    /// All of an answer is there: the connection ends behind it, or goes on with the next request.
    pub(super) fn answered(&mut self, number: u32) {
        let now = self.now;
        let Some(own) = self.connections.get_mut(&number) else { return };
        if !own.keeps {
            return self.finish(number);
        }
        let said = std::mem::take(&mut own.said);
        own.answered.push_back(Answered { said, status: own.status, since: own.since, end: own.outgoing.pushed() });
        (own.state, own.asked, own.since) = (State::Reads, false, now);
        self.flush(number);
    }

    /// Ends a connection in order, behind what there is.
    pub(super) fn finish(&mut self, number: u32) {
        let Some(own) = self.connections.get_mut(&number) else { return };
        own.state = State::Answers;
        if own.outgoing.finish(Next::Close) {
            return self.flush(number);
        }
        let generation = own.generation;
        self.effect(Effect::Order(number, generation, Order::Close));
    }

    /// Answers with a refusal.
    pub(super) fn refuse(&mut self, number: u32, refusal: Refusal) {
        self.counts.refused += 1;
        if [NO_TLS, TLS_DOWN].contains(&refusal) {
            let Some(own) = self.connections.get_mut(&number) else { return };
            own.status = refusal.status;
            return self.answer(number, &answer::alert(refusal));
        }
        let challenges = self.challenges(number, refusal);
        self.document(number, &answer::refusal(refusal, &challenges));
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
        let now = self.now;
        let Some(own) = self.connections.get_mut(&number).filter(|own| own.generation == generation) else { return };
        match notice {
            Notice::Acked(documents) => {
                own.outgoing.acked(documents);
                self.log_delivered(number);
                self.flush(number);
                self.read_on(number);
                self.proceed(number);
            }
            Notice::HalfClosed => {
                own.half_closed = Some(now);
                match own.state {
                    // Documents are sent to their end: some clients say at once that they ask nothing more. What came
                    // before that may come later.
                    State::Reads | State::Answers | State::Relays(_) => {}
                    State::Waits(_) | State::Plays(_) => self.close(number, Ending::Client),
                    State::Tunnels(_) => self.tunnel_half_closed(number),
                }
            }
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
            State::Reads => return self.finish(number),
            State::Waits(stream) | State::Plays(stream) => {
                self.leave(stream, number);
                Order::Close
            }
            // The client must not take what it has for all.
            State::Relays(_) | State::Tunnels(_) => {
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
            State::Relays(_) | State::Tunnels(_) => self.effect(Effect::Disconnect(number)),
            State::Reads | State::Answers => {}
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
        self.log_ended(number, own, found);
    }
}
