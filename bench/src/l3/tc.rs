//! At traffic control, with hosts' offloads on: between a client and web servers, against the kernel's forwarding. All
//! that is told by ARP is set.

use lab::mac_text;

use crate::Effort;
use crate::results::Results;
use crate::web::forwarding::{Forwarder, measure as race};
use crate::web::line::{Line, Program};
use crate::web::network::{
    CLIENT, CLIENTS, HOST_MACS, Links, MIDDLE_CPU, Middle, REAL, ROUTER_MACS, SERVERS, TOWARDS_SERVERS, VIRTUAL,
};

const CASE: &str = "tc, offloads on";

#[derive(Clone, Copy)]
enum System {
    Direct,
    Kernel,
    Millrace,
}

/// Measures all.
pub fn measure(effort: Effort, results: &mut Results) -> Result<(), String> {
    let systems = [
        Forwarder { name: "direct", system: System::Direct, has_middle: false },
        Forwarder { name: "kernel", system: System::Kernel, has_middle: true },
        Forwarder { name: "millrace", system: System::Millrace, has_middle: true },
    ];
    race(CASE, &systems, effort, results, start)
}

fn start(system: System, links: Links) -> Result<Line, String> {
    let (middle, program) = match system {
        System::Direct => (Middle::Nothing, Program::None),
        System::Kernel => (Middle::Host, Program::None),
        System::Millrace => (Middle::TcRouter, Program::Millrace("l3switch", configuration())),
    };
    Line::start(middle, links, program, REAL[0])
}

/// Routes between the client's subnet and the servers'.
fn configuration() -> String {
    let ([clients, servers], [client, server]) = (ROUTER_MACS.map(mac_text), HOST_MACS.map(mac_text));
    let [router, towards_servers, web] = [*VIRTUAL.ip(), TOWARDS_SERVERS, *REAL[0].ip()];
    format!(
        "frames = {{ count = 8192, size = 2048 }}
workers = {{ cpus = [{MIDDLE_CPU}] }}
[ports]
clients = {{ number = 1, device = \"tc:{CLIENTS}\" }}
servers = {{ number = 2, device = \"tc:{SERVERS}\" }}
[tables.l3_switch]
domains = {{ clients = 1, servers = 2 }}
mac_addrs = {{ clients = \"{clients}\", servers = \"{servers}\" }}
[tables.l2_bridge]
members = {{ 1 = [\"clients\"], 2 = [\"servers\"] }}
[[tables.l2_bridge.stations]]
key = {{ domain = 1, mac = \"{client}\" }}
value = {{ port = \"clients\", heard = 0 }}
[[tables.l2_bridge.stations]]
key = {{ domain = 2, mac = \"{server}\" }}
value = {{ port = \"servers\", heard = 0 }}
[tables.l3_forward]
local_addrs = {{ \"{router}\" = true, \"{towards_servers}\" = true }}
fib = {{ \"10.0.1.0/24\" = 1, \"10.0.2.0/24\" = 2 }}
[tables.l3_forward.next_hops]
1 = {{ domain = 1, gateway = \"0.0.0.0\", src = \"{clients}\" }}
2 = {{ domain = 2, gateway = \"0.0.0.0\", src = \"{servers}\" }}
[tables.l3_forward.neighbours]
\"{CLIENT}\" = {{ mac = \"{client}\", heard = 0 }}
\"{web}\" = {{ mac = \"{server}\", heard = 0 }}
"
    )
}
