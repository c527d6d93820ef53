//! The agent of an instance, where it has one.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use dataplane::Observer;

use crate::agent::{Agent, State};
use crate::settings::Settings;

/// See the module.
#[derive(Debug)]
pub struct Exporter {
    observer: Observer,
    agent: Mutex<Option<Agent>>,
}

impl Exporter {
    /// Of an instance that sends nothing yet.
    pub fn new(observer: Observer) -> Exporter {
        Exporter { observer, agent: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Agent>> {
        self.agent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends what settings say from now on; none: nothing. Whether that is something else than before.
    ///
    /// # Errors
    /// There is no thread, or no socket; nothing is sent then.
    pub fn put(&self, settings: Option<Settings>) -> io::Result<bool> {
        let mut agent = self.lock();
        if agent.as_ref().map(Agent::settings) == settings.as_ref() {
            return Ok(false);
        }
        // It ends before another one samples.
        drop(agent.take());
        *agent = settings.map(|settings| Agent::start(settings, &self.observer)).transpose()?;
        Ok(true)
    }

    /// What the agent has done, where there is one.
    pub fn state(&self) -> Option<State> {
        self.lock().as_ref().map(Agent::state)
    }

    /// Sends nothing more.
    pub fn stop(&self) {
        drop(self.lock().take());
    }
}
