//! The controller of `apps/splice`: what the data path can't do for HTTP connections. docs/splice.md has the whole picture.
//!
//! | part | what |
//! |---|---|
//! | `http`, `host`, `looked`, `body`, `refused` | heads, hosts, how far heads were read, and the ends of bodies |
//! | `flow_key`, `seq`, `assembly`, `segment`, `icmp`, `fragments`, `resolution`, `isn` | 4-tuples, sequence numbers, TCP segments, ICMP errors, fragments, ARP and neighbour discovery |
//! | `settings` | the configuration, and how it is read |
//! | `tables`, `data_path` | flow entries and next hops as the program's tables have them; what the splicer needs of the data path |
//! | `cluster` | servers: their choice, checks, Ethernet addresses, the idle pool |
//! | [`connection`] | one connection: a state machine that takes events and gives effects |
//! | `log` | the access log |
//! | `admin` | queries, sessions, metrics |
//! | [`splicer`] | all connections: maps, timers, effects carried out |
//! | `run` | the splicer on a running instance |
//!
//! Imports run one way, from the bottom of this table to its top. The splicer has the whole state; `admin` reads it, and keeps the metrics
//! that it counts.

pub mod admin;
pub mod assembly;
pub mod body;
pub mod cluster;
pub mod connection;
pub mod data_path;
pub mod flow_key;
pub mod fragments;
mod host;
pub mod http;
pub mod icmp;
pub mod isn;
mod keyed_map;
mod log;
pub mod looked;
mod refused;
pub mod resolution;
mod run;
pub mod segment;
pub mod seq;
pub mod settings;
pub mod splicer;
pub mod tables;

use std::sync::Arc;

use baker::ir::TableEntry;
use dataplane::controller::{Controller, Link};

pub use self::admin::queries::OFFERS;
use self::settings::Settings;
use super::{Made, Queries, Reloads, Section};
use crate::config::document::Errors;

/// What the settings make.
pub(super) fn configure(section: &Section, errors: &mut Errors, _: &mut Errors) -> Made {
    let Some(settings) = settings::read::settings(section.value, &section.path, section.ports, errors) else {
        return Made::default();
    };
    let mut made = Made::default();
    let mut add = |table: &str, key: Vec<u128>, value: Vec<u128>| {
        let entry = TableEntry { key, prefix_len: None, value };
        made.entries.extend(section.table(table).map(|table| (table, entry)));
    };
    let own = settings.own();
    for (port, mac) in own.macs {
        let mac = mac.iter().fold(0u128, |all, byte| all << 8 | u128::from(*byte));
        add("entry.macs", vec![port.into()], vec![mac]);
    }
    for (address, port) in own.addresses {
        add("entry.addresses", vec![u128::from(address)], vec![port.into()]);
    }
    for (state, seconds) in own.timeouts {
        add("spliced.timeouts", vec![state.into()], vec![seconds.into()]);
    }
    made.own = Some(Arc::new(settings));
    made
}

/// The settings of what a configuration made.
fn settings_of(made: &Made) -> Result<Arc<Settings>, String> {
    let settings = made.own.clone().and_then(|own| own.downcast().ok());
    settings.ok_or_else(|| "there is no [controllers.splice] in the configuration".into())
}

/// The controller.
pub struct Splice {
    reloads: Reloads,
    queries: Queries,
    /// All that it knows, while one program takes over from another. Where the controller fails it is lost, and taken up from the
    /// flow entries.
    kept: Option<Box<run::Live>>,
}

impl Splice {
    /// With where configurations and questions come from.
    pub(super) fn new(reloads: Reloads, queries: Queries) -> Splice {
        Splice { reloads, queries, kept: None }
    }
}

impl Controller for Splice {
    fn run(&mut self, link: &mut Link) -> Result<(), String> {
        let mut live = run::begin(link, &self.reloads, self.kept.take())?;
        live.run(link, &self.reloads, &self.queries)?;
        self.kept = Some(live);
        Ok(())
    }
}
