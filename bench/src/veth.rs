//! On veth devices in network namespaces: packets per second that reach the sink, and the CPU time that they cost.
//!
//! ```text
//! source eth0 ── p1 ┤ the system under test ├ p2 ── eth0 sink
//! ```
//!
//! A veth device does the receiver's work on the sender's CPU. So kernel forwarding runs wholly on the generator's CPU,
//! while user-space systems have one of their own: the CPU time of the whole machine per packet is given beside the
//! rate.

use std::sync::Arc;
use std::time::{Duration, Instant};

use baker::ir::Program;
use baker::opt::Level;
use dataplane::ports::Driver;
use dataplane::xdp::FastPath;
use dataplane::{EngineKind, Instance, Options, PollMode, PortConfig, TableAccess};
use lab::{Flow, Generator, LinkConfig, Mac, Namespace, Sink, Traffic, veth};

use crate::results::Results;
use crate::{Effort, text};
use applications::BUILT_IN;

/// CPU of the system under test.
pub const SYSTEM_CPU: usize = 0;
const GENERATOR_CPU: usize = 1;
/// Devices of the system under test: port 1, where the source is, and port 2, where the sink is.
pub const PORTS: [&str; 2] = ["p1", "p2"];
/// Until a device runs, or a few packets have been sent.
const PATIENCE: Duration = Duration::from_secs(5);

/// What packets come to user space through.
#[derive(Clone, Copy, PartialEq)]
pub enum Sockets {
    AfPacket,
    AfXdp,
}

/// Source, system and sink.
pub struct Line {
    source: Namespace,
    /// Where the system under test runs.
    pub system: Namespace,
    sink: Namespace,
}

impl Line {
    /// The source straight into the sink: no system can get more.
    pub fn direct() -> Result<Self, String> {
        let line = Self::ends()?;
        veth(&line.source, "eth0", &line.sink, "eth0").map_err(text)?;
        line.up(LinkConfig::port())
    }

    /// The system between them, with its ports set up so. The kernel forwards what comes in there where `forwards` says
    /// so.
    pub fn through(ports: [LinkConfig; 2], forwards: bool) -> Result<Self, String> {
        Self::between(ports, LinkConfig::port(), forwards)
    }

    /// As [`Line::through`], with source and sink set up so.
    pub fn between(ports: [LinkConfig; 2], ends: LinkConfig, forwards: bool) -> Result<Self, String> {
        let line = Self::ends()?;
        veth(&line.source, "eth0", &line.system, PORTS[0]).map_err(text)?;
        veth(&line.system, PORTS[1], &line.sink, "eth0").map_err(text)?;
        line.system.set_sysctl("net.ipv4.ip_forward", if forwards { "1" } else { "0" }).map_err(text)?;
        for (port, config) in PORTS.iter().zip(&ports) {
            line.system.configure(port, config).map_err(text)?;
        }
        line.up(ends)
    }

    fn ends() -> Result<Self, String> {
        let namespace = |label| Namespace::new(label).map_err(text);
        Ok(Line { source: namespace("source")?, system: namespace("system")?, sink: namespace("sink")? })
    }

    fn up(self, config: LinkConfig) -> Result<Self, String> {
        for end in [&self.source, &self.sink] {
            end.configure("eth0", &config).map_err(text)?;
        }
        for end in [&self.source, &self.sink] {
            end.wait_running("eth0", PATIENCE).map_err(text)?;
        }
        Ok(self)
    }

    /// Million packets per second, and ns of CPU time per packet, of the source's frames. Before it measures, each of
    /// the `answers` goes from the sink to the source, once.
    pub fn measure(&self, frames: Vec<Vec<u8>>, answers: Vec<Vec<u8>>, window: Duration) -> Result<(f64, f64), String> {
        self.measure_with(frames, answers, window, || Ok(())).map(|(measured, _)| measured)
    }

    /// As [`Line::measure`], and what `probe` says when the time begins and when it ends.
    pub fn measure_with<T>(
        &self,
        frames: Vec<Vec<u8>>,
        answers: Vec<Vec<u8>>,
        window: Duration,
        probe: impl Fn() -> Result<T, String>,
    ) -> Result<((f64, f64), [T; 2]), String> {
        let traffic = Traffic::frames(frames).map_err(text)?;
        let generator = Generator::start(&self.source, "eth0", traffic.cpu(GENERATOR_CPU)).map_err(text)?;
        std::thread::sleep(window / 4);
        if !answers.is_empty() {
            let count = answers.len() as u64;
            let traffic = Traffic::frames(answers).map_err(text)?.count(count).rate(100_000);
            let sent = Generator::start(&self.sink, "eth0", traffic.cpu(SYSTEM_CPU)).map_err(text)?;
            sent.wait(PATIENCE).map_err(text)?;
            std::thread::sleep(window / 4);
        }
        let (first, before) = (probe()?, (self.received()?, busy()?));
        let start = Instant::now();
        std::thread::sleep(window);
        let time = start.elapsed();
        let (after, last) = ((self.received()?, busy()?), probe()?);
        drop(generator);
        let packets = after.0 - before.0;
        if packets == 0 {
            return Err("no packet reached the sink".into());
        }
        let rate = packets as f64 / time.as_secs_f64() / 1e6;
        Ok(((rate, (after.1 - before.1) / packets as f64), [first, last]))
    }

    /// Numbered frames of 80 bytes of these flows at a rate, and what tells which of them come.
    pub fn numbered(&self, flows: &[Flow], rate: u64) -> Result<(Generator, Sink), String> {
        // Where the kernel puts off its work a veth device has room for 256 packets, and drops more.
        let queue = |device| ["tc", "qdisc", "replace", "dev", device, "root", "pfifo", "limit", "20000"];
        self.source.check(&queue("eth0")).map_err(text)?;
        self.system.check(&queue(PORTS[1])).map_err(text)?;
        let sink = Sink::start(&self.sink, "eth0", None).map_err(text)?;
        let traffic = Traffic::flows(flows, &[80]).map_err(text)?.rate(rate).cpu(GENERATOR_CPU);
        Ok((Generator::start(&self.source, "eth0", traffic).map_err(text)?, sink))
    }

    fn received(&self) -> Result<u64, String> {
        crate::received(&self.sink)
    }

    /// Millrace between the ports, on a CPU of its own.
    pub fn instance(
        &self,
        program: &Arc<Program>,
        engine: EngineKind,
        sockets: Sockets,
        fill: impl FnOnce(&mut TableAccess) -> Result<(), String>,
    ) -> Result<Instance, String> {
        let options = Options { engine, poll: PollMode::Busy, cpus: vec![SYSTEM_CPU], ..Options::default() };
        let mut number = 0;
        let ports = PORTS.map(|name| {
            number += 1;
            let interface = name.to_owned();
            let driver = match sockets {
                Sockets::AfPacket => Driver::AfPacket { interface },
                Sockets::AfXdp => Driver::AfXdp { interface },
            };
            PortConfig::new(name, number, driver)
        });
        let needed = BUILT_IN.of_program(program).map_err(text)?;
        let prepare = || Instance::prepare_with(program.clone(), &options, &ports, needed.controllers);
        let prepared = self.system.enter(prepare).map_err(text)?.map_err(text)?;
        fill(&mut prepared.tables())?;
        prepared.run().map_err(text)
    }
}

/// Millrace between the ports with its fast path in the kernel, as far as it goes.
pub fn with_fast_path(
    system: &Namespace,
    program: &Program,
    poll: PollMode,
    fill: impl FnOnce(&mut TableAccess) -> Result<(), String>,
) -> Result<Instance, String> {
    let partitioned = FastPath::new(program, Level::Cgpc, codegen::kernel::Options::default()).map_err(text)?;
    let (program, path) = partitioned.ok_or("nothing of the program runs in the kernel")?;
    let options = Options { fast_path: Some(Arc::new(path)), poll, cpus: vec![SYSTEM_CPU], ..Options::default() };
    let xdp = |(number, name): (u8, &str)| PortConfig::new(name, number, Driver::Xdp { interface: name.to_owned() });
    let ports = [(1, PORTS[0]), (2, PORTS[1])].map(xdp);
    let prepare = || Instance::prepare(program, &options, &ports);
    let prepared = system.enter(prepare).map_err(text)?.map_err(text)?;
    fill(&mut prepared.tables())?;
    prepared.run().map_err(text)
}

/// A system that takes part.
pub struct Entrant<S> {
    pub name: &'static str,
    pub system: S,
    /// Where it does not run here, there is a note and no row.
    pub may_fail: bool,
}

/// All systems in turn, and their rows. `one` measures one system for a while, as [`Line::measure`] does.
pub fn race<S: Copy>(
    case: &str,
    entrants: Vec<Entrant<S>>,
    effort: Effort,
    results: &mut Results,
    one: impl Fn(S, Duration) -> Result<(f64, f64), String>,
) -> Result<(), String> {
    if !lab::has_privileges().map_err(text)? {
        results.note(format!("{case}: not measured, it needs root"));
        return Ok(());
    }
    if std::thread::available_parallelism().map_or(1, |n| n.get()) < 2 {
        results.note(format!("{case}: not measured, it needs two CPUs"));
        return Ok(());
    }
    let (runs, window) = if effort.quick { (1, 300) } else { (5, 2000) };
    let mut measured: Vec<(Entrant<S>, Vec<f64>, Vec<f64>)> =
        entrants.into_iter().map(|entrant| (entrant, Vec::new(), Vec::new())).collect();
    for _ in 0..runs {
        let mut failed = Vec::new();
        for (entrant, rates, costs) in &mut measured {
            match one(entrant.system, Duration::from_millis(window)) {
                Ok((rate, cost)) => {
                    rates.push(rate);
                    costs.push(cost);
                }
                Err(error) if entrant.may_fail && rates.is_empty() => {
                    results.note(format!("{case}: {} not measured: {error}", entrant.name));
                    failed.push(entrant.name);
                }
                Err(error) => return Err(format!("{case}: {}: {error}", entrant.name)),
            }
        }
        measured.retain(|(entrant, ..)| !failed.contains(&entrant.name));
    }
    for (entrant, rates, costs) in measured {
        results.add(case, entrant.name, "mpps", "million packets/s", rates);
        results.add(case, entrant.name, "cpu_ns_per_packet", "ns of CPU time, whole machine", costs);
    }
    Ok(())
}

/// CPU time that is not idle, of all CPUs since the start, in ns.
pub fn busy() -> Result<f64, String> {
    let stat = std::fs::read_to_string("/proc/stat").map_err(text)?;
    busy_in(stat.lines().next().unwrap_or(""))
}

/// As [`busy`], in a line of /proc/stat.
pub fn busy_in(line: &str) -> Result<f64, String> {
    let fields: Vec<f64> = line.split_whitespace().filter_map(|n| n.parse().ok()).collect();
    match fields[..] {
        // user, nice, system, idle, iowait, irq, softirq, in ticks of 10 ms
        [user, nice, system, _, _, irq, softirq, ..] => Ok((user + nice + system + irq + softirq) * 1e7),
        _ => Err("/proc/stat says nothing".into()),
    }
}

/// An IPv4 address as text.
pub fn dotted(address: u32) -> String {
    std::net::Ipv4Addr::from(address).to_string()
}

/// An Ethernet address as the lab takes it.
pub fn bytes(mac: u64) -> Mac {
    let [_, _, bytes @ ..] = mac.to_be_bytes();
    bytes
}
