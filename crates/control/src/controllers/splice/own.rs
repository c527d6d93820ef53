//! What the program's tables hold of the settings: own addresses, and for how long connections are remembered.
//!
//! An address that the configuration has no more is kept as long as control blocks lead to it: connections go on, and neighbours ask
//! for it. New ones are refused meanwhile, as at any address without a service.

use std::collections::HashSet;
use std::net::Ipv6Addr;

use super::path::DataPath;
use super::settings::Settings;
use super::splicer::Splicer;

/// Own entries of the program's tables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Own {
    /// The Ethernet address on each port, by its number: `entry.macs`.
    pub macs: Vec<(u32, [u8; 6])>,
    /// Addresses with the port that they are at, or 0 where they are at all: `entry.addresses`.
    pub addresses: Vec<(Ipv6Addr, u8)>,
    /// For how many seconds blocks without packets are kept, by state: `spliced.timeouts`.
    pub timeouts: Vec<(u32, u32)>,
}

/// How often it is looked whether addresses are still in use that the configuration has no more, in nanoseconds. All blocks are read for that.
const LOOK: u64 = 10_000_000_000;

impl Settings {
    /// What the tables hold of them.
    pub fn own(&self) -> Own {
        let mut own = Own::default();
        for interface in &self.interfaces {
            own.macs.push((interface.port.into(), interface.mac));
            own.addresses.extend(interface.addresses.iter().map(|(address, _)| (*address, interface.port)));
        }
        let mut known: HashSet<Ipv6Addr> = HashSet::new();
        let services = self.endpoints().map(|(_, (address, _))| address);
        own.addresses.extend(services.filter(|address| known.insert(*address)).map(|address| (address, 0)));
        // By state: established, half-closed, closed, reset.
        let idle = self.timeouts.idle.div_ceil(1_000_000_000) as u32;
        own.timeouts = vec![(0, idle + 30), (1, idle.min(240)), (2, 60), (3, 10)];
        own
    }
}

impl<P: DataPath> Splicer<P> {
    /// Has the tables hold what the settings say, and what connections still use of what they said before.
    ///
    /// # Errors
    /// Where a table has no room.
    pub fn put_own(&mut self) -> Result<(), String> {
        let (mut own, before) = (self.cluster.settings.own(), self.path.own());
        let macs = before.macs.iter().filter(|(port, _)| own.macs.iter().all(|(known, _)| known != port));
        let leaving_macs: Vec<_> = macs.copied().collect();
        let known: HashSet<Ipv6Addr> = own.addresses.iter().map(|(address, _)| *address).collect();
        let addresses = before.addresses.iter().filter(|(address, _)| !known.contains(address));
        let leaving: Vec<_> = addresses.copied().collect();
        self.own_due = u64::MAX;
        if !leaving.is_empty() || !leaving_macs.is_empty() {
            let blocks = self.path.blocks();
            // A block has the port that segments leave by. Where a server is still connected to there is none that leads to it.
            let upstreams = self.connections.values().filter_map(|own| own.upstream.as_ref());
            let ports = blocks.iter().map(|(_, block)| block.port).chain(upstreams.map(|own| own.port));
            let ports: HashSet<u32> = ports.map(u32::from).collect();
            let ends: HashSet<Ipv6Addr> = blocks.iter().map(|(ends, _)| ends.dst).collect();
            let count = own.macs.len() + own.addresses.len();
            own.macs.extend(leaving_macs.into_iter().filter(|(port, _)| ports.contains(port)));
            own.addresses.extend(leaving.into_iter().filter(|(address, _)| ends.contains(address)));
            if own.macs.len() + own.addresses.len() > count {
                self.own_due = self.path.now() + LOOK;
            }
        }
        self.path.set_own(&own)
    }

    /// Looks whether what the configuration has no more is in use still.
    pub(super) fn look_at_own(&mut self) {
        if self.path.now() >= self.own_due
            && let Err(error) = self.put_own()
        {
            tracing::error!("own addresses: {error}");
        }
    }
}
