//! `millrace sim`: what a program would do on a network processor, by the model of [`npmodel`]; and what a host-based
//! router does with packets of each length.

mod bus;
mod plot;
mod view;

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use baker::ir::Program;
use baker::ir::interp::Machine;
use baker::opt::Level;
use cli::failure::Failure;
use cli::output::print;
use cli::remote::print_json;
use cli::report::grouped;
use control::config::Config;
use indicatif::{ProgressBar, ProgressStyle};
use npmodel::platform::PlatformError;
use npmodel::{AnyPlatform, MOST, Platform, Point, Traced};

use self::view::View;
use super::instance::configuration;
use super::packets::by_profile;
use super::trace;
use crate::apps;
use applications::BUILT_IN;

/// What to simulate.
#[derive(clap::Args)]
pub struct Args {
    /// Baker file, directory of an application, or its name; none for a host-based router
    #[arg(value_name = "APP|FILE")]
    app: Option<String>,
    /// Network processor or host-based router: a name, or a file NAME.toml
    #[arg(long, value_name = "NAME|FILE", default_value = "ixp2400")]
    platform: String,
    /// Packets (pcap or pcapng); without it, the trace beside the program. An interface of a pcapng file is the port of
    /// its name
    #[arg(long, value_name = "T.pcap")]
    trace: Option<PathBuf>,
    /// Packets like those of the trace (pcap or pcapng), by which the program is optimised; may be the trace itself
    #[arg(long, value_name = "T.pcap")]
    profile: Option<PathBuf>,
    /// Port of packets whose file names none, or none of the configuration: a name there, or a number [default: 1]
    #[arg(long, value_name = "PORT")]
    port: Option<String>,
    /// Configuration; without it, the .toml file beside the program
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Engines that run the program: a number, or a range; without it, as many as the processor has for it
    #[arg(long, value_name = "1..8", value_parser = engines)]
    engines: Option<RangeInclusive<usize>>,
    /// Rate at which packets arrive, in Gbit/s; without it, as fast as they are taken
    #[arg(long, value_name = "GBIT", value_parser = gigabits)]
    offered: Option<f64>,
    /// List what engines execute, micro-operation by micro-operation, on so many execution paths: those that most
    /// packets take
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    paths: usize,
    /// Write the rates as curves, in SVG
    #[arg(long, value_name = "OUT.svg")]
    plot: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Engines at most: enough for what might have been built.
const MOST_ENGINES: usize = 64;

fn engines(text: &str) -> Result<RangeInclusive<usize>, String> {
    let (from, to) = text.split_once("..").unwrap_or((text, text));
    let number = |text: &str| text.parse().ok().filter(|engines| (1..=MOST_ENGINES).contains(engines));
    match (number(from), number(to.trim_start_matches('='))) {
        (Some(from), Some(to)) if from <= to => Ok(from..=to),
        _ => Err(format!("neither a number of engines from 1 to {MOST_ENGINES} nor a range, such as 1..8")),
    }
}

fn gigabits(text: &str) -> Result<f64, String> {
    let rate = text.parse().ok().filter(|rate| (0.001..=1000.0).contains(rate));
    rate.ok_or_else(|| "not a rate from 0.001 to 1000 Gbit/s".into())
}

/// A level's packets, and what each number of engines does with them.
pub struct Build {
    /// The packets.
    pub traced: Traced,
    /// By number of engines.
    pub points: Vec<Point>,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<(), Failure> {
    let platform = match (platform(&args.platform)?, &args.app) {
        (AnyPlatform::HostBus(platform), None) => return bus::run(&platform, args.json),
        (AnyPlatform::HostBus(platform), Some(_)) => {
            let name = platform.name;
            return Err(Failure::wrong(format!(
                "error: {name} is a host-based router, which runs no program: leave it out"
            )));
        }
        (AnyPlatform::Processor(platform), _) => platform,
    };
    let Some(app) = &args.app else {
        return Err(Failure::wrong("error: say which program: an application's name, its directory or a Baker file"));
    };
    let source = apps::find(app)?.with_trace(args.trace.is_none());
    let program = apps::compile(&source)?;
    let config = configuration(&source, args.config.as_ref(), &program)?;
    let file = trace::given_or_beside(args.trace.as_ref(), &source, "--trace")?;
    let packets = trace::packets(&file, &config, ("--port", args.port.as_deref()))?;
    let program = match &args.profile {
        Some(path) => {
            let profile = trace::packets(&trace::file(path)?, &config, ("--port", args.port.as_deref()))?;
            by_profile(&program, &config, path, &profile)?
        }
        None => program,
    };
    let engines = args.engines.clone().unwrap_or(1..=platform.application_engines() as usize);
    let builds = builds(args, &program, &config, &platform, &packets, engines)?;
    if let Some(path) = &args.plot {
        write_plot(path, &program.name, &platform, &builds)?;
    }
    let view = View {
        name: &source.name,
        app: &program.name,
        platform: &platform,
        builds: &builds,
        offered: args.offered,
        listed: args.paths,
    };
    if args.json {
        print_json(&view.json());
    } else {
        print(format_args!("{}", view.text()));
    }
    Ok(())
}

fn platform(given: &str) -> Result<AnyPlatform, Failure> {
    let wrong = |error: PlatformError| Failure::wrong(format!("error: {error}"));
    if !given.ends_with(".toml") {
        return npmodel::platform::built_in(given).map_err(wrong);
    }
    let text = std::fs::read_to_string(given).map_err(|error| Failure::wrong(format!("error: {given}: {error}")))?;
    AnyPlatform::parse(given, &text).map_err(wrong)
}

fn write_plot(path: &Path, app: &str, platform: &Platform, builds: &[Build]) -> Result<(), Failure> {
    let title = format!("{app} on the {}", platform.title);
    let svg = plot::rates(&title, builds).map_err(|error| Failure::refused(format!("the plot: {error}")))?;
    std::fs::write(path, svg).map_err(|error| Failure::refused(format!("{}: {error}", path.display())))
}

/// All levels with all numbers of engines.
fn builds(
    args: &Args,
    program: &Arc<Program>,
    config: &Config,
    platform: &Platform,
    packets: &[(u8, Vec<u8>)],
    engines: RangeInclusive<usize>,
) -> Result<Vec<Build>, Failure> {
    let externs = BUILT_IN.externs(program).map_err(|error| trace::wrong(&error))?;
    let steps = Level::ALL.len() * (packets.len() + engines.clone().count() * packets.len().min(MOST));
    let style = ProgressStyle::with_template("{msg:32} {wide_bar} {percent:>3} %");
    // Hidden by itself where standard error is no terminal.
    let bar = ProgressBar::new(steps as u64);
    if let Ok(style) = style {
        bar.set_style(style);
    }
    bar.set_message("packets");
    let traces = in_parallel(&Level::ALL, |level| {
        let fill = |machine: &mut Machine| {
            if let Some(externs) = &externs {
                machine.set_externs(externs.clone());
            }
            config.fill(program, machine)
        };
        npmodel::trace(program, *level, platform, packets, fill, &|more| bar.inc(more))
    });
    let traces = traces.into_iter().collect::<Result<Vec<_>, _>>().map_err(|error| trace::wrong(&error))?;
    if let Some(traced) = traces.iter().find(|traced| traced.left() == 0) {
        bar.finish_and_clear();
        return Err(dropped(traced));
    }
    bar.set_message("engines");
    let work: Vec<(usize, usize)> =
        (0..traces.len()).flat_map(|level| engines.clone().map(move |engines| (level, engines))).collect();
    let points = in_parallel(&work, |&(level, engines)| {
        let point = npmodel::simulate(&traces[level], platform, engines, args.offered.map(|rate| rate * 1e9));
        bar.inc(packets.len().min(MOST) as u64);
        point
    });
    bar.finish_and_clear();
    let mut points = points.into_iter();
    let count = engines.count();
    Ok(traces.into_iter().map(|traced| Build { traced, points: points.by_ref().take(count).collect() }).collect())
}

/// No packet left the program: why they were dropped.
fn dropped(traced: &Traced) -> Failure {
    let mut reasons: Vec<(String, u64)> = Vec::new();
    for path in &traced.paths {
        let name = match path.drop {
            Some(reason) => traced.program.drop_reasons[reason.0 as usize].name.clone(),
            None => continue,
        };
        match reasons.iter_mut().find(|(known, _)| *known == name) {
            Some((_, count)) => *count += path.packets,
            None => reasons.push((name, path.packets)),
        }
    }
    let reasons: Vec<String> = reasons.iter().map(|(name, count)| format!("{name} {}", grouped(*count))).collect();
    Failure::wrong(format!(
        "error: the trace does not fit the program and its configuration: all of its {} packets are dropped\n  reasons: {}",
        grouped(traced.packets.len() as u64),
        reasons.join(", ")
    ))
}

/// Results in the order of the work, on as many threads as there are processors.
fn in_parallel<W: Sync, R: Send>(work: &[W], each: impl Fn(&W) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let results: Mutex<Vec<(usize, R)>> = Mutex::new(Vec::new());
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(work.len());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some((index, item)) = {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    work.get(index).map(|item| (index, item))
                } {
                    let result = each(item);
                    results.lock().expect("no panic under this lock").push((index, result));
                }
            });
        }
    });
    let mut results = results.into_inner().expect("no panic under this lock");
    results.sort_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}
