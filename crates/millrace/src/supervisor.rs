//! The service manager that started this process, if one did: it is told when the instance runs, goes round, and ends
//! (`sd_notify(3)`).

use std::time::{Duration, Instant};

use sd_notify::NotifyState;

/// Tells a service manager what it waits for.
pub struct Supervisor {
    /// How often it wants to hear that all is well.
    every: Option<Duration>,
    told: Instant,
    /// What it was told about the state.
    said: Option<String>,
}

impl Supervisor {
    /// The instance runs.
    pub fn ready() -> Self {
        tell(NotifyState::Ready);
        // Twice in the time that it waits, as sd_watchdog_enabled(3) recommends.
        let every = sd_notify::watchdog_enabled().map(|time| time / 2);
        Supervisor { every, told: Instant::now(), said: None }
    }

    /// To be called several times a second: it hears that all is well, if that is so.
    pub fn look(&mut self, is_well: impl FnOnce() -> bool) {
        if self.every.is_some_and(|every| self.told.elapsed() >= every) && is_well() {
            self.told = Instant::now();
            tell(NotifyState::Watchdog);
        }
    }

    /// It hears what is wrong, if anything is, whenever that changes.
    pub fn says(&mut self, wrong: &Option<String>) {
        if self.said != *wrong {
            self.said.clone_from(wrong);
            tell(NotifyState::Status(wrong.as_deref().unwrap_or("running")));
        }
    }

    /// The instance ends.
    pub fn stopping(&self) {
        tell(NotifyState::Stopping);
    }
}

/// A service manager that cannot be told acts by itself; packets do not wait for it.
fn tell(state: NotifyState) {
    if let Err(error) = sd_notify::notify(&[state]) {
        tracing::warn!("the service manager cannot be told: {error}");
    }
}
