//! What an instance runs now, and how something else takes its place.

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use super::overview::Overview;
use super::protocol::{Code, Refusal, Reloaded};
use super::shown::Shown;

/// Reads program and configuration again and puts them in force, or says why not. With what is shown from then on, if
/// that changes.
pub type Reload = Box<dyn Fn() -> Result<(Reloaded, Option<Arc<Shown>>), String> + Send + Sync>;

/// Has the program measure how long packets are in its PPFs, or not any more, or says why not. With what is shown from
/// then on.
pub type Time = Box<dyn Fn(bool) -> Result<Arc<Shown>, String> + Send + Sync>;

/// What runs, and who can change it.
pub(super) struct Running {
    overview: Arc<Overview>,
    shown: RwLock<Arc<Shown>>,
    reload: Reload,
    time: Time,
}

impl std::fmt::Debug for Running {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Running").finish_non_exhaustive()
    }
}

impl Running {
    /// Of an instance that just started.
    pub fn new(overview: Arc<Overview>, reload: Reload, time: Time) -> Running {
        let shown = RwLock::new(overview.shown());
        Running { overview, shown, reload, time }
    }

    /// What runs now. A query waits while another program takes over.
    pub fn shown(&self) -> RwLockReadGuard<'_, Arc<Shown>> {
        self.shown.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// See [`Reload`].
    pub fn reload(&self) -> Result<Reloaded, Refusal> {
        self.change(|| (self.reload)()).map_err(|message| Refusal { code: Code::BadConfiguration, message })
    }

    /// See [`Time`].
    pub fn time(&self, timed: bool) -> Result<(), String> {
        self.change(|| (self.time)(timed).map(|shown| ((), Some(shown))))
    }

    fn change<T>(&self, change: impl FnOnce() -> Result<(T, Option<Arc<Shown>>), String>) -> Result<T, String> {
        let mut shown = self.shown.write().unwrap_or_else(PoisonError::into_inner);
        let (result, next) = change()?;
        *shown = next.unwrap_or_else(|| shown.clone());
        self.overview.show(shown.clone());
        Ok(result)
    }
}
