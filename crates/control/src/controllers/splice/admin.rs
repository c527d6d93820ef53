//! What operators say about servers. Who is drained or taken down stays so until they say otherwise: through reloads, and in the next
//! process that goes on with the tables of this one (table `accept.told` of the program).

use std::collections::{HashMap, HashSet};

use super::path::DataPath;
use super::splicer::Splicer;

/// What an operator has said about a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Admin {
    /// It gets requests if it is up.
    #[default]
    Ready,
    /// It gets no new requests; those that it has it serves to their end.
    Drain,
    /// It is out of use: what it served was ended.
    Down,
}

impl Admin {
    /// All of them. Their places are their numbers in the table, where nobody has to say that a server is ready.
    pub const ALL: [Admin; 3] = [Admin::Ready, Admin::Drain, Admin::Down];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Admin::Ready => "ready",
            Admin::Drain => "drain",
            Admin::Down => "down",
        }
    }
}

/// A server's key in the table: FNV-1a of `POOL/NAME`, so that addresses and the order of the configuration may change.
fn key(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

impl<P: DataPath> Splicer<P> {
    /// A server is in this state from now on.
    pub(super) fn set_admin(&mut self, number: usize, admin: Admin) {
        self.cluster.servers[number].admin = admin;
        if !self.path.tell(key(&self.cluster.name(number)), admin as u8) {
            tracing::warn!("table accept.told is full: after a reload {} is ready", self.cluster.name(number));
        }
        if admin == Admin::Down {
            self.leave_server(number);
        }
    }

    /// Takes over what was said before about servers with these names, in this process or another. What is about none is forgotten.
    pub(super) fn recall_admin(&mut self) {
        let told: HashMap<u64, u8> = self.path.told().into_iter().collect();
        let mut configured = HashSet::new();
        for number in 0..self.cluster.servers.len() {
            let name = key(&self.cluster.name(number));
            let state = told.get(&name).copied().unwrap_or_default();
            let known = &mut self.cluster.servers[number];
            known.admin = Admin::ALL.get(usize::from(state)).copied().unwrap_or_default();
            if known.configured {
                configured.insert(name);
            }
        }
        let gone = told.into_keys().filter(|name| !configured.contains(name));
        gone.for_each(|name| _ = self.path.tell(name, Admin::Ready as u8));
    }
}
