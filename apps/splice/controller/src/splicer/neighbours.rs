//! Servers' Ethernet addresses are asked for; fragments are put together.

use std::net::Ipv6Addr;

use indexmap::IndexMap;
use wire::fragments::Fate;
use wire::resolution::Requester;

use super::Splicer;
use crate::cluster::ServerState;
use crate::cluster::neighbours::Heard;
use crate::data_path::DataPath;

impl<P: DataPath> Splicer<P> {
    /// When the next question is due.
    pub(super) fn next_question(&self) -> u64 {
        self.neighbours.due()
    }

    /// Asks, where it is time.
    pub(super) fn ask_neighbours(&mut self) {
        let now = self.path.now();
        if now < self.neighbours.due() {
            return;
        }
        let asked = |known: &&ServerState| known.configured && !known.interface.is_shared;
        let servers = self.cluster.servers.iter().filter(asked);
        let wanted: IndexMap<(u8, Ipv6Addr), Requester> = servers
            .map(|known| {
                let own = &known.interface;
                ((own.port, known.server.next_hop), Requester { mac: own.mac, address: known.server.sources[0] })
            })
            .collect();
        self.neighbours.want(wanted, now);
        for (port, frame) in self.neighbours.ask(now) {
            self.path.send(port, &frame);
        }
        self.announce_servers();
    }

    /// An answer, by the port that it came in by.
    pub fn neighbour(&mut self, port: u8, frame: &[u8]) {
        if self.neighbours.take(port, frame, self.path.now()) == Heard::Believed {
            self.announce_servers();
        }
    }

    /// Servers are reached by the stations that are known to have their addresses.
    fn announce_servers(&mut self) {
        let asked = |known: &&mut ServerState| known.configured && !known.interface.is_shared;
        for known in self.cluster.servers.iter_mut().filter(asked) {
            let mac = self.neighbours.mac(known.interface.port, known.server.next_hop);
            known.mac = mac.or(known.mac);
        }
    }
}

impl<P: DataPath> Splicer<P> {
    /// A fragment of a datagram for an own address.
    pub fn fragment(&mut self, port: u8, frame: &[u8]) {
        let now = self.path.now();
        let Some(whole) = self.fragments.take(port, frame, now) else { return };
        let fate = if self.path.enter(&whole) { Fate::Reassembled } else { Fate::TooLong };
        self.fragments.count(fate);
    }
}
