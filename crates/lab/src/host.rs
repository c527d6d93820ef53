//! A host: a namespace with one link into a switch namespace.

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
}

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
        switch.configure(port, &LinkConfig::port())?;
        let address = format!("{}/{}", config.address, config.prefix);
        ns.configure(Host::DEVICE, &LinkConfig::host().mac(config.mac).address(address))?;
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
