//! Runs every packet case of every application and example, on every engine, with every way to get at packets.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use baker::ir::{Program, Source};
use baker::opt::Level;
use codegen::OptLevel;
use control::cases::{self, Case};
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
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut found = Vec::new();
    for entry in ["apps", "examples"].iter().flat_map(|folder| std::fs::read_dir(root.join(folder)).unwrap()) {
        let folder = entry.unwrap().path();
        let name = folder.file_name().unwrap().to_str().unwrap().to_owned();
        if folder.join("cases").is_dir() {
            found.push((folder.clone(), common::compile(&folder.join(format!("{name}.baker")))));
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

/// Applications whose fast path runs in the kernel.
const IN_KERNEL: [&str; 4] = ["l3switch", "mpls", "firewall", "splice"];

/// As much as can run in the kernel, what it does not finish on workers.
#[test]
fn applications_between_kernel_and_workers() {
    let chosen = applications().into_iter().filter(|(_, program)| IN_KERNEL.contains(&program.name.as_str()));
    let chosen: Vec<_> = chosen.collect();
    assert_eq!(chosen.len(), IN_KERNEL.len());
    run(chosen, &[EngineKind::Kernel(Level::Cgpc)]);
}

/// And in front of each PPF: what crosses a channel is the packet and its metadata, wherever that is.
#[test]
fn applications_cut_at_every_channel() {
    let chosen = applications().into_iter().filter(|(_, program)| IN_KERNEL.contains(&program.name.as_str()));
    let work: Vec<_> = chosen
        .flat_map(|(folder, program)| {
            let cases = Arc::new(all_cases(&folder, &program));
            let cuts = cuts(&program);
            assert!(cuts.len() > 5, "{} cuts of {}", cuts.len(), program.name);
            // The first is none in front of a PPF.
            cuts.into_iter().skip(1).map(move |cut| (cases.clone(), cut))
        })
        .zip([Level::Base, Level::Pac].into_iter().cycle())
        .collect();
    let next = AtomicUsize::new(0);
    let failures = Mutex::new(Vec::new());
    let part = || {
        while let Some(((cases, cut), level)) = work.get(next.fetch_add(1, Ordering::Relaxed)) {
            let engine = Compiled::cut(cut, *level, OptLevel::O0).unwrap();
            let failed = cases.iter().filter_map(|case| cases::run(&engine, case).err());
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

fn all_cases(folder: &Path, program: &Program) -> Vec<Case> {
    let files = cases::files(&folder.join("cases")).unwrap();
    assert!(!files.is_empty(), "{}", folder.display());
    files.iter().map(|file| cases::load(file, program, BUILT_IN).unwrap_or_else(|error| panic!("{error}"))).collect()
}

/// Runs all cases of applications on engines.
fn run(applications: Vec<(PathBuf, Arc<Program>)>, engines: &[EngineKind]) {
    let mut failures = Vec::new();
    for (folder, program) in applications {
        let engines: Vec<_> = engines.iter().map(|engine| Compiled::new(program.clone(), *engine).unwrap()).collect();
        for case in all_cases(&folder, &program) {
            let runs =
                engines.iter().flat_map(|engine| Access::ALL.map(|access| cases::run_with(engine, access, &case)));
            failures.extend(runs.filter_map(|run| Some(run.err()?.to_string())));
        }
    }
    assert!(failures.is_empty(), "\n{}", failures.join("\n"));
}
