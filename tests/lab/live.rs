//! Labs that live.

use std::fs;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use lab::Signal;
use serde_json::Value as Json;

use crate::instance::Runtime;
use crate::process::{Done, ROOT, Scratch, run, without_privileges};

/// Long enough for a loaded machine; nothing takes this long when all is well.
const PATIENCE: Duration = Duration::from_secs(90);

/// A router between two hosts, one link emulated; a program in each host and a capture.
const LAB: &str = r#"
name = "triangle"
seed = 5

[hosts.left]
devices.eth0 = { addresses = ["10.0.1.2/24", "fd00:1::2/64"], mac = "02:00:00:00:00:11" }
routes = { default = "10.0.1.1", "fd00:2::/64" = "fd00:1::1" }

[hosts.router]
forwarding = true
devices.l = { addresses = ["10.0.1.1/24", "fd00:1::1/64"] }
devices.r = { addresses = ["10.0.2.1/24", "fd00:2::1/64"] }
sysctls = { "net.ipv4.ip_default_ttl" = "33" }

[hosts.right]
devices.eth0 = { addresses = ["10.0.2.2/24", "fd00:2::2/64"] }
routes = { default = "10.0.2.1", "fd00:1::/64" = "fd00:2::1" }

[[links]]
ends = ["left:eth0", "router:l"]
mtu = 9000

[[links]]
ends = ["router:r", "right:eth0"]
mtu = 9000
delay = "10 ms"
backward = { delay = "30 ms" }

[[hosts.right.commands]]
run = "sh -c 'sleep 1000 & echo listening; wait'"
ready = "listening"

[[hosts.left.commands]]
run = "ping -n -c 2 -i 0.2 -w 20 10.0.2.2"
wait = true
log = "ping.log"

[[hosts.left.commands]]
run = "ping -n -c 1 -w 20 fd00:2::2"
wait = true

[[captures]]
file = "right.pcapng"
devices = ["right:eth0"]
"#;

/// A lab process; killed by its own id when dropped.
struct Lab<'r> {
    child: Child,
    out: String,
    runtime: &'r Runtime,
}

impl<'r> Lab<'r> {
    /// Starts a lab and waits until it is up.
    fn start(runtime: &'r Runtime, text: &str) -> Lab<'r> {
        let file = runtime.write("lab.toml", text);
        Lab::start_command(runtime, runtime.command(&["lab", &file, "--json"]))
    }

    fn start_command(runtime: &'r Runtime, mut command: Command) -> Lab<'r> {
        let out = runtime.path("out");
        let file = || fs::OpenOptions::new().append(true).create(true).open(&out).unwrap();
        let child = command.stdin(Stdio::null()).stdout(file()).stderr(file()).spawn().unwrap();
        let mut lab = Lab { child, out, runtime };
        lab.wait("it is up", |lab| {
            assert!(lab.child.try_wait().unwrap().is_none(), "{}", lab.output());
            lab.output().contains("\"event\":\"ready\"")
        });
        lab
    }

    fn output(&self) -> String {
        fs::read_to_string(&self.out).unwrap()
    }

    /// The events of a kind.
    fn events(&self, kind: &str) -> Vec<Json> {
        let all = self.output();
        let events =
            all.lines().map(|line| serde_json::from_str::<Json>(line).unwrap_or_else(|e| panic!("{e}: {line}")));
        events.filter(|event| event["event"] == kind).collect()
    }

    fn wait(&mut self, what: &str, mut condition: impl FnMut(&mut Self) -> bool) {
        let start = Instant::now();
        while !condition(self) {
            assert!(start.elapsed() < PATIENCE, "still not so: {what}\n{}", self.output());
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Runs a command in a host, as from another terminal.
    fn exec(&self, words: &[&str]) -> Done {
        run(self.runtime.command(&[&["lab", "exec"], words].concat()))
    }

    fn signal(&self, signal: Signal) {
        // Not yet reaped, so the number is still its own.
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(self.child.id().cast_signed()), signal).unwrap();
    }

    /// The files of labs in the place for sockets.
    fn registered(&self) -> Vec<String> {
        let entries = fs::read_dir(self.runtime.path("run")).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.ends_with(".lab")).collect()
    }
}

impl Drop for Lab<'_> {
    fn drop(&mut self) {
        // It may have ended; then there is nothing to do.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whether a process exists and is not a zombie.
fn is_alive(process: u32) -> bool {
    fs::read_to_string(format!("/proc/{process}/stat"))
        .is_ok_and(|stat| stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.starts_with(" Z")))
}

/// The process id of the `sleep` that a shell started in the host `right`.
fn sleeper(lab: &Lab) -> u32 {
    let found = lab.exec(&["right", "--", "sh", "-c", LIST]).ok();
    let ids: Vec<u32> = found.lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(ids.len(), 1, "{found}");
    ids[0]
}

/// Lists processes named sleep whose network namespace is the shell's own.
const LIST: &str = r#"for p in /proc/[0-9]*; do
    [ "$(readlink $p/ns/net)" = "$(readlink /proc/self/ns/net)" ] && [ "$(cat $p/comm)" = sleep ] && basename $p
done; true"#;

#[test]
fn a_lab_is_built_entered_from_elsewhere_and_ends_with_an_account() {
    let runtime = Runtime::new();
    let mut lab = Lab::start(&runtime, LAB);
    assert_eq!(lab.registered(), ["triangle.lab"]);
    // It has tried itself already.
    assert!(fs::read_to_string(runtime.path("ping.log")).unwrap().contains(" 0% packet loss"));
    let said = lab.events("output");
    assert!(said.iter().any(|e| e["host"] == "right" && e["line"] == "listening"), "{said:?}");
    assert!(said.iter().any(|e| e["host"] == "left" && e["line"].as_str().unwrap().contains("fd00:2::2")), "{said:?}");

    // Delays of both directions, one hop, and a frame of 9000 bytes; the router's own TTL was set.
    let ping =
        lab.exec(&["left", "--", "ping", "-n", "-c", "1", "-w", "20", "-M", "do", "-s", "8972", "10.0.2.2"]).ok();
    assert!(ping.contains("8980 bytes from 10.0.2.2") && ping.contains("ttl=63 "), "{ping}");
    let time: f64 = ping.split("time=").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
    assert!(time >= 40.0, "{ping}");
    let ping = lab.exec(&["left", "--", "ping", "-n", "-c", "1", "-w", "20", "10.0.1.1"]).ok();
    assert!(ping.contains("ttl=33 "), "{ping}");
    let address = lab.exec(&["left", "--", "cat", "/sys/class/net/lo/address"]);
    assert_eq!(address.status, Some(0));

    // Input, output and status are the command's own.
    let done = lab.exec(&["router", "--", "sh", "-c", "echo out; echo err >&2; exit 7"]);
    assert_eq!((done.status, done.stdout.as_str(), done.stderr.as_str()), (Some(7), "out\n", "err\n"));
    assert!(lab.exec(&["leeft", "--", "true"]).failed_in_one_line(1).contains("did you mean `left`?"));
    assert!(lab.exec(&["--lab", "other", "left", "--", "true"]).failed_in_one_line(2).contains("no lab other"));
    assert!(lab.exec(&["left", "--", "/no/such"]).failed_in_one_line(2).contains("/no/such"));

    // Its name is taken, and stays so.
    let again = runtime.write("again.toml", "name = \"triangle\"\n[hosts.a]");
    let said = run(runtime.command(&["lab", &again])).failed_in_one_line(1);
    assert!(said.contains("a lab triangle is running"), "{said}");

    let sleeper = sleeper(&lab);
    lab.signal(Signal::SIGINT);
    lab.wait("it ends", |lab| lab.child.try_wait().unwrap().is_some());
    assert_eq!(lab.child.wait().unwrap().code(), Some(0), "{}", lab.output());
    assert!(!is_alive(sleeper), "what a shell started outlives the lab");
    assert_eq!(lab.registered(), Vec::<String>::new());
    assert!(lab.exec(&["left", "--", "true"]).failed_in_one_line(2).contains("no lab is running"));

    let end = lab.events("end").remove(0);
    let link = &end["links"][0];
    assert_eq!(link["ends"], serde_json::json!(["router:r", "right:eth0"]));
    assert!(link["forward"]["sent"].as_u64().unwrap() >= 4, "{end}");
    assert_eq!(link["forward"]["lost"], 0);
    let packets = end["captures"][0]["packets"].as_u64().unwrap();
    let length = fs::metadata(runtime.path("right.pcapng")).unwrap().len();
    assert!(packets >= 8 && length > packets * 60, "{end}, {length} bytes");
}

/// Two instances of Millrace between two hosts, in whose middle there is nothing but their ports.
const TWO: &str = r#"
name = "two"

[hosts.left]
devices.eth0 = { addresses = ["10.0.1.1/24"] }

[hosts.right]
devices.eth0 = { addresses = ["10.0.1.2/24"] }

[hosts.one]
devices.p1 = { port = true }
devices.p2 = { port = true }

[hosts.two]
devices.p1 = { port = true }
devices.p2 = { port = true }

[[links]]
ends = ["left:eth0", "one:p1"]

[[links]]
ends = ["one:p2", "two:p1"]

[[links]]
ends = ["two:p2", "right:eth0"]

[[hosts.one.commands]]
run = "millrace run PATCH --port p1=auto:p1 --port p2=auto:p2 --no-socket"
ready = "running on 2 ports"
log = "one.log"

[[hosts.two.commands]]
run = "millrace run PATCH --port p1=auto:p1 --port p2=auto:p2 --no-socket"
ready = "running on 2 ports"
log = "two.log"

[[hosts.left.commands]]
run = "ping -n -c 5 -i 0.1 -w 20 10.0.1.2"
wait = true

[[captures]]
file = "middle.pcapng"
devices = ["one:p2", "two:p1"]

[[captures]]
file = "edge.pcapng"
devices = ["one:p1"]
"#;

/// Millrace sends past the places where the kernel shows packets to captures, and takes packets in front of them: so
/// the lab carries a link with a capture at a port itself, and records what passes.
#[test]
fn a_capture_between_two_ports_sees_all_that_passes() {
    let runtime = Runtime::new();
    let file = runtime.write("two.toml", &TWO.replace("PATCH", &format!("{ROOT}/examples/patch.baker")));
    let out = run(runtime.command(&["lab", &file, "--duration", "0", "--json"])).ok();
    let events: Vec<Json> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let end = events.iter().find(|event| event["event"] == "end").unwrap();
    let captured = |index: usize| end["captures"][index]["packets"].as_u64().unwrap();
    let passed = |index: usize| {
        let link = &end["links"][index];
        ["forward", "backward"].map(|way| link[way]["sent"].as_u64().unwrap())
    };
    assert_eq!(end["links"][1]["ends"], serde_json::json!(["one:p2", "two:p1"]));
    // Five requests, as many answers, and at least one question for an address with its answer.
    let [there, back] = passed(1);
    assert!(there >= 6 && back >= 6, "{end}");
    // At the middle link each packet goes out at one end and comes in at the other.
    assert_eq!(captured(0), 2 * (there + back), "{end}");
    let [there, back] = passed(0);
    assert_eq!(captured(1), there + back, "{end}");
    assert_eq!(end["captures"][0]["dropped"], 0);
    // The interfaces are called as the devices, and what a port has received, and sent, the file tells.
    let config = runtime.write("ports.toml", "ports.p1.number = 1\nports.p2.number = 2\n");
    let patch = format!("{ROOT}/examples/patch.baker");
    let replay =
        |file: &str| run(runtime.command(&["replay", &patch, "-c", &config, "--in", &runtime.path(file)])).ok();
    let [there, back] = passed(1);
    let said = replay("middle.pcapng");
    assert!(said.contains(&format!(": {} packets in, ", there + back)), "{said}");
    assert!(said.contains(&format!("  {} packets of the file were sent by ports", there + back)), "{said}");
    let [there, back] = passed(0);
    let said = replay("edge.pcapng");
    assert!(said.contains(&format!(": {there} packets in, ")), "{said}");
    assert!(said.contains(&format!("  {back} packets of the file were sent by ports")), "{said}");
}

#[test]
fn a_lab_that_crashes_leaves_nothing() {
    let runtime = Runtime::new();
    let mut lab = Lab::start(&runtime, LAB);
    let sleeper = sleeper(&lab);
    lab.signal(Signal::SIGKILL);
    lab.wait("what ran there is killed", |_| !is_alive(sleeper));
    lab.wait("its file is gone", |lab| lab.registered().is_empty());
    // And a new one of its name is built at once.
    drop(lab);
    drop(Lab::start(&runtime, LAB));
}

#[test]
fn a_command_that_fails_ends_the_lab() {
    let runtime = Runtime::new();
    let lab = |commands: &str| {
        let file = runtime.write("fails.toml", &format!("[hosts.a]\n{commands}"));
        let done = run(runtime.command(&["lab", &file, "--duration", "0"]));
        assert_eq!(done.status, Some(2), "{done:?}");
        done.stderr
    };
    let said = lab("[[hosts.a.commands]]\nrun = \"sh -c 'exit 3'\"\nwait = true");
    assert!(said.contains("a: `sh -c exit 3`: exit status: 3"), "{said}");
    let said = lab("[[hosts.a.commands]]\nrun = \"echo no\"\nready = \"yes\"");
    assert!(said.contains("a: `echo no`: exit status: 0"), "{said}");
    let said = lab("[[hosts.a.commands]]\nrun = \"sleep 100\"\nready = \"yes\"\nwithin = \"100 ms\"");
    assert!(said.contains("not ready after 100ms"), "{said}");
    let said = lab("[[hosts.a.commands]]\nrun = \"no-such-program\"");
    assert!(said.contains("`no-such-program` is not installed"), "{said}");
    let said =
        lab("[[captures]]\nfile = \"/nonexistent/x\"\ndevices = [\"a:x\"]\n[[links]]\nends = [\"a:x\", \"a:y\"]");
    assert!(said.contains("/nonexistent/x"), "{said}");
}

#[test]
fn the_example_works_as_it_says() {
    let scratch = Scratch::new();
    let text = fs::read_to_string(format!("{ROOT}/examples/lab.toml")).unwrap();
    let runtime = Runtime::new();
    let file = scratch.write("lab.toml", &text);
    let said = run(runtime.command(&["lab", &file, "--duration", "0"])).ok();
    assert!(said.contains("3 packets transmitted") && said.contains("lab lab is up"), "{said}");
    assert!(said.contains("millrace lab exec --lab lab near -- COMMAND"), "{said}");
    assert!(said.contains("server:eth0 → switch:p3"), "{said}");
}

#[test]
fn the_labs_of_the_applications_work() {
    let labs = [
        // Routers may lose the first ones, until they know their neighbours.
        ("apps/firewall/lab.toml", " 3 received"),
        ("apps/mpls/lab/lab.toml", " 3 received"),
        ("apps/splice/lab.toml", "[client] I am "),
    ];
    for (file, text) in labs {
        let runtime = Runtime::new();
        let said = run(runtime.command(&["lab", &format!("{ROOT}/{file}"), "--duration", "0"])).ok();
        assert!(said.contains(text) && said.contains("lab lab is up"), "{said}");
    }
}

#[test]
fn a_lab_works_without_root() {
    let scratch = Scratch::new();
    let runtime = Runtime::new();
    let (program, file) = (scratch.millrace(), scratch.write("lab.toml", LAB));
    let words = without_privileges();
    let command = |arguments: &[&str]| {
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).arg(&program).args(arguments).env("MILLRACE_RUNTIME_DIR", scratch.path("run"));
        command.current_dir("/");
        command
    };
    let map = fs::read_to_string("/proc/self/uid_map").unwrap();
    if !map.split_whitespace().eq(["0", "0", "4294967295"]) {
        // Inside a user namespace that has one user there is nobody without privileges who could make another.
        let said = run(command(&["lab", &file])).failed(2);
        assert!(said.contains("namespace"), "{said}");
        return;
    }
    let mut lab = Lab::start_command(&runtime, command(&["lab", &file, "--json"]));
    let mut exec = command(&["lab", "exec", "left", "--", "ping", "-n", "-c", "1", "-w", "20", "10.0.2.2"]);
    exec.process_group(0);
    assert!(run(exec).ok().contains("64 bytes from 10.0.2.2"));
    lab.signal(Signal::SIGTERM);
    lab.wait("it ends", |lab| lab.child.try_wait().unwrap().is_some());
    assert_eq!(lab.child.wait().unwrap().code(), Some(0), "{}", lab.output());
}
