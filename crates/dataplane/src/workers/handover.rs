//! How a running worker gets another program: between two batches, without waiting.
//!
//! 1. The worker takes the new program, built for it outside of its loop. From then on what it receives is the new
//!    program's; packets that the old one's part in the kernel has handed over, and those that its controllers inject,
//!    are still the old one's.
//! 2. When the kernel runs the new program, the worker is asked to empty its rings of what came before.
//! 3. When the controllers have finished, too, it gives the old program back, which is taken apart outside of its loop.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::running::Running;
use crate::rendezvous::{Rendezvous, Reply};
use crate::sys::{Doorbell, monotonic_ns};

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
pub type Done = Option<Box<Running>>;

/// How a worker says that it is done.
pub type DoneReply = Reply<Order, Done>;

/// Between one worker and the thread that replaces programs.
pub struct Handover {
    /// One order at a time.
    pub orders: Rendezvous<Order, Done>,
    /// When the worker was seen last, in nanoseconds ([`monotonic_ns`]).
    seen: AtomicU64,
}

impl Handover {
    /// For the worker with this doorbell.
    pub fn new(doorbell: Arc<Doorbell>) -> Self {
        let orders = Rendezvous::default();
        orders.wakes(move || doorbell.ring());
        Handover { orders, seen: AtomicU64::new(monotonic_ns()) }
    }

    /// For how long the worker has not been seen; it is several times a second.
    pub fn unseen(&self) -> Duration {
        Duration::from_nanos(monotonic_ns().saturating_sub(self.seen.load(Ordering::Relaxed)))
    }

    /// The worker's side: it is there.
    pub fn see(&self) {
        self.seen.store(monotonic_ns(), Ordering::Relaxed);
    }
}
