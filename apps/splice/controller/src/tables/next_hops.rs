//! How segments leave, as control blocks have it: by a number, which many blocks share.

use std::collections::HashSet;
use std::net::Ipv6Addr;

use dataplane::controller::{Fields, Record};
use wire::keyed_map::KeyedMap;

/// How segments leave (`way_t` of `apps/splice`). The default is that of blocks that lead nowhere yet.
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

    fn to_fields(&self, fields: &mut Fields) {
        (self.src, self.mac, self.port).to_fields(fields);
    }

    fn from_fields(fields: &[u128]) -> Option<Self> {
        let (src, mac, port) = Record::from_fields(fields)?;
        Some(NextHop { src, mac, port })
    }
}

/// The ways that have a number. Number 0 is the default's.
#[derive(Clone, Debug)]
pub struct NextHops {
    numbers: KeyedMap<NextHop, u16>,
    ways: Vec<NextHop>,
    free: Vec<u16>,
}

impl NextHops {
    /// As a table has them.
    pub fn of(entries: impl IntoIterator<Item = (u32, NextHop)>) -> NextHops {
        let mut ways = vec![NextHop::default()];
        for (number, way) in entries {
            let number = usize::from(number as u16);
            ways.resize(ways.len().max(number + 1), NextHop::default());
            ways[number] = way;
        }
        let numbered = || ways.iter().zip(0..).skip(1);
        let free = numbered().filter(|(way, _)| **way == NextHop::default()).map(|(_, number)| number).collect();
        let mut numbers: KeyedMap<NextHop, u16> = numbered().map(|(way, number)| (*way, number)).collect();
        numbers.insert(NextHop::default(), 0);
        NextHops { numbers, ways, free }
    }

    /// The number of a way, if it has one.
    pub fn number(&self, way: &NextHop) -> Option<u16> {
        self.numbers.get(way).copied()
    }

    /// The way of a number; the default where there is none.
    pub fn way(&self, number: u16) -> NextHop {
        self.ways.get(usize::from(number)).copied().unwrap_or_default()
    }

    /// Gives a new way a number. `None` where all are given.
    pub fn add(&mut self, way: NextHop) -> Option<u16> {
        let number = match self.free.pop() {
            Some(number) => number,
            None => {
                let number = u16::try_from(self.ways.len()).ok()?;
                self.ways.push(way);
                number
            }
        };
        self.ways[usize::from(number)] = way;
        self.numbers.insert(way, number);
        Some(number)
    }

    /// Takes a way's number back.
    pub fn forget(&mut self, way: &NextHop) {
        if let Some(number) = self.numbers.remove(way) {
            self.ways[usize::from(number)] = NextHop::default();
            self.free.push(number);
        }
    }

    /// Ways with other numbers than these.
    pub fn unused(&self, used: &HashSet<u16>) -> Vec<(u16, NextHop)> {
        let others = self.numbers.iter().filter(|(_, number)| **number != 0 && !used.contains(number));
        others.map(|(way, number)| (*number, *way)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn way(port: u8) -> NextHop {
        NextHop { port, ..NextHop::default() }
    }

    #[test]
    fn numbers_are_those_of_the_table() {
        let mut ways = NextHops::of([(2, way(7)), (4, way(9))]);
        assert_eq!([way(7), way(9), way(0), way(1)].map(|way| ways.number(&way)), [Some(2), Some(4), Some(0), None]);
        assert_eq!([0, 1, 2, 5].map(|number| ways.way(number)), [way(0), way(0), way(7), way(0)]);
        // Those between them are given first.
        let mut given = [1, 2, 3].map(|port| ways.add(way(port)).unwrap());
        given.sort_unstable();
        assert_eq!(given, [1, 3, 5]);
    }

    #[test]
    fn numbers_that_no_block_has_are_given_again() {
        let mut ways = NextHops::of([]);
        let all = (0..).map_while(|number: u32| {
            let way = NextHop { src: Ipv6Addr::from(u128::from(number)), ..way(1) };
            ways.add(way)
        });
        assert_eq!(all.count(), 65535);
        assert_eq!(ways.add(way(2)), None);
        let unused = ways.unused(&(1..65534).collect());
        let mut numbers: Vec<u16> = unused.iter().map(|(number, _)| *number).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, [65534, 65535]);
        unused.iter().for_each(|(_, way)| ways.forget(way));
        assert_eq!(ways.way(65535), NextHop::default());
        assert!(ways.add(way(2)).is_some() && ways.add(way(3)).is_some());
        assert_eq!(ways.add(way(4)), None);
        assert_eq!(ways.number(&way(2)).map(|number| ways.way(number)), Some(way(2)));
    }
}
