//! Look-up tables by which a client keeps its server (Eisenbud et al., "Maglev", 2016).

use std::hash::Hasher;
use std::net::Ipv6Addr;

use siphasher::sip::SipHasher24;

/// Places of a look-up table: a prime (Maglev, section 3.4), 65 for each server at least.
const PLACES: usize = 65537;

/// Where a client's server is looked for.
pub fn start(client: Ipv6Addr) -> usize {
    hash(0, client, &[]) as usize % PLACES
}

/// A table of servers, each with its number, its address and port, and its weight (section 3.4): each in its turn takes
/// the next place of its own permutation that is free, as many as its weight says.
pub fn table(servers: impl Iterator<Item = (u16, Ipv6Addr, u16, u32)>) -> Vec<u16> {
    let mut turns: Vec<(u16, usize, usize, u32)> = servers
        .map(|(index, address, port, weight)| {
            let port = port.to_be_bytes();
            let offset = hash(1, address, &port) as usize % PLACES;
            let skip = hash(2, address, &port) as usize % (PLACES - 1) + 1;
            (index, offset, skip, weight)
        })
        .collect();
    if turns.is_empty() {
        return Vec::new();
    }
    let (mut table, mut filled) = (vec![u16::MAX; PLACES], 0);
    loop {
        for (index, at, skip, weight) in &mut turns {
            for _ in 0..*weight {
                while table[*at] != u16::MAX {
                    *at = (*at + *skip) % PLACES;
                }
                table[*at] = *index;
                filled += 1;
                if filled == PLACES {
                    return table;
                }
            }
        }
    }
}

/// SipHash-2-4 with a key of zeros, of a kind, an address and what follows it: clients keep their servers through
/// restarts and new versions, so it is never to be changed.
fn hash(kind: u8, address: Ipv6Addr, more: &[u8]) -> u64 {
    let mut hasher = SipHasher24::new();
    hasher.write(&[kind]);
    hasher.write(&address.octets());
    hasher.write(more);
    hasher.finish()
}
