//! `millrace explain`: what the optimiser does to a program, measured on a trace.

use std::path::PathBuf;

use baker::ir::interp::{Costs, Step};
use baker::ir::{PpfId, Program};
use baker::opt::Level;
use baker::opt::explain::{Explanation, explain};
use baker::source::Sources;
use control::config::Config;
use control::controllers;
use serde_json::{Map, Value, json};

use super::instance::configuration;
use super::packets::by_profile;
use super::remote::print_json;
use super::trace::{self, Trace, wrong};
use crate::apps::{self, Source};
use crate::failure::Failure;
use crate::output::print;
use crate::report::{grouped, table};

/// Ways through the program that are shown.
const WAYS: usize = 12;

/// What to explain.
#[derive(clap::Args)]
pub struct Args {
    /// Baker file, directory of an application, or its name
    #[arg(value_name = "APP|FILE")]
    app: String,
    /// Packets to optimise by and to measure with (pcap or pcapng). An interface of a pcapng file is the port of its name.
    /// Without it, the trace beside the program is measured with, and no profile optimised by
    #[arg(long, value_name = "T.pcap")]
    profile: Option<PathBuf>,
    /// Port of packets whose file names none: a name of the configuration, or a number
    #[arg(long, value_name = "PORT", default_value = "1")]
    port: String,
    /// Configuration; without it, the .toml file beside the program
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<(), Failure> {
    let source = apps::find(&args.app)?;
    let compilation = apps::check(&source)?;
    let program = apps::lower(&source, &compilation)?;
    let config = configuration(&source, args.config.as_ref(), &program)?;
    let trace = trace(args, &source, &config)?;
    let program = match &args.profile {
        Some(path) => by_profile(&program, &config, path, &trace)?,
        None => program,
    };
    let externs = controllers::externs(&program).map_err(|error| wrong(&error))?;
    let found = explain(&program, &trace, |machine| {
        if let Some(externs) = &externs {
            machine.set_externs(externs.clone());
        }
        config.fill(&program, machine)
    })
    .map_err(|error| wrong(&error))?;
    let view = View { name: &source.name, program: &program, sources: &compilation.sources, found: &found };
    if args.json {
        print_json(&view.json());
    } else {
        print(format_args!("{}", view.text()));
    }
    Ok(())
}

/// The trace that was given, else the one beside the program.
fn trace(args: &Args, source: &Source, config: &Config) -> Result<Trace, Failure> {
    let file = match (&args.profile, &source.trace) {
        (Some(path), _) => trace::file(path)?,
        (None, Some(trace)) => trace.clone(),
        (None, None) => {
            return Err(wrong(&format!(
                "{}: no trace lies beside it; give one to measure with: --profile T.pcap",
                source.name
            )));
        }
    };
    trace::packets(&file, config, ("--port", &args.port))
}

struct View<'a> {
    name: &'a str,
    program: &'a Program,
    sources: &'a Sources,
    found: &'a Explanation,
}

impl View<'_> {
    fn ppf(&self, ppf: PpfId) -> &str {
        &self.program.ppfs[ppf.0 as usize].name
    }

    /// Channels by the name of the PPF or end that they lead to.
    fn steps(&self, steps: &[Step]) -> Vec<String> {
        let name = |step: &Step| match step {
            Step::Channel(channel) => self.program.channels[channel.0 as usize].name.clone(),
            Step::Drop(reason) => format!("drop {}", self.program.drop_reasons[reason.0 as usize].name),
        };
        steps.iter().map(name).collect()
    }

    /// `file:line` of a place.
    fn place(&self, span: Option<baker::source::Span>) -> String {
        span.map_or("-".into(), |span| {
            let (line, _) = self.sources.line_column(span.file, span.start);
            format!("{}:{line}", self.sources.file(span.file).name)
        })
    }

    fn json(&self) -> Value {
        let found = self.found;
        let ways: Vec<Value> = found
            .ways
            .iter()
            .map(|way| json!({"path": self.steps(&way.steps), "packets": way.packets, "builds": builds(&way.costs, way.packets)}))
            .collect();
        let ppfs: Vec<Value> = found
            .ppfs
            .iter()
            .map(|shape| {
                let build = |index: usize| json!({"accesses": shape.accesses[index], "instructions": shape.instructions[index]});
                json!({"name": self.ppf(shape.ppf), "base": build(0), "pac": build(1)})
            })
            .collect();
        let aggregates: Vec<Value> = found
            .aggregates
            .iter()
            .map(|shape| {
                let fallbacks: Vec<Value> = shape
                    .fallbacks
                    .iter()
                    .map(|f| json!({"at": self.place(f.span), "reason": f.reason.text()}))
                    .collect();
                let ppfs: Vec<&str> = shape.ppfs.iter().map(|&ppf| self.ppf(ppf)).collect();
                json!({
                    "root": self.ppf(shape.root), "ppfs": ppfs, "loaded_at_once": shape.ahead,
                    "cgpc": {"accesses": shape.accesses, "instructions": shape.instructions}, "in_memory": fallbacks,
                })
            })
            .collect();
        json!({
            "app": self.program.name, "packets": found.packets, "builds": builds(&found.costs, found.packets),
            "paths": ways, "ppfs": ppfs, "aggregates": aggregates,
        })
    }

    fn text(&self) -> String {
        let found = self.found;
        let mut out = format!("{}: {} packets of the trace\n\nper packet\n", self.name, grouped(found.packets));
        table(&mut out, &HEADER, rows(&found.costs, found.packets));
        for way in found.ways.iter().take(WAYS) {
            out += &format!("\n{} packets: {}\n", grouped(way.packets), self.steps(&way.steps).join(" > "));
            table(&mut out, &HEADER, rows(&way.costs, way.packets));
        }
        if found.ways.len() > WAYS {
            out += &format!("\n{} further ways; --json shows all\n", found.ways.len() - WAYS);
        }
        out += "\nin the code of each PPF\n";
        let row = |shape: &baker::opt::explain::PpfShape| {
            let numbers = [shape.accesses, shape.instructions].into_iter().flatten().map(|n| n.to_string());
            std::iter::once(self.ppf(shape.ppf).to_string()).chain(numbers).collect()
        };
        let header = ["ppf", "accesses base", "pac", "instructions base", "pac"];
        table(&mut out, &header, found.ppfs.iter().map(row).collect());
        for shape in &found.aggregates {
            let ppfs: Vec<&str> = shape.ppfs.iter().map(|&ppf| self.ppf(ppf)).collect();
            out += &format!("\naggregate {}\n  joins {}\n", self.ppf(shape.root), ppfs.join(", "));
            if shape.ahead > 0 {
                out += &format!("  loads the first {} bytes at once where the packet has them\n", shape.ahead);
            }
            out += &format!("  {} accesses in the code, {} instructions\n", shape.accesses, shape.instructions);
            for fallback in &shape.fallbacks {
                out += &format!("  in memory from {}: {}\n", self.place(fallback.span), fallback.reason.text());
            }
        }
        out
    }
}

const HEADER: [&str; 5] = ["", "packet accesses", "bytes", "descriptor accesses", "instructions"];

fn rows(costs: &[Costs; 3], packets: u64) -> Vec<Vec<String>> {
    let row = |(level, costs): (Level, &Costs)| {
        let numbers = averages(costs, packets).map(|(_, average)| format!("{average:.1}"));
        std::iter::once(level.name().to_string()).chain(numbers).collect()
    };
    Level::ALL.into_iter().zip(costs).map(row).collect()
}

fn builds(costs: &[Costs; 3], packets: u64) -> Value {
    let build = |costs: &Costs| {
        let fields = averages(costs, packets).map(|(name, average)| (name.to_string(), json!(average)));
        Value::Object(fields.into_iter().collect())
    };
    Value::Object(
        Level::ALL
            .into_iter()
            .zip(costs)
            .map(|(level, costs)| (level.name().into(), build(costs)))
            .collect::<Map<_, _>>(),
    )
}

/// Per packet, to a hundredth.
fn averages(costs: &Costs, packets: u64) -> [(&'static str, f64); 4] {
    let per_packet = |sum: u64| (sum as f64 / packets.max(1) as f64 * 100.0).round() / 100.0;
    [
        ("accesses", per_packet(costs.accesses)),
        ("bytes", per_packet(costs.bytes)),
        ("descriptor_accesses", per_packet(costs.descriptor)),
        ("instructions", per_packet(costs.instructions)),
    ]
}
