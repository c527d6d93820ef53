//! Links between namespaces, and what `ip`, `ethtool` and /proc/sys set on their devices.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::ifaddrs::getifaddrs;
use nix::net::if_::InterfaceFlags;

use crate::error::{Error, Result};
use crate::namespace::Namespace;

/// How long the kernel may take to free the name of a link whose other end has gone.
const FREED: Duration = Duration::from_secs(5);

/// An Ethernet address, first byte on the wire first.
pub type Mac = [u8; 6];

/// An Ethernet address as text: `02:00:00:00:00:11`.
pub fn mac_text(mac: Mac) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}

/// A network device as the kernel lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Its name.
    pub name: String,
    /// Its index, unique within its namespace.
    pub index: usize,
    /// Its Ethernet address; zeros for loopback.
    pub mac: Mac,
    /// Whether it is up and can carry frames: the other end of its link is up too.
    pub running: bool,
}

/// How a device is set up. Offloads and IPv6 are off unless asked for, and the device is brought up.
///
/// Offloads are off because a veth device leaves checksums and segmentation to hardware that does not exist: XDP, and a
/// plain packet socket, would see frames with no checksum and up to 64 KiB long.
#[derive(Clone, Debug)]
pub struct LinkConfig {
    mac: Option<Mac>,
    mtu: Option<u32>,
    addresses: Vec<String>,
    arp: bool,
    ipv6: bool,
    offloads: bool,
}

impl LinkConfig {
    /// A device that the kernel uses: it answers ARP.
    pub fn host() -> Self {
        LinkConfig { mac: None, mtu: None, addresses: Vec::new(), arp: true, ipv6: false, offloads: false }
    }

    /// A device that only Millrace uses: the kernel answers nothing there, not even ARP.
    pub fn port() -> Self {
        LinkConfig { arp: false, ..LinkConfig::host() }
    }

    /// Sets the Ethernet address; otherwise the kernel's random one stays.
    pub fn mac(mut self, mac: Mac) -> Self {
        self.mac = Some(mac);
        self
    }

    /// Sets the MTU: the longest network-layer packet in bytes, Ethernet header not counted; 1500 otherwise.
    pub fn mtu(mut self, bytes: u32) -> Self {
        self.mtu = Some(bytes);
        self
    }

    /// Adds an address with its prefix length, such as `10.0.1.11/24`; for an IPv6 address see [`LinkConfig::ipv6`].
    pub fn address(mut self, address: impl Into<String>) -> Self {
        self.addresses.push(address.into());
        self
    }

    /// Turns IPv6 on or off.
    pub fn ipv6(mut self, on: bool) -> Self {
        self.ipv6 = on;
        self
    }

    /// Leaves the kernel's offloads on.
    pub fn keep_offloads(mut self) -> Self {
        self.offloads = true;
        self
    }
}

/// Links two namespaces with a veth pair: device `name_a` in `a` and `name_b` in `b`, both down.
///
/// `a` and `b` may be the same namespace. A device ends with its namespace and takes the other end with it, a moment
/// later: a name that such an end still has is waited for.
pub fn veth(a: &Namespace, name_a: &str, b: &Namespace, name_b: &str) -> Result<()> {
    // Each end gets an index of its own: between ends with the same index the kernel takes up to a second to notice
    // that the link is up (linkwatch_urgent_event in net/core/link_watch.c looks at the two indexes).
    static NEXT_INDEX: AtomicU32 = AtomicU32::new(1001);
    let index = NEXT_INDEX.fetch_add(1, Ordering::Relaxed).to_string();
    let there = b.ip_handle();
    let words =
        ["ip", "link", "add", "name", name_a, "index", &index, "type", "veth", "peer", "name", name_b, "netns", &there];
    let begin = Instant::now();
    loop {
        match a.check(&words) {
            Err(error) if error.to_string().contains("File exists") && begin.elapsed() < FREED => {
                thread::sleep(FREED / 100)
            }
            other => return other.map(drop),
        }
    }
}

impl Namespace {
    /// Sets a device up as `config` says and brings it up.
    pub fn configure(&self, device: &str, config: &LinkConfig) -> Result<()> {
        self.set_ipv6(device, config.ipv6)?;
        if !config.offloads {
            self.offloads_off(device)?;
        }
        let mut words = ["ip", "link", "set", "dev", device].map(str::to_owned).to_vec();
        if let Some(mac) = config.mac {
            words.extend(["address".to_owned(), mac_text(mac)]);
        }
        if let Some(mtu) = config.mtu {
            words.extend(["mtu".to_owned(), mtu.to_string()]);
        }
        words.extend(["arp", if config.arp { "on" } else { "off" }, "up"].map(str::to_owned));
        self.check(&words.iter().map(String::as_str).collect::<Vec<_>>())?;
        for address in &config.addresses {
            let mut words = vec!["ip", "address", "add", address.as_str(), "dev", device];
            if address.contains(':') {
                // Duplicate address detection would hold the address back for a second or two.
                words.push("nodad");
            }
            self.check(&words)?;
        }
        Ok(())
    }

    /// Turns checksum, segmentation, aggregation and VLAN offloads off.
    pub fn offloads_off(&self, device: &str) -> Result<()> {
        let mut words = vec!["ethtool", "-K", device];
        for feature in ["rx", "tx", "sg", "tso", "gso", "gro", "rxvlan", "txvlan"] {
            words.extend([feature, "off"]);
        }
        self.check(&words)?;
        Ok(())
    }

    /// Takes a device down.
    pub fn down(&self, device: &str) -> Result<()> {
        self.check(&["ip", "link", "set", "dev", device, "down"])?;
        Ok(())
    }

    /// Sets the default route, IPv4 or IPv6 as the gateway's address is.
    pub fn default_route(&self, gateway: &str) -> Result<()> {
        self.route("default", gateway)
    }

    /// Sets the route to a prefix such as `10.0.2.0/24` through a gateway.
    pub fn route(&self, prefix: &str, gateway: &str) -> Result<()> {
        let family = if gateway.contains(':') { "-6" } else { "-4" };
        self.check(&["ip", family, "route", "replace", prefix, "via", gateway])?;
        Ok(())
    }

    /// Sets a permanent neighbour entry: `address` is at `mac` on `device`.
    pub fn neighbour(&self, device: &str, address: &str, mac: Mac) -> Result<()> {
        let mac = mac_text(mac);
        self.check(&["ip", "neighbour", "replace", address, "lladdr", &mac, "dev", device, "nud", "permanent"])?;
        Ok(())
    }

    /// Reads a kernel parameter of this namespace, such as `net.ipv4.ip_forward`.
    pub fn sysctl(&self, key: &str) -> Result<String> {
        let path = sysctl_path(key)?;
        self.enter(|| fs::read_to_string(&path))?
            .map(|text| text.trim_end().to_owned())
            .map_err(|e| Error::system(format!("cannot read {key} in namespace {}", self.name()), e))
    }

    /// Writes a kernel parameter of this namespace. A name that itself holds dots is written with slashes:
    /// `net/ipv4/conf/eth0.5/forwarding`.
    pub fn set_sysctl(&self, key: &str, value: &str) -> Result<()> {
        let path = sysctl_path(key)?;
        self.enter(|| fs::write(&path, value))?
            .map_err(|e| Error::system(format!("cannot set {key} = {value} in namespace {}", self.name()), e))
    }

    /// The namespace's devices in the order of their indexes.
    pub fn devices(&self) -> Result<Vec<Device>> {
        let entries = self
            .enter(|| getifaddrs().map(Iterator::collect::<Vec<_>>))?
            .map_err(|e| Error::system(format!("cannot list the devices of namespace {}", self.name()), e))?;
        let mut devices: Vec<Device> = entries
            .into_iter()
            .filter_map(|entry| {
                // Each device has one entry of family AF_PACKET, and more for its addresses.
                let link = *entry.address?.as_link_addr()?;
                Some(Device {
                    name: entry.interface_name,
                    index: link.ifindex(),
                    mac: link.addr()?,
                    running: entry.flags.contains(InterfaceFlags::IFF_UP | InterfaceFlags::IFF_RUNNING),
                })
            })
            .collect();
        devices.sort_by_key(|device| device.index);
        Ok(devices)
    }

    /// One device by its name.
    pub fn device(&self, name: &str) -> Result<Device> {
        self.devices()?.into_iter().find(|device| device.name == name).ok_or_else(|| {
            Error::system(format!("no device {name} in namespace {}", self.name()), io::Error::from(Errno::ENODEV))
        })
    }

    /// Waits until a device can carry frames: the kernel says so some milliseconds after both its ends were set up.
    pub fn wait_running(&self, device: &str, limit: Duration) -> Result<()> {
        let start = Instant::now();
        while !self.device(device)?.running {
            if start.elapsed() >= limit {
                let what = format!("device {device} in namespace {} is not running after {limit:?}", self.name());
                return Err(Error::system(what, Errno::ENETDOWN));
            }
            thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    fn set_ipv6(&self, device: &str, on: bool) -> Result<()> {
        let key = format!("net/ipv6/conf/{device}/disable_ipv6");
        // A kernel without IPv6 has no such parameter, and then it is off already.
        if !on && !fs::exists("/proc/sys/net/ipv6").unwrap_or(true) {
            return Ok(());
        }
        self.set_sysctl(&key, if on { "0" } else { "1" })
    }
}

/// The file of a kernel parameter. Dots separate its parts, or slashes if there are any (sysctl(8)).
fn sysctl_path(key: &str) -> Result<PathBuf> {
    let parts: Vec<&str> = key.split(if key.contains('/') { '/' } else { '.' }).collect();
    if parts.iter().any(|part| matches!(*part, "" | "." | "..")) {
        return Err(Error::Invalid(format!("not the name of a kernel parameter: {key:?}")));
    }
    Ok(PathBuf::from("/proc/sys").join(parts.join("/")))
}

#[cfg(test)]
mod tests {
    use super::{mac_text, sysctl_path};

    #[test]
    fn sysctl_names_become_paths() {
        let path = |key| sysctl_path(key).unwrap().into_os_string().into_string().unwrap();
        assert_eq!(path("net.ipv4.ip_forward"), "/proc/sys/net/ipv4/ip_forward");
        assert_eq!(path("net/ipv4/conf/eth0.5/forwarding"), "/proc/sys/net/ipv4/conf/eth0.5/forwarding");
        for bad in ["", "net..x", "net/../../etc/passwd", "/etc/passwd"] {
            assert!(sysctl_path(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn mac_is_written_in_hex() {
        assert_eq!(mac_text([2, 0, 0, 0, 0xab, 0x11]), "02:00:00:00:ab:11");
    }
}
