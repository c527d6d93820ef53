//! The network of the L3 switch's demo and tests.

use std::time::Duration;

use crate::emulator::{Emulator, Impairments};
use crate::error::Result;
use crate::host::{Host, HostConfig};
use crate::link::{LinkConfig, Mac, veth};
use crate::namespace::Namespace;

/// Four hosts on two subnets around one switch namespace, where Millrace runs.
///
/// ```text
///  h1 10.0.1.11 ── p1 ┐                        ┌ p3 ── h3 10.0.2.13
///  h2 10.0.1.12 ── p2 ┤        Millrace        ├ p4 ── h4 10.0.2.14
///                     └ svi1p             svi2p┘
///                         │    the kernel   │
///           10.0.1.1/24 svi1              svi2 10.0.2.1/24
/// ```
///
/// Millrace opens [`L3Switch::PORTS`]. svi1 and svi2 (switch virtual interfaces) are the kernel's own ends of the two
/// subnets, so the kernel's stack answers ARP and ICMP there and its routes and neighbours are the switch's. The kernel
/// does not forward, and on the ports themselves it answers nothing: what gets across, Millrace carried. IPv6 and
/// offloads are off everywhere.
#[derive(Debug)]
pub struct L3Switch {
    /// The namespace with the ports and with the kernel's gateway addresses.
    pub switch: Namespace,
    /// h1 to h4, with Ethernet addresses 02:00:00:00:00:11 to 02:00:00:00:00:14.
    pub hosts: [Host; 4],
    /// The line to h3, where it has one.
    pub line: Option<Emulator>,
}

/// How the L3 switch's network differs from the plain one.
#[derive(Clone, Debug)]
pub struct L3Options {
    /// MTU of all devices, in bytes.
    pub mtu: u32,
    /// What happens to packets between h3 and p3, both ways.
    pub line: Impairments,
}

impl Default for L3Options {
    fn default() -> Self {
        L3Options { mtu: 1500, line: Impairments::default() }
    }
}

impl L3Switch {
    /// The devices that Millrace opens, in the order of its port numbers.
    pub const PORTS: [&str; 6] = ["p1", "p2", "p3", "p4", "svi1p", "svi2p"];
    /// The gateways: device, Ethernet address, IPv4 address; both have prefix length 24.
    pub const GATEWAYS: [(&str, Mac, &str); 2] =
        [("svi1", [2, 0, 0, 0, 1, 1], "10.0.1.1"), ("svi2", [2, 0, 0, 0, 2, 1], "10.0.2.1")];

    /// Builds the network and waits until all its links carry frames.
    pub fn new() -> Result<Self> {
        L3Switch::with(&L3Options::default())
    }

    /// As [`L3Switch::new`], different in this.
    pub fn with(options: &L3Options) -> Result<Self> {
        let &L3Options { mtu, ref line } = options;
        let switch = Namespace::new("switch")?;
        // A new namespace takes over the first namespace's IPv4 settings (ip-sysctl: devconf_inherit_init_net = 0).
        switch.set_sysctl("net.ipv4.ip_forward", "0")?;
        switch.set_sysctl("net.ipv4.conf.all.rp_filter", "0")?;
        switch.set_sysctl("net.ipv4.conf.default.rp_filter", "0")?;
        for (device, mac, address) in Self::GATEWAYS {
            let port = format!("{device}p");
            veth(&switch, device, &switch, &port)?;
            switch.configure(&port, &LinkConfig::port().mtu(mtu))?;
            switch.configure(device, &LinkConfig::host().mac(mac).mtu(mtu).address(format!("{address}/24")))?;
        }
        let mut emulator = None;
        let mut host = |number: u8| {
            let subnet = if number <= 2 { 1 } else { 2 };
            let config = HostConfig {
                name: &format!("h{number}"),
                mac: [2, 0, 0, 0, 0, 0x10 + number],
                address: &format!("10.0.{subnet}.{}", 10 + number),
                prefix: 24,
                gateway: &format!("10.0.{subnet}.1"),
                mtu,
            };
            let port = format!("p{number}");
            if number != 3 || line.is_none() {
                return Host::attach(&switch, &port, config);
            }
            let (host, line) = Host::attach_by(line.clone(), &switch, &port, config)?;
            emulator = Some(line);
            Ok(host)
        };
        let hosts = [host(1)?, host(2)?, host(3)?, host(4)?];
        let limit = Duration::from_secs(5);
        for device in Self::PORTS.into_iter().chain(Self::GATEWAYS.map(|(device, ..)| device)) {
            switch.wait_running(device, limit)?;
        }
        for host in &hosts {
            host.ns.wait_running(Host::DEVICE, limit)?;
        }
        Ok(L3Switch { switch, hosts, line: emulator })
    }

    /// A host by its number, 1 to 4.
    ///
    /// # Panics
    /// On any other number.
    pub fn host(&self, number: usize) -> &Host {
        &self.hosts[number - 1]
    }
}
