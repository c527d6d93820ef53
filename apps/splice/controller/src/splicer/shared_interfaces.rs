//! Interfaces that the kernel has, too: their addresses, and the ways to servers, are the kernel's, and are followed.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use indexmap::IndexSet;
use routes::ways::{Found, NoWay};

use super::Splicer;
use crate::cluster::ServerState;
use crate::data_path::DataPath;
use crate::settings::address::mapped;
use crate::settings::{Interface, Settings};

/// Between two looks at what the kernel has said, in nanoseconds.
const LOOK: u64 = 100_000_000;

/// What the kernel has said.
#[derive(Default)]
pub(super) struct SharedInterfaces {
    found: Arc<Found>,
    /// Ethernet addresses by port: those that a process before has found, until others are.
    pub(super) macs: BTreeMap<u8, [u8; 6]>,
    pub(super) due: u64,
}

impl<P: DataPath> Splicer<P> {
    /// Follows the kernel, where it is time.
    pub(super) fn follow_kernel(&mut self) {
        let now = self.path.now();
        if now < self.shared.due {
            return;
        }
        if !self.cluster.settings.interfaces.iter().any(|own| own.is_shared) {
            self.shared.due = u64::MAX;
            return;
        }
        self.shared.due = now + LOOK;
        let servers = self.cluster.servers.iter().filter(|known| known.configured && known.interface.is_shared);
        let wanted: IndexSet<IpAddr> = servers.map(|known| known.server.next_hop.to_canonical()).collect();
        let found = self.path.ways(wanted.into_iter().collect());
        if Arc::ptr_eq(&found, &self.shared.found) {
            return;
        }
        self.shared.found = found;
        self.apply_ways();
        let macs: BTreeMap<u8, [u8; 6]> =
            self.shared.found.interfaces.iter().map(|(port, own)| (*port, own.mac)).collect();
        if macs != self.shared.macs {
            self.shared.macs = macs;
            if let Err(error) = self.put_local() {
                tracing::error!("own addresses: {error}");
            }
        }
    }

    /// Servers are reached as the kernel reaches them.
    pub(super) fn apply_ways(&mut self) {
        let (settings, found) = (self.cluster.settings.clone(), self.shared.found.clone());
        for known in self.cluster.servers.iter_mut().filter(|known| known.configured && known.interface.is_shared) {
            known.follow(&settings, &found);
        }
    }
}

impl ServerState {
    fn follow(&mut self, settings: &Settings, found: &Found) {
        let way = found.ways.get(&self.server.next_hop.to_canonical());
        let way = way.cloned().unwrap_or(Err(NoWay::Unknown));
        match way {
            Ok(way) => {
                let shared = settings.interfaces.iter().find(|own| own.is_shared && own.port == way.port);
                let (Some(own), Some(kernels)) = (shared, found.interfaces.get(&way.port)) else {
                    (self.mac, self.no_way) =
                        (None, Some(format!("it is behind port {}, which has no interface here", way.port)));
                    return;
                };
                let addresses = match own.addresses.is_empty() {
                    true => kernels
                        .addresses
                        .iter()
                        .map(|(address, length)| (mapped(*address), length + if address.is_ipv4() { 96 } else { 0 }))
                        .collect(),
                    false => own.addresses.clone(),
                };
                let interface = Interface { mac: kernels.mac, addresses, ..(**own).clone() };
                if *self.interface != interface {
                    self.interface = Arc::new(interface);
                }
                if self.server.is_routed {
                    self.server.sources = vec![mapped(way.source)];
                }
                (self.mac, self.no_way) = (Some(way.mac), None);
            }
            // What worked may work on: checks find out.
            Err(why @ (NoWay::Unresolved(_) | NoWay::Unknown)) => self.no_way = Some(why.to_string()),
            Err(why) => (self.mac, self.no_way) = (None, Some(why.to_string())),
        }
    }
}
