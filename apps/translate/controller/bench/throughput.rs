//! Bandwidth that clients get, by round trip and loss: the published figure.

use std::time::Duration;

use super::client::{self, BIN, Bins};
use super::millrace::Start;
use super::plot;
use super::sites::Sites;
use super::source::BYTES;
use super::systems::{Line, SYSTEMS, System};
use super::{chosen, is_chosen_case};
use crate::results::Results;
use crate::{Effort, text};

/// Rates of streams in Mbit/s of payload.
const RATES: [u64; 2] = [1, 4];
const ROUND_TRIPS_MS: [u64; 5] = [0, 50, 100, 150, 200];
/// Of 100 packets.
const LOSSES: [f64; 5] = [0.0, 0.1, 0.25, 0.5, 1.0];
/// Cases at one time: packets of so few Mbit/s do not disturb each other.
const AT_ONCE: usize = 10;
/// Of each of as many processes.
const FRAMES: usize = 98_304;

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
    fn all() -> Vec<Case> {
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
}

/// Mbit/s that the throughput equation of RFC 5348 (section 3.1) allows packets of the stream, where so many of all
/// packets are lost, each by itself, and the round trip takes so many seconds.
pub fn allowed(p: f64, r: f64) -> f64 {
    let f = (2.0 * p / 3.0).sqrt() + 12.0 * (3.0 * p / 8.0).sqrt() * p * (1.0 + 32.0 * p * p);
    BYTES as f64 * 8.0 / 1e6 / (r * f)
}

/// Measures some cases at one time.
pub fn measure(effort: Effort, plots: bool, results: &mut Results) -> Result<(), String> {
    let mut systems = Vec::new();
    for (name, system) in SYSTEMS.into_iter().filter(|(name, _)| chosen("SYSTEM", name)) {
        match system.missing() {
            None => systems.push((name, system)),
            Some(why) => results.note(format!("{name}: not measured, {why}")),
        }
    }
    let cases: Vec<_> = Case::all().into_iter().filter(|case| is_chosen_case(&case.name())).collect();
    let [before, window] = if effort.quick { [1, 2] } else { [5, 20] }.map(Duration::from_secs);
    let at_once = AT_ONCE.min(cases.len()).max(1);
    let sites = Sites::new(at_once * systems.len())?;
    for rate in RATES {
        let here: Vec<_> = cases.iter().filter(|case| case.rate == rate).copied().collect();
        if here.is_empty() {
            continue;
        }
        // A site for each system and each of the cases at one time.
        let start = |(number, site)| {
            let (_, system): (&str, System) = systems[number % systems.len()];
            Line::start(site, system, rate * 1_000_000, Start { frames: FRAMES, ..Start::default() })
        };
        let mut lines = sites.sites.iter().enumerate().map(start).collect::<Result<Vec<_>, String>>()?;
        lines.iter_mut().try_for_each(Line::wait)?;
        for cases in here.chunks(at_once) {
            for (number, case) in cases.iter().enumerate() {
                for site in number * systems.len()..(number + 1) * systems.len() {
                    let round_trip = Duration::from_millis(case.round_trip_ms);
                    sites.set(site, round_trip, case.loss / 100.0, case.behind)?;
                }
            }
            let bins = run(cases, &sites, &systems, [before, window])?;
            for (case, bins) in cases.iter().zip(bins.chunks(systems.len())) {
                add(*case, &systems, bins, plots, results)?;
            }
        }
        lines.into_iter().try_for_each(Line::end)?;
    }
    if plots {
        results.note("The bandwidth over time: target/bench/translate");
    }
    Ok(())
}

/// A case's rows, of all systems.
fn add(
    case: Case,
    systems: &[(&str, System)],
    bins: &[Bins],
    plots: bool,
    results: &mut Results,
) -> Result<(), String> {
    let name = case.name();
    for ((system, _), bins) in systems.iter().zip(bins) {
        let (mean, variation) = spread(&bins.read);
        let mbit = mean * 8.0 / BIN.as_secs_f64() / 1e6;
        results.add(&name, system, "mbit_per_s", "10^6 bit/s of payload", vec![mbit]);
        let unit = "standard deviation by mean, of the bytes of each 100 ms";
        results.add(&name, system, "cv_100ms", unit, vec![variation]);
        let unit = "the same, of frames as they come to the client's interface";
        results.add(&name, system, "wire_cv_100ms", unit, vec![spread(&bins.wire).1]);
    }
    if case.loss > 0.0 && case.round_trip_ms > 0 && case.behind {
        let mbit = allowed(case.loss / 100.0, case.round_trip_ms as f64 / 1e3);
        results.add(&name, "RFC 5348's equation", "mbit_per_s", "10^6 bit/s of payload", vec![mbit]);
    }
    if plots {
        let series: Vec<_> = systems.iter().map(|(name, _)| *name).zip(bins.iter().map(|own| &own.wire)).collect();
        plot::write(&name, &series)?;
    }
    Ok(())
}

/// Some cases for all systems at one time: the bytes of each piece of the time, of the systems of the first case, of
/// those of the second, …
fn run(
    cases: &[Case],
    sites: &Sites,
    systems: &[(&str, System)],
    [before, window]: [Duration; 2],
) -> Result<Vec<Bins>, String> {
    std::thread::scope(|scope| {
        let all = cases.iter().flat_map(|case| systems.iter().map(move |own| (*case, *own)));
        let mut threads = Vec::new();
        for ((case, (name, system)), site) in all.zip(&sites.sites) {
            let (name, viewers) = (name.to_owned(), &site.viewers);
            threads.push(scope.spawn(move || {
                let (from, path) = system.place();
                let read = || client::read(from, &path, before, window);
                viewers.enter(read).map_err(text)?.map_err(|error| format!("{}: {name}: {error}", case.name()))
            }));
        }
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
