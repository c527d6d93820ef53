//! Requests between threads, and their answers: how a thread that never waits, such as a worker or a controller, is
//! given something, and how the one that gives it hears what came of it.
//!
//! There is one request at a time. An answer belongs to its own request: one that comes too late is dropped. Looking
//! for a request costs one load while there is none.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

/// Where requests and answers meet; clones are the same.
pub struct Rendezvous<Q, A>(Arc<Shared<Q, A>>);

struct Shared<Q, A> {
    /// Whether there may be a request: a line that is written for requests alone.
    is_asked: AtomicBool,
    /// Held from a request to its answer: other requests wait for their turn.
    turn: Mutex<()>,
    state: Mutex<State<Q, A>>,
    changed: Condvar,
    /// Wakes the side that answers, where it asked for that.
    wake: Mutex<Option<Box<dyn Fn() + Send + Sync>>>,
}

struct State<Q, A> {
    /// The number of the last request: an answer is that to one of them, and to no other.
    last: u64,
    request: Option<Q>,
    /// What came of the request of this number; none where it was dropped.
    answer: Option<(u64, Option<A>)>,
    /// Requests are dropped: the side that answers has ended.
    is_closed: bool,
}

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unanswered {
    /// Another request is under way, and this one was not made.
    Busy,
    /// The request was not taken in time.
    NotTaken,
    /// It was taken, and is not answered yet.
    Late,
    /// It was dropped: the side that answers has failed or ended.
    Dropped,
}

impl<Q, A> Default for Rendezvous<Q, A> {
    fn default() -> Self {
        Rendezvous(Arc::new(Shared {
            is_asked: AtomicBool::new(false),
            turn: Mutex::new(()),
            state: Mutex::new(State { last: 0, request: None, answer: None, is_closed: false }),
            changed: Condvar::new(),
            wake: Mutex::new(None),
        }))
    }
}

impl<Q, A> Clone for Rendezvous<Q, A> {
    fn clone(&self) -> Self {
        Rendezvous(self.0.clone())
    }
}

impl<Q, A> std::fmt::Debug for Rendezvous<Q, A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rendezvous").finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<Q, A> Rendezvous<Q, A> {
    /// Asks when earlier requests have their answers, and waits this long for the own one. A request that was not taken
    /// by then is taken back.
    ///
    /// # Errors
    /// That there is none.
    pub fn ask(&self, request: Q, patience: Duration) -> Result<A, Unanswered> {
        self.ask_in_turn(lock(&self.0.turn), request, patience)
    }

    /// As [`Rendezvous::ask`], unless another request waits for its answer.
    ///
    /// # Errors
    /// That there is none.
    pub fn try_ask(&self, request: Q, patience: Duration) -> Result<A, Unanswered> {
        let turn = match self.0.turn.try_lock() {
            Ok(turn) => turn,
            Err(TryLockError::Poisoned(turn)) => turn.into_inner(),
            Err(TryLockError::WouldBlock) => return Err(Unanswered::Busy),
        };
        self.ask_in_turn(turn, request, patience)
    }

    fn ask_in_turn(&self, _turn: MutexGuard<'_, ()>, request: Q, patience: Duration) -> Result<A, Unanswered> {
        let (answer, mut state) = self.tell(request).wait_and_lock(patience);
        state.request = None;
        answer
    }

    /// Makes a request, in place of an earlier one that was not taken, and leaves it there until it is taken. For a
    /// side that asks from one thread alone.
    pub fn tell(&self, request: Q) -> Told<'_, Q, A> {
        let mut state = lock(&self.0.state);
        state.last += 1;
        let number = state.last;
        if state.is_closed {
            state.answer = Some((number, None));
        } else {
            state.request = Some(request);
            self.0.is_asked.store(true, Ordering::Relaxed);
        }
        drop(state);
        lock(&self.0.wake).iter().for_each(|wake| wake());
        Told { rendezvous: self, number }
    }

    /// The side that answers: from now on this is called at each request.
    pub fn wakes(&self, wake: impl Fn() + Send + Sync + 'static) {
        *lock(&self.0.wake) = Some(Box::new(wake));
    }

    /// The side that answers: takes the request, if there is one.
    pub fn take(&self) -> Option<(Q, Reply<Q, A>)> {
        // A request that is not seen now is seen at the next look.
        if !self.0.is_asked.load(Ordering::Relaxed) {
            return None;
        }
        let mut state = lock(&self.0.state);
        self.0.is_asked.store(false, Ordering::Relaxed);
        let request = state.request.take()?;
        Some((request, Reply { rendezvous: self.clone(), number: state.last, answer: None }))
    }

    /// The side that answers ends: requests are dropped from now on, and one that waits to be taken, too.
    pub fn close(&self) {
        let mut state = lock(&self.0.state);
        state.is_closed = true;
        if state.request.take().is_some() {
            state.answer = Some((state.last, None));
        }
        self.0.changed.notify_all();
    }

    /// Whether both are the same.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Whether a request waits to be taken.
    pub fn is_asked(&self) -> bool {
        lock(&self.0.state).request.is_some()
    }
}

/// A request that was made.
#[must_use = "its answer may be waited for"]
pub struct Told<'r, Q, A> {
    rendezvous: &'r Rendezvous<Q, A>,
    number: u64,
}

impl<'r, Q, A> Told<'r, Q, A> {
    /// Waits this long for the answer. A request that was not taken by then is still there to be taken.
    ///
    /// # Errors
    /// That there is none.
    pub fn wait(self, patience: Duration) -> Result<A, Unanswered> {
        self.wait_and_lock(patience).0
    }

    fn wait_and_lock(self, patience: Duration) -> (Result<A, Unanswered>, MutexGuard<'r, State<Q, A>>) {
        let Told { rendezvous, number: own } = self;
        let is_missing = |state: &mut State<Q, A>| state.answer.as_ref().is_none_or(|(number, _)| *number != own);
        let waited = rendezvous.0.changed.wait_timeout_while(lock(&rendezvous.0.state), patience, is_missing);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let answer = match state.answer.take_if(|(number, _)| *number == own) {
            Some((_, answer)) => answer.ok_or(Unanswered::Dropped),
            None if state.request.is_some() => Err(Unanswered::NotTaken),
            None => Err(Unanswered::Late),
        };
        (answer, state)
    }
}

/// The answer to a request that was taken. Where it is dropped without one, as by a panic, the request counts as
/// dropped.
pub struct Reply<Q, A> {
    rendezvous: Rendezvous<Q, A>,
    number: u64,
    answer: Option<A>,
}

impl<Q, A> Reply<Q, A> {
    /// Answers it.
    pub fn answer(mut self, answer: A) {
        self.answer = Some(answer);
    }
}

impl<Q, A> Drop for Reply<Q, A> {
    fn drop(&mut self) {
        let mut state = lock(&self.rendezvous.0.state);
        // Where there is another request meanwhile, this one's answer is no longer waited for.
        if state.last == self.number {
            state.answer = Some((self.number, self.answer.take()));
            self.rendezvous.0.changed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    const LONG: Duration = Duration::from_secs(20);
    const SHORT: Duration = Duration::from_millis(20);

    #[test]
    fn each_request_gets_its_own_answer() {
        let (rendezvous, stop) = (Rendezvous::<u64, u64>::default(), AtomicBool::new(false));
        thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    if let Some((request, reply)) = rendezvous.take() {
                        reply.answer(request * 2);
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
    fn a_question_that_is_not_taken_in_time_is_taken_back() {
        let rendezvous = Rendezvous::<u8, u8>::default();
        assert_eq!(rendezvous.ask(1, SHORT), Err(Unanswered::NotTaken));
        assert!(rendezvous.take().is_none());
    }

    #[test]
    fn what_is_told_stays_until_it_is_taken() {
        let rendezvous = Rendezvous::<u8, u8>::default();
        assert_eq!(rendezvous.tell(1).wait(SHORT), Err(Unanswered::NotTaken));
        let told = rendezvous.tell(2);
        let (request, reply) = rendezvous.take().unwrap();
        assert_eq!(request, 2, "the later one is in place of the earlier");
        reply.answer(20);
        assert_eq!(told.wait(LONG), Ok(20));
        assert!(rendezvous.take().is_none());
    }

    /// The request of a thread, where it is taken before the thread loses patience.
    fn taken(
        rendezvous: &Rendezvous<u8, u8>,
        asks: &thread::ScopedJoinHandle<'_, Result<u8, Unanswered>>,
    ) -> Option<(u8, Reply<u8, u8>)> {
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
            let (first, (_, late)) = (0..1000)
                .find_map(|_| {
                    let first = scope.spawn(|| rendezvous.ask(1, SHORT));
                    taken(&rendezvous, &first).map(|late| (first, late))
                })
                .unwrap();
            assert_eq!(first.join().unwrap(), Err(Unanswered::Late));
            let second = scope.spawn(|| rendezvous.ask(2, LONG));
            let (request, reply) = taken(&rendezvous, &second).unwrap();
            assert_eq!(rendezvous.try_ask(3, SHORT), Err(Unanswered::Busy));
            late.answer(10);
            assert_eq!(request, 2);
            reply.answer(20);
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

    #[test]
    fn a_closed_one_drops_all_requests() {
        let rendezvous = Rendezvous::<u8, u8>::default();
        let told = rendezvous.tell(1);
        rendezvous.close();
        assert_eq!(told.wait(LONG), Err(Unanswered::Dropped));
        assert_eq!(rendezvous.ask(2, LONG), Err(Unanswered::Dropped));
        assert!(rendezvous.take().is_none());
    }
}
