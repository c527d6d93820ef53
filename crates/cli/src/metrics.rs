//! Figures of controllers as a person reads them.

use control::application::metrics::{Family, MetricValue, Sample};

use crate::report::{grouped, table};

/// A family as a table; metrics that are zero are left out.
pub fn show(family: &Family, out: &mut String) {
    let is_there =
        |sample: &&Sample| !matches!(sample.value, MetricValue::Number(0) | MetricValue::Histogram { count: 0, .. });
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
        MetricValue::Number(_) => &[&title, ""],
        MetricValue::Histogram { .. } => &[&title, "count", "mean", "50 %", "90 %", "99 %"],
    };
    table(out, header, samples.iter().map(row).collect());
}

fn values(figure: &MetricValue) -> Vec<String> {
    match figure {
        MetricValue::Number(number) => vec![grouped(*number)],
        MetricValue::Histogram { count, sum, .. } => {
            let below = |percent| match figure.percentile(percent) {
                Some(bound) => format!("≤ {}", grouped(bound)),
                None => "above".into(),
            };
            let mean = grouped(sum / count.max(&1));
            [grouped(*count), mean].into_iter().chain([50, 90, 99].map(below)).collect()
        }
    }
}
