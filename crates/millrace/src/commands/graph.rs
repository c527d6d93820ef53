//! `millrace graph`: how the program of a running instance is wired, and where its PPFs run.

use cli::failure::Failure;
use cli::output::print;
use cli::remote::{Remote, failed, print_json};
use cli::report;
use control::socket::{Graph, Node, Request};

/// The instance to ask.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    remote: Remote,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<(), Failure> {
    let graph: Graph = args.remote.connect()?.ask(&Request::Graph).map_err(failed)?;
    if args.remote.json {
        print_json(&graph);
        return Ok(());
    }
    let ppf = |node: &Node| Some(vec![node.name.clone(), node.engine.clone()?, node.drops.join(", ")]);
    let mut out = String::new();
    report::table(&mut out, &["ppf", "runs", "drops by"], graph.nodes.iter().filter_map(ppf).collect());
    out.push('\n');
    let wires = graph.edges.into_iter().map(|edge| vec![edge.from, edge.to, edge.channel, edge.protocol]);
    report::table(&mut out, &["from", "to", "channel", "protocol"], wires.collect());
    print(format_args!("{out}"));
    Ok(())
}
