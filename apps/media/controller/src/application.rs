//! The proxy as an application: its controller, its settings, its queries.

use std::sync::Arc;

use control::application::{Application, CompiledSettings, Given, Kept, Offer, Queries, Reloads, Section, SettingsUse};
use control::document::Errors;
use dataplane::controller::{Controller, Link};

use crate::admin::queries;
use crate::run::Server;
use crate::settings::{Settings, read};

/// RTSP sessions of `apps/media`.
pub struct MediaApplication;

impl Application for MediaApplication {
    const NAME: &'static str = "media";
    type Settings = Settings;
    const SETTINGS: SettingsUse = SettingsUse::Required;
    const QUERIES: &'static [Offer] = queries::OFFERS;

    fn controller(&self, Given { reloads, queries, kept, .. }: Given<Settings>) -> Box<dyn Controller> {
        Box::new(Media { reloads, queries, kept, server: None })
    }

    fn read(&self, section: &Section, errors: &mut Errors, _: &mut Errors) -> CompiledSettings<Settings> {
        let own = read::settings(section.value, &section.path, errors).map(Arc::new);
        CompiledSettings { entries: Vec::new(), own }
    }
}

/// The controller.
pub struct Media {
    reloads: Reloads<Settings>,
    queries: Queries,
    /// Records of its sessions.
    kept: Kept,
    /// All that it knows, while one program takes over from another. Where the controller fails it is lost, and made
    /// anew of the records.
    server: Option<Server>,
}

impl Controller for Media {
    fn run(&mut self, link: &mut Link) -> Result<(), String> {
        let settings = self.reloads.begun().own.ok_or("there are no settings")?;
        let mut server = self.server.take().map_or_else(|| Server::new(settings, self.kept.clone()), Ok)?;
        server.run(link, &self.reloads, &self.queries)?;
        self.server = Some(server);
        Ok(())
    }
}
