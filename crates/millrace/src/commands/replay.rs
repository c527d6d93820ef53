//! `millrace replay`: runs a program over a capture file, for tests and for looking into things.

use std::path::{Path, PathBuf};

use cli::failure::Failure;
use cli::output::print;
use cli::report;
use cli::say;
use codegen::OptLevel;
use control::config::Config;
use dataplane::ports::Captured;
use dataplane::{EngineKind, ReplayError, ReplayInput, ReplayOutputs, replay};

use super::instance::{configuration, port_number};
use super::packets::Packets;
use super::trace::{EntryPorts, wrong};
use super::ways;
use crate::apps;
use applications::BUILT_IN;

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
    /// Capture file (pcap or pcapng) with packets to receive; several are merged by the times of their packets. An
    /// interface of a pcapng file is the port of its name or number
    #[arg(long = "in", value_name = "IN.pcap", required_unless_present = "port")]
    inputs: Vec<PathBuf>,
    /// Capture file to write the packets to that leave by tx, to the host or to a controller. Where its name ends in
    /// .pcapng it has an interface for each port
    #[arg(long = "out", value_name = "OUT.pcap")]
    output: Option<PathBuf>,
    /// Directory for a capture file of the packets that leave by each port, PORT.pcap, and of those to the host or to a
    /// controller
    #[arg(long, value_name = "DIR")]
    out_dir: Option<PathBuf>,
    /// PORT=IN.pcap: capture file whose packets come in on this port. PORT: port of packets whose file names none, or
    /// none of the configuration [default: 1]. A name of the configuration, or a number
    #[arg(long, value_name = "PORT[=IN.pcap]")]
    port: Vec<String>,
    /// Configuration; without it, the .toml file beside the program
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// What runs the program
    #[arg(long, value_enum, default_value = "worker")]
    engine: Engine,
    /// Show what becomes of the first N packets of each file, step by step
    #[arg(long, value_name = "N")]
    trace: Option<usize>,
    #[command(flatten)]
    packets: Packets,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<(), Failure> {
    let source = apps::find(&args.app)?;
    let program = apps::compile(&source)?;
    let config = configuration(&source, args.config.as_ref(), &program)?;
    let program = args.packets.profiled(program, &config)?;
    let Sources { default, files } = sources(args, &config)?;
    let entry_ports = EntryPorts::new(&config, ("--port", default))?;
    let outputs: Vec<&PathBuf> = args.output.iter().chain(&args.out_dir).collect();
    for input in &files {
        not_overwritten(input.path, &outputs)?;
    }
    let fill = |tables: &mut dataplane::TableAccess| config.fill(&program, tables).map_err(|error| error.to_string());
    let externs = BUILT_IN.externs(&program).map_err(|error| Failure::wrong(format!("error: {error}")))?;
    let kind = match args.engine {
        Engine::Worker => EngineKind::Native(OptLevel::O3, args.packets.level()),
        Engine::Interp => EngineKind::Interp,
    };
    let inputs = files.iter().map(|Input { path, port }| {
        let entries = |packet: &Captured<'_>| match port {
            Some(port) => Ok(Some(*port)),
            None => entry_ports.entry(packet.number, packet.interface.as_deref(), packet.outgoing),
        };
        ReplayInput { path, entries: Box::new(entries) }
    });
    let mut inputs: Vec<_> = inputs.collect();
    if let Some(most) = args.trace {
        inputs.iter_mut().try_for_each(|input| ways::show(&program, &config, input, most))?;
    }
    let ports: Vec<(u8, String)> = config.ports.iter().map(|port| (port.number, port.name.clone())).collect();
    let (file, directory) = (args.output.as_deref(), args.out_dir.as_deref());
    let outputs = ReplayOutputs { file, directory, ports: &ports };
    let done = replay(&program, kind, inputs, externs, fill, outputs);
    let done = done.map_err(|error| match error {
        ReplayError::File(_) | ReplayError::Tables(_) | ReplayError::Entry(_) => wrong(&error),
        _ => Failure::refused(error),
    })?;
    for skipped in &done.skipped {
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

/// A capture file, and the port that all of its packets come in on, if it is said.
struct Input<'a> {
    path: &'a Path,
    port: Option<u8>,
}

/// What is read.
struct Sources<'a> {
    /// The port of packets whose file names none.
    default: Option<&'a str>,
    files: Vec<Input<'a>>,
}

/// What `--in` and `--port` say.
fn sources<'a>(args: &'a Args, config: &Config) -> Result<Sources<'a>, Failure> {
    let mut sources = Sources { default: None, files: Vec::new() };
    sources.files.extend(args.inputs.iter().map(|path| Input { path, port: None }));
    for given in &args.port {
        match given.split_once('=') {
            Some((port, path)) => {
                let port = Some(port_number(config, "--port", port)?);
                sources.files.push(Input { path: Path::new(path), port });
            }
            None if sources.default.is_some() => {
                let problem = "is said twice where packets come in whose file names no port";
                return Err(Failure::wrong(format!("error: --port {given}: {problem}; PORT=IN.pcap is for one file")));
            }
            None => sources.default = Some(given),
        }
    }
    if sources.files.is_empty() {
        return Err(Failure::wrong(
            "error: there is no capture file to read: give --in IN.pcap or --port PORT=IN.pcap",
        ));
    }
    Ok(sources)
}

/// Writing would empty a file before it is read.
fn not_overwritten(input: &Path, outputs: &[&PathBuf]) -> Result<(), Failure> {
    let Ok(path) = input.canonicalize() else { return Ok(()) };
    for output in outputs {
        let same = output.canonicalize().is_ok_and(|output| path == output || path.parent() == Some(&output));
        if same {
            let input = input.display();
            let problem = if output.is_dir() { "lies in the directory of the output" } else { "is the input file too" };
            let option = if output.is_dir() { "--out-dir" } else { "--out" };
            return Err(Failure::wrong(format!("error: {option} {}: {input} {problem}", output.display())));
        }
    }
    Ok(())
}
