//! What fuzzers call: each target takes bytes as an enemy sends them, and panics where something is wrong.
//!
//! `make fuzz T=NAME` runs one under libFuzzer (fuzz/libfuzzer); the tests of this crate run all of them over their
//! seeds and some thousand mutations, the same in every run.

mod mutate;
mod seeds;
mod targets;

pub use mutate::Mutator;
pub use targets::{
    assembly, body, control, fragments, head, http, labfile, members, packet, parser, recording, rtsp, segment,
    settings, splicer, text, web,
};

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
pub const TARGETS: [Target; 20] = [
    Target { name: "parser", run: parser::run, seeds: seeds::programs, words: parser::WORDS },
    Target { name: "config", run: settings::run, seeds: seeds::configurations, words: settings::WORDS },
    Target { name: "packet", run: packet::run, seeds: seeds::packets, words: &[] },
    Target { name: "control", run: control::run, seeds: seeds::requests, words: control::WORDS },
    Target { name: "lab", run: labfile::run, seeds: seeds::labs, words: labfile::WORDS },
    Target { name: "text", run: text::run, seeds: seeds::packet_texts, words: text::WORDS },
    Target { name: "head", run: head::run, seeds: seeds::heads, words: head::WORDS },
    Target { name: "body", run: body::run, seeds: seeds::bodies, words: body::WORDS },
    Target { name: "segment", run: segment::run, seeds: seeds::segments, words: &[] },
    Target { name: "assembly", run: assembly::run, seeds: seeds::streams, words: &[] },
    Target { name: "icmp", run: segment::error, seeds: seeds::icmp_errors, words: &[] },
    Target { name: "neighbour", run: segment::answer, seeds: seeds::answers, words: &[] },
    Target { name: "fragments", run: fragments::run, seeds: seeds::fragments, words: &[] },
    Target { name: "rtsp", run: rtsp::run, seeds: seeds::rtsp, words: rtsp::WORDS },
    Target { name: "rtcp", run: rtsp::report, seeds: seeds::reports, words: &[] },
    Target { name: "recording", run: recording::run, seeds: recording::seeds, words: recording::WORDS },
    Target { name: "members", run: members::run, seeds: members::seeds, words: members::WORDS },
    Target { name: "http", run: http::run, seeds: seeds::http, words: http::WORDS },
    Target { name: "web", run: web::run, seeds: web::seeds, words: web::WORDS },
    Target { name: "splicer", run: splicer::run, seeds: seeds::conversations, words: splicer::WORDS },
];

/// The target of this name.
pub fn target(name: &str) -> Result<Target, String> {
    let names = TARGETS.map(|target| target.name).join(", ");
    TARGETS.into_iter().find(|target| target.name == name).ok_or(format!("no target {name:?}; there are {names}"))
}
