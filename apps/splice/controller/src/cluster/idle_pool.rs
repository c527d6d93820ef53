//! The idle pool: connections to servers that no client has, made ahead (preconnected) or left by clients.

use std::collections::HashMap;

use wire::flow_key::FlowKey;

use crate::connection::upstream::{IdleUpstream, ServerConn};

/// How long a server waits for an acknowledgement where no request takes it along, in nanoseconds: less than it takes
/// to send again (RFC 9293 section 3.8.6.3 allows 500 ms, Linux waits 40).
const DELAY: u64 = 40_000_000;

/// All of them.
// A connection comes and goes in its box.
#[allow(clippy::vec_box)]
#[derive(Debug, Default)]
pub struct IdlePool {
    /// By server, those that were used last at the end.
    idle: HashMap<usize, Vec<Box<IdleUpstream>>>,
    /// When it is looked next whether there are enough, and none too many.
    pub due: u64,
}

impl IdlePool {
    /// Takes a connection to a server that fits, the one that was used last.
    pub fn take(&mut self, server: usize, fits: impl Fn(&ServerConn) -> bool) -> Option<Box<IdleUpstream>> {
        let idle = self.idle.get_mut(&server)?;
        let found = idle.iter().rposition(|own| own.connected && fits(&own.conn))?;
        Some(idle.remove(found))
    }

    /// Keeps one.
    pub fn keep(&mut self, idle: Box<IdleUpstream>, now: u64) {
        if idle.owes_ack {
            self.due = self.due.min(now + DELAY);
        }
        self.idle.entry(idle.conn.peer.server).or_default().push(idle);
    }

    /// Connections that there are to a server.
    pub fn count(&self, server: usize) -> usize {
        self.idle.get(&server).map_or(0, Vec::len)
    }

    /// Whether there is none to any server.
    pub fn is_empty(&self) -> bool {
        self.idle.values().all(Vec::is_empty)
    }

    /// Those to a server.
    pub fn of_server(&self, server: usize) -> &[Box<IdleUpstream>] {
        self.idle.get(&server).map_or(&[], Vec::as_slice)
    }

    /// The same, to change them.
    pub fn of_server_mut(&mut self, server: usize) -> &mut [Box<IdleUpstream>] {
        self.idle.get_mut(&server).map_or(&mut [], Vec::as_mut_slice)
    }

    /// The one with a flow key of the server's segments.
    pub fn find(&mut self, server: usize, key: &FlowKey) -> Option<&mut IdleUpstream> {
        self.of_server_mut(server).iter_mut().find(|own| own.conn.peer.key == *key).map(|own| &mut **own)
    }

    /// Removes it.
    pub fn remove(&mut self, server: usize, key: &FlowKey) {
        if let Some(idle) = self.idle.get_mut(&server) {
            idle.retain(|own| own.conn.peer.key != *key);
        }
    }
}
