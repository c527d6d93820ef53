//! A host: a namespace with one link into a switch namespace.

use crate::emulator::{Emulator, Impairments, Wire};
use crate::error::Result;
use crate::link::{LinkConfig, Mac, veth};
use crate::namespace::Namespace;

/// What a host is to be.
#[derive(Clone, Copy, Debug)]
pub struct HostConfig<'a> {
    /// Its name, such as `h1`.
    pub name: &'a str,
    /// Its Ethernet address.
    pub mac: Mac,
    /// Its IPv4 address, such as `10.0.1.11`.
    pub address: &'a str,
    /// Its prefix length in bits.
    pub prefix: u8,
    /// Its default gateway's address.
    pub gateway: &'a str,
    /// Longest network-layer packet on its link, in bytes.
    pub mtu: u32,
}

/// From which the line of [`Host::attach_by`] draws its decisions.
const LINE_SEED: u64 = 1;

/// A host with one device, [`Host::DEVICE`], linked to a port of a switch namespace.
#[derive(Debug)]
pub struct Host {
    /// Its namespace: run programs and open sockets there.
    pub ns: Namespace,
    /// Its name, such as `h1`.
    pub name: String,
    /// Its Ethernet address.
    pub mac: Mac,
    /// Its IPv4 address without the prefix length.
    pub address: String,
    /// The device at the other end of its link, in the switch namespace.
    pub port: String,
}

impl Host {
    /// The name of every host's device.
    pub const DEVICE: &str = "eth0";

    /// Makes a host and links it to a new device `port` of the `switch` namespace, which is set up as
    /// [`LinkConfig::port`]. Offloads and IPv6 are off at both ends.
    pub fn attach(switch: &Namespace, port: &str, config: HostConfig<'_>) -> Result<Self> {
        let ns = Namespace::new(config.name)?;
        veth(&ns, Host::DEVICE, switch, port)?;
        Host::set_up(ns, switch, port, config)
    }

    /// As [`Host::attach`], with a link that does `line` to packets both ways.
    pub fn attach_by(
        line: Impairments,
        switch: &Namespace,
        port: &str,
        config: HostConfig<'_>,
    ) -> Result<(Self, Emulator)> {
        let ns = Namespace::new(config.name)?;
        let wire = Wire { mtu: config.mtu, ..Wire::new((&ns, Host::DEVICE), (switch, port), line) };
        let emulator = Emulator::start(&[wire], LINE_SEED)?;
        let host = Host::set_up(ns, switch, port, config)?;
        emulator.wait_running()?;
        Ok((host, emulator))
    }

    fn set_up(ns: Namespace, switch: &Namespace, port: &str, config: HostConfig<'_>) -> Result<Self> {
        switch.configure(port, &LinkConfig::port().mtu(config.mtu))?;
        let address = format!("{}/{}", config.address, config.prefix);
        ns.configure(Host::DEVICE, &LinkConfig::host().mac(config.mac).mtu(config.mtu).address(address))?;
        ns.default_route(config.gateway)?;
        Ok(Host {
            ns,
            name: config.name.to_owned(),
            mac: config.mac,
            address: config.address.to_owned(),
            port: port.to_owned(),
        })
    }
}
