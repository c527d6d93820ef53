//! On veth devices. The firewall: UDP flows that have been answered, against nftables with the same rules and against
//! the kernel's forwarding without any. MPLS: labels are swapped; the kernel, which need not have label switching,
//! forwards the same packets without labels.

use std::time::Duration;

use dataplane::{EngineKind, Instance};
use lab::LinkConfig;

use super::case::Case;
use super::firewall::{INSIDE, OUTSIDE, through_gateways};
use super::{Apps, mpls};
use crate::results::Results;
use crate::veth::{Entrant, Line, PORTS, Sockets, bytes, race};
use crate::{Effort, text};

const FIREWALL: &str = "veth, firewall, 1024 flows";
const MPLS: &str = "veth, mpls, swap";
/// Packets that the generator cycles through, for the firewall one of each flow.
const POOL: u32 = 1024;
const RULES: &str = include_str!("../../../apps/firewall/controller/bench/firewall.nft");
/// The neighbour at each side of the kernel, with the network behind it.
const BEHIND: [[&str; 2]; 2] = [["10.0.1.10", "10.0.0.0/8"], ["10.0.2.10", "0.0.0.0/0"]];

#[derive(Clone, Copy, PartialEq)]
enum System {
    /// The generator straight into the sink: no system can get more.
    Ceiling,
    Millrace,
    Kernel,
    Nftables,
}

const fn entrant(name: &'static str, system: System) -> Entrant<System> {
    Entrant { name, system, may_fail: matches!(system, System::Nftables) }
}

/// Measures both applications.
pub fn measure(apps: &Apps, effort: Effort, results: &mut Results) -> Result<(), String> {
    let systems = || vec![entrant("generator alone", System::Ceiling), entrant("millrace", System::Millrace)];
    let mut walls = systems();
    walls.extend([entrant("kernel", System::Kernel), entrant("nftables", System::Nftables)]);
    let case = apps.firewall.case(FIREWALL, Vec::new(), Vec::new())?;
    let [out, back] = through_gateways(POOL, [INSIDE, OUTSIDE]);
    race(FIREWALL, walls, effort, results, |system, window| one(&case, system, out.clone(), back.clone(), window))?;
    let mut switches = systems();
    switches.push(entrant("kernel, without labels", System::Kernel));
    let mut case = apps.case("mpls, swap", POOL)?;
    // Of the three ports there are the two that labelled packets take.
    let labelled: Vec<Vec<u8>> = case.packets.drain(..).map(|(_, packet)| packet).collect();
    mpls::between_two_ports(&mut case);
    race(MPLS, switches, effort, results, |system, window| {
        let frames = if system == System::Kernel { mpls::unlabelled(POOL) } else { labelled.clone() };
        one(&case, system, frames, Vec::new(), window)
    })?;
    results.note(
        "veth, mpls: label switching is no part of this kernel; what it forwards are IP packets of the same length",
    );
    Ok(())
}

/// One system for a while.
fn one(
    case: &Case,
    system: System,
    frames: Vec<Vec<u8>>,
    answers: Vec<Vec<u8>>,
    window: Duration,
) -> Result<(f64, f64), String> {
    let forwards = matches!(system, System::Kernel | System::Nftables);
    let port = |number: u64, mac| match forwards {
        true => LinkConfig::host().mac(bytes(mac)).address(format!("10.0.{number}.1/24")),
        false => LinkConfig::port(),
    };
    if system == System::Ceiling {
        return Line::direct()?.measure(frames, Vec::new(), window);
    }
    let line = Line::through([port(1, INSIDE), port(2, OUTSIDE)], forwards)?;
    let mut instance: Option<Instance> = None;
    if forwards {
        for (device, [gateway, network]) in PORTS.iter().zip(BEHIND) {
            line.system.neighbour(device, gateway, bytes(0x0200_0000_0033)).map_err(text)?;
            line.system.route(network, gateway).map_err(text)?;
        }
    } else {
        instance =
            Some(line.instance(&case.program, EngineKind::NATIVE, Sockets::AfPacket, |tables| case.fill(tables))?);
    }
    if system == System::Nftables {
        line.system.command("nft").args(["-f", "-"]).input(RULES).check().map_err(text)?;
    }
    let measured = line.measure(frames, answers, window);
    drop(instance);
    measured
}
