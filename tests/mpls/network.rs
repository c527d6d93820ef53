//! Two hosts behind three label switching routers, each a namespace with its own Millrace.
//!
//! ```text
//! h1 10.1.0.11 ── PE 1 ─── 10.0.12.0/24 ─── P ─── 10.0.23.0/24 ─── PE 2 ── 10.2.0.11 h2
//!                push 17002         swap 17003            pop
//!                plain IP       pop for the last        push 18002
//! ```
//!
//! Beside each port stands the kernel's interface: it answers ARP and neighbour discovery. No kernel forwards.

use std::time::Duration;

use lab::{LinkConfig, Mac, Namespace, Running, Signal, veth};

use crate::instance::Runtime;
use crate::report::Report;

/// Long enough for a loaded machine; nothing waits this long when all is well.
pub const PATIENCE: Duration = Duration::from_secs(90);

/// Bytes of packets on the links of the core: labels come on top of whole packets.
const CORE_MTU: u32 = 1532;

/// A port of a router to the network, with the kernel's addresses there.
struct Port {
    name: &'static str,
    ipv4: &'static str,
    ipv6: &'static str,
    core: bool,
}

const fn port(name: &'static str, ipv4: &'static str, ipv6: &'static str, core: bool) -> Port {
    Port { name, ipv4, ipv6, core }
}

/// A router: its ports, and the configuration that it has in `apps/mpls/lab`.
struct Router {
    name: &'static str,
    ports: [Port; 2],
    config: &'static str,
}

const ROUTERS: [Router; 3] = [
    Router {
        name: "pe1",
        ports: [port("west", "10.1.0.1", "2001:db8:1::1", false), port("east", "10.0.12.1", "2001:db8:12::1", true)],
        config: include_str!("../../apps/mpls/lab/pe1.toml"),
    },
    Router {
        name: "p",
        ports: [port("west", "10.0.12.2", "2001:db8:12::2", true), port("east", "10.0.23.2", "2001:db8:23::2", true)],
        config: include_str!("../../apps/mpls/lab/p.toml"),
    },
    Router {
        name: "pe2",
        ports: [port("west", "10.0.23.3", "2001:db8:23::3", true), port("east", "10.2.0.1", "2001:db8:2::1", false)],
        config: include_str!("../../apps/mpls/lab/pe2.toml"),
    },
];

/// The kernel's Ethernet address at a port.
fn mac(router: usize, port: usize) -> Mac {
    [2, 0, 0, 1, router as u8, port as u8]
}

fn must<T>(result: lab::Result<T>) -> T {
    result.unwrap_or_else(|error| panic!("{error}"))
}

/// Gives a device an IPv6 address that is used at once.
fn ipv6_address(ns: &Namespace, device: &str, address: &str) {
    must(ns.check(&["ip", "-6", "address", "add", &format!("{address}/64"), "dev", device, "nodad"]));
}

/// The running network.
pub struct Core {
    // Dropped first: then the routers are ended before their ports are.
    routers: Vec<Running>,
    _runtime: Runtime,
    _namespaces: Vec<Namespace>,
    /// h1 and h2.
    pub hosts: [Namespace; 2],
}

impl Core {
    /// Builds the network and starts the routers. Without privileges this fails with a text that says what to do.
    pub fn start() -> Core {
        Core::changed("", "", "")
    }

    /// The same, where the router in the middle takes its way to PE 2 for one of packets of so many bytes, with their
    /// labels.
    pub fn narrow(mtu: u32) -> Core {
        let east = "ipv6 = \"2001:db8:23::2\", mpls = true, mtu = ";
        Core::changed("p", &format!("{east}{CORE_MTU}"), &format!("{east}{mtu}"))
    }

    /// The same with another text in a router's configuration.
    fn changed(changed: &str, from: &str, to: &str) -> Core {
        let namespaces: Vec<Namespace> = ROUTERS.iter().map(|router| must(Namespace::new(router.name))).collect();
        let hosts = [must(Namespace::new("h1")), must(Namespace::new("h2"))];
        must(veth(&hosts[0], "eth0", &namespaces[0], "west"));
        must(veth(&namespaces[0], "east", &namespaces[1], "west"));
        must(veth(&namespaces[1], "east", &namespaces[2], "west"));
        must(veth(&namespaces[2], "east", &hosts[1], "eth0"));
        for (index, (router, ns)) in ROUTERS.iter().zip(&namespaces).enumerate() {
            must(ns.set_sysctl("net.ipv4.ip_forward", "0"));
            for (number, port) in router.ports.iter().enumerate() {
                let mtu = if port.core { CORE_MTU } else { 1500 };
                let (name, svi, peer) = (port.name, format!("{}h", port.name), format!("{}hp", port.name));
                must(veth(ns, &svi, ns, &peer));
                must(ns.configure(name, &LinkConfig::port().mtu(mtu)));
                must(ns.configure(&peer, &LinkConfig::port().mtu(mtu)));
                let config = LinkConfig::host().mac(mac(index, number)).mtu(mtu).ipv6(true);
                must(ns.configure(&svi, &config.address(format!("{}/24", port.ipv4))));
                ipv6_address(ns, &svi, port.ipv6);
            }
        }
        for (number, host) in (1..).zip(&hosts) {
            let config = LinkConfig::host().mac([2, 0, 0, 0, 0, number]).ipv6(true);
            must(host.configure("eth0", &config.address(format!("10.{number}.0.11/24"))));
            must(host.default_route(&format!("10.{number}.0.1")));
            ipv6_address(host, "eth0", &format!("2001:db8:{number}::11"));
            must(host.check(&["ip", "-6", "route", "add", "default", "via", &format!("2001:db8:{number}::1")]));
        }
        let runtime = Runtime::new();
        let start = |(router, ns): (&Router, &Namespace)| {
            let text = if router.name == changed { router.config.replace(from, to) } else { router.config.to_owned() };
            assert_eq!(text != router.config, router.name == changed, "{changed} has no {from}");
            let config = runtime.write(&format!("{}.toml", router.name), &text);
            let arguments = ["run", "mpls", "--no-socket", "-c", &config];
            must(ns.command(env!("CARGO_BIN_EXE_millrace")).args(arguments).spawn())
        };
        // All compile at once, then each is waited for.
        let mut routers: Vec<Running> = ROUTERS.iter().zip(&namespaces).map(start).collect();
        for router in &mut routers {
            must(router.wait_for_text("running on 4 ports", PATIENCE));
        }
        Core { routers, _runtime: runtime, _namespaces: namespaces, hosts }
    }

    /// Ends the routers as Ctrl-C does; what each counted.
    pub fn stop(mut self) -> [Report; 3] {
        let stop = |router: &mut Running| {
            must(router.signal(Signal::SIGINT));
            let output = must(router.wait(PATIENCE));
            assert_eq!(output.status.code(), Some(0), "{output}");
            assert!(output.stderr.is_empty(), "{output}");
            Report::parse(&output.text())
        };
        let reports: Vec<Report> = self.routers.iter_mut().map(stop).collect();
        reports.try_into().expect("three routers")
    }
}
