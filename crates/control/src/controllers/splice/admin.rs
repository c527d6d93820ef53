//! What operators say about servers. Who is drained or taken down stays so until they say otherwise: through reloads, and in the next
//! process that goes on with the tables of this one (table `accept.told` of the program).

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
            tracing::warn!("table accept.told is full: after a restart {} is ready", self.cluster.name(number));
        }
        if admin == Admin::Down {
            self.leave_server(number);
        }
    }

    /// Takes over what was said in a process before. What is about none of the servers is forgotten.
    pub(super) fn recall_admin(&mut self) {
        for (told, state) in self.path.told() {
            let number = (0..self.cluster.servers.len()).find(|number| key(&self.cluster.name(*number)) == told);
            match (number, Admin::ALL.get(usize::from(state))) {
                (Some(number), Some(admin)) => self.cluster.servers[number].admin = *admin,
                _ => _ = self.path.tell(told, Admin::Ready as u8),
            }
        }
    }
}
