//! `millrace test`: runs packet cases of a program on every engine.
//!
//! | file | what it does |
//! |---|---|
//! | `pattern` | which cases are meant |
//! | `report` | what came of them: for people, and as JSON |
//! | `junit` | the same as JUnit XML |
//! | `update` | writes what was found into case files |

mod junit;
mod pattern;
mod report;
mod update;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use baker::ir::Program;
use cli::failure::Failure;
use cli::output::print;
use cli::remote::print_json;
use cli::say;
use codegen::kernel::Hook;
use control::cases::{Case, Kernel, LoadError, Loader, Suite, files};
use dataplane::step::StepError;

use self::pattern::Pattern;
use self::report::{NotRun, Report};
use crate::apps::{self, Source};
use applications::BUILT_IN;

/// What runs the cases.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Engine {
    /// The reference interpreter
    Interp,
    /// Machine code, in each access mode
    Worker,
    /// The kernel as far as it can, by its test run, and machine code for the rest
    Xdp,
    /// The same at traffic control
    Tc,
}

/// What to test.
#[derive(clap::Args)]
pub struct Args {
    /// Baker file, directory of an application, or its name
    #[arg(value_name = "APP|FILE")]
    app: String,
    /// Case files, and directories of case files; without any, the directory `cases` beside the program
    #[arg(value_name = "CASES")]
    cases: Vec<PathBuf>,
    /// What runs the cases [default: all but tc]
    #[arg(long, value_enum, value_name = "ENGINE", value_delimiter = ',')]
    engine: Vec<Engine>,
    /// Only cases of this name: a part of it, or all of it with `*` for any letters
    #[arg(long, value_name = "PATTERN")]
    case: Vec<String>,
    /// Configuration of cases that name none; without it, the .toml file beside the program
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Run nothing: list the cases
    #[arg(long, conflicts_with_all = ["update", "junit"])]
    list: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Write what came of each case into a file, too, as JUnit XML
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Write what the engines agree on into cases that expect something else
    #[arg(long)]
    update: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<(), Failure> {
    let source = apps::find(&args.app)?;
    let program = apps::compile(&source)?;
    if args.update && source.built_in {
        let name = &source.name;
        return Err(Failure::wrong(format!("error: --update: {name} is built in: give the directory of its sources")));
    }
    let read = |path: &Path| source.file(path);
    let config = match &args.config {
        Some(path) => Some((path.display().to_string(), text(path)?)),
        None => source.config.clone(),
    };
    let loader = Loader { program: &program, applications: BUILT_IN, read: &read, config };
    let cases = cases(args, &source, &loader)?;
    if args.list {
        return list(args, &cases);
    }
    let at_tc = || apps::lower_for(Hook::Tc, &source, &apps::check(&source)?);
    let (suite, not_run) = suite(args, &program, at_tc)?;
    let outcomes = cases.iter().map(|case| suite.run(case)).collect();
    let mut report = Report { name: &source.name, program: &program.name, suite: &suite, not_run, cases, outcomes };
    if let Some(path) = &args.junit {
        let written = std::fs::write(path, junit::xml(&report));
        written.map_err(|error| Failure::refused(format!("{}: cannot be written: {error}", path.display())))?;
    }
    if args.json {
        print_json(&report.json());
    } else {
        print(format_args!("{}", report.text()));
    }
    let mut failed = report.failed();
    if args.update {
        for line in update::update(&mut report, &loader)? {
            // Standard output is JSON's.
            if args.json { eprintln!("{line}") } else { say!("{line}") }
        }
        failed = report.failed();
    }
    verdict(args, &report, failed)
}

/// The exit status.
fn verdict(args: &Args, report: &Report, failed: usize) -> Result<(), Failure> {
    if failed > 0 {
        return Err(Failure::wrong(format!("error: {failed} of {} cases failed", report.cases.len())));
    }
    match &report.not_run {
        Some(NotRun { engine, why, is_refused }) if !args.engine.is_empty() => {
            let why = format!("--engine {engine}: was not run: {why}");
            Err(if *is_refused { Failure::refused(why) } else { Failure::wrong(format!("error: {why}")) })
        }
        _ => Ok(()),
    }
}

/// The cases that are meant. The failure: all that is wrong with their files, or that there is none.
fn cases(args: &Args, source: &Source, loader: &Loader) -> Result<Vec<Case>, Failure> {
    let patterns: Vec<Pattern> = args.case.iter().map(|pattern| Pattern::new(pattern)).collect();
    let is_meant = |path: &PathBuf| {
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        patterns.is_empty() || patterns.iter().any(|pattern| pattern.matches(&name))
    };
    let all = files_of(args, source)?;
    let meant: Vec<&PathBuf> = all.iter().filter(|path| is_meant(path)).collect();
    if meant.is_empty() {
        let names: Vec<_> = all.iter().map(|path| path.file_stem().unwrap_or_default().to_string_lossy()).collect();
        let patterns = args.case.join(", ");
        return Err(Failure::wrong(format!(
            "error: --case {patterns}: no case is called so\n  cases: {}",
            names.join(", ")
        )));
    }
    let mut errors = Vec::new();
    let load = |path: &PathBuf| loader.load(path).map_err(|error| errors.push(error)).ok();
    let cases: Vec<Case> = meant.into_iter().filter_map(load).collect();
    match errors.is_empty() {
        true => Ok(cases),
        false => Err(Failure::several(&errors.iter().flat_map(lines).collect::<Vec<_>>())),
    }
}

/// A fault of a case file, a line each.
fn lines(error: &LoadError) -> Vec<String> {
    error.to_string().lines().map(str::to_owned).collect()
}

/// The files that the command line names, else those beside the program.
fn files_of(args: &Args, source: &Source) -> Result<Vec<PathBuf>, Failure> {
    if args.cases.is_empty() {
        return source.cases().map_err(|folder| {
            let (name, folder) = (&source.name, folder.display());
            Failure::wrong(format!("error: {name}: there are no cases: no .toml file is in {folder}"))
        });
    }
    let mut all = Vec::new();
    for path in &args.cases {
        if !path.is_dir() {
            all.push(path.clone());
            continue;
        }
        let found = files(path).map_err(|error| Failure::wrong(format!("error: {error}")))?;
        if found.is_empty() {
            let none = LoadError::None(path.clone());
            return Err(Failure::wrong(format!("error: {none}")));
        }
        all.extend(found);
    }
    Ok(all)
}

/// The variants that were asked for, and why the kernel is none of them where it should be. `at_tc` makes the program
/// as it is at traffic control.
fn suite(
    args: &Args,
    program: &Arc<Program>,
    at_tc: impl Fn() -> Result<Arc<Program>, Failure>,
) -> Result<(Suite, Option<NotRun>), Failure> {
    let wanted = |engine| args.engine.contains(&engine) || (args.engine.is_empty() && engine != Engine::Tc);
    let refused = |error: StepError| Failure::refused(error);
    let mut suite = Suite::default();
    if wanted(Engine::Interp) {
        suite.add_interp(program).map_err(refused)?;
    }
    if wanted(Engine::Worker) {
        suite.add_worker(program).map_err(refused)?;
    }
    let mut add = |name: &str, program: &Program| -> Result<Option<NotRun>, Failure> {
        let not = |why, is_refused| Some(NotRun { engine: name.to_owned(), why, is_refused });
        Ok(match suite.add_kernel(program).map_err(refused)? {
            Kernel::Runs => None,
            Kernel::Refused(why) => not(why, true),
            Kernel::Nothing(why) => not(format!("nothing of the program can run in the kernel: {why}"), false),
        })
    };
    let at_xdp = if wanted(Engine::Xdp) { add(Suite::XDP, program)? } else { None };
    let at_tc = if wanted(Engine::Tc) { Some(at_tc()?) } else { None };
    let at_tc = at_tc.map(|program| add(Suite::TC, &program)).transpose()?.flatten();
    let both = |a: NotRun, b: NotRun| NotRun {
        engine: format!("{}, {}", a.engine, b.engine),
        why: if a.why == b.why { a.why } else { format!("{}; {}", a.why, b.why) },
        is_refused: a.is_refused || b.is_refused,
    };
    Ok((suite, at_xdp.into_iter().chain(at_tc).reduce(both)))
}

fn list(args: &Args, cases: &[Case]) -> Result<(), Failure> {
    if args.json {
        let case = |case: &Case| {
            serde_json::json!({
                "name": case.name(), "file": case.file, "description": case.description, "steps": case.steps.len(),
            })
        };
        print_json(&cases.iter().map(case).collect::<Vec<_>>());
        return Ok(());
    }
    let width = cases.iter().map(|case| case.name().chars().count()).max().unwrap_or(0);
    for case in cases {
        say!("{:width$}  {}", case.name(), case.description);
    }
    Ok(())
}

fn text(path: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(path).map_err(|error| Failure::wrong(format!("error: {}: {error}", path.display())))
}
