//! Rates of flows, from one look at them to the next.

use ahash::AHashMap;

use super::flow::{FlowEntry, FlowKey};

/// Rates are those between two looks that are at least so far from each other.
const APART: u64 = 500_000_000;
/// So long after a look nobody is expected to look again.
const FORGOTTEN: u64 = 10_000_000_000;
/// A flow that began less than that ago counts as one that did so then.
const YOUNG: u64 = 1_000_000_000;

/// What was seen of flows. Times are in nanoseconds of the monotonic clock.
#[derive(Debug, Default)]
pub struct Rates {
    /// When somebody has looked.
    at: u64,
    seen: AHashMap<FlowKey, Seen>,
}

/// A flow at that time.
#[derive(Clone, Copy, Debug)]
struct Seen {
    began: u64,
    octets: u64,
    bits_per_s: f64,
}

impl Rates {
    /// Looks at all flows. One that was seen before has the rate since then, another one that since it began, or since
    /// flows are counted.
    pub fn look(&mut self, all: &[(FlowKey, FlowEntry)], now: u64, since: u64) {
        let time = now.saturating_sub(self.at);
        if time < APART {
            return;
        }
        let bits_per_s = |octets: u64, time: u64| octets as f64 * 8e9 / time as f64;
        let seen = all.iter().map(|(key, entry)| {
            let (began, octets) = (entry.began, entry.octets[0].saturating_add(entry.octets[1]));
            let bits_per_s = match self.seen.get(key).filter(|own| own.began == began) {
                Some(own) => bits_per_s(octets.saturating_sub(own.octets), time),
                None => bits_per_s(octets, now.saturating_sub(began.max(since)).max(YOUNG)),
            };
            (*key, Seen { began, octets, bits_per_s })
        });
        *self = Rates { at: now, seen: seen.collect() };
    }

    /// Bits per second of a flow; 0 of one that came after the last look.
    pub fn of(&self, key: &FlowKey) -> f64 {
        self.seen.get(key).map_or(0.0, |own| own.bits_per_s)
    }

    /// Forgets all where nobody looks any more.
    pub fn tidy(&mut self, now: u64) {
        if !self.seen.is_empty() && now.saturating_sub(self.at) > FORGOTTEN {
            *self = Rates::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn key(port: u16) -> FlowKey {
        FlowKey { low: Ipv6Addr::LOCALHOST, high: Ipv6Addr::LOCALHOST, low_port: port, high_port: 80, protocol: 6 }
    }

    /// A flow with so many bytes, which began at a second.
    fn flow(port: u16, began: u64, octets: [u64; 2]) -> (FlowKey, FlowEntry) {
        let began = began * SECOND;
        let entry = FlowEntry {
            state: 5,
            rule: 0,
            port: 1,
            low_first: true,
            fins: 0,
            seen: 1,
            next: [0; 2],
            began,
            counted: began,
            packets: [1; 2],
            octets,
        };
        (key(port), entry)
    }

    #[test]
    fn rates_are_those_since_the_last_look_or_since_the_flow_began() {
        let mut rates = Rates::default();
        rates.look(&[flow(1, 90, [500, 500])], 100 * SECOND, 80 * SECOND);
        assert_eq!(rates.of(&key(1)), 800.0);
        assert_eq!(rates.of(&key(2)), 0.0);
        // Too soon: as before.
        rates.look(&[flow(1, 90, [5000, 500])], 100 * SECOND + 1, 0);
        assert_eq!(rates.of(&key(1)), 800.0);
        // One goes on; one is young; one has come again with the same ends.
        rates.look(&[flow(1, 90, [1500, 700]), flow(2, 102, [0, 25])], 102 * SECOND, 0);
        assert_eq!([1, 2].map(|port| rates.of(&key(port))), [4800.0, 200.0]);
        rates.look(&[flow(2, 103, [100, 0])], 104 * SECOND, 0);
        assert_eq!([1, 2].map(|port| rates.of(&key(port))), [0.0, 800.0]);
    }

    #[test]
    fn what_nobody_looks_at_is_forgotten() {
        let mut rates = Rates::default();
        // It is counted for five seconds.
        rates.look(&[flow(1, 90, [500, 500])], 100 * SECOND, 95 * SECOND);
        assert_eq!(rates.of(&key(1)), 1600.0);
        rates.tidy(110 * SECOND);
        assert_eq!(rates.of(&key(1)), 1600.0);
        rates.tidy(110 * SECOND + 1);
        assert_eq!(rates.of(&key(1)), 0.0);
    }
}
