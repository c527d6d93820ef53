//! The firewall at traffic control, with hosts' offloads on, in the link between web servers on its LAN and a client on
//! its WAN: against nftables with the same rules in the same order, and the kernel's forwarding without any.

use std::fmt::Write as _;

use super::case::App;
use super::firewall;
use crate::results::Results;
use crate::web::forwarding::{Forwarder, measure as race};
use crate::web::line::{Line, Program};
use crate::web::network::{CLIENTS, Links, MIDDLE_CPU, Middle, REAL, SERVERS};
use crate::{Effort, text};

/// Rules in front of the one that lets the client's connections in.
const RULES: [u32; 2] = [10, 10_000];

#[derive(Clone, Copy)]
enum System {
    Kernel,
    Nftables,
    Millrace,
}

/// Measures all.
pub fn measure(app: &App, effort: Effort, results: &mut Results) -> Result<(), String> {
    let forwarder = |name, system| Forwarder { name, system, has_middle: true };
    let systems = [
        forwarder("kernel, without rules", System::Kernel),
        forwarder("nftables", System::Nftables),
        forwarder("millrace", System::Millrace),
    ];
    for count in RULES {
        let rules = firewall::web(app, count, *REAL[0].ip(), CLIENTS);
        race(&format!("tc, firewall, {count} rules"), &systems, effort, results, |system, links| {
            start(system, links, &rules)
        })?;
    }
    Ok(())
}

fn start(system: System, links: Links, rules: &firewall::Web) -> Result<Line, String> {
    let (middle, program) = match system {
        System::Kernel | System::Nftables => (Middle::Host, Program::None),
        System::Millrace => (Middle::TcWire, Program::Millrace("firewall", configuration(&rules.configuration))),
    };
    let line = Line::start(middle, links, program, REAL[0])?;
    if let System::Nftables = system {
        line.network.middle.command("nft").args(["-f", "-"]).input(nftables(&rules.nftables)).check().map_err(text)?;
    }
    Ok(line)
}

/// The example's configuration with these rules, on one CPU. The LAN is where the servers are.
fn configuration(rules: &str) -> String {
    let own = rules.replace("\"auto:lan\"", &format!("\"tc:{SERVERS}\""));
    let own = own.replace("\"auto:wan\"", &format!("\"tc:{CLIENTS}\""));
    own.replace("[workers]\ncount = 1", &format!("[workers]\ncpus = [{MIDDLE_CPU}]"))
}

/// The same for nftables.
fn nftables(rules: &[String]) -> String {
    let mut text = "table inet firewall { chain forward { type filter hook forward priority 0; policy drop;
        ct state established,related accept
        ct state invalid drop\n"
        .to_owned();
    for rule in rules {
        let _ = writeln!(text, "{rule}");
    }
    let _ = writeln!(text, "iifname \"{SERVERS}\" accept\n}}\n}}");
    text
}
