//! The proxy as an application: its controller, its settings, its queries.

use std::sync::Arc;

use control::application::{Application, CompiledSettings, Given, Offer, Section, SettingsUse};
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
    const TELLS_FLOWS: bool = true;

    fn controller(&self, given: Given<Settings>) -> Box<dyn Controller> {
        Box::new(Media { given, server: None })
    }

    fn read(&self, section: &Section, errors: &mut Errors, _: &mut Errors) -> CompiledSettings<Settings> {
        let own = read::settings(section.value, &section.path, errors).map(Arc::new);
        CompiledSettings { entries: Vec::new(), own }
    }
}

/// The controller.
pub struct Media {
    given: Given<Settings>,
    /// All that it knows, while one program takes over from another. Where the controller fails it is lost, and made
    /// anew of the records.
    server: Option<Server>,
}

impl Controller for Media {
    fn run(&mut self, link: &mut Link) -> Result<(), String> {
        let Given { reloads, queries, kept, flows } = &self.given;
        let settings = reloads.begun().own.ok_or("there are no settings")?;
        let mut server = self.server.take().map_or_else(|| Server::new(settings, kept.clone(), flows.clone()), Ok)?;
        server.run(link, reloads, queries)?;
        self.server = Some(server);
        Ok(())
    }
}
