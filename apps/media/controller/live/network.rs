//! A host with two interfaces that are its own and Millrace's, between viewers and servers.
//!
//! ```text
//! viewers 10.0.1.11, 2001:db8:1::11 ── viewers  proxy  servers ── servers 10.0.2.11, 2001:db8:2::11
//!                       10.0.1.1, 2001:db8:1::1          10.0.2.1, 2001:db8:2::1
//! ```

use std::sync::Arc;
use std::time::{Duration, Instant};

use lab::{LinkConfig, Namespace, Running, Signal, veth};
use serde_json::Value as Json;

use crate::instance::Runtime;
use crate::process::{Done, ROOT};

/// Long enough for a loaded machine; nothing waits this long when all is well.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub fn must<T>(result: lab::Result<T>) -> T {
    result.unwrap_or_else(|error| panic!("{error}"))
}

/// The running proxy.
pub struct Media {
    // Dropped first: then Millrace is ended before its ports are.
    millrace: Running,
    runtime: Runtime,
    /// What it was started with, behind what runs it in another mount namespace.
    words: Vec<String>,
    /// That namespace, where it has a disk of its own for its state.
    disk: Option<Running>,
    pub proxy: Namespace,
    pub viewers: Namespace,
    pub servers: Arc<Namespace>,
}

impl Media {
    /// Builds the network and starts Millrace with the example configuration, some of its text replaced.
    pub fn start(driver: &str, changes: &[(&str, &str)]) -> Media {
        Media::start_on(driver, changes, None)
    }

    /// The same with a disk of a size for its state.
    pub fn start_on(driver: &str, changes: &[(&str, &str)], size: Option<&str>) -> Media {
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
        Media::start_at(ns, (viewers, Arc::new(servers)), &example(driver, changes), size)
    }

    /// Starts Millrace with a configuration on a host between others, which has 10.0.1.1 for viewers. `STATE` in the
    /// text is where its state is.
    pub fn start_at(
        ns: Namespace,
        (viewers, servers): (Namespace, Arc<Namespace>),
        text: &str,
        size: Option<&str>,
    ) -> Media {
        let runtime = Runtime::new();
        let config = runtime.write("media.toml", &text.replace("STATE", &runtime.path("state")));
        let level = if cfg!(debug_assertions) { "base" } else { "cgpc" };
        let (socket, state) = (runtime.path("socket"), runtime.path("state"));
        let mut words = Vec::new();
        let disk = size.map(|size| {
            std::fs::create_dir(&state).unwrap();
            let mount =
                format!("mount -t tmpfs -o size={size},mode=700 disk {state} && echo mounted && exec sleep 600");
            let mut disk = must(ns.command("unshare").args(["--mount", "sh", "-c", &mount]).spawn());
            must(disk.wait_for_text("mounted", PATIENCE));
            words.extend(["nsenter".to_owned(), format!("--mount=/proc/{}/ns/mnt", disk.id())]);
            disk
        });
        let millrace = env!("CARGO_BIN_EXE_millrace");
        // Whoever enters a mount namespace is in its root directory.
        let app = format!("{ROOT}/apps/media");
        let run = [millrace, "run", &app, "-c", &config, "--opt", level, "--socket", &socket, "--state", &state];
        words.extend(run.map(str::to_owned));
        let millrace = launch(&ns, &words);
        let media = Media { millrace, runtime, words, disk, proxy: ns, viewers, servers };
        media.listens();
        media
    }

    /// Waits until it takes RTSP connections.
    fn listens(&self) {
        self.wait("RTSP is not there", |media| {
            let connected = media.viewers.enter(|| std::net::TcpStream::connect("10.0.1.1:8554"));
            connected.unwrap().is_ok()
        });
    }

    /// The number of Millrace's process.
    pub fn id(&self) -> u32 {
        self.millrace.id()
    }

    /// Ends Millrace as `kill -9` does.
    pub fn kill(&mut self) {
        must(self.millrace.signal(Signal::SIGKILL));
        must(self.millrace.wait(PATIENCE));
    }

    /// Ends it as Ctrl-C does, and does not wait for anything else.
    pub fn interrupt(&mut self) {
        must(self.millrace.signal(Signal::SIGINT));
        let output = must(self.millrace.wait(PATIENCE));
        assert_eq!(output.status.code(), Some(0), "{output}");
    }

    /// Starts it again.
    pub fn start_again(&mut self) {
        self.millrace = launch(&self.proxy, &self.words);
        self.listens();
    }

    /// What it says where it can't start.
    pub fn start_in_vain(&self) -> String {
        let output = must(self.proxy.command(&self.words[0]).args(&self.words[1..]).run());
        assert_ne!(output.status.code(), Some(0), "{output}");
        output.both()
    }

    /// A file of its state.
    pub fn state(&self, name: &str) -> String {
        let root = self.disk.as_ref().map_or_else(String::new, |disk| format!("/proc/{}/root", disk.id()));
        format!("{root}{}/{name}", self.runtime.path("state"))
    }

    /// What it has said.
    pub fn said(&self) -> String {
        self.millrace.both()
    }

    /// Runs a command of `millrace` for this instance.
    pub fn millrace(&self, arguments: &[&str]) -> Done {
        self.runtime.millrace(&[arguments, &["--socket", &self.runtime.path("socket")]].concat())
    }

    /// Asks for JSON.
    pub fn json(&self, arguments: &[&str]) -> Json {
        self.runtime.json(&[arguments, &["--socket", &self.runtime.path("socket")]].concat())
    }

    /// Packets that have passed a channel.
    pub fn channel(&self, name: &str) -> u64 {
        let counters = self.json(&["counters"]);
        counters["channels"][name].as_u64().unwrap_or_else(|| panic!("no channel {name}: {counters}"))
    }

    /// A metric, of all of its labels.
    pub fn metric(&self, name: &str) -> u64 {
        let all = self.json(&["metrics", name]);
        let samples = find(&all, name).and_then(|family| family["samples"].as_array());
        let samples = samples.filter(|own| !own.is_empty()).unwrap_or_else(|| panic!("no {name}: {all}"));
        samples.iter().map(|own| own["value"].as_u64().unwrap()).sum()
    }

    /// Ends Millrace as Ctrl-C does; what it said.
    pub fn stop(mut self) -> String {
        must(self.millrace.signal(Signal::SIGINT));
        let output = must(self.millrace.wait(PATIENCE));
        assert_eq!(output.status.code(), Some(0), "{output}");
        output.both()
    }

    /// Waits until something holds.
    #[track_caller]
    pub fn wait(&self, what: &str, holds: impl Fn(&Media) -> bool) {
        let start = Instant::now();
        while !holds(self) {
            assert!(start.elapsed() < PATIENCE, "{what}: {}\n{}", self.json(&["counters"]), self.millrace.both());
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// The example configuration, for a driver, and with some of its text replaced.
pub fn example(driver: &str, changes: &[(&str, &str)]) -> String {
    let text = include_str!("../../media.toml").replace("\"auto:", &format!("\"{driver}:"));
    changes.iter().fold(text, |text, (from, to)| {
        let changed = text.replacen(from, to, 1);
        assert_ne!(changed, text, "{from}");
        changed
    })
}

fn launch(host: &Namespace, words: &[String]) -> Running {
    let mut millrace = must(host.command(&words[0]).args(&words[1..]).spawn());
    must(millrace.wait_for_start(PATIENCE));
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
