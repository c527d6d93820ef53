//! A rule of the firewall, and when one makes another useless.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;

/// The first rule that matches a packet decides about it. Lists that are empty match everything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Its name; may be empty.
    pub name: String,
    /// Line of the configuration where it begins, counted from 1.
    pub line: usize,
    /// Whether matching packets pass.
    pub permit: bool,
    /// Ports of entry: bit N stands for port N.
    pub entry: u64,
    /// IP protocol.
    pub protocol: Option<u8>,
    /// Source addresses.
    pub from: Vec<Net>,
    /// Destination addresses.
    pub to: Vec<Net>,
    /// Source ports.
    pub from_ports: Vec<Range>,
    /// Destination ports; of ICMP, type and code.
    pub services: Vec<Range>,
}

/// Ports.
pub type Range = RangeInclusive<u16>;

/// A prefix of either version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Net {
    /// Whether it is one of IPv6.
    pub v6: bool,
    /// Its address; bits beyond the length are 0.
    pub address: u128,
    /// Its length in bits, 32 or 128 at most.
    pub len: u32,
}

impl Net {
    /// Reads `ADDRESS` or `ADDRESS/LENGTH`.
    pub fn parse(text: &str) -> Option<Net> {
        let (address, len) = text.split_once('/').map_or((text, None), |(address, len)| (address, Some(len)));
        let v4 = address.parse::<Ipv4Addr>().ok().map(|address| (false, u128::from(u32::from(address)), 32));
        let v6 = || address.parse::<Ipv6Addr>().ok().map(|address| (true, u128::from(address), 128));
        let (v6, address, width) = v4.or_else(v6)?;
        let len = len.map_or(Some(width), |len| len.parse().ok().filter(|len| *len <= width))?;
        let net = Net { v6, address, len };
        (net.first_bits(address) == address).then_some(net)
    }

    /// Whether all addresses of the other are of this.
    pub fn covers(&self, other: &Net) -> bool {
        self.v6 == other.v6 && self.len <= other.len && self.first_bits(other.address) == self.address
    }

    /// An address without the bits beyond this one's length.
    fn first_bits(&self, address: u128) -> u128 {
        let width = if self.v6 { 128 } else { 32 };
        address.checked_shr(width - self.len).map_or(0, |bits| bits << (width - self.len))
    }
}

impl Rule {
    /// Whether every packet that the other matches is matched by this. Unions are not looked at: each part of the other
    /// must lie in one part of this.
    pub fn covers(&self, other: &Rule) -> bool {
        fn all<T>(own: &[T], others: &[T], covers: impl Fn(&T, &T) -> bool) -> bool {
            own.is_empty()
                || (!others.is_empty() && others.iter().all(|other| own.iter().any(|own| covers(own, other))))
        }
        let range = |own: &Range, other: &Range| own.start() <= other.start() && other.end() <= own.end();
        self.entry & other.entry == other.entry
            && (self.protocol.is_none() || self.protocol == other.protocol)
            && all(&self.from, &other.from, Net::covers)
            && all(&self.to, &other.to, Net::covers)
            && all(&self.services, &other.services, range)
            && all(&self.from_ports, &other.from_ports, range)
    }

    /// For messages: its number, counted from 1, with its name and line.
    pub fn shown(&self, number: usize) -> String {
        let name = if self.name.is_empty() { String::new() } else { format!(" {:?}", self.name) };
        format!("rule {number}{name} (line {})", self.line)
    }
}

/// Rules that no packet reaches: the index of each, with that of the first rule that covers it.
pub fn shadowed(rules: &[Rule]) -> Vec<(usize, usize)> {
    let covered = |index: usize| rules[..index].iter().position(|earlier| earlier.covers(&rules[index]));
    (0..rules.len()).filter_map(|index| Some((index, covered(index)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn net(text: &str) -> Net {
        Net::parse(text).unwrap_or_else(|| panic!("{text}"))
    }

    #[test]
    fn prefixes_are_read() {
        assert_eq!(net("10.1.2.3"), Net { v6: false, address: 0x0a01_0203, len: 32 });
        assert_eq!(net("0.0.0.0/0"), Net { v6: false, address: 0, len: 0 });
        assert_eq!(net("2001:db8::/32"), Net { v6: true, address: 0x2001_0db8 << 96, len: 32 });
        assert_eq!(net("::/0").len, 0);
        for wrong in ["", "10.0.0.1/24", "10.0.0.0/33", "10.0.0/8", "::1/0", "2001:db8::/129", "10.0.0.0/", "lan"] {
            assert_eq!(Net::parse(wrong), None, "{wrong}");
        }
        assert!(net("10.0.0.0/8").covers(&net("10.255.0.0/16")));
        assert!(net("0.0.0.0/0").covers(&net("10.0.0.1")));
        assert!(!net("10.0.0.0/8").covers(&net("11.0.0.0/16")));
        assert!(!net("10.0.0.0/16").covers(&net("10.0.0.0/8")));
        assert!(!net("::/0").covers(&net("10.0.0.1")));
    }
}
