//! A host with two interfaces that are its own and Millrace's, between viewers and servers.
//!
//! ```text
//! viewers 10.0.1.11, 2001:db8:1::11 ── viewers  proxy  servers ── servers 10.0.2.11, 2001:db8:2::11
//!                       10.0.1.1, 2001:db8:1::1          10.0.2.1, 2001:db8:2::1
//! ```

use std::time::{Duration, Instant};

use lab::{LinkConfig, Namespace, Running, Signal, veth};
use serde_json::Value as Json;

use crate::instance::Runtime;
use crate::process::Done;

/// Long enough for a loaded machine; nothing waits this long when all is well.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// The same for a start, which compiles and loads the program.
pub const START: Duration = Duration::from_secs(240);
/// Where HTTP is served, over both versions of IP.
pub const PROXIES: [&str; 2] = ["10.0.1.1:8080", "[2001:db8:1::1]:8080"];

pub fn must<T>(result: lab::Result<T>) -> T {
    result.unwrap_or_else(|error| panic!("{error}"))
}

/// The running proxy.
pub struct Proxy {
    // Dropped first: then Millrace is ended before its ports are.
    millrace: Running,
    runtime: Runtime,
    /// What it was started with.
    arguments: Vec<String>,
    pub proxy: Namespace,
    pub viewers: Namespace,
    pub servers: Namespace,
}

impl Proxy {
    /// Builds the network and starts Millrace with the example configuration, some of its text replaced.
    pub fn start(driver: &str, changes: &[(&str, &str)]) -> Proxy {
        let ns = must(Namespace::new("proxy"));
        let hosts = ["viewers", "servers"].map(|name| {
            let host = must(Namespace::new(name));
            must(veth(&host, "eth0", &ns, name));
            let net = if name == "viewers" { 1 } else { 2 };
            let config = |last: u32| {
                let config = LinkConfig::host().ipv6(true).address(format!("10.0.{net}.{last}/24"));
                config.address(format!("2001:db8:{net}::{last}/64"))
            };
            must(ns.configure(name, &config(1)));
            must(host.configure("eth0", &config(11)));
            // Without it a veth device takes no packets from the kernel's fast path.
            must(host.check(&["ethtool", "-K", "eth0", "gro", "on"]));
            host
        });
        let [viewers, servers] = hosts;
        must(servers.check(&["ip", "route", "add", "224.0.0.0/4", "dev", "eth0"]));
        let runtime = Runtime::new();
        // Places of the proxy's own may be asked for, too.
        let text = include_str!("../../translate.toml")
            .replace("\"auto:", &format!("\"{driver}:"))
            .replace("groups = [", "groups = [\"10.0.2.1\", ");
        let text = changes.iter().fold(text, |text, (from, to)| {
            let changed = text.replacen(from, to, 1);
            assert_ne!(changed, text, "{from}");
            changed
        });
        if driver == "afpacket" {
            // The kernel gets copies of all packets there, and would reset connections that it knows nothing of.
            let rules = "table inet quiet { chain input { type filter hook input priority 0; tcp dport 8080 drop; }; }";
            must(ns.check(&["nft", rules]));
        }
        let config = runtime.write("translate.toml", &text);
        let level = if cfg!(debug_assertions) { "base" } else { "cgpc" };
        let (socket, state) = (runtime.path("socket"), runtime.path("state"));
        let arguments = ["run", "translate", "-c", &config, "--opt", level, "--socket", &socket, "--state", &state]
            .map(str::to_owned);
        let millrace = launch(&ns, &arguments);
        let own = Proxy { millrace, runtime, arguments: arguments.into(), proxy: ns, viewers, servers };
        own.answers();
        own
    }

    /// Ends Millrace as `kill -9` does, and starts it again.
    pub fn kill_and_start(&mut self) {
        must(self.millrace.signal(Signal::SIGKILL));
        must(self.millrace.wait(PATIENCE));
        self.millrace = launch(&self.proxy, &self.arguments);
        self.answers();
    }

    /// Ends Millrace as its service manager does, and starts it again.
    pub fn end_and_start(&mut self) {
        must(self.millrace.signal(Signal::SIGTERM));
        let output = must(self.millrace.wait(START));
        assert_eq!(output.status.code(), Some(0), "{output}");
        self.millrace = launch(&self.proxy, &self.arguments);
        self.answers();
    }

    /// Waits until it takes connections.
    fn answers(&self) {
        for address in PROXIES {
            self.wait("nobody answers", |proxy| {
                let timeout = Duration::from_secs(2);
                let address = address.parse().unwrap();
                must(proxy.viewers.enter(|| std::net::TcpStream::connect_timeout(&address, timeout))).is_ok()
            });
        }
    }

    /// Has the viewers' host lose so many of a hundred segments from the proxy.
    pub fn lose(&self, percent: u32) {
        let rule = format!("tcp sport 8080 numgen random mod 100 < {percent} drop");
        let rules =
            format!("table inet loss {{ chain input {{ type filter hook prerouting priority -300; {rule}; }}; }}");
        must(self.viewers.check(&["nft", &rules]));
    }

    /// What it has said so far.
    pub fn said(&self) -> String {
        self.millrace.both()
    }

    /// Groups that the host is a member of.
    pub fn groups(&self) -> String {
        must(self.proxy.check(&["ip", "maddress", "show", "dev", "servers"])).text()
    }

    /// Reads the configuration anew, some of its text replaced.
    pub fn reload(&self, from: &str, to: &str) {
        let path = self.arguments[3].clone();
        let text = std::fs::read_to_string(&path).unwrap();
        let changed = text.replacen(from, to, 1);
        assert_ne!(changed, text, "{from}");
        std::fs::write(&path, changed).unwrap();
        let done = self.millrace(&["reload"]);
        assert_eq!(done.status, Some(0), "{done:?}");
    }

    /// Runs a command of `millrace` for this instance.
    pub fn millrace(&self, arguments: &[&str]) -> Done {
        self.runtime.millrace(&[arguments, &["--socket", &self.runtime.path("socket")]].concat())
    }

    /// Asks for JSON.
    pub fn json(&self, arguments: &[&str]) -> Json {
        self.runtime.json(&[arguments, &["--socket", &self.runtime.path("socket")]].concat())
    }

    /// A metric without labels.
    pub fn metric(&self, name: &str) -> u64 {
        let all = self.json(&["metrics", name]);
        let text = all.to_string();
        let family = find(&all, name).unwrap_or_else(|| panic!("no {name}: {text}"));
        family["samples"][0]["value"].as_u64().unwrap_or_else(|| panic!("no {name}: {text}"))
    }

    /// A counter of the program's.
    pub fn counter(&self, name: &str) -> u64 {
        let all = self.json(&["counters"]);
        all["counters"][name][0].as_u64().unwrap_or_else(|| panic!("no {name}: {all}"))
    }

    /// Ends Millrace as Ctrl-C does.
    pub fn stop(mut self) {
        must(self.millrace.signal(Signal::SIGINT));
        let output = must(self.millrace.wait(PATIENCE));
        assert_eq!(output.status.code(), Some(0), "{output}");
    }

    /// Waits until something holds.
    #[track_caller]
    pub fn wait(&self, what: &str, holds: impl Fn(&Proxy) -> bool) {
        let start = Instant::now();
        while !holds(self) {
            assert!(start.elapsed() < PATIENCE, "{what}: {}\n{}", self.json(&["counters"]), self.millrace.both());
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

fn launch(host: &Namespace, arguments: &[String]) -> Running {
    let mut millrace = must(host.command(env!("CARGO_BIN_EXE_millrace")).args(arguments).spawn());
    must(millrace.wait_for_start(START));
    millrace
}

/// The object of this name, wherever it is.
fn find<'j>(json: &'j Json, name: &str) -> Option<&'j Json> {
    match json {
        Json::Object(fields) if fields.get("name").is_some_and(|own| own == name) => Some(json),
        Json::Object(fields) => fields.values().find_map(|own| find(own, name)),
        Json::Array(all) => all.iter().find_map(|own| find(own, name)),
        _ => None,
    }
}
