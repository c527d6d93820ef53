//! A source of streams, a host that forwards them, and receivers; and one link from the source to the receivers.
//!
//! ```text
//! servers 10.0.2.11 eth0 ── servers 10.0.2.1 | proxy | 10.0.1.1 viewers ── eth0 10.0.1.11 viewers
//!                   eth1 10.0.3.1 ────────────────────────────────────── eth1 10.0.3.11
//! ```
//!
//! A veth device does the receiver's work on the sender's CPU, so what the whole machine is busy is charged, the ends'
//! work to all systems alike. Where times are measured, source and receivers are on one CPU, the host's user space on
//! the other; where costs are, all are on one, by turns.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use lab::{LinkConfig, Mac, Namespace, veth};

use crate::stream::sinks::Sinks;
use crate::text;

/// The CPU of the host's user space, and that of source and receivers.
pub const HOST_CPU: usize = 0;
pub const ENDS_CPU: usize = 1;
/// At the receivers' ends.
const SINK: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/media-sink.bpf.o"));
/// The source, the host at the source's side, the receivers.
pub const SOURCE: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 11);
pub const HOST: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 1);
pub const RECEIVER: Ipv4Addr = Ipv4Addr::new(10, 0, 1, 11);
/// The receivers at the link from the source.
pub const DIRECT: Ipv4Addr = Ipv4Addr::new(10, 0, 3, 11);
/// RTSP at the origin, and at the proxy.
pub const ORIGIN: &str = "10.0.2.11:8554";
pub const PROXY: ([u8; 4], u16) = ([10, 0, 1, 1], 8554);
/// Until a device runs.
const PATIENCE: Duration = Duration::from_secs(20);

/// All of it.
pub struct Network {
    pub servers: Namespace,
    pub proxy: Namespace,
    pub viewers: Namespace,
}

impl Network {
    /// The links, and what the kernel must know to forward.
    pub fn new() -> Result<Network, String> {
        let namespace = |label| Namespace::new(label).map_err(text);
        let (servers, proxy, viewers) = (namespace("servers")?, namespace("proxy")?, namespace("viewers")?);
        for (net, host, port) in [(1, &viewers, "viewers"), (2, &servers, "servers")] {
            veth(host, "eth0", &proxy, port).map_err(text)?;
            let config = |last: u32| LinkConfig::host().address(format!("10.0.{net}.{last}/24"));
            proxy.configure(port, &config(1)).map_err(text)?;
            host.configure("eth0", &config(11)).map_err(text)?;
            // Without it a veth device takes no packets from the kernel's fast path.
            host.check(&["ethtool", "-K", "eth0", "gro", "on"]).map_err(text)?;
        }
        veth(&servers, "eth1", &viewers, "eth1").map_err(text)?;
        servers.configure("eth1", &LinkConfig::host().address("10.0.3.1/24")).map_err(text)?;
        viewers.configure("eth1", &LinkConfig::host().address("10.0.3.11/24")).map_err(text)?;
        servers.route("10.0.1.0/24", &HOST.to_string()).map_err(text)?;
        viewers.route("10.0.2.0/24", "10.0.1.1").map_err(text)?;
        proxy.set_sysctl("net.ipv4.ip_forward", "1").map_err(text)?;
        for (host, device) in [(&proxy, "viewers"), (&proxy, "servers"), (&viewers, "eth0"), (&servers, "eth0")] {
            host.wait_running(device, PATIENCE).map_err(text)?;
        }
        Ok(Network { servers, proxy, viewers })
    }

    /// Lets streams end where they reach the receivers, and be counted there, as long as it is there.
    pub fn sinks(&self) -> Result<Sinks, String> {
        Sinks::attach(SINK, &self.viewers, &["eth0".into(), "eth1".into()])
    }

    /// The Ethernet addresses of a link's two ends: where the source sends to, and its own.
    pub fn link(&self, is_direct: bool) -> Result<[Mac; 2], String> {
        let mac = |host: &Namespace, device: &str| Ok::<_, String>(host.device(device).map_err(text)?.mac);
        Ok(match is_direct {
            true => [mac(&self.viewers, "eth1")?, mac(&self.servers, "eth1")?],
            false => [mac(&self.proxy, "servers")?, mac(&self.servers, "eth0")?],
        })
    }
}

/// Where RTSP of the proxy is.
pub fn proxy() -> SocketAddr {
    SocketAddr::from(PROXY)
}
