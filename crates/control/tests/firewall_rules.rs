//! Ten thousand rules of the firewall against the rules one by one, and what they cost; and more flows than there is room for.

mod common;

use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Arc;

use baker::ir::Program;
use baker::opt::explain::explain;
use control::config::Config;
use dataplane::EngineKind;
use dataplane::bench::Rig;

/// Rules that name one address, the other, both or none, in turn. All of IPv4, and with one port at most.
#[derive(Clone, Copy, Debug)]
struct Rule {
    permit: bool,
    from: Option<(u32, u32)>,
    to: Option<(u32, u32)>,
    port: Option<u16>,
}

/// A number from a number, as good as drawn by lot.
fn mix(number: u32) -> u32 {
    let mut z = number.wrapping_mul(0x9e37_79b9) ^ 0x5bd1_e995;
    z = (z ^ z >> 16).wrapping_mul(0x85eb_ca6b);
    z = (z ^ z >> 13).wrapping_mul(0xc2b2_ae35);
    z ^ z >> 16
}

fn inside(number: u32) -> u32 {
    0x0a00_0000 | mix(number) & 0xffff
}

fn outside(number: u32) -> u32 {
    0xc600_0000 | mix(number ^ 0x1111) & 0xf_ffff
}

fn rules(count: u32) -> Vec<Rule> {
    let net = |address: u32, len: u32| Some((address >> (32 - len) << (32 - len), len));
    let rule = |number: u32| {
        let (permit, port) = (!mix(number ^ 7).is_multiple_of(3), Some((mix(number ^ 9) % 1000) as u16 + 1));
        match number % 10 {
            0..4 => Rule { permit: true, from: None, to: net(inside(number), 32), port },
            4..6 => Rule { permit: false, from: net(outside(number), 20 + number % 13), to: None, port: None },
            6..9 => Rule { permit, from: net(outside(number), 24), to: net(inside(number), 32 - number % 5), port },
            // What concerns everybody is at the end.
            _ if number > count / 2 => Rule { permit, from: None, to: None, port },
            _ => Rule { permit, from: None, to: net(inside(number), 28), port: None },
        }
    };
    (0..count).map(rule).collect()
}

fn config(program: &Program, rules: &[Rule]) -> Config {
    let net = |(address, len): (u32, u32)| format!("\"{}/{len}\"", Ipv4Addr::from(address));
    let mut text = example();
    let (start, rest) = text.split_once("rules = [").unwrap();
    let (_, end) = rest.split_once("\n]\n").unwrap();
    let line = |rule: &Rule| {
        let mut line = format!("{{ action = {:?}", if rule.permit { "permit" } else { "deny" });
        rule.from.iter().for_each(|from| line += &format!(", from = {}", net(*from)));
        rule.to.iter().for_each(|to| line += &format!(", to = {}", net(*to)));
        rule.port.iter().for_each(|port| line += &format!(", protocol = \"udp\", to_port = {port}"));
        line + " },\n"
    };
    text = format!("{start}rules = [\n{}]\n{end}", rules.iter().map(line).collect::<String>());
    Config::parse("t.toml", &text, program).unwrap_or_else(|errors| panic!("{errors:?}"))
}

/// The example configuration without a log, which would be outputs too.
fn example() -> String {
    let text = include_str!("../../../apps/firewall/firewall.toml");
    let quiet = text.replace("0 = { rate = 10, burst = 20 }", "0 = { rate = 0, burst = 0 }");
    assert_ne!(quiet, text);
    quiet
}

/// What comes in at the WAN: source, destination and port of a UDP packet. Half of them are made for a rule.
fn packets(count: u32, rules: &[Rule]) -> Vec<(u32, u32, u16)> {
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

fn frame(&(src, dst, port): &(u32, u32, u16), number: usize) -> Vec<u8> {
    let mut ip = vec![0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0];
    ip.extend([src.to_be_bytes(), dst.to_be_bytes()].concat());
    let mut sum: u32 = ip.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum();
    sum = (sum & 0xffff) + (sum >> 16);
    ip[10..12].copy_from_slice(&(!((sum & 0xffff) + (sum >> 16)) as u16).to_be_bytes());
    let udp = [&(1024 + number as u16).to_be_bytes()[..], &port.to_be_bytes(), &[0, 8, 0, 0]].concat();
    let mut frame = [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0][..], &ip, &udp].concat();
    frame.resize(60, 0);
    frame
}

/// The rule that is the first to match, counted from 1.
fn first(rules: &[Rule], &(src, dst, port): &(u32, u32, u16)) -> Option<usize> {
    let within =
        |net: Option<(u32, u32)>, address: u32| net.is_none_or(|(net, len)| address >> (32 - len) == net >> (32 - len));
    let matches =
        |rule: &Rule| within(rule.from, src) && within(rule.to, dst) && rule.port.is_none_or(|own| own == port);
    rules.iter().position(matches).map(|index| index + 1)
}

fn program() -> Arc<Program> {
    common::compile(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../apps/firewall/firewall.baker"))
}

/// Packets by the rule that decided about them, 0 for none, as the program counts them, and nanoseconds per packet. Each packet comes
/// `rounds` times.
fn decided(program: &Arc<Program>, config: &Config, packets: &[(u32, u32, u16)], rounds: u32) -> (Vec<u64>, f64) {
    let fill = |tables: &mut dataplane::TableAccess| config.fill(program, tables).map_err(|error| error.to_string());
    let mut rig = Rig::new(program, EngineKind::NATIVE, fill).unwrap();
    let frames: Vec<Vec<u8>> = packets.iter().enumerate().map(|(number, packet)| frame(packet, number)).collect();
    let measured = rig.run(2, &frames, rounds);
    let counters = measured.snapshot.user.into_iter().find(|(name, _)| name == "gate.rule_packets").unwrap().1;
    (counters, measured.ns_per_packet)
}

#[test]
fn ten_thousand_rules_decide_as_one_by_one() {
    let (program, rules) = (program(), rules(10_000));
    let packets = packets(40_000, &rules);
    let (counted, _) = decided(&program, &config(&program, &rules), &packets, 1);
    let mut expected = vec![0; counted.len()];
    for packet in &packets {
        // What no rule matches is denied at the WAN, and so under no rule's number.
        expected[first(&rules, packet).unwrap_or(0)] += 1;
    }
    expected[0] = 0;
    assert!(expected.iter().filter(|count| **count > 0).count() > 2000, "too few rules are tried");
    assert_eq!(counted, expected);
}

/// Flows from inside, more than the table of opening flows holds: those that pass, those that are dropped because it is full, and
/// those that pass without being recorded.
fn beyond_the_table(policy: &str) -> (u64, u64, u64) {
    let program = program();
    let text = example().replace("\"REFUSE\"", &format!("{policy:?}"));
    let config = Config::parse("t.toml", &text, &program).unwrap();
    let fill = |tables: &mut dataplane::TableAccess| config.fill(&program, tables).map_err(|error| error.to_string());
    let mut rig = Rig::new(&program, EngineKind::NATIVE, fill).unwrap();
    // Of two sources, each with as many ports as there are.
    let flow = |number: usize| frame(&(0x0a00_0100 + (number / 50_000) as u32, outside(0), 53), number % 50_000);
    let frames: Vec<Vec<u8>> = (0..70_000).map(flow).collect();
    let measured = rig.run(1, &frames, 1);
    let count =
        |of: &[(String, u64)], name: &str| of.iter().find(|(own, _)| own == name).map_or(0, |(_, count)| *count);
    let unrecorded = measured.snapshot.user.iter().find(|(name, _)| name == "gate.unrecorded").unwrap().1[0];
    (measured.outputs, count(&measured.snapshot.drops, "flow_table_full"), unrecorded)
}

#[test]
fn a_full_flow_table_is_handled_by_policy() {
    assert_eq!(beyond_the_table("REFUSE"), (65_536, 70_000 - 65_536, 0));
    assert_eq!(beyond_the_table("PASS_UNRECORDED"), (70_000, 0, 70_000 - 65_536));
}

/// Instructions per packet that opens a flow or is denied, of the intermediate representation.
fn instructions(program: &Program, rules: &[Rule]) -> f64 {
    let config = config(program, rules);
    let packets = packets(2000, rules);
    let trace: Vec<(u8, Vec<u8>)> =
        packets.iter().enumerate().map(|(number, packet)| (2, frame(packet, number))).collect();
    let found = explain(program, &trace, |machine| config.fill(program, machine)).unwrap();
    found.costs[2].instructions as f64 / found.packets as f64
}

#[test]
fn the_cost_of_a_packet_does_not_grow_with_the_rules() {
    let program = program();
    let [few, many] = [10, 10_000].map(|count| instructions(&program, &rules(count)));
    assert!(many < 1.3 * few, "{few} instructions with 10 rules, {many} with 10 000");
}

/// Nanoseconds per packet, interleaved: `cargo test --release -p control --test firewall_rules -- --ignored --nocapture`.
#[test]
#[ignore = "a measurement: for a machine with nothing else to do"]
fn time_by_number_of_rules() {
    let program = program();
    let sets = [10, 100, 1000, 10_000].map(|count| (count, rules(count)));
    // Of first packets alone, and where each permitted one is followed by nine of its flow.
    let mut times: Vec<[Vec<f64>; 2]> = vec![Default::default(); sets.len()];
    for _ in 0..7 {
        for ((_, rules), times) in sets.iter().zip(&mut times) {
            let (config, mut packets) = (config(&program, rules), packets(30_000, rules));
            times[0].push(decided(&program, &config, &packets, 1).1);
            packets.retain(|packet| first(rules, packet).is_some_and(|rule| rules[rule - 1].permit));
            times[1].push(decided(&program, &config, &packets, 10).1);
        }
    }
    for ((count, _), times) in sets.iter().zip(&mut times) {
        times.iter_mut().for_each(|times| times.sort_by(f64::total_cmp));
        let [alone, flows] = times.each_ref().map(|times| times[3]);
        println!(
            "{count:>6} rules: {alone:.0} ns per first packet, {flows:.0} ns per packet of flows of ten (median of 7)"
        );
    }
}
