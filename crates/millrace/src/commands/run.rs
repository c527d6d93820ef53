//! `millrace run`: runs a program between ports until interrupted.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use cli::failure::Failure;
use cli::output::print;
use cli::report;
use cli::say;
use codegen::cache;
use control::application::Registry;
use control::config::{Config, Control, Metrics, WebAddress, changes};
use control::entries::{Notation, PortNames};
use control::exits::Exits;
use control::socket::{About, Claim, ClaimError, Overview, Server, Service, Shown, SocketDirectory, SocketNameError};
use control::state::{self, Persister, Store};
use dataplane::ports::{DRIVERS, PortSpec};
use dataplane::xdp::Progress;
use dataplane::{Access, Instance, Options, PollMode, PortConfig, Prepared, StartError};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::endpoints::{Endpoints, Given};
use super::engine::{self, Chosen, Engine, choose};
use super::instance::{configuration, ports};
use super::live::{Live, Reread, StartedWith};
use super::packets::Packets;
use super::watch::{ControllerWatch, KernelWatch, PortWatch};
use crate::apps;
use crate::apps::Source;
use crate::compiled;
use crate::supervisor::Supervisor;
use applications::BUILT_IN;

/// How long figures for monitoring systems wait for controllers: less than these wait (10 s is usual).
const LOOK: Duration = Duration::from_secs(2);

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
    #[arg(long, value_enum, default_value = "auto")]
    engine: Engine,
    /// How workers get at packets of all ports: copy, in-place or header-copy
    #[arg(long, value_name = "MODE")]
    access: Option<Access>,
    /// Take XDP programs of others off the interfaces of xdp and afxdp ports, and what an ended Millrace has left off
    /// those of all ports
    #[arg(long)]
    replace_xdp: bool,
    #[command(flatten)]
    packets: Packets,
    /// Never sleep: lower latency, one core always busy
    #[arg(long)]
    busy: bool,
    /// Number of workers
    #[arg(long, value_name = "N")]
    workers: Option<usize>,
    /// Pin each worker to one of these CPUs; without --workers there are as many as CPUs
    #[arg(long = "cpu", value_name = "N", value_delimiter = ',')]
    cpus: Vec<usize>,
    /// Name of this instance, by which it is asked; otherwise that of the program
    #[arg(long, value_name = "NAME")]
    instance: Option<String>,
    /// Answer on this socket, and not where the instance's name says
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Answer on no socket
    #[arg(long, conflicts_with_all = ["instance", "socket"])]
    no_socket: bool,
    /// Tell monitoring systems what is counted, by HTTP, at this address, or at this port of loopback
    #[arg(long, value_name = "[ADDRESS:]PORT")]
    metrics: Option<Metrics>,
    /// Serve the web page and the HTTP API at this address, or at this port of loopback
    #[arg(long, value_name = "[ADDRESS:]PORT")]
    web: Option<WebAddress>,
    /// Keep the tables' entries in this directory, and go on with what is there
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    /// Stop by itself after so many seconds
    #[arg(long, value_name = "SECONDS", value_parser = cli::arguments::seconds)]
    duration: Option<Duration>,
}

fn drivers() -> String {
    let lines: Vec<_> = DRIVERS.iter().map(|(name, device)| format!("  {name}:{device}")).collect();
    format!("Drivers:\n{}", lines.join("\n"))
}

/// Runs the command.
pub fn run(args: &Args) -> Result<(), Failure> {
    let source = apps::find(&args.app)?;
    let compilation = Arc::new(apps::check(&source)?);
    let declared = apps::declarations(&source, &compilation)?;
    let config = configuration(&source, args.config.as_ref(), &declared)?;
    let ports = ports(&config, &args.ports, args.access)?;
    let hook = engine::hook(args.engine, &ports)?;
    let program = apps::lower_for(hook, &source, &compilation)?;
    let program = args.packets.profiled(config.pinned(program), &config)?;
    if ports.is_empty() {
        return Err(Failure::wrong(
            "error: there are no ports\n  add --port NAME=DRIVER:DEVICE, such as --port lan=afpacket:eth0",
        ));
    }
    let given = Given { metrics: args.metrics.clone(), web: args.web };
    let bound = given.bind(&config).map_err(Failure::refused)?;
    let started_with = StartedWith::new(compilation.clone(), &program, &config, &ports);
    let state = args.state.as_deref();
    // Before anything else of it is touched: only one process can have it.
    let store = state.map(Store::open).transpose().map_err(Failure::refused)?;
    if state.is_some() {
        compiled::keep(state);
    }
    let claim = if args.no_socket { None } else { Some(claim(args, &source.name, &config.control)?) };
    let name = claim.as_ref().map_or_else(|| instance_of(&source.name), |claim| claim.instance().to_owned());
    let kept = state.map(|dir| (dir, &*name));
    let whole = program.clone();
    let chosen = choose(args.engine, &source, &compilation, program, ports, args.packets.level(), kept)?;
    if let (Some(dir), None) = (state, &chosen.fast_path) {
        // It would go on in front of the ports.
        dataplane::xdp::forget(dir).map_err(Failure::refused)?;
    }
    let engine = chosen.name();
    let Chosen { program, kind, fast_path, placement, ports, about } = chosen;
    let is_awaited = fast_path.as_ref().is_some_and(|path| path.progress() == Progress::Loading);
    let options = Options {
        engine: kind,
        fast_path,
        replace_xdp: args.replace_xdp,
        name,
        poll: if args.busy { PollMode::Busy } else { config.workers.mode },
        ..workers(args, config.options())
    };
    let needed = BUILT_IN.of_program(&program).map_err(|error| Failure::wrong(format!("error: {error}")))?;
    needed.begin(&config.controllers).map_err(|error| Failure::wrong(format!("error: {error}")))?;
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, stop.clone()).map_err(Failure::refused)?;
    }
    // At a terminal a hang-up ends it, as always.
    let hung_up = Arc::new(AtomicBool::new(false));
    if !std::io::stdin().is_terminal() {
        signal_hook::flag::register(SIGHUP, hung_up.clone()).map_err(Failure::refused)?;
    }
    let prepared =
        Instance::prepare_with(program.clone(), &options, &ports, needed.controllers).map_err(|error| match error {
            StartError::Workers(_) | StartError::Cpus { .. } | StartError::CpuTwice(_) => {
                Failure::wrong(format!("error: {error}"))
            }
            _ => Failure::refused(error),
        })?;
    let in_kernel = prepared.runs_in_kernel();
    let (engine, about) = match options.fast_path.is_some() && !in_kernel {
        true => (kind.name(), Some("workers, because no port takes the program's part for the kernel".to_owned())),
        false => (engine, about),
    };
    for (name, kept) in &needed.kept {
        let found = store.as_ref().map(|store| store.kept(name)).transpose().map_err(Failure::refused)?;
        kept.load(found.unwrap_or_default());
    }
    let mut notes = prepared.notes().to_vec();
    notes.extend(fill(&config, &prepared, store.as_ref())?);
    let cpus = prepared.cpus();
    let instance = prepared.run().map_err(Failure::refused)?;
    let code = compiled::report(&cache::activity());
    notes.push(code.clone());
    for line in about.map(|about| format!("engine: {about}")).into_iter().chain(notes) {
        say!("{line}");
    }
    cache::take_notes().iter().for_each(|note| tracing::warn!("{note}"));
    let started = Instant::now();
    let observer = instance.observer();
    let names = PortNames::new(&ports);
    let graph = engine::graph(&whole, placement.as_ref().filter(|_| in_kernel), hook, kind);
    let exits = Exits::new(&ports);
    let shown =
        Shown::new(program.clone(), (graph, exits.clone()), Notation::new(program, names.clone()), instance.tables());
    let configured = config.configured(instance.program());
    let kept = needed.kept;
    let keep = |store| Persister::start(store, instance.program().clone(), configured, instance.tables(), kept.clone());
    let persister = store.map(keep).transpose().map_err(Failure::refused)?;
    let registry = Registry::new(needed.query_targets);
    let flows = needed.flows;
    let live = Arc::new(Live::new(instance, started_with, needed.reloads, registry.clone(), (persister, kept)));
    let read = Reread {
        app: args.app.clone(),
        config: file(&source, args.config.as_ref()),
        ports: args.ports.clone(),
        access: args.access,
        given,
        workers: kind,
        in_kernel,
        hook,
        packets: args.packets.clone(),
        names,
        exits,
    };
    let config_file = read.config.as_ref().map(|path| std::path::absolute(path).unwrap_or_else(|_| path.clone()));
    let about = self::about(&options.name, &source.name, engine, &options, &cpus, &ports);
    let about = About { config: config_file, ..about };
    let overview = Arc::new(Overview::new(about, shown, observer.clone(), (registry, flows)));
    let looked_at = overview.clone();
    let look = Arc::new(move || looked_at.look(LOOK));
    let mut endpoints = None;
    let service = Arc::new_cyclic(|service| {
        let own = endpoints.insert(Endpoints::new(overview.clone(), look, service.clone())).clone();
        let (reloaded, timed, read) = (live.clone(), live.clone(), Arc::new(read));
        let read_again = read.clone();
        let reload = Box::new(move || reloaded.reload(&read_again, &own));
        Service::new(overview, stop.clone(), reload, Box::new(move |times| timed.time(&read, times)))
    });
    let Some(endpoints) = endpoints else { return Err(Failure::refused("internal error: nothing answers")) };
    endpoints.start(bound).map_err(Failure::refused)?;
    endpoints.lines().for_each(|line| say!("{line}"));
    let server = claim.map(|claim| Server::start(claim, service.clone())).transpose().map_err(Failure::refused)?;
    let socket = server.as_ref().and_then(Server::path).map(|path| path.display().to_string());
    tracing::info!(program = source.name, ports = ports.len(), socket, code, "running");
    say!("{}: running on {} ports; Ctrl-C stops it", source.name, ports.len());
    let mut supervisor = Supervisor::ready();
    let end = args.duration.map(|duration| started + duration);
    let mut controllers = ControllerWatch::new(observer.clone());
    let mut kernel = KernelWatch::new(observer.clone(), is_awaited);
    let mut watch = PortWatch::new(observer);
    while !stop.load(Ordering::Relaxed) && live.is_running() && end.is_none_or(|end| Instant::now() < end) {
        std::thread::sleep(Duration::from_millis(20));
        watch.look();
        kernel.look();
        if hung_up.swap(false, Ordering::Relaxed) {
            control::line_log::reopen_all();
        }
        controllers.look();
        supervisor.says(&controllers.status());
        supervisor.look(|| live.is_responding() && !controllers.are_failing());
    }
    supervisor.stopping();
    let Some(done) = live.stop() else { return Err(Failure::refused("internal error: the instance is gone")) };
    tracing::info!(seconds = started.elapsed().as_secs_f64(), "stopped");
    drop(server);
    endpoints.stop();
    let time = started.elapsed();
    say!("\n{}: ran {:.1} s", source.name, time.as_secs_f64());
    print(format_args!("{}", report::render(&done.snapshot.into(), Some(time))));
    let mut errors = done.errors;
    // What was noticed at the end; what made the run fail is said below.
    watch.compare(|error| !errors.iter().any(|told| told.ends_with(error)));
    if done.free_frames != done.frames {
        let lost = done.frames - done.free_frames;
        errors.push(format!("internal error: {lost} of {} frames were not given back", done.frames));
    }
    if errors.is_empty() { Ok(()) } else { Err(Failure::refused(errors.join("\nerror: "))) }
}

/// Fills the tables of an instance that is about to start: with what was kept, and with what the configuration has.
/// What there is to say about it.
fn fill(config: &Config, prepared: &Prepared, store: Option<&Store>) -> Result<Vec<String>, Failure> {
    let (program, mut tables) = (prepared.program(), prepared.tables());
    let wrong = |error: &dyn std::fmt::Display| Failure::wrong(format!("error: {error}"));
    let restored =
        store.map(|store| state::restore(store, program, &mut tables)).transpose().map_err(Failure::refused)?;
    let Some(restored) = restored.filter(|restored| !restored.is_first) else {
        config.fill(program, &mut tables).map_err(|error| wrong(&error))?;
        return Ok(Vec::new());
    };
    let inherited = prepared.inherit().map(|count| {
        format!("state: the program of the process before is still in the kernel; {count} entries are as it has them")
    });
    let changes = changes(&restored.configured, (program, config), |_| true);
    changes.set(program, &mut tables).map_err(|error| wrong(&error))?;
    changes.remove(&mut tables);
    let named = prepared.named_tables();
    for (name, made) in &config.controllers {
        BUILT_IN.install(name, &named, made).map_err(|error| wrong(&error))?;
    }
    let (entries, set, removed) = (restored.entries, changes.set.len(), changes.removed.len());
    let counted =
        format!("state: {entries} entries are there again; the configuration sets {set} and removes {removed}");
    Ok([counted].into_iter().chain(inherited).chain(restored.notes).collect())
}

/// Number and CPUs of the workers: what the command line says comes before the configuration, and the configuration's
/// CPUs are not those of another number of workers.
fn workers(args: &Args, config: Options) -> Options {
    let (workers, cpus) = match (args.workers, &args.cpus[..]) {
        (None, []) => (config.workers, config.cpus),
        (Some(workers), []) if workers == config.workers => (workers, config.cpus),
        (workers, cpus) => (workers.unwrap_or(cpus.len()), cpus.to_vec()),
    };
    Options { workers, cpus, ..config }
}

/// An instance's name where none is given: the program's.
fn instance_of(program: &str) -> String {
    let stem = Path::new(program).file_stem().unwrap_or_default().to_string_lossy();
    let usable = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let own: String = stem.chars().map(|c| if usable(c) { c } else { '-' }).take(60).collect();
    let own = own.trim_start_matches(|c: char| !c.is_ascii_alphanumeric());
    if own.is_empty() { "program".into() } else { own.into() }
}

/// The socket to answer on: the command line comes before the configuration. Without a name there the instance is named
/// after its program, with a number where that name is taken.
fn claim(args: &Args, program: &str, config: &Control) -> Result<Claim, Failure> {
    let own = &instance_of(program);
    let group = config.group.as_deref();
    let name = args.instance.as_deref().or(config.instance.as_deref());
    let claim = match (args.socket.as_ref().or(config.socket.as_ref()), name) {
        (Some(path), name) => Claim::at(path, name.unwrap_or(own), group),
        (None, Some(name)) => Claim::named(&SocketDirectory::of_user(), name, group),
        (None, None) => Claim::numbered(&SocketDirectory::of_user(), own, group),
    };
    claim.map_err(|error| match error {
        ClaimError::Group(_) | ClaimError::Name(SocketNameError::Name(_)) => Failure::wrong(format!("error: {error}")),
        _ => Failure::refused(error),
    })
}

/// The configuration's file, if it is in one.
fn file(source: &Source, given: Option<&PathBuf>) -> Option<PathBuf> {
    let beside = || source.config.as_ref().filter(|_| !source.built_in).map(|(name, _)| PathBuf::from(name));
    given.cloned().or_else(beside)
}

fn about(
    instance: &str,
    program: &str,
    engine: &str,
    options: &Options,
    cpus: &[usize],
    ports: &[PortConfig],
) -> About {
    About {
        instance: instance.into(),
        version: env!("CARGO_PKG_VERSION").into(),
        pid: std::process::id(),
        program: program.into(),
        config: None,
        engine: engine.into(),
        kernel: None,
        code: Default::default(),
        sflow: None,
        ipfix: None,
        workers: options.workers,
        mode: match options.poll {
            PollMode::Busy => "busy".into(),
            PollMode::Interrupt => "interrupt".into(),
        },
        cpus: cpus.to_vec(),
        frames: options.frames.count,
        holders: Default::default(),
        uptime_ms: 0,
        ports: ports.iter().map(|port| (port.spec.name.clone(), port.spec.driver.to_string())).collect(),
        timers: Default::default(),
        controllers: Default::default(),
    }
}
