//! The channels of a program as a Graphviz graph: PPFs are boxes, channels are edges with their protocol, timers are
//! hexagons.

use std::fmt::Write;

use super::program::{Ppf, PpfId, Program};
use super::wires::{Wire, wires};

/// The graph in the DOT language, with a frame around the PPFs that run in the kernel.
pub fn dot(program: &Program, in_kernel: impl Fn(PpfId) -> bool) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(out, "digraph \"{}\" {{\n  rankdir=LR;\n  node [shape=box];", program.name);
    let controllers = program.controllers.iter().map(|controller| controller.name.as_str());
    for end in ["rx", "tx", "host"].into_iter().chain(controllers) {
        let _ = writeln!(out, "  \"{end}\" [shape=ellipse];");
    }
    let kernel: Vec<&Ppf> =
        (0..).map(PpfId).zip(&program.ppfs).filter(|(id, _)| in_kernel(*id)).map(|(_, ppf)| ppf).collect();
    if !kernel.is_empty() {
        let _ = writeln!(out, "  subgraph cluster_kernel {{\n    label=\"kernel (XDP)\";");
        for ppf in kernel {
            let _ = writeln!(out, "    \"{}\";", ppf.name);
        }
        out.push_str("  }\n");
    }
    for timer in &program.timers {
        let over = timer.over(program).map_or(String::new(), |table| format!("over {table} "));
        let (name, when) = (&timer.name, timer.when());
        let _ = writeln!(out, "  \"{name}\" [shape=hexagon, label=\"{name}\\n{over}{when}\"];");
    }
    for Wire { from, to, channel } in wires(program) {
        let channel = &program.channels[channel.0 as usize];
        let protocol = &program.protocols[channel.protocol.0 as usize].name;
        let label = channel.name.rsplit('.').next().unwrap_or(&channel.name);
        let _ = writeln!(out, "  \"{from}\" -> \"{to}\" [label=\"{label}: {protocol}\"];");
    }
    out.push_str("}\n");
    out
}
