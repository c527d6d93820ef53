//! The lab's link emulator: how many packets it carries, and how exact its delays are.
//!
//! ```text
//! source eth0 ══ emulator ══ eth0 sink
//! ```
//!
//! The generator and the sink share one CPU, the emulator's thread has the other. There is no peer: netem, which does
//! this work in the kernel, is not in every kernel, and a delay of its own adds to none of ours.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use lab::{
    Direction, Distribution, Emulator, Flow, Generator, Impairments, Jitter, LinkConfig, Loss, Namespace, Reorder,
    Sink, Traffic, Transport, Wire, veth,
};

use crate::results::Results;
use crate::{Effort, text};

const SYSTEM: &str = "emulator";
/// CPU of the generator and the sink.
const OTHER_CPU: usize = 1;
/// CPU that the emulator has for itself.
const EMULATOR_CPU: usize = 0;
const DELAY: Duration = Duration::from_millis(10);
/// Frame lengths in bytes, without checksum.
const LENGTHS: [usize; 2] = [60, 1514];
/// Packets per second at which delays are measured.
const RATES: [u64; 3] = [1_000, 100_000, 500_000];
const MACS: (lab::Mac, lab::Mac) = ([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);

/// Measures.
pub fn run(effort: Effort) -> Result<Results, String> {
    let mut results = Results::default();
    if !lab::has_privileges().map_err(text)? {
        results.note("not measured: it needs root");
        return Ok(results);
    }
    if std::thread::available_parallelism().map_or(1, |n| n.get()) < 2 {
        results.note("not measured: it needs two CPUs");
        return Ok(results);
    }
    let (runs, window) = if effort.quick { (1, 300) } else { (5, 1000) };
    let window = Duration::from_millis(window);
    throughput(runs, window, &mut results)?;
    delays(runs, window, &mut results)?;
    Ok(results)
}

fn cases() -> [(&'static str, Impairments); 4] {
    let nothing = Impairments::default();
    [
        ("nothing", nothing.clone()),
        ("10 ms", Impairments { delay: DELAY, ..nothing.clone() }),
        (
            "10 ms, 10 Gbit/s, 1 % lost, doubled, reordered",
            Impairments {
                delay: DELAY,
                rate: Some(10_000_000_000),
                loss: Loss::Random(0.01),
                duplicate: 0.01,
                reorder: Reorder { probability: 0.01, gap: 3, ..Reorder::default() },
                ..nothing.clone()
            },
        ),
        (
            "10 ms, 2 ms of jitter",
            Impairments {
                delay: DELAY,
                jitter: Jitter { spread: Duration::from_millis(2), distribution: Distribution::Normal, overtake: true },
                ..nothing
            },
        ),
    ]
}

/// As many packets as the generator sends: how many come out, and how much of a core that takes. While the emulator
/// waits for the next packet it looks at the clock, so the latter is its cost only where the generator sends more than
/// it carries.
fn throughput(runs: usize, window: Duration, results: &mut Results) -> Result<(), String> {
    let mut values = Vec::new();
    for length in LENGTHS {
        let mut alone = Vec::new();
        let mut each: Vec<(String, Vec<f64>, Vec<f64>)> = Vec::new();
        for (name, _) in cases() {
            each.push((format!("{length} bytes, {name}"), Vec::new(), Vec::new()));
        }
        for _ in 0..runs {
            alone.push(without(length, window)?);
            for ((_, impairments), (case, rates, per_core)) in cases().into_iter().zip(&mut each) {
                let (rate, time) = flood(impairments, length, window)?;
                if rate == 0.0 || time == 0.0 {
                    results.note(format!("{case}: a run was left out in which the machine let no packet through"));
                    continue;
                }
                rates.push(rate);
                per_core.push(rate / time);
            }
        }
        values.push((length, alone, each));
    }
    for (length, alone, each) in values {
        results.add(&format!("{length} bytes"), "veth alone", "mpps", "million packets/s", alone);
        for (case, rates, per_core) in each {
            results.add(&case, SYSTEM, "mpps", "million packets/s", rates);
            results.add(&case, SYSTEM, "mpps_per_core", "million packets/s of CPU time", per_core);
        }
    }
    Ok(())
}

fn traffic(length: usize) -> Result<Traffic, String> {
    let address = ([192, 0, 2, 1].into(), [192, 0, 2, 2].into());
    let flow = |port| Flow { mac: MACS, address, transport: Transport::Udp { ports: (port, 9) } };
    let flows: Vec<Flow> = (1024..1088).map(flow).collect();
    Ok(Traffic::flows(&flows, &[length]).map_err(text)?.cpu(OTHER_CPU))
}

/// What the generator alone gets into a veth pair, in million packets per second.
fn without(length: usize, window: Duration) -> Result<f64, String> {
    let (source, sink) = hosts()?;
    veth(&source, "eth0", &sink, "eth0").map_err(text)?;
    up(&[&source, &sink])?;
    let generator = Generator::start(&source, "eth0", traffic(length)?).map_err(text)?;
    let rate = rate(&sink, window, || Ok(()));
    drop(generator);
    rate
}

/// Million packets per second through an emulated link, and the emulator's share of a CPU.
fn flood(impairments: Impairments, length: usize, window: Duration) -> Result<(f64, f64), String> {
    let link = Link::new(impairments)?;
    let generator = Generator::start(&link.source, "eth0", traffic(length)?).map_err(text)?;
    let (mut before, mut started) = (Duration::ZERO, Instant::now());
    let rate = rate(&link.sink, window, || {
        (before, started) = (emulator_time()?, Instant::now());
        Ok(())
    })?;
    let (time, passed) = (emulator_time()? - before, started.elapsed());
    drop(generator);
    Ok((rate, time.as_secs_f64() / passed.as_secs_f64()))
}

/// How much later than asked for packets come out, at several rates, and whether they all do.
fn delays(runs: usize, window: Duration, results: &mut Results) -> Result<(), String> {
    type Values<const N: usize> = [Vec<f64>; N];
    let mut values = RATES.map(|rate| (rate, Values::<3>::default(), Values::<2>::default()));
    for _ in 0..runs {
        for (rate, late, shares) in &mut values {
            let link = Link::new(Impairments { delay: DELAY, ..Impairments::default() })?;
            let sink = Sink::start(&link.sink, "eth0", Some(OTHER_CPU)).map_err(text)?;
            let count = (*rate as f64 * window.as_secs_f64()) as u64;
            let generator =
                Generator::start(&link.source, "eth0", traffic(60)?.rate(*rate).count(count)).map_err(text)?;
            let sent = generator.wait(window * 10).map_err(text)?;
            let received = sink.stop_after(sent.packets, Duration::from_secs(1)).map_err(text)?;
            let us = |latency: Duration| (latency.as_secs_f64() - DELAY.as_secs_f64()) * 1e6;
            for (values, percentile) in late.iter_mut().zip([50.0, 99.0, 99.9]) {
                values.push(us(received.latency(percentile)));
            }
            let counters = link.emulator.counters(0, Direction::Forward);
            for (values, packets) in shares.iter_mut().zip([counters.late, received.lost(&sent)]) {
                values.push(packets as f64 / sent.packets as f64 * 1e6);
            }
            if counters.dropped() > 0 {
                return Err(format!("the emulator dropped packets: {counters:?}"));
            }
        }
    }
    for (rate, late, shares) in values {
        let case = format!("10 ms at {rate} packets/s");
        for (values, metric) in late.into_iter().zip(["late_p50", "late_p99", "late_p99.9"]) {
            results.add(&case, SYSTEM, metric, "us", values);
        }
        for (values, metric) in shares.into_iter().zip(["over_100us_late", "overrun"]) {
            results.add(&case, SYSTEM, metric, "packets of a million", values);
        }
    }
    Ok(())
}

fn hosts() -> Result<(Namespace, Namespace), String> {
    Ok((Namespace::new("source").map_err(text)?, Namespace::new("sink").map_err(text)?))
}

fn up(namespaces: &[&Namespace]) -> Result<(), String> {
    for namespace in namespaces {
        namespace.configure("eth0", &LinkConfig::port()).map_err(text)?;
    }
    for namespace in namespaces {
        namespace.wait_running("eth0", Duration::from_secs(5)).map_err(text)?;
    }
    Ok(())
}

struct Link {
    source: Namespace,
    sink: Namespace,
    emulator: Emulator,
}

impl Link {
    fn new(impairments: Impairments) -> Result<Link, String> {
        let (source, sink) = hosts()?;
        let wire = Wire::new((&source, "eth0"), (&sink, "eth0"), impairments);
        let emulator = Emulator::start_on(Some(EMULATOR_CPU), &[wire], 1).map_err(text)?;
        up(&[&source, &sink])?;
        emulator.wait_running().map_err(text)?;
        Ok(Link { source, sink, emulator })
    }
}

/// Million packets per second that reach a namespace, measured once they flow; `begin` is called when that begins.
fn rate(sink: &Namespace, window: Duration, begin: impl FnOnce() -> Result<(), String>) -> Result<f64, String> {
    std::thread::sleep(window / 4);
    begin()?;
    let (before, start) = (crate::received(sink)?, Instant::now());
    std::thread::sleep(window);
    let packets = crate::received(sink)? - before;
    Ok(packets as f64 / start.elapsed().as_secs_f64() / 1e6)
}

/// CPU time of this process's emulator thread; there is one at a time.
fn emulator_time() -> Result<Duration, String> {
    let tasks = std::fs::read_dir("/proc/self/task").map_err(text)?;
    let is_emulator =
        |task: &PathBuf| std::fs::read_to_string(task.join("comm")).is_ok_and(|c| c.trim() == "lab-links");
    let task =
        tasks.filter_map(|task| Some(task.ok()?.path())).find(is_emulator).ok_or("the emulator has no thread")?;
    // Time on a CPU, time spent waiting for one, both in ns; number of slices.
    let stat = std::fs::read_to_string(task.join("schedstat")).map_err(text)?;
    let time = stat.split_whitespace().next().and_then(|ns| ns.parse().ok());
    time.map(Duration::from_nanos).ok_or_else(|| "the kernel does not count a thread's time".to_owned())
}
