//! The firewall: flows that it knows, and packets that ask 10 or 10 000 rules. Port 1 is the LAN, port 2 the WAN.

use std::collections::HashSet;
use std::net::Ipv4Addr;

use super::case::{App, Case, Trace};
use crate::frames::{ethernet, frame, ipv4};
use crate::numbers::SplitMix64;

/// Rules and packets, as the controller's own test makes them.
#[path = "../tests/common/rules.rs"]
mod generated;

pub use generated::quiet;
use generated::{Packet, Rule, datagram, first, packets, rules};

/// A gateway at each side.
pub const INSIDE: u64 = 0x0200_0000_0101;
pub const OUTSIDE: u64 = 0x0200_0000_0102;
/// First packets that only warm caches.
const WARM: usize = 1024;
const SYN: u8 = 2;
const ACK: u8 = 16;

/// The case of a name. Flows are as many as it says; `pool` is how many packets there are.
pub fn case(app: &App, name: &str, pool: u32) -> Result<Option<Case>, String> {
    let case = match name {
        "firewall, shipped trace" => app.shipped(name)?,
        "firewall, 4096 flows" => known(app, name, 4096, pool)?,
        "firewall, 100000 flows" => known(app, name, 100_000, pool)?,
        "firewall, 4096 flows, counted" => known(&counting(app), name, 4096, pool)?,
        "firewall, 100000 flows, counted" => known(&counting(app), name, 100_000, pool)?,
        "firewall, 10 rules, first packets" => asking(app, name, 10, pool)?,
        "firewall, 10000 rules, first packets" => asking(app, name, 10_000, pool)?,
        "firewall, 10 rules, established flows" => established(app, name, 10, pool)?,
        "firewall, 10000 rules, established flows" => established(app, name, 10_000, pool)?,
        _ => return Ok(None),
    };
    Ok(Some(case))
}

/// With packets and bytes of flows counted.
fn counting(app: &App) -> App {
    app.with("[tables.flow.counted]\n0 = true\n")
}

/// A TCP segment without data, from the LAN (1) or from the WAN (2).
fn segment(port: u8, flow: u32, flags: u8, numbers: [u32; 2]) -> (u8, Vec<u8>) {
    let (inside, outside) = ((0x0a00_0100 + flow / 16_384, 32_768 + (flow % 16_384) as u16), (0xcb00_7105, 443u16));
    let (from, to) = if port == 1 { (inside, outside) } else { (outside, inside) };
    let mut tcp = [from.1.to_be_bytes(), to.1.to_be_bytes()].concat();
    tcp.extend(numbers.map(u32::to_be_bytes).concat());
    tcp.extend([0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
    let ether = if port == 1 {
        ethernet(INSIDE, 0x0200_0000_0011, 0x0800)
    } else {
        ethernet(OUTSIDE, 0x0200_0000_0022, 0x0800)
    };
    (port, frame(ether, &ipv4(from.0, to.0, 6, &tcp)))
}

/// Segments of random TCP flows of the LAN, from either side. All were opened before.
fn known(app: &App, name: &str, flows: u32, pool: u32) -> Result<Case, String> {
    let handshake = |flow: u32| {
        [
            segment(1, flow, SYN, [1000, 0]),
            segment(2, flow, SYN | ACK, [5000, 1001]),
            segment(1, flow, ACK, [1001, 5001]),
        ]
    };
    let mut numbers = SplitMix64::new(31);
    let mut packet = |_| {
        let flow = numbers.below(flows.into()) as u32;
        let inward = numbers.below(3) != 0;
        segment(1 + u8::from(inward), flow, ACK, if inward { [5001, 1001] } else { [1001, 5001] })
    };
    app.case(name, (0..flows).flat_map(handshake).collect(), (0..pool).map(&mut packet).collect())
}

/// So many packets from the WAN that the rules let in, no two of the same addresses and port: few rules and many have
/// as many flows.
fn permitted(rules: &[Rule], count: usize) -> Vec<Packet> {
    let permits = |packet: &Packet| first(rules, packet).is_some_and(|rule| rules[rule - 1].permit);
    let mut known = HashSet::new();
    let packets = packets(8 * count as u32, rules).into_iter().filter(|packet| known.insert(*packet));
    packets.filter(permits).take(count).collect()
}

/// Each packet comes for the first time, asks so many rules, and opens a flow.
fn asking(app: &App, name: &str, count: u32, pool: u32) -> Result<Case, String> {
    let rules = rules(count);
    let packets = permitted(&rules, WARM + pool as usize);
    let mut frames: Trace =
        packets.iter().enumerate().map(|(number, packet)| (2, generated::frame(packet, number))).collect();
    let packets = frames.split_off(WARM);
    let mut case = app.case(name, frames, packets)?;
    case.config = app.configured(&generated::configuration(&app.example, &rules))?;
    case.once = true;
    Ok(case)
}

/// Packets from either side, of 4096 flows that so many rules let in.
fn established(app: &App, name: &str, count: u32, pool: u32) -> Result<Case, String> {
    let rules = rules(count);
    let both =
        |&(src, dst, port): &Packet| [(2, datagram((src, 1024), (dst, port))), (1, datagram((dst, port), (src, 1024)))];
    let opening: Trace = permitted(&rules, 4096).iter().flat_map(both).collect();
    let mut numbers = SplitMix64::new(32);
    let mut packet = |_| opening[numbers.below(opening.len() as u64) as usize].clone();
    let packets = (0..pool).map(&mut packet).collect();
    let mut case = app.case(name, opening, packets)?;
    case.config = app.configured(&generated::configuration(&app.example, &rules))?;
    Ok(case)
}

/// The same rules for two firewalls.
pub struct Web {
    /// The example's configuration with them.
    pub configuration: String,
    /// As nftables has each.
    pub nftables: Vec<String>,
}

/// So many rules, but for those that decide about TCP to a web server on the LAN from where no rule names; and one
/// behind them that lets it in.
pub fn web(app: &App, count: u32, server: Ipv4Addr, wan: &str) -> Web {
    let contains = |(net, len): (u32, u32)| server.to_bits() >> (32 - len) == net >> (32 - len);
    let decides = |rule: &Rule| rule.from.is_none() && rule.port.is_none() && rule.to.is_none_or(contains);
    let rules: Vec<Rule> = rules(count).into_iter().filter(|rule| !decides(rule)).collect();
    let last =
        format!("{{ action = \"permit\", entry = \"wan\", protocol = \"tcp\", to = \"{server}\", to_port = 80 }}");
    let configuration = generated::configuration(&app.example, &rules).replacen("\n]\n", &format!("\n{last}\n]\n"), 1);
    let mut nftables: Vec<String> = rules.iter().map(as_nftables).collect();
    nftables.push(format!("iifname \"{wan}\" ip daddr {server} tcp dport 80 counter accept"));
    Web { configuration, nftables }
}

/// A rule as nftables has it. Rules count, as the firewall's do.
fn as_nftables(rule: &Rule) -> String {
    let net = |(address, len): (u32, u32)| format!("{}/{len}", Ipv4Addr::from(address));
    let from = rule.from.map_or(String::new(), |from| format!("ip saddr {} ", net(from)));
    let to = rule.to.map_or(String::new(), |to| format!("ip daddr {} ", net(to)));
    let port = rule.port.map_or(String::new(), |port| format!("udp dport {port} "));
    format!("{from}{to}{port}counter {}", if rule.permit { "accept" } else { "drop" })
}

/// UDP from the LAN to the WAN, as many flows, and the answers; for ports whose addresses these are.
pub fn through_gateways(flows: u32, gates: [u64; 2]) -> [Vec<Vec<u8>>; 2] {
    let datagrams = |out: bool| {
        let flow = |flow: u32| {
            let (inside, outside) = ((0x0a08_0000 + flow, 5000), (0xcb00_7105, 53));
            let mut frame = if out { datagram(inside, outside) } else { datagram(outside, inside) };
            frame[..6].copy_from_slice(&gates[usize::from(!out)].to_be_bytes()[2..]);
            frame
        };
        (0..flows).map(flow).collect()
    };
    [datagrams(true), datagrams(false)]
}
