//! The channels of a program as a Graphviz graph: PPFs are boxes, channels are edges with their protocol, timers are
//! hexagons.

use std::fmt::Write;

use super::program::{ChannelId, Ppf, PpfId, Program, Source, Target};

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
    let mut edge = |from: &str, channel: ChannelId| {
        let channel = &program.channels[channel.0 as usize];
        let to = match channel.target {
            Target::Ppf(ppf) => &program.ppfs[ppf.0 as usize].name,
            Target::Tx => "tx",
            Target::Host => "host",
            Target::Controller(id) => &program.controllers[id.0 as usize].name,
            Target::Group(id, _) => &program.tables[id.0 as usize].name,
            Target::Queue(id, _) => &program.queues[id.0 as usize].name,
        };
        let protocol = &program.protocols[channel.protocol.0 as usize].name;
        let label = channel.name.rsplit('.').next().unwrap_or(&channel.name);
        let _ = writeln!(out, "  \"{from}\" -> \"{to}\" [label=\"{label}: {protocol}\"];");
    };
    for channel in program.entries() {
        match program.channels[channel.0 as usize].from {
            Some(Source::Controller(id)) => edge(&program.controllers[id.0 as usize].name, channel),
            Some(Source::Group(id)) => edge(&program.tables[id.0 as usize].name, channel),
            Some(Source::Queue(id)) => edge(&program.queues[id.0 as usize].name, channel),
            Some(Source::Kernel) => edge("kernel", channel),
            None => edge("rx", channel),
        }
    }
    let ppfs = program.ppfs.iter().map(|ppf| (&ppf.name, &ppf.body));
    for (name, body) in ppfs.chain(program.timers.iter().map(|timer| (&timer.name, &timer.body))) {
        let mut channels: Vec<ChannelId> = Vec::new();
        for channel in body.puts() {
            if !channels.contains(&channel) {
                channels.push(channel);
            }
        }
        for channel in channels {
            edge(name, channel);
        }
    }
    out.push_str("}\n");
    out
}
