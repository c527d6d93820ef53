//! What a configuration may say, and how it is refused.

#[path = "../../../tests/support/compile.rs"]
mod common;

use std::path::Path;
use std::sync::Arc;

use baker::ir::interp::Machine;
use baker::ir::{Pin, Program, TableEntry, TableStore};
use control::applications::Applications;
use control::config::{Config, Control, Workers};
use control::document::ConfigError;
use dataplane::PollMode;
use dataplane::ports::{Driver, PortSpec};
use proptest::prelude::*;

fn program() -> Arc<Program> {
    common::compile(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/common/every.baker")))
}

const PORTS: &str = "[ports.p1]\nnumber = 1\n[ports.p2]\nnumber = 2\nhost = \"p1\"\n[ports.p63]\nnumber = 63\n";

fn parse(text: &str) -> Result<Config, Vec<ConfigError>> {
    Config::parse("t.toml", &format!("{PORTS}{text}"), &program(), Applications::NONE)
}

/// The entries of one table, as numbers.
fn entries(text: &str) -> Vec<(Vec<u128>, Option<u32>, Vec<u128>)> {
    let config = parse(text).unwrap_or_else(|errors| panic!("{text}\n{errors:?}"));
    config.entries.into_iter().map(|(_, e)| (e.key, e.prefix_len, e.value)).collect()
}

/// The errors of a text after [`PORTS`], whose lines count from 1 again.
fn errors(text: &str) -> Vec<String> {
    let mut errors = parse(text).err().unwrap_or_else(|| panic!("accepted: {text}"));
    errors.iter_mut().for_each(|error| error.line -= PORTS.lines().count());
    errors.iter().map(ToString::to_string).collect()
}

/// The only error.
fn error(text: &str) -> String {
    let errors = errors(text);
    assert_eq!(errors.len(), 1, "{errors:#?}");
    errors.into_iter().next().unwrap()
}

#[test]
fn sets_are_lists_of_members() {
    let members = entries("[tables.m]\nmembers = [\"02:00:00:00:00:01\", \"02:00:00:00:00:02\"]");
    assert_eq!(members, [(vec![0x0200_0000_0001], None, vec![1]), (vec![0x0200_0000_0002], None, vec![1])]);
    let pairs = entries("[tables.m]\npairs = [{ src = \"10.0.0.1\", port = \"p2\" }]");
    assert_eq!(pairs, [(vec![0x0a00_0001, 2], None, vec![1])]);
    assert_eq!(
        error("[tables.m.members]\n\"02:00:00:00:00:01\" = true"),
        "t.toml:1: tables.m.members: this is a table, and the table is a set; accepted: a list of its members: [KEY, …]"
    );
    assert!(error("[tables.m]\nmembers = [\"02:00:00:00:00:01\", \"2:0:0:0:0:1\"]").contains("tables.m.members[1]"));
    assert!(error("[tables.m]\npairs = [{ src = \"10.0.0.1\" }]").contains("port of flow_t is missing"));
}

#[test]
fn settings_are_for_controllers_of_the_program() {
    assert_eq!(
        error("[controllers.firewal]"),
        "t.toml:1: controllers.firewal: the program has no controller of this name with settings; accepted: nothing"
    );
}

#[test]
fn prefixes_of_ipv6() {
    let routes = entries("[tables.m.fib6]\n\"2001:db8::/32\" = 5\n\"::/0\" = 1");
    assert_eq!(routes.len(), 2);
    assert!(routes.contains(&(vec![0x2001_0db8 << 96], Some(32), vec![5])), "{routes:x?}");
    let problem = error("[tables.m.fib6]\n\"2001:db8::1/32\" = 5");
    assert!(problem.contains("did you mean \"2001:db8::/32\"?"), "{problem}");
}

#[test]
fn values_in_natural_notation() {
    let small = |value: &str| entries(&format!("[tables.m]\nsmall.5 = {value}"))[0].2[0];
    assert_eq!(small("7"), 7);
    assert_eq!(small("0xffff"), 65535);
    assert_eq!(small("0b101"), 5);
    assert_eq!(small("1_000"), 1000);
    assert_eq!(small("\"0x1f\""), 31);
    assert_eq!(small("\"0b1_1\""), 3);
    assert_eq!(small("\"p2\""), 2);
    assert_eq!(small("[\"p1\", 2]"), 0b110);
    assert_eq!(small("[]"), 0);

    let action = "{ color = \"green\", delta = -2, on = true, mac = \"02:00:00:00:00:0A\", mask = [\"p63\", \"p1\"] }";
    let expected = vec![2, 0xfffe, 1, 0x0200_0000_000a, 1 << 63 | 2];
    assert_eq!(entries(&format!("[tables.m.actions]\np2 = {action}")), [(vec![2], None, expected)]);
    let action = "{ color = 9, delta = \"-32768\", on = 0, mac = 5, mask = 0xffff_ffff_ffff_ffff }";
    let expected = vec![9, 0x8000, 0, 5, u128::from(u64::MAX)];
    assert_eq!(entries(&format!("[tables.m.actions]\n0 = {action}")), [(vec![0], None, expected)]);
}

#[test]
fn keys_in_natural_notation() {
    let mac = entries("[tables.m.stations]\n\"02:00:00:00:00:01\" = \"p2\"\n258 = 200");
    assert_eq!(mac, [(vec![0x0200_0000_0001], None, vec![2]), (vec![258], None, vec![200])]);
    let six = entries("[tables.m.six]\n\"2001:db8::1\" = true");
    assert_eq!(six, [(vec![0x2001_0db8 << 96 | 1], None, vec![1])]);
    let color = entries("[tables.m.colors]\nblue = -128\n1 = 127");
    assert_eq!(color, [(vec![1], None, vec![127]), (vec![9], None, vec![0x80])]);
    let fib = entries(
        "[tables.m.fib]\n\"0.0.0.0/0\" = 1\n\"10.0.1.0/24\" = 2\n\"10.0.1.1/32\" = 3\n\"255.255.255.254/31\" = 4",
    );
    let expected = [(0, 0, 1), (0x0a00_0100, 24, 2), (0x0a00_0101, 32, 3), (0xffff_fffe, 31, 4)];
    assert_eq!(fib, expected.map(|(key, len, value)| (vec![key], Some(len), vec![value])));
    let flow = entries("[[tables.m.flows]]\nkey = { src = \"10.0.0.1\", port = \"p63\" }\nvalue = \"10.0.0.2\"");
    assert_eq!(flow, [(vec![0x0a00_0001, 63], None, vec![0x0a00_0002])]);
    let station = entries("[[tables.m.stations]]\nkey = \"02:00:00:00:00:01\"\nvalue = 1");
    assert_eq!(station, [(vec![0x0200_0000_0001], None, vec![1])]);
    let fib = entries("[[tables.m.fib]]\nkey = \"10.0.0.0/8\"\nvalue = 1");
    assert_eq!(fib, [(vec![0x0a00_0000], Some(8), vec![1])]);
}

#[test]
fn ports_frames_and_worker() {
    let text = "[frames]\ncount = 100\nsize = 4096\n[workers]\nmode = \"busy\"\ncpus = [1]\n[ports.wan]\nnumber = 200\n\
                device = \"afpacket:eth0\"";
    let config = parse(text).unwrap();
    let ports: Vec<_> = config.ports.iter().map(|port| (&*port.name, port.number, port.host)).collect();
    assert_eq!(ports, [("p1", 1, None), ("p2", 2, Some(1)), ("p63", 63, None), ("wan", 200, None)]);
    assert!(matches!(&config.ports[3].device, Some(Driver::AfPacket { interface }) if interface == "eth0"));
    assert_eq!((config.frames.count, config.frames.frame_size), (100, 4096));
    assert_eq!(config.workers, Workers { count: 1, mode: PollMode::Busy, cpus: vec![1], ppfs: vec![] });
    let options = config.options();
    assert_eq!((options.poll, options.cpus, options.frames), (PollMode::Busy, vec![1], config.frames));
    let plain = parse("").unwrap();
    assert_eq!(plain.control, Control::default());
    let control = parse("[control]\ninstance = \"edge\"\nsocket = \"/run/e.sock\"\ngroup = \"ops\"\n").unwrap().control;
    let some = |text: &str| Some(text.to_owned());
    let expected = Control { instance: some("edge"), socket: Some("/run/e.sock".into()), group: some("ops") };
    assert_eq!(control, expected);
    assert_eq!(
        errors("[control]\ninstance = 1\ngroup = \"\"\nsockets = 1"),
        [
            "t.toml:2: control.instance: this is an integer; accepted: a name of letters, digits, `_`, `-` and `.`",
            "t.toml:3: control.group: this is empty; accepted: the name of a group of this system",
            "t.toml:4: control.sockets: unknown key; did you mean `socket`?; accepted: instance, socket, group",
        ]
    );
    assert_eq!(plain.workers, Workers { count: 1, mode: PollMode::Interrupt, cpus: vec![], ppfs: vec![] });
    assert_eq!(plain.frames, dataplane::FrameConfig::default());
}

#[test]
fn ppfs_stay_on_workers() {
    let program = program();
    let pinned = |text: &str| {
        let program = parse(text).unwrap().pinned(program.clone());
        program.ppfs.iter().filter(|ppf| ppf.pin == Some(Pin::Worker)).map(|ppf| ppf.name.clone()).collect::<Vec<_>>()
    };
    let own: Vec<_> = program.ppfs.iter().map(|ppf| ppf.name.clone()).collect();
    assert_eq!(pinned(""), Vec::<String>::new());
    assert_eq!(pinned("[workers]\nppfs = [\"m\"]"), own);
    assert_eq!(pinned(&format!("[workers]\nppfs = [{:?}]", own[0])), own[..1]);
    assert_eq!(
        errors("[workers]\nppfs = [\"mm\", 1]"),
        [
            "t.toml:2: workers.ppfs[0]: there is no PPF and no module \"mm\"; accepted: a PPF, as MODULE.PPF, or a module",
            "t.toml:2: workers.ppfs[1]: this is an integer; accepted: a PPF, as MODULE.PPF, or a module",
        ]
    );
}

#[test]
fn devices_of_the_command_line_come_first() {
    let config = parse("[ports.wan]\nnumber = 9\ndevice = \"afpacket:eth0\"").unwrap();
    let spec = |text: &str| text.parse::<PortSpec>().unwrap();
    let all = ["p1=mem:", "p2=mem:", "p63=mem:", "wan=afpacket:eth1"].map(spec);
    let ports = config.port_configs(&all).unwrap();
    assert_eq!(
        ports.iter().map(|port| (port.number, port.host)).collect::<Vec<_>>(),
        [(1, None), (2, Some(1)), (9, None), (63, None)]
    );
    assert!(matches!(&ports[2].spec.driver, Driver::AfPacket { interface } if interface == "eth1"));
    let errors = config.port_configs(&["p1=mem:", "p1=mem:", "lan=mem:"].map(spec)).unwrap_err();
    assert_eq!(
        errors.iter().map(ToString::to_string).collect::<Vec<_>>(),
        [
            "--port p1: given more than once",
            "--port lan: the configuration has no port of this name; it has p1, p2, wan, p63",
            "port p2: no device; write `device = \"DRIVER:DEVICE\"` in [ports.p2], or give --port p2=DRIVER:DEVICE",
            "port p63: no device; write `device = \"DRIVER:DEVICE\"` in [ports.p63], or give --port p63=DRIVER:DEVICE",
        ]
    );
}

#[test]
fn errors_of_keys() {
    let lpm = "accepted: \"ADDRESS/LENGTH\" such as \"10.0.1.0/24\", \"0.0.0.0/0\" for all addresses";
    let fib = |key: &str| error(&format!("[tables.m.fib]\n\"{key}\" = 1"));
    let expect = |key: &str, why: &str| {
        assert_eq!(fib(key), format!("t.toml:2: tables.m.fib.\"{key}\": not a prefix: {why}; {lpm}"));
    };
    expect("10.0.1.0/33", "its length is not a number from 0 to 32");
    expect("10.0.1.0/", "its length is not a number from 0 to 32");
    expect("10.0.1.0/+8", "its length is not a number from 0 to 32");
    expect("10.0.1.0", "it has no length");
    expect("10.0.1.7/24", "bits beyond its length are set; did you mean \"10.0.1.0/24\"?");
    expect("10.0.1.7/0", "bits beyond its length are set; did you mean \"0.0.0.0/0\"?");
    expect("10.0.1/24", "\"10.0.1\" is not a value of `ipv4_addr_t`");
    assert_eq!(
        error("[tables.m.small]\n300 = 1"),
        "t.toml:2: tables.m.small.300: the index is beyond the end of the array; \
         accepted: an index from 0 to 299, or the name of a port"
    );
    assert_eq!(
        error("[tables.m.small]\np3 = 1"),
        "t.toml:2: tables.m.small.p3: \"p3\" is not a value of `u32`; did you mean `p1`?; \
         accepted: an index from 0 to 299, or the name of a port"
    );
    assert_eq!(
        error("[tables.m.small]\np1 = 1\n0x1 = 2"),
        "t.toml:3: tables.m.small: this key is given twice, in two notations: the other one is in line 9; accepted: each key once"
    );
    assert_eq!(error("[tables.m.small]\np1 = 1\np1 = 2"), "t.toml:3: not TOML: duplicate key `p1`");
    let twice = "[tables.m.fib]\n\"10.0.1.0/24\" = 1\n\"10.0.1.0/24\" = 2";
    assert_eq!(error(twice), "t.toml:3: not TOML: duplicate key `\"10.0.1.0/24\"`");
    assert_eq!(error("[frames]\n[frames]"), "t.toml:2: not TOML: duplicate key `frames`");
    assert_eq!(
        error("[tables.m.flows]\nx = 1"),
        "t.toml:1: tables.m.flows: the keys of this table are structs; \
         accepted: [[tables.m.flows]] with key = { src = …, port = … } and value = …"
    );
    assert_eq!(
        errors("[[tables.m.flows]]\nkeys = 1\nvalue = 1"),
        [
            "t.toml:1: tables.m.flows[0]: `key` is missing; accepted: key and value",
            "t.toml:2: tables.m.flows[0].keys: unknown key; did you mean `key`?; accepted: key, value",
        ]
    );
    let flow = |src: u8| format!("[[tables.m.flows]]\nkey = {{ src = {src}, port = 1 }}\nvalue = 1\n");
    assert_eq!(
        error(&format!("{}{}{}", flow(1), flow(2), flow(3))),
        "t.toml:2: tables.m.flows: 3 entries, but the table holds 2"
    );
}

#[test]
fn errors_of_values() {
    let small = |value: &str| error(&format!("[tables.m.small]\n5 = {value}"));
    let accepted = "; accepted: an integer from 0 to 65535, or a list of ports for a bit mask: bit N stands for port N";
    let expect =
        |value: &str, why: &str| assert_eq!(small(value), format!("t.toml:2: tables.m.small.5: {why}{accepted}"));
    expect("65536", "65536 is out of range");
    expect("-1", "-1 is out of range");
    expect("0xffffffffffffffffffffffffffffffffff", "0xffffffffffffffffffffffffffffffffff is out of range");
    expect("\"65536\"", "65536 is out of range");
    expect("1.5", "this is a number with a fraction");
    expect("true", "this is true or false");
    expect("\"p9\"", "\"p9\" is not a value of `u16`; did you mean `p1`?");
    expect("[\"p1\", \"p1\"]", "a port is named twice");
    expect("[\"p1\", 1]", "a port is named twice");
    expect("[\"p63\"]", "port 63 is beyond the last bit, 15");
    expect("[0]", "0 is no port number: use 1 to 255");
    expect("[\"q1\"]", "there is no port \"q1\"; did you mean `p1`?; there are p1, p2, p63");
    expect("[[]]", "in this list of ports is a list");
    expect("{ a = 1 }", "this is a table");

    let action = |fields: &str| errors(&format!("[tables.m.actions]\n5 = {{ {fields} }}"));
    let at = "t.toml:2: tables.m.actions.5";
    assert_eq!(
        action("color = \"gren\", delta = 32768, on = 2, mac = \"02:00:00:00:00\", mask = 0"),
        [
            format!(
                "{at}.color: \"gren\" is not a value of `color_t`; did you mean `green`?; accepted: one of red, green, blue, or an integer from 0 to 255"
            ),
            format!("{at}.delta: 32768 is out of range; accepted: an integer from -32768 to 32767"),
            format!("{at}.on: 2 is out of range; accepted: true or false"),
            format!(
                "{at}.mac: \"02:00:00:00:00\" is not a value of `mac_addr_t`; accepted: an Ethernet address such as \
             \"02:00:00:00:00:01\", or an integer from 0 to 281474976710655"
            ),
        ]
    );
    assert_eq!(
        action("color = 1, dleta = 0, on = true, mask = 0"),
        [
            format!(
                "{at}: delta, mac of action_t is missing; accepted: {{ color = …, delta = …, on = …, mac = …, mask = … }}"
            ),
            format!(
                "{at}.dleta: action_t has no such field; did you mean `delta`?; accepted: color, delta, on, mac, mask"
            ),
        ]
    );
    assert_eq!(action("color = 1, color = 2")[0], "t.toml:2: not TOML: duplicate key `color`");
    assert!(error("[tables.m.actions]\n5 = 7").contains("this is an integer; accepted: { color = …"));
}

#[test]
fn errors_of_sections() {
    assert_eq!(
        error("[prots]"),
        "t.toml:1: prots: unknown key; did you mean `ports`?; accepted: frames, workers, control, metrics, web, sflow, ipfix, ports, controllers, tables"
    );
    // What depends on it is not wrong by itself.
    for wrong in ["[port.p3]\nnumber = 3", "[ports]\np3 = 3", "[ports.p3]"] {
        let text = format!("{wrong}\n[ports.p4]\nnumber = 4\nhost = \"p3\"\n[tables.m.small]\np3 = 1\n");
        let errors = Config::parse("t.toml", &text, &program(), Applications::NONE).unwrap_err();
        assert_eq!(errors.len(), 1, "{errors:#?}");
    }
    assert_eq!(error("[tables.n.fib]"), "t.toml:1: tables.n: no module of this name has tables; accepted: m");
    assert_eq!(
        error("[tables.m.fbi]"),
        "t.toml:1: tables.m.fbi: module m has no such table; did you mean `fib`?; \
         accepted: actions, small, flows, stations, six, colors, fib, fib6, members, pairs, verdicts, histories, limits"
    );
    assert_eq!(
        error("[tables.m]\nfib = 1"),
        "t.toml:2: tables.m.fib: this is an integer; \
         accepted: [tables.m.fib] with KEY = VALUE, or [[tables.m.fib]] with key = … and value = …"
    );
    assert_eq!(
        errors("tables = 1")[0],
        "t.toml:1: ports.p63.tables: unknown key; accepted: number, device, host, access, own, gso, mtu"
    );
    assert_eq!(
        errors(
            "[ports.a]\nnumber = 0\n[ports.b]\nnumber = 256\n[ports.c]\n[ports.d]\nnumber = \"1\"\n[ports.e]\nnumber = 2"
        ),
        [
            "t.toml:2: ports.a.number: 0 is out of range; accepted: an integer from 1 to 255",
            "t.toml:4: ports.b.number: 256 is out of range; accepted: an integer from 1 to 255",
            "t.toml:5: ports.c: `number` is missing; accepted: number = 1 to 255, what rx.port and tx.port say",
            "t.toml:7: ports.d.number: this is a string; accepted: an integer from 1 to 255",
            "t.toml:9: ports.e.number: port p2 has number 2 already; accepted: a number of its own for each port",
        ]
    );
    assert_eq!(
        errors(
            "[ports.3a]\nnumber = 3\nhost = \"3a\"\ndevice = \"dpdk:0\"\nspeed = 10\n[ports.b]\nnumber = 4\nhost = \"p3\""
        ),
        [
            "t.toml:1: ports.3a: not a port name; accepted: a letter, then letters, digits, `_`, `-` and `.`",
            "t.toml:3: ports.3a.host: a port can't be its own host port; accepted: the name of another port: p1, p2, p63, b",
            "t.toml:4: ports.3a.device: there is no driver `dpdk`; use one of auto, xdp, tc, afpacket, afxdp, tap, pcap, mem; accepted: \
         auto:INTERFACE: a network interface through the best of xdp, tc, afxdp and afpacket that works, such as auto:eth0, \
         xdp:INTERFACE: a network interface whose packets the kernel processes as far as it can, such as xdp:eth0, \
         tc:INTERFACE: the same behind the driver, at traffic control's ingress: hosts keep their offloads, such as \
         tc:veth0, afpacket:INTERFACE: a network interface through AF_PACKET, such as afpacket:eth0, \
         afxdp:INTERFACE: a network interface through AF_XDP, without the kernel's stack, such as afxdp:eth0, \
         tap:DEVICE: a TAP device, created if it is missing: an interface of the kernel, such as tap:svi1, \
         pcap:[INPUT][,OUTPUT]: capture files to receive from and send to, such as pcap:in.pcap,out.pcap, \
         mem:nothing: receives no packet and counts those that it sends",
            "t.toml:5: ports.3a.speed: unknown key; accepted: number, device, host, access, own, gso, mtu",
            "t.toml:8: ports.b.host: there is no port \"p3\"; did you mean `p1`?; \
         accepted: the name of another port: p1, p2, p63, 3a",
        ]
    );
    assert_eq!(
        errors("[frames]\ncount = 0\nsize = 1000\n[workers]\nmode = \"fast\"\ncpus = [-1]"),
        [
            "t.toml:2: frames.count: 0 is out of range; accepted: an integer from 1 to 33554432",
            "t.toml:3: frames.size: 1000 is not a power of two; \
         accepted: 512, 1024, 2048, 4096, 8192, 16384, 32768 or 65536",
            "t.toml:5: workers.mode: \"fast\" is not a mode; \
         accepted: \"interrupt\" (sleeps while no packet comes) or \"busy\" (polls without sleeping)",
            "t.toml:6: workers.cpus[0]: -1 is out of range; accepted: an integer from 0 to 8191",
        ]
    );
}

#[test]
fn columns_count_characters() {
    let text = format!("{PORTS}[tables.m]\nflows = [{{ key = {{ src = \"ä\", port = 1 }}, value = \"é\" }}]");
    let errors = Config::parse("t.toml", &text, &program(), Applications::NONE).unwrap_err();
    let places: Vec<_> = errors.iter().map(|error| (error.line, error.column, error.path.as_str())).collect();
    let line = PORTS.lines().count() + 2;
    assert_eq!(places, [(line, 26, "tables.m.flows[0].key.src"), (line, 51, "tables.m.flows[0].value")]);
}

#[test]
fn a_flood_of_errors_is_cut() {
    let lines: String = (0..500).map(|i| format!("\"10.0.0.{i}\" = 1\n")).collect();
    assert_eq!(errors(&format!("[tables.m.fib]\n{lines}")).len(), 100);
}

#[test]
fn filling_reaches_the_tables_and_says_which_is_full() {
    let program = program();
    let mut machine = Machine::new(program.clone());
    let config = parse("[tables.m.fib]\n\"10.0.0.0/8\" = 7\n[tables.m.stations]\n1 = 2").unwrap();
    config.fill(&program, &mut machine).unwrap();
    let id =
        |name: &str| baker::ir::TableId(program.tables.iter().position(|table| table.name == name).unwrap() as u32);
    let entry = TableEntry { key: vec![0x0a00_0000], prefix_len: Some(8), value: vec![7] };
    assert_eq!(machine.dump(id("m.fib")), [entry]);

    let flows = |a: u8, b: u8| {
        let flow = |n: u8| format!("[[tables.m.flows]]\nkey = {{ src = {n}, port = 1 }}\nvalue = 1\n");
        parse(&(flow(a) + &flow(b))).unwrap()
    };
    flows(1, 2).fill(&program, &mut machine).unwrap();
    flows(2, 1).fill(&program, &mut machine).unwrap();
    let error = flows(2, 3).fill(&program, &mut machine).unwrap_err();
    assert_eq!(
        error.to_string(),
        "table m.flows: the table is full; it is declared with 2 entries: declare it larger, or configure fewer"
    );
}

#[test]
fn many_routes() {
    let routes: String =
        (0..100_000u32).map(|i| format!("\"10.{}.{}.{}/32\" = {i}\n", i >> 16, i >> 8 & 255, i & 255)).collect();
    assert_eq!(entries(&format!("[tables.m.fib]\n{routes}")).len(), 100_000);
}

/// The example configuration describes the network that the demo builds.
#[test]
fn the_switch_of_the_demo() {
    let apps = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../apps/l3switch");
    let program = common::compile(&apps.join("l3switch.baker"));
    let text = std::fs::read_to_string(apps.join("l3switch.toml")).unwrap();
    let config = Config::parse("l3switch.toml", &text, &program, Applications::NONE)
        .unwrap_or_else(|errors| panic!("{errors:#?}"));
    let names: Vec<&str> = config.ports.iter().map(|port| port.name.as_str()).collect();
    assert_eq!(names, lab::L3Switch::PORTS);
    let numbers: Vec<u8> = config.ports.iter().map(|port| port.number).collect();
    assert_eq!(numbers, [1, 2, 3, 4, 5, 6]);
    for port in &config.ports {
        assert!(matches!(&port.device, Some(Driver::Auto { interface }) if *interface == port.name));
    }
    let has = |table: &str, key: u128, value: u128| {
        config.entries.iter().any(|(id, entry)| {
            program.tables[id.0 as usize].name == table && entry.key == [key] && entry.value == [value]
        })
    };
    let address = |text: &str| u128::from(u32::from(text.parse::<std::net::Ipv4Addr>().unwrap()));
    for (subnet, (_, mac, gateway)) in lab::L3Switch::GATEWAYS.into_iter().enumerate() {
        let mac = mac.iter().fold(0, |value, byte| value << 8 | u128::from(*byte));
        assert!(has("l3_forward.local_addrs", address(gateway), 1));
        for port in [2 * subnet + 1, 2 * subnet + 2] {
            assert!(has("l3_switch.mac_addrs", port as u128, mac));
            assert!(has("l3_switch.domains", port as u128, subnet as u128 + 1));
            assert_eq!(config.ports[port - 1].host, Some(subnet as u8 + 5));
        }
    }
    assert!(has("l2_bridge.members", 1, 0b00110) && has("l2_bridge.members", 2, 0b11000));
}

proptest! {
    /// No text makes the reader panic.
    #[test]
    fn any_text_gives_a_configuration_or_errors(text in "(\\[\\[?(tables|ports|m|small|fib|flows|frames|worker|\\.)*\\]?\\]\n|[a-z0-9./:\"={}\\[\\] \n,_é-]{0,12})*") {
        let program = SHARED.with(Arc::clone);
        if let Err(errors) = Config::parse("t.toml", &text, &program, Applications::NONE) {
            prop_assert!(!errors.is_empty());
            let lines = text.lines().count() + 1;
            prop_assert!(errors.iter().all(|error| (1..=lines).contains(&error.line) && error.column >= 1));
        }
    }
}

thread_local! { static SHARED: Arc<Program> = program(); }

#[test]
fn access_modes_own_addresses_and_super_packets() {
    use dataplane::Access;
    use dataplane::ports::{Gso, OwnAddresses};
    let of = |text: &str| {
        let config =
            Config::parse("t.toml", text, &program(), Applications::NONE).unwrap_or_else(|errors| panic!("{errors:?}"));
        config.ports.iter().map(|port| (port.access, port.own)).collect::<Vec<_>>()
    };
    let ports = "[ports.p1]\nnumber = 1\n[ports.p2]\nnumber = 2\n";
    assert_eq!(of(ports), [(Access::InPlace, OwnAddresses::Program); 2]);
    let all = format!("[frames]\naccess = \"copy\"\n{ports}access = \"header-copy\"\nown = \"kernel\"\n");
    assert_eq!(of(&all), [(Access::Copy, OwnAddresses::Program), (Access::HeaderCopy, OwnAddresses::Kernel)]);
    assert_eq!(
        error("[frames]\naccess = \"zero\""),
        "t.toml:2: frames.access: \"zero\" is not an access mode; accepted: \"copy\" (into host memory and out again), \"in-place\" \
         (where packets lie) or \"header-copy\" (what the program reaches of them)"
    );
    assert!(error("[ports.p3]\nnumber = 3\naccess = 1").starts_with("t.toml:3: ports.p3.access: "));
    assert_eq!(
        error("[ports.p3]\nnumber = 3\nown = \"host\""),
        "t.toml:3: ports.p3.own: \"host\" gets no packets; accepted: \"program\" or \"kernel\" (its own stack, before \
         anything is done with them)"
    );
    let gso = |text: &str| {
        let text = format!("[ports.p1]\nnumber = 1\n{text}");
        let config = Config::parse("t.toml", &text, &program(), Applications::NONE).unwrap();
        config.ports[0].gso
    };
    assert_eq!(
        ["", "gso = \"auto\"", "gso = \"on\"", "gso = \"off\""].map(gso),
        [Gso::Auto, Gso::Auto, Gso::On, Gso::Off]
    );
    assert_eq!(
        error("[ports.p3]\nnumber = 3\ngso = \"yes\""),
        "t.toml:3: ports.p3.gso: \"yes\" is no choice; accepted: \"auto\" (where packets come out at the other end), \"on\" (also \
         where super-packets may) or \"off\""
    );
}
