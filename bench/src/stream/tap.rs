//! Case `tap`: a stream that the kernel forwards, and what it costs that a controller gets a copy of each packet.
//!
//! ```text
//! source eth0 ── p1 ┤ XDP ├ p2 ── eth0 sink          source, forwarding and sink on one CPU
//!                     └─ ring ─▶ worker ─▶ controller                        on the other
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use aya::programs::{ProgramType, loaded_programs};
use aya::sys::{Stats, enable_stats};
use baker::opt::Level;
use dataplane::controller::{Controller, Event, Link, Named};
use dataplane::ports::Driver;
use dataplane::xdp::FastPath;
use dataplane::{FrameConfig, Instance, Options, PollMode, PortConfig, Snapshot};
use lab::{Generator, LinkConfig, Namespace, Traffic, veth};

use super::network::SINK;
use super::sinks::Sinks;
use super::{Source, frame, peer};
use crate::results::Results;
use crate::text;
use crate::veth::PORTS;

const CASE: &str = "tap";
/// Of source, forwarding and sink.
const CPU: usize = 1;
/// Of worker and controller.
const WORKER_CPU: usize = 0;
/// Packets per second: 1 Gbit/s in packets of 1328 bytes.
const RATE: u64 = 94_000;
/// Packets that the source sends at once where it waits for them.
const BURST: u32 = 64;
/// The number of the stream's packet, which is always the same.
const NUMBER: u16 = 7;
const PATIENCE: Duration = Duration::from_secs(10);

const SYSTEMS: [(&str, bool); 2] = [("forwarding", false), ("forwarding, tap", true)];

/// One system for a while.
struct Measured {
    /// ns of the program, by the kernel's statistics, whose own cost is in it.
    program: f64,
    /// ns of the CPU of source, forwarding and sink.
    forwarding: f64,
    /// ns of the whole machine.
    machine: f64,
    /// Packets per second of the forwarding CPU, which source, forwarding and sink keep busy by turns.
    by_turns: f64,
    /// Of 10^6 packets, those that were not forwarded, and those of which no copy came.
    lost: [f64; 2],
    /// Wake-ups of the controller, and of the worker, its own looks included.
    wakes: [f64; 2],
}

/// Measures both by turns.
pub fn measure((runs, window): (usize, u64), results: &mut Results) -> Result<(), String> {
    let mut measured: [Vec<Measured>; SYSTEMS.len()] = Default::default();
    for _ in 0..runs {
        for ((name, tapped), measured) in SYSTEMS.into_iter().zip(&mut measured) {
            let one = one(tapped, Duration::from_millis(window));
            measured.push(one.map_err(|error| format!("{CASE}: {name}: {error}"))?);
        }
    }
    for ((name, tapped), all) in SYSTEMS.into_iter().zip(&measured) {
        let mut add = |metric: &str, unit: &str, value: fn(&Measured) -> f64| {
            results.add(CASE, name, metric, unit, all.iter().map(value).collect());
        };
        add("program_ns", "ns of the XDP program per packet", |one| one.program);
        add("forwarding_cpu_ns", "ns of the forwarding CPU per packet, source and sink included", |one| one.forwarding);
        add("cpu_ns_per_packet", "ns of CPU time, whole machine", |one| one.machine);
        add("packets_per_cpu_second", "packets/s of the forwarding CPU, always busy", |one| one.by_turns);
        add("lost_per_million", "packets of 10^6 not forwarded", |one| one.lost[0]);
        if tapped {
            add("copies_lost_per_million", "copies of 10^6", |one| one.lost[1]);
            add("wakeups_per_packet", "wake-ups of the controller", |one| one.wakes[0]);
            add("worker_wakeups_per_packet", "wake-ups of the worker, its own looks included", |one| one.wakes[1]);
        }
    }
    let [plain, tapped] = &measured;
    let slower = plain.iter().zip(tapped).map(|(plain, tapped)| (plain.by_turns / tapped.by_turns - 1.0) * 100.0);
    results.add(CASE, SYSTEMS[1].0, "forwarding_slower", "% more time of a CPU that is always busy", slower.collect());
    Ok(())
}

fn program(tapped: bool) -> String {
    let tap = if tapped { "channel_put(media, packet_copy(pkt));" } else { "" };
    format!(
        "import \"net/ether\";
        module tap {{
            in ether input; out ether output, media;
            ppf forward(ether_packet_t *pkt) from input {{
                {tap}
                pkt->metadata.tx.port = 2;
                channel_put(output, pkt);
            }}
        }}
        program {{ rx -> tap.input; tap.output -> tx; tap.media -> controller media batch 256 within 5ms; }}"
    )
}

/// What the controller has got.
#[derive(Default)]
struct Got {
    copies: AtomicU64,
    /// Those that are not the packet.
    wrong: AtomicU64,
}

struct Media {
    got: Arc<Got>,
    packet: Vec<u8>,
}

impl Controller for Media {
    fn run(&mut self, link: &mut Link) -> Result<(), String> {
        let mut packets = Vec::with_capacity(256);
        loop {
            match link.receive(Duration::from_secs(1)) {
                Event::Packet(packet) => packets.push(packet),
                Event::Stop => return Ok(()),
                _ => continue,
            }
            link.receive_many(&mut packets, 255);
            let count = packets.len() as u64;
            let right = packets.drain(..).filter(|packet| packet.bytes() == self.packet).count() as u64;
            self.got.copies.fetch_add(count, Ordering::Relaxed);
            self.got.wrong.fetch_add(count - right, Ordering::Relaxed);
        }
    }
}

/// Source, system and sink.
struct Network {
    source: Namespace,
    system: Namespace,
    sink: Namespace,
}

impl Network {
    fn new() -> Result<Self, String> {
        let namespace = |label| Namespace::new(label).map_err(text);
        let network = Network { source: namespace("source")?, system: namespace("system")?, sink: namespace("sink")? };
        veth(&network.source, "eth0", &network.system, PORTS[0]).map_err(text)?;
        veth(&network.system, PORTS[1], &network.sink, "eth0").map_err(text)?;
        for port in PORTS {
            network.system.configure(port, &LinkConfig::port()).map_err(text)?;
        }
        for end in [&network.source, &network.sink] {
            end.configure("eth0", &LinkConfig::port()).map_err(text)?;
            // It takes frames from programs in the kernel then, and a sender waits where it is slow.
            end.check(&["ethtool", "-K", "eth0", "gro", "on"]).map_err(text)?;
            end.check(&["tc", "qdisc", "replace", "dev", "eth0", "root", "pfifo", "limit", "20000"]).map_err(text)?;
        }
        for end in [&network.source, &network.sink] {
            end.wait_running("eth0", PATIENCE).map_err(text)?;
        }
        Ok(network)
    }

    fn start(&self, tapped: bool, got: &Arc<Got>) -> Result<Instance, String> {
        let source = program(tapped);
        let program = crate::compile::program("tap.baker", &source)?;
        let made = FastPath::new(&program, Level::Cgpc, Default::default()).map_err(text)?;
        let (program, path) = made.ok_or("nothing of the program runs in the kernel")?;
        let options = Options {
            fast_path: Some(Arc::new(path)),
            poll: PollMode::Interrupt,
            cpus: vec![WORKER_CPU],
            frames: FrameConfig { count: 32768, ..FrameConfig::default() },
            controller_frames: vec![("media".into(), 8192)],
            ..Options::default()
        };
        let xdp =
            |(number, name): (u8, &str)| PortConfig::new(name, number, Driver::Xdp { interface: name.to_owned() });
        let ports = [(1, PORTS[0]), (2, PORTS[1])].map(xdp);
        let media = Media { got: got.clone(), packet: frame::frame(NUMBER) };
        let controllers: Vec<Named> = vec![("media".into(), Box::new(media))];
        let begin = || {
            // The controller runs where the thread does that starts it.
            peer::stay(WORKER_CPU, false)?;
            Instance::prepare_with(program, &options, &ports, controllers).map_err(text)?.run().map_err(text)
        };
        self.system.enter(begin).map_err(text)?
    }
}

/// What is known at a moment.
struct Moment {
    snapshot: Snapshot,
    received: u64,
    busy: [f64; 2],
    program: (Duration, u64),
    waits: u64,
}

impl Moment {
    fn now(network: &Network, instance: &Instance, known: &BTreeMap<u32, (Duration, u64)>) -> Result<Self, String> {
        // Of the programs that are new the one that has run most: each port has one, and others on the machine none.
        let new = programs().into_iter().filter(|(id, _)| !known.contains_key(id)).map(|(_, run)| run);
        Ok(Moment {
            snapshot: instance.snapshot(),
            received: crate::received(&network.sink)?,
            busy: [busy_of(CPU)?, crate::veth::busy()?],
            program: new.max_by_key(|(_, runs)| *runs).unwrap_or_default(),
            waits: waits("worker-0")?,
        })
    }
}

fn one(tapped: bool, window: Duration) -> Result<Measured, String> {
    let (network, got, known) = (Network::new()?, Arc::<Got>::default(), programs());
    let instance = network.start(tapped, &got)?;
    let _stats = enable_stats(Stats::RunTime).map_err(text)?;
    let traffic = Traffic::frames([frame::frame(NUMBER)]).map_err(text)?.rate(RATE).cpu(CPU);
    let generator = Generator::start(&network.source, "eth0", traffic).map_err(text)?;
    std::thread::sleep(window / 4);
    let before = Moment::now(&network, &instance, &known)?;
    std::thread::sleep(window);
    let after = Moment::now(&network, &instance, &known)?;
    let sent = generator.stop().map_err(text)?.packets;

    // What is under way arrives, or is counted.
    let dropped = |snapshot: &Snapshot| ["tap_full", "controller_busy"].map(|name| snapshot.dropped(name)).iter().sum();
    let copies = |snapshot: &Snapshot| got.copies.load(Ordering::Relaxed) + dropped(snapshot);
    let since = Instant::now();
    let (snapshot, received) = loop {
        let (snapshot, received) = (instance.snapshot(), crate::received(&network.sink)?);
        let is_all = received >= sent && (!tapped || copies(&snapshot) >= snapshot.channel("rx"));
        if is_all || since.elapsed() > PATIENCE {
            break (snapshot, received);
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    let (taken, wrong) = (snapshot.channel("rx"), got.wrong.load(Ordering::Relaxed));
    if wrong > 0 {
        return Err(format!("{wrong} copies are not as their packets"));
    }
    if tapped && copies(&snapshot) != taken {
        return Err(format!("of {taken} packets {} copies came or were counted as lost", copies(&snapshot)));
    }
    let lost_copies: u64 = if tapped { dropped(&snapshot) } else { 0 };
    let wakes = |snapshot: &Snapshot| snapshot.controllers.first().map_or(0, |media| media.pace.wakes);
    let by_turns = by_turns(&network, window)?;
    let report = instance.stop();
    if let Some(error) = report.errors.first() {
        return Err(error.clone());
    }

    let packets = (after.received - before.received) as f64;
    let runs = after.program.1.saturating_sub(before.program.1);
    if packets == 0.0 || runs == 0 {
        return Err(format!("{packets} packets came, and the program ran {runs} times"));
    }
    Ok(Measured {
        program: (after.program.0 - before.program.0).as_nanos() as f64 / runs as f64,
        forwarding: (after.busy[0] - before.busy[0]) / packets,
        machine: (after.busy[1] - before.busy[1]) / packets,
        by_turns,
        lost: [sent.saturating_sub(received), lost_copies].map(|lost| lost as f64 * 1e6 / sent.max(1) as f64),
        wakes: [wakes(&after.snapshot) - wakes(&before.snapshot), after.waits - before.waits]
            .map(|count| count as f64 / packets),
    })
}

/// Packets per second where the source sends the next ones as soon as those before have come: all of it is on one CPU,
/// so this is what forwarding costs there.
fn by_turns(network: &Network, window: Duration) -> Result<f64, String> {
    let sinks = Sinks::attach(SINK, &network.sink, &["eth0".into()])?;
    let frame = frame::frame(NUMBER);
    let source = Source {
        namespace: &network.source,
        interface: "eth0",
        frame: &frame,
        numbered: 0,
        apart: 0,
        burst: BURST,
        copies: 1,
        counts: sinks.descriptor()?,
        cpu: CPU,
    };
    source.run(window / 8)?;
    let start = Instant::now();
    let streamed = source.run(window / 2)?;
    match streamed.lost {
        0 => Ok(streamed.arrived as f64 / start.elapsed().as_secs_f64()),
        lost => Err(format!("{lost} packets were lost by turns")),
    }
}

/// How long each XDP program of the machine has run, and how often.
fn programs() -> BTreeMap<u32, (Duration, u64)> {
    // One that has just ended is none.
    let all = loaded_programs().filter_map(Result::ok);
    let xdp = all.filter(|info| info.program_type().is_ok_and(|of| of == ProgramType::Xdp));
    xdp.map(|info| (info.id(), (info.run_time(), info.run_count()))).collect()
}

/// As [`crate::veth::busy`], of one CPU.
fn busy_of(cpu: usize) -> Result<f64, String> {
    let stat = std::fs::read_to_string("/proc/stat").map_err(text)?;
    let line = stat.lines().find_map(|line| line.strip_prefix(&format!("cpu{cpu} ")));
    crate::veth::busy_in(line.unwrap_or(""))
}

/// How often a thread of this process has waited, by its name.
fn waits(name: &str) -> Result<u64, String> {
    for task in std::fs::read_dir("/proc/self/task").map_err(text)? {
        let task = task.map_err(text)?.path();
        if std::fs::read_to_string(task.join("comm")).is_ok_and(|own| own.trim() == name) {
            let status = std::fs::read_to_string(task.join("status")).map_err(text)?;
            let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
            return line.and_then(|count| count.trim().parse().ok()).ok_or("a thread without a count".into());
        }
    }
    Err(format!("there is no thread {name}"))
}
