//! The interpreter and native code must agree: random Baker programs with random packets.
//!
//! A program's seed decides the program, its packets and what the control plane does. Environment:
//!
//! | variable | meaning |
//! |---|---|
//! | `PAIRS=n` | number of pairs of program and packet, 5000 if not set |
//! | `SEED=n` | this one program only |
//! | `FIRST_SEED=n` | seeds from here on, 0 if not set |
//! | `SHOW=1` | prints each program |
//! | `REDUCE=1` | makes a failing program smaller before it is shown |
//!
//! The programs under way lie in `differential-THREAD.baker` in cargo's directory for tests, for the case that one
//! crashes the process. A failure that was found is kept in `kept/`: NAME.baker and NAME.packets.

mod generate;
mod kernel;
mod mutants;
mod numbers;
mod packets;
mod profile;
mod reduce;
mod run;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use generate::Style;
use numbers::SplitMix64;
use packets::Packet;

/// Packets per program: so many one at a time, then so many as a batch.
const SINGLY: usize = 10;
const PACKETS: usize = 20;

/// What was seen where all engines agree, else what went wrong.
fn run(text: &str, packets: &[Packet], fill: u64) -> Result<run::Seen, String> {
    let run = || run::compile(text).and_then(|program| run::compare(&program, packets, SINGLY, fill));
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(result) => result,
        Err(panic) => Err(said(panic)),
    }
}

/// What a panic said.
fn said(panic: Box<dyn std::any::Any + Send>) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| text.to_string()));
    format!("panic: {}", text.unwrap_or_default())
}

fn number(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{name}={value} is no number")))
}

#[test]
fn random_programs() {
    let programs = number("PAIRS").unwrap_or(5000).div_ceil(PACKETS as u64);
    let first = number("FIRST_SEED").unwrap_or(0);
    let seeds = match number("SEED") {
        Some(seed) => seed..seed + 1,
        None => first..first + programs,
    };
    // Each thread takes every so many seeds.
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get().min(4));
    let part = |thread: usize| {
        let under_way = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("differential-{thread}.baker"));
        let mut seen = run::Seen::default();
        seeds.clone().skip(thread).step_by(threads).for_each(|seed| seen.add(&random_program(seed, &under_way)));
        seen
    };
    let mut seen = run::Seen::default();
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads)
            .map(|thread| {
                scope.spawn({
                    let part = &part;
                    move || part(thread)
                })
            })
            .collect();
        for part in running {
            seen.add(&part.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
    });
    println!("{seen:?}");
    if seen.programs >= 50 {
        assert_eq!(seen.missing(), [""; 0], "the programs never came to this");
    }
}

/// What was seen of the program with this seed. Panics where engines differ.
fn random_program(seed: u64, under_way: &Path) -> run::Seen {
    let program = generate::program(seed, Style::Any);
    if number("SHOW").is_some() {
        println!("// seed {seed}\n{}", program.text);
    }
    std::fs::write(under_way, format!("// seed {seed}\n{}", program.text)).expect("cargo's directory for tests");
    let mut numbers = SplitMix64::new(!seed);
    let packets: Vec<Packet> = (0..PACKETS).map(|_| packets::packet(&mut numbers, &program.headers)).collect();
    let error = match run(&program.text, &packets, seed) {
        Ok(seen) => return run::Seen { constructs: program.constructs, ..seen },
        Err(error) => error,
    };
    let text = match number("REDUCE") {
        Some(_) => smaller(&program.text, &packets, seed, &error),
        None => program.text,
    };
    let packets: Vec<String> = packets.iter().map(|(port, bytes)| run::show_packet(*port, bytes)).collect();
    // The failure once more, for the program that is shown.
    let again: Vec<Packet> = packets.iter().map(|line| packet(line)).collect();
    let error = run(&text, &again, seed).err().unwrap_or(error);
    panic!("seed {seed}: {error}\n{text}\n# packets, fill {seed}\n{}", packets.join("\n"));
}

/// Fails in the same way: refused, panicking or differing.
fn smaller(text: &str, packets: &[Packet], fill: u64, error: &str) -> String {
    let kind = |error: &str| error.split([':', ' ']).next().unwrap_or_default().to_string();
    let wanted = kind(error);
    std::panic::set_hook(Box::new(|_| {}));
    let reduced = reduce::reduce(text, |text| run(text, packets, fill).is_err_and(|found| kind(&found) == wanted));
    let _ = std::panic::take_hook();
    reduced
}

/// A line of a kept file: port, bytes.
fn packet(line: &str) -> Packet {
    let (port, hex) = line.split_once(' ').unwrap_or((line, ""));
    let byte = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("two hexadecimal digits");
    (port.parse().expect("a port"), (0..hex.len()).step_by(2).map(byte).collect())
}

/// Failures that were found once. NAME.packets: a line `fill SEED`, then a line per packet.
#[test]
fn kept_programs() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/differential/kept");
    let mut names: Vec<_> = std::fs::read_dir(dir).expect("kept/").map(|e| e.expect("an entry").path()).collect();
    names.retain(|path| path.extension().is_some_and(|e| e == "baker"));
    names.sort();
    for path in names {
        let text = std::fs::read_to_string(&path).expect("a program");
        let packets = std::fs::read_to_string(path.with_extension("packets")).expect("its packets");
        let (fill, packets) = packets.split_once('\n').expect("a line `fill SEED`");
        let fill = fill.strip_prefix("fill ").and_then(|seed| seed.parse().ok()).expect("a line `fill SEED`");
        let packets: Vec<Packet> = packets.lines().map(packet).collect();
        if let Err(error) = run(&text, &packets, fill) {
            panic!("{}: {error}", path.display());
        }
    }
}

/// Quick check of the generator alone, as many programs as `PAIRS` says pairs.
#[test]
#[ignore = "only for work on the generator"]
fn generated_programs_are_valid() {
    let first = number("FIRST_SEED").unwrap_or(0);
    let mut refused = 0;
    for seed in first..first + number("PAIRS").unwrap_or(2000) {
        let program = generate::program(seed, Style::Any);
        if let Err(error) = run::compile(&program.text) {
            println!("seed {seed}: {error}");
            refused += 1;
        }
    }
    assert_eq!(refused, 0);
}
