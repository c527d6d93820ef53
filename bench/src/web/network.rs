//! Client, servers and what is between them on veth devices, each with its packets on the CPU that is charged for them.
//!
//! ```text
//! client 10.0.1.11 eth0 ── mrc | middle | mrs ── eth0 10.0.2.11, 10.0.2.12 servers
//! ```
//!
//! A veth device does the receiver's work on the sender's CPU: the middle's would be charged to the client, and the
//! other way round. So every device's packets are received by a thread of the kernel (threaded NAPI) on the CPU of the
//! receiver, or, where a device has no NAPI, are steered to that CPU (RPS). What CPU 0 does is then the middle's, all
//! of it and nothing else; client and servers share CPU 1.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::{Duration, Instant};

use aya::Ebpf;
use lab::{LinkConfig, Mac, Namespace, veth};

use super::server::Server;
use crate::text;
use crate::xdp::line;

/// The CPU that is charged.
pub const MIDDLE_CPU: usize = 0;
/// The other one.
pub const HOSTS_CPU: usize = 1;
/// The middle's devices.
pub const CLIENTS: &str = "mrc";
pub const SERVERS: &str = "mrs";
/// Addresses: of the client; of the service, which a middle that is a host or a router has towards the client; of it
/// towards the servers; of the servers.
pub const CLIENT: &str = "10.0.1.11";
pub const VIRTUAL: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 0, 1, 80), 80);
pub const TOWARDS_SERVERS: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 254);
/// Ethernet addresses of a router in the middle, towards client and servers, and of these.
pub const ROUTER_MACS: [Mac; 2] = [[2, 0, 0, 0, 1, 0x80], [2, 0, 0, 0, 2, 0xfe]];
pub const HOST_MACS: [Mac; 2] = [[2, 0, 0, 0, 1, 0x11], [2, 0, 0, 0, 2, 0x11]];
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
    /// The same, in one link between client and servers.
    TcWire,
    /// The same for a router that answers no ARP.
    TcRouter,
}

impl Middle {
    /// Whether packets come in as the kernel has them, with no XDP program at the devices.
    fn takes_socket_buffers(self) -> bool {
        matches!(self, Middle::Host | Middle::TcPorts | Middle::TcWire | Middle::TcRouter)
    }
}

/// All of it.
pub struct Network {
    // Dropped first: it has the sockets.
    pub server: Server,
    pub client: Namespace,
    pub middle: Namespace,
    _servers: Namespace,
    _ends: Option<Ebpf>,
    links: Links,
}

impl Network {
    /// With running servers.
    pub fn new(middle: Middle, links: Links) -> Result<Self, String> {
        let namespace = |label| Namespace::new(label).map_err(text);
        let (client, between, servers) = (namespace("client")?, namespace("middle")?, namespace("servers")?);
        let config = |config: LinkConfig| if links == Links::Offloads { config.keep_offloads() } else { config };
        let host = |addresses: &[&str]| {
            addresses.iter().fold(config(LinkConfig::host()), |config, address| config.address(*address))
        };
        if middle == Middle::Nothing {
            veth(&client, "eth0", &servers, "eth0").map_err(text)?;
            client.configure("eth0", &host(&["10.0.2.10/24"])).map_err(text)?;
        } else {
            veth(&client, "eth0", &between, CLIENTS).map_err(text)?;
            veth(&servers, "eth0", &between, SERVERS).map_err(text)?;
            let own = match middle {
                Middle::Host => [host(&[&format!("{}/24", VIRTUAL.ip())]), host(&[&format!("{TOWARDS_SERVERS}/24")])],
                _ => [(); 2].map(|()| config(LinkConfig::port())),
            };
            for (device, config) in [CLIENTS, SERVERS].iter().zip(&own) {
                between.configure(device, config).map_err(text)?;
            }
            client.configure("eth0", &host(&[&format!("{CLIENT}/24")]).mac(HOST_MACS[0])).map_err(text)?;
        }
        servers.configure("eth0", &host(&["10.0.2.11/24", "10.0.2.12/24"]).mac(HOST_MACS[1])).map_err(text)?;
        if middle == Middle::Host {
            between.set_sysctl("net.ipv4.ip_forward", "1").map_err(text)?;
        }
        let routers = [*VIRTUAL.ip(), TOWARDS_SERVERS].map(|address| address.to_string());
        for (number, (end, others)) in [(&client, "10.0.2.0/24"), (&servers, "10.0.1.0/24")].into_iter().enumerate() {
            let router = &routers[number];
            match middle {
                Middle::Host => end.route(others, router).map_err(text)?,
                Middle::TcWire => {
                    end.check(&["ip", "route", "add", others, "dev", "eth0"]).map_err(text)?;
                }
                Middle::TcRouter => {
                    end.neighbour("eth0", router, ROUTER_MACS[number]).map_err(text)?;
                    end.route(others, router).map_err(text)?;
                }
                Middle::Nothing | Middle::Ports | Middle::TcPorts => {}
            }
        }
        for end in [&client, &between, &servers] {
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
        let network = Network { server, client, middle: between, _servers: servers, _ends: ends, links };
        network.steer(&network.client, "eth0", HOSTS_CPU)?;
        network.steer(&network._servers, "eth0", HOSTS_CPU)?;
        if middle.takes_socket_buffers() {
            for device in [CLIENTS, SERVERS] {
                network.spread(&network.middle, device, MIDDLE_CPU)?;
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

    /// The same for the middle's devices when an XDP program is there: the threads.
    pub fn ports_are_threaded(&self) -> Result<Vec<i32>, String> {
        let threads = [CLIENTS, SERVERS].iter().map(|device| threaded(&self.middle, device, MIDDLE_CPU));
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
