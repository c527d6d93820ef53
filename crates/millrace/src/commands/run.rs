//! `millrace run`: runs a program between ports until interrupted.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use dataplane::ports::{DRIVERS, PortSpec};
use dataplane::{Instance, Options, PollMode};
use signal_hook::consts::{SIGINT, SIGTERM};

use super::instance::{Engine, configuration, ports};
use crate::failure::Failure;
use crate::output::{print, say};
use crate::{apps, report};

/// What to run.
#[derive(clap::Args)]
#[command(after_help = drivers())]
pub struct Args {
    /// Baker file, directory of an application, or its name
    #[arg(value_name = "APP|FILE")]
    app: String,
    /// Configuration; without it, the .toml file beside the program
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// A port and its device
    #[arg(long = "port", value_name = "NAME=DRIVER:DEVICE")]
    ports: Vec<PortSpec>,
    /// What runs the program
    #[arg(long, value_enum, default_value = "native")]
    engine: Engine,
    /// Never sleep: lower latency, one core always busy
    #[arg(long)]
    busy: bool,
    /// Pin the worker to this CPU
    #[arg(long, value_name = "N")]
    cpu: Option<usize>,
    /// Stop by itself after so many seconds
    #[arg(long, value_name = "SECONDS", value_parser = super::seconds)]
    duration: Option<Duration>,
}

fn drivers() -> String {
    let lines: Vec<_> = DRIVERS.iter().map(|(name, device)| format!("  {name}:{device}")).collect();
    format!("Drivers:\n{}", lines.join("\n"))
}

/// Runs the command.
pub fn run(args: &Args) -> Result<(), Failure> {
    let source = apps::find(&args.app)?;
    let program = apps::compile(&source)?;
    let config = configuration(&source, args.config.as_ref(), &program)?;
    let ports = ports(&config, &args.ports)?;
    if ports.is_empty() {
        return Err(Failure::wrong(
            "error: there are no ports\n  add --port NAME=DRIVER:DEVICE, such as --port lan=afpacket:eth0",
        ));
    }
    let options = Options {
        engine: args.engine.kind(),
        poll: if args.busy { PollMode::Busy } else { config.worker.mode },
        cpus: args.cpu.or(config.worker.cpu).into_iter().collect(),
        ..config.options()
    };
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, stop.clone()).map_err(Failure::refused)?;
    }
    let prepared = Instance::prepare(program.clone(), &options, &ports).map_err(Failure::refused)?;
    config.fill(&program, &mut prepared.tables()).map_err(|error| Failure::wrong(format!("error: {error}")))?;
    let instance = prepared.run().map_err(Failure::refused)?;
    let started = Instant::now();
    say!("{}: running on {} ports; Ctrl-C stops it", source.name, ports.len());
    let end = args.duration.map(|duration| started + duration);
    while !stop.load(Ordering::Relaxed) && instance.is_running() && end.is_none_or(|end| Instant::now() < end) {
        std::thread::sleep(Duration::from_millis(20));
    }
    let done = instance.stop();
    let time = started.elapsed();
    say!("\n{}: ran {:.1} s", source.name, time.as_secs_f64());
    print(format_args!("{}", report::render(&done.snapshot, Some(time))));
    let mut errors = done.errors;
    if done.free_frames != done.frames {
        let lost = done.frames - done.free_frames;
        errors.push(format!("internal error: {lost} of {} frames were not given back", done.frames));
    }
    if errors.is_empty() { Ok(()) } else { Err(Failure::refused(errors.join("\nerror: "))) }
}
