//! How a running worker gets another program: between two batches, without waiting for anybody.
//!
//! 1. The worker takes the new program, built for it outside of its loop. From then on what it receives is the new
//!    program's; packets that the old one's part in the kernel has handed over, and those that its controllers inject,
//!    are still the old one's.
//! 2. When the kernel runs the new program, the worker is asked to empty its rings of what came before.
//! 3. When the controllers have finished, too, it gives the old program back, which is taken apart outside of its loop.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::running::Running;
use crate::sys::{Doorbell, monotonic_ns};

/// How long a worker may take to do what it is told, which takes it a batch, or as many as its rings hold.
const PATIENCE: Duration = Duration::from_secs(10);

/// What a worker is told.
pub enum Order {
    /// To run this program from its next batch on, and to finish what it runs now.
    TakeOver(Box<Running>),
    /// To say when it has processed what its rings hold now.
    Drain,
    /// To give back the program that it finishes.
    Release,
}

/// What it says when that is done: the program that it has given back.
type Done = Option<Box<Running>>;

#[derive(Default)]
struct State {
    order: Option<Order>,
    done: Option<Done>,
}

/// Between one worker and whoever replaces programs, one at a time.
pub struct Handover {
    pending: AtomicBool,
    /// When the worker was seen last, in nanoseconds ([`monotonic_ns`]).
    seen: AtomicU64,
    state: Mutex<State>,
    answered: Condvar,
    doorbell: Arc<Doorbell>,
}

impl Handover {
    /// For the worker with this doorbell.
    pub fn new(doorbell: Arc<Doorbell>) -> Self {
        Handover {
            pending: AtomicBool::new(false),
            seen: AtomicU64::new(monotonic_ns()),
            state: Mutex::default(),
            answered: Condvar::new(),
            doorbell,
        }
    }

    /// Tells the worker something.
    pub fn tell(&self, order: Order) {
        *self.lock() = State { order: Some(order), done: None };
        self.pending.store(true, Ordering::Release);
        self.doorbell.ring();
    }

    /// Waits until it has done what it was told.
    pub fn wait(&self) -> io::Result<Done> {
        let waiting = |state: &mut State| state.done.is_none();
        let waited = self.answered.wait_timeout_while(self.lock(), PATIENCE, waiting);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.done.take().ok_or_else(|| io::Error::other("a worker does not answer"))
    }

    /// For how long the worker has not been seen; it is several times a second.
    pub fn unseen(&self) -> Duration {
        Duration::from_nanos(monotonic_ns().saturating_sub(self.seen.load(Ordering::Relaxed)))
    }

    /// The worker's side: it is there.
    pub fn see(&self) {
        self.seen.store(monotonic_ns(), Ordering::Relaxed);
    }

    /// The worker's side: what it was told, once.
    pub fn take(&self) -> Option<Order> {
        // One load of a line that nobody writes, but for this.
        if !self.pending.load(Ordering::Relaxed) {
            return None;
        }
        self.pending.store(false, Ordering::Relaxed);
        self.lock().order.take()
    }

    /// The worker's side: it is done.
    pub fn done(&self, ended: Done) {
        self.lock().done = Some(ended);
        self.answered.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
