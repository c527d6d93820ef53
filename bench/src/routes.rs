//! Routing tables in the shape of the Internet's.

use std::collections::HashSet;

use crate::numbers::SplitMix64;

/// A route.
#[derive(Clone, Copy)]
pub struct Route {
    pub prefix: u32,
    pub len: u8,
    /// Counted from 1.
    pub next_hop: u32,
}

impl Route {
    /// A random address of the prefix.
    pub fn host(&self, numbers: &mut SplitMix64) -> u32 {
        self.prefix | numbers.next() as u32 & 0xffff_ffffu32.checked_shr(self.len.into()).unwrap_or(0)
    }
}

/// Share of each prefix length among the routes of the Internet's default-free zone, in thousandths (as the CIDR Report
/// and Geoff Huston's BGP table statistics show it for 2024; lengths with less are put to their neighbours).
const LENGTHS: [(u8, u32); 11] =
    [(24, 592), (23, 103), (22, 109), (21, 53), (20, 47), (19, 27), (18, 14), (17, 9), (16, 26), (15, 10), (14, 10)];

/// This many different prefixes, of lengths as in a BGP table, in 11.0.0.0 to 223.255.255.255; beside them, one in 200
/// is longer than 24 bits, as a provider's own routes are. Sixteen or fewer are /16s.
pub fn like_the_internet(count: u32, gateways: u32) -> Vec<Route> {
    let next_hop = |index| 1 + index % gateways;
    if count <= 16 {
        return (0..count)
            .map(|index| Route { prefix: 0x1400_0000 | index << 16, len: 16, next_hop: next_hop(index) })
            .collect();
    }
    let mut numbers = SplitMix64::new(42);
    let mut seen = HashSet::new();
    let mut routes = Vec::with_capacity(count as usize);
    while routes.len() < count as usize {
        let mut share = numbers.below(1000) as u32;
        let by_share = |&(_, thousandths): &(u8, u32)| {
            let found = share < thousandths;
            share = share.wrapping_sub(thousandths);
            found
        };
        let mut len = LENGTHS.iter().position(by_share).map_or(24, |index| LENGTHS[index].0);
        if numbers.below(200) == 0 {
            len = 25 + numbers.below(8) as u8;
        }
        let address = (11 + numbers.below(213) as u32) << 24 | numbers.next() as u32 & 0x00ff_ffff;
        let prefix = address & !(0xffff_ffffu32.checked_shr(len.into()).unwrap_or(0));
        if prefix >> 24 != 127 && seen.insert((prefix, len)) {
            routes.push(Route { prefix, len, next_hop: next_hop(numbers.next() as u32 & 0xffff) });
        }
    }
    routes
}
