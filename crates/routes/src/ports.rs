//! Which port the kernel's interfaces are.

use std::collections::HashMap;

use dataplane::controller::PortInfo;

use crate::kernel::event::Link;
use crate::kernel::state::Kernel;
use crate::settings::Settings;

/// Ports by interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortMap(HashMap<u32, u8>);

impl PortMap {
    /// As things are now. Ports that were found `before` stay at their interfaces, also where these have other names
    /// now.
    pub fn new(kernel: &Kernel, ports: &[PortInfo], settings: &Settings, before: &PortMap) -> PortMap {
        let mut map = HashMap::new();
        let is_host = |number: u8| ports.iter().any(|port| port.host == Some(number));
        for port in ports.iter().filter(|port| !is_host(port.number) || settings.interfaces.contains_key(&port.number))
        {
            let known =
                before.0.iter().find(|(interface, own)| **own == port.number && kernel.links.contains_key(interface));
            let found = known.map(|(interface, _)| *interface).or_else(|| interface(kernel, ports, settings, port));
            map.extend(found.map(|interface| (interface, port.number)));
        }
        PortMap(map)
    }

    /// The port that an interface is.
    pub fn port(&self, interface: u32) -> Option<u8> {
        self.0.get(&interface).copied()
    }

    /// The interface of a port.
    pub fn interface(&self, port: u8) -> Option<u32> {
        self.0.iter().find(|(_, own)| **own == port).map(|(interface, _)| *interface)
    }
}

/// The interface by which the kernel knows what is behind a port: what the settings say; that which packets for the
/// host come out of; its own.
fn interface(kernel: &Kernel, ports: &[PortInfo], settings: &Settings, port: &PortInfo) -> Option<u32> {
    let named = |name: &str| -> Option<(u32, &Link)> {
        kernel.links.iter().find(|(_, link)| link.name == name).map(|(index, link)| (*index, link))
    };
    if let Some(name) = settings.interfaces.get(&port.number) {
        return named(name).map(|(index, _)| index);
    }
    let host = port.host.and_then(|number| ports.iter().find(|host| host.number == number));
    match host {
        Some(host) => {
            let (index, link) = named(host.interface.as_deref()?)?;
            if host.is_tap { Some(index) } else { link.peer }
        }
        None => named(port.interface.as_deref()?).map(|(index, _)| index),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::event::{Event, TABLE_MAIN};

    fn port(number: u8, interface: &str, host: Option<u8>, is_tap: bool) -> PortInfo {
        let (name, interface) = (format!("p{number}"), Some(interface.into()));
        PortInfo { number, name, interface, is_tap, in_kernel: false, host }
    }

    fn kernel(links: &[(u32, &str, Option<u32>)]) -> Kernel {
        let mut kernel = Kernel::new(TABLE_MAIN);
        for (index, name, peer) in links {
            let name = (*name).to_owned();
            let link = Link { name, mac: None, mtu: 1500, is_up: true, has_carrier: true, peer: *peer };
            kernel.apply(Event::Link(*index, link), &mut Default::default());
        }
        kernel
    }

    #[test]
    fn the_kernel_knows_a_port_by_the_interface_behind_its_host_port() {
        let all =
            kernel(&[(2, "eth1", None), (3, "eth2", None), (4, "svip", Some(5)), (5, "svi", Some(4)), (6, "t", None)]);
        let ports = [
            port(1, "eth1", None, false),
            port(2, "eth2", Some(3), false),
            port(3, "svip", None, false),
            port(9, "t", None, true),
        ];
        let map = PortMap::new(&all, &ports, &Settings::default(), &PortMap::default());
        assert_eq!([2, 3, 4, 5, 6].map(|index| map.port(index)), [Some(1), None, None, Some(2), Some(9)]);
        let settings = Settings { interfaces: [(1, "eth2".to_owned())].into(), ..Settings::default() };
        let map = PortMap::new(&all, &ports, &settings, &PortMap::default());
        assert_eq!((map.port(2), map.port(3), map.interface(1)), (None, Some(1), Some(3)));
    }

    #[test]
    fn a_port_stays_at_its_interface_until_that_is_gone() {
        let ports = [port(1, "eth1", None, false)];
        let settings = Settings::default();
        let map = PortMap::new(&kernel(&[(2, "eth1", None)]), &ports, &settings, &PortMap::default());
        let renamed = PortMap::new(&kernel(&[(2, "old", None), (3, "eth1", None)]), &ports, &settings, &map);
        assert_eq!(renamed.port(2), Some(1));
        let moved = PortMap::new(&kernel(&[(3, "eth1", None)]), &ports, &settings, &renamed);
        assert_eq!((moved.port(2), moved.port(3)), (None, Some(1)));
    }
}
