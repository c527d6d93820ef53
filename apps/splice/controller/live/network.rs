//! A client and two servers with `millrace run splice` between them.
//!
//! ```text
//! client 10.0.1.11, 2001:db8:1::11 ── clients  Millrace  servers ── 10.0.2.11, 10.0.2.12, 2001:db8:2::11, 2001:db8:2::12
//!                          virtual address 10.0.1.80, 2001:db8:1::80
//! ```

use std::sync::Arc;
use std::time::{Duration, Instant};

use lab::{Emulator, Impairments, LinkConfig, Namespace, Running, Signal, Wire, veth};
use serde_json::Value as Json;

use crate::instance::Runtime;
use crate::process::Done;
use crate::report::Report;

/// Long enough for a loaded machine; nothing waits this long when all is well.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Where the servers of the example are.
pub const SERVERS: [&str; 4] = ["10.0.2.11:80", "10.0.2.12:80", "[2001:db8:2::11]:80", "[2001:db8:2::12]:80"];

/// How far the program is optimised. In a debug build, which checks each step, all of it takes seconds of CPU time at
/// each of some sixty starts; the demo, the lab and the cases run it so there.
const LEVEL: &str = if cfg!(debug_assertions) { "base" } else { "cgpc" };

pub fn must<T>(result: lab::Result<T>) -> T {
    result.unwrap_or_else(|error| panic!("{error}"))
}

/// A text with some of it replaced.
fn changed(text: String, changes: &[(&str, &str)]) -> String {
    changes.iter().fold(text, |text, (from, to)| {
        let changed = text.replacen(from, to, 1);
        assert_ne!(changed, text, "{from}");
        changed
    })
}

/// Starts Millrace in a mount namespace of its own, as the service has one.
fn run(ns: &Namespace, arguments: &[String]) -> Running {
    let unshare = ["--mount", "--propagation", "slave", env!("CARGO_BIN_EXE_millrace")];
    let mut millrace = must(ns.command("unshare").args(unshare).args(arguments).spawn());
    must(millrace.wait_for_start(PATIENCE));
    millrace
}

/// Mounts a BPF file system where there is none yet, as service managers do when a machine starts. Without the right
/// to, nothing outlasts the process.
fn mount_bpf() {
    let mount = "test \"$(stat -f -c %T /sys/fs/bpf)\" = bpf_fs || mount -t bpf -o mode=700 bpf /sys/fs/bpf";
    let _ = std::process::Command::new("sh").args(["-c", mount]).output();
}

/// The running splicer.
pub struct Splice {
    // Dropped first: then Millrace is ended before its ports are.
    millrace: Running,
    /// The files of a program of the test's own, by name.
    program: Vec<(&'static str, String)>,
    runtime: Runtime,
    arguments: Vec<String>,
    pub ns: Namespace,
    _emulator: Option<Emulator>,
    pub client: Arc<Namespace>,
    pub servers: Namespace,
    _far: Option<Namespace>,
}

/// A device as hosts have it: where only the kernel takes its packets, with all offloads on.
fn device(config: LinkConfig, only_kernel: bool) -> LinkConfig {
    if only_kernel { config.keep_offloads() } else { config }
}

/// The driver of tests in the kernel: that of `SPLICE_DRIVER`, if it is set, in place of `xdp`.
fn chosen(driver: &str) -> String {
    let other = std::env::var("SPLICE_DRIVER").ok().filter(|_| driver == "xdp");
    other.unwrap_or_else(|| driver.to_owned())
}

impl Splice {
    /// Builds the network and starts Millrace with the example configuration, some of its text replaced; on `driver`
    /// ports, and with links that do this to packets.
    pub fn start(driver: &str, changes: &[(&str, &str)], links: Option<Impairments>) -> Splice {
        Splice::start_with(driver, changes, links, |_, _| None)
    }

    /// The same with something done to client and servers before Millrace looks for them, and perhaps a host behind one
    /// of them.
    pub fn start_with(
        driver: &str,
        changes: &[(&str, &str)],
        links: Option<Impairments>,
        prepare: impl FnOnce(&Namespace, &Namespace) -> Option<Namespace>,
    ) -> Splice {
        Splice::start_program(Vec::new(), driver, changes, links, prepare)
    }

    /// The same with a program in files of the test's own, where there are any; `splice.baker` is its root.
    pub fn start_program(
        program: Vec<(&'static str, String)>,
        driver: &str,
        changes: &[(&str, &str)],
        links: Option<Impairments>,
        prepare: impl FnOnce(&Namespace, &Namespace) -> Option<Namespace>,
    ) -> Splice {
        let driver = &*chosen(driver);
        let [ns, client, servers] = ["splice", "client", "servers"].map(|name| must(Namespace::new(name)));
        let only_kernel = driver == "tc" && links.is_none();
        let emulator = links.map(|links| {
            let wires = [
                Wire::new((&client, "eth0"), (&ns, "clients"), links.clone()),
                Wire::new((&servers, "eth0"), (&ns, "servers"), links),
            ];
            must(Emulator::start(&wires, 7))
        });
        if emulator.is_none() {
            must(veth(&client, "eth0", &ns, "clients"));
            must(veth(&servers, "eth0", &ns, "servers"));
        }
        for port in ["clients", "servers"] {
            must(ns.configure(port, &device(LinkConfig::port(), only_kernel)));
        }
        let host = || device(LinkConfig::host(), only_kernel);
        must(client.configure("eth0", &host().address("10.0.1.11/24").ipv6(true)));
        let both = host().address("10.0.2.11/24").address("10.0.2.12/24").ipv6(true);
        must(servers.configure("eth0", &both));
        for (host, address) in [(&client, "1::11"), (&servers, "2::11"), (&servers, "2::12")] {
            must(host.check(&[
                "ip",
                "-6",
                "address",
                "add",
                &format!("2001:db8:{address}/64"),
                "dev",
                "eth0",
                "nodad",
            ]));
        }
        let far = prepare(&client, &servers);
        let runtime = Runtime::new();
        let text = include_str!("../../splice.toml").to_owned();
        let text = text.replace("\"auto:", &format!("\"{driver}:"));
        let text = changed(text, changes);
        let config = runtime.write("splice.toml", &text);
        let (socket, state) = (runtime.path("socket"), runtime.path("state"));
        program.iter().for_each(|(name, text)| _ = runtime.write(name, text));
        let app = if program.is_empty() { "splice".to_owned() } else { runtime.path("splice.baker") };
        let arguments = ["run", &app, "-c", &config, "--socket", &socket, "--state", &state, "--opt", LEVEL];
        let arguments = arguments.map(str::to_owned).to_vec();
        if driver != "afpacket" {
            mount_bpf();
        }
        let millrace = run(&ns, &arguments);
        Splice {
            millrace,
            program,
            runtime,
            arguments,
            ns,
            _emulator: emulator,
            client: Arc::new(client),
            servers,
            _far: far,
        }
    }

    /// Kills Millrace, as a crash does, and starts it again after a while.
    pub fn crash(&mut self, pause: Duration) {
        self.restart(Signal::SIGKILL, pause);
    }

    /// Ends Millrace by a signal, and starts it again after a while.
    pub fn restart(&mut self, signal: Signal, pause: Duration) {
        must(self.millrace.signal(signal));
        must(self.millrace.wait(PATIENCE));
        std::thread::sleep(pause);
        self.millrace = run(&self.ns, &self.arguments);
    }

    /// The host that Millrace runs on.
    pub fn host(&self) -> &Namespace {
        &self.ns
    }

    /// Changes the configuration, and has it put in force.
    pub fn reload(&self, changes: &[(&str, &str)]) -> Json {
        self.reconfigure(changes);
        self.runtime.json(&["reload", "--socket", &self.runtime.path("socket")])
    }

    /// Changes the configuration's file.
    pub fn reconfigure(&self, changes: &[(&str, &str)]) {
        let text = std::fs::read_to_string(self.runtime.path("splice.toml")).unwrap();
        let text = changed(text, changes);
        self.runtime.write("splice.toml", &text);
    }

    /// Writes the program's files, each with what `changes` says of it.
    pub fn reprogram(&self, changes: &[(&str, &str, &str)]) {
        for (name, text) in &self.program {
            let own: Vec<_> =
                changes.iter().filter(|(file, ..)| file == name).map(|(_, from, to)| (*from, *to)).collect();
            self.runtime.write(name, &changed(text.clone(), &own));
        }
    }

    /// All counters.
    pub fn counters(&self) -> Json {
        self.runtime.json(&["counters", "--socket", &self.runtime.path("socket")])
    }

    /// All flow entries.
    pub fn flows(&self) -> Json {
        self.runtime.json(&["table", "dump", "spliced.flows", "--socket", &self.runtime.path("socket")])
    }

    /// Asks for JSON.
    pub fn json(&self, arguments: &[&str]) -> Json {
        self.runtime.json(&[arguments, &["--socket", &self.runtime.path("socket")]].concat())
    }

    /// Runs a command of `millrace` for this instance.
    pub fn millrace(&self, arguments: &[&str]) -> Done {
        self.runtime.millrace(&[arguments, &["--socket", &self.runtime.path("socket")]].concat())
    }

    /// Millrace's process id.
    #[allow(dead_code)]
    pub fn id(&self) -> u32 {
        self.millrace.id()
    }

    /// Sends Millrace a signal.
    pub fn signal(&mut self, signal: Signal) {
        must(self.millrace.signal(signal));
    }

    /// Entries of a table.
    pub fn entries(&self, table: &str) -> u64 {
        let tables = self.runtime.json(&["table", "ls", "--socket", &self.runtime.path("socket")]);
        let table = tables.as_array().unwrap().iter().find(|found| found["name"] == table).unwrap().clone();
        table["entries"].as_u64().unwrap()
    }

    /// Ends Millrace as Ctrl-C does; what it counted, and what it logged.
    pub fn stop(mut self) -> (Report, String) {
        must(self.millrace.signal(Signal::SIGINT));
        let output = must(self.millrace.wait(PATIENCE));
        assert_eq!(output.status.code(), Some(0), "{output}");
        (Report::parse(&output.text()), String::from_utf8_lossy(&output.stderr).into_owned())
    }

    /// What Millrace has said so far.
    pub fn said(&self) -> String {
        self.millrace.both()
    }

    /// All that says why a client waits.
    pub fn state(&self) -> String {
        let hosts = [&*self.client, &self.servers].map(|host| {
            let ask = |arguments: &[&str]| host.check(arguments).map(|done| done.text()).unwrap_or_default();
            ask(&["ss", "-tnoi"]) + &ask(&["ip", "-6", "neighbour"]) + &ask(&["ip", "neighbour"])
        });
        let sessions = self.millrace(&["sessions"]);
        let requests = self.millrace(&["metrics", "service_requests"]);
        let servers = self.millrace(&["servers"]);
        let parts = [
            self.counters().to_string(),
            self.said(),
            self.flows().to_string(),
            sessions.stdout,
            requests.stdout,
            servers.stdout,
        ];
        parts.join("\n") + &hosts.join("\n")
    }

    /// Waits until something holds.
    #[track_caller]
    pub fn wait(&self, what: &str, holds: impl Fn(&Splice) -> bool) {
        let start = Instant::now();
        while !holds(self) {
            assert!(start.elapsed() < PATIENCE, "{what}: {}", self.state());
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}
