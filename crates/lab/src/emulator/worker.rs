//! The emulator's thread: takes frames from the rings, and sends each when its time has come.

use std::io::IoSlice;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::prctl;
use nix::sys::time::{TimeSpec, TimeValLike};

use super::Shared;
use super::pipe::Pipe;
use super::pool::{Packet, Pool};
use crate::clock::{Moment, monotonic};
use crate::error::{Error, Result};
use crate::ring::{self, Ring};
use crate::sys::{self, BATCH};

/// A wait ends this much early, in ns, and the rest is spent looking at the clock: waking up takes 30 µs, sometimes 80.
const SPIN: u64 = 80_000;
/// Frames taken from one ring before others have their turn; small, so that what is due does not wait long.
const TURN: usize = 32;
/// A ring's losses are read once in so many turns without a wait.
const TURNS_PER_LOOK: u32 = 4096;

/// The thread's own part of the emulator. Pipe `i` goes from port `i` to port `i ^ 1`.
pub(super) struct Worker {
    ports: Vec<Ring>,
    sockets: Vec<Arc<OwnedFd>>,
    pipes: Vec<Pipe>,
    pool: Pool,
    longest: Vec<usize>,
    /// Packets that leave together.
    batch: Vec<Packet>,
    shared: Arc<Shared>,
    generation: u64,
}

impl Worker {
    /// `longest` is the longest frame in bytes for each port.
    pub(super) fn new(
        ports: Vec<Ring>,
        longest: Vec<usize>,
        pipes: Vec<Pipe>,
        memory: usize,
        shared: Arc<Shared>,
    ) -> Worker {
        let sockets = ports.iter().map(Ring::socket).collect();
        let batch = Vec::with_capacity(BATCH);
        Worker { ports, sockets, pipes, pool: Pool::new(memory), longest, batch, shared, generation: 0 }
    }

    /// Runs until it is told to stop.
    pub(super) fn run(mut self) {
        let shared = self.shared.clone();
        let sockets = self.sockets.clone();
        let readable = |fd| PollFd::new(fd, PollFlags::POLLIN);
        let mut waits: Vec<PollFd<'_>> = sockets.iter().map(|socket| readable(socket.as_fd())).collect();
        waits.push(readable(shared.wake.as_fd()));
        let mut turns = 0;
        while !shared.stop.load(Ordering::Acquire) {
            self.take_settings();
            self.receive();
            self.release(monotonic());
            self.publish();
            turns += 1;
            if turns >= TURNS_PER_LOOK {
                turns = 0;
                self.look_for_losses();
            }
            let due = self.pipes.iter().filter_map(Pipe::next_due).min();
            let left = due.map(|due| due.saturating_sub(monotonic()));
            match left {
                Some(left) if left <= SPIN => self.spin(due.unwrap_or(0)),
                _ if self.ports.iter().any(Ring::is_ready) => {}
                _ => {
                    turns = 0;
                    self.look_for_losses();
                    self.publish();
                    wait(&mut waits, left.map(|left| left - SPIN));
                    self.after_wait(&waits);
                }
            }
        }
    }

    /// Takes new settings over if there are any. Only then is there a lock.
    fn take_settings(&mut self) {
        let generation = self.shared.generation.load(Ordering::Acquire);
        if generation == self.generation {
            return;
        }
        self.generation = generation;
        for (pipe, settings) in self.pipes.iter_mut().zip(&self.shared.settings) {
            pipe.set(settings.lock().unwrap_or_else(|e| e.into_inner()).clone());
        }
    }

    fn receive(&mut self) {
        let moment = Moment::read();
        let pool = &mut self.pool;
        for ((ring, pipe), &longest) in self.ports.iter_mut().zip(&mut self.pipes).zip(&self.longest) {
            for _ in 0..TURN {
                let seen = ring.receive(|frame| {
                    if frame.cut || frame.len() > longest {
                        pipe.too_long(frame.wire_length());
                    } else {
                        pipe.take(&frame.parts(), moment.arrival(frame.stamp), pool);
                    }
                });
                if seen.is_none() {
                    break;
                }
            }
        }
    }

    /// Sends what is due, one batch in each direction.
    fn release(&mut self, now: u64) {
        for (i, pipe) in self.pipes.iter_mut().enumerate() {
            while self.batch.len() < BATCH
                && let Some(packet) = pipe.leave(now)
            {
                self.batch.push(packet);
            }
            if self.batch.is_empty() {
                continue;
            }
            let mut frames = [IoSlice::new(&[]); BATCH];
            for (frame, packet) in frames.iter_mut().zip(&self.batch) {
                *frame = IoSlice::new(self.pool.bytes(packet));
            }
            let mut refused = 0u64;
            ring::send(self.sockets[i ^ 1].as_fd(), &frames[..self.batch.len()], |at| refused |= 1 << at);
            for (at, packet) in self.batch.drain(..).enumerate() {
                pipe.left(packet.len(), refused & 1 << at == 0);
                self.pool.give_back(packet);
            }
        }
    }

    fn publish(&self) {
        for (pipe, published) in self.pipes.iter().zip(&self.shared.counters) {
            published.set(&pipe.counters());
        }
    }

    fn look_for_losses(&mut self) {
        for (ring, pipe) in self.ports.iter().zip(&mut self.pipes) {
            pipe.counters.overrun += ring.take_dropped();
        }
    }

    /// Looks at the clock and at the rings until one of them has something.
    fn spin(&self, due: u64) {
        while monotonic() < due && !self.ports.iter().any(Ring::is_ready) {
            std::hint::spin_loop();
        }
    }

    fn after_wait(&self, waits: &[PollFd<'_>]) {
        for (ring, wait) in self.ports.iter().zip(waits) {
            if wait.revents().is_some_and(|events| events.contains(PollFlags::POLLERR)) {
                ring.clear_error();
            }
        }
        if waits.last().and_then(PollFd::any) == Some(true) {
            // It was readable, and nothing else reads it.
            let _ = self.shared.wake.read();
        }
    }
}

/// Prepares this thread to be the emulator's, with this CPU for itself if one is given.
pub(super) fn take_cpu(cpu: Option<usize>) -> Result<()> {
    // Both make it more exact; where they are refused, it is a little less so.
    let _ = prctl::set_timerslack(1);
    sys::prefer_this_thread();
    let Some(cpu) = cpu else { return Ok(()) };
    sys::stay_on(Some(cpu))?;
    sys::run_first().map_err(|e| Error::system(format!("cannot have CPU {cpu} for the emulator"), e))
}

/// Waits for a frame, for a word from another thread, or for so many nanoseconds.
fn wait(waits: &mut [PollFd<'_>], limit: Option<u64>) {
    // An hour is as good as longer, and in range.
    let limit = limit.map(|limit| TimeSpec::nanoseconds(limit.min(3_600_000_000_000).cast_signed()));
    // It fails on a signal only, and then there is another turn.
    let _ = ppoll(waits, limit, None);
}
