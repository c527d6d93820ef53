//! `millrace metrics`: what the controllers of a running instance have counted.

use cli::failure::Failure;
use cli::metrics;
use cli::output::print;
use cli::remote::{Remote, failed, print_json};
use control::application::Offered;
use control::application::metrics::{Family, Sample};
use control::socket::Request;
use indexmap::IndexMap;
use serde_json::Value as Json;

/// What to show.
#[derive(clap::Args)]
pub struct Args {
    /// Only those whose names begin so, such as server_ or service_requests
    #[arg(value_name = "NAME", default_value = "", hide_default_value = true)]
    name: String,
    /// Only those with this label, such as server=a
    #[arg(long = "label", value_name = "LABEL=VALUE", value_parser = label)]
    labels: Vec<(String, String)>,
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
    let offered: Vec<Offered> = client.ask(&Request::Queries).map_err(failed)?;
    let mut all: IndexMap<String, Vec<Family>> = IndexMap::new();
    for Offered { controller, query, .. } in offered.into_iter().filter(|offered| offered.query == "metrics") {
        let request = Request::Query { controller: controller.clone(), query, with: Json::Null };
        all.insert(controller, client.ask(&request).map_err(failed)?);
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
