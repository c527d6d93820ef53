//! What is between the client and the servers, one system at a time.

use std::fmt::Write as _;
use std::process::Command;

use crate::web::line::{Line, Program, Scratch};
use crate::web::network::{CLIENTS, Links, MIDDLE_CPU, Middle, REAL, SERVERS, VIRTUAL};

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

    /// How the middle's interfaces are set up for it.
    pub fn middle(self) -> Middle {
        match self {
            System::Direct => Middle::Nothing,
            System::Millrace(Placement::TrafficControl) => Middle::TcPorts,
            System::Millrace(_) => Middle::Ports,
            _ => Middle::Host,
        }
    }

    /// The configuration of Millrace.
    pub fn config(self) -> Option<String> {
        match self {
            System::Millrace(placement) => Some(millrace(placement)),
            _ => None,
        }
    }

    /// Starts it.
    pub fn start(self, links: Links) -> Result<Line, String> {
        let program = match self {
            System::Direct | System::Kernel => Program::None,
            System::Haproxy(more) => {
                let scratch = Scratch::new()?;
                let config = scratch.write("haproxy.cfg", &haproxy(more))?;
                Program::Other(vec!["haproxy".into(), "-db".into(), "-f".into(), config], scratch)
            }
            System::Nginx => {
                let scratch = Scratch::new()?;
                let folder = scratch.0.display().to_string();
                let config = scratch.write("nginx.conf", &nginx(&folder))?;
                let command =
                    vec!["nginx".into(), "-p".into(), folder, "-e".into(), "stderr".into(), "-c".into(), config];
                Program::Other(command, scratch)
            }
            System::Millrace(placement) => Program::Millrace("splice", millrace(placement)),
        };
        let address = if matches!(self, System::Direct | System::Kernel) { REAL[0] } else { VIRTUAL };
        Line::start(self.middle(), links, program, address)
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

/// The configuration of Millrace.
fn millrace(placement: Placement) -> String {
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
    own.replace("[workers]\ncount = 1", &format!("[workers]\ncpus = [{MIDDLE_CPU}]\nppfs = {ppfs}"))
}
