//! The thread of an agent: it does the same again and again, until it is dropped.

use std::io;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// See the module.
#[derive(Debug)]
pub struct Rounds {
    /// Nothing is sent: its end is what is noticed.
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Rounds {
    /// Calls `round` so often, and once more at the end, which is then said: on a thread that gives way to workers.
    pub fn start(named: &str, every: Duration, mut round: impl FnMut(bool) + Send + 'static) -> io::Result<Rounds> {
        let (stop, stopped) = channel::<()>();
        let run = move || {
            dataplane::give_way();
            while stopped.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
                round(false);
            }
            round(true);
        };
        let thread = thread::Builder::new().name(named.into()).spawn(run)?;
        Ok(Rounds { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Rounds {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // One that has panicked has said so.
            let _ = thread.join();
        }
    }
}
