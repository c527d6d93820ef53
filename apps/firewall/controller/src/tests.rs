//! What the look-ups find is the first rule that matches, for random rules and packets.

use std::collections::HashMap;

use proptest::prelude::*;

use super::compile::{LookUps, compile};
use super::rule::{Net, Range, Rule, shadowed};

/// What rules look at.
#[derive(Clone, Debug)]
struct Packet {
    v6: bool,
    src: u128,
    dst: u128,
    port: u8,
    protocol: u8,
    src_port: u16,
    service: u16,
}

fn matches(rule: &Rule, packet: &Packet) -> bool {
    let width = if packet.v6 { 128 } else { 32 };
    let net = |nets: &[Net], address| {
        let host = Net { v6: packet.v6, address, len: width };
        nets.is_empty() || nets.iter().any(|net| net.covers(&host))
    };
    let port = |ranges: &[Range], port: u16| ranges.is_empty() || ranges.iter().any(|range| range.contains(&port));
    rule.entry >> packet.port & 1 == 1
        && rule.protocol.is_none_or(|protocol| protocol == packet.protocol)
        && net(&rule.from, packet.src)
        && net(&rule.to, packet.dst)
        && port(&rule.from_ports, packet.src_port)
        && port(&rule.services, packet.service)
}

/// A table: values by keys, with the length of a prefix.
type Table = HashMap<(Vec<u128>, Option<u32>), Vec<u128>>;

/// The look-ups of `rules.match` in `apps/firewall`, in Rust.
struct Tables(HashMap<&'static str, Table>);

impl Tables {
    fn new(look_ups: LookUps) -> Tables {
        let mut tables: HashMap<_, HashMap<_, _>> = HashMap::new();
        for (table, entry) in look_ups {
            let twice = tables.entry(table).or_default().insert((entry.key, entry.prefix_len), entry.value);
            assert_eq!(twice, None, "{table}");
        }
        Tables(tables)
    }

    fn get(&self, table: &str, key: &[u128]) -> Option<&Vec<u128>> {
        self.0.get(table)?.get(&(key.to_vec(), None))
    }

    fn number(&self, table: &str, key: &[u128]) -> u128 {
        self.get(table, key).map_or(0, |value| value[0])
    }

    fn longest(&self, tables: [&str; 2], v6: bool, address: u128) -> [u128; 2] {
        let (width, table) = if v6 { (128, tables[1]) } else { (32, tables[0]) };
        let found = (0..=width).rev().find_map(|len: u32| {
            let bits = address.checked_shr(width - len).map_or(0, |bits| bits << (width - len));
            self.0.get(table)?.get(&(vec![bits], Some(len)))
        });
        found.map_or([0, 0], |value| [value[0], value[1]])
    }

    /// What a row has in a column, or 0.
    fn cell(&self, row: u128, column: u128) -> u128 {
        let cell = self.number("cells", &[row + column]);
        if cell >> 32 == row { cell & 0xffff_ffff } else { 0 }
    }

    /// The rule, counted from 1, and whether it permits.
    fn find(&self, packet: &Packet) -> Option<(u128, bool)> {
        let [src_pair, src_single] = self.longest(["src4", "src6"], packet.v6, packet.src);
        let [dst_pair, dst_single] = self.longest(["dst4", "dst6"], packet.v6, packet.dst);
        let [entries, dst_ports, any, from_ports] = self.get("shape", &[0]).unwrap()[..] else { panic!("its fields") };
        let entry = self.number("entries", &[u128::from(packet.port) << 8 | u128::from(packet.protocol)]);
        let by_dst = entries + entry * dst_ports + self.number("dst_ports", &[packet.service.into()]);
        let source = self.number("src_ports", &[packet.src_port.into()]);
        let rows = [self.cell(src_pair, dst_pair), src_single, dst_single, any];
        let found = rows.iter().flat_map(|row| {
            let by_source = if from_ports == 0 { 0 } else { self.cell(*row, by_dst + entries * dst_ports) };
            [self.cell(*row, entry), self.cell(*row, by_dst), self.cell(by_source, source)]
        });
        found.filter(|outcome| *outcome != 0).min().map(|outcome| (outcome >> 1, outcome & 1 == 1))
    }
}

/// Few enough values that rules overlap.
fn net() -> impl Strategy<Value = Net> {
    let texts = [
        "0.0.0.0/0",
        "10.0.0.0/8",
        "10.0.0.0/16",
        "10.0.1.0/24",
        "10.0.1.7",
        "10.1.0.0/16",
        "192.0.2.0/24",
        "::/0",
        "2001:db8::/32",
        "2001:db8:1::/48",
        "2001:db8:1::7",
    ];
    prop::sample::select(texts.map(|text| Net::parse(text).unwrap()).to_vec())
}

fn nets() -> impl Strategy<Value = Vec<Net>> {
    prop_oneof![2 => Just(Vec::new()), 2 => prop::collection::vec(net(), 1), 1 => prop::collection::vec(net(), 1..4)]
}

fn ranges() -> impl Strategy<Value = Vec<Range>> {
    let range = (0u16..12, 0u16..6).prop_map(|(first, more)| first..=first + more);
    let edge = prop::sample::select(vec![0..=0, 0..=65535, 65535..=65535, 9..=65535]);
    prop_oneof![3 => Just(Vec::new()), 2 => prop::collection::vec(prop_oneof![4 => range, 1 => edge], 1..3)]
}

fn rule() -> impl Strategy<Value = Rule> {
    let entry = prop::sample::select(vec![u64::MAX, 0b10, 0b100, 0b110]);
    let protocol = prop::sample::select(vec![None, Some(6), Some(17)]);
    (any::<bool>(), entry, protocol, nets(), nets(), ranges(), ranges()).prop_map(
        |(permit, entry, protocol, from, to, from_ports, services)| {
            let (name, line) = (String::new(), 1);
            Rule { name, line, permit, entry, protocol, from, to, from_ports, services }
        },
    )
}

fn packet() -> impl Strategy<Value = Packet> {
    let v4 =
        prop::sample::select(vec![0x0a00_0107u128, 0x0a00_0108, 0x0a00_0201, 0x0a01_0001, 0x0b00_0001, 0xc000_0201]);
    let v6 = prop::sample::select(["2001:db8:1::7", "2001:db8:1::8", "2001:db8:2::1", "fd00::1"].to_vec())
        .prop_map(|text| text.parse::<std::net::Ipv6Addr>().unwrap().into());
    let pair = prop_oneof![(Just(false), v4.clone(), v4), (Just(true), v6.clone(), v6)];
    let port = || prop_oneof![4 => 0u16..20, 1 => Just(65535)];
    let protocol = prop::sample::select(vec![6u8, 17, 1]);
    (pair, 1u8..4, protocol, port(), port()).prop_map(|((v6, src, dst), port, protocol, src_port, service)| Packet {
        v6,
        src,
        dst,
        port,
        protocol,
        src_port,
        service,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn the_first_rule_that_matches_is_found(
        rules in prop::collection::vec(rule(), 0..12),
        packets in prop::collection::vec(packet(), 20),
    ) {
        let tables = Tables::new(compile(&rules).unwrap());
        for packet in packets {
            let first = rules.iter().position(|rule| matches(rule, &packet));
            let first = first.map(|index| (index as u128 + 1, rules[index].permit));
            prop_assert_eq!(tables.find(&packet), first, "{:?}", packet);
        }
    }

    #[test]
    fn a_shadowed_rule_is_never_the_first(
        rules in prop::collection::vec(rule(), 2..12),
        packets in prop::collection::vec(packet(), 20),
    ) {
        let shadowed = shadowed(&rules);
        for packet in packets {
            let first = rules.iter().position(|rule| matches(rule, &packet));
            prop_assert!(shadowed.iter().all(|(index, _)| Some(*index) != first));
        }
        prop_assert!(shadowed.iter().all(|(index, earlier)| earlier < index));
    }
}

fn host(number: u32) -> Vec<Net> {
    vec![Net { v6: false, address: number.into(), len: 32 }]
}

fn plain() -> Rule {
    let (from_ports, services) = (Vec::new(), Vec::new());
    let (from, to, name) = (Vec::new(), Vec::new(), String::new());
    Rule { name, line: 1, permit: true, entry: u64::MAX, protocol: Some(6), from, to, from_ports, services }
}

#[test]
fn ten_thousand_rules_make_about_as_many_entries() {
    let mut rules: Vec<Rule> = Vec::new();
    for number in 0..10_000u32 {
        let port = (number % 500) as u16 + 1;
        rules.push(match number % 3 {
            0 => Rule { to: host(0x0a00_0000 + number), services: vec![port..=port], ..plain() },
            1 => Rule { from: host(0xc000_0000 + number), permit: false, protocol: None, ..plain() },
            _ => Rule {
                from: host(0xc100_0000 + number % 1000),
                to: host(0x0a00_0000 + number),
                services: vec![port..=port + 100],
                ..plain()
            },
        });
    }
    let entries = compile(&rules).unwrap().len();
    assert!(entries < 600_000, "{entries}");
    let tables = Tables::new(compile(&rules).unwrap());
    let packet = |src, dst, service| Packet { v6: false, src, dst, port: 1, protocol: 6, src_port: 5, service };
    assert_eq!(tables.find(&packet(1, 0x0a00_0000 + 9999, 500)), Some((10_000, true)));
    assert_eq!(tables.find(&packet(0xc000_0000 + 1, 0x0a00_0000 + 9999, 500)), Some((2, false)));
    assert_eq!(tables.find(&packet(0xc100_0000 + 2, 0x0a00_0000 + 2, 100)), Some((3, true)));
    assert_eq!(tables.find(&packet(0xc100_0000 + 2, 0x0a00_0000 + 2, 104)), None);
}

#[test]
fn rules_beyond_the_tables_are_refused_soon() {
    // Each of many wide prefixes along with each of many narrow ones.
    let wide = |number: u32| vec![Net { v6: false, address: 0, len: number % 8 }];
    let rules: Vec<Rule> = (0..8000u32)
        .map(|number| match number % 2 {
            0 => Rule { from: host(number), to: host(1 << 30 | number), ..plain() },
            _ => Rule { from: wide(number), to: wide(number), services: vec![1..=number as u16], ..plain() },
        })
        .collect();
    assert!(compile(&rules).is_err());
}
