//! Two hosts with `millrace run firewall` in the line between them.
//!
//! ```text
//! inside 10.0.1.80, .11; 2001:db8:1::80 ── lan  Millrace  wan ── outside 10.0.9.5, 2001:db8:1::5
//! ```

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use lab::{LinkConfig, Namespace, Running, Signal, veth};
use serde_json::Value as Json;

use crate::instance::Runtime;
use crate::process::Done;
use crate::report::Report;

/// Long enough for a loaded machine; nothing waits this long when all is well.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Ethernet addresses of the hosts inside and outside.
pub const INSIDE_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
pub const OUTSIDE_MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];

/// The program's files.
const PROGRAM: [(&str, &str); 5] = [
    ("firewall.baker", include_str!("../../firewall.baker")),
    ("flow.baker", include_str!("../../flow.baker")),
    ("parse.baker", include_str!("../../parse.baker")),
    ("record.baker", include_str!("../../record.baker")),
    ("rules.baker", include_str!("../../rules.baker")),
];

pub fn must<T>(result: lab::Result<T>) -> T {
    result.unwrap_or_else(|error| panic!("{error}"))
}

/// The running firewall.
pub struct Firewall {
    // Dropped first: then Millrace is ended before its ports are.
    millrace: Running,
    runtime: Runtime,
    ns: Namespace,
    pub inside: Namespace,
    pub outside: Namespace,
}

impl Firewall {
    /// Builds the network and starts Millrace with the example configuration, some of its text replaced.
    pub fn start(changes: &[(&str, &str)]) -> Firewall {
        Firewall::run(changes, |_| "firewall".to_owned())
    }

    /// The same with a program of one's own: its files with their text changed.
    pub fn start_own(changes: &[(&str, &str)], change: impl Fn(&str) -> String) -> Firewall {
        Firewall::run(changes, |runtime| {
            for (name, text) in PROGRAM {
                runtime.write(name, &change(text));
            }
            runtime.path("firewall.baker")
        })
    }

    fn run(changes: &[(&str, &str)], program: impl Fn(&Runtime) -> String) -> Firewall {
        let ns = must(Namespace::new("firewall"));
        let hosts = [("inside", "lan", INSIDE_MAC), ("outside", "wan", OUTSIDE_MAC)].map(|(name, port, mac)| {
            let host = must(Namespace::new(name));
            must(veth(&host, "eth0", &ns, port));
            must(ns.configure(port, &LinkConfig::port()));
            let addresses: &[&str] =
                if name == "inside" { &["10.0.1.80/16", "10.0.1.11/16"] } else { &["10.0.9.5/16"] };
            let config = LinkConfig::host().mac(mac).ipv6(true);
            must(host.configure("eth0", &addresses.iter().fold(config, |config, address| config.address(*address))));
            let address = if name == "inside" { "2001:db8:1::80/64" } else { "2001:db8:1::5/64" };
            must(host.check(&["ip", "-6", "address", "add", address, "dev", "eth0", "nodad"]));
            host
        });
        let runtime = Runtime::new();
        let config = runtime.write("firewall.toml", &configuration(changes));
        let command = ns.command(env!("CARGO_BIN_EXE_millrace")).args(["run", &program(&runtime), "-c", &config]);
        let mut millrace = must(command.arg("--socket").arg(runtime.path("socket")).spawn());
        must(millrace.wait_for_start(PATIENCE));
        let [inside, outside] = hosts;
        Firewall { millrace, runtime, ns, inside, outside }
    }

    /// Writes another configuration and has it read.
    pub fn reload(&self, changes: &[(&str, &str)]) -> Done {
        self.runtime.write("firewall.toml", &configuration(changes));
        self.ask(&["reload"])
    }

    /// Asks the instance.
    pub fn ask(&self, arguments: &[&str]) -> Done {
        self.runtime.millrace(&[arguments, &["--socket", &self.runtime.path("socket")]].concat())
    }

    /// The same, for an answer in JSON.
    pub fn json(&self, arguments: &[&str]) -> Json {
        self.runtime.json(&[arguments, &["--socket", &self.runtime.path("socket")]].concat())
    }

    /// Its answer to a request on its socket, which no command makes.
    pub fn request(&self, request: &Json) -> String {
        let mut socket = UnixStream::connect(self.runtime.path("socket")).unwrap();
        writeln!(socket, "{request}").unwrap();
        let mut answer = String::new();
        BufReader::new(socket).read_line(&mut answer).unwrap();
        answer
    }

    /// Where it runs.
    pub fn own(&self) -> &Namespace {
        &self.ns
    }

    /// All counters.
    pub fn counters(&self) -> Json {
        self.runtime.json(&["counters", "--socket", &self.runtime.path("socket")])
    }

    /// Packets dropped so far for a reason.
    pub fn dropped(&self, reason: &str) -> u64 {
        self.counters()["drops"][reason].as_u64().unwrap_or(0)
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

    /// A server inside.
    pub fn listen(&self, address: &str) -> TcpListener {
        self.inside.enter(|| TcpListener::bind(address)).unwrap().unwrap()
    }

    /// Waits until something holds.
    #[track_caller]
    pub fn wait(&self, what: &str, holds: impl Fn(&Firewall) -> bool) {
        let start = Instant::now();
        while !holds(self) {
            assert!(start.elapsed() < PATIENCE, "{what}: {}", self.counters());
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

fn configuration(changes: &[(&str, &str)]) -> String {
    let text = include_str!("../../firewall.toml").to_owned();
    changes.iter().fold(text, |text, (from, to)| {
        let changed = text.replacen(from, to, 1);
        assert_ne!(changed, text, "{from}");
        changed
    })
}
