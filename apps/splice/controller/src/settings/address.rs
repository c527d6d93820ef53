//! Addresses as they are written, and as the splicer has them: all of IPv6, those of IPv4 mapped.

use std::net::{IpAddr, Ipv6Addr};

/// An address of either version as one of IPv6.
pub fn mapped(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    }
}

/// Whether an address has a prefix.
pub fn holds((own, length): (Ipv6Addr, u8), address: Ipv6Addr) -> bool {
    let differ = u128::from(own) ^ u128::from(address);
    differ.checked_shr(128 - u32::from(length)).unwrap_or(0) == 0
}

/// An address and port as they are written.
pub fn text_of(address: Ipv6Addr, port: u16) -> String {
    match address.to_ipv4_mapped() {
        Some(v4) => format!("{v4}:{port}"),
        None => format!("[{address}]:{port}"),
    }
}
