//! Connections as operators see them, and the end of them by command.

use serde::{Deserialize, Serialize};

use super::block::{Mode, are_over, before};
use super::connection::{Answer, Connection, State};
use super::exchange::Ending;
use super::path::DataPath;
use super::read::text_of;
use super::segment::{ACK, RST, Segment};
use super::splicer::Splicer;
use super::times::MOST_TRIES;
use super::turn::{RESEND, Turn};

/// Sessions that are listed at once at most; who wants more asks again for those behind the last one.
pub const MOST: usize = 1000;

/// A client's connection. Times are in milliseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    /// By which it is told apart, as long as the instance runs.
    pub id: u64,
    /// The client's address and port.
    pub client: String,
    /// The virtual address and port.
    pub address: String,
    /// The service; none if the configuration has it no more.
    pub service: Option<String>,
    /// Pool and name of the server that it is connected to.
    pub server: Option<String>,
    /// `idle`: between requests; `asking`: a request is on its way; `connecting`: to a server; `serving`; `answering`: by Millrace
    /// itself; `ending`: by command; `closed`: by both sides, what comes late still passes.
    pub state: String,
    /// What becomes of the client's segments, and of the server's: `held`, `limited`, `open`, `closing`.
    pub modes: [Option<String>; 2],
    /// Since it began.
    pub age_ms: u64,
    /// Since the last segment that passed, to the second.
    pub idle_ms: u64,
    /// Bytes of requests that servers have acknowledged.
    pub up: u64,
    /// Bytes of responses that the client has acknowledged.
    pub down: u64,
    /// Requests so far.
    pub requests: u64,
    /// The one on its way.
    pub request: Option<Asked>,
}

/// A request on its way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    /// The method.
    pub method: String,
    /// The host.
    pub host: String,
    /// The path, without the query.
    pub path: String,
    /// The status of the response, once it is known.
    pub status: Option<u16>,
    /// Since its first byte.
    pub age_ms: u64,
}

/// Which connections are meant: all that fit everything that is said.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Filter {
    /// These.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ids: Vec<u64>,
    /// Of this service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// Of this server: its pool and name, with `/` between them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// Of this client: an address, or an address and port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// Behind this one.
    #[serde(default)]
    pub after: u64,
    /// So many at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
}

impl Filter {
    /// Whether it leaves anything out.
    pub fn is_narrow(&self) -> bool {
        !self.ids.is_empty() || self.service.is_some() || self.server.is_some() || self.client.is_some()
    }
}

/// What is listed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listed {
    /// In the order of their ids.
    pub sessions: Vec<Session>,
    /// How many connections there are that fit.
    pub fit: usize,
    /// How many there are.
    pub all: usize,
}

impl<P: DataPath> Splicer<P> {
    /// The ids of the connections that fit, in order, without regard to the limit.
    pub(super) fn fitting(&self, filter: &Filter) -> Vec<u64> {
        let client = filter.client.as_deref().map(|text| match text.parse() {
            Ok(address) => (Some(super::read::mapped(address)), String::new()),
            Err(_) => (None, text.to_owned()),
        });
        let fits = |id: &u64, c: &Connection| {
            let by_client = client.as_ref().is_none_or(|(address, text)| match address {
                Some(address) => c.client.src == *address,
                None => text_of(c.client.src, c.client.src_port) == *text,
            });
            let service = || self.cluster.settings.services.get(c.service).map(|own| &own.name);
            let server = || c.upstream.as_ref().map(|u| self.cluster.name(u.server));
            *id > filter.after
                && (filter.ids.is_empty() || filter.ids.contains(id))
                && by_client
                && (filter.service.is_none() || filter.service.as_ref() == service())
                && (filter.server.is_none() || filter.server == server())
        };
        let mut ids: Vec<u64> = self.connections.iter().filter(|(id, c)| fits(id, c)).map(|(id, _)| *id).collect();
        ids.sort_unstable();
        ids
    }

    /// Those that fit, the first of them as they are now.
    pub fn sessions(&mut self, filter: &Filter) -> Listed {
        let mut ids = self.fitting(filter);
        let (fit, all) = (ids.len(), self.len());
        ids.truncate(filter.limit.unwrap_or(MOST).min(MOST));
        let mut sessions = Vec::with_capacity(ids.len());
        for id in ids {
            self.read(id, |turn| sessions.push(turn.session()));
        }
        Listed { sessions, fit, all }
    }

    /// Ends those that fit with resets to both sides; how many.
    pub fn kill(&mut self, filter: &Filter) -> usize {
        let ids = self.fitting(filter);
        ids.iter().for_each(|id| self.with(*id, |turn| turn.kill()));
        ids.len()
    }

    /// Ends what a server does, or has it done by others.
    pub(super) fn leave_server(&mut self, server: usize) {
        let of_it = |c: &Connection| c.upstream.as_ref().is_some_and(|u| u.server == server);
        let ids: Vec<u64> = self.connections.iter().filter(|(_, c)| of_it(c)).map(|(id, _)| *id).collect();
        ids.into_iter().for_each(|id| self.with(id, |turn| turn.leave_server()));
    }
}

impl<P: DataPath> Turn<'_, P> {
    fn session(&mut self) -> Session {
        self.count_exchange();
        let own_block = self.path.block(&self.c.client);
        let server_block = self.c.upstream.as_ref().and_then(|u| self.path.block(&u.ends));
        let c = &*self.c;
        let milliseconds = |since: u64| self.now.saturating_sub(since) / 1_000_000;
        let blocks = [own_block, server_block];
        let seen = blocks.iter().flatten().map(|block| u64::from(block.seen)).max().unwrap_or(0);
        let closed = are_over([0, 1].map(|side| blocks[side].as_ref().map_or(0, |block| block.ended)));
        let state = match c.state {
            State::Asking if c.requests.bytes.ready().is_empty() => "idle",
            State::Asking => "asking",
            State::Connecting => "connecting",
            State::Serving if closed => "closed",
            State::Serving if c.exchange.is_none() => "idle",
            State::Serving => "serving",
            State::Answering if c.answer.as_ref().is_some_and(|answer| answer.resets) => "ending",
            State::Answering => "answering",
        };
        let mode = |block: &super::block::Block| match block.mode {
            Mode::Held => "held".to_owned(),
            Mode::Limited => "limited".to_owned(),
            Mode::Open => "open".to_owned(),
            Mode::Closing => "closing".to_owned(),
            Mode::Finishing => "finishing".to_owned(),
        };
        let request = c.exchange.as_ref().zip(c.request.as_ref()).map(|(exchange, request)| Asked {
            method: request.method.clone(),
            host: request.host.clone(),
            path: request.path.clone(),
            status: exchange.status,
            age_ms: milliseconds(exchange.began),
        });
        let [up, down] = c.exchange.as_ref().map_or([0, 0], |own| [own.up.bytes, own.down.bytes]);
        Session {
            id: self.id,
            client: text_of(c.client.src, c.client.src_port),
            address: text_of(c.client.dst, c.client.dst_port),
            service: self.cluster.settings.services.get(c.service).map(|own| own.name.clone()),
            server: c.upstream.as_ref().map(|u| self.cluster.name(u.server)),
            state: state.into(),
            modes: [0, 1].map(|side| blocks[side].as_ref().map(mode)),
            age_ms: milliseconds(c.opened),
            idle_ms: milliseconds(seen * 1_000_000_000),
            up: c.up + up,
            down: c.down + down,
            requests: c.exchanges,
            request,
        }
    }

    /// Ends the connection on both sides at once.
    fn kill(&mut self) {
        self.break_exchange(Ending::Killed);
        // What the client takes its reset for is what it expects next, which nobody knows while data is under way.
        let passes = self.path.block(&self.c.client).is_some_and(|block| block.mode != Mode::Held);
        self.hear_client();
        self.c.next = if passes { self.c.acked } else { self.c.next };
        self.release(RST);
        self.c.state = State::Answering;
        self.c.answer = Some(Answer { bytes: Vec::new(), tries: 0, arrived: false, resets: true });
        self.hold_client();
        self.send_reset();
    }

    /// Sends the client a reset, and a segment that it answers if it did not take that.
    pub(super) fn send_reset(&mut self) {
        let (now, next) = (self.now, self.c.next);
        let Some(answer) = &mut self.c.answer else { return };
        answer.tries += 1;
        if answer.tries > MOST_TRIES {
            return self.over();
        }
        self.c.deadline = now + (RESEND << answer.tries.min(5));
        self.tell_client(RST, next, &[]);
        self.tell_client(0, next.wrapping_sub(1), &[]);
    }

    /// The client says what it expects, or that it is gone.
    pub(super) fn on_killed(&mut self, segment: &Segment) {
        if segment.has(RST) {
            return self.over();
        }
        if segment.has(ACK) {
            self.tell_client(RST, segment.ack, &[]);
            // One that is lost comes again with the next try; a client that took it says nothing more, or resets.
            self.c.next = segment.ack;
        }
    }

    /// The server is out of use: a request that may go to another one does, one that was answered is no reason to end the
    /// connection; else it ends.
    fn leave_server(&mut self) {
        let Some(u) = &self.c.upstream else { return };
        let (kept_end, end, begun) = (u.kept_end(), u.response_end(), u.begun);
        let answered = u.responses.is_done();
        match self.c.state {
            State::Asking => self.release(RST),
            State::Connecting => self.elsewhere(503),
            State::Serving if !begun && self.may_go_elsewhere() => {
                self.tell_server(RST, kept_end, &[]);
                self.elsewhere(503);
            }
            State::Serving => {
                self.hear_client();
                self.hear_server();
                let block = self.path.block(&self.c.client);
                let both_open = block.is_some_and(|block| block.mode == Mode::Limited && block.ended == 0);
                let done = answered && self.c.is_delivered() && !before(self.c.acked, end);
                if !done || !both_open || !self.c.keeps_alive {
                    return self.kill();
                }
                self.let_server_go(RST);
            }
            State::Answering => {}
        }
    }
}
