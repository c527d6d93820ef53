//! Next hops, as flow entries have them: by a number, which many flow entries share.

use std::collections::HashSet;
use std::net::Ipv6Addr;

use dataplane::controller::Record;
use wire::keyed_map::KeyedMap;

/// How segments leave (`next_hop_t` of `apps/splice`). The default is that of flow entries that lead nowhere yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NextHop {
    /// Their source; unspecified where they keep that with which they come.
    pub src: Ipv6Addr,
    /// The next hop's address.
    pub mac: [u8; 6],
    /// The port.
    pub port: u8,
}

impl Default for NextHop {
    fn default() -> Self {
        NextHop { src: Ipv6Addr::UNSPECIFIED, mac: [0; 6], port: 0 }
    }
}

impl Record for NextHop {
    const FIELDS: usize = 3;

    fn to_fields(&self, fields: &mut [u128]) {
        (self.src, self.mac, self.port).to_fields(fields);
    }

    fn from_fields(fields: &[u128]) -> Option<Self> {
        let (src, mac, port) = Record::from_fields(fields)?;
        Some(NextHop { src, mac, port })
    }
}

/// The next hops that have a number. Number 0 is the default's.
#[derive(Clone, Debug)]
pub struct NextHops {
    numbers: KeyedMap<NextHop, u16>,
    next_hops: Vec<NextHop>,
    free: Vec<u16>,
}

impl NextHops {
    /// As a table has them.
    pub fn of(entries: impl IntoIterator<Item = (u32, NextHop)>) -> NextHops {
        let mut next_hops = vec![NextHop::default()];
        for (number, next_hop) in entries {
            let number = usize::from(number as u16);
            next_hops.resize(next_hops.len().max(number + 1), NextHop::default());
            next_hops[number] = next_hop;
        }
        let numbered = || next_hops.iter().zip(0..).skip(1);
        let free =
            numbered().filter(|(next_hop, _)| **next_hop == NextHop::default()).map(|(_, number)| number).collect();
        let mut numbers: KeyedMap<NextHop, u16> = numbered().map(|(next_hop, number)| (*next_hop, number)).collect();
        numbers.insert(NextHop::default(), 0);
        NextHops { numbers, next_hops, free }
    }

    /// The number of a next hop, if it has one.
    pub fn number(&self, next_hop: &NextHop) -> Option<u16> {
        self.numbers.get(next_hop).copied()
    }

    /// The next hop of a number; the default where there is none.
    pub fn next_hop(&self, number: u16) -> NextHop {
        self.next_hops.get(usize::from(number)).copied().unwrap_or_default()
    }

    /// Gives a new next hop a number. `None` where all are given.
    pub fn add(&mut self, next_hop: NextHop) -> Option<u16> {
        let number = match self.free.pop() {
            Some(number) => number,
            None => {
                let number = u16::try_from(self.next_hops.len()).ok()?;
                self.next_hops.push(next_hop);
                number
            }
        };
        self.next_hops[usize::from(number)] = next_hop;
        self.numbers.insert(next_hop, number);
        Some(number)
    }

    /// Takes a next hop's number back.
    pub fn forget(&mut self, next_hop: &NextHop) {
        if let Some(number) = self.numbers.remove(next_hop) {
            self.next_hops[usize::from(number)] = NextHop::default();
            self.free.push(number);
        }
    }

    /// Next hops with other numbers than these.
    pub fn unused(&self, used: &HashSet<u16>) -> Vec<(u16, NextHop)> {
        let others = self.numbers.iter().filter(|(_, number)| **number != 0 && !used.contains(number));
        others.map(|(next_hop, number)| (*number, *next_hop)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next_hop(port: u8) -> NextHop {
        NextHop { port, ..NextHop::default() }
    }

    #[test]
    fn numbers_are_those_of_the_table() {
        let mut next_hops = NextHops::of([(2, next_hop(7)), (4, next_hop(9))]);
        assert_eq!(
            [next_hop(7), next_hop(9), next_hop(0), next_hop(1)].map(|next_hop| next_hops.number(&next_hop)),
            [Some(2), Some(4), Some(0), None]
        );
        assert_eq!(
            [0, 1, 2, 5].map(|number| next_hops.next_hop(number)),
            [next_hop(0), next_hop(0), next_hop(7), next_hop(0)]
        );
        // Those between them are given first.
        let mut given = [1, 2, 3].map(|port| next_hops.add(next_hop(port)).unwrap());
        given.sort_unstable();
        assert_eq!(given, [1, 3, 5]);
    }

    #[test]
    fn numbers_that_no_flow_entry_has_are_given_again() {
        let mut next_hops = NextHops::of([]);
        let all = (0..).map_while(|number: u32| {
            let next_hop = NextHop { src: Ipv6Addr::from(u128::from(number)), ..next_hop(1) };
            next_hops.add(next_hop)
        });
        assert_eq!(all.count(), 65535);
        assert_eq!(next_hops.add(next_hop(2)), None);
        let unused = next_hops.unused(&(1..65534).collect());
        let mut numbers: Vec<u16> = unused.iter().map(|(number, _)| *number).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, [65534, 65535]);
        unused.iter().for_each(|(_, next_hop)| next_hops.forget(next_hop));
        assert_eq!(next_hops.next_hop(65535), NextHop::default());
        assert!(next_hops.add(next_hop(2)).is_some() && next_hops.add(next_hop(3)).is_some());
        assert_eq!(next_hops.add(next_hop(4)), None);
        assert_eq!(next_hops.number(&next_hop(2)).map(|number| next_hops.next_hop(number)), Some(next_hop(2)));
    }
}
