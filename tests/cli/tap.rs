//! The `tap` driver: the kernel's own stack behind a port.
//!
//! As root of a user namespace alone, where the system may keep /dev/net/tun to itself, it is checked that this is
//! told.

use std::time::{Duration, Instant};

use lab::{Host, HostConfig, Namespace, Output, Running, Signal};

use crate::PATCH;
use crate::process::{self, ROOT, Scratch, without_privileges};
use crate::report::Report;

const PATIENCE: Duration = Duration::from_secs(20);

/// A namespace for Millrace with the port `wire` to a host that has 10.0.0.2.
fn network() -> (Namespace, Host) {
    let box_ = Namespace::new("box").unwrap_or_else(|error| panic!("{error}"));
    let config = HostConfig {
        name: "h",
        mac: [2, 0, 0, 0, 0, 2],
        address: "10.0.0.2",
        prefix: 24,
        gateway: "10.0.0.1",
        mtu: 1500,
    };
    let host = Host::attach(&box_, "wire", config).unwrap();
    box_.wait_running("wire", PATIENCE).unwrap();
    host.ns.wait_running(Host::DEVICE, PATIENCE).unwrap();
    (box_, host)
}

fn command<'n>(box_: &'n Namespace, more: &[&str]) -> lab::Command<'n> {
    let command = box_.command(env!("CARGO_BIN_EXE_millrace"));
    command.args(["run", PATCH, "--port", "kernel=tap:t0", "--port", "wire=afpacket:wire"]).args(more)
}

/// Millrace between the kernel's device t0 and the wire; `None` where the system does not let us, and says so.
fn start(box_: &Namespace, more: &[&str]) -> Option<Running> {
    let mut running = command(box_, more).spawn().unwrap();
    match running.wait_for_text("running on 2 ports", PATIENCE) {
        Ok(()) => Some(running),
        Err(error) => {
            let map = std::fs::read_to_string("/proc/self/uid_map").unwrap();
            assert!(!map.split_whitespace().eq(["0", "0", "4294967295"]), "as root: {error}");
            refused(&running.wait(PATIENCE).unwrap(), "no permission to open a TAP device");
            None
        }
    }
}

fn refused(output: &Output, text: &str) {
    assert_eq!(output.status.code(), Some(2), "{output}");
    let said = String::from_utf8(output.stderr.clone()).unwrap();
    assert!(said.starts_with("error: port kernel: t0: ") && said.contains(text), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
}

fn exists(box_: &Namespace, device: &str) -> bool {
    box_.run(&["ip", "link", "show", "dev", device]).unwrap().status.success()
}

fn address(box_: &Namespace) {
    box_.check(&["ip", "address", "add", "10.0.0.1/24", "dev", "t0"]).unwrap();
}

#[test]
fn the_kernel_is_reached_through_it() {
    let (box_, host) = network();
    for mode in [&[][..], &["--busy"], &["--engine", "interp"], &["--workers", "2"]] {
        assert!(!exists(&box_, "t0"));
        let Some(mut millrace) = start(&box_, mode) else { return };
        // It is there and up, and the kernel does what it does on any interface.
        address(&box_);
        assert!(box_.ping("10.0.0.2", PATIENCE).unwrap(), "{mode:?}");
        assert!(host.ns.ping("10.0.0.1", PATIENCE).unwrap(), "{mode:?}");
        box_.check(&["ping", "-n", "-c", "20", "-i", "0.01", "-s", "1472", "-M", "do", "10.0.0.2"]).unwrap();
        millrace.signal(Signal::SIGINT).unwrap();
        let output = millrace.wait(PATIENCE).unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{mode:?}: {output}");
        let report = Report::parse(&output.text());
        assert!(report.port("kernel", "received") >= 22 && report.port("kernel", "sent") >= 22, "{output}");
        assert_eq!((report.port("kernel", "failed"), report.port("wire", "failed")), (0, 0), "{output}");
        assert!(!exists(&box_, "t0"), "what it made it takes away");
    }
}

#[test]
fn tcp_goes_through_it() {
    let (box_, host) = network();
    let Some(_millrace) = start(&box_, &[]) else { return };
    address(&box_);
    // Segments are not merged and their checksums are right: a connection carries a megabyte each way.
    let listen = "import socket,hashlib\ns=socket.create_server(('',7000))\nprint('ready',flush=True)\nc,_=s.accept()\n\
                  d=b''\nwhile len(d)<1000000: d+=c.recv(65536)\nc.sendall(hashlib.sha256(d).hexdigest().encode()+d)\nc.close()";
    let mut server = host.ns.command("python3").args(["-c", listen]).spawn().unwrap();
    server.wait_for_text("ready", PATIENCE).unwrap();
    let client = "import socket,hashlib,os\nd=os.urandom(1000000)\nc=socket.create_connection(('10.0.0.2',7000),10)\n\
                  c.sendall(d)\nr=b''\nwhile len(r)<1000064:\n b=c.recv(65536)\n assert b\n r+=b\n\
                  assert r==hashlib.sha256(d).hexdigest().encode()+d\nprint('same')";
    let output = box_.command("python3").args(["-c", client]).limit(PATIENCE).check().unwrap();
    assert_eq!(output.text(), "same\n");
}

#[test]
fn a_device_that_was_there_stays() {
    let (box_, _host) = network();
    if start(&box_, &[]).is_none() {
        return;
    }
    // The one that was made is gone even after a kill; the kernel takes a moment.
    let gone = Instant::now() + PATIENCE;
    while exists(&box_, "t0") {
        assert!(Instant::now() < gone);
    }
    box_.check(&["ip", "tuntap", "add", "dev", "t0", "mode", "tap"]).unwrap();
    refused(&command(&box_, &[]).run().unwrap(), "is down: run `ip link set dev t0 up`");
    box_.check(&["ip", "link", "set", "dev", "t0", "up"]).unwrap();
    let mut millrace = start(&box_, &[]).expect("as before");
    address(&box_);
    assert!(box_.ping("10.0.0.2", PATIENCE).unwrap());
    refused(&command(&box_, &[]).run().unwrap(), "another program has this TAP device open");
    millrace.signal(Signal::SIGTERM).unwrap();
    assert!(millrace.wait(PATIENCE).unwrap().status.success());
    assert!(exists(&box_, "t0"), "it is not ours to take away");
}

#[test]
fn what_is_no_tap_device_is_refused() {
    let (box_, _host) = network();
    if start(&box_, &[]).is_none() {
        return;
    }
    let run = |device: &str| {
        let port = format!("a=tap:{device}");
        let output = box_.run(&[env!("CARGO_BIN_EXE_millrace"), "run", PATCH, "--port", &port]).unwrap();
        assert_eq!(output.status.code(), Some(2), "{output}");
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(run("wire").contains("wire: there is an interface of this name already, and it is no TAP device"));
    for name in ["a-name-too-long-for-linux", "t%d", "a/b", "x:1", ".."] {
        let said = run(name);
        assert!(said.contains("not a name of an interface") && said.lines().count() == 1, "{said}");
    }
}

#[test]
fn without_privileges_it_says_what_to_do() {
    let scratch = Scratch::new();
    let (program, source) = (scratch.millrace(), format!("{ROOT}/examples/patch.baker"));
    let source = scratch.write("patch.baker", std::fs::read(source).unwrap());
    let nobody = without_privileges();
    let mut command = std::process::Command::new(nobody[0]);
    command.args(&nobody[1..]).args([&program, "run", &source, "--port", "a=tap:mr-test0"]);
    let text = process::run(command).failed_in_one_line(2);
    assert!(
        text.contains("no permission to open a TAP device") && text.contains("ip tuntap add dev mr-test0"),
        "{text}"
    );
}

#[test]
fn a_device_may_go_down_and_away() {
    let (box_, _host) = network();
    let Some(mut millrace) = start(&box_, &[]) else { return };
    address(&box_);
    assert!(box_.ping("10.0.0.2", PATIENCE).unwrap());
    box_.down("t0").unwrap();
    std::thread::sleep(Duration::from_millis(200));
    box_.check(&["ip", "link", "set", "dev", "t0", "up"]).unwrap();
    assert!(box_.ping("10.0.0.2", PATIENCE).unwrap(), "{}", millrace.both());
    box_.check(&["ip", "link", "delete", "t0"]).unwrap();
    std::thread::sleep(Duration::from_millis(200));
    // It sleeps all the same: the error at the port does not wake it without end.
    let used = || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", millrace.id())).unwrap();
        let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
        fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
    };
    let before = used();
    std::thread::sleep(Duration::from_secs(1));
    let ticks = used() - before;
    assert!(ticks < 50, "{ticks} of 100 ticks");
    assert!(millrace.ended().unwrap().is_none(), "{}", millrace.both());
    millrace.signal(Signal::SIGINT).unwrap();
    let output = millrace.wait(PATIENCE).unwrap();
    assert_eq!(output.status.code(), Some(2), "{output}");
    assert!(output.both().contains("error: port kernel: t0: was removed"), "{output}");
}
