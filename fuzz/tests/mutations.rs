//! Each target over its seeds and some thousand mutations of them. What a fuzzer finds becomes a file in `fuzz/found/TARGET`,
//! which is run here for ever.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use fuzz::{Mutator, target};

/// Longer than any input may take, on a loaded machine.
const LIMIT: Duration = Duration::from_secs(10);

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
    for number in 0..mutations {
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
fn text() {
    run("text", 10_000);
}
