//! Values of all rounds, by case, system and metric.

use super::load::Cost;
use crate::results::Results;

/// Groups of threads, and the metric of their time.
const THREADS: [(&str, &str); 3] = [
    ("receiving", "us_per_request_receiving"),
    ("worker", "us_per_request_worker"),
    ("controller", "us_per_request_controller"),
];

/// One system's case of one round.
struct Measured {
    case: String,
    system: &'static str,
    metric: &'static str,
    unit: &'static str,
    value: f64,
}

/// All of them.
#[derive(Default)]
pub struct Rows(Vec<Measured>);

impl Rows {
    /// Adds a value.
    pub fn add(&mut self, case: &str, system: &'static str, metric: &'static str, unit: &'static str, value: f64) {
        self.0.push(Measured { case: case.to_owned(), system, metric, unit, value });
    }

    /// Adds what came of a load; the middle's CPU time where something is there.
    pub fn add_load(&mut self, case: &str, system: &'static str, cost: &Cost, has_middle: bool) {
        let requests = cost.served.requests as f64;
        self.add(case, system, "requests_per_second", "requests/s", requests / cost.served.time.as_secs_f64());
        for (metric, percent) in [("loaded_latency_p50", 50), ("loaded_latency_p99", 99)] {
            self.add(case, system, metric, "µs, of one of all connections", cost.served.latency(percent));
        }
        if has_middle {
            let each = requests / cost.work.max(1e-3);
            self.add(case, system, "requests_per_cpu_second", "requests/s of the middle's CPU", each);
        }
        for (group, time) in &cost.threads {
            let known = THREADS.iter().find(|(name, _)| name == group);
            let metric = known.map_or("us_per_request_others", |(_, metric)| *metric);
            self.add(case, system, metric, "µs of these threads' CPU time", time * 1e6 / requests.max(1.0));
        }
    }

    /// The rows: all values of a case, a system and a metric together.
    pub fn summarize(self, results: &mut Results) {
        let mut all = self.0;
        while let Some(first) = all.first() {
            let (case, system, metric, unit) = (first.case.clone(), first.system, first.metric, first.unit);
            let (own, others): (Vec<_>, Vec<_>) =
                all.into_iter().partition(|one| one.case == case && one.system == system && one.metric == metric);
            results.add(&case, system, metric, unit, own.into_iter().map(|one| one.value).collect());
            all = others;
        }
    }
}
