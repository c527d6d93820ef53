//! Metrics that controllers offer by the query `metrics`: numbers with a name, a meaning and labels, in families, as
//! monitoring systems know them.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

/// Metrics that mean the same, told apart by their labels.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Family {
    /// The name: words in small letters with `_` between them; last the unit where there is one ([`UNITS`]), and behind
    /// it `total` where it only grows.
    pub name: String,
    /// What is counted.
    pub about: String,
    /// How to read them.
    pub kind: Kind,
    /// The samples.
    pub samples: Vec<Sample>,
}

/// How a metric is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Grows from the start of the controller on.
    Counter,
    /// What is now.
    Gauge,
    /// How often what was measured fell into which bucket.
    Histogram,
}

/// A sample.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// What it is of, by kind.
    pub labels: IndexMap<String, String>,
    /// The value.
    pub value: MetricValue,
}

/// The value of a metric.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum MetricValue {
    /// A number.
    Number(u64),
    /// What a [`Histogram`] holds.
    Histogram {
        /// Measurements.
        count: u64,
        /// Their sum.
        sum: u64,
        /// The upper bounds of the buckets, each with the measurements up to it and above the bound before.
        buckets: Vec<(u64, u64)>,
    },
}

/// Units that names end with; what monitoring systems want in their place (the base unit); and how many of the first
/// are one of the second.
pub const UNITS: [(&str, &str, f64); 6] = [
    ("ns", "seconds", 1e9),
    ("us", "seconds", 1e6),
    ("ms", "seconds", 1e3),
    ("seconds", "seconds", 1.0),
    ("percent", "ratio", 100.0),
    ("bytes", "bytes", 1.0),
];

impl Family {
    /// The name without `total` and unit, the base unit, and how many of the unit that it is measured in are one of
    /// that.
    pub fn in_base_unit(&self) -> (&str, Option<&'static str>, f64) {
        let name = self.name.strip_suffix("_total").unwrap_or(&self.name);
        let found = UNITS.iter().find_map(|(unit, base, many)| {
            let stem = name.strip_suffix(unit)?.strip_suffix('_')?;
            Some((stem, Some(*base), *many))
        });
        found.unwrap_or((name, None, 1.0))
    }

    /// Without samples.
    pub fn new(kind: Kind, name: &str, about: &str) -> Family {
        Family { name: name.into(), about: about.into(), kind, samples: Vec::new() }
    }

    /// Adds one.
    pub fn add(&mut self, labels: &[(&str, &str)], value: impl Into<MetricValue>) {
        let labels = labels.iter().map(|(name, own)| ((*name).to_owned(), (*own).to_owned())).collect();
        self.samples.push(Sample { labels, value: value.into() });
    }
}

impl From<u64> for MetricValue {
    fn from(number: u64) -> Self {
        MetricValue::Number(number)
    }
}

/// Upper bounds of the buckets in microseconds, in steps of about 2.5.
const BOUNDS: [u64; 16] = [
    100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000,
    5_000_000, 10_000_000,
];

/// Times by how long they are, in microseconds: from 0.1 ms to 10 s, and above.
#[derive(Clone, Debug, Default)]
pub struct Histogram {
    counts: [u64; BOUNDS.len()],
    count: u64,
    sum: u64,
}

impl Histogram {
    /// Notes a time in nanoseconds.
    pub fn note(&mut self, nanoseconds: u64) {
        let time = nanoseconds / 1000;
        if let Some(bucket) = BOUNDS.iter().position(|bound| time <= *bound) {
            self.counts[bucket] += 1;
        }
        self.count += 1;
        self.sum += time;
    }
}

impl From<&Histogram> for MetricValue {
    fn from(own: &Histogram) -> Self {
        let buckets = BOUNDS.into_iter().zip(own.counts).collect();
        MetricValue::Histogram { count: own.count, sum: own.sum, buckets }
    }
}

impl MetricValue {
    /// The bound of the bucket that this share of the measurements, in percent, lies below or in; none where there are
    /// none, or above all bounds.
    pub fn percentile(&self, percent: u64) -> Option<u64> {
        let MetricValue::Histogram { count, buckets, .. } = self else { return None };
        let wanted = (count * percent).div_ceil(100).max(1);
        let mut seen = 0;
        buckets.iter().find_map(|(bound, own)| {
            seen += own;
            (seen >= wanted).then_some(*bound)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_fall_into_their_buckets() {
        let mut times = Histogram::default();
        assert_eq!(MetricValue::from(&times).percentile(50), None);
        // The bounds belong to the bucket below; above the last one there is only the count.
        for time in [0, 100_000, 100_999, 101_000, 7_000_000, 11_000_000_000] {
            times.note(time);
        }
        let figure = MetricValue::from(&times);
        let MetricValue::Histogram { count, sum, buckets } = &figure else { panic!("{figure:?}") };
        assert_eq!((*count, *sum), (6, 100 + 100 + 101 + 7_000 + 11_000_000));
        assert_eq!(buckets[..2], [(100, 3), (250, 1)]);
        assert_eq!(buckets.iter().map(|(_, own)| own).sum::<u64>(), 5);
        assert_eq!(
            [50, 51, 80, 99].map(|percent| figure.percentile(percent)),
            [Some(100), Some(250), Some(10_000), None]
        );
    }

    #[test]
    fn names_say_the_unit() {
        let found = |name: &str| {
            let family = Family::new(Kind::Gauge, name, "");
            let (stem, unit, many) = family.in_base_unit();
            (stem.to_owned(), unit, many)
        };
        assert_eq!(found("connect_us"), ("connect".into(), Some("seconds"), 1e6));
        assert_eq!(found("http_bytes_total"), ("http".into(), Some("bytes"), 1.0));
        assert_eq!(found("loss_percent"), ("loss".into(), Some("ratio"), 100.0));
        assert_eq!(found("requests_total"), ("requests".into(), None, 1.0));
        assert_eq!(found("minibuns"), ("minibuns".into(), None, 1.0));
    }

    #[test]
    fn what_is_said_is_read() {
        let mut family = Family::new(Kind::Histogram, "connect_us", "time to connect");
        family.add(&[("server", "a")], &Histogram::default());
        family.add(&[], 7);
        let text = serde_json::to_string(&family).unwrap();
        assert_eq!(serde_json::from_str::<Family>(&text).unwrap(), family);
    }
}
