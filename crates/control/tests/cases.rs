//! Runs every packet case of every application and example, on every engine.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use baker::ir::Program;
use baker::opt::Level;
use codegen::OptLevel;
use control::cases;
use dataplane::EngineKind;
use dataplane::step::Compiled;

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

/// The fast path runs in the kernel, what it does not finish on workers.
#[test]
fn the_l3_switch_cut_between_kernel_and_workers() {
    let switch = applications().into_iter().filter(|(_, program)| program.name == "l3switch");
    run(switch.collect(), &[EngineKind::Kernel(Level::Cgpc)]);
}

/// Runs all cases of applications on engines.
fn run(applications: Vec<(PathBuf, Arc<Program>)>, engines: &[EngineKind]) {
    let mut failures = Vec::new();
    for (folder, program) in applications {
        let files = cases::files(&folder.join("cases")).unwrap();
        assert!(!files.is_empty(), "{}", folder.display());
        let engines: Vec<_> = engines.iter().map(|engine| Compiled::new(program.clone(), *engine).unwrap()).collect();
        for file in files {
            match cases::load(&file, &program) {
                Ok(case) => {
                    let runs = engines.iter().map(|engine| cases::run(engine, &case));
                    failures.extend(runs.filter_map(|run| Some(run.err()?.to_string())));
                }
                Err(error) => failures.push(error.to_string()),
            }
        }
    }
    assert!(failures.is_empty(), "\n{}", failures.join("\n"));
}
