//! Work that is done again and again, aside of the workers.

use std::io;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// A thread that does something from time to time for as long as this is there. Dropping it waits for its end.
#[derive(Debug)]
pub struct Repeated {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Repeated {
    /// Starts it, in the caller's network namespace. The first time is after one pause.
    pub fn start(name: &str, pause: Duration, mut work: impl FnMut() + Send + 'static) -> io::Result<Repeated> {
        let (stop, stopped) = channel::<()>();
        let thread = std::thread::Builder::new().name(name.into()).spawn(move || {
            while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(pause) {
                work();
            }
        })?;
        Ok(Repeated { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Repeated {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // It has nothing to say.
            let _ = thread.join();
        }
    }
}
