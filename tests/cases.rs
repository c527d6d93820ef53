//! Runs every packet case of every application and example, on every engine, with every access mode.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use baker::ir::{Program, Source};
use baker::opt::Level;
use codegen::OptLevel;
use codegen::kernel::{Hook, Options};
use control::cases::{self, Suite};
use dataplane::step::{Compiled, cuts};
use dataplane::{Access, EngineKind};

use applications::BUILT_IN;

#[path = "../crates/millrace/src/applications.rs"]
mod applications;
#[path = "support/compile.rs"]
mod common;

const ENGINES: [EngineKind; 3] =
    [EngineKind::Interp, EngineKind::Native(OptLevel::O0, Level::Base), EngineKind::NATIVE];

/// Applications with cases: folder and program.
fn applications() -> Vec<(PathBuf, Arc<Program>)> {
    applications_by(common::compile)
}

fn applications_by(compile: fn(&Path) -> Arc<Program>) -> Vec<(PathBuf, Arc<Program>)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut found = Vec::new();
    for entry in ["apps", "examples"].iter().flat_map(|folder| std::fs::read_dir(root.join(folder)).unwrap()) {
        let folder = entry.unwrap().path();
        let name = folder.file_name().unwrap().to_str().unwrap().to_owned();
        if folder.join("cases").is_dir() {
            found.push((folder.clone(), compile(&folder.join(format!("{name}.baker")))));
        }
    }
    for name in ["l3switch", "responder"] {
        assert!(found.iter().any(|(_, program)| program.name == name), "{name} in {}", root.display());
    }
    found
}

#[test]
fn all_cases_of_all_applications_on_all_engines() {
    run(applications(), &ENGINES);
}

/// Applications and examples whose fast path runs in the kernel.
const IN_KERNEL: [&str; 6] = ["l3switch", "mpls", "firewall", "splice", "tunnel", "media"];

/// Examples of which the same holds. They are not cut in front of each PPF: that would show nothing new.
const OF_THE_LIBRARY: [&str; 2] = ["nat44", "dual_stack"];

/// As much as can run in the kernel, what it does not finish on workers.
#[test]
fn applications_between_kernel_and_workers() {
    let names: Vec<_> = IN_KERNEL.into_iter().chain(OF_THE_LIBRARY).collect();
    let chosen = applications().into_iter().filter(|(_, program)| names.contains(&program.name.as_str()));
    let chosen: Vec<_> = chosen.collect();
    assert_eq!(chosen.len(), names.len());
    run(chosen, &[EngineKind::Kernel(Level::Cgpc)]);
}

/// The same at traffic control's hook, where hosts leave checksums to devices: programs are lowered for that.
#[test]
fn applications_at_traffic_control() {
    let names: Vec<_> = IN_KERNEL.into_iter().chain(OF_THE_LIBRARY).collect();
    let chosen = applications_by(common::compile_with_operations).into_iter();
    let chosen: Vec<_> = chosen.filter(|(_, program)| names.contains(&program.name.as_str())).collect();
    assert_eq!(chosen.len(), names.len());
    let mut failures = Vec::new();
    for (folder, program) in chosen {
        let partitioned = Compiled::in_kernel(&program, Level::Cgpc, OptLevel::O0, Hook::Tc).unwrap();
        let nothing = partitioned.why_nothing(&program);
        let compiled =
            partitioned.made.unwrap_or_else(|| panic!("nothing of {} is the kernel's: {nothing}", program.name));
        let mut suite = Suite::default();
        suite.add("tc", compiled, &[Access::default()]);
        // The forms of a program are one program to the controllers.
        suite.add("worker", Compiled::new(program.clone(), EngineKind::NATIVE).unwrap(), &[Access::default()]);
        let cases =
            cases::load_all(&folder.join("cases"), &program, BUILT_IN).unwrap_or_else(|error| panic!("{error}"));
        failures.extend(suite.failures(&cases).iter().map(ToString::to_string));
    }
    assert!(failures.is_empty(), "\n{}", failures.join("\n"));
}

/// And in front of each PPF: what crosses a channel is the packet and its metadata, wherever that is. With `CUTS=n` of
/// one in so many.
#[test]
fn applications_cut_at_every_channel() {
    let chosen = applications().into_iter().filter(|(_, program)| IN_KERNEL.contains(&program.name.as_str()));
    let one_in = std::env::var("CUTS").map_or(1, |text| text.parse().unwrap());
    let work: Vec<_> = chosen
        .flat_map(|(folder, program)| {
            let cases = Arc::new(cases::load_all(&folder.join("cases"), &program, BUILT_IN).unwrap());
            let cuts = cuts(&program);
            assert!(cuts.len() > 5, "{} cuts of {}", cuts.len(), program.name);
            // The first is none in front of a PPF.
            cuts.into_iter().skip(1).map(move |cut| (cases.clone(), cut))
        })
        .step_by(one_in)
        .zip([Level::Base, Level::Pac].into_iter().cycle())
        .collect();
    let next = AtomicUsize::new(0);
    let failures = Mutex::new(Vec::new());
    let part = || {
        while let Some(((cases, cut), level)) = work.get(next.fetch_add(1, Ordering::Relaxed)) {
            let mut suite = Suite::default();
            suite.add(
                "cut",
                Compiled::cut(cut, *level, OptLevel::O0, Options::default()).unwrap(),
                &[Access::default()],
            );
            let failed = suite.failures(cases).into_iter();
            let left: Vec<_> =
                cut.workers.channels.iter().filter(|channel| channel.from == Some(Source::Kernel)).collect();
            let names: Vec<_> = left.iter().map(|channel| channel.name.as_str()).collect();
            failures.lock().unwrap().extend(failed.map(|failure| format!("{names:?}: {failure}")));
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, |n| n.get().min(4)) {
            scope.spawn(part);
        }
    });
    let failures = failures.into_inner().unwrap();
    assert!(failures.is_empty(), "\n{}", failures.join("\n"));
}

/// Runs all cases of applications on engines, with each access mode.
fn run(applications: Vec<(PathBuf, Arc<Program>)>, engines: &[EngineKind]) {
    let mut failures = Vec::new();
    for (folder, program) in applications {
        let mut suite = Suite::default();
        for engine in engines {
            suite.add(engine.name(), Compiled::new(program.clone(), *engine).unwrap(), &Access::ALL);
        }
        let cases =
            cases::load_all(&folder.join("cases"), &program, BUILT_IN).unwrap_or_else(|error| panic!("{error}"));
        failures.extend(suite.failures(&cases).iter().map(ToString::to_string));
    }
    assert!(failures.is_empty(), "\n{}", failures.join("\n"));
}
