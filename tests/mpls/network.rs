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

/// A router: its ports, and the tables of its labels and routes.
struct Router {
    name: &'static str,
    ports: [Port; 2],
    tables: &'static str,
}

const ROUTERS: [Router; 3] = [
    Router {
        name: "pe1",
        ports: [port("west", "10.1.0.1", "2001:db8:1::1", false), port("east", "10.0.12.1", "2001:db8:12::1", true)],
        tables: r#"
[tables.ipv4_route.fib]
"10.1.0.0/24" = 1
"10.2.0.0/24" = 2
[tables.ipv6_route.fib]
"2001:db8:1::/64" = 1
"2001:db8:2::/64" = 2
[tables.label_push.nhlfes]
1 = { label = 3, ttl = "UNIFORM", tc = 8, over = 0, port = "west", gateway = 0 }
2 = { label = 17002, ttl = "UNIFORM", tc = 8, over = 0, port = "east", gateway = "::ffff:10.0.12.2" }
"#,
    },
    Router {
        name: "p",
        ports: [port("west", "10.0.12.2", "2001:db8:12::2", true), port("east", "10.0.23.2", "2001:db8:23::2", true)],
        tables: r#"
[tables.label_lookup.ilm]
17002 = { action = "FORWARD", ttl = "UNIFORM", tc = "PIPE", nhlfe = 1 }
18002 = { action = "FORWARD", ttl = "UNIFORM", tc = "PIPE", nhlfe = 2 }
[tables.label_push.nhlfes]
1 = { label = 17003, ttl = "UNIFORM", tc = 8, over = 0, port = "east", gateway = "::ffff:10.0.23.3" }
2 = { label = 3, ttl = "UNIFORM", tc = 8, over = 0, port = "west", gateway = "::ffff:10.0.12.1" }
"#,
    },
    Router {
        name: "pe2",
        ports: [port("west", "10.0.23.3", "2001:db8:23::3", true), port("east", "10.2.0.1", "2001:db8:2::1", false)],
        tables: r#"
[tables.ipv4_route.fib]
"10.2.0.0/24" = 1
"10.1.0.0/24" = 2
[tables.ipv6_route.fib]
"2001:db8:2::/64" = 1
"2001:db8:1::/64" = 2
[tables.label_lookup.ilm]
17003 = { action = "POP", ttl = "UNIFORM", tc = "PIPE", nhlfe = 0 }
[tables.label_push.nhlfes]
1 = { label = 3, ttl = "UNIFORM", tc = 8, over = 0, port = "east", gateway = 0 }
2 = { label = 18002, ttl = "UNIFORM", tc = 8, over = 0, port = "west", gateway = "::ffff:10.0.23.2" }
"#,
    },
];

/// The kernel's Ethernet address at a port.
fn mac(router: usize, port: usize) -> Mac {
    [2, 0, 0, 1, router as u8, port as u8]
}

impl Router {
    fn config(&self, index: usize) -> String {
        let mut text = String::new();
        let mut interfaces = "[tables.classify.interfaces]\n".to_owned();
        for (number, port) in self.ports.iter().enumerate() {
            let (name, host) = (port.name, number + 3);
            text += &format!(
                "[ports.{name}]\nnumber = {}\ndevice = \"afpacket:{name}\"\nhost = \"{name}h\"\n\
                 [ports.{name}h]\nnumber = {host}\ndevice = \"afpacket:{name}hp\"\n",
                number + 1
            );
            interfaces += &format!(
                "{name} = {{ peer = 0, mac = {:?}, ipv4 = {:?}, ipv6 = {:?}, mpls = {} }}\n\
                 {name}h = {{ peer = {name:?}, mac = 0, ipv4 = 0, ipv6 = 0, mpls = false }}\n",
                lab::mac_text(mac(index, number)),
                port.ipv4,
                port.ipv6,
                port.core
            );
        }
        let local = |of: fn(&Port) -> &str| self.ports.iter().map(of).collect::<Vec<_>>();
        text += &interfaces;
        text += &format!("[tables.ipv4_edge]\nlocal_addrs = {:?}\n", local(|port| port.ipv4));
        text += &format!("[tables.ipv6_edge]\nlocal_addrs = {:?}\n", local(|port| port.ipv6));
        text += "[tables.icmp_error.errors]\n0 = { rate = 1000, burst = 1000 }\n";
        text += "[tables.adjacency.solicitations]\n0 = { rate = 100, burst = 100 }\n";
        text + self.tables
    }
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
        let start = |(index, (router, ns)): (usize, (&Router, &Namespace))| {
            let config = runtime.write(&format!("{}.toml", router.name), &router.config(index));
            // Three compilations at once are to be over soon; what the last level does to this program its cases show.
            let arguments = ["run", "mpls", "--no-socket", "--opt", "pac", "-c", &config];
            must(ns.command(env!("CARGO_BIN_EXE_millrace")).args(arguments).spawn())
        };
        // All compile at once, then each is waited for.
        let mut routers: Vec<Running> = ROUTERS.iter().zip(&namespaces).enumerate().map(start).collect();
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
