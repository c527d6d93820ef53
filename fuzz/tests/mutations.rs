//! Each target over its seeds and some thousand mutations of them. What a fuzzer finds becomes a file in
//! `fuzz/found/TARGET`, which is run here for ever.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use fuzz::{Mutator, target};

/// Longer than any input may take, also where others have the machine, for this runs at low priority beside live tests.
const LIMIT: Duration = Duration::from_secs(60);

fn run(name: &str, mutations: usize) {
    let target = target(name).unwrap();
    let seeds = (target.seeds)();
    assert!(seeds.len() >= 4 && seeds.iter().all(|seed| !seed.is_empty()), "{} seeds", seeds.len());
    let try_one = |input: &[u8], what: &dyn Fn() -> String| {
        let start = Instant::now();
        let result = std::panic::catch_unwind(|| (target.run)(input));
        assert!(result.is_ok(), "{}, {} bytes:\n{}", what(), input.len(), String::from_utf8_lossy(input));
        assert!(start.elapsed() < LIMIT, "{}: it took {:?}", what(), start.elapsed());
    };
    for (number, seed) in seeds.iter().enumerate() {
        try_one(seed, &|| format!("{name}: seed {number}"));
    }
    let found = Path::new(env!("CARGO_MANIFEST_DIR")).join("found").join(name);
    for entry in fs::read_dir(&found).into_iter().flatten() {
        let path = entry.unwrap().path();
        try_one(&fs::read(&path).unwrap(), &|| path.display().to_string());
    }
    let mut mutator = Mutator::new(1, &seeds, target.words);
    // FUZZ_TIMES=100 makes so many times as many.
    let times: usize = std::env::var("FUZZ_TIMES").map_or(1, |times| times.parse().expect("FUZZ_TIMES is a number"));
    for number in 0..mutations * times {
        let input = mutator.next_input();
        try_one(&input, &|| format!("{name}: mutation {number}"));
    }
}

#[test]
fn parser() {
    run("parser", 3000);
}

#[test]
fn config() {
    run("config", 3000);
}

#[test]
fn lab() {
    run("lab", 10_000);
}

#[test]
fn packet() {
    run("packet", 5000);
}

#[test]
fn control() {
    run("control", 3000);
}

#[test]
fn web() {
    run("web", 3000);
}

#[test]
fn text() {
    run("text", 10_000);
}

#[test]
fn head() {
    run("head", 10_000);
}

#[test]
fn body() {
    run("body", 20_000);
}

#[test]
fn segment() {
    run("segment", 20_000);
}

#[test]
fn assembly() {
    run("assembly", 10_000);
}

#[test]
fn icmp() {
    run("icmp", 20_000);
}

#[test]
fn neighbour() {
    run("neighbour", 20_000);
}

#[test]
fn fragments() {
    run("fragments", 10_000);
}

#[test]
fn splicer() {
    run("splicer", 3000);
}

#[test]
fn rtsp() {
    run("rtsp", 10_000);
}

#[test]
fn recording() {
    run("recording", 3000);
}

#[test]
fn members() {
    run("members", 10_000);
}

#[test]
fn rtcp() {
    run("rtcp", 20_000);
}
