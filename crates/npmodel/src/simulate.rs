//! The whole: a trace on so many engines, with the better of all mappings.

use std::borrow::Cow;

use crate::event::{CYCLE, Outcome, run};
use crate::mapping::{Mapping, build, candidates};
use crate::paths::Traced;
use crate::platform::{Memory, Platform};

/// Packets at least that are run: shorter traces are run over and over.
const LEAST: u64 = 20_000;

/// Packets at most that are run: of longer traces as many, in stretches spread evenly over it. A rate has long settled
/// by then.
pub const MOST: usize = 250_000;

/// Packets of a stretch.
const STRETCH: usize = 1_000;

/// Packets with which mappings are compared.
const TRIAL: u64 = 4_000;

/// What a number of engines does.
#[derive(Clone, Debug)]
pub struct Point {
    /// Engines that run the program.
    pub engines: usize,
    /// The mapping that was chosen.
    pub mapping: Mapping,
    /// Whether its code fits into each engine.
    pub fits: bool,
    /// Received packets that were done, in bits per second on the line, with frame check sequence.
    pub bits_per_second: f64,
    /// The same in packets.
    pub packets_per_second: f64,
    /// Share of the packets that found no room where they came in.
    pub lost: f64,
    /// Share of the program's engines' time.
    pub cycles: Cycles,
    /// Utilisation of each memory, in the order of [`Memory::ALL`].
    pub utilisation: [f64; 3],
    /// Utilisation of the engines that receive, and of those that send.
    pub edges: [f64; 2],
}

/// Where the cycles of the program's engines went, as shares of 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cycles {
    /// Executing.
    pub busy: f64,
    /// All threads waited, and this memory was the first to answer; in the order of [`Memory::ALL`].
    pub waiting: [f64; 3],
    /// The next ring had no room.
    pub blocked: f64,
    /// No packet.
    pub idle: f64,
}

/// Runs a trace on so many engines. `offered` is the line's rate in bits per second; without it packets come as fast as
/// they are taken.
pub fn simulate(traced: &Traced, platform: &Platform, engines: usize, offered: Option<f64>) -> Point {
    let packets = stretches(&traced.packets);
    let total = LEAST.max(packets.len() as u64);
    let outcome = |mapping: &Mapping, total: u64| {
        let (hardware, jobs) = build(traced, mapping, platform, offered);
        run(&hardware, &jobs, &packets, total)
    };
    let fits = |mapping: &Mapping| mapping.code(traced) <= platform.engines.code_store.whole();
    let mut mappings = candidates(traced, engines);
    // What does not fit is taken only where nothing does.
    if mappings.iter().any(fits) {
        mappings.retain(fits);
    }
    let mut best = 0;
    if mappings.len() > 1 {
        let rates: Vec<f64> = mappings.iter().map(|mapping| outcome(mapping, TRIAL).rate()).collect();
        // The first of those that are equal.
        best = (0..rates.len()).rev().max_by(|a, b| rates[*a].total_cmp(&rates[*b])).unwrap_or(0);
    }
    let mapping = mappings.swap_remove(best);
    let outcome = outcome(&mapping, total);
    point(engines, fits(&mapping), mapping, &outcome, platform)
}

/// What of a trace is run.
fn stretches(packets: &[u32]) -> Cow<'_, [u32]> {
    if packets.len() <= MOST {
        return Cow::Borrowed(packets);
    }
    let count = MOST / STRETCH;
    let stretch = |number: usize| {
        let from = number * (packets.len() - STRETCH) / (count - 1);
        &packets[from..from + STRETCH]
    };
    Cow::Owned((0..count).flat_map(stretch).copied().collect())
}

fn point(engines: usize, fits: bool, mapping: Mapping, outcome: &Outcome, platform: &Platform) -> Point {
    let time = outcome.time.max(1) as f64;
    let seconds = time / CYCLE as f64 / platform.engines.clock_hz.get();
    let program = &outcome.stages[1..outcome.stages.len() - 1];
    let sum = |of: &dyn Fn(&crate::event::StageUse) -> u64| program.iter().map(of).sum::<u64>() as f64;
    let all = sum(&|s| s.busy + s.blocked + s.idle + s.waiting.iter().sum::<u64>()).max(1.0);
    let edge = |index: usize, count: u32| outcome.stages[index].busy as f64 / time / f64::from(count);
    Point {
        engines,
        mapping,
        fits,
        bits_per_second: outcome.bits as f64 / seconds,
        packets_per_second: outcome.packets as f64 / seconds,
        lost: outcome.lost as f64 / (outcome.lost + outcome.packets).max(1) as f64,
        cycles: Cycles {
            busy: sum(&|s| s.busy) / all,
            waiting: std::array::from_fn(|memory| sum(&|s| s.waiting[memory]) / all),
            blocked: sum(&|s| s.blocked) / all,
            idle: sum(&|s| s.idle) / all,
        },
        utilisation: Memory::ALL.map(|memory| outcome.memories[memory as usize].busy() as f64 / time),
        edges: [
            edge(0, platform.receive.engines.whole()),
            edge(outcome.stages.len() - 1, platform.transmit.engines.whole()),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_long_traces_stretches_from_beginning_to_end() {
        let all: Vec<u32> = (0..MOST as u32).collect();
        assert!(matches!(stretches(&all), Cow::Borrowed(packets) if packets.len() == MOST));
        let all: Vec<u32> = (0..4 * MOST as u32 + 7).collect();
        let some = stretches(&all);
        assert_eq!((some.len(), some[0], some[MOST - 1]), (MOST, 0, *all.last().unwrap()));
        let gaps: Vec<u32> = some.windows(2).map(|two| two[1] - two[0]).filter(|gap| *gap != 1).collect();
        assert_eq!(gaps.len(), MOST / STRETCH - 1);
        assert!(gaps.iter().all(|gap| (3000..3100).contains(gap)), "{gaps:?}");
    }
}
