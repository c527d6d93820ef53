//! The proxy as an application: its controller, its settings, its queries.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use control::application::{Application, CompiledSettings, Given, Kept, Offer, Queries, Reloads, Section, SettingsUse};
use control::document::Errors;
use dataplane::controller::{Controller, Link, NamedTables};

use crate::admin::queries;
use crate::run::Server;
use crate::settings::{Settings, read};

/// HTTP connections of `apps/translate`.
pub struct TranslateApplication;

impl Application for TranslateApplication {
    const NAME: &'static str = "translate";
    type Settings = Settings;
    const SETTINGS: SettingsUse = SettingsUse::Required;
    const QUERIES: &'static [Offer] = queries::OFFERS;

    fn controller(&self, Given { reloads, queries, kept, .. }: Given<Settings>) -> Box<dyn Controller> {
        Box::new(Translate { reloads, queries, kept, server: None, has_run: false })
    }

    fn read(&self, section: &Section, errors: &mut Errors, _: &mut Errors) -> CompiledSettings<Settings> {
        let own = read::settings(section.value, &section.path, errors).map(Arc::new);
        CompiledSettings { entries: Vec::new(), own }
    }

    /// Counts the process where tables of another one are there again: nobody holds the locks that it held. That is
    /// before packets pass, and not again when programs take over from each other.
    fn install(&self, tables: &NamedTables, _: &CompiledSettings<Settings>) -> Result<(), String> {
        if IS_COUNTED.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        let mut processes = tables.table::<u32, u32>("locks.process").map_err(|error| error.to_string())?;
        let before = processes.get(&0).unwrap_or_default();
        processes.set(&0, &before.wrapping_add(1)).map_err(|error| format!("table locks.process: {error}"))
    }
}

/// Whether this process is counted in `locks.process`, or is the first one with its tables.
static IS_COUNTED: AtomicBool = AtomicBool::new(false);

/// The controller.
pub struct Translate {
    reloads: Reloads<Settings>,
    queries: Queries,
    kept: Kept,
    has_run: bool,
    /// All that it knows, while one program takes over from another.
    server: Option<Server>,
}

impl Controller for Translate {
    fn run(&mut self, link: &mut Link) -> Result<(), String> {
        IS_COUNTED.store(true, Ordering::Relaxed);
        let settings = self.reloads.begun().own.ok_or("there are no settings")?;
        let is_again = std::mem::replace(&mut self.has_run, true);
        let new = || Server::new(settings, self.kept.clone(), is_again);
        let mut server = self.server.take().map_or_else(new, Ok)?;
        server.run(link, &self.reloads, &self.queries)?;
        self.server = Some(server);
        Ok(())
    }
}
