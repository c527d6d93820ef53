//! Who has the addresses that servers are reached by: asked for by ARP (RFC 826) and neighbour discovery (RFC 4861).

use std::net::{Ipv4Addr, Ipv6Addr};

use super::path::DataPath;
use super::splicer::Splicer;

/// When they are asked for.
#[derive(Clone, Debug, Default)]
pub struct Neighbours {
    due: u64,
}

/// From question to question, as long as somebody has not answered, and otherwise, in nanoseconds.
const UNKNOWN: u64 = 500_000_000;
const KNOWN: u64 = 30_000_000_000;

impl<P: DataPath> Splicer<P> {
    /// When somebody is to be asked.
    pub(super) fn next_question(&self) -> u64 {
        self.neighbours.due
    }

    /// Others may be wanted now: they are asked for soon.
    pub(super) fn ask_soon(&mut self) {
        self.neighbours.due = 0;
    }

    /// Asks, where it is time.
    pub(super) fn ask_neighbours(&mut self) {
        let now = self.path.now();
        if now < self.neighbours.due {
            return;
        }
        let mut questions = Vec::new();
        let mut unknown = false;
        for known in self.cluster.servers.iter().filter(|known| known.configured) {
            unknown |= known.mac.is_none();
            let interface = &known.interface;
            let question = (interface.port, question(interface.mac, known.server.sources[0], known.server.next_hop));
            if !questions.contains(&question) {
                questions.push(question);
            }
        }
        questions.iter().for_each(|(port, frame)| self.path.send(*port, frame));
        self.neighbours.due = now + if unknown { UNKNOWN } else { KNOWN };
    }

    /// An answer.
    pub fn neighbour(&mut self, frame: &[u8]) {
        let Some((address, mac)) = answer(frame) else { return };
        for known in self.cluster.servers.iter_mut().filter(|known| known.server.next_hop == address) {
            known.mac = Some(mac);
        }
    }
}

/// The frame that asks who has an address.
fn question(own_mac: [u8; 6], own: Ipv6Addr, address: Ipv6Addr) -> Vec<u8> {
    match (own.to_ipv4_mapped(), address.to_ipv4_mapped()) {
        (Some(own), Some(address)) => {
            let mut frame = [&[0xff; 6][..], &own_mac, &[8, 6, 0, 1, 8, 0, 6, 4, 0, 1], &own_mac].concat();
            frame.extend(own.octets());
            frame.extend([0; 6]);
            frame.extend(address.octets());
            frame
        }
        _ => {
            // To the group of those whose addresses end so (RFC 4291 section 2.7.1).
            let last = &address.octets()[13..];
            let group = [&[0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff][..], last].concat();
            let mut icmp = [&[135, 0, 0, 0, 0, 0, 0, 0][..], &address.octets(), &[1, 1], &own_mac].concat();
            let mut sum: u32 = 58 + icmp.len() as u32;
            for word in [&own.octets()[..], &group, &icmp].concat().chunks(2) {
                sum += u32::from(u16::from_be_bytes([word[0], word[1]]));
            }
            let folded = (sum & 0xffff) + (sum >> 16);
            let checksum = !((folded & 0xffff) + (folded >> 16)) as u16;
            icmp[2..4].copy_from_slice(&checksum.to_be_bytes());
            let mac = [&[0x33, 0x33, 0xff][..], last].concat();
            let ip = [0x60, 0, 0, 0, 0, icmp.len() as u8, 58, 255];
            [&mac[..], &own_mac, &[0x86, 0xdd], &ip, &own.octets(), &group, &icmp].concat()
        }
    }
}

/// Who has which address, of an ARP reply or a neighbour advertisement with its option.
fn answer(frame: &[u8]) -> Option<(Ipv6Addr, [u8; 6])> {
    let ipv4 = frame.get(12..14)? == [8, 6];
    if ipv4 {
        let address = Ipv4Addr::from(*frame.get(28..32)?.first_chunk::<4>()?);
        return Some((address.to_ipv6_mapped(), *frame.get(22..28)?.first_chunk()?));
    }
    let target = Ipv6Addr::from(*frame.get(62..78)?.first_chunk::<16>()?);
    // RFC 4861 section 7.1.2: it comes from the link.
    let valid = *frame.get(21)? == 255 && frame.get(54..56)? == [136, 0] && frame.get(78..80)? == [2, 1];
    valid.then_some((target, *frame.get(80..86)?.first_chunk()?))
}
