//! What the log has of connections: a line for each request. That of an answer behind which the connection goes on is
//! written when the client has all of it, any other when the connection is over.

use std::time::Duration;

use super::Proxy;
use super::connections::Connection;
use super::records::Said;
use super::world::{Effect, Ended, Ending, World};
use crate::tables::Totals;

/// An answer behind which the connection goes on.
#[derive(Debug)]
pub(super) struct Answered {
    pub(super) said: Said,
    pub(super) status: u16,
    /// When its request came.
    pub(super) since: Duration,
    /// Where it ends in what is sent.
    pub(super) end: u64,
}

/// A line that is about to be written.
struct Request<'c> {
    said: &'c Said,
    status: u16,
    since: Duration,
    /// What it has had.
    totals: Totals,
    ending: Ending,
}

impl<W: World> Proxy<W> {
    /// Logs answers that clients have.
    pub(super) fn log_delivered(&mut self, number: u32) {
        let Some(own) = self.connections.get(&number) else { return };
        if own.answered.front().is_none_or(|first| first.end > own.outgoing.delivered()) {
            return;
        }
        let totals = self.world.totals(number);
        let Some(own) = self.connections.get_mut(&number) else { return };
        let delivered = own.outgoing.delivered();
        let mut lines = Vec::new();
        while let Some(answered) = own.answered.pop_front_if(|first| first.end <= delivered) {
            lines.push(line_of(own, self.now, totals, &answered, Ending::Complete));
        }
        lines.into_iter().for_each(|line| self.effect(Effect::Log(line)));
    }

    /// Logs what is left of a connection that is over.
    pub(super) fn log_ended(&mut self, number: u32, mut own: Connection, found: Ending) {
        let totals = self.world.totals(number);
        // What ends it in order ends it so only where nothing was in the way.
        let ending = own.ending.unwrap_or(found);
        let delivered = own.outgoing.delivered();
        while let Some(answered) = own.answered.pop_front() {
            let ending = if answered.end <= delivered { Ending::Complete } else { ending };
            let line = line_of(&mut own, self.now, totals, &answered, ending);
            self.effect(Effect::Log(line));
        }
        if own.asked {
            let line = self.logged(number, &own, ending);
            self.effect(Effect::Log(Box::new(line)));
        }
    }

    /// What the log has of a connection's last request.
    pub(super) fn logged(&mut self, number: u32, own: &Connection, ending: Ending) -> Ended {
        let totals = self.world.totals(number).since(&own.logged);
        line(own, self.now, &Request { said: &own.said, status: own.status, since: own.since, totals, ending })
    }
}

/// That of an answer in front of others; the connection's account is settled up to it.
fn line_of(own: &mut Connection, now: Duration, totals: Totals, answered: &Answered, ending: Ending) -> Box<Ended> {
    // How many segments an answer took is not known where another one follows in the same.
    let since = totals.since(&own.logged);
    let bytes = answered.end.saturating_sub(own.logged.bytes);
    own.logged = Totals { bytes: answered.end, ..totals };
    let totals = Totals { bytes, ..since };
    let Answered { said, status, since, .. } = answered;
    Box::new(line(own, now, &Request { said, status: *status, since: *since, totals, ending }))
}

fn line(own: &Connection, now: Duration, request: &Request) -> Ended {
    let Totals { packets, bytes, again, nulls, fresh, skipped, srtt_us, .. } = request.totals;
    Ended {
        id: own.generation,
        client: own.client.to_string(),
        request: request.said.line.clone(),
        stream: own.stream.clone().filter(|_| own.asked),
        status: request.status,
        duration_ms: super::state::ms(now.saturating_sub(request.since)),
        packets,
        bytes,
        again,
        nulls,
        fresh,
        skipped,
        round_trip_us: srtt_us,
        ended: request.ending.name(),
        user_agent: request.said.agent.clone(),
        referer: request.said.referer.clone(),
    }
}
