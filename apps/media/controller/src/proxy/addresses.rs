//! How many sessions and connections each client's address has, for the limits of one client.

use std::collections::BTreeMap;
use std::net::IpAddr;

/// By address; those that have nothing are not there.
#[derive(Debug, Default)]
pub(super) struct Addresses(BTreeMap<IpAddr, Had>);

/// What one address has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Had {
    pub(super) sessions: usize,
    pub(super) connections: usize,
}

impl Addresses {
    /// What an address has.
    pub(super) fn of(&self, address: IpAddr) -> Had {
        self.0.get(&address).copied().unwrap_or_default()
    }

    /// Changes what an address has.
    pub(super) fn change(&mut self, address: IpAddr, change: impl FnOnce(&mut Had)) {
        let own = self.0.entry(address).or_default();
        change(own);
        if *own == Had::default() {
            self.0.remove(&address);
        }
    }

    /// Addresses that have something.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}
