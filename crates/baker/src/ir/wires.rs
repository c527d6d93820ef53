//! How a program is wired: which channel leads from where to where.

use super::program::{ChannelId, Program, Source, Target};

/// A channel between two ends, which are told by their names: those of PPFs, timers, queues, groups and controllers,
/// `rx`, `tx`, `host`, and `kernel` for what a worker takes over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wire<'p> {
    /// Who puts packets into it. A channel that several put packets into is told once for each.
    pub from: &'p str,
    /// Where they go.
    pub to: &'p str,
    /// The channel.
    pub channel: ChannelId,
}

/// All channels: those by which packets enter, then those of PPFs and of timers, in the program's order.
pub fn wires(program: &Program) -> Vec<Wire<'_>> {
    let wire = |from, channel: ChannelId| {
        let to = match program.channels[channel.0 as usize].target {
            Target::Ppf(ppf) => &program.ppfs[ppf.0 as usize].name,
            Target::Tx => "tx",
            Target::Host => "host",
            Target::Controller(id) => &program.controllers[id.0 as usize].name,
            Target::Group(id, _) => &program.tables[id.0 as usize].name,
            Target::Queue(id, _) => &program.queues[id.0 as usize].name,
        };
        Wire { from, to, channel }
    };
    let entry = |channel: ChannelId| {
        let from = match program.channels[channel.0 as usize].from {
            Some(Source::Controller(id)) => &program.controllers[id.0 as usize].name,
            Some(Source::Group(id)) => &program.tables[id.0 as usize].name,
            Some(Source::Queue(id)) => &program.queues[id.0 as usize].name,
            Some(Source::Kernel) => "kernel",
            None => "rx",
        };
        wire(from, channel)
    };
    let mut all: Vec<Wire> = program.entries().map(entry).collect();
    let ppfs = program.ppfs.iter().map(|ppf| (&ppf.name, &ppf.body));
    for (name, body) in ppfs.chain(program.timers.iter().map(|timer| (&timer.name, &timer.body))) {
        let first = all.len();
        for channel in body.puts() {
            if !all[first..].iter().any(|own| own.channel == channel) {
                all.push(wire(name, channel));
            }
        }
    }
    all
}
