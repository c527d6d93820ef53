//! The network, with `millrace run` in its switch, and what is needed to see every frame that goes in or comes out.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use lab::{Host, L3Options, L3Switch, Mac, RawPort, Running, Signal};

use serde_json::Value as Json;

use crate::frames::{BROADCAST, ETH_EXPERIMENT, Ipv4, ethernet};
use crate::instance::Runtime;
use crate::process::Done;
use crate::report::Report;

/// Long enough for a loaded machine; nothing waits this long when all is well.
pub const PATIENCE: Duration = Duration::from_secs(20);
/// The time in which Millrace must have ended after a signal.
const END: Duration = Duration::from_secs(10);

/// The router's Ethernet address in the domains of h1 and h2, and of h3 and h4.
pub const ROUTER: [Mac; 2] = [L3Switch::GATEWAYS[0].1, L3Switch::GATEWAYS[1].1];
/// The hosts' Ethernet addresses.
pub const MAC: [Mac; 4] = [[2, 0, 0, 0, 0, 0x11], [2, 0, 0, 0, 0, 0x12], [2, 0, 0, 0, 0, 0x13], [2, 0, 0, 0, 0, 0x14]];
/// The hosts' IPv4 addresses.
pub const IP: [[u8; 4]; 4] = [[10, 0, 1, 11], [10, 0, 1, 12], [10, 0, 2, 13], [10, 0, 2, 14]];
/// The router's IPv4 addresses.
pub const GATEWAY: [[u8; 4]; 2] = [[10, 0, 1, 1], [10, 0, 2, 1]];

/// The same tests with the fast path in the kernel and all on workers.
#[allow(unused_macros, reason = "the soak has none")]
macro_rules! over_both {
    ($($test:ident),* $(,)?) => {
        mod on_workers {
            $(#[test] fn $test() { super::$test("afpacket") })*
        }
        mod with_a_fast_path {
            $(#[test] fn $test() { super::$test("xdp") })*
        }
    };
}
#[allow(unused_imports, reason = "the soak has none")]
pub(crate) use over_both;

/// Arguments by which all ports have this driver.
fn over(driver: &str) -> Vec<String> {
    let port = |name: &str| ["--port".to_owned(), format!("{name}={driver}:{name}")];
    ["p1", "p2", "p3", "p4", "svi1p", "svi2p"].into_iter().flat_map(port).collect()
}

/// A running L3 switch between four hosts.
pub struct Switch {
    // Declared, so dropped, first: then Millrace is ended before its ports are.
    millrace: Running,
    runtime: Runtime,
    pub network: L3Switch,
    /// There is something in its log.
    logged: bool,
}

/// Writes the example's configuration with changes; its path.
fn configuration(runtime: &Runtime, changes: &[(&str, &str)]) -> String {
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../apps/l3switch/l3switch.toml");
    let mut text = std::fs::read_to_string(example).unwrap();
    for (from, to) in changes {
        assert!(text.contains(from), "the configuration has no {from:?}");
        text = text.replace(from, to);
    }
    runtime.write("l3switch.toml", &text)
}

/// How the network and the switch differ from the plain ones.
#[derive(Default)]
pub struct Network {
    pub options: L3Options,
    /// What stands in the place of what in its configuration.
    pub changes: &'static [(&'static str, &'static str)],
}

impl Switch {
    /// Builds the network and starts Millrace, with all ports by a driver. Without privileges this fails with a text
    /// that says what to do.
    pub fn start(driver: &str) -> Switch {
        Self::start_both(driver, &Network::default(), &[])
    }

    /// As [`Switch::start`], with more arguments for `millrace run`.
    pub fn start_with(driver: &str, more: &[&str]) -> Switch {
        Self::start_both(driver, &Network::default(), more)
    }

    /// As [`Switch::start`], in another network.
    pub fn start_in(driver: &str, network: &Network) -> Switch {
        Self::start_both(driver, network, &[])
    }

    /// As [`Switch::start_in`], with more arguments for `millrace run`.
    pub fn start_both(driver: &str, Network { options, changes }: &Network, more: &[&str]) -> Switch {
        let network = L3Switch::with(options).unwrap_or_else(|error| panic!("{error}"));
        // The kernel is the slow path: it forwards the first packet to a neighbour, and sends ICMP errors.
        network.switch.set_sysctl("net.ipv4.ip_forward", "1").unwrap_or_else(|error| panic!("{error}"));
        if driver == "xdp" {
            // So that they take packets from the kernel's part of the program.
            let hosts = network.hosts.iter().map(|host| (&host.ns, Host::DEVICE));
            let svis = L3Switch::GATEWAYS.iter().map(|gateway| (&network.switch, gateway.0));
            for (ns, device) in hosts.chain(svis) {
                ns.check(&["ethtool", "-K", device, "gro", "on"]).unwrap_or_else(|error| panic!("{error}"));
            }
        }
        let runtime = Runtime::new();
        let config = configuration(&runtime, changes);
        let command = network.switch.command(env!("CARGO_BIN_EXE_millrace")).args(["run", "l3switch", "-c", &config]);
        let command = command.arg("--socket").arg(runtime.path("socket")).args(over(driver)).args(more);
        let mut millrace = command.spawn().unwrap_or_else(|error| panic!("{error}"));
        let ready = millrace.wait_for_text("running on 6 ports", PATIENCE);
        ready.unwrap_or_else(|error| panic!("{error}"));
        Switch { millrace, runtime, network, logged: false }
    }

    /// It has logged all of this, which [`Switch::stop`] otherwise takes for a fault.
    #[track_caller]
    pub fn logged(&mut self, texts: &[&str]) {
        for text in texts {
            let waited = self.millrace.wait_for_text(text, PATIENCE);
            waited.unwrap_or_else(|error| panic!("{error}"));
        }
        self.logged = true;
    }

    /// What it has printed so far.
    #[allow(dead_code, reason = "the soak does not look")]
    pub fn said(&self) -> String {
        String::from_utf8_lossy(&self.millrace.stdout()).into_owned()
    }

    /// Asks the running switch: a subcommand with its arguments.
    pub fn ask(&self, arguments: &[&str]) -> Done {
        self.runtime.millrace(&[arguments, &["--socket", &self.socket()]].concat())
    }

    /// As [`Switch::ask`], in JSON.
    pub fn ask_json(&self, arguments: &[&str]) -> Json {
        self.runtime.json(&[arguments, &["--socket", &self.socket()]].concat())
    }

    /// Has it read its configuration again, the example's with these changes.
    #[allow(dead_code, reason = "the soak does not")]
    pub fn reload(&self, changes: &[(&str, &str)]) -> Done {
        configuration(&self.runtime, changes);
        self.ask(&["reload"])
    }

    /// The path of its socket.
    pub fn socket(&self) -> String {
        self.runtime.path("socket")
    }

    /// Its process id.
    #[allow(dead_code, reason = "for the soak")]
    pub fn id(&self) -> u32 {
        self.millrace.id()
    }

    /// Ends Millrace as Ctrl-C does. It must end soon and well, and give all frames back; what it counted.
    pub fn stop(self) -> Report {
        self.stop_by(Signal::SIGINT)
    }

    /// Ends Millrace by a signal.
    pub fn stop_by(mut self, signal: Signal) -> Report {
        assert!(self.millrace.ended().unwrap().is_none(), "it ended by itself: {}", self.millrace.both());
        let start = Instant::now();
        self.millrace.signal(signal).unwrap();
        let output = self.millrace.wait(PATIENCE).unwrap_or_else(|error| panic!("{error}"));
        let time = start.elapsed();
        assert_eq!(output.status.code(), Some(0), "{output}");
        assert!(self.logged || output.stderr.is_empty(), "{output}");
        assert!(time < END, "{signal} ended it only after {time:?}");
        let report = Report::parse(&output.text());
        let ports: Vec<_> = report.ports.keys().map(String::as_str).collect();
        assert_eq!(ports, ["p1", "p2", "p3", "p4", "svi1p", "svi2p"], "{output}");
        report
    }

    /// Raw sockets at the hosts and at the kernel's interfaces.
    pub fn wires(&self) -> Wires {
        let host = |number: usize| RawPort::open(&self.network.host(number).ns, Host::DEVICE).unwrap();
        let svi = |index: usize| RawPort::open(&self.network.switch, L3Switch::GATEWAYS[index].0).unwrap();
        Wires { hosts: [host(1), host(2), host(3), host(4)], svis: [svi(0), svi(1)], marks: 0 }
    }
}

/// All frames that came out of Millrace, by place, in order.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// At h1 to h4.
    pub hosts: [Vec<Vec<u8>>; 4],
    /// At the kernel's interfaces svi1 and svi2.
    pub svis: [Vec<Vec<u8>>; 2],
}

impl Outcome {
    /// `frame` came out at h1 to h4 as given here, and nothing else anywhere.
    #[track_caller]
    pub fn only(&self, frame: &[u8], at: [bool; 4]) {
        let hosts = at.map(|there| if there { vec![frame.to_vec()] } else { Vec::new() });
        assert_eq!(*self, Outcome { hosts, ..Outcome::default() });
    }

    /// `frame`, which is for all, came out at h1 to h4 as given here and at the kernel's interface of a domain, and
    /// nothing else anywhere.
    #[track_caller]
    pub fn for_all(&self, frame: &[u8], at: [bool; 4], domain: usize) {
        let hosts = at.map(|there| if there { vec![frame.to_vec()] } else { Vec::new() });
        let mut svis = [Vec::new(), Vec::new()];
        svis[domain].push(frame.to_vec());
        assert_eq!(*self, Outcome { hosts, svis });
    }

    /// Nothing came out.
    #[track_caller]
    pub fn nothing(&self) {
        assert_eq!(*self, Outcome::default());
    }
}

/// Raw sockets at all places around the switch. The kernels there see the frames too.
pub struct Wires {
    pub hosts: [RawPort; 4],
    pub svis: [RawPort; 2],
    marks: u16,
}

impl Wires {
    /// Sends from a host, 1 to 4.
    pub fn send(&self, host: usize, frame: &[u8]) {
        self.hosts[host - 1].send(frame).unwrap_or_else(|error| panic!("{error}"));
    }

    /// Everything that came out because of what was sent before this call.
    ///
    /// How that is known without waiting for a while: each port's frames stay in order, and a batch is sent before the
    /// next one is received. So marks are sent behind the frames, from every port; when all have come out, everything
    /// before them has been sent, and a second round of marks comes out after it.
    pub fn settle(&mut self) -> Outcome {
        let mut outcome = Outcome::default();
        for _ in 0..2 {
            // Broadcasts, which come out at the other host of the domain.
            for (from, to) in [(0, 1), (1, 0), (2, 3), (3, 2)] {
                let mark = ethernet(BROADCAST, MAC[from], ETH_EXPERIMENT, &self.mark());
                self.send(from + 1, &mark);
                outcome.hosts[to].extend(until(&mut self.hosts[to], &mark));
            }
            // Packets to the router itself, which the kernel does not answer.
            for (index, from) in [(0, 0), (1, 2)] {
                let mark = Ipv4::new(IP[from], GATEWAY[index], &self.mark()).frame(ROUTER[index], MAC[from]);
                self.send(from + 1, &mark);
                // Marks that are for all come here, too.
                let came = until(&mut self.svis[index], &mark).into_iter();
                outcome.svis[index].extend(came.filter(|frame| frame.get(14..18) != Some(MARK)));
            }
        }
        outcome
    }

    fn mark(&mut self) -> Vec<u8> {
        self.marks += 1;
        [MARK, &self.marks.to_be_bytes()[..]].concat()
    }

    /// A host's ARP request for its router, from which the switch learns where the host is.
    pub fn announce(&mut self, host: usize) {
        let index = host - 1;
        let router = GATEWAY[index / 2];
        let mut arp = vec![0, 1, 8, 0, 6, 4, 0, 1];
        arp.extend([&MAC[index][..], &IP[index], &[0; 6], &router].concat());
        self.send(host, &ethernet(BROADCAST, MAC[index], 0x0806, &arp));
        // The kernel answers; afterwards all is quiet.
        let answer = |frame: &[u8]| frame[12..14] == [8, 6] && frame[20..22] == [0, 2] && frame[28..32] == router;
        let answer = self.hosts[index].recv_where(PATIENCE, answer).unwrap();
        assert!(answer.is_some(), "the router does not answer ARP");
        self.settle();
    }
}

/// Sets a flag at its end, also when a check fails: else the threads that look at it would not let the test end.
pub struct SetAtEnd<'f>(pub &'f AtomicBool);

impl Drop for SetAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// What marks begin with.
const MARK: &[u8] = b"mark";

/// What arrives before `mark`.
fn until(port: &mut RawPort, mark: &[u8]) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    loop {
        match port.recv(PATIENCE).unwrap() {
            Some(frame) if frame == mark => return frames,
            Some(frame) => frames.push(frame),
            None => panic!("a frame that must come out did not; before it came {frames:02x?}"),
        }
    }
}
