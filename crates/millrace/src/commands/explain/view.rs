//! An explanation as text and as JSON.

use baker::ir::interp::{Costs, Step};
use baker::ir::{PpfId, Program};
use baker::opt::Level;
use baker::opt::cache::Fallback;
use baker::opt::explain::{Explanation, PpfShape, Size, Stage};
use baker::place::Placement;
use baker::source::Sources;
use cli::report::{grouped, table};
use codegen::bpf::Accepted;
use codegen::kernel::Object;
use dataplane::xdp::KernelAnswer;
use serde_json::{Map, Value, json};

use crate::commands::stages;

/// Ways through the program that are shown.
const MAX_PATHS: usize = 12;
const HEADER: [&str; 5] = ["", "packet accesses", "bytes", "descriptor accesses", "instructions"];

/// What is shown.
pub struct View<'a> {
    pub name: &'a str,
    pub program: &'a Program,
    /// The program as native code is made from it.
    pub optimised: &'a Program,
    /// Where its PPFs can run.
    pub placement: &'a Placement,
    /// The kernel's part as BPF code, if there is one.
    pub kernel: Option<&'a Accepted<Object>>,
    /// What the kernel says of it.
    pub answer: &'a KernelAnswer,
    pub sources: &'a Sources,
    pub found: &'a Explanation,
}

impl View<'_> {
    pub(super) fn ppf(&self, ppf: PpfId) -> &str {
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
    pub(super) fn place(&self, span: Option<baker::source::Span>) -> String {
        stages::place(span, self.sources)
    }

    /// Where something was not optimised: what no operation of the source stands for, at its PPF.
    fn fallback(&self, fallback: &Fallback) -> (String, &'static str) {
        let span = fallback.span.or(self.program.ppfs[fallback.ppf.0 as usize].span);
        (self.place(span), fallback.reason.text())
    }

    /// As JSON: one object.
    pub fn json(&self) -> Value {
        let found = self.found;
        let fallbacks = |all: &[Fallback]| -> Vec<Value> {
            let one = |(at, reason)| json!({"at": at, "reason": reason});
            all.iter().map(|fallback| one(self.fallback(fallback))).collect()
        };
        let paths = found.paths.iter().map(|path| {
            json!({
                "path": self.steps(&path.steps), "packets": path.packets, "builds": self.builds(&path.costs, path.packets),
                "passes": self.passes(&path.costs, path.packets),
            })
        });
        let ppfs = found.ppfs.iter().map(|shape| {
            let code: Vec<Value> = shape.code.iter().map(|code| code.map_or(Value::Null, size)).collect();
            let mut passes = self.passes(&shape.costs, found.packets);
            for (pass, code) in passes.iter_mut().zip(code) {
                pass["code"] = code;
            }
            json!({
                "name": self.ppf(shape.ppf), "at": self.place(self.program.ppfs[shape.ppf.0 as usize].span),
                "builds": self.builds(&shape.costs, found.packets), "passes": passes,
                "in_memory": fallbacks(&shape.fallbacks),
            })
        });
        let aggregates = found.aggregates.iter().map(|shape| {
            let ppfs: Vec<&str> = shape.ppfs.iter().map(|&ppf| self.ppf(ppf)).collect();
            json!({
                "root": self.ppf(shape.root), "ppfs": ppfs, "loaded_at_once": shape.ahead, "cgpc": size(shape.code),
                "in_memory": fallbacks(&shape.fallbacks),
            })
        });
        json!({
            "app": self.program.name, "packets": found.packets, "builds": self.builds(&found.costs, found.packets),
            "passes": self.passes(&found.costs, found.packets), "paths": paths.collect::<Vec<_>>(),
            "ppfs": ppfs.collect::<Vec<_>>(), "aggregates": aggregates.collect::<Vec<_>>(),
            "staging": self.staging_json(), "timers": self.timers_json(),
            "placement": self.placement_json(),
        })
    }

    /// For people.
    pub fn text(&self) -> String {
        let found = self.found;
        let mut out = format!("{}: {} packets of the trace\n\nper packet\n", self.name, grouped(found.packets));
        table(&mut out, &HEADER, self.rows(&found.costs, found.packets));
        for path in found.paths.iter().take(MAX_PATHS) {
            out += &format!("\n{} packets: {}\n", grouped(path.packets), self.steps(&path.steps).join(" > "));
            table(&mut out, &HEADER, self.rows(&path.costs, path.packets));
        }
        if found.paths.len() > MAX_PATHS {
            out += &format!("\n{} further paths; --json shows all\n", found.paths.len() - MAX_PATHS);
        }
        for shape in &found.ppfs {
            self.ppf_text(shape, &mut out);
        }
        for shape in &found.aggregates {
            let ppfs: Vec<&str> = shape.ppfs.iter().map(|&ppf| self.ppf(ppf)).collect();
            out += &format!("\naggregate {}\n  joins {}\n", self.ppf(shape.root), ppfs.join(", "));
            if shape.ahead > 0 {
                out += &format!("  loads the first {} bytes at once where the packet has them\n", shape.ahead);
            }
            out +=
                &format!("  {} accesses in the code, {} instructions\n", shape.code.accesses, shape.code.instructions);
            self.fallbacks_text(&shape.fallbacks, &mut out);
        }
        self.staging_text(&mut out);
        self.timers_text(&mut out);
        self.placement_text(&mut out);
        out
    }

    /// What packets cost in a PPF, per packet of the trace, and what its code consists of.
    fn ppf_text(&self, shape: &PpfShape, out: &mut String) {
        let at = self.place(self.program.ppfs[shape.ppf.0 as usize].span);
        *out += &format!("\nppf {} ({at})\n", self.ppf(shape.ppf));
        let mut rows = self.rows(&shape.costs, self.found.packets);
        for (row, code) in rows.iter_mut().zip(&shape.code) {
            let cells = code.map(|code| [code.accesses, code.instructions].map(|n| n.to_string()));
            row.extend(cells.unwrap_or_else(|| ["-".into(), "-".into()]));
        }
        table(out, &[&HEADER[..], &["in the code: accesses", "instructions"]].concat(), rows);
        self.fallbacks_text(&shape.fallbacks, out);
    }

    fn fallbacks_text(&self, fallbacks: &[Fallback], out: &mut String) {
        for (at, reason) in fallbacks.iter().map(|fallback| self.fallback(fallback)) {
            *out += &format!("  in memory from {at}: {reason}\n");
        }
    }

    /// A line per stage.
    fn rows(&self, costs: &[Costs], packets: u64) -> Vec<Vec<String>> {
        let row = |(stage, costs): (&Stage, &Costs)| {
            let numbers = averages(costs, packets).map(|(_, average)| format!("{average:.1}"));
            let name = match stage.pass {
                Some(pass) => format!("{}: {pass}", stage.level.name()),
                None => stage.level.name().to_owned(),
            };
            std::iter::once(name).chain(numbers).collect()
        };
        self.found.stages.iter().zip(costs).map(row).collect()
    }

    /// After the last pass of each level.
    fn builds(&self, costs: &[Costs], packets: u64) -> Value {
        let build = |level: Level| (level.name().into(), fields(&costs[self.found.last_stage(level)], packets).into());
        Value::Object(Level::ALL.into_iter().map(build).collect())
    }

    /// Before the first pass, and after each.
    fn passes(&self, costs: &[Costs], packets: u64) -> Vec<Value> {
        let pass = |(stage, costs): (&Stage, &Costs)| {
            let mut object = Map::new();
            object.insert("level".into(), stage.level.name().into());
            object.insert("pass".into(), stage.pass.into());
            object.extend(fields(costs, packets));
            Value::Object(object)
        };
        self.found.stages.iter().zip(costs).map(pass).collect()
    }
}

fn size(size: Size) -> Value {
    json!({"accesses": size.accesses, "instructions": size.instructions})
}

fn fields(costs: &Costs, packets: u64) -> Map<String, Value> {
    averages(costs, packets).into_iter().map(|(name, average)| (name.to_string(), json!(average))).collect()
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
