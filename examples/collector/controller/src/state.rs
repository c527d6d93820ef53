//! What was counted, and the connections that are told: shared by the controller's loop and its tasks.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dataplane::controller::{Field, Punted, Waker};
use serde::Serialize;
use tokio::sync::mpsc;

/// Connections at a time; more are closed at once.
const CONNECTIONS: usize = 64;

/// What was seen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
struct Counts {
    packets: u64,
    bytes: u64,
    /// By EtherType, in hexadecimal digits.
    types: BTreeMap<String, u64>,
    /// By the number of the port that they came in by.
    ports: BTreeMap<u8, u64>,
}

/// What the loop and the tasks share. Both are on one thread: nothing ever waits for the lock.
#[derive(Debug, Default)]
pub(crate) struct State {
    pub types: BTreeMap<u16, u64>,
    pub ports: BTreeMap<u8, u64>,
    pub packets: u64,
    pub bytes: u64,
    /// Open connections.
    pub open: usize,
    /// Clients of `/live`, by the key of their timer.
    pub live: BTreeMap<u64, mpsc::Sender<String>>,
    /// Those of them that have no timer yet.
    pub new: Vec<u64>,
    pub next: u64,
    /// Why no connection is accepted any more.
    pub failed: Option<io::Error>,
    pub is_ending: bool,
    pub waker: Option<Waker>,
}

impl State {
    pub fn count(&mut self, packet: &Punted, rx_port: Field) {
        let bytes = packet.bytes();
        self.packets += 1;
        self.bytes += bytes.len() as u64;
        *self.types.entry(u16::from_be_bytes([bytes[12], bytes[13]])).or_default() += 1;
        *self.ports.entry(packet.metadata(rx_port) as u8).or_default() += 1;
    }

    fn counts(&self) -> Counts {
        let types = self.types.iter().map(|(kind, count)| (format!("{kind:04x}"), *count)).collect();
        Counts { packets: self.packets, bytes: self.bytes, types, ports: self.ports.clone() }
    }

    /// The counts as a line of JSON.
    pub fn line(&self) -> String {
        let mut line = serde_json::to_string(&self.counts()).unwrap_or_default();
        line.push('\n');
        line
    }

    /// Sends a line to a client of `/live`; whether it is still there.
    pub fn tell(&mut self, id: u64) -> bool {
        let line = self.line();
        let Some(client) = self.live.get(&id) else { return false };
        let is_there = !matches!(client.try_send(line), Err(mpsc::error::TrySendError::Closed(_)));
        if !is_there {
            self.live.remove(&id);
        }
        is_there
    }

    pub fn wake(&self) {
        self.waker.iter().for_each(Waker::wake);
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Shared(Arc<Mutex<State>>);

impl Shared {
    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection, as long as it is open.
pub(crate) struct Open(pub Shared);

impl Open {
    pub fn new(shared: &Shared) -> Option<Open> {
        let mut state = shared.lock();
        if state.open >= CONNECTIONS || state.is_ending {
            return None;
        }
        state.open += 1;
        Some(Open(shared.clone()))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.open -= 1;
        state.wake();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_shown_by_type_and_port() {
        let state = State {
            packets: 3,
            bytes: 180,
            types: [(0x0800, 2), (0x86dd, 1)].into(),
            ports: [(1, 3)].into(),
            ..State::default()
        };
        assert_eq!(
            state.line(),
            "{\"packets\":3,\"bytes\":180,\"types\":{\"0800\":2,\"86dd\":1},\"ports\":{\"1\":3}}\n"
        );
    }
}
