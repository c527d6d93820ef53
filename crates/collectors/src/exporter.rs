//! An instance's agent, where it has one.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What sends to collectors until it is dropped.
pub trait Agent: Sized {
    /// What the configuration says.
    type Settings: Clone + PartialEq;
    /// Where what is sent comes from.
    type Source;
    /// What it has done.
    type State;

    /// Starts one.
    ///
    /// # Errors
    /// There is no thread, or no socket.
    fn start(settings: Self::Settings, source: &Self::Source) -> io::Result<Self>;

    /// What it was started with.
    fn settings(&self) -> &Self::Settings;

    /// What it has done.
    fn state(&self) -> Self::State;
}

/// See the module.
#[derive(Debug)]
pub struct Exporter<A: Agent> {
    source: A::Source,
    agent: Mutex<Option<A>>,
}

impl<A: Agent> Exporter<A> {
    /// Of an instance that sends nothing yet.
    pub fn new(source: A::Source) -> Self {
        Exporter { source, agent: Mutex::new(None) }
    }

    fn lock(&self) -> MutexGuard<'_, Option<A>> {
        self.agent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends what settings say from now on; none: nothing. Whether that is something else than before.
    ///
    /// # Errors
    /// There is no thread, or no socket; nothing is sent then.
    pub fn put(&self, settings: Option<A::Settings>) -> io::Result<bool> {
        let mut agent = self.lock();
        if agent.as_ref().map(Agent::settings) == settings.as_ref() {
            return Ok(false);
        }
        // It ends before another one begins.
        drop(agent.take());
        *agent = settings.map(|settings| A::start(settings, &self.source)).transpose()?;
        Ok(true)
    }

    /// What the agent, where there is one, was started with and has done.
    pub fn state(&self) -> Option<(A::Settings, A::State)> {
        self.lock().as_ref().map(|agent| (agent.settings().clone(), agent.state()))
    }

    /// Sends nothing more.
    pub fn stop(&self) {
        drop(self.lock().take());
    }
}
