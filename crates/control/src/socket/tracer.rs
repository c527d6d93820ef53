//! Packets that are traced: copied as they come in, and taken through the program step by step, with its tables as they
//! are then, by the interpreter. The packets themselves go their way undisturbed meanwhile, so nothing of forwarding
//! depends on it. Where a packet has changed what it finds later, such as a flow entry of its own, the trace shows what
//! a packet like it would do behind it.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use dataplane::Captured;
use dataplane::xdp::{Copied, Front};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::costs;
use super::overview::Overview;
use super::shown::{Shown, Walker};
use crate::packet::Condition;
use crate::walk::Step;

/// Packets that one request may ask for.
pub const MAX_TRACES: u32 = 1000;
/// Steps of all traces that are kept. The oldest traces go first.
const MAX_STEPS: usize = 100_000;
/// Bytes of a packet that are kept.
const MAX_BYTES: usize = 2048;
/// How long packets are waited for.
const LONGEST: Duration = Duration::from_secs(600);
/// For how long nobody may have looked at first packets of each reason, which hardly ever are all there.
const UNSEEN: Duration = Duration::from_secs(60);
/// Between two looks whether more are wanted.
const LOOK: Duration = Duration::from_millis(10);

/// What became of a packet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Trace {
    /// Which one, counted from 1.
    pub number: u64,
    /// When it came in, in nanoseconds since 1970.
    pub at: u64,
    /// The port where it came in.
    pub port: String,
    /// Its length.
    pub bytes: usize,
    /// Its first bytes, up to 2048, in hexadecimal digits.
    pub packet: String,
    /// Its headers, as they may be written in a packet test.
    pub headers: String,
    /// Why it was dropped, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dropped: Option<String>,
    /// Its way through the program.
    pub steps: Vec<Step>,
}

impl Trace {
    /// Its first bytes, as they are.
    pub fn packet_bytes(&self) -> Vec<u8> {
        let pair =
            |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap_or_default(), 16).unwrap_or_default();
        self.packet.as_bytes().chunks(2).map(pair).collect()
    }
}

/// All that were traced since packets were asked for last.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Traces {
    /// Packets that are still waited for.
    pub wanted: u32,
    /// What became of those that came.
    pub traces: Vec<Trace>,
}

/// Which packets are traced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    /// How many.
    pub packets: u32,
    /// Of which port; none: of all.
    pub port: Option<u8>,
    /// Only those that are dropped.
    pub drops_only: bool,
    /// Of those that are dropped for the same reason only the first; with `drops_only`.
    pub per_reason: bool,
    /// Only those of which all of these hold.
    pub conditions: Vec<Condition>,
}

impl Wanted {
    /// How many packets to look at next, where so many are still to be found.
    fn looked_at(&self, missing: u32) -> u32 {
        if self.drops_only || !self.conditions.is_empty() { u32::MAX } else { missing }
    }
}

/// Traces packets for who asks.
#[derive(Debug)]
pub(super) struct Tracer {
    overview: Arc<Overview>,
    stop: Arc<AtomicBool>,
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    /// Counts requests: what an earlier one has started ends.
    request: u64,
    wanted: u32,
    traced: u64,
    steps: usize,
    traces: VecDeque<Trace>,
    /// When they were asked for last.
    seen: Instant,
}

impl Default for State {
    fn default() -> Self {
        State { request: 0, wanted: 0, traced: 0, steps: 0, traces: VecDeque::new(), seen: Instant::now() }
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Tracer {
    /// Of an instance, until `stop` is set.
    pub fn new(overview: Arc<Overview>, stop: Arc<AtomicBool>) -> Tracer {
        Tracer { overview, stop, state: Arc::default() }
    }

    /// Traces packets from now on, and forgets those that were traced before.
    pub fn add(&self, wanted: Wanted) -> std::io::Result<()> {
        let request = {
            let mut state = lock(&self.state);
            *state = State { request: state.request + 1, wanted: wanted.packets, ..State::default() };
            state.request
        };
        self.overview.capture().begin(wanted.port, wanted.looked_at(wanted.packets));
        let (overview, stop, state) = (self.overview.clone(), self.stop.clone(), self.state.clone());
        let run = move || run(&overview, &stop, (&state, request), &wanted);
        let started = thread::Builder::new().name("trace".into()).spawn(run);
        started.map(drop).inspect_err(|_| self.end())
    }

    /// Traces no more packets.
    pub fn end(&self) {
        self.overview.capture().end();
        let mut state = lock(&self.state);
        (state.request, state.wanted) = (state.request + 1, 0);
    }

    /// The last packets that were traced, each with the number of the port where it came in.
    pub fn packets(&self) -> Vec<(u8, Vec<u8>)> {
        let state = lock(&self.state);
        let from = state.traces.len().saturating_sub(costs::MOST);
        let shown = self.overview.shown();
        let packet = |trace: &Trace| Some((shown.port_number(&trace.port).ok()?, trace.packet_bytes()));
        state.traces.iter().skip(from).filter_map(packet).collect()
    }

    /// What was traced.
    pub fn traces(&self) -> Traces {
        let mut state = lock(&self.state);
        state.seen = Instant::now();
        Traces { wanted: state.wanted, traces: state.traces.iter().cloned().collect() }
    }
}

/// Traces packets until there are enough, or others are asked for.
fn run(overview: &Overview, stop: &AtomicBool, (state, request): (&Mutex<State>, u64), wanted: &Wanted) {
    let capture = overview.capture();
    dataplane::give_way();
    let mut walker: Option<(Arc<Shown>, Walker, Option<Front>)> = None;
    let end = Instant::now() + LONGEST;
    loop {
        if stop.load(Ordering::Relaxed) || lock(state).request != request {
            return;
        }
        // A program may have taken over from the one before.
        let shown = overview.shown();
        let is_current = |(of, _, front): &(Arc<Shown>, Walker, Option<Front>)| {
            Arc::ptr_eq(of, &shown) && front.as_ref().is_none_or(Front::is_there)
        };
        if !walker.as_ref().is_some_and(is_current) {
            let front = overview.capture_in_kernel().unwrap_or_else(|error| {
                tracing::warn!("packets that the kernel finishes can't be traced: {error}");
                None
            });
            walker = Some((shown.clone(), shown.walker(), front));
        }
        let Some((_, walker, front)) = &walker else { continue };
        front.iter().filter(|_| capture.is_wanted()).for_each(|front| {
            front.take(|Copied { port, at, length, bytes }| {
                // What is behind the copied bytes counts as zeros.
                let mut packet = bytes.to_vec();
                packet.resize(length, 0);
                capture.offer(port, at, &packet);
                capture.is_wanted()
            });
        });
        let Some(captured) = capture.take(LOOK) else {
            // However many packets there are, no more are looked at than may wait in this time, so that workers hardly
            // feel it.
            let (missing, unseen) = {
                let state = lock(state);
                (state.wanted, state.seen.elapsed())
            };
            let is_over = if wanted.per_reason { unseen > UNSEEN } else { Instant::now() >= end };
            if missing == 0 || is_over {
                break;
            }
            capture.go_on(wanted.looked_at(missing));
            continue;
        };
        if !shown.all_hold(&wanted.conditions, &captured.packet) {
            continue;
        }
        let trace = traced(&shown, walker, captured);
        if wanted.drops_only && trace.dropped.is_none() {
            continue;
        }
        let mut state = lock(state);
        if state.request != request {
            return;
        }
        if wanted.per_reason && state.traces.iter().any(|known| known.dropped == trace.dropped) {
            continue;
        }
        state.keep(trace);
        if state.wanted == 0 {
            break;
        }
    }
    let mut state = lock(state);
    if state.request == request {
        state.wanted = 0;
        capture.end();
    }
}

fn traced(shown: &Shown, walker: &Walker, captured: Captured) -> Trace {
    let Captured { port, at, packet } = captured;
    let (steps, dropped) = shown.walk(walker, port, &packet);
    let kept = &packet[..packet.len().min(MAX_BYTES)];
    Trace {
        number: 0,
        at: at.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |time| time.as_nanos() as u64),
        port: shown.port(port),
        bytes: packet.len(),
        packet: kept.iter().map(|byte| format!("{byte:02x}")).collect(),
        headers: shown.headers(kept),
        dropped,
        steps,
    }
}

impl State {
    fn keep(&mut self, trace: Trace) {
        self.traced += 1;
        self.wanted = self.wanted.saturating_sub(1);
        self.steps += trace.steps.len();
        self.traces.push_back(Trace { number: self.traced, ..trace });
        while self.steps > MAX_STEPS
            && self.traces.len() > 1
            && let Some(first) = self.traces.pop_front()
        {
            self.steps -= first.steps.len();
        }
    }
}
