//! What is looked at while an instance runs, so that it is logged when something goes wrong, and when it is right
//! again.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use cli::say;

use dataplane::Observer;
use dataplane::controller::{ControllerSnapshot, ControllerState};
use dataplane::xdp::Progress;

/// Said once of a port, with the first such packet; they are counted.
const UNFINISHED: &str =
    "packets come in whose checksums or segments can't be computed, and are dropped (counted as `unfinished`)";
const OVERSIZE: &str = "packets come in that are longer than a frame, and are dropped (counted as `oversize`): those of a large MTU \
                        (`size` of [frames]), or at xdp and afxdp ports super-packets (`ethtool -K DEVICE tso off gso off` at their \
                        host)";

/// Logs what goes wrong at the ports, and when it is right again.
pub struct PortWatch {
    observer: Observer,
    /// Ports that were told about, with what.
    hinted: HashSet<(String, &'static str)>,
    errors: HashMap<String, String>,
    last: Instant,
}

impl PortWatch {
    /// Of an instance.
    pub fn new(observer: Observer) -> Self {
        PortWatch { observer, hinted: HashSet::new(), errors: HashMap::new(), last: Instant::now() }
    }

    /// To be called several times a second.
    pub fn look(&mut self) {
        if self.last.elapsed() < Duration::from_millis(100) {
            return;
        }
        self.last = Instant::now();
        self.compare(|_| true);
    }

    /// Logs what `is_news`, and was not logged yet.
    pub fn compare(&mut self, is_news: impl Fn(&str) -> bool) {
        let errors: HashMap<String, String> = self.observer.port_errors().into_iter().collect();
        for (name, error) in &errors {
            if self.errors.get(name) != Some(error) && is_news(error) {
                tracing::warn!(port = name, "{error}");
            }
        }
        for name in self.errors.keys().filter(|name| !errors.contains_key(*name)) {
            tracing::warn!(port = name, "{name}: works again");
        }
        self.errors = errors;
        for (name, unfinished, oversize) in self.observer.misshapen() {
            if !unfinished.is_empty() && self.hinted.insert((name.to_owned(), UNFINISHED)) {
                let reasons = unfinished.join(", ");
                tracing::warn!(port = name, "{name}: {UNFINISHED}: {reasons}");
            }
            if oversize > 0 && self.hinted.insert((name.to_owned(), OVERSIZE)) {
                tracing::warn!(port = name, "{name}: {OVERSIZE}");
            }
        }
    }
}

/// Says when the kernel has verified the program's part for it.
pub struct KernelWatch {
    observer: Observer,
    started: Instant,
    is_awaited: bool,
}

impl KernelWatch {
    /// Of an instance that just started, of which it was said before whether that is awaited.
    pub fn new(observer: Observer, is_awaited: bool) -> Self {
        KernelWatch { observer, started: Instant::now(), is_awaited }
    }

    /// To be called several times a second.
    pub fn look(&mut self) {
        if !self.is_awaited {
            return;
        }
        let seconds = self.started.elapsed().as_secs_f64();
        match self.observer.progress() {
            Some(Progress::Loading) => return,
            Some(Progress::Loaded) => {
                say!("engine: the kernel has verified its part of the program, which runs there now");
                tracing::info!(seconds, "the kernel runs its part of the program");
            }
            Some(Progress::Refused(why)) => {
                tracing::error!(
                    seconds,
                    "the kernel does not take its part of the program, so workers have all packets: {why}"
                );
            }
            None => {}
        }
        self.is_awaited = false;
    }
}

/// Logs controllers that fail.
pub struct ControllerWatch {
    observer: Observer,
    known: Vec<ControllerSnapshot>,
}

impl ControllerWatch {
    /// Of an instance.
    pub fn new(observer: Observer) -> Self {
        ControllerWatch { observer, known: Vec::new() }
    }

    /// To be called several times a second.
    pub fn look(&mut self) {
        let now = self.observer.controllers();
        for own in &now {
            let before = self.known.iter().find(|known| known.name == own.name);
            let (failures, state) = before.map_or((0, ControllerState::Running), |known| (known.failures, known.state));
            let ControllerSnapshot { name, error, failures: all, in_a_row, pause, .. } = own;
            if *all > failures {
                let error = error.as_deref().unwrap_or_default();
                let pause_ms = pause.as_millis() as u64;
                tracing::error!(
                    controller = name,
                    failures = all,
                    in_a_row,
                    pause_ms,
                    "controller {name} has failed: {error}"
                );
            }
            if own.is_failing && !before.is_some_and(|known| known.is_failing) {
                tracing::error!(controller = name, in_a_row, "controller {name} fails again and again");
            }
            if own.state == ControllerState::Ended && state != ControllerState::Ended {
                tracing::warn!(controller = name, "controller {name} has ended by itself");
            }
        }
        self.known = now;
    }

    /// Whether one fails however often it is started.
    pub fn are_failing(&self) -> bool {
        self.known.iter().any(|own| own.is_failing)
    }

    /// What a service manager is told of them: nothing as long as all is well.
    pub fn status(&self) -> Option<String> {
        let failed = self.known.iter().filter(|own| own.in_a_row > 0);
        let text = |own: &ControllerSnapshot| {
            let (name, error) = (&own.name, own.error.as_deref().unwrap_or_default());
            format!("controller {name} has failed {} times in a row: {error}", own.in_a_row)
        };
        let lines: Vec<String> = failed.map(text).collect();
        (!lines.is_empty()).then(|| lines.join("; ").replace('\n', " "))
    }
}
