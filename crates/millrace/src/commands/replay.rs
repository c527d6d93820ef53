//! `millrace replay`: runs a program over a capture file, for tests and for looking into things.

use std::path::PathBuf;

use cli::failure::Failure;
use cli::output::print;
use cli::report;
use cli::say;
use codegen::OptLevel;
use dataplane::ports::Captured;
use dataplane::{EngineKind, ReplayError, replay};

use super::instance::configuration;
use super::packets::Packets;
use super::trace::{EntryPorts, wrong};
use crate::applications::BUILT_IN;
use crate::apps;

/// What runs the program.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Engine {
    /// A worker, in machine code
    Worker,
    /// A worker, by the reference interpreter
    Interp,
}

/// What to replay.
#[derive(clap::Args)]
pub struct Args {
    /// Baker file, directory of an application, or its name
    #[arg(value_name = "APP|FILE")]
    app: String,
    /// Capture file (pcap or pcapng) with the packets to receive. An interface of a pcapng file is the port of its name
    #[arg(long = "in", value_name = "IN.pcap")]
    input: PathBuf,
    /// Capture file to write the packets to that leave by tx, to the host or to a controller
    #[arg(long = "out", value_name = "OUT.pcap")]
    output: Option<PathBuf>,
    /// Port of packets whose file names none, or none of the configuration: a name there, or a number [default: 1]
    #[arg(long, value_name = "PORT")]
    port: Option<String>,
    /// Configuration; without it, the .toml file beside the program
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// What runs the program
    #[arg(long, value_enum, default_value = "worker")]
    engine: Engine,
    #[command(flatten)]
    packets: Packets,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<(), Failure> {
    let source = apps::find(&args.app)?;
    let program = apps::compile(&source)?;
    let config = configuration(&source, args.config.as_ref(), &program)?;
    let program = args.packets.profiled(program, &config)?;
    let entry_ports = EntryPorts::new(&config, ("--port", args.port.as_deref()))?;
    // Writing would empty the file before it is read.
    let same =
        |output: &PathBuf| args.input.canonicalize().is_ok_and(|input| output.canonicalize().is_ok_and(|o| o == input));
    if args.output.as_ref().is_some_and(same) {
        return Err(Failure::wrong(format!("error: --out {}: is the input file too", args.input.display())));
    }
    let fill = |tables: &mut dataplane::TableAccess| config.fill(&program, tables).map_err(|error| error.to_string());
    let externs = BUILT_IN.externs(&program).map_err(|error| Failure::wrong(format!("error: {error}")))?;
    let kind = match args.engine {
        Engine::Worker => EngineKind::Native(OptLevel::O3, args.packets.level()),
        Engine::Interp => EngineKind::Interp,
    };
    let mut entries = |packet: &Captured| entry_ports.entry(packet.interface.as_deref(), packet.outgoing);
    let done = replay(&program, kind, &mut entries, externs, fill, &args.input, args.output.as_deref());
    let done = done.map_err(|error| match error {
        ReplayError::File(_) | ReplayError::Tables(_) => wrong(&error),
        ReplayError::Entry(what) => wrong(&format!("{}: {what}", args.input.display())),
        _ => Failure::refused(error),
    })?;
    if let Some(skipped) = &done.skipped {
        tracing::warn!("{skipped}");
    }
    say!(
        "{}: {} packets in, {} out by tx, {} to the host",
        source.name,
        report::grouped(done.received),
        report::grouped(done.tx),
        report::grouped(done.host)
    );
    if done.controllers > 0 {
        say!("  {} packets to controllers", report::grouped(done.controllers));
    }
    if done.others > 0 {
        say!("  {} packets of the file were sent by ports, and not received", report::grouped(done.others));
    }
    if done.oversize > 0 {
        say!("  {} packets were too long for a frame", report::grouped(done.oversize));
    }
    print(format_args!("{}", report::render(&done.snapshot.into(), None)));
    Ok(())
}
