//! What fuzzers call: each target takes bytes as an enemy sends them, and panics where something is wrong.
//!
//! `make fuzz T=NAME` runs one under libFuzzer (fuzz/libfuzzer); the tests of this crate run all of them over their seeds and
//! some thousand mutations, the same in every run.

mod mutate;
mod seeds;
mod targets;

pub use mutate::Mutator;
pub use targets::{control, labfile, packet, parser, settings, text};

/// Something to be fuzzed.
#[derive(Clone, Copy)]
pub struct Target {
    /// Its name.
    pub name: &'static str,
    /// Takes one input; panics where something is wrong.
    pub run: fn(&[u8]),
    /// Good and bad inputs to begin with.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Pieces that inputs are made of, for mutations.
    pub words: &'static [&'static str],
}

/// All targets.
pub const TARGETS: [Target; 6] = [
    Target { name: "parser", run: parser::run, seeds: seeds::programs, words: parser::WORDS },
    Target { name: "config", run: settings::run, seeds: seeds::configurations, words: settings::WORDS },
    Target { name: "packet", run: packet::run, seeds: seeds::packets, words: &[] },
    Target { name: "control", run: control::run, seeds: seeds::requests, words: control::WORDS },
    Target { name: "lab", run: labfile::run, seeds: seeds::labs, words: labfile::WORDS },
    Target { name: "text", run: text::run, seeds: seeds::packet_texts, words: text::WORDS },
];

/// The target of this name.
pub fn target(name: &str) -> Result<Target, String> {
    let names = TARGETS.map(|target| target.name).join(", ");
    TARGETS.into_iter().find(|target| target.name == name).ok_or(format!("no target {name:?}; there are {names}"))
}
