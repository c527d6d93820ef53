//! The 4-tuple that flow entries and connections are found by.

use std::net::Ipv6Addr;

/// The 4-tuple of the segments of one direction. IPv4 addresses are mapped (RFC 4291 section 2.5.5.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FlowKey {
    /// The sender's address.
    pub src: Ipv6Addr,
    /// The receiver's address.
    pub dst: Ipv6Addr,
    /// The sender's port.
    pub src_port: u16,
    /// The receiver's port.
    pub dst_port: u16,
}

impl FlowKey {
    /// Of no connection.
    pub const UNSPECIFIED: FlowKey =
        FlowKey { src: Ipv6Addr::UNSPECIFIED, dst: Ipv6Addr::UNSPECIFIED, src_port: 0, dst_port: 0 };

    /// The other direction.
    pub fn reversed(self) -> FlowKey {
        FlowKey { src: self.dst, dst: self.src, src_port: self.dst_port, dst_port: self.src_port }
    }
}
