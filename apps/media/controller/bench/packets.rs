//! The published table: what each part of the way of an RTP packet of 1024 bytes takes, on a worker and in XDP, and in
//! the model of the processor of the publication; and the plot of the first packets.
//!
//! The parts are told apart by three programs: one that drops what comes in, one that sends it on as it is, and the
//! proxy. On workers the engine runs alone, in memory; in the kernel each packet goes through the kernel's test run.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use baker::ir::{Program, TableStore};
use baker::opt::Level;
use codegen::kernel::Options;
use control::config::Config;
use dataplane::bench::Rig;
use dataplane::xdp::{Partitioned, partition};
use dataplane::{EngineKind, TableAccess};
use serde_json::Value as Json;
use wire::checksum;

use crate::apps::case::{App, Trace};
use crate::results::Results;
use crate::{Effort, race, text};

/// Of the RTP packet, as published.
const BYTES: usize = 1024;
/// Packets of the plot, as published.
const PACKETS: usize = 3200;
/// A packet's time and the rate of the publication's proxy, on an IXP1200.
const PUBLISHED: (f64, f64) = (7900.0, 1.036);
/// The interface that test runs come in by.
const LOOPBACK: u32 = 1;
/// Ports of the example configuration.
const VIEWERS: u8 = 1;
const SERVERS: u8 = 2;
/// The model of the publication's processor.
const PLATFORM: &str = "ixp1200";

const INGRESS: &str = "import \"net/ether\";\ndrop_reason taken;\nmodule own {\n    in ether input;\n    \
                       ppf take(ether_packet_t *pkt) from input { packet_drop(pkt, taken); }\n}\n\
                       program { rx -> own.input; }\n";
const PASS: &str = "import \"net/ether\";\nmodule own {\n    in ether input;\n    out ether output;\n    \
                    ppf pass(ether_packet_t *pkt) from input {\n        pkt->metadata.tx.port = 1;\n        \
                    channel_put(output, pkt);\n    }\n}\nprogram { rx -> own.input; own.output -> tx; }\n";
/// The flow that the packets are of, its receiver, and the way there.
const FLOW: &str = r#"
[[tables.streams.flows]]
key = { src = "::ffff:10.0.2.11", dst = "::ffff:10.0.2.1", src_port = 6970, dst_port = 20000 }
value = { dst = "::ffff:10.0.1.11", src = "::ffff:10.0.1.1", dst_port = 5000, src_port = 8000, ssrc = 195939070, timestamp = 4000000000, sequence = 65000, leads = 1, tapped = false, rate = 90000, track = 0, generation = 0 }

[tables.routes.hops]
1024 = { action = "NEXT_HOP_SEND", port = "viewers", src = "02:00:00:00:01:01", dst = "02:00:00:00:01:11", mtu = 1500, reason = "no_reason", ways = 0, first = 0, number = 1024 }

[tables.routes.routes4]
"10.0.1.11/32" = 1024
"#;
/// Names of the parts: a program's time less that of the one before, in this order.
const PARTS: [&str; 3] = ["ingress", "enqueueing", "classification, forwarding, header modification"];

/// The programs, with the tables of the last one.
struct Programs {
    all: [Arc<Program>; 3],
    config: Config,
    /// As it is written to a file.
    tables: String,
}

impl Programs {
    fn new() -> Result<Programs, String> {
        let app = App::new("media")?;
        let small = |name: &str, source| crate::compile::program(name, source).map(Arc::new);
        let tables = format!("[ports.viewers]\nnumber = {VIEWERS}\n[ports.servers]\nnumber = {SERVERS}\n{FLOW}");
        let config = app.configured(&format!("{tables}[controllers.media]\norigins = [\"10.0.2.0/24\"]\n"))?;
        Ok(Programs {
            all: [small("ingress.baker", INGRESS)?, small("pass.baker", PASS)?, app.program],
            config,
            tables,
        })
    }

    fn fill<S: TableStore + ?Sized>(&self, program: usize, tables: &mut S) -> Result<(), String> {
        if program == 2 { self.config.fill(&self.all[2], tables).map_err(text) } else { Ok(()) }
    }

    fn rig(&self, program: usize) -> Result<Rig, String> {
        Rig::new(&self.all[program], EngineKind::NATIVE, |tables| self.fill(program, tables)).map_err(text)
    }
}

/// An RTP packet of the flow, the stream's packet of this number.
fn frame(number: usize) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 2, 1, 2, 0, 0, 0, 2, 0x11, 8, 0];
    let udp = 8 + BYTES;
    let mut ip = vec![0x45, 0];
    ip.extend((20 + udp as u16).to_be_bytes());
    ip.extend([0, 0, 0x40, 0, 64, 17, 0, 0, 10, 0, 2, 11, 10, 0, 2, 1]);
    let sum = checksum::checksum(&ip, 0);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    frame.extend(ip);
    for word in [6970, 20_000, udp as u16, 0x1234] {
        frame.extend(word.to_be_bytes());
    }
    frame.extend([0x80, 33]);
    frame.extend((number as u16).to_be_bytes());
    frame.extend((number as u32 * 180).to_be_bytes());
    frame.extend(0x1122_3344u32.to_be_bytes());
    frame.extend((12..BYTES).map(|at| at as u8));
    frame
}

/// All of it.
pub fn measure(effort: Effort, plots: bool, results: &mut Results) -> Result<(), String> {
    let programs = Programs::new()?;
    let runs = if effort.quick { 1 } else { 7 };
    let clock = cycles_per_ns();
    let mut series = vec![("worker", race::pinned(|| workers(&programs, effort, runs, clock, results))?)];
    if lab::has_privileges().map_err(text)? {
        series.push(("XDP", race::pinned(|| kernel(&programs, runs, clock, results))?));
    } else {
        results.note("parts in XDP: not measured, they need root");
    }
    results.add("whole way", "published", "ns_per_packet", "ns", vec![PUBLISHED.0]);
    results.add("whole way", "published", "gbps", "Gbit/s of RTP", vec![PUBLISHED.1]);
    model(&programs, results)?;
    if plots {
        let folder = Path::new("target/bench");
        std::fs::create_dir_all(folder).map_err(text)?;
        std::fs::write(folder.join("media.svg"), plot(&series, clock)).map_err(text)?;
        results.note("The first 3200 packets: target/bench/media.svg");
    }
    Ok(())
}

/// Adds the rows of a system, from the times of the three programs in ns, run by run.
fn rows(system: &str, times: &[Vec<f64>; 3], clock: Option<f64>, results: &mut Results) {
    let mut add = |case: &str, values: Vec<f64>| {
        if let Some(clock) = clock {
            let cycles = values.iter().map(|ns| ns * clock).collect();
            results.add(case, system, "cycles_per_packet", "cycles of the time stamp counter", cycles);
        }
        results.add(case, system, "ns_per_packet", "ns", values);
    };
    for (part, name) in PARTS.into_iter().enumerate() {
        let before = |run: usize| if part == 0 { 0.0 } else { times[part - 1][run] };
        add(name, times[part].iter().enumerate().map(|(run, ns)| ns - before(run)).collect());
    }
    add("whole way", times[2].clone());
    let gbps = times[2].iter().map(|ns| BYTES as f64 * 8.0 / ns).collect();
    results.add("whole way", system, "gbps", "Gbit/s of RTP", gbps);
}

/// On a worker: ns of the first packets, one by one.
fn workers(
    programs: &Programs,
    effort: Effort,
    runs: usize,
    clock: Option<f64>,
    results: &mut Results,
) -> Result<Vec<f64>, String> {
    let trace: Trace = (0..PACKETS).map(|number| (SERVERS, frame(number))).collect();
    let mut rigs = [programs.rig(0)?, programs.rig(1)?, programs.rig(2)?];
    let rounds = (effort.kilopackets * 1000 / PACKETS as u32 / 4).max(1);
    let mut times: [Vec<f64>; 3] = Default::default();
    for run in 0..=runs {
        for (program, rig) in rigs.iter_mut().enumerate() {
            let measured = rig.run_trace(&trace, rounds);
            let expected = if program == 0 { 0 } else { measured.packets };
            if measured.outputs != expected {
                return Err(format!("{} of {} packets left program {program}", measured.outputs, measured.packets));
            }
            // The first run warms up caches and page tables.
            if run > 0 {
                times[program].push(measured.ns_per_packet);
            }
        }
    }
    rows("millrace workers", &times, clock, results);
    let mut cold = programs.rig(2)?;
    Ok(trace.iter().map(|one| cold.run_trace(std::slice::from_ref(one), 1).ns_per_packet).collect())
}

/// In the kernel: ns of the first packets, one by one.
fn kernel(programs: &Programs, runs: usize, clock: Option<f64>, results: &mut Results) -> Result<Vec<f64>, String> {
    let (mut times, mut first): ([Vec<f64>; 3], _) = (Default::default(), Vec::new());
    for (number, program) in programs.all.iter().enumerate() {
        let Partitioned { made: Some((memory, loaded)), .. } =
            partition(program, Level::Cgpc, Options::default()).map_err(text)?
        else {
            return Err(format!("nothing of program {number} runs in the kernel"));
        };
        programs.fill(number, &mut TableAccess::Native(memory.tables().clone()))?;
        for port in [VIEWERS, SERVERS] {
            loaded.ports().set_device(port, Some(LOOPBACK)).map_err(text)?;
        }
        memory.set_port(LOOPBACK, SERVERS, None, false);
        let one =
            |at: usize| -> Result<f64, String> { Ok(loaded.timed(&frame(at)).map_err(text)?.1.as_nanos() as f64) };
        let all = (0..PACKETS).map(one).collect::<Result<Vec<_>, _>>()?;
        if number == 2 {
            first = all;
        }
        for run in 1..=runs {
            let mut own = (run * PACKETS..(run + 1) * PACKETS).map(one).collect::<Result<Vec<_>, _>>()?;
            own.sort_by(f64::total_cmp);
            times[number].push(own[PACKETS / 2]);
        }
    }
    rows("millrace xdp", &times, clock, results);
    results.note("XDP: a test run of the kernel for each packet, whose reading of the clock is part of `ingress`.");
    Ok(first)
}

/// The same packets in the model of the publication's processor.
fn model(programs: &Programs, results: &mut Results) -> Result<(), String> {
    let millrace = std::env::current_exe().map_err(text)?.with_file_name("millrace");
    if !millrace.is_file() {
        results.note(format!("the model: not run, {} is not built: make build", millrace.display()));
        return Ok(());
    }
    let folder = Path::new("target/bench/media");
    std::fs::create_dir_all(folder).map_err(text)?;
    let (trace, config) = (folder.join("trace.pcap"), folder.join("trace.toml"));
    std::fs::write(&trace, pcap((0..PACKETS).map(frame))).map_err(text)?;
    std::fs::write(&config, &programs.tables).map_err(text)?;
    let mut command = Command::new(&millrace);
    command.args(["sim", "media", "--json", "--platform", PLATFORM, "--port", "servers", "--trace"]);
    let done = command.arg(&trace).arg("-c").arg(&config).output().map_err(text)?;
    if !done.status.success() {
        return Err(String::from_utf8_lossy(&done.stderr).into_owned());
    }
    let found: Json = serde_json::from_slice(&done.stdout).map_err(text)?;
    let build = &found["builds"]["cgpc"];
    let points = build["points"].as_array().ok_or("the model gave no points")?;
    let rate = |point: &Json| point["gbps"].as_f64();
    let best = points.iter().filter_map(rate).fold(0.0, f64::max);
    results.add("whole way", "model, ixp1200", "gbps", "Gbit/s of frames, all engines", vec![best]);
    results.add(
        "whole way",
        "model, ixp1200",
        "instructions",
        "per packet",
        build["instructions"].as_f64().into_iter().collect(),
    );
    Ok(())
}

/// A capture of frames (the format of libpcap, in microseconds, of Ethernet).
fn pcap(frames: impl Iterator<Item = Vec<u8>>) -> Vec<u8> {
    let words = |all: &[u32]| all.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    let mut file = words(&[0xa1b2_c3d4, 4 << 16 | 2, 0, 0, 65_535, 1]);
    for (number, frame) in frames.enumerate() {
        let length = frame.len() as u32;
        file.extend(words(&[0, number as u32, length, length]));
        file.extend(frame);
    }
    file
}

/// Cycles of the time stamp counter in a nanosecond, where there is one.
fn cycles_per_ns() -> Option<f64> {
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: reads a counter that every processor of this architecture has.
        let read = || unsafe { std::arch::x86_64::_rdtsc() };
        let (start, begin) = (Instant::now(), read());
        std::thread::sleep(Duration::from_millis(50));
        let (end, time) = (read(), start.elapsed());
        Some((end - begin) as f64 / time.as_nanos() as f64)
    }
    #[cfg(not(target_arch = "x86_64"))]
    None
}

/// Points of each packet as SVG: its number to the right, its cycles (or ns) upwards, to the greatest but the last
/// hundredth, which is cut off.
fn plot(series: &[(&str, Vec<f64>)], clock: Option<f64>) -> String {
    const WIDTH: f64 = 900.0;
    const HEIGHT: f64 = 400.0;
    const MARGIN: f64 = 60.0;
    let (factor, unit) = clock.map_or((1.0, "ns"), |clock| (clock, "cycles"));
    let mut all: Vec<f64> = series.iter().flat_map(|(_, values)| values.iter().map(|ns| ns * factor)).collect();
    all.sort_by(f64::total_cmp);
    let top = all.get(all.len().saturating_sub(1) * 99 / 100).copied().unwrap_or(1.0).max(1.0);
    let (x, y) =
        (|at: f64| MARGIN + at / PACKETS as f64 * WIDTH, |value: f64| MARGIN + HEIGHT * (1.0 - (value / top).min(1.0)));
    let (right, bottom) = (WIDTH + 2.0 * MARGIN, HEIGHT + 2.0 * MARGIN);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {right} {bottom}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"{MARGIN}\" y=\"24\">{unit} for each of the first {PACKETS} RTP packets of {BYTES} bytes</text>\n\
         <path d=\"M{MARGIN},{MARGIN}V{0}H{1}\" fill=\"none\" stroke=\"black\"/>\n",
        MARGIN + HEIGHT,
        MARGIN + WIDTH
    );
    for part in 0..=4 {
        let (value, at) = (top * f64::from(part) / 4.0, PACKETS as f64 * f64::from(part) / 4.0);
        let (below, beside) = (MARGIN + HEIGHT + 18.0, MARGIN - 6.0);
        let _ = writeln!(svg, "<text x=\"{beside}\" y=\"{:.1}\" text-anchor=\"end\">{value:.0}</text>", y(value));
        let _ = writeln!(svg, "<text x=\"{:.1}\" y=\"{below}\" text-anchor=\"middle\">{at:.0}</text>", x(at));
    }
    for (number, ((name, values), colour)) in series.iter().zip(["#1f77b4", "#d62728"]).enumerate() {
        let left = MARGIN + WIDTH - 200.0 + 100.0 * number as f64;
        let _ = writeln!(svg, "<text x=\"{left}\" y=\"24\" fill=\"{colour}\">{name}</text>");
        let _ = write!(svg, "<path stroke=\"{colour}\" stroke-width=\"2\" stroke-linecap=\"round\" d=\"");
        for (at, ns) in values.iter().enumerate() {
            let _ = write!(svg, "M{:.1},{:.1}h0", x(at as f64), y(ns * factor));
        }
        svg += "\"/>\n";
    }
    svg + "</svg>\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is measured is what is said: the first program takes all, the others send all on.
    #[test]
    fn programs_do_what_they_say() {
        let programs = Programs::new().unwrap();
        let trace: Trace = (0..10).map(|number| (SERVERS, frame(number))).collect();
        for (program, leave) in [(0, 0), (1, 10), (2, 10)] {
            let fill = |tables: &mut TableAccess| programs.fill(program, tables);
            let mut rig = Rig::new(&programs.all[program], EngineKind::Interp, fill).unwrap();
            let measured = rig.run_trace(&trace, 1);
            assert_eq!((measured.packets, measured.outputs), (10, leave), "program {program}");
            assert!(program != 2 || measured.snapshot.channel("forward4.output") == 10);
        }
    }

    #[test]
    fn a_plot_has_a_point_for_each_packet() {
        let svg = plot(&[("worker", vec![10.0; PACKETS]), ("XDP", vec![20.0; PACKETS])], None);
        assert_eq!(svg.matches("h0").count(), 2 * PACKETS);
        assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n"));
    }
}
