//! How often clients were wrong about passwords and tokens.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

/// In this time an address may be wrong so often.
const WINDOW: Duration = Duration::from_secs(60);
/// Addresses of which is known how often they were wrong at most.
const MOST_ADDRESSES: usize = 4096;

/// How often addresses were wrong.
#[derive(Debug, Default)]
pub struct Guesses(HashMap<IpAddr, (u32, Duration)>);

impl Guesses {
    /// Hosts with IPv6 have as many addresses as they like in a network of 64 bits.
    fn key(address: IpAddr) -> IpAddr {
        match address {
            IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() & !u128::from(u64::MAX)).into(),
            v4 @ IpAddr::V4(_) => v4,
        }
    }

    /// How often an address was wrong of late.
    pub fn of(&self, address: IpAddr, now: Duration) -> u32 {
        let found = self.0.get(&Guesses::key(address)).filter(|(_, since)| now.saturating_sub(*since) < WINDOW);
        found.map_or(0, |(count, _)| *count)
    }

    /// An address was wrong.
    pub fn add(&mut self, address: IpAddr, now: Duration) {
        let count = self.of(address, now);
        if self.0.len() >= MOST_ADDRESSES {
            self.0.retain(|_, (_, since)| now.saturating_sub(*since) < WINDOW);
        }
        if self.0.len() >= MOST_ADDRESSES {
            let oldest = self.0.iter().min_by_key(|(_, (_, since))| *since).map(|(address, _)| *address);
            oldest.into_iter().for_each(|oldest| _ = self.0.remove(&oldest));
        }
        let entry = self.0.entry(Guesses::key(address)).or_insert((0, now));
        *entry = if count == 0 { (1, now) } else { (count + 1, entry.1) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guesses_are_counted_by_network_and_forgotten() {
        let (mut guesses, at) = (Guesses::default(), Duration::from_secs);
        let [one, near, far] = ["2001:db8::1", "2001:db8::2", "2001:db8:0:1::1"].map(|text| text.parse().unwrap());
        guesses.add(one, at(1));
        guesses.add(near, at(2));
        assert_eq!([one, near, far].map(|address| guesses.of(address, at(3))), [2, 2, 0]);
        assert_eq!(guesses.of(one, at(61)), 0);
        guesses.add(one, at(62));
        assert_eq!(guesses.of(one, at(62)), 1);
        for address in 0..10_000u32 {
            guesses.add(IpAddr::V4(address.into()), at(63));
        }
        assert!(guesses.0.len() <= MOST_ADDRESSES);
    }
}
