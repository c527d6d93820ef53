//! `millrace figures`: what the controllers of a running instance have counted.

use control::application::Offered;
use control::application::figures::{Family, Figure, Sample};
use control::socket::Request;
use indexmap::IndexMap;
use serde_json::Value as Json;

use super::remote::{Remote, failed, print_json};
use crate::failure::Failure;
use crate::output::print;
use crate::report::{grouped, table};

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
    for Offered { controller, query, .. } in offered.into_iter().filter(|offered| offered.query == "figures") {
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
    all.values().flatten().for_each(|family| show(family, &mut out));
    print(format_args!("{}", out.trim_start_matches('\n')));
    Ok(())
}

/// A family as a table; figures that are zero are left out.
pub fn show(family: &Family, out: &mut String) {
    let is_there = |sample: &&Sample| !matches!(sample.value, Figure::Number(0) | Figure::Histogram { count: 0, .. });
    let samples: Vec<&Sample> = family.samples.iter().filter(is_there).collect();
    let Some(first) = samples.first() else { return };
    let names: Vec<&str> = first.labels.keys().map(String::as_str).collect();
    let title = format!("{} {}", family.name, names.join(" "));
    let row = |sample: &&Sample| {
        let labels = sample.labels.values().map(String::as_str).collect::<Vec<_>>().join(" ");
        [labels].into_iter().chain(values(&sample.value)).collect()
    };
    out.push('\n');
    let header: &[&str] = match first.value {
        Figure::Number(_) => &[&title, ""],
        Figure::Histogram { .. } => &[&title, "count", "mean", "50 %", "90 %", "99 %"],
    };
    table(out, header, samples.iter().map(row).collect());
}

fn values(figure: &Figure) -> Vec<String> {
    match figure {
        Figure::Number(number) => vec![grouped(*number)],
        Figure::Histogram { count, sum, .. } => {
            let below = |percent| match figure.percentile(percent) {
                Some(bound) => format!("≤ {}", grouped(bound)),
                None => "above".into(),
            };
            let mean = grouped(sum / count.max(&1));
            [grouped(*count), mean].into_iter().chain([50, 90, 99].map(below)).collect()
        }
    }
}
