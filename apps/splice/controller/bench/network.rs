//! Client, balancer and servers on veth devices, each with its packets on the CPU that is charged for them.
//!
//! ```text
//! client 10.0.1.11 eth0 ── mrc | balancer | mrs ── eth0 10.0.2.11, 10.0.2.12 servers
//! ```
//!
//! A veth device does the receiver's work on the sender's CPU: the balancer's would be charged to the client, and the
//! other way round. So every device's packets are received by a thread of the kernel (threaded NAPI) on the CPU of the
//! receiver, or, where a device has no NAPI, are steered to that CPU (RPS). What CPU 0 does is then the balancer's, all
//! of it and nothing else; client and servers share CPU 1.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::{Duration, Instant};

use aya::Ebpf;
use lab::{LinkConfig, Namespace, veth};

use super::server::Server;
use crate::text;
use crate::xdp::line;

/// The CPU that is charged.
pub const BALANCER_CPU: usize = 0;
/// The other one.
pub const HOSTS_CPU: usize = 1;
/// The balancer's devices.
pub const CLIENTS: &str = "mrc";
pub const SERVERS: &str = "mrs";
/// Addresses: of the service, of the balancer towards the servers, and of the servers.
pub const VIRTUAL: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 0, 1, 80), 80);
pub const TOWARDS_SERVERS: &str = "10.0.2.254";
pub const REAL: [SocketAddrV4; 2] =
    [SocketAddrV4::new(Ipv4Addr::new(10, 0, 2, 11), 80), SocketAddrV4::new(Ipv4Addr::new(10, 0, 2, 12), 80)];
/// Until a device runs.
const PATIENCE: Duration = Duration::from_secs(5);

/// How the links are set up.
#[derive(Clone, Copy, PartialEq)]
pub enum Links {
    /// Every packet as it is on a wire: segmentation and checksums are no other program's work.
    Plain,
    /// As the kernel sets them up: packets of up to 64 KiB without checksums.
    Offloads,
}

/// What is between client and servers.
#[derive(Clone, Copy, PartialEq)]
pub enum Middle {
    /// Nothing: one link.
    Nothing,
    /// A host: the kernel's stack is at both devices.
    Host,
    /// Devices that only Millrace uses, in XDP.
    Ports,
    /// The same at traffic control.
    TcPorts,
}

/// All of it.
pub struct Network {
    // Dropped first: it has the sockets.
    _server: Server,
    pub client: Namespace,
    pub balancer: Namespace,
    _servers: Namespace,
    _ends: Option<Ebpf>,
    links: Links,
}

impl Network {
    /// With running servers.
    pub fn new(middle: Middle, links: Links) -> Result<Self, String> {
        let namespace = |label| Namespace::new(label).map_err(text);
        let (client, balancer, servers) = (namespace("client")?, namespace("balancer")?, namespace("servers")?);
        let config = |config: LinkConfig| if links == Links::Offloads { config.keep_offloads() } else { config };
        let host = |addresses: &[&str]| {
            addresses.iter().fold(config(LinkConfig::host()), |config, address| config.address(*address))
        };
        if middle == Middle::Nothing {
            veth(&client, "eth0", &servers, "eth0").map_err(text)?;
            client.configure("eth0", &host(&["10.0.2.10/24"])).map_err(text)?;
        } else {
            veth(&client, "eth0", &balancer, CLIENTS).map_err(text)?;
            veth(&servers, "eth0", &balancer, SERVERS).map_err(text)?;
            let own = match middle {
                Middle::Ports | Middle::TcPorts => [(); 2].map(|()| config(LinkConfig::port())),
                _ => [host(&["10.0.1.80/24"]), host(&["10.0.2.254/24"])],
            };
            for (device, config) in [CLIENTS, SERVERS].iter().zip(&own) {
                balancer.configure(device, config).map_err(text)?;
            }
            client.configure("eth0", &host(&["10.0.1.11/24"])).map_err(text)?;
        }
        servers.configure("eth0", &host(&["10.0.2.11/24", "10.0.2.12/24"])).map_err(text)?;
        if middle == Middle::Host {
            balancer.set_sysctl("net.ipv4.ip_forward", "1").map_err(text)?;
            client.route("10.0.2.0/24", "10.0.1.80").map_err(text)?;
            servers.route("10.0.1.0/24", TOWARDS_SERVERS).map_err(text)?;
        }
        for end in [&client, &balancer, &servers] {
            for (key, value) in [("ip_local_port_range", "1024 65535"), ("tcp_tw_reuse", "1")] {
                end.set_sysctl(&format!("net.ipv4.{key}"), value).map_err(text)?;
            }
        }
        let ends = match links {
            Links::Offloads => None,
            Links::Plain => {
                let mut ends = Ebpf::load(line::LINE).map_err(text)?;
                line::program(&mut ends, "pass")?.load().map_err(text)?;
                for end in [&client, &servers] {
                    line::attach(line::program(&mut ends, "pass")?, end, "eth0")?;
                }
                Some(ends)
            }
        };
        for end in [&client, &servers] {
            end.wait_running("eth0", PATIENCE).map_err(text)?;
        }
        let server = Server::start(&servers, &REAL, HOSTS_CPU)?;
        let network = Network { _server: server, client, balancer, _servers: servers, _ends: ends, links };
        network.steer(&network.client, "eth0", HOSTS_CPU)?;
        network.steer(&network._servers, "eth0", HOSTS_CPU)?;
        if matches!(middle, Middle::Host | Middle::TcPorts) {
            for device in [CLIENTS, SERVERS] {
                network.spread(&network.balancer, device, BALANCER_CPU)?;
            }
        }
        Ok(network)
    }

    /// The packets of a device are this CPU's, by threads where XDP programs are and by steering elsewhere.
    fn steer(&self, end: &Namespace, device: &str, cpu: usize) -> Result<(), String> {
        match self.links {
            Links::Plain => threaded(end, device, cpu).map(drop),
            Links::Offloads => self.spread(end, device, cpu),
        }
    }

    fn spread(&self, end: &Namespace, device: &str, cpu: usize) -> Result<(), String> {
        set(end, device, "queues/rx-0/rps_cpus", &format!("{:x}", 1 << cpu))
    }

    /// The same for the balancer's devices when an XDP program is there: the threads.
    pub fn ports_are_threaded(&self) -> Result<Vec<i32>, String> {
        let threads = [CLIENTS, SERVERS].iter().map(|device| threaded(&self.balancer, device, BALANCER_CPU));
        Ok(threads.collect::<Result<Vec<_>, _>>()?.concat())
    }
}

/// Sets something of a device that is in /sys alone, which each namespace has its own view of.
fn set(end: &Namespace, device: &str, name: &str, value: &str) -> Result<(), String> {
    let script = format!("mount -t sysfs sysfs /sys && echo {value} > /sys/class/net/{device}/{name}");
    end.check(&["unshare", "--mount", "sh", "-c", &script]).map(drop).map_err(text)
}

/// The packets of a device are received by threads on this CPU.
fn threaded(end: &Namespace, device: &str, cpu: usize) -> Result<Vec<i32>, String> {
    let start = Instant::now();
    let before = napi_threads()?;
    set(end, device, "threaded", "1")?;
    loop {
        let new: Vec<i32> = napi_threads()?.into_iter().filter(|thread| !before.contains(thread)).collect();
        if !new.is_empty() {
            new.iter().try_for_each(|thread| super::pin(*thread, cpu))?;
            return Ok(new);
        }
        if start.elapsed() > PATIENCE {
            return Err(format!("{device}: there is no thread that receives its packets"));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The kernel's threads that receive packets.
fn napi_threads() -> Result<Vec<i32>, String> {
    let mut threads = Vec::new();
    for entry in std::fs::read_dir("/proc").map_err(text)? {
        let entry = entry.map_err(text)?;
        let Some(number) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let name = std::fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
        if name.starts_with("napi/") {
            threads.push(number);
        }
    }
    Ok(threads)
}
