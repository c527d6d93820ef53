//! In memory with one worker and with two, over the same tables: what sharing them costs.

use std::sync::Barrier;

use baker::ir::Program;
use dataplane::EngineKind;
use dataplane::bench::Rig;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;

use super::memory::Case;
use crate::Effort;
use crate::results::Results;

/// Packets per second of all workers together, each on a CPU of its own.
pub fn measure(program: &Program, effort: Effort, results: &mut Results) -> Result<(), String> {
    let cpus = std::thread::available_parallelism().map_or(1, |n| n.get());
    for case in [Case::bridged(program), Case::routes(program, 16, 4096)] {
        for workers in [1, 2] {
            if workers > cpus {
                results.note("two workers: not measured, there is one CPU");
                continue;
            }
            let mut rigs = case.workers(EngineKind::NATIVE, workers)?;
            let rounds = (effort.kilopackets * 1000 / case.packets.len() as u32).max(1);
            let mut values = Vec::new();
            for run in 0..=effort.runs {
                let mpps = together(&mut rigs, &case.packets, rounds)?;
                // The first run warms up caches and page tables.
                if run > 0 {
                    values.push(mpps);
                }
            }
            let workers = if workers == 1 { "1 worker".into() } else { format!("{workers} workers") };
            results.add(&format!("{}, {workers}", case.name), "millrace", "mpps", "M packets/s", values);
        }
    }
    Ok(())
}

/// All at the same time; the sum of what each processes per microsecond of its own.
fn together(rigs: &mut [Rig], packets: &[Vec<u8>], rounds: u32) -> Result<f64, String> {
    let start = Barrier::new(rigs.len());
    std::thread::scope(|scope| {
        let running: Vec<_> = rigs
            .iter_mut()
            .enumerate()
            .map(|(cpu, rig)| {
                let start = &start;
                scope.spawn(move || {
                    let mut cpus = CpuSet::new();
                    let pinned = cpus.set(cpu).and_then(|()| sched_setaffinity(Pid::from_raw(0), &cpus));
                    start.wait();
                    pinned.map_err(|error| format!("CPU {cpu}: {error}"))?;
                    Ok(1e3 / rig.run(1, packets, rounds).ns_per_packet)
                })
            })
            .collect();
        running.into_iter().map(|one| one.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))).sum()
    })
}
