//! Settings on their way to a controller: those that it starts with, and new ones while it runs.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use dataplane::controller::Waker;

use super::Made;

/// How long whoever offers new settings waits for the controller.
const PATIENCE: Duration = Duration::from_secs(20);

/// One controller's; clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Reloads(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// What is in force: the controller starts with it, whenever it does.
    current: Made,
    /// The number of the last offer: an answer is that to one of them, and to no other.
    last: u64,
    /// Whether somebody waits for the answer to it.
    is_awaited: bool,
    offered: Option<(u64, Made)>,
    answer: Option<(u64, Result<(), String>)>,
    /// Wakes the controller, if it has said so.
    waker: Option<Waker>,
}

impl Reloads {
    /// Says, before the controller runs, or runs with another program, what the settings make that it starts with.
    pub fn begin(&self, made: Made) {
        self.lock().current = made;
    }

    /// The controller's side: what it starts with, also when it starts again.
    pub fn begun(&self) -> Made {
        self.lock().current.clone()
    }

    /// The controller's side: from now on it is woken when something is offered, by its link: [`Reloads::apply`] finds it then.
    pub fn wakes(&self, waker: Waker) {
        self.lock().waker = Some(waker);
    }

    /// Offers what new settings make, and waits until the controller has put it in force. One at a time: who offers meanwhile
    /// is told so.
    ///
    /// # Errors
    /// What the controller says; that it does not answer, and then it never hears of the offer; or that it is still at it.
    pub fn offer(&self, made: Made) -> Result<(), String> {
        self.offer_within(made, PATIENCE)
    }

    fn offer_within(&self, made: Made, patience: Duration) -> Result<(), String> {
        let mut state = self.lock();
        if state.is_awaited {
            return Err("another reload is under way".into());
        }
        state.last += 1;
        let own = state.last;
        (state.is_awaited, state.offered) = (true, Some((own, made)));
        state.waker.iter().for_each(Waker::wake);
        let waiting = |state: &mut State| state.answer.as_ref().is_none_or(|(number, _)| *number != own);
        let waited = self.0.changed.wait_timeout_while(state, patience, waiting);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.is_awaited = false;
        match (state.answer.take(), state.offered.take()) {
            (Some((number, result)), _) if number == own => result,
            (_, Some(_)) => Err("the controller does not answer".into()),
            (_, None) => Err("the controller is still at it, and may yet put its settings in force; try again".into()),
        }
    }

    /// The controller's side: puts in force what was offered, if anything was.
    pub fn apply(&self, install: impl FnOnce(&Made) -> Result<(), String>) {
        let Some((number, made)) = self.lock().offered.take() else { return };
        let mut answering = Answering { reloads: self, number, made, result: Err("the controller has failed".into()) };
        answering.result = install(&answering.made);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Answers an offer when it is dropped, so also where the controller panics.
struct Answering<'r> {
    reloads: &'r Reloads,
    number: u64,
    made: Made,
    result: Result<(), String>,
}

impl Drop for Answering<'_> {
    fn drop(&mut self) {
        let mut state = self.reloads.lock();
        let result = std::mem::replace(&mut self.result, Ok(()));
        if result.is_ok() {
            state.current = std::mem::take(&mut self.made);
        }
        // Who offered it may have lost patience; then nobody asks for this answer.
        state.answer = Some((self.number, result));
        self.reloads.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::mpsc::channel;
    use std::thread;

    use baker::ir::{TableEntry, TableId};

    use super::*;

    /// Settings of so many entries.
    fn made(entries: usize) -> Made {
        Made { entries: vec![(TableId(0), TableEntry::default()); entries], own: None }
    }

    #[test]
    fn what_is_offered_is_applied_once() {
        let (reloads, (send, receive)) = (Reloads::default(), channel());
        let controller = reloads.clone();
        reloads.apply(|_| panic!("nothing was offered"));
        let thread = thread::spawn(move || {
            for result in [Ok(()), Err("no room".to_owned())] {
                let mut done = false;
                while !done {
                    controller.apply(|made| {
                        done = true;
                        send.send(made.entries.len()).unwrap();
                        result.clone()
                    });
                    thread::sleep(Duration::from_millis(1));
                }
            }
        });
        assert_eq!(reloads.offer(made(1)), Ok(()));
        assert_eq!(reloads.offer(made(2)), Err("no room".into()));
        thread.join().unwrap();
        assert_eq!(receive.iter().collect::<Vec<_>>(), [1, 2]);
        // What was refused is not what it starts with.
        assert_eq!(reloads.begun().entries.len(), 1);
    }

    /// The controller is at an offer whose patience ends, and finishes it while the next one waits.
    #[test]
    fn an_answer_is_that_to_its_own_offer() {
        let reloads = Reloads::default();
        let ((taken, is_taken), (go_on, may_go_on)) = (channel(), channel());
        let controller = reloads.clone();
        let thread = thread::spawn(move || {
            let mut applied = Vec::new();
            while applied.len() < 2 {
                controller.apply(|made| {
                    applied.push(made.entries.len());
                    taken.send(()).unwrap();
                    if made.entries.len() == 1 {
                        may_go_on.recv().unwrap();
                        return Ok(());
                    }
                    Err("the second is refused".into())
                });
                thread::sleep(Duration::from_millis(1));
            }
            applied
        });
        let late = thread::scope(|scope| {
            let offering = scope.spawn(|| reloads.offer_within(made(1), Duration::from_millis(50)));
            is_taken.recv().unwrap();
            offering.join().unwrap()
        });
        assert!(late.as_ref().is_err_and(|error| error.contains("still at it")), "{late:?}");
        let second = thread::scope(|scope| {
            let offering = scope.spawn(|| reloads.offer(made(2)));
            while reloads.lock().offered.is_none() {
                thread::yield_now();
            }
            // Only now it finishes the first.
            go_on.send(()).unwrap();
            offering.join().unwrap()
        });
        assert_eq!(second, Err("the second is refused".into()));
        assert_eq!(thread.join().unwrap(), [1, 2]);
        assert_eq!(reloads.begun().entries.len(), 1);
    }

    #[test]
    fn what_nobody_waits_for_any_more_is_not_applied() {
        let reloads = Reloads::default();
        let late = reloads.offer_within(made(1), Duration::from_millis(1));
        assert_eq!(late, Err("the controller does not answer".into()));
        reloads.apply(|_| panic!("it was taken back"));
    }

    #[test]
    fn a_controller_that_fails_at_it_is_an_answer() {
        let reloads = Reloads::default();
        reloads.begin(made(3));
        let controller = reloads.clone();
        let thread = thread::spawn(move || {
            let fails = || controller.apply(|_| panic!("it fails"));
            while catch_unwind(AssertUnwindSafe(fails)).is_ok() {
                thread::sleep(Duration::from_millis(1));
            }
            // It is not offered again.
            controller.apply(|_| unreachable!());
        });
        assert_eq!(reloads.offer(made(1)), Err("the controller has failed".into()));
        thread.join().unwrap();
        assert_eq!(reloads.begun().entries.len(), 3);
    }
}
