//! Side-by-side measurements: `make bench B=NAME`. Each prints a table and writes `target/bench/NAME.json`.
//!
//! The sides of a comparison are interleaved in one run and repeated; medians are quoted, with the least and the
//! greatest value. `QUICK=1` is a smoke run: it shows that a measurement still works, its figures mean nothing.

mod apps;
#[path = "../../apps/media/cache/bench/mod.rs"]
mod cache;
mod callgrind;
mod compile;
mod emulator;
mod eyes;
mod frames;
mod l3;
mod levels;
// An application's measurements lie in its folder.
#[path = "../../apps/media/controller/bench/mod.rs"]
mod media;
mod numbers;
mod paper;
mod peering;
mod race;
mod results;
mod routes;
#[path = "../../apps/splice/controller/bench/mod.rs"]
mod splice;
mod stream;
#[path = "../../apps/translate/controller/bench/mod.rs"]
mod translate;
mod veth;
mod web;
mod xdp;

use std::process::ExitCode;

/// How long to measure.
#[derive(Clone, Copy)]
pub struct Effort {
    /// Repetitions of each side.
    pub runs: usize,
    /// Packets per repetition, in thousands.
    pub kilopackets: u32,
    /// A smoke run.
    pub quick: bool,
}

type Bench = fn(Effort) -> Result<results::Results, String>;

const BENCHES: [(&str, Bench); 13] = [
    ("apps", apps::run),
    ("cache", cache::run),
    ("compile", compile::run),
    ("emulator", emulator::run),
    ("eyes", eyes::run),
    ("l3", l3::run),
    ("media", media::run),
    ("paper", paper::run),
    ("peering", peering::run),
    ("splice", splice::run),
    ("stream", stream::run),
    ("translate", translate::run),
    ("xdp", xdp::run),
];

/// A measurement in a process of its own.
type Child = fn(&[String]) -> Result<(), String>;

/// Children by their first argument, with the measurement that starts them.
const CHILDREN: [(&str, &str, Child); 2] = [
    (apps::instructions::CHILD, "apps", apps::instructions::child),
    (l3::instructions::CHILD, "l3", l3::instructions::child),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some((first, rest)) = arguments.split_first()
        && let Some((_, bench, child)) = CHILDREN.into_iter().find(|(name, ..)| name == first)
    {
        return ended(bench, child(rest));
    }
    let wanted = arguments.first().cloned().unwrap_or_default();
    let quick = std::env::var_os("QUICK").is_some_and(|q| q == "1");
    let effort =
        if quick { Effort { runs: 1, kilopackets: 20, quick } } else { Effort { runs: 15, kilopackets: 2000, quick } };
    let chosen: Vec<_> = BENCHES.iter().filter(|(name, _)| wanted == "all" || wanted == *name).collect();
    if chosen.is_empty() {
        let known: Vec<_> = BENCHES.iter().map(|(name, _)| *name).collect();
        eprintln!("bench: there is no `{wanted}`; there are: {}, all", known.join(", "));
        return ExitCode::FAILURE;
    }
    for (name, bench) in chosen {
        let result = bench(effort).and_then(|results| results.publish(name));
        if result.is_err() {
            return ended(name, result);
        }
    }
    ExitCode::SUCCESS
}

fn ended(name: &str, result: Result<(), String>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench {name}: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Packets that a namespace's eth0 has received.
fn received(namespace: &lab::Namespace) -> Result<u64, String> {
    let devices =
        namespace.enter(|| std::fs::read_to_string("/proc/thread-self/net/dev")).map_err(text)?.map_err(text)?;
    let line = devices.lines().find_map(|line| line.trim().strip_prefix("eth0:"));
    // Bytes, packets, …
    let packets = line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok());
    packets.ok_or_else(|| "the sink has no eth0".to_owned())
}

/// The path of the `millrace` that was built beside this program.
fn millrace_beside() -> Result<String, String> {
    Ok(std::env::current_exe().map_err(text)?.with_file_name("millrace").display().to_string())
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
