//! Figures as text: OpenMetrics 1.0, and Prometheus' text format 0.0.4.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

use control::application::metrics::{Family, Kind, MetricValue, Sample};
use control::socket::Seen;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, prometheus_text, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::exemplar::Exemplar;
use prometheus_client::registry::{Registry, Unit};

use crate::registry::families;

/// In front of all names.
pub const PREFIX: &str = "millrace";

/// How figures are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// The older format, which every reader knows.
    Prometheus,
}

impl Format {
    /// Its media type.
    pub fn media_type(self) -> &'static str {
        match self {
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Format::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// All figures of an instance as text.
pub fn text(seen: &Seen, format: Format) -> String {
    let labels = [("instance".into(), seen.status.instance.clone().into())];
    let mut registry = Registry::with_prefix_and_labels(PREFIX, labels.into_iter());
    registry.register_collector(Box::new(Collected(exported(seen))));
    let mut out = String::new();
    let written = match format {
        Format::OpenMetrics => text::encode(&mut out, &registry),
        Format::Prometheus => prometheus_text::encode(&mut out, &registry),
    };
    // A string takes everything.
    written.expect("a string can be written to");
    out
}

/// A family as it is exported.
#[derive(Debug)]
pub struct Exported {
    /// Without prefix, unit and `total`.
    stem: String,
    unit: Option<Unit>,
    /// How many of the unit that it is counted in are one of `unit`.
    many: f64,
    family: Family,
}

impl Exported {
    /// Its name, as monitoring systems know it.
    pub fn name(&self) -> String {
        let unit = self.unit.as_ref().map_or(String::new(), |unit| format!("_{}", unit.as_str()));
        let total = if self.family.kind == Kind::Counter { "_total" } else { "" };
        format!("{PREFIX}_{}{unit}{total}", self.stem)
    }

    /// What is counted.
    pub fn about(&self) -> &str {
        &self.family.about
    }

    /// How it is read.
    pub fn kind(&self) -> Kind {
        self.family.kind
    }

    /// Its base unit, if it has one.
    pub fn unit(&self) -> Option<&str> {
        self.unit.as_ref().map(Unit::as_str)
    }
}

/// The figures of the instance, then those of its controllers, whose names begin with that of the controller. A family
/// under the name of one before it is left out.
pub fn exported(seen: &Seen) -> Vec<Exported> {
    let own = families(seen).into_iter().map(|family| (String::new(), family));
    let of_controllers = seen.controllers.iter().flat_map(|(name, all)| {
        let start = format!("{name}_");
        all.iter().map(move |family| (start.clone(), family.clone()))
    });
    let mut names = HashSet::new();
    let export = |(start, family): (String, Family)| {
        let (stem, unit, many) = family.in_base_unit();
        let stem = format!("{start}{}", stem.strip_prefix(&start).unwrap_or(stem));
        let unit = unit.map(|unit| match unit {
            "seconds" => Unit::Seconds,
            "bytes" => Unit::Bytes,
            other => Unit::Other(other.into()),
        });
        Exported { stem, unit, many, family }
    };
    let is_new = |own: &Exported| names.insert((own.stem.clone(), own.unit.clone()));
    own.chain(of_controllers).map(export).filter(is_new).collect()
}

#[derive(Debug)]
struct Collected(Vec<Exported>);

impl Collector for Collected {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        self.0.iter().try_for_each(|own| encode(own, &mut encoder))
    }
}

fn encode(own: &Exported, encoder: &mut DescriptorEncoder) -> fmt::Result {
    let kind = match own.family.kind {
        Kind::Counter => MetricType::Counter,
        Kind::Gauge => MetricType::Gauge,
        Kind::Histogram => MetricType::Histogram,
    };
    let about = one_line(&own.family.about);
    let mut encoder = encoder.encode_descriptor(&own.stem, &about, own.unit.as_ref(), kind)?;
    own.family.samples.iter().try_for_each(|sample| one(own, sample, &mut encoder))
}

fn one(own: &Exported, Sample { labels, value }: &Sample, encoder: &mut MetricEncoder) -> fmt::Result {
    let labels: Vec<(&str, &str)> = labels.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let mut encoder = encoder.encode_family(&labels)?;
    // Whole numbers stay whole, however large.
    let is_whole = own.many == 1.0;
    match (own.family.kind, value) {
        (Kind::Counter, MetricValue::Number(number)) if is_whole => encoder.encode_counter(number, NONE),
        (Kind::Counter, MetricValue::Number(number)) => encoder.encode_counter(&(*number as f64 / own.many), NONE),
        (Kind::Gauge, MetricValue::Number(number)) if is_whole => encoder.encode_gauge(number),
        (Kind::Gauge, MetricValue::Number(number)) => encoder.encode_gauge(&(*number as f64 / own.many)),
        (Kind::Histogram, MetricValue::Histogram { count, sum, buckets }) => {
            let seen: u64 = buckets.iter().map(|(_, own)| own).sum();
            let above = (f64::INFINITY, count.saturating_sub(seen));
            let bounds = buckets.iter().map(|(bound, count)| (*bound as f64 / own.many, *count));
            let buckets: Vec<(f64, u64)> = bounds.chain([above]).collect();
            encoder.encode_histogram::<Labels>(*sum as f64 / own.many, *count, &buckets, None)
        }
        // A controller that says one kind and means another: what it is can't be told.
        _ => Ok(()),
    }
}

type Labels = [(String, String); 0];
const NONE: Option<&Exemplar<Labels, f64>> = None;

/// A help text, whatever a controller says: the format has a line for it.
fn one_line(text: &str) -> Cow<'_, str> {
    let bad = |c: char| c.is_control() || matches!(c, '\\' | '"');
    if text.contains(bad) { text.replace(bad, " ").into() } else { text.into() }
}

#[cfg(test)]
mod tests {
    use control::application::metrics::Histogram;
    use control::socket::{Counters, PortState, Status, TableInfo};

    use super::*;

    fn seen() -> Seen {
        let mut counters = Counters::default();
        counters.drops.insert("no\\port".into(), u64::MAX);
        counters.ports.insert("lan".into(), PortState { rx_packets: 7, ..PortState::default() });
        let table = |name: &str, kind: &str, entries| TableInfo {
            name: name.into(),
            kind: kind.into(),
            key: String::new(),
            value: String::new(),
            entries,
            capacity: 8,
        };
        let tables = vec![table("m.hops", "array", 3), table("m.fib", "lpm", 4)];
        let mut times = Histogram::default();
        [50_000, 200_000, 20_000_000_000].into_iter().for_each(|time| times.note(time));
        let mut connect = Family::new(Kind::Histogram, "connect_us", "time\nto \"connect\"");
        connect.add(&[("server", "a")], &times);
        let mut loss = Family::new(Kind::Gauge, "toy_loss_percent", "loss");
        loss.add(&[], 25);
        let mut twice = Family::new(Kind::Gauge, "loss_percent", "the same once more");
        twice.add(&[], 1);
        let controllers = vec![("toy".to_owned(), vec![connect, loss, twice])];
        let status = Status { instance: "ed\"ge".into(), uptime_ms: 1500, ..Status::default() };
        Seen {
            status,
            counters,
            tables,
            times: Vec::new(),
            look_ups: Vec::new(),
            asked: vec!["toy".into(), "mute".into()],
            controllers,
        }
    }

    /// The lines about a family.
    fn about<'t>(text: &'t str, name: &str) -> Vec<&'t str> {
        let is_of = |line: &&str| line.trim_start_matches("# HELP ").trim_start_matches("# TYPE ").starts_with(name);
        text.lines().filter(is_of).collect()
    }

    #[test]
    fn what_is_counted_is_written_as_the_formats_want_it() {
        let open = text(&seen(), Format::OpenMetrics);
        assert!(open.ends_with("\n# EOF\n"), "{open}");
        assert_eq!(
            about(&open, "millrace_dropped_packets"),
            [
                "# HELP millrace_dropped_packets Packets dropped, by reason",
                "# TYPE millrace_dropped_packets counter",
                // No number is rounded.
                "millrace_dropped_packets_total{instance=\"ed\\\"ge\",reason=\"no\\\\port\"} 18446744073709551615",
            ]
        );
        assert!(open.contains("millrace_instance_uptime_seconds{instance=\"ed\\\"ge\"} 1.5\n"), "{open}");
        assert!(open.contains("# UNIT millrace_instance_uptime_seconds seconds\n"), "{open}");
        let classic = text(&seen(), Format::Prometheus);
        assert!(classic.contains("# TYPE millrace_dropped_packets_total counter\n"), "{classic}");
        assert!(!classic.contains("# EOF") && !classic.contains("# UNIT"), "{classic}");
        let of_ports = "millrace_port_receive_packets_total{instance=\"ed\\\"ge\",port=\"lan\"} 7\n";
        assert!(open.contains(of_ports) && classic.contains(of_ports), "{classic}");
    }

    #[test]
    fn entries_of_arrays_are_not_told() {
        let open = text(&seen(), Format::OpenMetrics);
        let samples = |name| about(&open, name).into_iter().filter(|line| line.starts_with(name)).collect::<Vec<_>>();
        let end =
            |lines: &[&str]| lines.iter().map(|line| line.split_once(',').unwrap().1.to_owned()).collect::<Vec<_>>();
        assert_eq!(end(&samples("millrace_table_entries")), ["table=\"m.fib\",kind=\"lpm\"} 4"]);
        assert_eq!(samples("millrace_table_capacity").len(), 2);
    }

    #[test]
    fn figures_of_controllers_come_in_base_units_under_their_names() {
        let open = text(&seen(), Format::OpenMetrics);
        let connect = about(&open, "millrace_toy_connect_seconds");
        assert_eq!(connect[0], "# HELP millrace_toy_connect_seconds time to  connect ");
        let bucket =
            |le: &str| format!("millrace_toy_connect_seconds_bucket{{instance=\"ed\\\"ge\",le=\"{le}\",server=\"a\"}}");
        let value = |le: &str| open.lines().find_map(|line| line.strip_prefix(&bucket(le))).map(str::to_owned);
        assert_eq!(value("0.0001").as_deref(), Some(" 1"), "{open}");
        assert_eq!(value("0.00025").as_deref(), Some(" 2"));
        assert_eq!(value("10.0").as_deref(), Some(" 2"), "{open}");
        assert_eq!(value("+Inf").as_deref(), Some(" 3"));
        // Of two of one name the first counts.
        let loss = "millrace_toy_loss_ratio{instance=\"ed\\\"ge\"} 0.25";
        assert_eq!(
            about(&open, "millrace_toy_loss").iter().filter(|line| !line.starts_with('#')).collect::<Vec<_>>(),
            [&loss]
        );
        let answers = about(&open, "millrace_controller_answers{");
        assert!(answers[0].ends_with("\"toy\"} 1") && answers[1].ends_with("\"mute\"} 0"), "{answers:?}");
    }
}
