//! New settings on their way to a running controller.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

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
    /// What the configuration made at the start.
    first: Mutex<Option<Made>>,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Idle,
    Offered(Box<Made>),
    Done(Result<(), String>),
}

impl Reloads {
    /// Says, before the controller runs, what the settings make that it starts with.
    pub fn begin(&self, made: Made) {
        *self.0.first.lock().unwrap_or_else(PoisonError::into_inner) = Some(made);
    }

    /// The controller's side: what it starts with.
    pub fn begun(&self) -> Option<Made> {
        self.0.first.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Offers what new settings make, and waits until the controller has put it in force. One at a time: who offers meanwhile
    /// is told so.
    pub fn offer(&self, made: Made) -> Result<(), String> {
        let mut state = self.lock();
        if !matches!(*state, State::Idle) {
            return Err("another reload is under way".into());
        }
        *state = State::Offered(Box::new(made));
        let waiting = |state: &mut State| !matches!(state, State::Done(_));
        let waited = self.0.changed.wait_timeout_while(state, PATIENCE, waiting);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        match std::mem::take(&mut *state) {
            State::Done(result) => result,
            State::Idle | State::Offered(_) => Err("the controller does not answer".into()),
        }
    }

    /// The controller's side: puts in force what was offered, if anything was.
    pub fn apply(&self, install: impl FnOnce(&Made) -> Result<(), String>) {
        let made = match &mut *self.lock() {
            State::Offered(made) => std::mem::take(made),
            State::Idle | State::Done(_) => return,
        };
        let result = install(&made);
        let mut state = self.lock();
        // Who offered it may have lost patience.
        if matches!(*state, State::Offered(_)) {
            *state = State::Done(result);
            self.0.changed.notify_all();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::thread;

    use super::*;

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
        assert_eq!(reloads.offer(Made::default()), Ok(()));
        assert_eq!(reloads.offer(Made::default()), Err("no room".into()));
        thread.join().unwrap();
        assert_eq!(receive.iter().collect::<Vec<_>>(), [0, 0]);
    }
}
