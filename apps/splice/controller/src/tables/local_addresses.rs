//! What the program's tables hold of the settings: own addresses, and for how long connections are remembered.

use std::collections::HashSet;
use std::net::Ipv6Addr;

use crate::settings::Settings;

/// Own entries of the program's tables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LocalAddresses {
    /// The Ethernet address on each port, by its number: `entry.macs`.
    pub macs: Vec<(u32, [u8; 6])>,
    /// Ports whose interfaces the kernel has, too: `entry.is_shared`.
    pub shared: Vec<u32>,
    /// Addresses with the port that they are at, or 0 where they are at all: `entry.addresses`.
    pub addresses: Vec<(Ipv6Addr, u8)>,
    /// For how many seconds flow entries without packets are kept, by state: `spliced.timeouts`.
    pub timeouts: Vec<(u32, u32)>,
}

impl Settings {
    /// What the tables hold of them.
    pub fn own(&self) -> LocalAddresses {
        let mut own = LocalAddresses::default();
        for interface in &self.interfaces {
            match interface.is_shared {
                true => own.shared.push(interface.port.into()),
                false => own.macs.push((interface.port.into(), interface.mac)),
            }
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
