//! What is between the source and its receivers, one system at a time.

use std::net::{SocketAddr, SocketAddrV4, UdpSocket};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use lab::{Running, Signal};

use super::network::{self, DIRECT, ENDS_CPU, HOST, HOST_CPU, Network, RECEIVER};
use super::origin::Origin;
use super::viewer::{self, Viewer};
use crate::stream::stay;
use crate::text;

/// Until a system serves.
const PATIENCE: Duration = Duration::from_secs(60);
/// The port that the peers forward from.
const PORT: u16 = 20_000;
/// Sessions.
const MOST: usize = 20_000;

unsafe extern "C" {
    fn media_relay(port: u16, address: u32, ports: *const u16, count: u32, stop: *const u32) -> i32;
}

/// A system that takes part.
#[derive(Clone, Copy, PartialEq)]
pub enum System {
    /// The link from the source to one receiver.
    Direct,
    /// Destination NAT of the kernel, to one receiver.
    Kernel,
    /// A proxy over sockets.
    Relay,
    Millrace,
}

/// All of them, by their names in the results.
pub const SYSTEMS: [(&str, System); 4] =
    [("direct", System::Direct), ("kernel", System::Kernel), ("relay", System::Relay), ("millrace", System::Millrace)];

impl System {
    /// Whether it has one receiver at most.
    pub fn is_for_one(self) -> bool {
        matches!(self, System::Direct | System::Kernel)
    }

    /// Why it cannot take part.
    pub fn missing(self, network: &Network) -> Option<String> {
        let fails = |command: &[&str]| network.proxy.check(command).is_err();
        (self == System::Kernel && fails(&["nft", "list", "tables"])).then(|| "nft is not installed".into())
    }
}

/// A running system, with its receivers.
pub struct Line {
    /// Where the source sends to.
    pub to: SocketAddrV4,
    /// Dropped in this order.
    viewers: Vec<Viewer>,
    pub millrace: Option<Millrace>,
    relay: Option<Relay>,
    _origin: Option<Origin>,
    /// The receivers' sockets.
    pub sockets: Vec<UdpSocket>,
}

impl Line {
    /// Starts a system for so many receivers, on a CPU of the host's own or, `by_turns`, on that of the ends.
    pub fn start(network: &Network, system: System, receivers: usize, by_turns: bool) -> Result<Line, String> {
        let make = || (0..receivers).map(viewer::socket).collect::<Result<Vec<_>, _>>();
        let sockets = network.viewers.enter(make).map_err(text)??;
        let host = SocketAddrV4::new(HOST, PORT);
        let mut line = Line { to: host, viewers: Vec::new(), millrace: None, relay: None, _origin: None, sockets };
        match system {
            System::Direct => line.to = SocketAddrV4::new(DIRECT, viewer::port(0)),
            System::Kernel => {
                let rule = format!("ip daddr {HOST} udp dport {PORT} dnat to {RECEIVER}:{}", viewer::port(0));
                for command in [
                    "flush ruleset",
                    "add table ip media",
                    "add chain ip media pre { type nat hook prerouting priority dstnat ; }",
                    &format!("add rule ip media pre {rule}"),
                ] {
                    network.proxy.check(&["nft", command]).map_err(text)?;
                }
            }
            System::Relay => line.relay = Some(Relay::start(network, receivers, by_turns)?),
            System::Millrace => {
                let origin = Origin::start(network)?;
                line.millrace = Some(Millrace::start(network, by_turns, "")?);
                let watch = || {
                    let mut viewers = (0..receivers).map(Viewer::set_up).collect::<Result<Vec<_>, _>>()?;
                    viewers.iter_mut().try_for_each(Viewer::play)?;
                    Ok::<_, String>(viewers)
                };
                line.viewers = network.viewers.enter(watch).map_err(text)??;
                let SocketAddr::V4(to) = origin.asked()? else { return Err("the origin was asked over IPv6".into()) };
                line.to = to;
                line._origin = Some(origin);
            }
        }
        Ok(line)
    }

    /// Ends it, and says what went wrong.
    pub fn end(mut self, network: &Network) -> Result<(), String> {
        if let Some(relay) = self.relay.take() {
            relay.end()?;
        }
        for viewer in self.viewers.drain(..) {
            viewer.tear_down()?;
        }
        if let Some(millrace) = self.millrace.take() {
            millrace.end()?;
        }
        // A rule that there is not is nothing to remove.
        let _ = network.proxy.run(&["nft", "flush", "ruleset"]);
        Ok(())
    }
}

/// The relay's thread.
struct Relay {
    stop: Arc<AtomicU32>,
    thread: JoinHandle<i32>,
}

impl Relay {
    fn start(network: &Network, receivers: usize, by_turns: bool) -> Result<Relay, String> {
        let ports: Vec<u16> = (0..receivers).map(viewer::port).collect();
        let stop = Arc::new(AtomicU32::new(0));
        let stops = stop.clone();
        let start = move || {
            std::thread::spawn(move || {
                if stay(cpu(by_turns), by_turns).is_err() {
                    return -1;
                }
                let (address, count) = (u32::from(RECEIVER), ports.len() as u32);
                // SAFETY: the ports are as many as is said, and the flag is there until it returns.
                unsafe { media_relay(PORT, address, ports.as_ptr(), count, stops.as_ptr()) }
            })
        };
        // A thread begins in the network namespace of the one that starts it.
        Ok(Relay { stop, thread: network.proxy.enter(start).map_err(text)? })
    }

    fn end(self) -> Result<(), String> {
        self.stop.store(1, Ordering::Relaxed);
        match self.thread.join() {
            Ok(0) => Ok(()),
            Ok(error) => Err(format!("the relay: {}", std::io::Error::from_raw_os_error(error))),
            Err(_) => Err("the relay has panicked".into()),
        }
    }
}

/// The proxy as a process.
pub struct Millrace {
    running: Running,
    program: String,
    folder: PathBuf,
}

impl Millrace {
    /// It takes connections. `by_turns` as for [`Line::start`]; `more` is appended to the example's configuration.
    pub fn start(network: &Network, by_turns: bool, more: &str) -> Result<Millrace, String> {
        let folder = std::env::temp_dir().join(format!("millrace-bench-media-{}", std::process::id()));
        std::fs::create_dir_all(&folder).map_err(text)?;
        let config = folder.join("media.toml");
        std::fs::write(&config, configuration() + more).map_err(text)?;
        let program = crate::millrace_beside()?;
        let (cpu, policy) = (cpu(by_turns).to_string(), if by_turns { "--batch" } else { "--other" });
        let command = network.proxy.command("chrt").args([policy, "0", "taskset", "-c", &cpu]);
        let command = command.args([&program, "run", "media"]);
        let command = command.arg("-c").arg(&config).arg("--socket").arg(folder.join("socket"));
        let mut millrace = Millrace { running: command.spawn().map_err(text)?, program, folder };
        millrace.running.wait_for_start(PATIENCE).map_err(text)?;
        let start = Instant::now();
        let connect = || std::net::TcpStream::connect(network::proxy()).is_ok();
        while !network.viewers.enter(connect).map_err(text)? {
            if start.elapsed() > PATIENCE {
                return Err(format!("it takes no connections: {}", millrace.running.both()));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(millrace)
    }

    /// The process.
    pub fn id(&self) -> u32 {
        self.running.id()
    }

    /// The sum of a metric that it counts.
    pub fn metric(&self, network: &Network, name: &str) -> Result<u64, String> {
        let socket = self.folder.join("socket").display().to_string();
        let output = network.proxy.check(&[&self.program, "metrics", name, "--json", "--socket", &socket]);
        let json: serde_json::Value = serde_json::from_str(&output.map_err(text)?.text()).map_err(text)?;
        find(&json, name)
            .and_then(|family| family["samples"].as_array())
            .map(|samples| samples.iter().filter_map(|sample| sample["value"].as_u64()).sum())
            .ok_or_else(|| format!("there is no metric {name}"))
    }

    /// Bytes in memory that are its own.
    pub fn memory(&self) -> Result<f64, String> {
        // chrt and taskset are replaced by what they run.
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.running.id())).map_err(text)?;
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
        let kib: Option<f64> = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
        kib.map(|kib| kib * 1024.0).ok_or_else(|| "no RssAnon".into())
    }

    /// Ends it as Ctrl-C does.
    pub fn end(mut self) -> Result<(), String> {
        self.running.signal(Signal::SIGINT).map_err(text)?;
        let output = self.running.wait(PATIENCE).map_err(text)?;
        if output.status.success() { Ok(()) } else { Err(output.to_string()) }
    }
}

impl Drop for Millrace {
    fn drop(&mut self) {
        // What is left in the folder for temporary files is no loss.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn cpu(by_turns: bool) -> usize {
    if by_turns { ENDS_CPU } else { HOST_CPU }
}

/// The example in the kernel, with room for many sessions of one client.
fn configuration() -> String {
    let mut own = include_str!("../../media.toml").replace("auto:", "xdp:");
    for name in ["connections", "sessions", "receivers"] {
        own = own.replace(&format!("\n{name} = 4096"), &format!("\n{name} = {MOST}"));
    }
    // The source sends nothing between two measurements.
    own.replace("\nper_client = 64 ", &format!("\nper_client = {MOST} "))
        .replace("\nsilence = \"10s\"", "\nsilence = \"0s\"")
}

/// The object of this name, wherever it is.
fn find<'j>(json: &'j serde_json::Value, name: &str) -> Option<&'j serde_json::Value> {
    use serde_json::Value as Json;
    match json {
        Json::Object(fields) if fields.get("name").is_some_and(|own| own == name) => Some(json),
        Json::Object(fields) => fields.values().find_map(|own| find(own, name)),
        Json::Array(all) => all.iter().find_map(|own| find(own, name)),
        _ => None,
    }
}
