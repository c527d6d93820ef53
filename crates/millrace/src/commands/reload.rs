//! `millrace reload`: has a running instance read its program and its configuration again.

use cli::failure::Failure;
use cli::remote::{Remote, failed, print_json};
use cli::say;
use control::socket::{Reloaded, Request};

/// The instance to tell.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    remote: Remote,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<(), Failure> {
    let reloaded: Reloaded = args.remote.connect()?.ask(&Request::Reload).map_err(failed)?;
    if args.remote.json {
        print_json(&reloaded);
        return Ok(());
    }
    for warning in &reloaded.warnings {
        say!("warning: {warning}");
    }
    if reloaded.replaced {
        say!("in force: the program as it is now");
        reloaded.engine.iter().for_each(|engine| say!("engine: {engine}"));
        let other: Vec<_> = reloaded.tables.iter().filter(|(_, carried)| *carried != "kept").collect();
        let kept = reloaded.tables.len() - other.len();
        say!("tables: {kept} of {} are kept with their entries", reloaded.tables.len());
        other.iter().for_each(|(table, carried)| say!("table {table}: {carried}"));
    }
    if reloaded.set + reloaded.removed > 0 {
        say!("in force: {} entries of tables set, {} removed", reloaded.set, reloaded.removed);
    }
    if !reloaded.controllers.is_empty() {
        say!("in force: settings of {}", reloaded.controllers.join(", "));
    }
    if let Some(place) = &reloaded.metrics {
        say!("in force: metrics: {place}");
    }
    if let Some(place) = &reloaded.web {
        say!("in force: web: {place}");
    }
    if let Some(place) = &reloaded.sflow {
        say!("in force: sflow: {place}");
    }
    if let Some(place) = &reloaded.ipfix {
        say!("in force: ipfix: {place}");
    }
    let endpoints = [&reloaded.metrics, &reloaded.web, &reloaded.sflow, &reloaded.ipfix];
    let same = reloaded.controllers.is_empty() && endpoints.iter().all(|own| own.is_none());
    if same && !reloaded.replaced && reloaded.set + reloaded.removed == 0 {
        say!("nothing has changed");
    }
    Ok(())
}
