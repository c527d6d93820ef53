//! In memory: the sides of a comparison take turns over the same packets.

use dataplane::bench::{Measured, Rig};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;

use crate::Effort;
use crate::results::Results;

/// One side of a comparison.
pub struct Side {
    name: &'static str,
    rig: Rig,
    /// Gets so many times fewer packets.
    slower: u32,
    /// ns per packet of each run, by way of running.
    values: Vec<Vec<f64>>,
}

impl Side {
    /// A system by its name.
    pub fn new(name: &'static str, rig: Rig) -> Self {
        Side { name, rig, slower: 1, values: Vec::new() }
    }

    /// The same with so many times fewer packets.
    pub fn slower(self, times: u32) -> Self {
        Side { slower: times, ..self }
    }
}

/// What the sides run.
pub struct Race<'a> {
    /// The case's name in each way of running it.
    pub cases: &'a [String],
    /// Packets of one round.
    pub packets: u32,
    /// Packets of these that leave; where it is not known, as many as leave the first side.
    pub outputs: Option<u64>,
}

impl Race<'_> {
    /// Measures all sides in turn and adds their rows. `run` gets the way of running, by its place in `cases`, and the
    /// number of rounds.
    pub fn measure(
        self,
        sides: &mut [Side],
        effort: Effort,
        results: &mut Results,
        mut run: impl FnMut(&mut Rig, usize, u32) -> Measured,
    ) -> Result<(), String> {
        let mut outputs = self.outputs;
        for turn in 0..=effort.runs {
            for (variant, case) in self.cases.iter().enumerate() {
                // The figures of what is far slower do not depend on the way.
                for side in sides.iter_mut().filter(|side| variant == 0 || side.slower == 1) {
                    let rounds = (effort.kilopackets * 1000 / self.packets / side.slower).max(1);
                    let measured = run(&mut side.rig, variant, rounds);
                    let expected = outputs.get_or_insert(measured.outputs / u64::from(rounds));
                    if measured.outputs != *expected * u64::from(rounds) {
                        let (name, out, all) = (side.name, measured.outputs, measured.packets);
                        let wanted = *expected * u64::from(rounds);
                        return Err(format!("{case}: {out} of {all} packets came out of {name}, not {wanted}"));
                    }
                    side.values.resize(self.cases.len(), Vec::new());
                    // The first run warms up caches and page tables.
                    if turn > 0 {
                        side.values[variant].push(measured.ns_per_packet);
                    }
                }
            }
        }
        for (variant, case) in self.cases.iter().enumerate() {
            for side in sides.iter_mut() {
                let values = std::mem::take(&mut side.values[variant]);
                results.add(case, side.name, "ns_per_packet", "ns", values);
            }
        }
        Ok(())
    }
}

/// Runs something on a thread that stays on the last CPU.
pub fn pinned<T: Send>(work: impl FnOnce() -> Result<T, String> + Send) -> Result<T, String> {
    let on_last = || {
        let mut cpus = CpuSet::new();
        let last = std::thread::available_parallelism().map_or(0, |n| n.get() - 1);
        cpus.set(last)
            .and_then(|()| sched_setaffinity(Pid::from_raw(0), &cpus))
            .map_err(|e| format!("CPU {last}: {e}"))?;
        work()
    };
    let ended = std::thread::scope(|scope| scope.spawn(on_last).join());
    ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
