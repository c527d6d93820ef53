//! Port specifications: `NAME=DRIVER:DEVICE`, as on the command line.

use std::fmt;
use std::path::PathBuf;

use codegen::kernel::Hook;

use super::mem::MemPort;

/// Drivers and what their device is, for messages and help.
pub const DRIVERS: [(&str, &str); 8] = [
    (
        "auto",
        "INTERFACE: a network interface through the best of xdp, tc, afxdp and afpacket that works, such as auto:eth0",
    ),
    ("xdp", "INTERFACE: a network interface whose packets the kernel processes as far as it can, such as xdp:eth0"),
    (
        "tc",
        "INTERFACE: the same behind the driver, at traffic control's ingress: hosts keep their offloads, such as tc:veth0",
    ),
    ("afpacket", "INTERFACE: a network interface through AF_PACKET, such as afpacket:eth0"),
    ("afxdp", "INTERFACE: a network interface through AF_XDP, without the kernel's stack, such as afxdp:eth0"),
    ("tap", "DEVICE: a TAP device, created if it is missing: an interface of the kernel, such as tap:svi1"),
    ("pcap", "[INPUT][,OUTPUT]: capture files to receive from and send to, such as pcap:in.pcap,out.pcap"),
    ("mem", "nothing: receives no packet and counts those that it sends"),
];

/// A driver with its device.
#[derive(Clone, Debug)]
pub enum Driver {
    /// A network interface through the first that works of those below.
    Auto {
        /// Its name in the current network namespace.
        interface: String,
    },
    /// A network interface with the fast path in the kernel, and AF_XDP for what that hands over.
    Xdp {
        /// Its name in the current network namespace.
        interface: String,
    },
    /// A network interface with the fast path at traffic control's ingress, and packet sockets for what workers send.
    Tc {
        /// Its name in the current network namespace.
        interface: String,
    },
    /// A network interface through AF_PACKET.
    AfPacket {
        /// Its name in the current network namespace.
        interface: String,
    },
    /// A network interface through AF_XDP.
    AfXdp {
        /// Its name in the current network namespace.
        interface: String,
    },
    /// A TAP device.
    Tap {
        /// Its name in the current network namespace.
        device: String,
    },
    /// Capture files.
    Pcap {
        /// To receive from.
        input: Option<PathBuf>,
        /// To send to; created or overwritten.
        output: Option<PathBuf>,
    },
    /// A generator and sink in memory.
    Mem(MemPort),
}

impl Driver {
    /// Where in the kernel a part of the program runs at such ports, if it is told.
    pub fn hook(&self) -> Option<Hook> {
        match self {
            Driver::Xdp { .. } => Some(Hook::Xdp),
            Driver::Tc { .. } => Some(Hook::Tc),
            _ => None,
        }
    }

    /// The network interface behind it, where there is one.
    pub fn interface(&self) -> Option<&str> {
        match self {
            Driver::Auto { interface }
            | Driver::Xdp { interface }
            | Driver::Tc { interface }
            | Driver::AfPacket { interface }
            | Driver::AfXdp { interface }
            | Driver::Tap { device: interface } => Some(interface),
            Driver::Pcap { .. } | Driver::Mem(_) => None,
        }
    }
}

/// `DRIVER:DEVICE`, as in a specification.
impl fmt::Display for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Driver::Auto { interface } => write!(f, "auto:{interface}"),
            Driver::Xdp { interface } => write!(f, "xdp:{interface}"),
            Driver::Tc { interface } => write!(f, "tc:{interface}"),
            Driver::AfPacket { interface } => write!(f, "afpacket:{interface}"),
            Driver::AfXdp { interface } => write!(f, "afxdp:{interface}"),
            Driver::Tap { device } => write!(f, "tap:{device}"),
            Driver::Pcap { input, output } => {
                let path = |path: &Option<PathBuf>| path.as_ref().map_or(String::new(), |p| p.display().to_string());
                let comma = if output.is_some() { "," } else { "" };
                write!(f, "pcap:{}{comma}{}", path(input), path(output))
            }
            Driver::Mem(_) => f.write_str("mem:"),
        }
    }
}

/// The receiver of the packets for an interface's own addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OwnAddresses {
    /// The program, as all others.
    #[default]
    Program,
    /// The kernel's own stack, before anything else is done with them.
    Kernel,
}

/// Whether packets of a flow of TCP or UDP leave in super-packets, which the kernel or the device divides (GSO).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Gso {
    /// Where packets come out at the interface's other end.
    #[default]
    Auto,
    /// Also where super-packets may come out, which a kernel takes as well.
    On,
    /// They don't.
    Off,
}

/// A named port.
#[derive(Clone, Debug)]
pub struct PortSpec {
    /// Its name.
    pub name: String,
    /// What is behind it.
    pub driver: Driver,
}

/// Not a port specification. One line that says what is accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("port `{spec}`: {problem}")]
pub struct SpecError {
    /// What was given.
    pub spec: String,
    /// What is wrong with it, and what is accepted.
    pub problem: String,
}

impl std::str::FromStr for PortSpec {
    type Err = SpecError;

    fn from_str(spec: &str) -> Result<Self, SpecError> {
        let error = |problem: String| SpecError { spec: spec.to_owned(), problem };
        let accepted = || DRIVERS.map(|(name, _)| name).join(", ");
        let tier = || format!("use NAME=DRIVER:DEVICE with one of the drivers {}", accepted());
        let (name, rest) = spec.split_once('=').ok_or_else(|| error(tier()))?;
        let valid = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        if name.is_empty() || !name.chars().all(valid) {
            return Err(error("the name has letters, digits, `_`, `-` and `.` only, and at least one".into()));
        }
        let (driver, device) = rest.split_once(':').ok_or_else(|| error(tier()))?;
        let needs = |what: &str| error(format!("{driver} needs {what}"));
        let driver = match driver {
            "auto" | "xdp" | "tc" | "afpacket" | "afxdp" if device.is_empty() => {
                return Err(needs(&format!("an interface, such as {driver}:eth0")));
            }
            "auto" => Driver::Auto { interface: device.to_owned() },
            "xdp" => Driver::Xdp { interface: device.to_owned() },
            "tc" => Driver::Tc { interface: device.to_owned() },
            "afpacket" => Driver::AfPacket { interface: device.to_owned() },
            "afxdp" => Driver::AfXdp { interface: device.to_owned() },
            "tap" if device.is_empty() => return Err(needs("the name of a device, such as tap:svi1")),
            "tap" => Driver::Tap { device: device.to_owned() },
            "pcap" => {
                let (input, output) = device.split_once(',').unwrap_or((device, ""));
                let path = |path: &str| (!path.is_empty()).then(|| PathBuf::from(path));
                if input.is_empty() && output.is_empty() {
                    return Err(needs("a file, such as pcap:in.pcap or pcap:in.pcap,out.pcap or pcap:,out.pcap"));
                }
                Driver::Pcap { input: path(input), output: path(output) }
            }
            "mem" if device.is_empty() => Driver::Mem(MemPort::default()),
            "mem" => return Err(error("mem has no device: write `mem:`".into())),
            _ => return Err(error(format!("there is no driver `{driver}`; use one of {}", accepted()))),
        };
        Ok(PortSpec { name: name.to_owned(), driver })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn specifications() {
        let parse = |spec: &str| spec.parse::<PortSpec>();
        let spec = parse("wan=afpacket:eth0").unwrap();
        assert_eq!(spec.name, "wan");
        assert!(matches!(spec.driver, Driver::AfPacket { interface } if interface == "eth0"));
        let files = |spec: &str| match parse(spec).unwrap().driver {
            Driver::Pcap { input, output } => (input, output),
            other => panic!("{other:?}"),
        };
        assert_eq!(files("a=pcap:x.pcap"), (Some("x.pcap".into()), None));
        assert_eq!(files("a=pcap:x.pcap,y.pcap"), (Some("x.pcap".into()), Some("y.pcap".into())));
        assert_eq!(files("a=pcap:,y.pcap"), (None, Some("y.pcap".into())));
        assert!(matches!(parse("sink=mem:").unwrap().driver, Driver::Mem(_)));
        for device in [
            "auto:eth0",
            "xdp:eth0",
            "tc:eth0",
            "afpacket:eth0",
            "afxdp:eth0",
            "tap:svi1",
            "pcap:x.pcap",
            "pcap:x.pcap,y.pcap",
            "pcap:,y.pcap",
            "mem:",
        ] {
            assert_eq!(parse(&format!("a={device}")).unwrap().driver.to_string(), device);
        }
    }

    #[test]
    fn errors_say_what_is_accepted() {
        let error = |spec: &str| spec.parse::<PortSpec>().unwrap_err().to_string();
        let tier = "use NAME=DRIVER:DEVICE with one of the drivers auto, xdp, tc, afpacket, afxdp, tap, pcap, mem";
        assert_eq!(error("eth0"), format!("port `eth0`: {tier}"));
        assert_eq!(error("a=eth0"), format!("port `a=eth0`: {tier}"));
        assert_eq!(
            error("a=dpdk:0"),
            "port `a=dpdk:0`: there is no driver `dpdk`; use one of auto, xdp, tc, afpacket, afxdp, tap, pcap, mem"
        );
        assert_eq!(error("a=afpacket:"), "port `a=afpacket:`: afpacket needs an interface, such as afpacket:eth0");
        assert_eq!(error("a=xdp:"), "port `a=xdp:`: xdp needs an interface, such as xdp:eth0");
        assert_eq!(error("a=tc:"), "port `a=tc:`: tc needs an interface, such as tc:eth0");
        assert_eq!(error("a=afxdp:"), "port `a=afxdp:`: afxdp needs an interface, such as afxdp:eth0");
        assert_eq!(error("a=tap:"), "port `a=tap:`: tap needs the name of a device, such as tap:svi1");
        assert!(error("=mem:").contains("at least one"));
        assert!(error("a b=mem:").contains("letters, digits"));
        assert!(error("a=pcap:").contains("pcap:in.pcap,out.pcap"));
        assert!(error("a=pcap:,").contains("needs a file"));
        assert!(error("a=mem:x").contains("write `mem:`"));
    }
}
