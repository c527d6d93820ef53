//! What tells packets for the interface's own addresses apart, in front of [`super::redirect`]: they go to the kernel's
//! own stack before anything is done with them.
//!
//! ```text
//! r6 = ctx
//! IPv4: key = ::ffff: + destination      bytes 30 to 33 of the frame
//! ARP:  key = ::ffff: + target address   bytes 38 to 41
//! IPv6: key = destination                bytes 38 to 53
//! else, or if the frame ends before: END
//! if own[key]: return XDP_PASS
//! END: r1 = r6
//! ```
//!
//! So ARP and neighbour discovery, ICMP and connections of the host work as if there was no program, and no access mode
//! costs them anything. Packets in VLANs, and to broadcast and other multicast addresses, are the program's.

use std::collections::HashSet;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError};

use super::sys::{self, EXIT, OF_MAP, XDP_PASS, instruction};

/// Addresses that are told apart at most.
const MOST: u32 = 4096;
/// Bytes of a key.
const KEY: i16 = 16;
const LOOKUP: i32 = 1;
/// Where the parts of the program begin, in instructions.
const IPV4: i16 = 20;
const ARP: i16 = 22;
const SHORT: i16 = 23;
const FOUND: i16 = 24;
const END: i16 = 32;

/// Instructions, by what they do. Registers are 0 to 10; the stack is below 10.
const fn load(size: u8, to: u8, from: u8, offset: i16) -> [u8; 8] {
    instruction(0x61 | size, to, from, offset, 0)
}
const fn store(size: u8, from: u8, offset: i16) -> [u8; 8] {
    instruction(0x63 | size, 10, from, offset, 0)
}
const fn copy(to: u8, from: u8) -> [u8; 8] {
    instruction(0xbf, to, from, 0, 0)
}
const fn add(to: u8, number: i32) -> [u8; 8] {
    instruction(0x07, to, 0, 0, number)
}
/// Sizes of loads and stores.
const WORD: u8 = 0;
const HALF: u8 = 0x08;
const LONG: u8 = 0x18;

/// The addresses, as the program looks them up.
#[derive(Debug)]
pub struct OwnAddressSet {
    map: OwnedFd,
    known: Mutex<HashSet<[u8; KEY as usize]>>,
}

impl OwnAddressSet {
    /// None yet.
    pub fn new() -> io::Result<Self> {
        Ok(OwnAddressSet { map: sys::set_create(KEY as u32, MOST, "millrace_own")?, known: Mutex::default() })
    }

    /// The instructions that end in front of those which redirect.
    pub fn code(&self) -> Vec<u8> {
        /// To an instruction, from the one at `at`.
        fn jump(op: u8, to: u8, from: u8, number: i32, target: i16, at: i16) -> [u8; 8] {
            instruction(op, to, from, target - at - 1, number)
        }
        const ALWAYS: u8 = 0x05;
        const EQUAL: u8 = 0x15;
        const OTHER: u8 = 0x55;
        const GREATER: u8 = 0x2d;
        let code = [
            copy(6, 1),
            load(WORD, 2, 1, 0),
            load(WORD, 3, 1, 4),
            // ::ffff:0.0.0.0
            instruction(0x7a, 10, 0, -KEY, 0),
            instruction(0x62, 10, 0, -8, 0xffff_0000u32 as i32),
            copy(4, 2),
            add(4, 42),
            jump(GREATER, 4, 3, 0, END, 7),
            // The EtherType, as it lies there.
            load(HALF, 5, 2, 12),
            jump(EQUAL, 5, 0, 0x0008, IPV4, 9),
            jump(EQUAL, 5, 0, 0x0608, ARP, 10),
            jump(OTHER, 5, 0, 0xdd86, END, 11),
            copy(4, 2),
            add(4, 54),
            jump(GREATER, 4, 3, 0, END, 14),
            load(LONG, 4, 2, 38),
            store(LONG, 4, -KEY),
            load(LONG, 4, 2, 46),
            store(LONG, 4, -8),
            jump(ALWAYS, 0, 0, 0, FOUND, 19),
            load(WORD, 4, 2, 30),
            jump(ALWAYS, 0, 0, 0, SHORT, 21),
            load(WORD, 4, 2, 38),
            store(WORD, 4, -4),
            copy(2, 10),
            add(2, -i32::from(KEY)),
            instruction(0x18, 1, OF_MAP, 0, sys::number(&self.map)),
            instruction(0, 0, 0, 0, 0),
            instruction(0x85, 0, 0, 0, LOOKUP),
            jump(EQUAL, 0, 0, 0, END, 29),
            instruction(0xb7, 0, 0, 0, XDP_PASS),
            EXIT,
            copy(1, 6),
        ];
        debug_assert_eq!(code.len(), END as usize + 1);
        code.concat()
    }

    /// From now on it is these.
    pub fn set(&self, addresses: &[IpAddr]) -> io::Result<()> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted: HashSet<_> = addresses.iter().flat_map(|address| keys(*address)).collect();
        for gone in known.difference(&wanted) {
            sys::set_remove(&self.map, gone)?;
        }
        for new in wanted.difference(&known) {
            sys::set_insert(&self.map, new)?;
        }
        *known = wanted;
        Ok(())
    }
}

/// An address, and for IPv6 also the group that its neighbours ask (RFC 4291 section 2.7.1).
fn keys(address: IpAddr) -> impl Iterator<Item = [u8; KEY as usize]> {
    let key = |address: Ipv6Addr| address.octets();
    let (one, group) = match address {
        IpAddr::V4(address) => (Ipv4Addr::to_ipv6_mapped(&address), None),
        IpAddr::V6(address) => {
            let [.., a, b, c] = address.octets();
            let mut group = [0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, 0, 0, 0];
            group[13..].copy_from_slice(&[a, b, c]);
            (address, Some(group))
        }
    };
    [Some(key(one)), group].into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_of_ipv6_has_a_group() {
        let of =
            |text: &str| keys(text.parse().unwrap()).map(|key| Ipv6Addr::from(key).to_string()).collect::<Vec<_>>();
        assert_eq!(of("10.0.1.1"), ["::ffff:10.0.1.1"]);
        assert_eq!(of("fe80::1234:5678"), ["fe80::1234:5678", "ff02::1:ff34:5678"]);
    }
}
