//! What the kernel knows of a port's interface.

use std::collections::HashMap;

use dataplane::{LinkMode, PortSnapshot, link_mode};
use nix::ifaddrs::getifaddrs;
use nix::net::if_::{InterfaceFlags, if_nametoindex};

/// By which number collectors know a port: its interface's index, or the port's number where it has none, such as a
/// capture file.
pub fn index(port: &PortSnapshot) -> u32 {
    if_nametoindex(name(port)).unwrap_or(port.number.into())
}

/// The name of a port's interface.
fn name(port: &PortSnapshot) -> &str {
    port.device.split_once(':').map_or(&*port.device, |(_, device)| device)
}

/// All interfaces' states, by name.
pub struct Links(HashMap<String, [bool; 2]>);

impl Links {
    /// As they are now.
    pub fn now() -> Links {
        let flags =
            |own: InterfaceFlags| [own.contains(InterfaceFlags::IFF_UP), own.contains(InterfaceFlags::IFF_RUNNING)];
        let all = getifaddrs().into_iter().flatten();
        Links(all.map(|own| (own.interface_name, flags(own.flags))).collect())
    }

    /// That of a port: whether it is to be up, and is up. One without an interface is up as long as nothing is wrong
    /// there.
    pub fn of(&self, port: &PortSnapshot) -> [bool; 2] {
        self.0.get(name(port)).copied().unwrap_or([true, port.error.is_none()])
    }
}

/// How fast a port's interface is, as far as that is known.
pub fn mode(port: &PortSnapshot) -> LinkMode {
    link_mode(name(port)).unwrap_or_default()
}
