//! One thread asks, another one answers when it gets round to it: how the control plane reaches a controller, which
//! runs on a thread of its own and waits for nobody.
//!
//! There is one request at a time. An answer belongs to its own request: one that comes after the patience of who asked
//! is dropped, and a request that was not taken by then is taken back.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use dataplane::controller::Waker;

/// The place where requests and answers meet; clones are the same.
#[derive(Debug)]
pub struct Rendezvous<Q, A>(Arc<Shared<Q, A>>);

#[derive(Debug)]
struct Shared<Q, A> {
    /// Held by who asks: others wait for their turn.
    turn: Mutex<()>,
    state: Mutex<State<Q, A>>,
    changed: Condvar,
    /// Wakes who answers, if that was asked for.
    waker: Mutex<Option<Waker>>,
}

#[derive(Debug)]
struct State<Q, A> {
    /// The number of the last request: an answer is that to one of them, and to no other.
    last: u64,
    request: Option<Q>,
    /// What came of the request of this number; none where it was dropped.
    answer: Option<(u64, Option<A>)>,
}

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unanswered {
    /// Another request is under way, and this one was not made.
    Busy,
    /// Nobody took the request in time, and nobody will.
    NotTaken,
    /// It was taken, and is not answered yet.
    Late,
    /// It was taken and dropped: who took it has failed.
    Dropped,
}

impl<Q, A> Default for Rendezvous<Q, A> {
    fn default() -> Self {
        let state = State { last: 0, request: None, answer: None };
        let (turn, state) = (Mutex::new(()), Mutex::new(state));
        Rendezvous(Arc::new(Shared { turn, state, changed: Condvar::new(), waker: Mutex::new(None) }))
    }
}

impl<Q, A> Clone for Rendezvous<Q, A> {
    fn clone(&self) -> Self {
        Rendezvous(self.0.clone())
    }
}

impl<Q, A> Rendezvous<Q, A> {
    /// Asks when those who asked before have their answers, and waits this long for the own one.
    ///
    /// # Errors
    /// That there is none.
    pub fn ask(&self, request: Q, patience: Duration) -> Result<A, Unanswered> {
        let turn = self.0.turn.lock().unwrap_or_else(PoisonError::into_inner);
        self.wait(turn, request, patience)
    }

    /// Asks unless somebody else waits for an answer, and waits this long for it.
    ///
    /// # Errors
    /// That there is none.
    pub fn try_ask(&self, request: Q, patience: Duration) -> Result<A, Unanswered> {
        let turn = match self.0.turn.try_lock() {
            Ok(turn) => turn,
            Err(std::sync::TryLockError::Poisoned(turn)) => turn.into_inner(),
            Err(std::sync::TryLockError::WouldBlock) => return Err(Unanswered::Busy),
        };
        self.wait(turn, request, patience)
    }

    fn wait(&self, _turn: MutexGuard<'_, ()>, request: Q, patience: Duration) -> Result<A, Unanswered> {
        let mut state = self.lock();
        state.last += 1;
        let own = state.last;
        state.request = Some(request);
        self.0.waker.lock().unwrap_or_else(PoisonError::into_inner).iter().for_each(Waker::wake);
        let is_missing = |state: &mut State<Q, A>| state.answer.as_ref().is_none_or(|(number, _)| *number != own);
        let waited = self.0.changed.wait_timeout_while(state, patience, is_missing);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        match (state.answer.take(), state.request.take()) {
            (Some((number, answer)), _) if number == own => answer.ok_or(Unanswered::Dropped),
            (_, Some(_)) => Err(Unanswered::NotTaken),
            (_, None) => Err(Unanswered::Late),
        }
    }

    /// The side that answers: from now on it is woken when somebody asks.
    pub fn wakes(&self, waker: Waker) {
        *self.0.waker.lock().unwrap_or_else(PoisonError::into_inner) = Some(waker);
    }

    /// The side that answers: takes the request, if there is one.
    pub fn take(&self) -> Option<Taken<'_, Q, A>> {
        let mut state = self.lock();
        let request = state.request.take()?;
        Some(Taken { rendezvous: self, number: state.last, request, answer: None })
    }

    /// Whether both are the same.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Whether there is a request that nobody has taken.
    #[cfg(test)]
    pub(crate) fn is_asked(&self) -> bool {
        self.lock().request.is_some()
    }

    fn lock(&self) -> MutexGuard<'_, State<Q, A>> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request that waits for its answer. Where it is dropped without one, as by a panic, who asked is told so.
#[derive(Debug)]
pub struct Taken<'r, Q, A> {
    rendezvous: &'r Rendezvous<Q, A>,
    number: u64,
    request: Q,
    answer: Option<A>,
}

impl<Q, A> Taken<'_, Q, A> {
    /// What is asked.
    pub fn request(&self) -> &Q {
        &self.request
    }

    /// Answers it.
    pub fn answer(mut self, answer: A) {
        self.answer = Some(answer);
    }
}

impl<Q, A> Drop for Taken<'_, Q, A> {
    fn drop(&mut self) {
        let mut state = self.rendezvous.lock();
        // Where somebody else has asked meanwhile, who asked this has lost patience.
        if state.last == self.number {
            state.answer = Some((self.number, self.answer.take()));
            self.rendezvous.0.changed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use super::*;

    const LONG: Duration = Duration::from_secs(20);
    const SHORT: Duration = Duration::from_millis(20);

    #[test]
    fn each_who_asks_gets_the_own_answer() {
        let (rendezvous, stop) = (Rendezvous::<u64, u64>::default(), AtomicBool::new(false));
        thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    if let Some(taken) = rendezvous.take() {
                        let answer = taken.request() * 2;
                        taken.answer(answer);
                    }
                    thread::yield_now();
                }
            });
            let ask = |number: u64| {
                let rendezvous = &rendezvous;
                scope.spawn(move || {
                    let mut own = (0..50).map(|round| number * 1000 + round);
                    own.all(|own| rendezvous.ask(own, LONG) == Ok(own * 2))
                })
            };
            let all: Vec<_> = (0..4).map(ask).collect();
            let good = all.into_iter().filter_map(|thread| thread.join().ok()).filter(|good| *good).count();
            stop.store(true, Ordering::Relaxed);
            assert_eq!(good, 4);
        });
    }

    #[test]
    fn what_nobody_takes_in_time_nobody_takes() {
        let rendezvous = Rendezvous::<u8, u8>::default();
        assert_eq!(rendezvous.ask(1, SHORT), Err(Unanswered::NotTaken));
        assert!(rendezvous.take().is_none());
    }

    /// The request of a thread, where it is taken before the thread loses patience.
    fn taken<'r>(
        rendezvous: &'r Rendezvous<u8, u8>,
        asks: &thread::ScopedJoinHandle<'_, Result<u8, Unanswered>>,
    ) -> Option<Taken<'r, u8, u8>> {
        while !asks.is_finished() {
            if let Some(taken) = rendezvous.take() {
                return Some(taken);
            }
            thread::yield_now();
        }
        None
    }

    #[test]
    fn a_late_answer_is_not_that_to_the_next_request() {
        let rendezvous = Rendezvous::<u8, u8>::default();
        thread::scope(|scope| {
            // On a loaded machine the first ones may not be taken in time.
            let (first, late) = (0..1000)
                .find_map(|_| {
                    let first = scope.spawn(|| rendezvous.ask(1, SHORT));
                    taken(&rendezvous, &first).map(|late| (first, late))
                })
                .unwrap();
            assert_eq!(first.join().unwrap(), Err(Unanswered::Late));
            let second = scope.spawn(|| rendezvous.ask(2, LONG));
            let taken = taken(&rendezvous, &second).unwrap();
            assert_eq!(rendezvous.try_ask(3, SHORT), Err(Unanswered::Busy));
            late.answer(10);
            assert_eq!(*taken.request(), 2);
            taken.answer(20);
            assert_eq!(second.join().unwrap(), Ok(20));
        });
    }

    #[test]
    fn what_is_dropped_is_told_at_once() {
        let rendezvous = Rendezvous::<u8, u8>::default();
        thread::scope(|scope| {
            let asks = scope.spawn(|| rendezvous.ask(1, LONG));
            drop(taken(&rendezvous, &asks).unwrap());
            assert_eq!(asks.join().unwrap(), Err(Unanswered::Dropped));
        });
    }
}
