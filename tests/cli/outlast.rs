//! What runs in the kernel outlasts the process (`--state`): packets pass while it is gone, and the next one takes
//! over.

use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use lab::{LinkConfig, Namespace, RawPort, Running, Signal, veth};

use crate::frames::{ETH_EXPERIMENT, ethernet};
use crate::instance::Runtime;
use crate::random::Random;
use crate::run::network;

const PATIENCE: Duration = Duration::from_secs(20);

/// Counts the packets of each source; a number that is different in each version.
fn program(version: u32) -> String {
    let more: String = (0..version % 3).map(|n| format!("counter more_{n}; hash<u32, u32> own_{n}[64]; ")).collect();
    format!(
        "import \"net/ether\";
module m {{
    in ether input; out ether output;
    {more}
    hash<mac_addr_t, u64> sources[64] idle 600s;
    array<u32, u32> versions[4];
    ppf p(ether_packet_t *pkt) from input {{
        pkt->metadata.tx.port = 3 - pkt->metadata.rx.port;
        u64 *count = sources[pkt->src];
        if (count != null) *count = *count + 1;
        else if (!table_insert(sources, pkt->src, 1)) {{ packet_drop(pkt, malformed); return; }}
        channel_put(output, pkt);
    }}
}}
program {{ rx -> m.input; m.output -> tx; }}
"
    )
    .replace("array<u32, u32> versions", "array<u32> versions")
}

struct Rig {
    /// Of both ports.
    driver: &'static str,
    runtime: Runtime,
    box_: Namespace,
    file: String,
    state: String,
}

impl Rig {
    fn start(&self) -> Running {
        let millrace =
            self.box_.command(env!("CARGO_BIN_EXE_millrace")).args(["run", &self.file, "--state", &self.state]);
        let [left, right] = ["l", "r"].map(|port| format!("{port}={}:", self.driver));
        let millrace = millrace.args(["--port", &format!("{left}left"), "--port", &format!("{right}right")]);
        let mut running = millrace.args(["--socket", &self.runtime.path("sock")]).spawn().unwrap();
        running.wait_for_text("running on 2 ports", PATIENCE).unwrap_or_else(|error| panic!("{error}"));
        running
    }

    fn ask(&self, arguments: &[&str]) -> String {
        let socket = self.runtime.path("sock");
        self.runtime.millrace(&[arguments, &["--socket", &socket]].concat()).ok()
    }

    fn reload(&self) -> Child {
        let socket = self.runtime.path("sock");
        let mut command = self.runtime.command(&["reload", "--socket", &socket]);
        command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null()).spawn().unwrap()
    }
}

/// A port goes over to the interface that gets its name, and leaves the one that had it alone.
#[test]
fn an_interface_that_is_renamed_keeps_no_program() {
    for driver in ["xdp", "tc"] {
        let (box_, hosts) = network();
        let runtime = Runtime::new();
        let (file, state) = (runtime.write("sw.baker", &program(0)), runtime.path("state"));
        let rig = Rig { driver, runtime, box_, file, state };
        let gro = |host: &Namespace, device: &str| drop(host.check(&["ethtool", "-K", device, "gro", "on"]).unwrap());
        hosts.iter().for_each(|host| gro(host, "eth0"));
        let mut millrace = rig.start();
        let [mut old, mut right] = [0, 1].map(|i| RawPort::open(&hosts[i], "eth0").unwrap());
        let frame = |number: u8| ethernet([2; 6], [4; 6], ETH_EXPERIMENT, &[number; 60]);
        old.send(&frame(1)).unwrap();
        assert_eq!(right.recv(PATIENCE).unwrap(), Some(frame(1)));
        for change in [&["down"][..], &["name", "before"]] {
            rig.box_.check(&[&["ip", "link", "set", "dev", "left"], change].concat()).unwrap();
        }
        rig.box_.check(&["ip", "link", "set", "dev", "before", "up"]).unwrap();
        veth(&hosts[0], "eth1", &rig.box_, "left").unwrap();
        rig.box_.configure("left", &LinkConfig::port()).unwrap();
        hosts[0].configure("eth1", &LinkConfig::host()).unwrap();
        gro(&hosts[0], "eth1");
        let mut new = RawPort::open(&hosts[0], "eth1").unwrap();
        let start = Instant::now();
        while right.recv(Duration::from_millis(20)).unwrap() != Some(frame(2)) {
            assert!(start.elapsed() < PATIENCE, "{driver}: {}", millrace.both());
            new.send(&frame(2)).unwrap();
        }
        while right.recv(Duration::from_millis(200)).unwrap().is_some() {}
        old.send(&frame(3)).unwrap();
        new.send(&frame(4)).unwrap();
        assert_eq!(right.recv(PATIENCE).unwrap(), Some(frame(4)), "{driver}");
        right.send(&frame(5)).unwrap();
        assert_eq!(new.recv(PATIENCE).unwrap(), Some(frame(5)), "{driver}");
        // The new one is named: it goes on without the process.
        millrace.signal(Signal::SIGKILL).unwrap();
        millrace.wait(PATIENCE).unwrap();
        new.send(&frame(6)).unwrap();
        assert_eq!(right.recv(PATIENCE).unwrap(), Some(frame(6)), "{driver}");
        let mut millrace = rig.start();
        millrace.signal(Signal::SIGTERM).unwrap();
        millrace.wait(PATIENCE).unwrap();
        assert_eq!(old.recv(Duration::from_millis(1)).unwrap(), None);
    }
}

/// Packets that go from one host to the other and back, each of which must arrive, until told to stop. How many went to
/// the right.
fn traffic(hosts: &[Namespace; 2], stop: Arc<AtomicBool>) -> JoinHandle<u32> {
    let wires = [0, 1].map(|i| RawPort::open(&hosts[i], "eth0").unwrap());
    std::thread::spawn(move || {
        let [mut left, mut right] = wires;
        let mut number = 0u32;
        while !stop.load(Ordering::Relaxed) {
            let payload = [&number.to_be_bytes()[..], &[7; 60]].concat();
            let frame = ethernet([2; 6], [4; 6], ETH_EXPERIMENT, &payload);
            left.send(&frame).unwrap();
            assert_eq!(right.recv(PATIENCE).unwrap().as_ref(), Some(&frame), "packet {number}");
            right.send(&frame).unwrap();
            assert_eq!(left.recv(PATIENCE).unwrap().as_ref(), Some(&frame), "packet {number} on its way back");
            number += 1;
        }
        number
    })
}

#[test]
fn packets_pass_while_the_process_is_gone_and_the_next_one_takes_over() {
    outlasts("xdp", "XDP");
}

#[test]
fn packets_pass_at_traffic_control_while_the_process_is_gone() {
    outlasts("tc", "traffic control");
}

fn outlasts(driver: &'static str, hook: &str) {
    let (box_, hosts) = network();
    let runtime = Runtime::new();
    let (file, state) = (runtime.write("sw.baker", &program(0)), runtime.path("state"));
    let rig = Rig { driver, runtime, box_, file, state };
    // A veth device takes packets from programs only where the other end has a program or this.
    for host in &hosts {
        host.check(&["ethtool", "-K", "eth0", "gro", "on"]).unwrap();
    }
    let mut millrace = rig.start();
    let stop = Arc::new(AtomicBool::new(false));
    let packets = traffic(&hosts, stop.clone());
    rig.ask(&["table", "set", "m.versions", "3", "33"]);
    let mut random = Random(7);
    for version in 1..12u32 {
        if version.is_multiple_of(2) {
            // It dies at any moment of a reload.
            rig.runtime.write("sw.baker", &program(version));
            let mut reload = rig.reload();
            std::thread::sleep(Duration::from_millis(random.below(250) as u64));
            millrace.signal(Signal::SIGKILL).unwrap();
            reload.wait().unwrap();
        } else {
            millrace.signal(Signal::SIGKILL).unwrap();
        }
        millrace.wait(PATIENCE).unwrap();
        // They pass without it.
        assert!(!packets.is_finished());
        std::thread::sleep(Duration::from_millis(50));
        millrace = rig.start();
        assert_eq!(rig.ask(&["table", "get", "m.versions", "3"]), "33\n", "version {version}");
    }
    std::thread::sleep(Duration::from_millis(100));
    stop.store(true, Ordering::Relaxed);
    let sent = packets.join().expect("every packet arrives");
    let said = rig.ask(&["table", "get", "m.sources", "04:04:04:04:04:04"]);
    // What both programs change at the moment of the change-over is the new one's.
    let counted: u32 = said.trim().parse().unwrap();
    assert!((sent..=2 * sent).contains(&counted), "{counted} of {} packets", 2 * sent);
    millrace.signal(Signal::SIGTERM).unwrap();
    let output = millrace.wait(PATIENCE).unwrap().text();
    assert!(output.contains(&format!("{hook}, taken over from the process before while it ran")), "{output}");
    assert!(output.contains("state: the program of the process before is still in the kernel; "), "{output}");
    // An orderly end leaves nothing in the kernel.
    for device in ["left", "right"] {
        let said = rig.box_.check(&["ip", "link", "show", "dev", device]).unwrap().text();
        assert!(!said.contains("prog/xdp"), "{said}");
    }
    let left: Vec<_> = std::fs::read_dir(&rig.state).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["tables.redb"]);
}

/// What the control plane has set last may not be on the disk yet when the process is killed.
#[test]
fn what_was_set_last_is_read_from_the_kernels_memory() {
    let (box_, hosts) = network();
    let runtime = Runtime::new();
    let program = "import \"net/ether\";
module m {
    in ether input; out ether output;
    array<u8> ports[64];
    array<u8> others[2000];
    ppf p(ether_packet_t *pkt) from input {
        pkt->metadata.tx.port = ports[pkt->metadata.rx.port];
        channel_put(output, pkt);
    }
}
program { rx -> m.input; m.output -> tx; }
";
    let (file, state) = (runtime.write("sw.baker", program), runtime.path("state"));
    let rig = Rig { driver: "xdp", runtime, box_, file, state };
    for host in &hosts {
        host.check(&["ethtool", "-K", "eth0", "gro", "on"]).unwrap();
    }
    let end = |mut millrace: Running, signal| {
        millrace.signal(signal).unwrap();
        millrace.wait(PATIENCE).unwrap()
    };
    let millrace = rig.start();
    rig.ask(&["table", "set", "m.others", "1999", "9"]);
    rig.ask(&["table", "set", "m.others", "7", "8"]);
    end(millrace, Signal::SIGTERM);
    // The disk as it is now is what the third process finds.
    let database = std::path::Path::new(&rig.state).join("tables.redb");
    let earlier = std::fs::read(&database).unwrap();
    let millrace = rig.start();
    rig.ask(&["table", "set", "m.ports", "1", "2"]);
    rig.ask(&["table", "set", "m.others", "1999", "10"]);
    rig.ask(&["table", "set", "m.others", "7", "0"]);
    end(millrace, Signal::SIGKILL);
    std::fs::write(&database, earlier).unwrap();
    let millrace = rig.start();
    assert_eq!(["1999", "7"].map(|index| rig.ask(&["table", "get", "m.others", index])), ["10\n", "0\n"]);
    let [left, mut right] = [0, 1].map(|i| RawPort::open(&hosts[i], "eth0").unwrap());
    let frame = ethernet([2; 6], [4; 6], ETH_EXPERIMENT, &[1; 60]);
    left.send(&frame).unwrap();
    assert_eq!(right.recv(PATIENCE).unwrap(), Some(frame));
    end(millrace, Signal::SIGTERM);
}
