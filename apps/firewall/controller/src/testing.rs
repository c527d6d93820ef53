//! Flows and names of rules for unit tests.

use std::net::{IpAddr, SocketAddr};

use super::flow::{FlowEntry, FlowKey};

/// A flow of a client with a server: its protocol, state and rule.
pub fn flow(client: &str, server: &str, protocol: u8, state: u8, rule: u16) -> (FlowKey, FlowEntry) {
    let [client, server]: [SocketAddr; 2] = [client, server].map(|text| text.parse().unwrap());
    let mapped = |own: SocketAddr| match own.ip() {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    };
    let low_first = mapped(client) < mapped(server);
    let (low, high) = if low_first { (client, server) } else { (server, client) };
    let ends = (mapped(low), mapped(high));
    let key = FlowKey { low: ends.0, high: ends.1, low_port: low.port(), high_port: high.port(), protocol };
    let octets = [100, 2000];
    (
        key,
        FlowEntry {
            state,
            rule,
            port: 1,
            low_first,
            fins: 0,
            seen: 1,
            next: [0; 2],
            began: 5_000_000,
            counted: 7_000_000,
            packets: [1, 2],
            octets,
        },
    )
}

/// Names of four rules; one has none.
pub fn names() -> Vec<String> {
    ["web", "", "games", "web"].map(str::to_owned).to_vec()
}
