//! On veth devices in network namespaces: packets per second that reach the sink, and the CPU time that they cost.
//!
//! ```text
//! source eth0 ── p1 ┤ the system under test ├ p2 ── eth0 sink
//! ```
//!
//! A veth device does the receiver's work on the sender's CPU. So kernel forwarding runs wholly on the generator's CPU,
//! while user-space systems have one of their own: the CPU time of the whole machine per packet is given beside the rate.

use std::sync::Arc;
use std::time::Duration;

use baker::ir::Program;
use dataplane::ports::Driver;
use dataplane::{EngineKind, Instance, Options, PollMode, PortConfig};
use lab::{Generator, LinkConfig, Namespace, Running, Traffic, veth};

use super::setup::{self, ROUTER, Setup};
use crate::results::Results;
use crate::{Effort, received, text};

const CASE: &str = "veth, 16 routes";
/// CPUs of the system under test and of the generator.
const SYSTEM_CPU: usize = 0;
const GENERATOR_CPU: usize = 1;
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

/// What packets come to user space through.
#[derive(Clone, Copy, PartialEq)]
enum Sockets {
    AfPacket,
    AfXdp,
}

/// What forwards, kept while it does.
enum Forwarder {
    Nothing,
    Instance(#[expect(dead_code, reason = "stops when dropped")] Instance),
    Process(Running),
}

/// Measures all systems that there are.
pub fn measure(program: &Program, effort: Effort, results: &mut Results) -> Result<(), String> {
    if !lab::has_privileges().map_err(text)? {
        results.note("veth: not measured, it needs root");
        return Ok(());
    }
    if std::thread::available_parallelism().map_or(1, |n| n.get()) < 2 {
        results.note("veth: not measured, it needs two CPUs");
        return Ok(());
    }
    let mut systems = vec![
        ("generator alone", System::Ceiling, vec![], vec![]),
        ("millrace", System::Millrace(EngineKind::NATIVE, Sockets::AfPacket), vec![], vec![]),
        ("millrace, AF_XDP", System::Millrace(EngineKind::NATIVE, Sockets::AfXdp), vec![], vec![]),
        ("kernel", System::Kernel, vec![], vec![]),
        ("testpmd", System::TestPmd(Sockets::AfPacket), vec![], vec![]),
        ("testpmd, AF_XDP", System::TestPmd(Sockets::AfXdp), vec![], vec![]),
        ("interpreter", System::Millrace(EngineKind::Interp, Sockets::AfPacket), vec![], vec![]),
    ];
    let program = Arc::new(program.clone());
    let (runs, window) = if effort.quick { (1, 300) } else { (5, 2000) };
    for run in 0..runs {
        let mut failed = Vec::new();
        for (name, system, rates, costs) in &mut systems {
            match one(&program, *system, Duration::from_millis(window)) {
                Ok((rate, cost)) => {
                    rates.push(rate);
                    costs.push(cost);
                }
                // A peer that does not run here has no row.
                Err(error) if matches!(system, System::TestPmd(_)) && run == 0 => {
                    results.note(format!("{CASE}: {name} not measured: {error}"));
                    failed.push(*system);
                }
                Err(error) => return Err(format!("{CASE}: {name}: {error}")),
            }
        }
        systems.retain(|(_, system, ..)| !failed.contains(system));
    }
    for (name, _, rates, costs) in systems {
        results.add(CASE, name, "mpps", "million packets/s", rates);
        results.add(CASE, name, "cpu_ns_per_packet", "ns of CPU time, whole machine", costs);
    }
    Ok(())
}

/// One system for a while: million packets per second, and ns of CPU time per packet.
fn one(program: &Arc<Program>, system: System, window: Duration) -> Result<(f64, f64), String> {
    let setup = Setup::new(program, 16);
    let (source, sink) = (Namespace::new("source").map_err(text)?, Namespace::new("sink").map_err(text)?);
    let switch = Namespace::new("switch").map_err(text)?;
    let host = |mac: u64| LinkConfig::host().mac(bytes(mac));
    let limit = Duration::from_secs(5);
    let mut forwarder = Forwarder::Nothing;
    let quiet = LinkConfig::port();
    if system == System::Ceiling {
        veth(&source, "eth0", &sink, "eth0").map_err(text)?;
    } else {
        veth(&source, "eth0", &switch, "p1").map_err(text)?;
        veth(&switch, "p2", &sink, "eth0").map_err(text)?;
        let kernel = system == System::Kernel;
        switch.set_sysctl("net.ipv4.ip_forward", if kernel { "1" } else { "0" }).map_err(text)?;
        for (port, number) in [("p1", 1), ("p2", 2)] {
            let config =
                if kernel { host(ROUTER + number).address(format!("10.0.{number}.1/24")) } else { quiet.clone() };
            switch.configure(port, &config).map_err(text)?;
        }
    }
    source.configure("eth0", &quiet).map_err(text)?;
    sink.configure("eth0", &quiet).map_err(text)?;
    for (namespace, device) in [(&source, "eth0"), (&sink, "eth0")] {
        namespace.wait_running(device, limit).map_err(text)?;
    }
    match system {
        System::Ceiling => {}
        System::Kernel => kernel(&switch, &setup)?,
        System::TestPmd(sockets) => forwarder = Forwarder::Process(testpmd(&switch, sockets)?),
        System::Millrace(engine, sockets) => {
            forwarder = Forwarder::Instance(instance(program, &setup, &switch, engine, sockets)?);
        }
    }
    let generator = generator(&setup, &source)?;
    std::thread::sleep(window / 4);
    let before = (received(&sink)?, busy()?);
    let start = std::time::Instant::now();
    std::thread::sleep(window);
    let time = start.elapsed();
    let after = (received(&sink)?, busy()?);
    drop(generator);
    if let Forwarder::Process(process) = &mut forwarder
        && process.ended().map_err(text)?.is_some()
    {
        return Err(format!("it ended:\n{}", process.both()));
    }
    let packets = after.0 - before.0;
    if packets == 0 {
        return Err("no packet reached the sink".into());
    }
    Ok((packets as f64 / time.as_secs_f64() / 1e6, (after.1 - before.1) / packets as f64))
}

fn generator(setup: &Setup, source: &Namespace) -> Result<Generator, String> {
    let traffic = Traffic::frames(setup.routed(POOL)).map_err(text)?;
    Generator::start(source, "eth0", traffic.cpu(GENERATOR_CPU)).map_err(text)
}

fn instance(
    program: &Arc<Program>,
    setup: &Setup,
    switch: &Namespace,
    engine: EngineKind,
    sockets: Sockets,
) -> Result<Instance, String> {
    let options = Options { engine, poll: PollMode::Busy, cpus: vec![SYSTEM_CPU], ..Options::default() };
    let driver = |interface: String| match sockets {
        Sockets::AfPacket => Driver::AfPacket { interface },
        Sockets::AfXdp => Driver::AfXdp { interface },
    };
    let ports = [("p1", 1), ("p2", 2)].map(|(name, number)| PortConfig::new(name, number, driver(name.into())));
    let prepared =
        switch.enter(|| Instance::prepare(program.clone(), &options, &ports)).map_err(text)?.map_err(text)?;
    setup.fill(program, &mut prepared.tables())?;
    prepared.run().map_err(text)
}

/// The kernel's own forwarding, with the same routes and neighbours.
fn kernel(switch: &Namespace, setup: &Setup) -> Result<(), String> {
    for &(address, mac) in &setup.neighbours {
        switch.neighbour("p2", &dotted(address), bytes(mac)).map_err(text)?;
    }
    for route in &setup.routes {
        let gateway = setup.next_hops.iter().find(|hop| hop.index == route.next_hop).map_or(0, |hop| hop.gateway);
        switch.route(&format!("{}/{}", dotted(route.prefix), route.len), &dotted(gateway)).map_err(text)?;
    }
    Ok(())
}

/// DPDK's testpmd: it does not route, it sets both Ethernet addresses and passes the packet on.
fn testpmd(switch: &Namespace, sockets: Sockets) -> Result<Running, String> {
    let driver = match sockets {
        Sockets::AfPacket => "net_af_packet",
        Sockets::AfXdp => "net_af_xdp",
    };
    let peer = lab::mac_text(bytes(setup::NEIGHBOUR));
    let mut running = switch
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

/// CPU time that is not idle, of all CPUs since the start, in ns.
fn busy() -> Result<f64, String> {
    let stat = std::fs::read_to_string("/proc/stat").map_err(text)?;
    let fields: Vec<f64> =
        stat.lines().next().unwrap_or("").split_whitespace().filter_map(|n| n.parse().ok()).collect();
    match fields[..] {
        // user, nice, system, idle, iowait, irq, softirq, in ticks of 10 ms
        [user, nice, system, _, _, irq, softirq, ..] => Ok((user + nice + system + irq + softirq) * 1e7),
        _ => Err("/proc/stat says nothing".into()),
    }
}

fn dotted(address: u32) -> String {
    std::net::Ipv4Addr::from(address).to_string()
}

fn bytes(mac: u64) -> lab::Mac {
    let [_, _, bytes @ ..] = mac.to_be_bytes();
    bytes
}
