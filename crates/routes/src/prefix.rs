//! Prefixes of IPv4 and IPv6.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An address whose bits beyond the length are zero, and the length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Prefix {
    address: IpAddr,
    len: u8,
}

/// Bits of an address of this family.
pub fn width(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

impl Prefix {
    /// The addresses that have the first `len` bits of this one; no more bits than it has.
    pub fn new(address: IpAddr, len: u8) -> Prefix {
        let len = len.min(width(address));
        let address = match address {
            IpAddr::V4(v4) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(len)).unwrap_or(0);
                IpAddr::V4(Ipv4Addr::from(u32::from(v4) & mask))
            }
            IpAddr::V6(v6) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(len)).unwrap_or(0);
                IpAddr::V6(Ipv6Addr::from(u128::from(v6) & mask))
            }
        };
        Prefix { address, len }
    }

    /// This address alone.
    pub fn host(address: IpAddr) -> Prefix {
        Prefix { address, len: width(address) }
    }

    /// Its first address.
    pub fn address(&self) -> IpAddr {
        self.address
    }

    /// Its length in bits.
    pub fn len(&self) -> u8 {
        self.len
    }

    /// The address that it stands for, where it is that of one alone.
    pub fn single(&self) -> Option<IpAddr> {
        (self.len == width(self.address)).then_some(self.address)
    }

    /// Whether an address is one of it.
    pub fn contains(&self, address: IpAddr) -> bool {
        address.is_ipv4() == self.address.is_ipv4() && Prefix::new(address, self.len).address == self.address
    }

    /// Its last address.
    pub fn last(&self) -> IpAddr {
        match self.address {
            IpAddr::V4(v4) => {
                let hosts = u32::MAX.checked_shr(u32::from(self.len)).unwrap_or(0);
                IpAddr::V4(Ipv4Addr::from(u32::from(v4) | hosts))
            }
            IpAddr::V6(v6) => {
                let hosts = u128::MAX.checked_shr(u32::from(self.len)).unwrap_or(0);
                IpAddr::V6(Ipv6Addr::from(u128::from(v6) | hosts))
            }
        }
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_hold_their_addresses_and_no_others() {
        let prefix = |text: &str, len| Prefix::new(text.parse().unwrap(), len);
        let all = [
            (prefix("10.1.2.3", 8), "10.0.0.0/8", "10.255.255.255"),
            (prefix("10.1.2.3", 0), "0.0.0.0/0", "255.255.255.255"),
            (prefix("10.1.2.3", 40), "10.1.2.3/32", "10.1.2.3"),
            (prefix("2001:db8::1", 32), "2001:db8::/32", "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff"),
            (prefix("2001:db8::1", 0), "::/0", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
            (prefix("2001:db8::1", 128), "2001:db8::1/128", "2001:db8::1"),
        ];
        for (prefix, shown, last) in all {
            assert_eq!((prefix.to_string().as_str(), prefix.last().to_string().as_str()), (shown, last));
            assert!(prefix.contains(prefix.address()) && prefix.contains(prefix.last()));
        }
        assert!(!prefix("10.0.0.0", 8).contains("11.0.0.0".parse().unwrap()));
        assert!(!prefix("0.0.0.0", 0).contains("::".parse().unwrap()));
        assert_eq!(prefix("10.1.2.3", 32).single(), Some("10.1.2.3".parse().unwrap()));
        assert_eq!(prefix("10.1.2.3", 31).single(), None);
    }
}
