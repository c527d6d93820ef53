//! A running instance, asked and changed from the command line.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;

use serde_json::{Value as Json, json};

use crate::instance::{Instance, Runtime};
use crate::process::{self, Scratch, without_privileges};
use crate::{FIRST, PATCH};

/// The L3 switch between ports where nothing comes in.
const SWITCH: [&str; 13] = [
    "l3switch",
    "--port",
    "p1=mem:",
    "--port",
    "p2=mem:",
    "--port",
    "p3=mem:",
    "--port",
    "p4=mem:",
    "--port",
    "svi1p=mem:",
    "--port",
    "svi2p=mem:",
];

fn switch<'r>(runtime: &'r Runtime, more: &[&str]) -> Instance<'r> {
    runtime.start(&[&SWITCH[..], more].concat())
}

#[test]
fn tables_are_read_and_changed() {
    for engine in ["worker", "interp"] {
        let runtime = Runtime::new();
        let _switch = switch(&runtime, &["--engine", engine]);
        let table = |arguments: &[&str]| runtime.millrace(&[&["table"], arguments].concat());
        let fib = "l3_forward.fib";
        assert_eq!(table(&["dump", fib]).ok(), "10.0.1.0/24 = 1\n10.0.2.0/24 = 2\n");
        assert_eq!(table(&["get", fib, "10.0.2.0/24"]).ok(), "2\n");
        // The route that an address takes.
        assert_eq!(table(&["get", fib, "10.0.2.13"]).ok(), "10.0.2.0/24 = 2\n");
        assert_eq!(runtime.json(&["table", "get", fib, "10.0.2.13"]), json!({"key": "10.0.2.0/24", "value": 2}));
        let text = table(&["get", fib, "10.9.0.1"]).failed_in_one_line(1);
        assert!(text.contains("table l3_forward.fib: key 10.9.0.1: there is no such entry"), "{text}");
        // A route leads to a next hop that is there.
        let hops = "l3_forward.next_hops";
        let hop = "{ domain = 2, gateway = \"10.0.2.254\", src = \"02:00:00:00:02:01\" }";
        let text = table(&["set", fib, "10.9.0.0/16", "7"]).failed_in_one_line(1);
        assert!(text.contains("key 10.9.0.0/16: value 7: l3_forward.next_hops has no such entry"), "{text}");
        assert_eq!(table(&["set", hops, "7", hop]).ok(), format!("7 = {hop}\n"));
        table(&["set", hops, "3", hop]).ok();
        assert_eq!(table(&["set", fib, "10.9.0.0/16", "7"]).ok(), "10.9.0.0/16 = 7\n");
        assert_eq!(table(&["set", fib, "10.0.1.0/24", "3"]).ok(), "10.0.1.0/24 = 3\n");
        table(&["set", fib, "10.9.8.0/22", "3"]).ok();
        table(&["set", fib, "10.9.8.7/32", "1"]).ok();
        for (address, found) in [
            ("10.9.8.7", "10.9.8.7/32 = 1\n"),
            ("10.9.11.255", "10.9.8.0/22 = 3\n"),
            ("10.9.12.0", "10.9.0.0/16 = 7\n"),
        ] {
            assert_eq!(table(&["get", fib, address]).ok(), found);
        }
        ["10.9.8.0/22", "10.9.8.7/32"].iter().for_each(|prefix| drop(table(&["del", fib, prefix]).ok()));
        // What ports send at most can't be set.
        assert_eq!(table(&["get", "port_mtu", "p1"]).ok(), "1500\n");
        let text = table(&["set", "port_mtu", "p1", "9000"]).failed_in_one_line(1);
        assert!(text.contains("table port_mtu: it is read from the interfaces"), "{text}");
        assert!(table(&["del", "port_mtu", "p1"]).failed_in_one_line(1).contains("it is read from"));
        assert_eq!(table(&["del", fib, "10.0.2.0/24"]).ok(), "");
        let entries = json!([{"key": "10.0.1.0/24", "value": 3}, {"key": "10.9.0.0/16", "value": 7}]);
        assert_eq!(runtime.json(&["table", "dump", fib]), entries);
        // Structs as keys and values; names of ports.
        let station = "{ domain = 2, mac = \"02:00:00:00:00:13\" }";
        let (given, place) = ("{ port = \"p3\", heard = 0 }", "{ port = 3, heard = 0 }");
        assert_eq!(table(&["set", "l2_bridge.stations", station, given]).ok(), format!("{station} = {place}\n"));
        assert_eq!(table(&["dump", "l2_bridge.stations"]).ok(), format!("{station} = {place}\n"));
        assert_eq!(
            runtime.json(&["table", "get", hops, "7"]),
            json!({"key": 7, "value": {"domain": 2, "gateway": "10.0.2.254", "src": "02:00:00:00:02:01"}})
        );
        let neighbour = "{ mac = \"02:00:00:00:00:13\", heard = 0 }";
        assert_eq!(
            table(&["set", "l3_forward.neighbours", "10.0.2.13", neighbour]).ok(),
            format!("10.0.2.13 = {neighbour}\n")
        );
        assert_eq!(table(&["get", "l3_switch.domains", "svi2p"]).ok(), "2\n");
        assert_eq!(table(&["get", "l3_switch.domains", "63"]).ok(), "0\n", "an array has all its entries");
        assert_eq!(runtime.json(&["table", "del", "l3_switch.domains", "svi2p"]), json!({}));
        assert_eq!(table(&["get", "l3_switch.domains", "svi2p"]).ok(), "0\n");
        // How many there are.
        let tables = runtime.json(&["table", "ls"]);
        let entries = |name: &str| {
            let table = tables.as_array().unwrap().iter().find(|table| table["name"] == name).unwrap();
            (table["kind"].as_str().unwrap().to_owned(), table["entries"].as_u64().unwrap(), table["capacity"].as_u64())
        };
        assert_eq!(entries(fib), ("lpm".into(), 2, Some(1 << 20)));
        assert_eq!(entries("l2_bridge.stations"), ("hash".into(), 1, Some(65536)));
        assert_eq!(entries("l3_switch.domains"), ("array".into(), 5, Some(64)));
        let text = table(&["ls"]).ok();
        assert!(text.contains("hash<station_t, fdb_entry_t>        1     65 536"), "{text}");
    }
}

#[test]
fn many_entries_are_loaded_at_once() {
    for mode in [&[][..], &["--workers", "2", "--busy"], &["--engine", "interp"]] {
        let runtime = Runtime::new();
        let _switch = switch(&runtime, mode);
        let table = |arguments: &[&str]| runtime.millrace(&[&["table"], arguments].concat());
        let hops = "l3_forward.next_hops";
        let hop = |n: u32| json!({"domain": n % 60, "gateway": "10.0.2.254", "src": format!("02:00:00:00:{:02x}:{:02x}", n / 256, n % 256)});
        let entries: Vec<Json> = (1..5000).map(|n| json!({"key": n, "value": hop(n)})).collect();
        let file = runtime.write("hops.json", &json!(entries).to_string());
        assert_eq!(table(&["load", hops, &file]).ok(), "4999 entries\n");
        let dumped = runtime.json(&["table", "dump", hops]);
        assert_eq!(dumped.as_array().unwrap().len(), 4999);
        assert_eq!(dumped[4998], json!({"key": 4999, "value": hop(4999)}));
        // What was dumped can be loaded.
        let file = runtime.write("dumped.json", &dumped.to_string());
        assert_eq!(runtime.json(&["table", "load", hops, &file]), json!({"entries": 4999}));
        assert_eq!(runtime.json(&["table", "dump", hops]), dumped);
        // One that can't be read, and one that is refused.
        let some = |last: Json| runtime.write("some.json", &json!([{"key": 1, "value": hop(7)}, last]).to_string());
        let text = table(&["load", hops, &some(json!({"key": 2, "value": 3}))]).failed_in_one_line(1);
        assert!(text.contains("key 2"), "{text}");
        assert_eq!(runtime.json(&["table", "get", hops, "1"])["value"], hop(1), "nothing was changed");
        let text = table(&["load", hops, &some(json!({"key": 65536, "value": hop(1)}))]).failed_in_one_line(1);
        assert!(text.contains("key 65536: the index is beyond the end of the array"), "{text}");
        let text = table(&["load", hops, &runtime.write("bad.json", "[1]")]).failed_in_one_line(1);
        assert!(text.contains("bad.json") && text.contains("accepted: [{"), "{text}");
    }
}

#[test]
fn mistakes_are_told_and_change_nothing() {
    let runtime = Runtime::new();
    let _switch = switch(&runtime, &[]);
    let wrong = |arguments: &[&str], said: &str| {
        let text = runtime.millrace(&[&["table"], arguments].concat()).failed_in_one_line(1);
        assert!(text.contains(said), "{arguments:?}: {text}");
    };
    let (fib, hops) = ("l3_forward.fib", "l3_forward.next_hops");
    wrong(&["dump", "l3_forward.fob"], "there is no table \"l3_forward.fob\"; did you mean `l3_forward.fib`?");
    wrong(&["get", fib, "10.0.9.0/24"], "table l3_forward.fib: key 10.0.9.0/24: there is no such entry");
    wrong(&["del", fib, "10.0.1.0/25"], "table l3_forward.fib: key 10.0.1.0/25: there is no such entry");
    wrong(&["get", fib, "10.0.9.1"], "table l3_forward.fib: key 10.0.9.1: there is no such entry");
    wrong(&["del", fib, "10.0.1.1"], "table l3_forward.fib: key 10.0.1.1: not a prefix: it has no length; accepted:");
    wrong(&["set", fib, "10.0.1.0/24", "-1"], "key 10.0.1.0/24: value -1: -1 is out of range; accepted: an integer");
    wrong(
        &["set", hops, "70000", "1"],
        "key 70000: the index is beyond the end of the array; accepted: an index from 0 to 65535",
    );
    wrong(&["set", hops, "1", "{ domain = 1, gateway = 0 }"], "src of next_hop_t is missing; accepted: { domain = …");
    wrong(&["get", "l3_switch.domains", "p9"], "did you mean `p1`?");
    assert_eq!(runtime.millrace(&["table", "dump", fib]).ok(), "10.0.1.0/24 = 1\n10.0.2.0/24 = 2\n");
    // A table that is full is no mistake of the client.
    let locals = "l3_forward.local_addrs";
    for number in 2..256 {
        let socket = runtime.socket("l3switch");
        let request =
            json!({"request": "table_set", "table": locals, "key": format!("10.1.0.{number}"), "value": true});
        assert!(ask(&socket, &request).get("ok").is_some());
    }
    let text = runtime.millrace(&["table", "set", locals, "10.1.1.1", "true"]).failed_in_one_line(2);
    assert!(text.contains("key 10.1.1.1: the table is full; it is declared with 256 entries"), "{text}");
}

/// One request over a connection of its own.
fn ask(socket: &str, request: &Json) -> Json {
    use std::io::{BufRead, BufReader, Write};
    let mut stream = std::os::unix::net::UnixStream::connect(socket).unwrap();
    stream.write_all(format!("{request}\n").as_bytes()).unwrap();
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).unwrap();
    serde_json::from_str(&answer).unwrap()
}

#[test]
fn counters_drops_and_ports_are_those_of_the_end() {
    let runtime = Runtime::new();
    let (out, left) = (runtime.path("out.pcap"), format!("left=pcap:{FIRST}"));
    let instance = runtime.start(&[PATCH, "--port", &left, "--port", &format!("right=pcap:,{out}")]);
    let counters = loop {
        let counters = runtime.json(&["counters"]);
        if counters["ports"]["left"]["rx_packets"] == 6 {
            break counters;
        }
    };
    assert_eq!(counters["ports"]["right"]["tx_packets"], 3);
    assert_eq!(counters["ports"]["left"]["device"], format!("pcap:{FIRST}"));
    assert_eq!(runtime.json(&["ports"]), counters["ports"]);
    assert_eq!(runtime.json(&["drops"]), counters["drops"]);
    assert_eq!((&counters["drops"]["truncated"], &counters["drops"]["ttl_expired"]), (&json!(2), &json!(1)));
    let live = runtime.millrace(&["counters"]).ok();
    let drops = runtime.millrace(&["drops"]).ok();
    let ports = runtime.millrace(&["ports"]).ok();
    assert!(live.starts_with(&ports) && live.contains(&drops), "{live}");
    assert!(drops.starts_with("  packets dropped, by reason"), "{drops}");
    assert_eq!(runtime.millrace(&["stop"]).ok(), "patch: stopped\n");
    let printed = instance.end().ok();
    let (_, report) = printed.split_once(": ran ").and_then(|(_, rest)| rest.split_once(" s\n")).unwrap();
    let without_rates = |text: &str| -> Vec<String> {
        text.lines()
            .map(|line| {
                line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).take(2).collect::<Vec<_>>().join(" ")
            })
            .collect()
    };
    assert_eq!(without_rates(report), without_rates(&live));
}

#[test]
fn several_instances_are_told_apart() {
    let runtime = Runtime::new();
    let none = runtime.millrace(&["status"]).failed_in_one_line(2);
    assert!(none.contains("no instance is running") && none.contains(&runtime.path("run")), "{none}");
    let (first, second) = (switch(&runtime, &[]), switch(&runtime, &[]));
    let edge = switch(&runtime, &["--instance", "edge"]);
    let all = runtime.json(&["status"]);
    let seen: Vec<_> =
        all.as_array().unwrap().iter().map(|s| (s["instance"].as_str().unwrap(), s["pid"].clone())).collect();
    let pids = [&edge, &first, &second].map(|instance| json!(instance.id()));
    let expected: Vec<_> = ["edge", "l3switch", "l3switch-2"].into_iter().zip(pids).collect();
    assert_eq!(seen, expected);
    let text = runtime.millrace(&["status"]).ok();
    assert_eq!(text.lines().count(), 4, "{text}");
    let text = runtime.millrace(&["table", "ls"]).failed_in_one_line(1);
    assert!(
        text.contains("several instances are running: edge, l3switch, l3switch-2; choose one with --instance"),
        "{text}"
    );
    // What is changed in one is not changed in another.
    let fib =
        |instance: &str| runtime.millrace(&["table", "get", "l3_forward.fib", "10.7.0.0/16", "--instance", instance]);
    runtime.millrace(&["table", "set", "l3_forward.fib", "10.7.0.0/16", "2", "--instance", "edge"]).ok();
    assert_eq!(fib("edge").ok(), "2\n");
    fib("l3switch-2").failed_in_one_line(1);
    // By the path of the socket too.
    let socket = runtime.socket("l3switch-2");
    let status = runtime.json(&["status", "--socket", &socket]);
    assert_eq!((&status[0]["instance"], &status[0]["pid"]), (&json!("l3switch-2"), &json!(second.id())));
    // Ended, a name is free.
    assert_eq!(runtime.millrace(&["stop", "--instance", "l3switch"]).ok(), "l3switch: stopped\n");
    assert!(!Path::new(&runtime.socket("l3switch")).exists());
    first.end().ok();
    let again = switch(&runtime, &[]);
    assert_eq!(runtime.json(&["status", "--instance", "l3switch"])[0]["pid"], again.id());
    for (instance, name) in [(edge, "edge"), (second, "l3switch-2"), (again, "l3switch")] {
        assert_eq!(runtime.json(&["stop", "--instance", name])["instance"], name);
        instance.end().ok();
    }
    assert!(!Path::new(&runtime.path("run")).exists(), "nothing is left");
    let bad = runtime.millrace(&["status", "--instance", "../x"]).failed_in_one_line(1);
    assert!(bad.contains("letters, digits"), "{bad}");
}

#[test]
fn a_dead_instances_socket_is_taken_over_and_a_live_ones_is_not() {
    let runtime = Runtime::new();
    let socket = runtime.path("my.sock");
    let dead = switch(&runtime, &["--socket", &socket]);
    let refused = runtime.millrace(&[&["run"], &SWITCH[..], &["--socket", &socket]].concat()).failed_in_one_line(2);
    assert!(refused.contains("another instance is running here"), "{refused}");
    assert_eq!(runtime.json(&["status", "--socket", &socket])[0]["pid"], dead.id(), "unharmed");
    dead.kill();
    assert!(fs::metadata(&socket).unwrap().file_type().is_socket());
    let text = runtime.millrace(&["status", "--socket", &socket]).failed_in_one_line(2);
    assert!(text.contains("it died and left its socket"), "{text}");
    let alive = switch(&runtime, &["--socket", &socket]);
    assert_eq!(runtime.json(&["status", "--socket", &socket])[0]["pid"], alive.id());
    runtime.millrace(&["stop", "--socket", &socket]).ok();
    alive.end().ok();
    assert!(!Path::new(&socket).exists());
    // By name: a dead instance is not listed, and its name is free.
    let dead = switch(&runtime, &["--instance", "edge"]);
    let taken = runtime.millrace(&[&["run"], &SWITCH[..], &["--instance", "edge"]].concat()).failed_in_one_line(2);
    assert!(taken.contains("--instance NAME"), "{taken}");
    dead.kill();
    runtime.millrace(&["status"]).failed_in_one_line(2);
    let alive = switch(&runtime, &["--instance", "edge"]);
    assert_eq!(runtime.json(&["status"])[0]["pid"], alive.id());
}

#[test]
fn what_is_not_millraces_is_left_alone() {
    let runtime = Runtime::new();
    let run = |socket: &str| {
        let text = runtime.millrace(&[&["run"], &SWITCH[..], &["--socket", socket]].concat()).failed_in_one_line(2);
        assert!(text.contains(socket), "{text}");
        text
    };
    let file = runtime.write("file", "precious");
    assert!(run(&file).contains("something else"));
    assert_eq!(fs::read_to_string(&file).unwrap(), "precious");
    let other = runtime.path("other.sock");
    let listener = UnixListener::bind(&other).unwrap();
    assert!(run(&other).contains("something else"));
    assert!(listener.accept().is_ok(), "it was only asked whether it lives");
    assert!(run("/nonexistent/dir/x.sock").contains("No such file"));
    assert!(run(&runtime.path(&"x".repeat(200))).contains("--no-socket"));
    let text = process::run({
        let mut command = runtime.command(&[&["run"], &SWITCH[..]].concat());
        command.env("MILLRACE_RUNTIME_DIR", &file);
        command
    });
    assert!(text.failed_in_one_line(2).contains("MILLRACE_RUNTIME_DIR"));
    // A user that can write to the directory could put a socket of theirs there.
    let open = runtime.path("open");
    fs::create_dir(&open).unwrap();
    fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
    for arguments in [&[&["run"], &SWITCH[..]].concat()[..], &["status"]] {
        let mut command = runtime.command(arguments);
        command.env("MILLRACE_RUNTIME_DIR", &open);
        let text = process::run(command).failed_in_one_line(2);
        assert!(text.contains("others may write there"), "{text}");
    }
    // Without a socket nothing is made.
    let quiet = switch(&runtime, &["--no-socket"]);
    assert!(!Path::new(&runtime.path("run")).exists());
    drop(quiet);
}

#[test]
fn permissions_guard_the_socket() {
    let runtime = Runtime::new();
    let mode = |path: &str| fs::metadata(path).unwrap().mode() & 0o777;
    let instance = switch(&runtime, &[]);
    let socket = runtime.socket("l3switch");
    assert_eq!((mode(&socket), mode(&runtime.path("run")) & 0o022), (0o600, 0));
    drop(instance);
    // A group may use it too.
    let config = fs::read_to_string(Path::new(process::ROOT).join("apps/l3switch/l3switch.toml")).unwrap();
    let own = |group: &str| {
        let socket = runtime.path("group.sock");
        let text = format!("[control]\ninstance = \"grouped\"\nsocket = {socket:?}\ngroup = {group:?}\n{config}");
        (runtime.write("group.toml", &text), socket)
    };
    let (path, socket) = own("root");
    let instance = switch(&runtime, &["-c", &path]);
    assert_eq!((mode(&socket), fs::metadata(&socket).unwrap().gid()), (0o660, 0));
    assert_eq!(runtime.json(&["status", "--socket", &socket])[0]["instance"], "grouped");
    // A user without permission is told so.
    fs::set_permissions(&socket, fs::Permissions::from_mode(0o000)).unwrap();
    let scratch = Scratch::new();
    let nobody = without_privileges();
    let mut command = Command::new(nobody[0]);
    command.args(&nobody[1..]).args([&scratch.millrace(), "status", "--socket", &socket]);
    let text = process::run(command).failed_in_one_line(2);
    assert!(text.contains("permission denied") && text.contains("group"), "{text}");
    drop(instance);
    let (path, _) = own("nosuchgroup");
    let text = runtime.millrace(&[&["run"], &SWITCH[..], &["-c", &path]].concat()).failed_in_one_line(1);
    assert!(text.contains("there is no group \"nosuchgroup\""), "{text}");
}

#[test]
fn ordinary_users_have_a_place_of_their_own() {
    let runtime = Runtime::new();
    let scratch = Scratch::new();
    let program = scratch.millrace();
    let nobody = without_privileges();
    let command = |arguments: &[&str]| {
        let mut command = Command::new(nobody[0]);
        command.args(&nobody[1..]).arg(&program).args(arguments);
        command
            .env_remove("MILLRACE_RUNTIME_DIR")
            .env("XDG_RUNTIME_DIR", scratch.path("xdg"))
            .env_remove("MILLRACE_LOG")
            .env_remove("MILLRACE_CACHE");
        command
    };
    let source = scratch.write("patch.baker", fs::read(PATCH).unwrap());
    let instance = runtime.start_command(command(&["run", &source, "--port", "a=mem:"]));
    // Root of a user namespace may be the machine's root without privileges, to whom /run belongs.
    let is_root = nobody.iter().all(|argument| *argument != "--reuid") && fs::metadata("/run").unwrap().uid() == 0;
    let place = if is_root { "/run/millrace".into() } else { scratch.path("xdg/millrace") };
    assert_eq!(fs::metadata(&place).unwrap().mode() & 0o022, 0, "nobody else may write there");
    assert_eq!(fs::metadata(format!("{place}/patch.sock")).unwrap().mode() & 0o777, 0o600);
    let status = process::run(command(&["status", "--json"])).ok();
    assert_eq!(serde_json::from_str::<Json>(&status).unwrap()[0]["instance"], "patch");
    process::run(command(&["stop"])).ok();
    instance.end().ok();
}

#[test]
fn logs() {
    let runtime = Runtime::new();
    let mut command = runtime.command(&[&["run"], &SWITCH[..], &["--log-format", "json"]].concat());
    command.env("MILLRACE_LOG", "info");
    let instance = runtime.start_command(command);
    runtime.millrace(&["table", "set", "l3_forward.fib", "10.9.0.0/16", "2"]).ok();
    runtime.millrace(&["table", "del", "l3_forward.fib", "10.9.0.0/16"]).ok();
    runtime.millrace(&["stop"]).ok();
    let done = instance.end();
    assert_eq!(done.status, Some(0));
    let lines: Vec<Json> = done.stderr.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let messages: Vec<_> = lines.iter().map(|line| line["message"].as_str().unwrap()).collect();
    assert_eq!(messages, ["running", "table entry set", "table entry removed", "told to stop", "stopped"]);
    let set = &lines[1];
    assert_eq!(
        (&set["table"], &set["key"], &set["value"]),
        (&json!("l3_forward.fib"), &json!("10.9.0.0/16"), &json!("2"))
    );
    assert_eq!((&set["level"], set["uid"].is_u64()), (&json!("INFO"), true));
    // As text, and nothing but warnings where nothing is asked for.
    let mut command = runtime.command(&["run", PATCH, "--port", "a=mem:", "--duration", "0"]);
    command.env("MILLRACE_LOG", "millrace=info");
    let done = process::run(command);
    assert!(done.stderr.contains("INFO running program=") && done.stderr.contains("patch.sock"), "{done:?}");
    runtime.millrace(&["run", PATCH, "--port", "a=mem:", "--duration", "0"]).ok();
    let mut command = runtime.command(&["status"]);
    command.env("MILLRACE_LOG", "control=loud");
    let text = process::run(command).failed_in_one_line(1);
    assert!(text.contains("MILLRACE_LOG=control=loud") && text.contains("accepted: error, warn, info"), "{text}");
}

#[test]
fn controllers_are_asked_only_what_they_offer() {
    let runtime = Runtime::new();
    let _switch = switch(&runtime, &[]);
    // Its program has no controller that offers anything.
    assert_eq!(runtime.json(&["metrics"]), json!({}));
    for command in ["servers", "sessions"] {
        let done = runtime.millrace(&[command]);
        assert_eq!(done.status, Some(1), "{done:?}");
        let message = "error: the program has no controller \"splice\" that can be asked; there is none\n";
        assert_eq!(done.stderr, message);
    }
    let socket = runtime.socket("l3switch");
    let ask = |line: &str| -> Json {
        let mut stream = std::os::unix::net::UnixStream::connect(&socket).unwrap();
        std::io::Write::write_all(&mut stream, line.as_bytes()).unwrap();
        let mut answer = String::new();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(stream), &mut answer).unwrap();
        serde_json::from_str(&answer).unwrap()
    };
    assert_eq!(ask("{\"request\": \"queries\"}\n"), json!({ "ok": [] }));
    let refused = ask("{\"request\": \"query\", \"controller\": \"x\", \"query\": \"y\"}\n");
    assert_eq!(refused["error"]["code"], "unknown_query");
    let refused = ask("{\"request\": \"query\", \"controller\": \"x\"}\n");
    assert_eq!(refused["error"]["code"], "bad_request");
}

#[test]
fn a_splicer_is_asked() {
    let runtime = Runtime::new();
    let _splice = runtime.start(&["splice", "--engine", "worker", "--port", "clients=mem:", "--port", "servers=mem:"]);
    let names = |family: &Json| family["name"].as_str().unwrap().to_owned();
    let metrics = runtime.json(&["metrics", "service_"]);
    let all: Vec<String> = metrics["splice"].as_array().unwrap().iter().map(names).collect();
    assert!(all.contains(&"service_requests".into()) && all.iter().all(|name| name.starts_with("service_")), "{all:?}");
    let one = runtime.json(&["metrics", "server_up", "--label", "server=a6"]);
    assert_eq!(one["splice"][0]["samples"], json!([{ "labels": { "pool": "web", "server": "a6" }, "value": 0 }]));
    let server = || {
        let all = runtime.json(&["servers"]);
        all.as_array().unwrap().iter().find(|own| own["pool"] == "web" && own["name"] == "a").unwrap().clone()
    };
    assert_eq!((server()["admin"].as_str(), server()["up"].as_bool()), (Some("ready"), Some(false)));
    assert_eq!(runtime.millrace(&["servers", "down", "web/a"]).ok(), "web/a: down, taken down, 0 connections\n");
    assert_eq!(server()["admin"], "down");
    assert_eq!(runtime.json(&["sessions"]), json!({ "sessions": [], "fit": 0, "all": 0 }));
    assert_eq!(runtime.millrace(&["sessions", "--watch", "--count", "2"]).ok().lines().count(), 2);
    // Nothing is ended that was not named.
    let done = runtime.millrace(&["sessions", "kill", "--json"]);
    assert!(done.status == Some(1) && done.stderr.contains("which connections?"), "{done:?}");
}
