//! 4-tuples as the program's tables have them for keys (`ends_t`).

use std::net::Ipv6Addr;

use wire::flow_key::FlowKey;

/// Source and destination, and their ports.
pub type Key = (Ipv6Addr, Ipv6Addr, u16, u16);

/// The key of a 4-tuple.
pub fn key(own: &FlowKey) -> Key {
    (own.src, own.dst, own.src_port, own.dst_port)
}

/// The 4-tuple of a key.
pub fn of_key((src, dst, src_port, dst_port): Key) -> FlowKey {
    FlowKey { src, dst, src_port, dst_port }
}
