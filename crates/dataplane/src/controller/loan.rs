//! A controller that waits is lent to the workers: the one that has packets for it has it work on them, to completion,
//! on its own thread. So neither has to be woken, and what the controller injects is sent at once.
//!
//! The controller's thread waits for everything else meanwhile: a time, calls, the end. It is woken where the loan is
//! of no help:
//!
//! ```text
//! worker: push the packet          controller's thread: arm the signal, look for something, and where there is nothing
//!         lock, if nobody has:                          lock: lend
//!             there is a loan: work                     wait
//!         else: ring the signal                         lock: take back
//! ```
//!
//! A worker that finds the lock taken, by another worker or by the controller's thread, or no loan, rings. So each
//! packet is worked on by a worker that has the loan, or rung for (see [`signal`](super::signal)), which ends the wait.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use super::punted::Punted;

/// What a controller does with packets, on any thread. How long it is until it has to be called again, if no packet
/// comes.
pub type Work<'w> = dyn FnMut(&mut dyn Iterator<Item = Punted>) -> Duration + Send + 'w;

/// What is lent, if anything.
#[derive(Default)]
enum Lent {
    #[default]
    Nothing,
    Work {
        work: *mut Work<'static>,
        /// When the controller's thread is awake again by itself.
        until: Option<Instant>,
    },
    /// The work has panicked.
    Failed(Box<dyn Any + Send>),
}

// SAFETY: the work may be done by any thread, one at a time, for the lock is held.
unsafe impl Send for Lent {}

/// What came of an attempt to have a controller work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Worked {
    /// It has.
    Done,
    /// It has, and its thread is to be woken, for something is due earlier than that would be.
    Call,
    /// It is not lent, or another thread has it.
    No,
}

/// A place for a loan.
#[derive(Default)]
pub struct Loan {
    lent: Mutex<Lent>,
    /// Whether there is one, for who asks without the lock.
    is_there: AtomicBool,
}

impl std::fmt::Debug for Loan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Loan").finish_non_exhaustive()
    }
}

impl Loan {
    /// Lends the work for as long as `wait` takes, which is until this time at most.
    ///
    /// # Panics
    /// Where the work has, with what it has panicked with.
    pub fn lend(&self, work: &mut Work<'_>, until: Option<Instant>, wait: impl FnOnce()) {
        let work: *mut Work<'_> = work;
        // SAFETY: only the lifetime is another: the work is taken back before this returns, whatever `wait` does.
        let work = unsafe { std::mem::transmute::<*mut Work<'_>, *mut Work<'static>>(work) };
        *self.lock() = Lent::Work { work, until };
        self.is_there.store(true, Ordering::Relaxed);
        let back = TakenBack(self);
        wait();
        if let Lent::Failed(panic) = back.take() {
            resume_unwind(panic);
        }
    }

    /// Whether there is one, likely. Who does not wake the controller because of that has to ask for its work
    /// afterwards.
    pub fn is_there(&self) -> bool {
        self.is_there.load(Ordering::Relaxed)
    }

    /// Has the controller work on packets on this thread.
    pub fn work(&self, packets: &mut dyn Iterator<Item = Punted>) -> Worked {
        // Its owner may want it back.
        if !self.is_there() {
            return Worked::No;
        }
        let mut lent = match self.lent.try_lock() {
            Ok(lent) => lent,
            Err(TryLockError::Poisoned(lent)) => lent.into_inner(),
            Err(TryLockError::WouldBlock) => return Worked::No,
        };
        let Lent::Work { work, until } = *lent else { return Worked::No };
        // SAFETY: its owner has lent it, and waits for the lock before it goes on.
        match catch_unwind(AssertUnwindSafe(|| unsafe { (*work)(packets) })) {
            Ok(left) => {
                let due = Instant::now().checked_add(left);
                let is_early = due.is_some_and(|due| until.is_none_or(|until| due < until));
                if is_early { Worked::Call } else { Worked::Done }
            }
            Err(panic) => {
                *lent = Lent::Failed(panic);
                Worked::Call
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Lent> {
        self.lent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends a loan.
struct TakenBack<'l>(&'l Loan);

impl TakenBack<'_> {
    /// Waits until no thread has it.
    fn take(&self) -> Lent {
        self.0.is_there.store(false, Ordering::Relaxed);
        std::mem::take(&mut *self.0.lock())
    }
}

impl Drop for TakenBack<'_> {
    fn drop(&mut self) {
        self.take();
    }
}
