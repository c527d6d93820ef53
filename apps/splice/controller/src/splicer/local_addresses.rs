//! Own addresses are written to the program's tables.
//!
//! An address that the configuration has no more is kept as long as flow entries lead to it: connections go on, and
//! neighbours ask for it. New ones are refused meanwhile, as at any address without a service.

use std::collections::HashSet;
use std::net::Ipv6Addr;

use super::Splicer;
use crate::data_path::DataPath;

/// How often it is looked whether addresses are still in use that the configuration has no more, in nanoseconds. All
/// flow entries are read for that.
const LOOK: u64 = 10_000_000_000;

impl<P: DataPath> Splicer<P> {
    /// Has the tables hold what the settings say, and what connections still use of what they said before.
    ///
    /// # Errors
    /// Where a table has no room.
    pub fn put_local(&mut self) -> Result<(), String> {
        let (mut own, before) = (self.cluster.settings.own(), self.path.own());
        // A port that the kernel has, too, stays so as long as nothing else is said of it: what comes there is its own.
        let has_own = |port: &u32| own.macs.iter().any(|(known, _)| known == port);
        let shared: Vec<u32> = before.shared.into_iter().filter(|port| !has_own(port)).collect();
        own.shared.extend(shared);
        own.shared.sort_unstable();
        own.shared.dedup();
        let macs = self.shared.macs.iter().map(|(port, mac)| (u32::from(*port), *mac));
        own.macs.extend(macs.filter(|(port, _)| own.shared.contains(port)).collect::<Vec<_>>());
        let macs = before.macs.iter().filter(|(port, _)| own.macs.iter().all(|(known, _)| known != port));
        let leaving_macs: Vec<_> = macs.copied().collect();
        let known: HashSet<Ipv6Addr> = own.addresses.iter().map(|(address, _)| *address).collect();
        let addresses = before.addresses.iter().filter(|(address, _)| !known.contains(address));
        let leaving: Vec<_> = addresses.copied().collect();
        self.local_due = u64::MAX;
        if !leaving.is_empty() || !leaving_macs.is_empty() {
            let entries = self.path.entries();
            // An entry has the port that segments leave by. Where a server is still connected to there is none that
            // leads to it.
            let upstreams = self.connections.values().filter_map(|own| own.state.port());
            let ports = entries.iter().map(|(_, entry)| entry.port).chain(upstreams);
            let ports: HashSet<u32> = ports.map(u32::from).collect();
            let addressed: HashSet<Ipv6Addr> = entries.iter().map(|(key, _)| key.dst).collect();
            let count = own.macs.len() + own.addresses.len();
            own.macs.extend(leaving_macs.into_iter().filter(|(port, _)| ports.contains(port)));
            own.addresses.extend(leaving.into_iter().filter(|(address, _)| addressed.contains(address)));
            if own.macs.len() + own.addresses.len() > count {
                self.local_due = self.path.now() + LOOK;
            }
        }
        self.path.set_local(&own)
    }

    /// Looks whether what the configuration has no more is in use still.
    pub(super) fn expire_local(&mut self) {
        if self.path.now() >= self.local_due
            && let Err(error) = self.put_local()
        {
            tracing::error!("own addresses: {error}");
        }
    }
}
