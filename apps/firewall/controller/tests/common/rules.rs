//! Rules of the firewall and packets that ask them, made from numbers; the benchmarks use them, too.

use std::net::Ipv4Addr;

/// Rules that name one address, the other, both or none, in turn. All of IPv4, and with one port at most.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// Else it denies.
    pub permit: bool,
    pub from: Option<(u32, u32)>,
    pub to: Option<(u32, u32)>,
    /// Of UDP.
    pub port: Option<u16>,
}

/// Source, destination and port of a UDP packet that comes in at the WAN.
pub type Packet = (u32, u32, u16);

/// A number from a number, as good as drawn by lot.
fn mix(number: u32) -> u32 {
    let mut z = number.wrapping_mul(0x9e37_79b9) ^ 0x5bd1_e995;
    z = (z ^ z >> 16).wrapping_mul(0x85eb_ca6b);
    z = (z ^ z >> 13).wrapping_mul(0xc2b2_ae35);
    z ^ z >> 16
}

/// An address of the LAN.
pub fn inside(number: u32) -> u32 {
    0x0a00_0000 | mix(number) & 0xffff
}

/// An address of the WAN.
pub fn outside(number: u32) -> u32 {
    0xc600_0000 | mix(number ^ 0x1111) & 0xf_ffff
}

/// So many rules.
pub fn rules(count: u32) -> Vec<Rule> {
    let net = |address: u32, len: u32| Some((address >> (32 - len) << (32 - len), len));
    let rule = |number: u32| {
        let (permit, port) = (!mix(number ^ 7).is_multiple_of(3), Some((mix(number ^ 9) % 1000) as u16 + 1));
        match number % 10 {
            0..4 => Rule { permit: true, from: None, to: net(inside(number), 32), port },
            4..6 => Rule { permit: false, from: net(outside(number), 20 + number % 13), to: None, port: None },
            6..9 => Rule { permit, from: net(outside(number), 24), to: net(inside(number), 32 - number % 5), port },
            // What concerns all is at the end.
            _ if number > count / 2 => Rule { permit, from: None, to: None, port },
            _ => Rule { permit, from: None, to: net(inside(number), 28), port: None },
        }
    };
    (0..count).map(rule).collect()
}

/// A configuration with these rules in place of its own.
pub fn configuration(text: &str, rules: &[Rule]) -> String {
    let net = |(address, len): (u32, u32)| format!("\"{}/{len}\"", Ipv4Addr::from(address));
    let (start, rest) = text.split_once("rules = [").expect("the example has rules");
    let (_, end) = rest.split_once("\n]\n").expect("the rules end");
    let line = |rule: &Rule| {
        let mut line = format!("{{ action = {:?}", if rule.permit { "permit" } else { "deny" });
        rule.from.iter().for_each(|from| line += &format!(", from = {}", net(*from)));
        rule.to.iter().for_each(|to| line += &format!(", to = {}", net(*to)));
        rule.port.iter().for_each(|port| line += &format!(", protocol = \"udp\", to_port = {port}"));
        line + " },\n"
    };
    format!("{start}rules = [\n{}]\n{end}", rules.iter().map(line).collect::<String>())
}

/// A configuration without a log, which would be outputs too.
pub fn quiet(example: &str) -> String {
    let quiet = example.replace("0 = { rate = 10, burst = 20 }", "0 = { rate = 0, burst = 0 }");
    assert_ne!(quiet, example);
    quiet
}

/// What comes in at the WAN. Half of the packets are made for a rule.
pub fn packets(count: u32, rules: &[Rule]) -> Vec<Packet> {
    let packet = |number: u32| {
        let rule = &rules[mix(number) as usize % rules.len()];
        let (from, to) = (outside(number ^ 0x5555), inside(number ^ 0x3333));
        let within = |net: Option<(u32, u32)>, other: u32| {
            net.filter(|_| number.is_multiple_of(2))
                .map_or(other, |(address, len)| address | mix(number) & !(u32::MAX << ((32 - len) % 32)))
        };
        let port = rule.port.filter(|_| number.is_multiple_of(2)).unwrap_or((mix(number ^ 3) % 1000) as u16 + 1);
        (within(rule.from, from), within(rule.to, to), port)
    };
    (0..count).map(packet).collect()
}

/// The frame of a packet; `number` is in its source port.
pub fn frame(&(src, dst, port): &Packet, number: usize) -> Vec<u8> {
    datagram((src, 1024 + number as u16), (dst, port))
}

/// The frame of a UDP packet without data.
pub fn datagram(from: (u32, u16), to: (u32, u16)) -> Vec<u8> {
    let mut ip = vec![0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0];
    ip.extend([from.0.to_be_bytes(), to.0.to_be_bytes()].concat());
    let mut sum: u32 = ip.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum();
    sum = (sum & 0xffff) + (sum >> 16);
    ip[10..12].copy_from_slice(&(!((sum & 0xffff) + (sum >> 16)) as u16).to_be_bytes());
    let udp = [&from.1.to_be_bytes()[..], &to.1.to_be_bytes(), &[0, 8, 0, 0]].concat();
    let mut frame = [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0][..], &ip, &udp].concat();
    frame.resize(60, 0);
    frame
}

/// The rule that is the first to match, counted from 1.
pub fn first(rules: &[Rule], &(src, dst, port): &Packet) -> Option<usize> {
    let within =
        |net: Option<(u32, u32)>, address: u32| net.is_none_or(|(net, len)| address >> (32 - len) == net >> (32 - len));
    let matches =
        |rule: &Rule| within(rule.from, src) && within(rule.to, dst) && rule.port.is_none_or(|own| own == port);
    rules.iter().position(matches).map(|index| index + 1)
}
