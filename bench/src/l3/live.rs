//! On veth devices: against the kernel's forwarding, DPDK's testpmd and the interpreter.

use std::sync::Arc;
use std::time::Duration;

use baker::ir::Program;
use dataplane::{EngineKind, Instance, TableAccess};
use lab::{LinkConfig, Namespace, Running};

use super::setup::{self, ROUTER, Setup};
use crate::results::Results;
use crate::veth::{Entrant, Line, PORTS, SYSTEM_CPU, Sockets, bytes, dotted, race};
use crate::{Effort, text};

const CASE: &str = "veth, 16 routes";
/// Packets that the generator cycles through.
const POOL: u32 = 1024;

#[derive(Clone, Copy, PartialEq)]
enum System {
    /// The generator straight into the sink: no system can get more.
    Ceiling,
    Millrace(EngineKind, Sockets),
    Kernel,
    TestPmd(Sockets),
}

/// What forwards, kept while it does.
enum Forwarder {
    Kernel,
    Instance(#[expect(dead_code, reason = "stops when dropped")] Box<Instance>),
    Process(Running),
}

/// Measures all systems that there are.
pub fn measure(program: &Program, effort: Effort, results: &mut Results) -> Result<(), String> {
    let entrant = |name, system| Entrant { name, system, may_fail: matches!(system, System::TestPmd(_)) };
    let systems = vec![
        entrant("generator alone", System::Ceiling),
        entrant("millrace", System::Millrace(EngineKind::NATIVE, Sockets::AfPacket)),
        entrant("millrace, AF_XDP", System::Millrace(EngineKind::NATIVE, Sockets::AfXdp)),
        entrant("kernel", System::Kernel),
        entrant("testpmd", System::TestPmd(Sockets::AfPacket)),
        entrant("testpmd, AF_XDP", System::TestPmd(Sockets::AfXdp)),
        entrant("interpreter", System::Millrace(EngineKind::Interp, Sockets::AfPacket)),
    ];
    let program = Arc::new(program.clone());
    race(CASE, systems, effort, results, |system, window| one(&program, system, window))
}

/// One system for a while.
fn one(program: &Arc<Program>, system: System, window: Duration) -> Result<(f64, f64), String> {
    let setup = Setup::new(program, 16);
    let kernel = system == System::Kernel;
    let port = |number: u64| match kernel {
        true => LinkConfig::host().mac(bytes(ROUTER + number)).address(format!("10.0.{number}.1/24")),
        false => LinkConfig::port(),
    };
    let line = match system {
        System::Ceiling => Line::direct()?,
        _ => Line::through([port(1), port(2)], kernel)?,
    };
    let fill = |tables: &mut TableAccess| setup.fill(program, tables);
    let mut forwarder = match system {
        System::Ceiling | System::Kernel => Forwarder::Kernel,
        System::TestPmd(sockets) => Forwarder::Process(testpmd(&line.system, sockets)?),
        System::Millrace(engine, sockets) => {
            Forwarder::Instance(Box::new(line.instance(program, engine, sockets, fill)?))
        }
    };
    if kernel {
        routes(&line.system, &setup)?;
    }
    let measured = line.measure(setup.routed(POOL), Vec::new(), window);
    if let Forwarder::Process(process) = &mut forwarder
        && process.ended().map_err(text)?.is_some()
    {
        return Err(format!("it ended:\n{}", process.both()));
    }
    measured
}

/// The same routes and neighbours for the kernel.
pub fn routes(system: &Namespace, setup: &Setup) -> Result<(), String> {
    for &(address, mac) in &setup.neighbours {
        system.neighbour(PORTS[1], &dotted(address), bytes(mac)).map_err(text)?;
    }
    for route in &setup.routes {
        let gateway = setup.next_hops.iter().find(|hop| hop.index == route.next_hop).map_or(0, |hop| hop.gateway);
        system.route(&format!("{}/{}", dotted(route.prefix), route.len), &dotted(gateway)).map_err(text)?;
    }
    Ok(())
}

/// DPDK's testpmd: it does not route, it sets both Ethernet addresses and passes the packet on.
fn testpmd(system: &Namespace, sockets: Sockets) -> Result<Running, String> {
    let driver = match sockets {
        Sockets::AfPacket => "net_af_packet",
        Sockets::AfXdp => "net_af_xdp",
    };
    let peer = lab::mac_text(bytes(setup::NEIGHBOUR));
    let mut running = system
        .command("dpdk-testpmd")
        .args(["--no-huge", "-m", "512", "--no-pci", "--no-shconf", "--no-telemetry"])
        // The first of the two only waits; both on the CPU of the system under test.
        .args(["--lcores", &format!("0@{SYSTEM_CPU},1@{SYSTEM_CPU}")])
        .args(["--vdev", &format!("{driver}0,iface=p1"), "--vdev", &format!("{driver}1,iface=p2")])
        .args(["--", "--forward-mode=mac", "--auto-start", "--stats-period=60", "--total-num-mbufs=65536"])
        .arg(format!("--eth-peer=1,{peer}"))
        .spawn()
        .map_err(text)?;
    running.wait_for_text("start packet forwarding", Duration::from_secs(20)).map_err(text)?;
    std::thread::sleep(Duration::from_millis(500));
    Ok(running)
}
