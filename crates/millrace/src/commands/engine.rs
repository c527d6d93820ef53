//! What runs a program: workers, or the kernel as far as it can with workers for the rest.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use baker::check::Compilation;
use baker::ir::{PpfId, Program};
use baker::opt::Level;
use baker::place::{Placement, Split, Stage};
use cli::failure::Failure;
use codegen::OptLevel;
use codegen::kernel::{Hook, Options};
use control::socket::Graph;
use dataplane::ports::{Driver, kernel_options};
use dataplane::xdp::{FastPath, LoadError, PartitionError, Partitioned, Progress, partition, partition_known};
use dataplane::{EngineKind, PortConfig, ReloadError};

use crate::apps::{self, Source};

/// Instructions of a program that the kernel verifies for so long, a tenth of a second or more, that workers have all
/// packets meanwhile.
const LARGE: usize = 20_000;

/// What runs the program.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Engine {
    /// As tc where a port is tc:, else as xdp where a port is auto: or xdp: and the kernel takes the program, otherwise
    /// as worker
    Auto,
    /// The kernel as far as it can, at ports that are auto: or xdp:, and workers for the rest
    Xdp,
    /// The same at traffic control's ingress, at ports that are auto: or tc:
    Tc,
    /// Workers, in machine code
    Worker,
    /// Workers, by the reference interpreter
    Interp,
}

/// How a program is run.
pub struct Chosen {
    /// The program, or the workers' part.
    pub program: Arc<Program>,
    /// What workers run it by.
    pub kind: EngineKind,
    /// The kernel's part.
    pub fast_path: Option<Arc<FastPath>>,
    /// Where each PPF runs, where the kernel has a part.
    pub placement: Option<Placement>,
    /// The ports, whose drivers fit.
    pub ports: Vec<PortConfig>,
    /// What was chosen and why, where that was not told.
    pub about: Option<String>,
}

impl Chosen {
    /// Its name in reports.
    pub fn name(&self) -> &'static str {
        self.fast_path.as_ref().map_or(self.kind.name(), |path| hook_name(path.hook()))
    }
}

/// What a hook is called on the command line.
pub fn hook_name(hook: Hook) -> &'static str {
    match hook {
        Hook::Xdp => "xdp",
        Hook::Tc => "tc",
    }
}

/// The hook that a program for these ports is to be lowered for. The failure: a program's part in the kernel runs at
/// one.
pub fn hook(engine: Engine, ports: &[PortConfig]) -> Result<Hook, Failure> {
    let at = |hook| {
        let port = ports.iter().find(|port| port.spec.driver.hook() == Some(hook))?;
        Some(format!("port {} is {}", port.spec.name, port.spec.driver))
    };
    let told = match engine {
        Engine::Worker | Engine::Interp => return Ok(Hook::default()),
        Engine::Auto => None,
        Engine::Xdp => Some(Hook::Xdp),
        Engine::Tc => Some(Hook::Tc),
    };
    match (at(Hook::Xdp), at(Hook::Tc)) {
        (Some(xdp), Some(tc)) => Err(Failure::wrong(format!(
            "error: {xdp} and {tc}: what of a program is in the kernel runs at one of the two\n  \
             let all such ports be xdp:, or all tc:"
        ))),
        (Some(port), None) if told == Some(Hook::Tc) => Err(Failure::wrong(format!("error: --engine tc: {port}"))),
        (None, Some(port)) if told == Some(Hook::Xdp) => Err(Failure::wrong(format!("error: --engine xdp: {port}"))),
        (_, Some(_)) => Ok(Hook::Tc),
        (Some(_), None) => Ok(Hook::Xdp),
        (None, None) => Ok(told.unwrap_or_else(|| {
            let interfaces = ports.iter().filter_map(|port| match &port.spec.driver {
                Driver::Auto { interface } => Some(interface.as_str()),
                _ => None,
            });
            dataplane::ports::best_hook(interfaces)
        })),
    }
}

/// Chooses what runs a program, which was lowered for a [`hook`], between these ports. With a directory for its state
/// and the instance's name, what runs in the kernel outlasts the process.
pub fn choose(
    engine: Engine,
    source: &Source,
    compilation: &Compilation,
    program: Arc<Program>,
    ports: Vec<PortConfig>,
    level: Level,
    state: Option<(&Path, &str)>,
) -> Result<Chosen, Failure> {
    let kind = if engine == Engine::Interp { EngineKind::Interp } else { EngineKind::Native(OptLevel::O3, level) };
    let workers = |about: Option<String>, ports| {
        Ok(Chosen { program: program.clone(), kind, fast_path: None, placement: None, ports, about })
    };
    if matches!(engine, Engine::Worker | Engine::Interp) {
        return workers(None, ports);
    }
    let hook = Hook::of(&program);
    let name = hook_name(hook);
    let has_own = ports.iter().any(|port| port.spec.driver.hook() == Some(hook));
    if !has_own && !ports.iter().any(|port| matches!(port.spec.driver, Driver::Auto { .. })) {
        return match engine {
            Engine::Xdp | Engine::Tc => Err(Failure::wrong(format!(
                "error: --engine {name}: no port is {name}:INTERFACE or auto:INTERFACE, so no packet would come to the kernel's \
                 part",
            ))),
            _ => workers(Some("workers, because no port is xdp:, tc: or auto:".into()), ports),
        };
    }
    apps::place(source, &program, compilation)?;
    let options = Options { hook, ..kernel_options(ports.iter().map(|port| &port.spec.driver)) };
    match fast_path(&program, level, options) {
        Ok(Fast { split, mut path, placement, mut about }) => {
            match state.map(|(dir, name)| path.outlast(dir, name)) {
                None | Some(Ok(false)) => {}
                Some(Ok(true)) => {
                    about += "; it outlasts this process only as long as this mount namespace: /sys/fs/bpf was no BPF file system, and \
                              whether the host has one cannot be seen from here";
                }
                Some(Err(error)) => {
                    about += &format!(
                        "; it does not outlast this process, for want of a BPF file system in /sys/fs/bpf: {error}"
                    );
                }
            }
            if path.has_previous() {
                // That one runs meanwhile.
                path.load_awaited();
            }
            match path.progress() {
                Progress::Loaded => {}
                Progress::Loading => about += "; workers have all packets until the kernel has verified it",
                Progress::Refused(why) => return Err(Failure::refused(why)),
            }
            if !path.counts_failures() {
                about += "; the kernel lets this process trace nothing, so packets that it cannot send are not counted";
            }
            let is_told = matches!(engine, Engine::Xdp | Engine::Tc);
            let ports = if is_told { ports.into_iter().map(|port| fixed(port, hook)).collect() } else { ports };
            let (program, fast_path) = (Arc::new(split.workers), Some(Arc::new(path)));
            Ok(Chosen { program, kind, fast_path, placement: Some(placement), ports, about: Some(about) })
        }
        Err(refusal) => {
            let why = said(&refusal, compilation);
            match engine {
                Engine::Auto if !has_own => workers(Some(format!("workers, because {why}")), ports),
                _ => Err(Failure::refused(format!(
                    "{}: {why}; `--engine worker` runs all of it on workers",
                    source.name
                ))),
            }
        }
    }
}

/// Why nothing runs in the kernel.
enum Refusal {
    /// The placer gives it nothing, for the first reason.
    Nothing(String),
    /// It does not take it.
    Kernel(PartitionError),
}

/// As much of a program as the kernel takes.
struct Fast {
    split: Split,
    path: FastPath,
    placement: Placement,
    /// What to say of that.
    about: String,
}

/// Compiles and loads it; where the kernel has taken a large one before, its stand-in.
fn fast_path(program: &Program, level: Level, options: Options) -> Result<Fast, Refusal> {
    let known = partition_known(program, level, options).map_err(Refusal::Kernel)?;
    if let Some(Partitioned { placement, too_much, split, made: Some((memory, instructions)) }) = known {
        let about = about(options.hook, program, &placement, &too_much);
        let make = if instructions >= LARGE { FastPath::with_stand_in } else { FastPath::load };
        // Where the kernel does not take it this time, it may take less of it.
        if let Ok(path) = make(&split, memory, level, options) {
            return Ok(Fast { split, path, placement, about });
        }
    }
    let mut partitioned = partition(program, level, options).map_err(Refusal::Kernel)?;
    let Some((memory, loaded)) = partitioned.made.take() else {
        return Err(Refusal::Nothing(partitioned.why_nothing(program)));
    };
    let Partitioned { placement, too_much, split, .. } = partitioned;
    let about = about(options.hook, program, &placement, &too_much);
    let path = FastPath::of(&split, memory, loaded).map_err(|error| Refusal::Kernel(error.into()))?;
    Ok(Fast { split, path, placement, about })
}

/// A refusal in one line; what the verifier said is kept for a report.
fn said(refusal: &Refusal, compilation: &Compilation) -> String {
    match refusal {
        Refusal::Nothing(reason) => format!("nothing of it can run in the kernel: {reason}"),
        Refusal::Kernel(PartitionError::Load(error @ LoadError::Verifier { location, log, .. })) => {
            let line = location.as_ref().and_then(|location| location.span).map(|span| {
                let (line, _) = compilation.sources.line_column(span.file, span.start);
                format!(" ({}:{line})", compilation.sources.file(span.file).name)
            });
            let file = std::env::temp_dir().join(format!("millrace-verifier-{}.log", std::process::id()));
            let kept = match std::fs::write(&file, log) {
                Ok(()) => format!("please report it with {}", file.display()),
                Err(_) => "please report it".into(),
            };
            format!("{error}{}; {kept}", line.unwrap_or_default())
        }
        Refusal::Kernel(error) => error.to_string(),
    }
}

/// Why a program does not take over, in one line.
pub fn reload_error(error: ReloadError, compilation: &Compilation) -> String {
    match error {
        ReloadError::Partition(error) => said(&Refusal::Kernel(error), compilation),
        error => error.to_string(),
    }
}

/// How a program is wired, and what runs its PPFs: a hook of the kernel those that a placement has there, workers by
/// their engine the others.
pub fn graph(program: &Program, placement: Option<&Placement>, hook: Hook, workers: EngineKind) -> Graph {
    let in_kernel = |ppf| placement.is_some_and(|placement| placement.is_kernel(ppf));
    Graph::new(program, |ppf| if in_kernel(ppf) { hook_name(hook) } else { workers.name() })
}

/// What runs where, in one line, with why a PPF turned out to be too much.
pub fn about(hook: Hook, program: &Program, placement: &Placement, too_much: &BTreeMap<PpfId, String>) -> String {
    let stages = || program.ppfs.iter().zip(&placement.stages);
    let kernel = stages().filter(|(_, stage)| matches!(stage, Stage::Kernel(_))).count();
    let of_workers: Vec<&str> = stages()
        .filter(|(_, stage)| matches!(stage, Stage::Cannot(_) | Stage::Pinned))
        .map(|(ppf, _)| ppf.name.as_str())
        .collect();
    let (name, all) = (hook_name(hook), program.ppfs.len());
    let mut about = match of_workers[..] {
        [] => format!("{name}: {kernel} of {all} PPFs run in the kernel; see `millrace explain`"),
        _ => format!(
            "{name}: {kernel} of {all} PPFs run in the kernel, workers take over at {}; see `millrace explain`",
            of_workers.join(", ")
        ),
    };
    for (ppf, reason) in too_much {
        about += &format!("; {} {reason}", program.ppfs[ppf.0 as usize].name);
    }
    about
}

/// A port that is to have the fast path, and nothing else.
fn fixed(mut port: PortConfig, hook: Hook) -> PortConfig {
    if let Driver::Auto { interface } = port.spec.driver {
        port.spec.driver = match hook {
            Hook::Xdp => Driver::Xdp { interface },
            Hook::Tc => Driver::Tc { interface },
        };
    }
    port
}
