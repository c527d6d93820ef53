//! What is in the switch's tables, and the packets that go with it: the same for all systems.
//!
//! Two domains, bridged inside and routed between. Port 1 (and 3) is in domain 1, port 2 in domain 2, where the
//! gateways are that routes lead to.

use std::net::Ipv4Addr;

use baker::ir::{Program, TableEntry, TableId, TableStore};

use crate::frames::{ethernet, frame, ipv4};
use lab::{Flow, Transport};

use crate::numbers::SplitMix64;
use crate::routes::{self, Route};
use crate::veth::bytes;

/// A port, with the router's address there.
pub struct Port {
    pub number: u8,
    pub domain: u8,
    pub mac: u64,
}

/// Where routes lead.
pub struct NextHop {
    pub index: u32,
    pub domain: u8,
    pub gateway: u32,
    pub src: u64,
}

/// A station that is known at the start.
pub struct Station {
    pub domain: u8,
    pub mac: u64,
    pub port: u8,
}

/// Sizes of the hash tables.
#[derive(Clone, Copy)]
pub struct Capacity {
    pub neighbours: u32,
    pub stations: u32,
    pub local_addrs: u32,
}

/// Contents of all tables.
pub struct Setup {
    pub capacity: Capacity,
    pub ports: Vec<Port>,
    pub members: Vec<(u8, u64)>,
    pub next_hops: Vec<NextHop>,
    pub routes: Vec<Route>,
    pub neighbours: Vec<(u32, u64)>,
    pub local_addrs: Vec<u32>,
    pub stations: Vec<Station>,
}

/// The router's address at a port.
pub const ROUTER: u64 = 0x0200_0000_0100;
/// The host on port 1 that sends.
pub const SENDER: u64 = 0x0200_0000_0011;
/// A host on port 3, in the sender's domain.
pub const NEIGHBOUR: u64 = 0x0200_0000_0012;
/// The table of stations.
pub const STATIONS: &str = "l2_bridge.stations";
const GATEWAY_MAC: u64 = 0x0200_0001_0000;
const GATEWAY: u32 = 0x0a00_020a;

impl Setup {
    /// With this many routes, behind 16 gateways, or 256 where there are many routes.
    pub fn new(program: &Program, routes: u32) -> Self {
        let capacity = |name| {
            let table = program.tables.iter().find(|table| table.name == name);
            table.map_or(0, |table| table.capacity)
        };
        let gateways = if routes > 256 { 256 } else { 16 };
        let port = |number, domain, mac| Port { number, domain, mac };
        let gateway = |index: u32| (GATEWAY + index, GATEWAY_MAC + u64::from(index));
        let hop = |index: u32| NextHop { index: index + 1, domain: 2, gateway: gateway(index).0, src: ROUTER + 2 };
        let station = |domain, mac, port| Station { domain, mac, port };
        let mut stations = vec![station(1, SENDER, 1), station(1, NEIGHBOUR, 3)];
        stations.extend((0..gateways).map(|index| station(2, gateway(index).1, 2)));
        Setup {
            capacity: Capacity {
                neighbours: capacity("l3_forward.neighbours"),
                stations: capacity(STATIONS),
                local_addrs: capacity("l3_forward.local_addrs"),
            },
            ports: vec![port(1, 1, ROUTER + 1), port(2, 2, ROUTER + 2), port(3, 1, ROUTER + 1)],
            members: vec![(1, 1 << 1 | 1 << 3), (2, 1 << 2)],
            next_hops: (0..gateways).map(hop).collect(),
            routes: routes::like_the_internet(routes, gateways),
            neighbours: (0..gateways).map(gateway).collect(),
            local_addrs: vec![0x0a00_0101, 0x0a00_0201],
            stations,
        }
    }

    /// Fills the tables of the Baker program.
    pub fn fill(&self, program: &Program, tables: &mut impl TableStore) -> Result<(), String> {
        let mut add = |name: &str, key: &[u64], prefix_len: Option<u32>, value: &[u64]| {
            let wide = |numbers: &[u64]| numbers.iter().map(|&n| n.into()).collect();
            let entry = TableEntry { key: wide(key), prefix_len, value: wide(value) };
            tables.insert(table(program, name)?, &entry).map_err(|e| format!("{name}: {e}"))
        };
        for port in &self.ports {
            let key = [port.number.into()];
            add("l3_switch.mac_addrs", &key, None, &[port.mac])?;
            add("l3_switch.domains", &key, None, &[port.domain.into()])?;
            add(baker::ir::PORT_MTU, &key, None, &[baker::ir::DEFAULT_MTU.into()])?;
        }
        for &(domain, ports) in &self.members {
            add("l2_bridge.members", &[domain.into()], None, &[ports])?;
        }
        for hop in &self.next_hops {
            let value = [hop.domain.into(), hop.gateway.into(), hop.src];
            add("l3_forward.next_hops", &[hop.index.into()], None, &value)?;
        }
        for route in &self.routes {
            add("l3_forward.fib", &[route.prefix.into()], Some(route.len.into()), &[route.next_hop.into()])?;
        }
        for &(address, mac) in &self.neighbours {
            add("l3_forward.neighbours", &[address.into()], None, &[mac, 0])?;
        }
        for &address in &self.local_addrs {
            add("l3_forward.local_addrs", &[address.into()], None, &[1])?;
        }
        for station in &self.stations {
            add(STATIONS, &[station.domain.into(), station.mac], None, &[station.port.into(), 0])?;
        }
        Ok(())
    }

    /// Flows to random hosts of random routes.
    pub fn routed_flows(&self, count: u16) -> Vec<Flow> {
        let mut numbers = SplitMix64::new(9);
        let flow = |port| {
            let route = self.routes[numbers.below(self.routes.len() as u64) as usize];
            let to = Ipv4Addr::from_bits(route.host(&mut numbers));
            Flow {
                mac: (bytes(SENDER), bytes(ROUTER + 1)),
                address: (Ipv4Addr::new(10, 0, 1, 11).into(), to.into()),
                transport: Transport::Udp { ports: (port, 9) },
            }
        };
        (0..count).map(flow).collect()
    }

    /// Routed packets to random hosts of random routes.
    pub fn routed(&self, count: u32) -> Vec<Vec<u8>> {
        let mut numbers = SplitMix64::new(7);
        let packet = |index| {
            let route = self.routes[numbers.below(self.routes.len() as u64) as usize];
            packet(ROUTER + 1, SENDER, route.host(&mut numbers), index)
        };
        (0..count).map(packet).collect()
    }

    /// Makes so many stations known behind ports 1 and 3 each; packets from a random one of port 1 to one of port 3.
    pub fn flows(&mut self, flows: u32, count: u32) -> Vec<Vec<u8>> {
        let mac = |side: u64, index: u64| 0x0600_0000_0000 | side << 32 | index;
        for index in 0..u64::from(flows) {
            self.stations.push(Station { domain: 1, mac: mac(1, index), port: 1 });
            self.stations.push(Station { domain: 1, mac: mac(3, index), port: 3 });
        }
        let mut numbers = SplitMix64::new(11);
        let packet = |index| {
            let flow = numbers.below(flows.into());
            packet(mac(3, flow), mac(1, flow), 0x0a00_010c, index)
        };
        (0..count).map(packet).collect()
    }

    /// Packets from the sender to its neighbour in the same domain.
    pub fn bridged(&self, count: u32) -> Vec<Vec<u8>> {
        (0..count).map(|index| packet(NEIGHBOUR, SENDER, 0x0a00_010c, index)).collect()
    }
}

/// A table of the program, by name.
pub fn table(program: &Program, name: &str) -> Result<TableId, String> {
    let index = program.tables.iter().position(|table| table.name == name);
    index.map(|index| TableId(index as u32)).ok_or_else(|| format!("there is no table {name}"))
}

/// UDP, 64 bytes with the frame check sequence.
pub fn packet(dst: u64, src: u64, to: u32, index: u32) -> Vec<u8> {
    // No more than the beginning of a UDP header: it is not looked at.
    let data = [&(index as u16).to_be_bytes()[..], &[0; 24]].concat();
    frame(ethernet(dst, src, 0x0800), &ipv4(0x0a00_010b, to, 17, &data))
}
