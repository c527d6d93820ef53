//! `millrace lab`: a network of hosts and links on this machine, as a file describes it.
//!
//! | file | idea |
//! |---|---|
//! | `network` | hosts, devices, links, captures |
//! | `program` | what runs in the hosts, and its output |
//! | `registry` | how other terminals find the lab, and what cleans up behind it |
//! | `exec` | a command in one of its hosts |
//! | `serve` | a small web server |
//! | `reporter` | what is printed, for people or as JSON |

mod exec;
mod network;
mod program;
mod registry;
mod reporter;
mod serve;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use cli::failure::Failure;
use cli::say;
use labfile::Plan;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use network::Network;
use program::{Programs, TICK};
use registry::Registration;
use reporter::Reporter;

/// What to build.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Args {
    #[command(subcommand)]
    action: Option<Action>,
    /// The lab, as docs/operations.md describes it
    #[arg(value_name = "FILE", required = true)]
    file: Option<PathBuf>,
    /// Only say whether the file is right
    #[arg(long)]
    check: bool,
    /// End by itself after so many seconds; otherwise Ctrl-C ends it
    #[arg(long, value_name = "SECONDS", value_parser = cli::arguments::seconds)]
    duration: Option<Duration>,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
}

#[derive(clap::Subcommand)]
enum Action {
    /// Run a command in a host of a lab, from any terminal
    Exec(exec::Args),
    /// Serve a small page, to try load balancers with
    Serve(serve::Args),
    /// Clean up when the lab that started this has ended
    #[command(hide = true)]
    Keep,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<(), Failure> {
    match (&args.action, &args.file) {
        (Some(Action::Exec(args)), _) => exec::run(args),
        (Some(Action::Serve(args)), _) => serve::run(args),
        (Some(Action::Keep), _) => registry::keep(),
        (None, Some(file)) => build(args, file),
        (None, None) => Err(Failure::wrong("error: no file was given")),
    }
}

fn build(args: &Args, file: &Path) -> Result<(), Failure> {
    let plan = read(file)?;
    if args.check {
        if !args.json {
            say!("{}: {} hosts, {} links", file.display(), plan.hosts.len(), plan.links.len());
        }
        return Ok(());
    }
    // Comes first: a process with threads can't change its user namespace.
    if !lab::has_privileges().map_err(Failure::refused)? {
        lab::enter_user_namespace().map_err(Failure::refused)?;
    }
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, stop.clone()).map_err(Failure::refused)?;
    }
    let name = name(&plan, file)?;
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let reporter = Reporter { json: args.json };
    // Taken first, so that two labs of one name do not both build.
    let registration = Registration::claim(&name)?;
    let network = Network::build(&plan, folder).map_err(Failure::refused)?;
    let registered = registration.publish(&name, &network)?;
    let ended = run_programs(&plan, &network, folder, args.duration, &stop, &reporter, &name);
    reporter.end(&plan, &network.finish());
    // With it go the hosts, and what is left in them.
    drop(registered);
    ended
}

/// Starts the programs and stays until the end is asked for.
fn run_programs(
    plan: &Plan,
    network: &Network,
    folder: &Path,
    duration: Option<Duration>,
    stop: &AtomicBool,
    reporter: &Reporter,
    name: &str,
) -> Result<(), Failure> {
    let mut programs = Programs::new(folder, reporter, stop);
    let hosts = plan.hosts.iter().zip(network.hosts());
    let mut commands: Vec<_> = hosts.flat_map(|at| at.0.commands.iter().map(move |command| (at, command))).collect();
    commands.sort_by_key(|(_, command)| command.at);
    for ((host, namespace), command) in commands {
        programs.start(&host.name, namespace, command)?;
    }
    if stop.load(Ordering::Relaxed) {
        return Ok(());
    }
    reporter.ready(name, plan, network);
    let start = Instant::now();
    while !stop.load(Ordering::Relaxed) && duration.is_none_or(|duration| start.elapsed() < duration) {
        programs.look()?;
        thread::sleep(TICK);
    }
    programs.end()
}

fn read(file: &Path) -> Result<Plan, Failure> {
    let text =
        std::fs::read_to_string(file).map_err(|error| Failure::wrong(format!("error: {}: {error}", file.display())))?;
    Plan::parse(&file.display().to_string(), &text).map_err(|errors| Failure::several(&errors))
}

/// The lab's name: the file's, where that can be one.
fn name(plan: &Plan, file: &Path) -> Result<String, Failure> {
    let stem = || file.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let name = plan.name.clone().unwrap_or_else(stem);
    if labfile::is_name(&name) {
        return Ok(name);
    }
    Err(Failure::wrong(format!(
        "error: {}: {name:?} cannot be the lab's name: write name = \"…\" into it; accepted: {}",
        file.display(),
        labfile::NAME
    )))
}
