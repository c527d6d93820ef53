//! One program takes over from another while packets pass: what is lost, how long a packet waits at most, how long it
//! takes.
//!
//! The L3 switch takes over from itself, compiled anew. Frames are numbered and come at a rate that each system can
//! take.

use std::sync::Arc;
use std::time::{Duration, Instant};

use baker::ir::Program;
use dataplane::{EngineKind, Instance, PollMode};
use lab::LinkConfig;

use crate::l3::setup::Setup;
use crate::results::Results;
use crate::veth::{Line, Sockets, with_fast_path};
use crate::{Effort, l3, text};

/// Frames per second.
const RATE: u64 = 50_000;
/// For frames that are on their way at the end.
const PATIENCE: Duration = Duration::from_secs(5);
/// Between two reloads, and before the first.
const PAUSE: Duration = Duration::from_millis(200);
/// Flows.
const FLOWS: u16 = 1000;

/// What happens while packets pass.
#[derive(Clone, Copy, PartialEq)]
enum Act {
    Nothing,
    /// The next program is compiled and given its tables, and does not take over: what the CPU time for that costs.
    Prepare,
    Reload,
}

const ACTS: [(&str, Act); 3] = [(", no reload", Act::Nothing), (", only prepared", Act::Prepare), ("", Act::Reload)];

/// Measures `xdp`, in the kernel, and `worker`, on AF_XDP, each beside what happens without reloads, and when they only
/// prepare.
pub fn measure(effort: Effort, results: &mut Results) -> Result<(), String> {
    let program = Arc::new(l3::program()?);
    let reloads = if effort.quick { 3 } else { 50 };
    for (case, routes) in [("reload, 16 routes", 16), ("reload, 1000000 routes", 1_000_000)] {
        if effort.quick && routes > 16 {
            continue;
        }
        for (system, in_kernel) in [("xdp", true), ("worker", false)] {
            for (suffix, act) in ACTS {
                let name = format!("{system}{suffix}");
                let what = (act, if act == Act::Nothing { 0 } else { reloads });
                run(&program, case, &name, in_kernel, routes, what, results)
                    .map_err(|error| format!("{case}: {name}: {error}"))?;
            }
        }
    }
    results.note(format!(
        "{reloads} reloads of the L3 switch by itself, at {RATE} frames per second; waiting is from the sender's system call to the sink's device"
    ));
    Ok(())
}

fn run(
    program: &Arc<Program>,
    case: &str,
    system: &str,
    in_kernel: bool,
    routes: u32,
    (act, reloads): (Act, u32),
    results: &mut Results,
) -> Result<(), String> {
    let setup = Setup::new(program, routes);
    let line = Line::through([LinkConfig::port(), LinkConfig::port()], false)?;
    let fill = |tables: &mut _| setup.fill(program, tables);
    let mut instance = match in_kernel {
        true => with_fast_path(&line.system, program, PollMode::Interrupt, fill)?,
        false => line.instance(program, EngineKind::NATIVE, Sockets::AfXdp, fill)?,
    };
    let (generator, sink) = line.numbered(&setup.routed_flows(FLOWS), RATE)?;
    std::thread::sleep(PAUSE);
    let (mut ready, mut taken) = (Vec::new(), Vec::new());
    for _ in 0..reloads {
        let (prepare, take) = reload(&mut instance, program, act)?;
        ready.push(prepare.as_secs_f64() * 1e3);
        taken.extend(take.map(|take| take.as_secs_f64() * 1e3));
        std::thread::sleep(PAUSE / 4);
    }
    std::thread::sleep(PAUSE);
    let sent = generator.stop().map_err(text)?;
    let received = sink.stop_after(sent.packets, PATIENCE).map_err(text)?;
    let mut add = |metric, unit, value| results.add(case, system, metric, unit, vec![value]);
    add("sent", "packets", sent.packets as f64);
    add("lost", "packets", received.lost(&sent) as f64);
    add("duplicated", "packets", received.duplicated as f64);
    add("reordered", "packets", received.reordered as f64);
    add("wait_p50", "us", received.latency(50.0).as_secs_f64() * 1e6);
    add("wait_p99", "us", received.latency(99.0).as_secs_f64() * 1e6);
    add("wait_most", "us", received.latency(100.0).as_secs_f64() * 1e6);
    results.add(case, system, "prepare", "ms", ready);
    results.add(case, system, "take_over", "ms", taken);
    Ok(())
}

/// How long it took to compile the program and to make what it needs, and to let it take over.
fn reload(instance: &mut Instance, program: &Program, act: Act) -> Result<(Duration, Option<Duration>), String> {
    let start = Instant::now();
    let next = instance.next(program, Vec::new()).map_err(text)?;
    instance.copy(&next, |_, _| true).map_err(text)?;
    let prepared = start.elapsed();
    if act == Act::Prepare {
        return Ok((prepared, None));
    }
    let errors = instance.take_over(next);
    if !errors.is_empty() {
        return Err(errors.join("; "));
    }
    Ok((prepared, Some(start.elapsed() - prepared)))
}
