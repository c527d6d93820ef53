//! `millrace explain`: what the optimiser does to a program, measured on a trace.

use std::path::PathBuf;

use baker::ir::interp::{Costs, Step};
use baker::ir::{PpfId, Program, Timer};
use baker::opt::explain::{Explanation, explain};
use baker::opt::{Level, optimise};
use baker::source::Sources;
use control::controllers;
use serde_json::{Map, Value, json};

use super::instance::configuration;
use super::remote::print_json;
use super::trace;
use crate::apps;
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
    /// Packets to measure with (pcap or pcapng); without it, the trace beside the program. An interface of a pcapng file is
    /// the port of its name
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
    let trace = trace::read(args.profile.as_ref(), "--profile T.pcap", &args.port, &source, &config)?;
    let externs = controllers::externs(&program).map_err(|error| Failure::wrong(format!("error: {error}")))?;
    let found = explain(&program, &trace, |machine| {
        if let Some(externs) = &externs {
            machine.set_externs(externs.clone());
        }
        config.fill(&program, machine)
    })
    .map_err(|error| Failure::wrong(format!("error: {error}")))?;
    let view = View { name: &source.name, program: &program, sources: &compilation.sources, found: &found };
    if args.json {
        print_json(&view.json());
    } else {
        print(format_args!("{}", view.text()));
    }
    Ok(())
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
            "paths": ways, "ppfs": ppfs, "aggregates": aggregates, "timers": self.timers_json(),
        })
    }

    /// Each timer with the instructions of its code at levels base and cgpc.
    fn each_timer(&self) -> impl Iterator<Item = (&Timer, [usize; 2])> {
        let instructions = |timer: &Timer| timer.body.blocks.iter().map(|block| block.insts.len()).sum::<usize>();
        let optimised = optimise(self.program, Level::Cgpc).timers;
        let both = self.program.timers.iter().zip(optimised);
        both.map(move |(timer, optimised)| (timer, [instructions(timer), instructions(&optimised)]))
    }

    fn timers(&self) -> String {
        let row = |(timer, instructions): (&Timer, [usize; 2])| {
            let over = timer.over(self.program).unwrap_or_default().to_string();
            let [base, cgpc] = instructions.map(|count| count.to_string());
            vec![timer.name.clone(), over, timer.every(), timer.slice.to_string(), base, cgpc]
        };
        let rows: Vec<_> = self.each_timer().map(row).collect();
        let mut out = String::new();
        if !rows.is_empty() {
            out.push('\n');
            table(&mut out, &["timers", "over", "every", "at once", "instructions base", "cgpc"], rows);
        }
        out
    }

    fn timers_json(&self) -> Vec<Value> {
        let one = |(timer, [base, cgpc]): (&Timer, [usize; 2])| {
            json!({
                "name": timer.name, "table": timer.over(self.program), "period_ns": timer.period, "at_once": timer.slice,
                "base": {"instructions": base}, "cgpc": {"instructions": cgpc},
            })
        };
        self.each_timer().map(one).collect()
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
        out += &self.timers();
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
