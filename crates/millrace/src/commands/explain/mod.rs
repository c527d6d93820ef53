//! `millrace explain`: what the optimiser does to a program, measured on a trace.

mod kernel;
mod placement;
mod staging;
mod timers;
mod view;

use std::path::PathBuf;

use baker::ir::interp::Machine;
use baker::opt::explain::explain;
use baker::opt::{Level, optimise};
use cli::failure::Failure;
use cli::output::print;
use cli::remote::print_json;
use control::config::Config;
use dataplane::ports::kernel_options;
use dataplane::xdp;

use super::instance::configuration;
use super::packets::by_profile;
use super::trace::{self, Trace, wrong};
use crate::apps::{self, Source};
use applications::BUILT_IN;

/// What to explain.
#[derive(clap::Args)]
pub struct Args {
    /// Baker file, directory of an application, or its name
    #[arg(value_name = "APP|FILE")]
    app: String,
    /// Packets to optimise by and to measure with (pcap or pcapng). An interface of a pcapng file is the port of its
    /// name. Without it, the trace beside the program is measured with, and no profile optimised by
    #[arg(long, value_name = "T.pcap")]
    profile: Option<PathBuf>,
    /// Port of packets whose file names none, or none of the configuration: a name there, or a number [default: 1]
    #[arg(long, value_name = "PORT")]
    port: Option<String>,
    /// Configuration; without it, the .toml file beside the program
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<(), Failure> {
    let source = apps::find(&args.app)?.with_trace(args.profile.is_none());
    let compilation = apps::check(&source)?;
    let program = apps::lower(&source, &compilation)?;
    let config = configuration(&source, args.config.as_ref(), &program)?;
    let trace = trace(args, &source, &config)?;
    let program = config.pinned(program);
    let program = match &args.profile {
        Some(path) => by_profile(&program, &config, path, &trace)?,
        None => program,
    };
    let externs = BUILT_IN.externs(&program).map_err(|error| wrong(&error))?;
    let found = explain(&program, &trace, |stage| {
        let mut machine = Machine::new(stage);
        if let Some(externs) = &externs {
            machine.set_externs(externs.clone());
        }
        config.fill(&program, &mut machine).map(|()| machine)
    })
    .map_err(|error| wrong(&error))?;
    apps::place(&source, &program, &compilation)?;
    // As `run` asks it.
    let devices = config.ports.iter().filter_map(|port| port.device.as_ref());
    let (partitioned, answer) =
        xdp::code(&program, Level::Cgpc, kernel_options(devices)).map_err(|error| wrong(&error))?;
    let view = view::View {
        name: &source.name,
        program: &program,
        optimised: &optimise(&program, Level::Cgpc),
        placement: &partitioned.placement,
        kernel: partitioned.made.as_ref(),
        answer: &answer,
        sources: &compilation.sources,
        found: &found,
    };
    if args.json {
        print_json(&view.json());
    } else {
        print(format_args!("{}", view.text()));
    }
    Ok(())
}

/// The trace that was given, else the one beside the program.
fn trace(args: &Args, source: &Source, config: &Config) -> Result<Trace, Failure> {
    let file = trace::given_or_beside(args.profile.as_ref(), source, "--profile")?;
    trace::packets(&file, config, ("--port", args.port.as_deref()))
}
