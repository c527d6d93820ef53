//! Ten thousand rules of the firewall against the rules one by one, and what they cost; and more flows than there is
//! room for.

#[path = "../../../../tests/support/compile.rs"]
mod common;
#[path = "common/rules.rs"]
mod generated;

use std::path::Path;
use std::sync::Arc;

use baker::ir::Program;
use baker::ir::interp::Machine;
use baker::opt::explain::explain;
use control::applications::Applications;
use control::config::Config;
use dataplane::EngineKind;
use dataplane::bench::Rig;
use firewall::FirewallApplication;

use generated::{Packet, Rule, configuration, first, frame, outside, packets, quiet, rules};

const FIREWALL: Applications = Applications::new(&[&FirewallApplication]);
const EXAMPLE: &str = include_str!("../../firewall.toml");

fn config(program: &Program, rules: &[Rule]) -> Config {
    let text = configuration(&quiet(EXAMPLE), rules);
    Config::parse("t.toml", &text, program, FIREWALL).unwrap_or_else(|errors| panic!("{errors:?}"))
}

fn program() -> Arc<Program> {
    common::compile(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../firewall.baker"))
}

/// Packets by the rule that decided about them, 0 for none, as the program counts them.
fn decided(program: &Arc<Program>, config: &Config, packets: &[Packet]) -> Vec<u64> {
    let fill = |tables: &mut dataplane::TableAccess| config.fill(program, tables).map_err(|error| error.to_string());
    let mut rig = Rig::new(program, EngineKind::NATIVE, fill).unwrap();
    let frames: Vec<Vec<u8>> = packets.iter().enumerate().map(|(number, packet)| frame(packet, number)).collect();
    let measured = rig.run(2, &frames, 1);
    measured.snapshot.user.into_iter().find(|(name, _)| name == "gate.rule_packets").unwrap().1
}

#[test]
fn ten_thousand_rules_decide_as_one_by_one() {
    let (program, rules) = (program(), rules(10_000));
    let packets = packets(40_000, &rules);
    let counted = decided(&program, &config(&program, &rules), &packets);
    let mut expected = vec![0; counted.len()];
    for packet in &packets {
        // What no rule matches is denied at the WAN, and so under no rule's number.
        expected[first(&rules, packet).unwrap_or(0)] += 1;
    }
    expected[0] = 0;
    assert!(expected.iter().filter(|count| **count > 0).count() > 2000, "too few rules are tried");
    assert_eq!(counted, expected);
}

/// Flows from inside, more than the table of opening flows holds: those that pass, those that are dropped because it is
/// full, and those that pass without being recorded.
fn beyond_the_table(policy: &str) -> (u64, u64, u64) {
    let program = program();
    let text = quiet(EXAMPLE).replace("\"REFUSE\"", &format!("{policy:?}"));
    let config = Config::parse("t.toml", &text, &program, FIREWALL).unwrap();
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
    let found = explain(program, &trace, |stage| {
        let mut machine = Machine::new(stage);
        config.fill(program, &mut machine).map(|()| machine)
    })
    .unwrap();
    found.costs[2].instructions as f64 / found.packets as f64
}

#[test]
fn the_cost_of_a_packet_does_not_grow_with_the_rules() {
    let program = program();
    let [few, many] = [10, 10_000].map(|count| instructions(&program, &rules(count)));
    assert!(many < 1.3 * few, "{few} instructions with 10 rules, {many} with 10 000");
}
