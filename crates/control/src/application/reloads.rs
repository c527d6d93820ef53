//! Settings on their way to a controller: those that it starts with, and new ones while it runs.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use dataplane::controller::Waker;
use dataplane::rendezvous::{Rendezvous, Unanswered};

use super::settings::{AnySettings, CompiledSettings};

/// How long an offer of new settings waits for the controller.
const PATIENCE: Duration = Duration::from_secs(20);

/// One controller's; clones are the same.
#[derive(Debug)]
pub struct Reloads<S>(Arc<Shared<S>>);

#[derive(Debug)]
struct Shared<S> {
    /// What is in force: the controller starts with it, whenever it does.
    current: Mutex<CompiledSettings<S>>,
    offers: Rendezvous<CompiledSettings<S>, Result<(), String>>,
}

impl<S> Default for Reloads<S> {
    fn default() -> Self {
        Reloads(Arc::new(Shared { current: Mutex::default(), offers: Rendezvous::default() }))
    }
}

impl<S> Clone for Reloads<S> {
    fn clone(&self) -> Self {
        Reloads(self.0.clone())
    }
}

impl<S> Reloads<S> {
    /// Says, before the controller runs, or runs with another program, what the settings make that it starts with.
    pub fn begin(&self, settings: CompiledSettings<S>) {
        *self.0.current.lock().unwrap_or_else(PoisonError::into_inner) = settings;
    }

    /// The controller's side: what it starts with, also when it starts again.
    pub fn begun(&self) -> CompiledSettings<S> {
        self.0.current.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The controller's side: from now on it is woken when something is offered, by its link: [`Reloads::apply`] finds
    /// it then.
    pub fn wakes(&self, waker: Waker) {
        self.0.offers.wakes(move || waker.wake());
    }

    /// Offers what new settings make, and waits until the controller has put it in force. One at a time: a second
    /// offer meanwhile is refused.
    ///
    /// # Errors
    /// What the controller says; that it does not answer, and then it never hears of the offer; or that it is still at
    /// it.
    pub fn offer(&self, settings: CompiledSettings<S>) -> Result<(), String> {
        self.offer_within(settings, PATIENCE)
    }

    fn offer_within(&self, settings: CompiledSettings<S>, patience: Duration) -> Result<(), String> {
        self.0.offers.try_ask(settings, patience).unwrap_or_else(|unanswered| {
            Err(match unanswered {
                Unanswered::Busy => "another reload is under way",
                Unanswered::NotTaken => "the controller does not answer",
                Unanswered::Late => "the controller is still at it, and may yet put its settings in force; try again",
                Unanswered::Dropped => "the controller has failed",
            }
            .into())
        })
    }

    /// The controller's side: puts in force what was offered, if anything was.
    pub fn apply(&self, install: impl FnOnce(&CompiledSettings<S>) -> Result<(), String>) {
        let Some((settings, reply)) = self.0.offers.take() else { return };
        let result = install(&settings);
        if result.is_ok() {
            self.begin(settings);
        }
        reply.answer(result);
    }
}

/// The same, of any application's controller.
pub trait AnyReloads: Send + Sync {
    /// See [`Reloads::begin`].
    fn begin(&self, settings: AnySettings);

    /// See [`Reloads::offer`].
    ///
    /// # Errors
    /// See there.
    fn offer(&self, settings: AnySettings) -> Result<(), String>;
}

impl<S: Send + Sync + 'static> AnyReloads for Reloads<S> {
    fn begin(&self, settings: AnySettings) {
        Reloads::begin(self, settings.typed());
    }

    fn offer(&self, settings: AnySettings) -> Result<(), String> {
        Reloads::offer(self, settings.typed())
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
    fn compiled(entries: usize) -> CompiledSettings<()> {
        CompiledSettings { entries: vec![(TableId(0), TableEntry::default()); entries], own: None }
    }

    #[test]
    fn what_is_offered_is_applied_once() {
        let (reloads, (send, receive)) = (Reloads::<()>::default(), channel());
        let controller = reloads.clone();
        reloads.apply(|_| panic!("nothing was offered"));
        let thread = thread::spawn(move || {
            for result in [Ok(()), Err("no room".to_owned())] {
                let mut done = false;
                while !done {
                    controller.apply(|compiled| {
                        done = true;
                        send.send(compiled.entries.len()).unwrap();
                        result.clone()
                    });
                    thread::sleep(Duration::from_millis(1));
                }
            }
        });
        assert_eq!(reloads.offer(compiled(1)), Ok(()));
        assert_eq!(reloads.offer(compiled(2)), Err("no room".into()));
        thread.join().unwrap();
        assert_eq!(receive.iter().collect::<Vec<_>>(), [1, 2]);
        // What was refused is not what it starts with.
        assert_eq!(reloads.begun().entries.len(), 1);
    }

    /// The controller is at an offer whose patience ends, and finishes it while the next one waits.
    #[test]
    fn an_answer_is_that_to_its_own_offer() {
        let reloads = Reloads::<()>::default();
        let ((taken, is_taken), (go_on, may_go_on)) = (channel(), channel());
        let controller = reloads.clone();
        let thread = thread::spawn(move || {
            let mut applied = Vec::new();
            while applied.len() < 2 {
                controller.apply(|compiled| {
                    applied.push(compiled.entries.len());
                    taken.send(()).unwrap();
                    if compiled.entries.len() == 1 {
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
            let offering = scope.spawn(|| reloads.offer_within(compiled(1), Duration::from_millis(50)));
            is_taken.recv().unwrap();
            offering.join().unwrap()
        });
        assert!(late.as_ref().is_err_and(|error| error.contains("still at it")), "{late:?}");
        let second = thread::scope(|scope| {
            let offering = scope.spawn(|| reloads.offer(compiled(2)));
            while !reloads.0.offers.is_asked() {
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
        let reloads = Reloads::<()>::default();
        let late = reloads.offer_within(compiled(1), Duration::from_millis(1));
        assert_eq!(late, Err("the controller does not answer".into()));
        reloads.apply(|_| panic!("it was taken back"));
    }

    #[test]
    fn a_controller_that_fails_at_it_is_an_answer() {
        let reloads = Reloads::<()>::default();
        reloads.begin(compiled(3));
        let controller = reloads.clone();
        let thread = thread::spawn(move || {
            let fails = || controller.apply(|_| panic!("it fails"));
            while catch_unwind(AssertUnwindSafe(fails)).is_ok() {
                thread::sleep(Duration::from_millis(1));
            }
            // It is not offered again.
            controller.apply(|_| unreachable!());
        });
        assert_eq!(reloads.offer(compiled(1)), Err("the controller has failed".into()));
        thread.join().unwrap();
        assert_eq!(reloads.begun().entries.len(), 3);
    }
}
