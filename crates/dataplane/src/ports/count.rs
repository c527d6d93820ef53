//! What passes at a port whose packets workers do not see: its interface counts it, and is asked at each query.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::xdp::{Netlink, Statistics};

/// The counts of a port's interfaces, one after the other, since the port was opened.
#[derive(Debug)]
pub struct Count {
    netlink: Netlink,
    /// What the interface could not send is what the fast path could not.
    tells_failures: bool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The interface; none before the first and when the port is closed.
    index: Option<i32>,
    /// What it had counted when it became the port's.
    first: Statistics,
    /// What those before it have counted.
    before: Statistics,
    /// What all of them have.
    all: Statistics,
}

impl State {
    fn update(&mut self, now: Statistics) {
        let State { first, before, .. } = *self;
        let since = |of: fn(&Statistics) -> u64| of(&before) + of(&now).saturating_sub(of(&first));
        self.all = Statistics {
            rx_packets: since(|s| s.rx_packets),
            tx_packets: since(|s| s.tx_packets),
            rx_bytes: since(|s| s.rx_bytes),
            tx_bytes: since(|s| s.tx_bytes),
            rx_errors: since(|s| s.rx_errors),
            tx_errors: since(|s| s.tx_errors),
            rx_dropped: since(|s| s.rx_dropped),
            tx_dropped: since(|s| s.tx_dropped),
        };
    }

    fn go_over(&mut self, index: Option<i32>, first: Statistics) {
        (self.index, self.first, self.before) = (index, first, self.all);
    }
}

impl Count {
    /// None yet; asks in this network namespace. Whether packets that the kernel could not send there are known from
    /// that, too.
    pub fn new(netlink: Netlink, tells_failures: bool) -> Self {
        Count { netlink, tells_failures, state: Mutex::default() }
    }

    /// Packets that the interface could not send, of what was counted, where that says which the kernel could not send.
    pub fn failed(&self, counted: &Statistics) -> u64 {
        if self.tells_failures { counted.tx_errors + counted.tx_dropped } else { 0 }
    }

    /// What was counted until now.
    pub fn read(&self) -> Statistics {
        let mut state = self.lock();
        if let Some(now) = state.index.and_then(|index| self.ask(index)) {
            state.update(now);
        }
        state.all
    }

    /// From now on it is this interface that counts.
    pub fn follow(&self, index: i32) {
        self.lock().go_over(Some(index), self.ask(index).unwrap_or_default());
    }

    /// Nothing more is the port's.
    pub fn close(&self) {
        self.read();
        self.lock().go_over(None, Statistics::default());
    }

    fn ask(&self, index: i32) -> Option<Statistics> {
        self.netlink.link(index).ok().map(|link| link.statistics)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces_of_a_port_add_up() {
        let seen = |rx_packets, tx_bytes| Statistics { rx_packets, tx_bytes, ..Statistics::default() };
        let mut state = State::default();
        state.go_over(Some(4), seen(100, 7));
        state.update(seen(150, 9));
        assert_eq!(state.all, seen(50, 2));
        state.go_over(Some(9), seen(0, 0));
        state.update(seen(3, 1));
        assert_eq!(state.all, seen(53, 3));
        state.update(seen(4, 10));
        assert_eq!(state.all, seen(54, 12));
    }
}
