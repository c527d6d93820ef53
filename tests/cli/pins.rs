//! Where what outlasts the process is named: as services and `ip netns exec` run it, in mount namespaces of their own.

use std::fs;
use std::time::Duration;

use lab::{Namespace, RawPort, Running};

use crate::frames::{ETH_EXPERIMENT, ethernet};
use crate::instance::Runtime;
use crate::run::network;

const PATIENCE: Duration = Duration::from_secs(20);

const PROGRAM: &str = "import \"net/ether\";
module m {
    in ether input; out ether output;
    hash<u32, u32> numbers[16];
    ppf p(ether_packet_t *pkt) from input {
        pkt->metadata.tx.port = 3 - pkt->metadata.rx.port;
        channel_put(output, pkt);
    }
}
program { rx -> m.input; m.output -> tx; }
";

/// What the unit leaves to the service.
const UNIT: &str = include_str!("../../systemd/millrace@.service");

/// A machine of its own, as far as mounts and processes go: the first process of a namespace of either.
struct Machine {
    box_: Namespace,
    runtime: Runtime,
    /// A copy of Millrace that every user may run.
    program: String,
    first: Running,
}

impl Machine {
    fn new(box_: Namespace) -> Machine {
        let runtime = Runtime::new();
        runtime.write("sw.baker", PROGRAM);
        let begin = "umount /sys/fs/bpf 2>&-; mount -t tmpfs run /run && echo begun; exec sleep 300";
        let own = ["--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", begin];
        let mut first = box_.command("unshare").args(own).spawn().unwrap();
        first.wait_for_text("begun", PATIENCE).unwrap_or_else(|error| panic!("{error}"));
        let program = runtime.millrace_for_all();
        Machine { box_, runtime, program, first }
    }

    /// The first process, as it is called here.
    fn first(&self) -> String {
        let id = self.first.id();
        fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap().trim().to_owned()
    }

    /// A command on it.
    fn words(&self, command: &[&str]) -> Vec<String> {
        let enter = ["nsenter", "--target", &self.first(), "--mount", "--pid", "--"];
        enter.iter().chain(command).map(|word| word.to_string()).collect()
    }

    fn check(&self, command: &[&str]) -> String {
        let words = self.words(command);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        self.box_.check(&words).unwrap_or_else(|error| panic!("{error}")).text()
    }

    /// Starts Millrace by way of a command, with a state.
    fn start(&self, driver: &str, by: &[&str], state: &str, instance: &str) -> Started {
        let path = |name| self.runtime.path(name);
        let (file, state, socket) = (path("sw.baker"), path(state), path("sock"));
        let millrace = ["sh", "-c", "echo \"id $$\"; exec \"$@\"", "sh", &self.program, "run", &file];
        let more = ["--state", &state, "--socket", &socket, "--instance", instance];
        let [left, right] = [("l", "left"), ("r", "right")].map(|(port, name)| format!("{port}={driver}:{name}"));
        let ports = ["--port", &left, "--port", &right, "--replace-xdp"];
        let words = self.words(&[by, &millrace, &more, &ports].concat());
        let mut running = self.box_.command(&words[0]).args(&words[1..]).spawn().unwrap();
        running.wait_for_text("running on 2 ports", PATIENCE).unwrap_or_else(|error| panic!("{error}"));
        let text = running.both();
        let id = text.lines().find_map(|line| line.strip_prefix("id ")).expect("it says so").to_owned();
        Started { running, id, text }
    }

    fn end(&self, mut started: Started, signal: &str) {
        self.check(&["kill", signal, &started.id]);
        started.running.wait(PATIENCE).unwrap();
    }

    /// What is named.
    fn names(&self) -> String {
        self.check(&["sh", "-c", "cd /sys/fs/bpf && find . -maxdepth 2 -path './millrace*' | sort"])
    }
}

/// Millrace on the machine.
struct Started {
    running: Running,
    /// Its id there.
    id: String,
    /// What it said when it started.
    text: String,
}

/// Packets pass, each of them once.
fn passes(wires: &mut [RawPort; 2]) {
    for (from, to) in [(0, 1), (1, 0)] {
        let frames = [7, 8].map(|number| ethernet([2; 6], [4; 6], ETH_EXPERIMENT, &[number; 60]));
        for frame in &frames {
            wires[from].send(frame).unwrap();
            assert_eq!(wires[to].recv(PATIENCE).unwrap().as_ref(), Some(frame));
        }
    }
}

#[test]
fn what_is_named_outlasts_mount_namespaces() {
    outlasts("xdp", "XDP");
}

#[test]
fn what_is_named_at_traffic_control_outlasts_mount_namespaces() {
    outlasts("tc", "traffic control");
}

/// What the unit has done before it starts Millrace: a user of its own gets the directories of its own, and of the BPF
/// file system nothing but its part.
const SERVICE: &str = "
set -e
mkdir -m 700 -p /sys/fs/bpf/millrace
chown -R 65534 /sys/fs/bpf/millrace $0
exec unshare --mount --propagation slave sh -c '
    mkdir -p /run/part
    mount --bind /sys/fs/bpf/millrace /run/part
    mount -t tmpfs -o mode=755 none /sys/fs/bpf
    mkdir /sys/fs/bpf/millrace
    mount --bind /run/part /sys/fs/bpf/millrace
    exec setpriv --reuid 65534 --clear-groups --inh-caps=$0 --ambient-caps=$0 --bounding-set=-all,$0 -- \"$@\"
' $RIGHTS \"$@\"";

/// A service with a user of its own takes over what root's has left, and its own.
#[test]
fn a_user_of_its_own_has_a_part_of_it() {
    let (box_, hosts) = network();
    for host in &hosts {
        host.check(&["ethtool", "-K", "eth0", "gro", "on"]).unwrap();
    }
    let mut wires = [0, 1].map(|i| RawPort::open(&hosts[i], "eth0").unwrap());
    let machine = Machine::new(box_);
    let own = machine.runtime.path(".");
    let service = SERVICE.replace("$RIGHTS", rights().trim_start_matches(','));
    let service = ["sh", "-c", &service, &own];
    let mut started = machine.start("xdp", &["unshare", "--mount", "--propagation", "slave"], "state", "edge");
    for _ in 0..2 {
        passes(&mut wires);
        machine.end(started, "-KILL");
        passes(&mut wires);
        started = machine.start("xdp", &service, "state", "edge");
        let taken_over = "XDP, taken over from the process before while it ran";
        assert_eq!(started.text.matches(taken_over).count(), 2, "{}", started.text);
        assert!(!started.text.contains("outlast"), "{}", started.text);
        assert_eq!(machine.check(&["stat", "-c", "%u", &format!("/proc/{}", started.id)]), "65534\n");
    }
    passes(&mut wires);
    assert_eq!(machine.check(&["stat", "-c", "%a %u", "/sys/fs/bpf", "/sys/fs/bpf/millrace"]), "1700 0\n700 65534\n");
    machine.end(started, "-TERM");
    // Its part stays, and nothing in it.
    assert_eq!(machine.names(), "./millrace\n");
}

/// The capabilities that the unit leaves, each with `,+`.
fn rights() -> String {
    let rights = UNIT.lines().find_map(|line| line.strip_prefix("CapabilityBoundingSet=")).unwrap();
    rights.split(' ').map(|right| right.to_lowercase().replace("cap_", ",+")).collect()
}

fn outlasts(driver: &str, hook: &str) {
    let taken_over = format!("{hook}, taken over from the process before while it ran");
    let (box_, hosts) = network();
    for host in &hosts {
        host.check(&["ethtool", "-K", "eth0", "gro", "on"]).unwrap();
    }
    let mut wires = [0, 1].map(|i| RawPort::open(&hosts[i], "eth0").unwrap());
    let machine = Machine::new(box_);
    // `ip` knows namespaces by name.
    machine.check(&["ip", "netns", "attach", "box", "1"]);
    let bounding = format!("--bounding-set=-all{}", rights());
    let service = ["unshare", "--mount", "--propagation", "slave"];
    let unit = [&service[..], &["setpriv", &bounding]].concat();
    let ways: [&[&str]; 6] = [&service, &["ip", "netns", "exec", "box"], &unit, &[], &service, &unit];
    let mut started = machine.start(driver, ways[0], "state", "edge.1");
    assert!(!started.text.contains("outlast"), "{}", started.text);
    for way in &ways[1..] {
        passes(&mut wires);
        machine.end(started, "-KILL");
        passes(&mut wires);
        started = machine.start(driver, way, "state", "another");
        assert_eq!(started.text.matches(&taken_over).count(), 2, "{way:?}: {}", started.text);
        assert!(!started.text.contains("outlast"), "{way:?}: {}", started.text);
    }
    passes(&mut wires);
    // The instance's name when it was first started, as far as a BPF file system can hold it. No other user may look.
    let names = machine.names();
    assert!(names.starts_with("./millrace\n./millrace/edge_1\n") && !names.contains("another"), "{names}");
    assert_eq!(machine.check(&["stat", "-c", "%a", "/sys/fs/bpf", "/sys/fs/bpf/millrace"]), "1700\n700\n");
    machine.end(started, "-KILL");
    // Another state does not take over, and says whose program is there.
    let path = |name| machine.runtime.path(name);
    let (file, other) = (path("sw.baker"), path("other"));
    let expected = format!(
        "left: has the program of a Millrace that has ended and whose state is in {}: start with that state, which takes over, \
         or remove /sys/fs/bpf/millrace/edge_1, and with it the program",
        path("state")
    );
    for driver in ["xdp", "tc", "afxdp", "afpacket", "auto"] {
        let [left, right] = [("l", "left"), ("r", "right")].map(|(port, name)| format!("{port}={driver}:{name}"));
        let more = ["run", &file, "--state", &other, "--no-socket", "--port", &left, "--port", &right];
        let words = machine.words(&[&[env!("CARGO_BIN_EXE_millrace")], &more[..]].concat());
        let refused = machine.box_.command(&words[0]).args(&words[1..]).run().unwrap().both();
        assert!(refused.contains(&expected), "{driver}: {refused}");
    }
    assert!(!machine.names().contains("sw"), "{}", machine.names());
    passes(&mut wires);
    // It is taken off where that is asked for, also by ports that have a program at the other hook, or none.
    let at_other_hook = if driver == "xdp" { "tc" } else { "xdp" };
    for replacing in [at_other_hook, "afxdp", "afpacket"] {
        let started = machine.start(replacing, &service, "other", "other");
        passes(&mut wires);
        machine.end(started, "-TERM");
        let started = machine.start(driver, &service, "state", "edge");
        machine.end(started, "-KILL");
        passes(&mut wires);
    }
    // With the state that it was left for it goes, too.
    let started = machine.start(at_other_hook, &service, "state", "edge");
    passes(&mut wires);
    machine.end(started, "-KILL");
    let started = machine.start(driver, &service, "state", "edge");
    passes(&mut wires);
    machine.end(started, "-TERM");
    // An orderly end leaves nothing.
    assert_eq!(machine.names(), "");
    // A name that is another state's gets a number.
    let started = machine.start(driver, &service, "state", "same");
    machine.end(started, "-KILL");
    let started = machine.start(driver, &service, "other", "same");
    assert!(machine.names().contains("./millrace/same-2\n"), "{}", machine.names());
    machine.end(started, "-TERM");
    assert_eq!(machine.names(), "./millrace\n./millrace/same\n");
    // A start with that state and nothing for the kernel takes out what is there.
    let state = path("state");
    let more = ["run", &file, "--state", &state, "--no-socket", "--duration", "0.1"];
    let ports = ["--port", "l=afpacket:left", "--port", "r=afpacket:right"];
    machine.check(&[&[env!("CARGO_BIN_EXE_millrace")], &more[..], &ports].concat());
    assert_eq!(machine.names(), "");
}
