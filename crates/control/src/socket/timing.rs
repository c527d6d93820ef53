//! How long packets are in PPFs, measured for a while: a program that notes the time (`baker::opt::timing`) takes over
//! as at a reload, and the other one again when the time is over. So nothing is measured, and nothing costs,
//! otherwise.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use baker::ir::PpfTimes;
use dataplane::TimeSnapshot;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::overview::Overview;
use super::protocol::{Code, Refusal};
use super::running::Running;
use super::times::Times;

/// The longest time that one request may ask for, in seconds.
pub const MAX_TIMING: u32 = 600;
/// Between two looks whether it is over.
const LOOK: Duration = Duration::from_millis(20);
/// Until the program is asked for again that measures nothing, where it could not take over.
const PAUSE: Duration = Duration::from_secs(5);

/// How long packets were in PPFs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Timing {
    /// Milliseconds for which it is still measured; 0: it is not measured now. While the program that measures is made,
    /// it is 1, and nothing is measured yet.
    pub left_ms: u64,
    /// Milliseconds for which it was measured.
    pub measured_ms: u64,
    /// The PPFs that packets came to, in the program's order.
    pub ppfs: Vec<PpfTiming>,
    /// The tables that packets looked something up in.
    #[serde(default)]
    pub tables: Vec<LookUps>,
    /// Why it is still measured, where it should not be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Look-ups of packets in a table; of arrays there are none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LookUps {
    /// The table.
    pub table: String,
    /// How many.
    pub count: u64,
    /// How many of them found nothing.
    pub missed: u64,
}

/// How long packets were in a PPF. Of one that goes on behind a put of a copy each piece counts by itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PpfTiming {
    /// Its name.
    pub ppf: String,
    /// What runs it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine: Option<String>,
    /// How long packets were there, once for each.
    #[serde(flatten)]
    pub times: Times,
}

impl PpfTiming {
    /// Of what was counted; `None` where no packet was there.
    pub(super) fn new(snapshot: TimeSnapshot, engine: Option<String>) -> Option<PpfTiming> {
        let TimeSnapshot { ppf, buckets, nanoseconds: total_ns } = snapshot;
        let times = Times::new(&buckets, total_ns, PpfTimes::bound);
        (times.count > 0).then_some(PpfTiming { ppf, engine, times })
    }
}

/// Measures for who asks.
#[derive(Debug)]
pub(super) struct Timer {
    overview: Arc<Overview>,
    running: Arc<Running>,
    stop: Arc<AtomicBool>,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    /// Counts requests: what an earlier one has started ends.
    request: u64,
    /// What is done now, if anything.
    now: Option<Now>,
    /// What was measured last.
    last: Timing,
    error: Option<String>,
}

#[derive(Clone, Copy, Debug)]
enum Now {
    /// The program that measures is made. By then it may be over already.
    Begins { is_over: bool },
    /// It is measured.
    Measures { since: Instant, end: Instant },
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Timer {
    /// Of an instance, until `stop` is set.
    pub fn new(overview: Arc<Overview>, running: Arc<Running>, stop: Arc<AtomicBool>) -> Timer {
        Timer { overview, running, stop, state: Arc::default() }
    }

    /// Measures from now on for so many seconds, and forgets what was measured before.
    pub fn start(&self, seconds: u32) -> Result<(), Refusal> {
        if !(1..=MAX_TIMING).contains(&seconds) {
            let message = format!("{seconds} seconds: it can be measured for 1 to {MAX_TIMING}");
            return Err(Refusal { code: Code::BadRequest, message });
        }
        let refused = |message| Refusal { code: Code::BadConfiguration, message };
        let request = {
            let mut state = lock(&self.state);
            if state.now.is_some() {
                let message = "it is measured already; try again when that is over".into();
                return Err(Refusal { code: Code::Busy, message });
            }
            // Nobody else begins meanwhile.
            let request = state.request + 1;
            *state = State { request, now: Some(Now::Begins { is_over: false }), ..State::default() };
            request
        };
        let begun = self.running.time(true).map_err(refused).and_then(|()| {
            let since = Instant::now();
            let mut state = lock(&self.state);
            let is_over = matches!(state.now, Some(Now::Begins { is_over: true }));
            let seconds = if is_over { 0 } else { seconds.into() };
            state.now = Some(Now::Measures { since, end: since + Duration::from_secs(seconds) });
            drop(state);
            let (overview, running) = (self.overview.clone(), self.running.clone());
            let (stop, state) = (self.stop.clone(), self.state.clone());
            let run = move || run(&overview, &running, &stop, (&state, request));
            let started = thread::Builder::new().name("timing".into()).spawn(run);
            started.map(drop).map_err(|error| {
                let back = self.running.time(false).err().map(|error| format!("; {error}"));
                refused(format!("no thread: {error}{}", back.unwrap_or_default()))
            })
        });
        begun.inspect_err(|_| lock(&self.state).now = None)
    }

    /// Measures no more.
    pub fn end(&self) {
        match &mut lock(&self.state).now {
            Some(Now::Begins { is_over }) => *is_over = true,
            Some(Now::Measures { end, .. }) => *end = Instant::now(),
            None => {}
        }
    }

    /// What was measured, so far or last.
    pub fn timing(&self) -> Timing {
        let (now, last, error) = {
            let state = lock(&self.state);
            (state.now, state.last.clone(), state.error.clone())
        };
        let timing = match now {
            None => last,
            Some(Now::Begins { .. }) => Timing { left_ms: 1, ..Timing::default() },
            Some(Now::Measures { since, end }) => {
                let left = end.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
                Timing { left_ms: milliseconds(left), ..look(&self.overview, since) }
            }
        };
        Timing { error, ..timing }
    }
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// What is measured since then.
fn look(overview: &Overview, since: Instant) -> Timing {
    let (ppfs, tables) = (overview.times(), overview.look_ups());
    Timing { left_ms: 0, measured_ms: milliseconds(since.elapsed()), ppfs, tables, error: None }
}

/// Waits until it is over, and has the other program take over again.
fn run(overview: &Overview, running: &Running, stop: &AtomicBool, (state, request): (&Mutex<State>, u64)) {
    let mut again = Instant::now();
    loop {
        thread::sleep(LOOK);
        let (now, is_current) = {
            let state = lock(state);
            (state.now, state.request == request)
        };
        let now = now.filter(|_| is_current && !stop.load(Ordering::Relaxed));
        let Some(Now::Measures { since, end }) = now else { return };
        if Instant::now() < end.max(again) {
            continue;
        }
        let last = look(overview, since);
        match running.time(false) {
            Ok(()) => {
                let mut state = lock(state);
                (state.now, state.last, state.error) = (None, last, None);
                return;
            }
            Err(error) => {
                tracing::warn!("times are measured on, for the program that measures none does not take over: {error}");
                lock(state).error = Some(error);
                again = Instant::now() + PAUSE;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_bounds_that_as_many_are_below() {
        let mut buckets = vec![0; PpfTimes::BUCKETS];
        for nanoseconds in 1..=100 {
            buckets[PpfTimes::bucket_of(nanoseconds)] += 1;
        }
        let snapshot = TimeSnapshot { ppf: "m.f".into(), buckets, nanoseconds: 5050 };
        let PpfTiming { times: timing, .. } = PpfTiming::new(snapshot, None).expect("there are packets");
        assert_eq!((timing.count, timing.mean_ns()), (100, 50.5));
        // The bounds are those of buckets a quarter of a power of two wide: 48 to 55, 80 to 95, 96 to 111.
        assert_eq!([timing.p50_ns, timing.p90_ns, timing.p99_ns], [56, 96, 112]);
        assert_eq!(timing.buckets.iter().map(|bucket| bucket.count).sum::<u64>(), 100);
    }

    #[test]
    fn a_ppf_that_no_packet_came_to_is_left_out() {
        let snapshot = TimeSnapshot { ppf: "m.f".into(), buckets: vec![0; PpfTimes::BUCKETS], nanoseconds: 0 };
        assert_eq!(PpfTiming::new(snapshot, None), None);
    }
}
