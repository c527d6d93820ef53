//! What is between the client and the servers, one system at a time.

use std::fmt::Write as _;
use std::net::SocketAddrV4;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use lab::Running;

use super::client;
use super::cpu::{self, Thread};
use super::network::{BALANCER_CPU, CLIENTS, Links, Middle, Network, REAL, SERVERS, VIRTUAL};
use crate::text;

/// Until a system serves.
const PATIENCE: Duration = Duration::from_secs(60);

/// A system that takes part.
#[derive(Clone, Copy, PartialEq)]
pub enum System {
    /// One link from the client to a server.
    Direct,
    /// The kernel forwards packets.
    Kernel,
    /// HAProxy with so many lines more in its configuration.
    Haproxy(&'static str),
    Nginx,
    Millrace(Placement),
}

/// Where Millrace's program runs.
#[derive(Clone, Copy, PartialEq)]
pub enum Placement {
    /// All of it on workers.
    Workers,
    /// Connections are set up on workers, spliced packets pass in XDP.
    SetUp,
    /// Cookies and splicing in XDP, requests on workers.
    Cookies,
    /// Splicing at traffic control, cookies and requests on workers.
    TrafficControl,
}

/// The module that sets connections up, which the second placement keeps on workers.
pub const SET_UP: &str = "accept";

/// All of them, by their names in the results.
pub const SYSTEMS: [(&str, System); 10] = [
    ("direct", System::Direct),
    ("kernel", System::Kernel),
    ("haproxy", System::Haproxy("")),
    ("haproxy splice", System::Haproxy("option splice-auto")),
    ("haproxy reuse", System::Haproxy("http-reuse always")),
    ("nginx", System::Nginx),
    ("millrace workers", System::Millrace(Placement::Workers)),
    ("millrace", System::Millrace(Placement::SetUp)),
    ("millrace xdp", System::Millrace(Placement::Cookies)),
    ("millrace tc", System::Millrace(Placement::TrafficControl)),
];

/// A running system with its network.
pub struct Line {
    // Dropped first.
    running: Option<Running>,
    pub network: Network,
    /// Where the client asks.
    pub address: SocketAddrV4,
    /// Its threads, where all of its work is in threads.
    pub threads: Vec<Thread>,
    /// What it needs as long as it runs.
    _scratch: Scratch,
}

impl System {
    /// The program that must be installed.
    fn program(self) -> Option<&'static str> {
        match self {
            System::Haproxy(_) => Some("haproxy"),
            System::Nginx => Some("nginx"),
            _ => None,
        }
    }

    /// Why it cannot take part.
    pub fn missing(self) -> Option<String> {
        let program = self.program()?;
        let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
        let found = Command::new(program).arg("-v").env("PATH", path).output().is_ok_and(|done| done.status.success());
        (!found).then(|| format!("{program} is not installed"))
    }

    /// Whether it works on links as the kernel sets them up.
    pub fn takes_offloads(self) -> bool {
        !matches!(self, System::Millrace(placement) if placement != Placement::TrafficControl)
    }

    /// Starts it.
    pub fn start(self, links: Links) -> Result<Line, String> {
        let middle = match self {
            System::Direct => Middle::Nothing,
            System::Millrace(Placement::TrafficControl) => Middle::TcPorts,
            System::Millrace(_) => Middle::Ports,
            _ => Middle::Host,
        };
        let network = Network::new(middle, links)?;
        let scratch = Scratch::new()?;
        let command = match self {
            System::Direct | System::Kernel => None,
            System::Haproxy(more) => {
                let config = scratch.write("haproxy.cfg", &haproxy(more))?;
                Some(vec!["haproxy".into(), "-db".into(), "-f".into(), config])
            }
            System::Nginx => {
                let folder = scratch.0.display().to_string();
                let config = scratch.write("nginx.conf", &nginx(&folder))?;
                Some(vec!["nginx".into(), "-p".into(), folder, "-e".into(), "stderr".into(), "-c".into(), config])
            }
            System::Millrace(placement) => Some(millrace(placement, &scratch)?),
        };
        let run = |command: Vec<String>| {
            let cpu = BALANCER_CPU.to_string();
            network.balancer.command("taskset").args(["-c", &cpu]).args(command).spawn().map_err(text)
        };
        let running = command.map(run).transpose()?;
        let address = if matches!(self, System::Direct | System::Kernel) { REAL[0] } else { VIRTUAL };
        let mut line = Line { running, network, address, threads: Vec::new(), _scratch: scratch };
        line.wait()?;
        if let (System::Millrace(_), Some(running)) = (self, &line.running) {
            let receiving = if middle == Middle::Ports { line.network.ports_are_threaded()? } else { Vec::new() };
            line.threads = cpu::threads(running.id(), &receiving)?;
        }
        Ok(line)
    }
}

impl Line {
    /// Until a request is served.
    fn wait(&mut self) -> Result<(), String> {
        let start = Instant::now();
        loop {
            let Err(error) = self.check(1) else { return Ok(()) };
            let ended = match &mut self.running {
                Some(running) => running.ended().map_err(text)?.is_some(),
                None => false,
            };
            if ended || start.elapsed() > PATIENCE {
                let said = self.running.as_ref().map_or(String::new(), Running::both);
                return Err(format!("it does not serve: {error}\n{said}"));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// One response is the right one.
    pub fn check(&self, bytes: usize) -> Result<(), String> {
        self.network.client.enter(|| client::check(self.address, bytes)).map_err(text)?
    }
}

/// A folder that is removed at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Result<Self, String> {
        let folder = std::env::temp_dir().join(format!("millrace-bench-splice-{}", std::process::id()));
        std::fs::create_dir_all(&folder).map_err(text)?;
        Ok(Scratch(folder))
    }

    fn write(&self, name: &str, content: &str) -> Result<String, String> {
        let path = self.0.join(name);
        std::fs::write(&path, content).map_err(text)?;
        Ok(path.display().to_string())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What is left in the folder for temporary files is no loss.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn haproxy(more: &str) -> String {
    let mut text = format!(
        "global\n nbthread 1\n maxconn 4000\ndefaults\n mode http\n timeout connect 5s\n timeout client 30s\n timeout server \
         30s\n {more}\nfrontend own\n bind {VIRTUAL}\n default_backend web\nbackend web\n balance roundrobin\n"
    );
    for (number, server) in REAL.iter().enumerate() {
        let _ = writeln!(text, " server s{number} {server}");
    }
    text
}

fn nginx(folder: &str) -> String {
    let servers: String = REAL.iter().map(|server| format!("server {server}; ")).collect();
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|kind| format!("{kind}_temp_path {folder}/{kind}; "))
        .concat();
    format!(
        "daemon off; master_process off; worker_processes 1; pid {folder}/nginx.pid; error_log stderr crit;\n\
         events {{ worker_connections 4000; }}\n\
         http {{ access_log off; {temporary} keepalive_requests 1000000000; tcp_nodelay on;\n\
         upstream web {{ {servers} keepalive 256; keepalive_requests 1000000000; }}\n\
         server {{ listen {VIRTUAL}; location / {{ proxy_pass http://web; proxy_http_version 1.1;\n\
         proxy_set_header Connection \"\"; proxy_max_temp_file_size 0; }} }} }}\n"
    )
}

/// The command that runs Millrace.
fn millrace(placement: Placement, scratch: &Scratch) -> Result<Vec<String>, String> {
    let example = include_str!("../../splice.toml");
    let driver = match placement {
        Placement::Workers => "afxdp",
        Placement::SetUp | Placement::Cookies => "xdp",
        Placement::TrafficControl => "tc",
    };
    // The servers are the two of IPv4.
    let is_v6 = |line: &&str| line.trim_start().starts_with("{ name = ") && line.contains("[2001:");
    let mut own: String = example.lines().filter(|line| !is_v6(line)).map(|line| format!("{line}\n")).collect();
    for (port, device) in [("clients", CLIENTS), ("servers", SERVERS)] {
        own = own.replace(&format!("auto:{port}"), &format!("{driver}:{device}"));
    }
    let ppfs = if placement == Placement::SetUp { format!("[\"{SET_UP}\"]") } else { "[]".into() };
    own = own.replace("[workers]\ncount = 1", &format!("[workers]\ncpus = [{BALANCER_CPU}]\nppfs = {ppfs}"));
    let config = scratch.write("splice.toml", &own)?;
    let program = std::env::current_exe().map_err(text)?.with_file_name("millrace").display().to_string();
    let arguments = ["run", "splice", "-c", &config, "--no-socket"];
    Ok(std::iter::once(program.as_str()).chain(arguments).map(str::to_owned).collect())
}
