//! What passes at a port whose packets workers do not see: its interface counts it, and is asked at each query.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::xdp::{Netlink, QueueStatistics, Statistics};

/// The counts of a port's interfaces, one after the other, since the port was opened.
#[derive(Debug)]
pub struct Count {
    netlink: Netlink,
    /// What the interface and its queueing discipline could not send is what the fast path could not.
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
    queue: QueueDrops,
}

/// What queueing disciplines have dropped. One that takes another one's place begins at 0.
#[derive(Debug, Default)]
struct QueueDrops {
    /// As last asked.
    last: QueueStatistics,
    all: u64,
}

impl QueueDrops {
    fn update(&mut self, now: QueueStatistics) {
        let before = if now.handle == self.last.handle { self.last.drops } else { 0 };
        self.all += u64::from(now.drops.checked_sub(before).unwrap_or(now.drops));
        self.last = now;
    }
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

    /// Packets that the interface could not send, of what was counted, and those that its queueing discipline has
    /// dropped, where these say which the kernel could not send.
    pub fn failed(&self, counted: &Statistics) -> u64 {
        if !self.tells_failures {
            return 0;
        }
        let mut state = self.lock();
        self.look_at_queue(&mut state);
        counted.tx_errors + counted.tx_dropped + state.queue.all
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
        let mut state = self.lock();
        state.go_over(Some(index), self.ask(index).unwrap_or_default());
        if self.tells_failures {
            state.queue.last = self.netlink.queue(index).unwrap_or_default();
        }
    }

    /// Nothing more is the port's.
    pub fn close(&self) {
        self.read();
        let mut state = self.lock();
        if self.tells_failures {
            self.look_at_queue(&mut state);
        }
        state.go_over(None, Statistics::default());
    }

    /// The kernel tells of all interfaces' queueing disciplines, or everybody; so this is not for each look.
    fn look_at_queue(&self, state: &mut State) {
        if let Some(now) = state.index.and_then(|index| self.netlink.queue(index).ok()) {
            state.queue.update(now);
        }
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

    #[test]
    fn queueing_disciplines_of_an_interface_add_up() {
        let mut seen = QueueDrops { last: QueueStatistics { handle: 1, drops: 7 }, all: 0 };
        for (handle, drops, all) in [(1, 7, 0), (1, 10, 3), (2, 12, 15), (2, 12, 15), (2, 4, 19)] {
            seen.update(QueueStatistics { handle, drops });
            assert_eq!(seen.all, all);
        }
    }
}
