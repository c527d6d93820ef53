//! How the program that runs is wired, and where its PPFs run.

use baker::ir::{Op, PpfId, Program, Wire, wires};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A program as a graph.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Graph {
    /// The program's name.
    pub program: String,
    /// What packets go through, by names that nothing else of the program has.
    pub nodes: Vec<Node>,
    /// Channels between them.
    pub edges: Vec<Edge>,
}

/// What packets go through, come from or go to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Node {
    /// Its name; that of a PPF is its name in the counters.
    pub name: String,
    /// What it is.
    pub kind: NodeKind,
    /// Of a PPF, where it runs: `xdp` or `tc`, in the kernel; `worker`; or `interp`, on workers by the interpreter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine: Option<String>,
    /// Reasons by which it drops packets, as the counters name them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub drops: Vec<String>,
}

/// Kinds of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum NodeKind {
    /// Where packets come in from ports.
    Rx,
    /// Where they leave by ports.
    Tx,
    /// The kernel's own stack.
    Host,
    /// A packet processing function.
    Ppf,
    /// What runs without a packet.
    Timer,
    /// A controller.
    Controller,
    /// Where packets wait for their time.
    Queue,
    /// Where packets become one for each member.
    Group,
}

/// A channel from one node to another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Edge {
    /// Who puts packets into it.
    pub from: String,
    /// Where they go.
    pub to: String,
    /// The channel's name, as in the counters. Where several put packets into it, all their edges have it.
    pub channel: String,
    /// The protocol of its packets.
    pub protocol: String,
}

impl Graph {
    /// Of a program before it is divided between the kernel and workers; `engine` says what runs a PPF.
    pub fn new(program: &Program, engine: impl Fn(PpfId) -> &'static str) -> Graph {
        let edge = |Wire { from, to, channel }: Wire| {
            let channel = &program.channels[channel.0 as usize];
            let protocol = program.protocols[channel.protocol.0 as usize].name.clone();
            Edge { from: from.into(), to: to.into(), channel: channel.name.clone(), protocol }
        };
        let edges: Vec<Edge> = wires(program).into_iter().map(edge).collect();
        let is_wired = |name: &str| edges.iter().any(|edge| edge.from == name || edge.to == name);
        let plain = |name: &str, kind| Node { name: name.into(), kind, engine: None, drops: Vec::new() };
        let ends = [("rx", NodeKind::Rx), ("tx", NodeKind::Tx), ("host", NodeKind::Host)];
        let mut nodes: Vec<Node> =
            ends.into_iter().filter(|(name, _)| is_wired(name)).map(|(name, kind)| plain(name, kind)).collect();
        nodes.extend((0..).map(PpfId).zip(&program.ppfs).map(|(id, ppf)| {
            let mut drops: Vec<String> = Vec::new();
            for inst in ppf.body.blocks.iter().flat_map(|block| &block.insts) {
                if let Op::Drop { reason, .. } = inst.op {
                    let name = &program.drop_reasons[reason.0 as usize].name;
                    if !drops.contains(name) {
                        drops.push(name.clone());
                    }
                }
            }
            Node { engine: Some(engine(id).into()), drops, ..plain(&ppf.name, NodeKind::Ppf) }
        }));
        let others = program.timers.iter().map(|own| (&own.name, NodeKind::Timer));
        let others = others.chain(program.controllers.iter().map(|own| (&own.name, NodeKind::Controller)));
        let others = others.chain(program.queues.iter().map(|own| (&own.name, NodeKind::Queue)));
        let others = others.chain(program.tables.iter().map(|own| (&own.name, NodeKind::Group)));
        nodes.extend(others.filter(|(name, _)| is_wired(name)).map(|(name, kind)| plain(name, kind)));
        Graph { program: program.name.clone(), nodes, edges }
    }
}
