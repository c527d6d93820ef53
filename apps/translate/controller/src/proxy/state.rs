//! What is shown to operators: connections and streams.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Proxy;
use super::connections::State;
use super::world::World;
use crate::tables::Totals;

/// A connection, as it is shown. Times are in milliseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SessionState {
    /// Its number.
    pub id: u32,
    /// The client's address and port.
    pub client: String,
    /// The first line of its request, without values that are secrets.
    pub request: String,
    /// The stream, if it has one.
    pub stream: Option<String>,
    /// What it does: `reads`, `waits`, `plays`, `answers`, `relays`, `tunnels`.
    pub state: String,
    /// Since it was opened.
    pub age_ms: u64,
    /// Segments.
    pub packets: u64,
    /// Bytes that were sent, each once.
    pub bytes: u64,
    /// Segments that were sent again,
    pub again: u32,
    /// of them, with null packets,
    pub nulls: u32,
    /// and with newer packets.
    pub fresh: u32,
    /// Packets of the stream that were left out.
    pub skipped: u32,
    /// The round trip.
    pub round_trip_ms: f64,
    /// What may be sent, in bits per second.
    pub rate: u64,
    /// The client's program, as it says.
    pub user_agent: Option<String>,
}

/// A stream, as it is shown.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StreamState {
    /// Its number in the program.
    pub number: u32,
    /// Its name, or where it comes from.
    pub stream: String,
    /// Connections that have it, or wait for it.
    pub viewers: usize,
    /// Whether its first packet has come.
    pub comes: bool,
    /// Since it was asked for, in milliseconds.
    pub age_ms: u64,
    /// Packets.
    pub packets: u64,
    /// Packets that did not come.
    pub lost: u32,
    /// Packets behind others that were sent later.
    pub late: u32,
    /// Packets that came twice.
    pub duplicates: u32,
    /// Packets that can't be translated.
    pub refused: u32,
}

pub(super) fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// The first line of a request without values that are secrets.
fn shown(line: &str) -> String {
    let mut parts = line.splitn(3, ' ');
    let (method, url, version) = (parts.next(), parts.next(), parts.next());
    let url = url.map(wire::rtsp::url::shown);
    [method.map(str::to_owned), url, version.map(str::to_owned)].into_iter().flatten().collect::<Vec<_>>().join(" ")
}

impl<W: World> Proxy<W> {
    /// Connections, in the order of their numbers.
    pub fn session_states(&mut self) -> Vec<SessionState> {
        let (world, now) = (&mut self.world, self.now);
        let mut all: Vec<SessionState> = Vec::with_capacity(self.connections.len());
        for (number, own) in &self.connections {
            let Totals { packets, bytes, again, nulls, fresh, skipped, srtt_us, rate, .. } = world.totals(*number);
            let state = match own.state {
                State::Reads => "reads",
                State::Answers => "answers",
                State::Waits(_) => "waits",
                State::Plays(_) => "plays",
                State::Relays(_) => "relays",
                State::Tunnels(_) => "tunnels",
            };
            all.push(SessionState {
                id: own.generation,
                client: std::net::SocketAddr::new(own.client, own.key.src_port).to_string(),
                request: shown(&own.said.line),
                stream: own.stream.clone(),
                state: state.to_owned(),
                age_ms: ms(now.saturating_sub(own.since)),
                packets,
                bytes,
                again,
                nulls,
                fresh,
                skipped,
                round_trip_ms: f64::from(srtt_us) / 1000.0,
                rate: u64::from(rate) * 8,
                user_agent: own.said.agent.clone(),
            });
        }
        all.sort_by_key(|own| own.id);
        all
    }

    /// Streams, in the order of their numbers.
    pub fn stream_states(&mut self) -> Vec<StreamState> {
        let (world, now) = (&mut self.world, self.now);
        let state = |(number, own): (&u32, &super::streams::Stream)| {
            let counts = world.stream(*number);
            StreamState {
                number: *number,
                stream: own.source.shown(),
                viewers: own.viewers.len(),
                comes: own.came,
                age_ms: ms(now.saturating_sub(own.since)),
                packets: counts.packets.saturating_sub(own.before),
                lost: counts.lost,
                late: counts.late,
                duplicates: counts.duplicates,
                refused: counts.refused,
            }
        };
        self.streams.iter().map(state).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_not_shown() {
        assert_eq!(shown("GET /a?token=x&b=c HTTP/1.1"), "GET /a?token=***&b=c HTTP/1.1");
        assert_eq!(shown(""), "");
    }
}
