//! Bandwidth that clients get, by round trip and loss: the published figure.

use std::time::Duration;

use super::client::{self, BIN, Bins};
use super::millrace::Start;
use super::plot;
use super::sites::Sites;
use super::source::BYTES;
use super::systems::{Line, SYSTEMS, System};
use crate::results::Results;
use crate::{Effort, text};

/// Rates of streams in Mbit/s of payload.
const RATES: [u64; 2] = [1, 4];
const ROUND_TRIPS_MS: [u64; 5] = [0, 50, 100, 150, 200];
/// Of 100 packets.
const LOSSES: [f64; 5] = [0.0, 0.1, 0.25, 0.5, 1.0];
/// How long a stream goes before it is measured: what a connection begins with is over.
const BEFORE: Duration = Duration::from_secs(5);

/// What happens to a stream.
#[derive(Clone, Copy)]
struct Case {
    /// Mbit/s.
    rate: u64,
    round_trip_ms: u64,
    /// Of 100 packets.
    loss: f64,
    /// Whether they are lost behind the proxy, or before it.
    behind: bool,
}

impl Case {
    /// All, and of a smoke run one.
    fn all(quick: bool) -> Vec<Case> {
        if quick {
            return vec![Case { rate: 1, round_trip_ms: 100, loss: 1.0, behind: true }];
        }
        let mut all = Vec::new();
        for rate in RATES {
            for behind in [true, false] {
                for round_trip_ms in ROUND_TRIPS_MS {
                    // Where nothing is lost it does not matter where.
                    let losses = LOSSES.into_iter().filter(|loss| behind || *loss > 0.0);
                    all.extend(losses.map(|loss| Case { rate, round_trip_ms, loss, behind }));
                }
            }
        }
        all
    }

    fn name(self) -> String {
        let place = match (self.loss > 0.0, self.behind) {
            (false, _) => "",
            (true, true) => " behind",
            (true, false) => " before",
        };
        format!("{} Mbit/s, {} ms, {} %{place}", self.rate, self.round_trip_ms, self.loss)
    }

    /// Mbit/s that the throughput equation of RFC 5348 (section 3.1) allows packets of the stream, where packets are
    /// lost alone.
    fn allowed(self) -> f64 {
        let (p, r) = (self.loss / 100.0, self.round_trip_ms as f64 / 1e3);
        let f = (2.0 * p / 3.0).sqrt() + 12.0 * (3.0 * p / 8.0).sqrt() * p * (1.0 + 32.0 * p * p);
        BYTES as f64 * 8.0 / 1e6 / (r * f)
    }
}

/// Measures.
pub fn measure(effort: Effort, plots: bool, results: &mut Results) -> Result<(), String> {
    let chosen = std::env::var("SYSTEM").unwrap_or_default();
    let mut systems = Vec::new();
    for (name, system) in SYSTEMS {
        if !chosen.is_empty() && chosen.split(',').all(|own| own != name) {
            continue;
        }
        match system.missing() {
            None => systems.push((name, system)),
            Some(why) => results.note(format!("{name}: not measured, {why}")),
        }
    }
    let wanted = std::env::var("CASE").unwrap_or_default();
    let is_wanted = |case: &Case| wanted.split(';').any(|own| case.name().starts_with(own));
    let cases: Vec<_> = Case::all(effort.quick).into_iter().filter(is_wanted).collect();
    let window = Duration::from_secs(if effort.quick { 5 } else { 20 });
    let sites = Sites::new(systems.len())?;
    for rate in RATES {
        let here: Vec<_> = cases.iter().filter(|case| case.rate == rate).copied().collect();
        if here.is_empty() {
            continue;
        }
        let start = |((_, system), site): (&(&str, System), _)| {
            Line::start(site, *system, rate * 1_000_000, Start::default())
        };
        let mut lines = systems.iter().zip(&sites.sites).map(start).collect::<Result<Vec<_>, String>>()?;
        lines.iter_mut().try_for_each(Line::wait)?;
        for case in here {
            let bins = run(case, &sites, &systems, window)?;
            let name = case.name();
            for ((system, _), bins) in systems.iter().zip(&bins) {
                let (mean, variation) = spread(&bins.read);
                let mbit = mean * 8.0 / BIN.as_secs_f64() / 1e6;
                results.add(&name, system, "mbit_per_s", "10^6 bit/s of payload", vec![mbit]);
                let unit = "standard deviation by mean, of the bytes of each 100 ms";
                results.add(&name, system, "cv_100ms", unit, vec![variation]);
                let unit = "the same, of frames as they come to the client's interface";
                results.add(&name, system, "wire_cv_100ms", unit, vec![spread(&bins.wire).1]);
            }
            if case.loss > 0.0 && case.round_trip_ms > 0 && case.behind {
                results.add(&name, "RFC 5348's equation", "mbit_per_s", "10^6 bit/s of payload", vec![case.allowed()]);
            }
            if plots {
                let series: Vec<_> =
                    systems.iter().map(|(name, _)| *name).zip(bins.iter().map(|own| &own.wire)).collect();
                plot::write(&name, &series)?;
            }
        }
        lines.into_iter().try_for_each(Line::end)?;
    }
    if plots {
        results.note("The bandwidth over time: target/bench/translate");
    }
    Ok(())
}

/// One case for all systems at one time: the bytes of each piece of the time.
fn run(case: Case, sites: &Sites, systems: &[(&str, System)], window: Duration) -> Result<Vec<Bins>, String> {
    sites.set(Duration::from_millis(case.round_trip_ms), case.loss / 100.0, case.behind)?;
    std::thread::scope(|scope| {
        let read = |((name, system), site)| {
            let (name, system, site): (&str, System, &super::sites::Site) = (name, system, site);
            scope.spawn(move || {
                let (from, path) = system.place();
                let read = || client::read(from, &path, BEFORE, window);
                site.viewers.enter(read).map_err(text)?.map_err(|error| format!("{}: {name}: {error}", case.name()))
            })
        };
        let threads: Vec<_> = systems.iter().copied().zip(&sites.sites).map(read).collect();
        threads.into_iter().map(|own| own.join().map_err(|_| "a reader has panicked")?).collect()
    })
}

/// Mean, and the coefficient of variation: the standard deviation by the mean.
fn spread(values: &[u64]) -> (f64, f64) {
    let count = values.len().max(1) as f64;
    let mean = values.iter().sum::<u64>() as f64 / count;
    let squares: f64 = values.iter().map(|value| (*value as f64 - mean).powi(2)).sum();
    (mean, (squares / count).sqrt() / mean.max(1.0))
}
