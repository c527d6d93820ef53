//! `millrace metrics`: what the controllers of a running instance have counted; with `--openmetrics` all that it
//! counts, as monitoring systems get it.

use cli::failure::Failure;
use cli::metrics;
use cli::output::print;
use cli::remote::{Remote, failed, print_json};
use control::application::metrics::{Family, Sample};
use control::application::{METRICS, Offered};
use control::socket::{Client, ClientError, Request, Seen, Timing};
use figures::exposition::{Format, text};
use indexmap::IndexMap;
use serde_json::{Value as Json, json};

/// What to show.
#[derive(clap::Args)]
pub struct Args {
    /// Only those whose names begin so, such as server_ or service_requests
    #[arg(value_name = "NAME", default_value = "", hide_default_value = true)]
    name: String,
    /// Only those with this label, such as server=a
    #[arg(long = "label", value_name = "LABEL=VALUE", value_parser = label)]
    labels: Vec<(String, String)>,
    /// Everything that the instance and its controllers count, as monitoring systems get it by HTTP
    #[arg(long, conflicts_with_all = ["name", "labels", "json"])]
    openmetrics: bool,
    #[command(flatten)]
    remote: Remote,
}

fn label(text: &str) -> Result<(String, String), String> {
    let parts = text.split_once('=').filter(|(name, _)| !name.is_empty());
    parts.map(|(name, value)| (name.into(), value.into())).ok_or_else(|| "write LABEL=VALUE, such as server=a".into())
}

/// Runs the command.
pub fn run(args: &Args) -> Result<(), Failure> {
    let mut client = args.remote.connect()?;
    if args.openmetrics {
        print(format_args!("{}", text(&look(&mut client).map_err(failed)?, Format::OpenMetrics)));
        return Ok(());
    }
    let mut all: IndexMap<String, Vec<Family>> = IndexMap::new();
    for controller in controllers(&mut client).map_err(failed)? {
        let families = ask(&mut client, &controller, Json::Null).map_err(failed)?;
        all.insert(controller, families);
    }
    for family in all.values_mut().flatten() {
        let fits = |sample: &Sample| args.labels.iter().all(|(name, value)| sample.labels.get(name) == Some(value));
        family.samples.retain(fits);
    }
    all.values_mut().for_each(|own| own.retain(|own| own.name.starts_with(&args.name) && !own.samples.is_empty()));
    if args.remote.json {
        print_json(&all);
        return Ok(());
    }
    let mut out = String::new();
    all.values().flatten().for_each(|family| metrics::show(family, &mut out));
    print(format_args!("{}", out.trim_start_matches('\n')));
    Ok(())
}

/// The controllers that have metrics.
fn controllers(client: &mut Client) -> Result<Vec<String>, ClientError> {
    let offered: Vec<Offered> = client.ask(&Request::Queries)?;
    let with_metrics = offered.into_iter().filter(|offered| offered.query == METRICS);
    Ok(with_metrics.map(|offered| offered.controller).collect())
}

fn ask(client: &mut Client, controller: &str, with: Json) -> Result<Vec<Family>, ClientError> {
    client.ask(&Request::Query { controller: controller.into(), query: METRICS.into(), with })
}

/// As the instance itself looks at what it counts.
pub fn look(client: &mut Client) -> Result<Seen, ClientError> {
    let asked = controllers(client)?;
    let mut answers = Vec::new();
    for name in &asked {
        // One that does not answer has no figures.
        answers.extend(ask(client, name, json!({ "sessions": false })).ok().map(|families| (name.clone(), families)));
    }
    let (status, counters) = (client.ask(&Request::Status)?, client.ask(&Request::Counters)?);
    let timing: Timing = client.ask(&Request::TimingShow)?;
    let Timing { ppfs: times, tables: look_ups, .. } = if timing.left_ms > 0 { timing } else { Timing::default() };
    let tables = client.ask(&Request::Tables)?;
    Ok(Seen { status, counters, tables, times, look_ups, asked, controllers: answers })
}
