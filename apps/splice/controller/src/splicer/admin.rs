//! What operators have said about servers is put in force, and kept for the next process.

use std::collections::{HashMap, HashSet};

use control::admin_state::AdminState;

use super::Splicer;
use crate::connection::event::Event;
use crate::connection::state::Connection;
use crate::data_path::DataPath;

/// A server's key in the table: FNV-1a of `POOL/NAME`, so that addresses and the order of the configuration may change.
fn key(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

impl<P: DataPath> Splicer<P> {
    /// A server is in this state from now on.
    pub(crate) fn set_admin_state(&mut self, number: usize, admin: AdminState) {
        self.cluster.servers[number].admin = admin;
        if !self.path.set_admin_state(key(&self.cluster.name(number)), admin as u8) {
            tracing::warn!("table accept.admin_states is full: after a reload {} is ready", self.cluster.name(number));
        }
        if admin == AdminState::Down {
            // What the server does ends, or others do it.
            let of_it = |own: &Connection| own.state.server() == Some(number);
            let ids: Vec<u64> = self.connections.iter().filter(|(_, own)| of_it(own)).map(|(id, _)| *id).collect();
            ids.into_iter().for_each(|id| _ = self.handle(id, Event::ServerDown, &[]));
        }
    }

    /// Takes over what was said before about servers with these names, in this process or another. What is about none
    /// is forgotten.
    pub(crate) fn recall_admin(&mut self) {
        let admin_states: HashMap<u64, u8> = self.path.admin_states().into_iter().collect();
        let mut configured = HashSet::new();
        for number in 0..self.cluster.servers.len() {
            let name = key(&self.cluster.name(number));
            let state = admin_states.get(&name).copied().unwrap_or_default();
            let tracked = &mut self.cluster.servers[number];
            tracked.admin = AdminState::ALL.get(usize::from(state)).copied().unwrap_or_default();
            if tracked.configured {
                configured.insert(name);
            }
        }
        let gone = admin_states.into_keys().filter(|name| !configured.contains(name));
        gone.for_each(|name| _ = self.path.set_admin_state(name, AdminState::Ready as u8));
    }
}
