//! The splicer as an application: its controller, its settings, its queries.

use std::sync::Arc;

use baker::ir::TableEntry;
use control::application::{Application, CompiledSettings, Given, Offer, Section, SettingsUse};
use control::document::Errors;
use dataplane::controller::{Controller, Link};

use crate::settings::Settings;
use crate::{admin::queries, run, settings::read};

/// HTTP connections of `apps/splice`.
pub struct SpliceApplication;

impl Application for SpliceApplication {
    const NAME: &'static str = "splice";
    type Settings = Settings;
    const SETTINGS: SettingsUse = SettingsUse::Required;
    const QUERIES: &'static [Offer] = queries::OFFERS;
    const TELLS_FLOWS: bool = true;

    fn controller(&self, given: Given<Settings>) -> Box<dyn Controller> {
        Box::new(Splice { given, kept: None })
    }

    fn read(&self, section: &Section, errors: &mut Errors, _: &mut Errors) -> CompiledSettings<Settings> {
        let Some(settings) = read::settings(section.value, &section.path, section.ports, errors) else {
            return CompiledSettings::default();
        };
        let mut entries = Vec::new();
        let mut add = |table: &str, key: Vec<u128>, value: Vec<u128>| {
            let entry = TableEntry { key, prefix_len: None, value };
            entries.extend(section.table(table).map(|table| (table, entry)));
        };
        let own = settings.own();
        for (port, mac) in own.macs {
            let mac = mac.iter().fold(0u128, |all, byte| all << 8 | u128::from(*byte));
            add("entry.macs", vec![port.into()], vec![mac]);
        }
        for port in own.shared {
            add("entry.is_shared", vec![port.into()], vec![1]);
        }
        for (address, port) in own.addresses {
            add("entry.addresses", vec![u128::from(address)], vec![port.into()]);
        }
        for (state, seconds) in own.timeouts {
            add("spliced.timeouts", vec![state.into()], vec![seconds.into()]);
        }
        CompiledSettings { entries, own: Some(Arc::new(settings)) }
    }
}

/// The controller.
pub struct Splice {
    given: Given<Settings>,
    /// All that it knows, while one program takes over from another. Where the controller fails it is lost, and taken
    /// up from the flow entries.
    kept: Option<Box<run::Live>>,
}

impl Controller for Splice {
    fn run(&mut self, link: &mut Link) -> Result<(), String> {
        let mut live = run::begin(link, &self.given, self.kept.take())?;
        live.run(link, &self.given.reloads, &self.given.queries)?;
        self.kept = Some(live);
        Ok(())
    }
}
