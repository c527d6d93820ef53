//! Receives everything on a device and says what became of a generator's packets.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use super::generator::Sent;
use super::probe::Probe;
use super::window::{Arrival, Window};
use crate::clock::Moment;
use crate::error::{Error, Result};
use crate::namespace::Namespace;
use crate::ring::{Frame, Ring, RingConfig};
use crate::sys;

/// Bytes of the ring: 32768 frames, as only their beginnings are kept.
const RING_BYTES: usize = 16 << 20;
/// How much of a frame is looked at: all headers that the generator makes, and some more that others put around them.
const BEGINNING: usize = 360;
/// Most flows that are told apart; it takes a kilobyte each.
const MOST_FLOWS: u32 = 1 << 20;
/// Frames between two looks at the clock, and between two publications.
const TURN: usize = 64;
/// Longest latency that is told apart from longer ones, in ns.
const LONGEST_LATENCY: u64 = 100_000_000_000;
/// Sleep where the ring is empty. The kernel stamps frames when they arrive, so nothing has to be seen at once; and
/// a sender need not wake the sink, which would cost more than the frame.
const PAUSE: Duration = Duration::from_micros(500);

/// What a sink has received.
#[derive(Clone, Debug)]
pub struct Received {
    /// Numbered packets that came, each counted once however often it came.
    pub packets: u64,
    /// Bytes of all numbered packets, with those that came again.
    pub bytes: u64,
    /// Packets that came again.
    pub duplicated: u64,
    /// Packets that came after a later one of their flow (RFC 4737).
    pub reordered: u64,
    /// Packets that came more than 8192 numbers after a later one: too late to tell whether they came before.
    pub stale: u64,
    /// Packets without a number.
    pub foreign: u64,
    /// Packets that the kernel dropped before the sink, which was too slow.
    pub overrun: u64,
    /// Numbers that are missing before the latest of their flow.
    pub gaps: u64,
    latency: Latencies,
}

/// Latencies in ns. A type of its own so that messages do not show a hundred thousand buckets.
#[derive(Clone)]
struct Latencies(Histogram<u64>);

impl fmt::Debug for Latencies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = |percentile| Duration::from_nanos(self.0.value_at_percentile(percentile));
        write!(f, "{:?} (50 %), {:?} (99 %), {:?} at most", at(50.0), at(99.0), at(100.0))
    }
}

impl Received {
    fn new() -> Result<Received> {
        let latency = Histogram::new_with_bounds(1, LONGEST_LATENCY, 3)
            .map_err(|e| Error::Invalid(format!("no histogram of latencies: {e}")))?;
        let (packets, bytes, duplicated, reordered, stale, foreign, overrun, gaps) = (0, 0, 0, 0, 0, 0, 0, 0);
        Ok(Received {
            packets,
            bytes,
            duplicated,
            reordered,
            stale,
            foreign,
            overrun,
            gaps,
            latency: Latencies(latency),
        })
    }

    /// How many of a generator's packets did not come; what overran the sink is among them.
    pub fn lost(&self, sent: &Sent) -> u64 {
        sent.packets.saturating_sub(self.packets)
    }

    /// The latency that so many of a hundred packets do not exceed, from before the generator's system call to the
    /// kernel's time stamp at the sink's device. Exact to 0.1 %.
    pub fn latency(&self, percentile: f64) -> Duration {
        Duration::from_nanos(self.latency.0.value_at_percentile(percentile))
    }
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    packets: AtomicU64,
}

/// A thread that receives. Dropping it stops it.
pub struct Sink {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<Result<Received>>>,
}

impl Sink {
    /// Receives on `device` of `namespace` from here on, on this CPU if one is given. Frames that the device sends are
    /// not seen; the kernel's own stack sees the same frames.
    pub fn start(namespace: &Namespace, device: &str, cpu: Option<usize>) -> Result<Sink> {
        let config = RingConfig { mtu: BEGINNING, bytes: RING_BYTES, outgoing: false, shown: false };
        let ring = Ring::open(namespace, device, config)?;
        let shared = Arc::<Shared>::default();
        let receiving = Receiving { ring, shared: shared.clone(), received: Received::new()?, flows: Vec::new() };
        let thread = thread::Builder::new()
            .name("lab-sink".to_owned())
            .spawn(move || receiving.run(cpu))
            .map_err(|e| Error::system("cannot start a thread", e))?;
        Ok(Sink { shared, thread: Some(thread) })
    }

    /// [`Received::packets`] so far.
    pub fn packets(&self) -> u64 {
        self.shared.packets.load(Ordering::Relaxed)
    }

    /// Stops it; what it has received.
    pub fn stop(mut self) -> Result<Received> {
        self.end().unwrap_or_else(|| Err(Error::Invalid("the sink has ended".to_owned())))
    }

    /// Stops it once it has received so many packets, or after `limit`.
    pub fn stop_after(self, packets: u64, limit: Duration) -> Result<Received> {
        let start = Instant::now();
        while self.packets() < packets && start.elapsed() < limit {
            thread::sleep(Duration::from_millis(1));
        }
        self.stop()
    }

    fn end(&mut self) -> Option<Result<Received>> {
        self.shared.stop.store(true, Ordering::Relaxed);
        let thread = self.thread.take()?;
        Some(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        if self.thread.is_some() {
            // A drop can't report errors.
            let _ = self.end();
        }
    }
}

/// The thread's own part.
struct Receiving {
    ring: Ring,
    shared: Arc<Shared>,
    received: Received,
    flows: Vec<Window>,
}

impl Receiving {
    fn run(mut self, cpu: Option<usize>) -> Result<Received> {
        sys::stay_on(cpu)?;
        loop {
            // Read before the ring, so that what came before the request is still counted.
            let stop = self.shared.stop.load(Ordering::Relaxed);
            let more = self.turn();
            self.shared.packets.store(self.received.packets, Ordering::Relaxed);
            if more {
                continue;
            }
            self.received.overrun += self.ring.take_dropped();
            if stop {
                break;
            }
            thread::sleep(PAUSE);
        }
        let expected: u64 = self.flows.iter().map(Window::expected).sum();
        self.received.gaps = expected.saturating_sub(self.received.packets);
        Ok(self.received)
    }

    /// Some frames; whether there were as many as are taken at once.
    fn turn(&mut self) -> bool {
        let moment = Moment::read();
        let (received, flows) = (&mut self.received, &mut self.flows);
        (0..TURN).all(|_| self.ring.receive(|frame| count(received, flows, &frame, &moment)).is_some())
    }
}

fn count(received: &mut Received, flows: &mut Vec<Window>, frame: &Frame<'_>, moment: &Moment) {
    let Some(probe) = Probe::of_frame(frame.bytes).filter(|probe| probe.flow < MOST_FLOWS) else {
        received.foreign += 1;
        return;
    };
    let flow = probe.flow as usize;
    if flow >= flows.len() {
        flows.resize_with(flow + 1, Window::default);
    }
    received.bytes += frame.wire_length() as u64;
    received.latency.0.saturating_record(moment.arrival(frame.stamp).saturating_sub(probe.time).max(1));
    match flows[flow].take(probe.sequence) {
        Arrival::Latest => received.packets += 1,
        Arrival::Reordered => {
            received.packets += 1;
            received.reordered += 1;
        }
        Arrival::Duplicate => received.duplicated += 1,
        Arrival::Stale => received.stale += 1,
    }
}
