//! Sends numbered frames at a rate, or as fast as the device takes them.

use std::io::IoSlice;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::flow::{Flow, Template, fold, sum};
use super::probe::Probe;
use crate::clock::monotonic;
use crate::error::{Error, Result};
use crate::namespace::Namespace;
use crate::ring;
use crate::sys::{self, BATCH};

/// It sleeps until so long before the next packet is due, in ns, and looks at the clock for the rest.
const SPIN: u64 = 80_000;
/// Packets that are sent together at most where there is a rate: they have one time, which is to be that of each to
/// about 10 µs.
const PACED: u64 = 8;
/// What it is behind by more than this, in ns, it does not catch up: it did not get the processor.
const BEHIND: u64 = 50_000_000;
/// Pause while the device takes nothing, such as one that is down.
const REFUSED_PAUSE: Duration = Duration::from_millis(1);

/// What to send: frames in turn, again and again.
#[derive(Clone, Debug)]
pub struct Traffic {
    templates: Vec<Template>,
    flows: u32,
    rate: Option<u64>,
    count: u64,
    cpu: Option<usize>,
}

impl Traffic {
    /// A frame of each length for each flow: all flows with the first length, then all with the second. Flows are
    /// numbered in their order; each packet carries its flow's number, its own number in the flow and the time.
    ///
    /// # Errors
    /// See [`Flow::frame`].
    pub fn flows(flows: &[Flow], lengths: &[usize]) -> Result<Traffic> {
        let each = |length: usize| (0u32..).zip(flows).map(move |(number, flow)| flow.template(length, number));
        let templates = lengths.iter().flat_map(|&length| each(length)).collect::<Result<Vec<_>>>()?;
        Traffic::of(templates, flows.len() as u32)
    }

    /// Frames as they are, without numbers.
    pub fn frames(frames: impl IntoIterator<Item = Vec<u8>>) -> Result<Traffic> {
        let template = |bytes| Template { bytes, probe: None, checksum: None };
        Traffic::of(frames.into_iter().map(template).collect(), 0)
    }

    fn of(templates: Vec<Template>, flows: u32) -> Result<Traffic> {
        if templates.is_empty() {
            return Err(Error::Invalid("there is no frame to send".to_owned()));
        }
        Ok(Traffic { templates, flows, rate: None, count: u64::MAX, cpu: None })
    }

    /// Packets per second, at least 1; otherwise as fast as the device takes them.
    pub fn rate(self, packets_per_second: u64) -> Self {
        Traffic { rate: Some(packets_per_second.max(1)), ..self }
    }

    /// How many packets; otherwise it goes on until it is stopped.
    pub fn count(self, packets: u64) -> Self {
        Traffic { count: packets, ..self }
    }

    /// The CPU to run on; otherwise where the kernel has it.
    pub fn cpu(self, cpu: usize) -> Self {
        Traffic { cpu: Some(cpu), ..self }
    }
}

/// What a generator has sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Packets that the device took.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Packets that it refused, such as a device that is down. Their numbers are missing at the sink.
    pub refused: u64,
    /// From the first packet to the last.
    pub time: Duration,
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    packets: AtomicU64,
    bytes: AtomicU64,
    refused: AtomicU64,
    /// ns
    time: AtomicU64,
}

/// A thread that sends. Dropping it stops it.
pub struct Generator {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<Result<()>>>,
}

impl Generator {
    /// Starts to send on `device` of `namespace`.
    pub fn start(namespace: &Namespace, device: &str, traffic: Traffic) -> Result<Generator> {
        let socket = ring::sender(namespace, device)?;
        let shared = Arc::<Shared>::default();
        let sending = Sending::new(traffic, socket, shared.clone());
        let thread = thread::Builder::new()
            .name("lab-generator".to_owned())
            .spawn(move || sending.run())
            .map_err(|e| Error::system("cannot start a thread", e))?;
        Ok(Generator { shared, thread: Some(thread) })
    }

    /// What it has sent so far.
    pub fn sent(&self) -> Sent {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let Shared { packets, bytes, refused, time, .. } = &*self.shared;
        let time = Duration::from_nanos(get(time));
        Sent { packets: get(packets), bytes: get(bytes), refused: get(refused), time }
    }

    /// Stops it; what it has sent.
    pub fn stop(mut self) -> Result<Sent> {
        self.shared.stop.store(true, Ordering::Relaxed);
        self.end()
    }

    /// Waits until it has sent [`Traffic::count`] packets.
    ///
    /// # Errors
    /// When that takes longer than `limit`; it is stopped then.
    pub fn wait(mut self, limit: Duration) -> Result<Sent> {
        let start = Instant::now();
        while self.thread.as_ref().is_some_and(|thread| !thread.is_finished()) {
            if start.elapsed() > limit {
                self.shared.stop.store(true, Ordering::Relaxed);
                let sent = self.end()?;
                return Err(Error::Invalid(format!("the generator was stopped after {limit:?}, having sent {sent:?}")));
            }
            thread::sleep(Duration::from_millis(1));
        }
        self.end()
    }

    fn end(&mut self) -> Result<Sent> {
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        }
        Ok(self.sent())
    }
}

impl Drop for Generator {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A drop can't report errors.
            let _ = thread.join();
        }
    }
}

/// The thread's own part.
struct Sending {
    /// At least a batch of them, so that each batch is a part without a frame twice.
    templates: Vec<Template>,
    /// The next number of each flow.
    numbers: Vec<u32>,
    rate: Option<u64>,
    count: u64,
    cpu: Option<usize>,
    socket: OwnedFd,
    shared: Arc<Shared>,
}

impl Sending {
    fn new(traffic: Traffic, socket: OwnedFd, shared: Arc<Shared>) -> Sending {
        let Traffic { templates, flows, rate, count, cpu } = traffic;
        let copies = BATCH.div_ceil(templates.len());
        let templates = (0..copies).flat_map(|_| templates.iter().cloned()).collect();
        Sending { templates, numbers: vec![0; flows as usize], rate, count, cpu, socket, shared }
    }

    fn run(mut self) -> Result<()> {
        sys::stay_on(self.cpu)?;
        sys::prefer_this_thread();
        let start = monotonic();
        let most = if self.rate.is_some() { PACED } else { BATCH as u64 };
        let (mut next, mut left, mut pace) = (0, self.count, Pace::new(self.rate, start));
        while left > 0 && !self.shared.stop.load(Ordering::Relaxed) {
            let due = pace.wait(left.min(most)) as usize;
            let size = due.min(self.templates.len() - next);
            let refused = self.send(next, size);
            pace.took(size as u64);
            next = (next + size) % self.templates.len();
            left -= size as u64;
            self.shared.time.store(monotonic() - start, Ordering::Relaxed);
            if refused == size {
                thread::sleep(REFUSED_PAUSE);
            }
        }
        Ok(())
    }

    /// Numbers, stamps and sends some frames; how many were refused.
    fn send(&mut self, first: usize, size: usize) -> usize {
        let batch = &mut self.templates[first..first + size];
        let time = monotonic();
        for template in batch.iter_mut() {
            let Some((at, flow)) = template.probe else { continue };
            let number = &mut self.numbers[flow as usize];
            let probe = Probe { flow, sequence: *number, time }.bytes();
            *number = number.wrapping_add(1);
            template.bytes[at..at + probe.len()].copy_from_slice(&probe);
            if let Some((checksum, rest)) = template.checksum {
                template.bytes[checksum..checksum + 2].copy_from_slice(&fold(rest + sum(&probe)).to_be_bytes());
            }
        }
        let mut frames = [IoSlice::new(&[]); BATCH];
        let mut bytes = 0;
        for (frame, template) in frames.iter_mut().zip(&*batch) {
            *frame = IoSlice::new(&template.bytes);
            bytes += template.bytes.len() as u64;
        }
        let mut refused = 0;
        ring::send(self.socket.as_fd(), &frames[..size], |at| {
            refused += 1;
            bytes -= batch[at].bytes.len() as u64;
        });
        // Nothing else writes them.
        let add = |counter: &AtomicU64, n: u64| counter.fetch_add(n, Ordering::Relaxed);
        add(&self.shared.packets, (size - refused) as u64);
        add(&self.shared.bytes, bytes);
        add(&self.shared.refused, refused as u64);
        refused
    }
}

/// When packets are due.
struct Pace {
    rate: Option<u64>,
    start: u64,
    sent: u64,
}

impl Pace {
    fn new(rate: Option<u64>, now: u64) -> Pace {
        Pace { rate, start: now, sent: 0 }
    }

    /// Waits until a packet is due, for the time of a sleep at most; how many are, up to `most`.
    fn wait(&mut self, most: u64) -> u64 {
        let Some(rate) = self.rate else { return most };
        loop {
            let now = monotonic();
            // The first packet is due at once.
            let due = ((now - self.start) as u128 * u128::from(rate) / 1_000_000_000) as u64 + 1;
            if due > self.sent {
                return (due - self.sent).min(most);
            }
            let at = self.start + (self.sent as u128 * 1_000_000_000).div_ceil(u128::from(rate)) as u64;
            let left = at.saturating_sub(now);
            if left > SPIN {
                // No longer than a stop request may wait.
                thread::sleep(Duration::from_nanos((left - SPIN).min(10_000_000)));
            }
            if left > 20_000_000 {
                return 0;
            }
            std::hint::spin_loop();
        }
    }

    fn took(&mut self, packets: u64) {
        self.sent += packets;
        if let Some(rate) = self.rate {
            let behind = (monotonic() - self.start)
                .saturating_sub((self.sent as u128 * 1_000_000_000 / u128::from(rate)) as u64);
            self.start += behind.saturating_sub(BEHIND);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pace_is_kept() {
        let start = monotonic();
        let mut pace = Pace::new(Some(20_000), start);
        let mut sent = 0;
        while sent < 1000 {
            let due = pace.wait(64);
            pace.took(due);
            sent += due;
        }
        let time = monotonic() - start;
        // The first is due at once, the last 999 intervals of 50 µs later; a loaded machine may take longer.
        assert!(time >= 49_000_000, "{time}");
    }

    #[test]
    fn what_was_missed_for_long_is_not_caught_up() {
        let now = monotonic();
        let mut pace = Pace::new(Some(1_000), now - 10_000_000_000);
        assert_eq!(pace.wait(64), 64);
        pace.took(64);
        let mut burst = 0;
        while monotonic() - now < 5_000_000 {
            let due = pace.wait(64);
            pace.took(due);
            burst += due;
        }
        assert!(burst < 200, "{burst} at once");
    }

    #[test]
    fn nothing_to_send_is_refused() {
        assert!(Traffic::frames([]).is_err());
        assert!(Traffic::flows(&[], &[60]).is_err());
    }
}
