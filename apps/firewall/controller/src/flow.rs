//! Flows as the program has them (`apps/firewall/flow.baker`).

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use dataplane::controller::Record;

/// The tables of flows: those that have seen packets of both sides, and those that wait for them.
pub const TABLES: [&str; 2] = ["flow.flows", "flow.opening"];

/// How far a flow has come, by its number in the program (`state_t`).
pub const STATES: [&str; 9] =
    ["none", "unreplied", "replied", "syn_sent", "syn_received", "established", "fin_wait", "closed", "killed"];
/// The number of those that an operator has ended.
pub const KILLED: u8 = 8;

/// IP's numbers of ICMP and ICMPv6.
const ICMP: [u8; 2] = [1, 58];

/// The two ends of a flow, in the order of their addresses (`flow_key_t`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FlowKey {
    /// The lower address, mapped where it is IPv4's (RFC 4291 section 2.5.5.2).
    pub low: Ipv6Addr,
    /// The other one.
    pub high: Ipv6Addr,
    /// The port of the lower address; of ICMP see [`FlowKey::ends`].
    pub low_port: u16,
    /// The port of the other one.
    pub high_port: u16,
    /// IP's number of the protocol.
    pub protocol: u8,
}

impl FlowKey {
    /// Who has opened the flow, and whom it was opened to. Of queries of ICMP the first port is their identifier, the
    /// second the type of the request.
    pub fn ends(&self, low_first: bool) -> [SocketAddr; 2] {
        let end = |address: Ipv6Addr, port| SocketAddr::new(IpAddr::V6(address).to_canonical(), port);
        let (low, high) = (end(self.low, self.low_port), end(self.high, self.high_port));
        if low_first { [low, high] } else { [high, low] }
    }

    /// Whether its ports are those of queries of ICMP.
    pub fn is_icmp(&self) -> bool {
        ICMP.contains(&self.protocol)
    }
}

impl Record for FlowKey {
    const FIELDS: usize = 5;

    fn to_fields(&self, fields: &mut [u128]) {
        (self.low, self.high, self.low_port, self.high_port, self.protocol).to_fields(fields);
    }

    fn from_fields(fields: &[u128]) -> Option<Self> {
        let (low, high, low_port, high_port, protocol) = Record::from_fields(fields)?;
        Some(FlowKey { low, high, low_port, high_port, protocol })
    }
}

/// What is known of a flow (`flow_t`). Of two numbers the first is of who has opened it, the second of the other side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowEntry {
    /// Of [`STATES`].
    pub state: u8,
    /// That let the first packet pass, counted from 1; 0: none.
    pub rule: u16,
    /// Where that came in.
    pub port: u8,
    /// Whether the lower address has opened the flow.
    pub low_first: bool,
    /// Bit 0: a FIN of who has opened the flow, bit 1: of the other side.
    pub fins: u8,
    /// When the last packet came, in seconds of the monotonic clock from 1 on.
    pub seen: u32,
    /// Of TCP: what the other side has acknowledged.
    pub next: [u32; 2],
    /// When the first packet came, in nanoseconds of the monotonic clock.
    pub began: u64,
    /// When the last one did that was counted.
    pub counted: u64,
    /// Packets that passed while they were counted.
    pub packets: [u64; 2],
    /// Bytes of IP packets that passed.
    pub octets: [u64; 2],
}

impl FlowEntry {
    /// When the last packet came, as well as it is known, in nanoseconds.
    pub fn last(&self) -> u64 {
        (u64::from(self.seen).saturating_sub(1) * 1_000_000_000).max(self.counted).max(self.began)
    }
}

impl Record for FlowEntry {
    const FIELDS: usize = 14;

    fn to_fields(&self, fields: &mut [u128]) {
        let head = (self.state, self.rule, self.port, self.low_first, self.fins);
        let times = (self.began, self.counted);
        (head, (self.seen, self.next), times, self.packets, self.octets).to_fields(fields);
    }

    fn from_fields(fields: &[u128]) -> Option<Self> {
        let (head, (seen, next), (began, counted), packets, octets) = Record::from_fields(fields)?;
        let (state, rule, port, low_first, fins) = head;
        Some(FlowEntry { state, rule, port, low_first, fins, seen, next, began, counted, packets, octets })
    }
}
