//! Whether controllers run: how often each has failed, why, and when it is started again.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::pace::{Pace, PaceSnapshot};

/// How long a controller may take at its end at most, if it asks for it by [`Link::drain`](super::Link::drain).
pub const MOST_DRAIN: Duration = Duration::from_secs(60);

/// How long it is to the first new start of a controller that has failed; each time that it fails in a row it is twice
/// as long.
const FIRST: Duration = Duration::from_millis(100);
/// But no longer than this.
const LONGEST: Duration = Duration::from_secs(10);
/// A controller that has run for so long has not failed in a row when it fails again.
const STEADY: Duration = Duration::from_secs(60);
/// After so many times in a row it is taken to fail for good,
const MOST: u32 = 5;
/// until it has run for so long.
const RECOVERED: Duration = Duration::from_secs(5);

/// What a controller is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ControllerState {
    /// It runs.
    #[default]
    Running,
    /// It has failed, and is started again soon.
    Waiting,
    /// It was told to end, and has asked for time to do so.
    Draining,
    /// It has ended by itself, without an error.
    Ended,
}

impl ControllerState {
    /// All of them.
    pub const ALL: [ControllerState; 4] = [Self::Running, Self::Waiting, Self::Draining, Self::Ended];

    /// In a word.
    pub fn name(self) -> &'static str {
        match self {
            ControllerState::Running => "running",
            ControllerState::Waiting => "failed",
            ControllerState::Draining => "draining",
            ControllerState::Ended => "ended",
        }
    }
}

/// A controller at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ControllerSnapshot {
    /// Its name.
    pub name: String,
    /// What it is doing.
    pub state: ControllerState,
    /// How often it has failed since the instance began.
    pub failures: u64,
    /// How often in a row, never having run for a minute; 0 once it has.
    pub in_a_row: u32,
    /// Whether it has failed so often in a row that starting it again is no help.
    pub is_failing: bool,
    /// Why it failed last: its error, or the message of a panic.
    pub error: Option<String>,
    /// How long it was from then to the next start.
    pub pause: Duration,
    /// How long it may still take to end, where it drains.
    pub drain: Option<Duration>,
    /// How soon it runs when it is woken, and for how long.
    pub pace: PaceSnapshot,
}

/// What is known of one controller. It lasts from program to program.
#[derive(Debug)]
pub(crate) struct Health {
    name: String,
    /// Noted by all of its links.
    pace: Arc<Pace>,
    known: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    state: ControllerState,
    since: Instant,
    failures: u64,
    in_a_row: u32,
    error: Option<String>,
    /// When it was told to end.
    told: Option<Instant>,
    /// Until when it may take its time.
    drain: Option<Instant>,
    keeps_kernel: bool,
}

impl Inner {
    /// Whether it has run for so long.
    fn has_run(&self, time: Duration, now: Instant) -> bool {
        self.state == ControllerState::Running && now.duration_since(self.since) >= time
    }

    fn in_a_row(&self, now: Instant) -> u32 {
        if self.has_run(STEADY, now) { 0 } else { self.in_a_row }
    }

    fn pause(&self) -> Duration {
        let doubled = self.in_a_row.saturating_sub(1).min(16);
        if self.in_a_row == 0 { Duration::ZERO } else { (FIRST * (1 << doubled)).min(LONGEST) }
    }
}

impl Health {
    pub fn new(name: &str) -> Self {
        let (state, since) = (ControllerState::Running, Instant::now());
        let known =
            Inner { state, since, failures: 0, in_a_row: 0, error: None, told: None, drain: None, keeps_kernel: false };
        Health { name: name.to_owned(), pace: Arc::default(), known: Mutex::new(known) }
    }

    /// Where its links note how soon it runs.
    pub fn pace(&self) -> &Arc<Pace> {
        &self.pace
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// It is started.
    pub fn begins(&self, now: Instant) {
        let mut known = self.lock();
        (known.state, known.since) = (ControllerState::Running, now);
    }

    /// It has ended by itself.
    pub fn ends(&self) {
        self.lock().state = ControllerState::Ended;
    }

    /// It has failed. How long it is to the next start.
    pub fn fails(&self, error: &str, now: Instant) -> Duration {
        let mut known = self.lock();
        known.in_a_row = known.in_a_row(now).saturating_add(1);
        known.failures += 1;
        (known.state, known.error) = (ControllerState::Waiting, Some(error.to_owned()));
        known.pause()
    }

    /// It was told to end, because the instance does.
    pub fn told(&self, now: Instant) {
        self.lock().told.get_or_insert(now);
    }

    /// It asks for so much time from now on. Until when it has it: the longest that one of its links has asked for.
    pub fn drains(&self, time: Duration, now: Instant) -> Instant {
        let mut known = self.lock();
        let until = (now + time.min(MOST_DRAIN)).min(known.told.unwrap_or(now) + MOST_DRAIN);
        known.drain = known.drain.max(Some(until));
        until
    }

    /// Until when it may take its time to end.
    pub fn drain(&self) -> Option<Instant> {
        self.lock().drain
    }

    /// What runs in the kernel is to stay there at the end.
    pub fn keep_kernel(&self) {
        self.lock().keeps_kernel = true;
    }

    /// Whether it is.
    pub fn keeps_kernel(&self) -> bool {
        self.lock().keeps_kernel
    }

    fn snapshot(&self, now: Instant) -> ControllerSnapshot {
        let known = self.lock();
        let drain = known.drain.map(|until| until.saturating_duration_since(now));
        let drains = drain.is_some() && known.state == ControllerState::Running;
        ControllerSnapshot {
            name: self.name.clone(),
            state: if drains { ControllerState::Draining } else { known.state },
            drain: drain.filter(|_| drains),
            failures: known.failures,
            in_a_row: known.in_a_row(now),
            is_failing: known.in_a_row >= MOST && !known.has_run(RECOVERED, now),
            error: known.error.clone(),
            pause: known.pause(),
            pace: self.pace.snapshot(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The controllers of an instance, for observers; clones are the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Roster(Arc<Mutex<Vec<Arc<Health>>>>);

impl Roster {
    /// From now on it is these.
    pub fn set(&self, all: Vec<Arc<Health>>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = all;
    }

    /// All of them.
    pub fn snapshot(&self) -> Vec<ControllerSnapshot> {
        let now = Instant::now();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().map(|health| health.snapshot(now)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_until_it_has_run_for_long() {
        let health = Health::new("c");
        let mut now = Instant::now();
        let mut fails_after = |run: u64| {
            health.begins(now);
            now += Duration::from_secs(run);
            health.fails("no idea", now).as_millis()
        };
        let pauses: Vec<_> = (0..9).map(|_| fails_after(59)).collect();
        assert_eq!(pauses, [100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000]);
        assert_eq!((fails_after(60), fails_after(0)), (100, 200));
        let (after, known) = (now, health.snapshot(now));
        assert_eq!((known.failures, known.in_a_row, known.is_failing), (11, 2, false));
        assert_eq!((known.state, known.error.as_deref()), (ControllerState::Waiting, Some("no idea")));
        health.begins(after);
        assert_eq!(health.snapshot(after + STEADY).in_a_row, 0);
        (0..3).for_each(|_| _ = health.fails("no idea", after));
        let is_failing = |after| health.snapshot(after).is_failing;
        assert!(is_failing(after) && is_failing(after + STEADY));
        health.begins(after);
        assert!(is_failing(after) && !is_failing(after + RECOVERED));
        assert_eq!(health.snapshot(after + RECOVERED).in_a_row, 5);
    }
}
