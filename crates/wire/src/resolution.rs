//! Questions after Ethernet addresses, and their answers, as frames: ARP (RFC 826) and neighbour discovery (RFC 4861).

use std::net::{Ipv4Addr, Ipv6Addr};

use super::bytes::at;
use super::checksum::checksum;

/// Kinds of ICMPv6 messages (RFC 4861 sections 4.3 and 4.4).
const SOLICITATION: u8 = 135;
const ADVERTISEMENT: u8 = 136;
/// Flags of an advertisement: it answers a question, and counts more than what is known.
const SOLICITED: u8 = 0x40;
const OVERRIDE: u8 = 0x20;
/// The option with the Ethernet address of the station that an advertisement is about.
const TARGET_LINK_LAYER: u8 = 2;
/// What ARP says of Ethernet and IPv4, up to its operation.
const ARP_IPV4: [u8; 6] = [0, 1, 8, 0, 6, 4];

/// The sender: an Ethernet address and one of IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Requester {
    /// The Ethernet address.
    pub mac: [u8; 6],
    /// The address.
    pub address: Ipv6Addr,
}

/// The station that says that it has an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The address.
    pub address: Ipv6Addr,
    /// The Ethernet address; an advertisement may be without.
    pub mac: Option<[u8; 6]>,
    /// The receiver: an Ethernet address, of ARP alone, and one of IP.
    to_mac: Option<[u8; 6]>,
    to: Ipv6Addr,
    /// Whether it says that it was asked.
    solicited: bool,
    /// Whether it counts more than what is known.
    pub overrides: bool,
}

/// The frame that asks for an address: a station directly, or all on the link.
pub fn question(own: &Requester, address: Ipv6Addr, station: Option<[u8; 6]>) -> Vec<u8> {
    match (own.address.to_ipv4_mapped(), address.to_ipv4_mapped()) {
        (Some(source), Some(address)) => {
            let to = station.unwrap_or([0xff; 6]);
            let mut frame = [&to[..], &own.mac, &[8, 6], &ARP_IPV4, &[0, 1], &own.mac].concat();
            frame.extend(source.octets());
            frame.extend([0; 6]);
            frame.extend(address.octets());
            frame
        }
        _ => {
            // To the group of those whose addresses end so (RFC 4291 section 2.7.1).
            let last = &address.octets()[13..];
            let (to, mac) = match station {
                Some(mac) => (address, mac),
                None => {
                    let segments = address.segments();
                    let group = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00 | (segments[6] & 0xff), segments[7]);
                    (group, [0x33, 0x33, 0xff, last[0], last[1], last[2]])
                }
            };
            let mut icmp = [&[SOLICITATION, 0, 0, 0, 0, 0, 0, 0][..], &address.octets(), &[1, 1], &own.mac].concat();
            let sum = checksum(&icmp, pseudo(own.address, to, icmp.len()));
            icmp[2..4].copy_from_slice(&sum.to_be_bytes());
            let ip = [0x60, 0, 0, 0, 0, icmp.len() as u8, 58, 255];
            [&mac[..], &own.mac, &[0x86, 0xdd], &ip, &own.address.octets(), &to.octets(), &icmp].concat()
        }
    }
}

/// The sum of the pseudo header of ICMPv6 (RFC 8200 section 8.1).
fn pseudo(src: Ipv6Addr, dst: Ipv6Addr, length: usize) -> u32 {
    let words = src.segments().into_iter().chain(dst.segments()).map(u32::from);
    words.sum::<u32>() + 58 + length as u32
}

impl Answer {
    /// Reads a frame. None where it is no answer, or none that may be believed.
    pub fn parse(frame: &[u8]) -> Option<Answer> {
        let answer = match at(frame, 12)? {
            [8, 6] => Answer::of_arp(frame.get(14..)?),
            [0x86, 0xdd] => Answer::of_advertisement(frame.get(14..)?),
            _ => None,
        }?;
        // A station is no group, and not zero.
        let is_station = |mac: &[u8; 6]| mac[0] & 1 == 0 && *mac != [0; 6];
        answer.mac.is_none_or(|mac| is_station(&mac)).then_some(answer)
    }

    fn of_arp(arp: &[u8]) -> Option<Answer> {
        let address = |place| Some(Ipv4Addr::from(at::<4>(arp, place)?).to_ipv6_mapped());
        let is_reply = at(arp, 0)? == ARP_IPV4 && at(arp, 6)? == [0, 2];
        let (to_mac, to) = (Some(at(arp, 18)?), address(24)?);
        let (address, mac) = (address(14)?, Some(at(arp, 8)?));
        is_reply.then_some(Answer { address, mac, to_mac, to, solicited: true, overrides: true })
    }

    /// RFC 4861 section 7.1.2.
    fn of_advertisement(ip: &[u8]) -> Option<Answer> {
        let length = usize::from(u16::from_be_bytes(at(ip, 4)?));
        let (src, to) = (Ipv6Addr::from(at::<16>(ip, 8)?), Ipv6Addr::from(at::<16>(ip, 24)?));
        let icmp = ip.get(40..40 + length)?;
        let address = Ipv6Addr::from(at::<16>(icmp, 8)?);
        let flags = *icmp.get(4)?;
        let solicited = flags & SOLICITED != 0;
        // It comes from the link, and from a station.
        let is_valid = ip[0] >> 4 == 6
            && ip[6..8] == [58, 255]
            && icmp[..2] == [ADVERTISEMENT, 0]
            && checksum(icmp, pseudo(src, to, length)) == 0
            && !(src.is_multicast() || src.is_unspecified() || address.is_multicast())
            && !(solicited && to.is_multicast());
        if !is_valid {
            return None;
        }
        let (mut mac, mut options) = (None, &icmp[24..]);
        while let [kind, words, ..] = options {
            let (own, rest) = options.split_at_checked(8 * usize::from(*words)).filter(|(own, _)| !own.is_empty())?;
            if (*kind, own.len()) == (TARGET_LINK_LAYER, 8) {
                mac = at(own, 2);
            }
            options = rest;
        }
        let overrides = flags & OVERRIDE != 0;
        options.is_empty().then_some(Answer { address, mac, to_mac: None, to, solicited, overrides })
    }

    /// Whether it answers its sender.
    pub fn is_for(&self, requester: &Requester) -> bool {
        self.solicited && self.to == requester.address && self.to_mac.is_none_or(|mac| mac == requester.mac)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const OWN: [u8; 6] = [2, 0, 0, 0, 2, 0xfe];
    const STATION: [u8; 6] = [2, 0, 0, 0, 2, 0x11];
    /// An advertisement, as computed apart from this.
    const ADVERTISED: &str = "0200000002fe02000000021186dd6000000000203aff20010db800020000000000000000001120010db800020000\
        0000000000000254880085eb6000000020010db80002000000000000000000110201020000000211";

    fn bytes(hex: &str) -> Vec<u8> {
        (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
    }

    fn requester(address: &str) -> Requester {
        Requester { mac: OWN, address: address.parse().unwrap() }
    }

    #[test]
    fn questions_are_for_a_station_or_for_all() {
        let asks = |own: &str, address: &str, station| question(&requester(own), address.parse().unwrap(), station);
        let arp = "08060001080006040001".to_owned() + "0200000002fe" + "0a0002fe" + "000000000000" + "0a00020b";
        let found = asks("::ffff:10.0.2.254", "::ffff:10.0.2.11", None);
        assert_eq!(found, bytes(&("ffffffffffff0200000002fe".to_owned() + &arp)));
        let found = asks("::ffff:10.0.2.254", "::ffff:10.0.2.11", Some(STATION));
        assert_eq!(found, bytes(&("0200000002110200000002fe".to_owned() + &arp)));
        let six = |station| asks("2001:db8:2::254", "2001:db8:2::11", station);
        assert_eq!(
            six(None),
            bytes(
                "3333ff0000110200000002fe86dd6000000000203aff20010db8000200000000000000000254ff02000000000000\
            00000001ff000011870016b50000000020010db800020000000000000000001101010200000002fe"
            )
        );
        assert_eq!(
            six(Some(STATION)),
            bytes(
                "0200000002110200000002fe86dd6000000000203aff20010db800020000000000000000025420010db800020000\
            00000000000000118700e6fe0000000020010db800020000000000000000001101010200000002fe"
            )
        );
    }

    #[test]
    fn what_is_no_answer_is_told() {
        let good = bytes(ADVERTISED);
        let answer = Answer::parse(&good).unwrap();
        assert_eq!((answer.address, answer.mac), ("2001:db8:2::11".parse().unwrap(), Some(STATION)));
        assert!(
            answer.overrides
                && answer.is_for(&requester("2001:db8:2::254"))
                && !answer.is_for(&requester("2001:db8:2::253"))
        );
        // Each of its bytes counts, but for the Ethernet addresses, class and label, and what is reserved: the checksum
        // sees it.
        for at in (12..good.len()).filter(|at| !(14..18).contains(at)) {
            let mut changed = good.clone();
            changed[at] ^= 1;
            assert_eq!(Answer::parse(&changed), None, "byte {at}");
        }
        for end in 0..good.len() {
            assert_eq!(Answer::parse(&good[..end]), None, "{end} bytes");
        }
        // Right checksums and: a hop limit of 64, an option of no bytes, one of more than there are, no station's
        // Ethernet address, a group's, and one that says that it was asked for but is for a group.
        for hex in [
            "0200000002fe02000000021186dd6000000000203a4020010db800020000000000000000001120010db800020000\
             0000000000000254880085eb6000000020010db80002000000000000000000110201020000000211",
            "0200000002fe02000000021186dd6000000000203aff20010db800020000000000000000001120010db800020000\
             000000000000025488008bfd6000000020010db80002000000000000000000110000000000000000",
            "0200000002fe02000000021186dd6000000000203aff20010db800020000000000000000001120010db800020000\
             0000000000000254880085ea6000000020010db80002000000000000000000110202020000000211",
            "0200000002fe02000000021186dd6000000000203aff20010db800020000000000000000001120010db800020000\
             0000000000000254880089fc6000000020010db80002000000000000000000110201000000000000",
            "0200000002fe02000000021186dd6000000000203aff20010db800020000000000000000001120010db800020000\
             0000000000000254880084eb6000000020010db80002000000000000000000110201030000000211",
            "0200000002fe02000000021186dd6000000000203aff20010db8000200000000000000000011ff02000000000000\
             00000000000000018800b6f66000000020010db80002000000000000000000110201020000000211",
        ] {
            assert_eq!(Answer::parse(&bytes(hex)), None, "{hex}");
        }
        // A station that is asked directly need not say its Ethernet address.
        let bare = bytes(
            "0200000002fe02000000021186dd6000000000183aff20010db800020000000000000000001120010db800020000000000000000025488008c056000000020010db8000200000000000000000011",
        );
        assert_eq!(Answer::parse(&bare).map(|own| own.mac), Some(None));
    }

    #[test]
    fn arp_that_is_no_reply_is_told() {
        let good = bytes("0200000002fe020000000211080600010800060400020200000002110a00020b0200000002fe0a0002fe");
        let answer = Answer::parse(&good).unwrap();
        assert_eq!((answer.address, answer.mac), ("::ffff:10.0.2.11".parse().unwrap(), Some(STATION)));
        assert!(answer.is_for(&requester("::ffff:10.0.2.254")) && !answer.is_for(&requester("::ffff:10.0.2.253")));
        let other = Requester { mac: [4; 6], ..requester("::ffff:10.0.2.254") };
        assert!(!answer.is_for(&other));
        for (at, byte) in [(15, 6), (16, 0x86), (18, 8), (19, 16), (21, 1), (21, 4), (22, 3)] {
            let mut changed = good.clone();
            changed[at] = byte;
            assert_eq!(Answer::parse(&changed), None, "byte {at}");
        }
        let mut zero = good.clone();
        zero[22..28].fill(0);
        assert_eq!((Answer::parse(&zero), Answer::parse(&good[..41])), (None, None));
    }

    proptest! {
        #[test]
        fn nothing_that_comes_is_a_panic(mut frame in prop::collection::vec(any::<u8>(), 0..120), v6: bool) {
            if frame.len() > 14 {
                frame[12..14].copy_from_slice(if v6 { &[0x86, 0xdd] } else { &[8, 6] });
            }
            let _ = Answer::parse(&frame);
        }
    }
}
