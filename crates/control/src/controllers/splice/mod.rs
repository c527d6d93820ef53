//! The controller of `apps/splice`: what the fast path can't do for HTTP connections. docs/splice.md has the whole picture.
//!
//! | file | what |
//! |---|---|
//! | `settings`, `read` | the configuration, and how it is read |
//! | `http`, `host`, `looked`, `body` | heads, hosts, how far heads were read, and the ends of bodies |
//! | `assembly`, `segment`, `icmp` | reassembly, TCP segments in frames, errors about them |
//! | `fragments` | datagrams that come in fragments |
//! | `block` | the control blocks of the data path |
//! | `packed`, `ways` | the same as the program's tables have them |
//! | `cluster`, `checks` | servers: which one, whether it works |
//! | `neighbours`, `resolution` | who has their addresses; the frames that ask and answer that |
//! | `connection`, `turn`, `client`, `server` | one connection and what becomes of it |
//! | `isn` | the sequence numbers that connections to servers begin at |
//! | `acks` | what each side has acknowledged, and who is believed |
//! | `note`, `restore` | what blocks keep of connections; how another process takes them up |
//! | `idle` | connections between two requests |
//! | `reuse`, `warm` | connections to servers that outlast a client's use of them |
//! | `farewell` | connections that end with a response, and not the server's |
//! | `exchange`, `books`, `access_log` | a request and what became of it; what is counted; the log |
//! | `asked`, `sessions`, `admin` | what operators ask and say |
//! | `splicer`, `maps`, `path` | all connections; how they are found; what they need of the data path |
//! | `own` | own addresses in the program's tables, as long as anybody uses them |

mod access_log;
mod acks;
pub mod admin;
pub mod asked;
pub mod assembly;
pub mod block;
pub mod body;
pub mod books;
mod checks;
mod client;
pub mod cluster;
mod connection;
mod exchange;
mod farewell;
pub mod fragments;
mod host;
pub mod http;
pub mod icmp;
mod idle;
pub mod isn;
mod link;
pub mod live;
pub mod looked;
mod maps;
mod neighbours;
mod note;
pub mod own;
pub mod packed;
pub mod path;
mod read;
pub mod resolution;
mod restore;
mod reuse;
pub mod segment;
mod server;
pub mod sessions;
pub mod settings;
pub mod splicer;
mod times;
mod turn;
mod warm;
pub mod ways;

use std::sync::Arc;

use baker::ir::TableEntry;
use dataplane::controller::{Controller, Link};

pub use self::asked::OFFERS;
use self::settings::Settings;
use super::{Made, Queries, Reloads, Section};
use crate::config::document::Errors;

/// What the settings make.
pub(super) fn configure(section: &Section, errors: &mut Errors, _: &mut Errors) -> Made {
    let Some(settings) = read::settings(section.value, &section.path, section.ports, errors) else {
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
    /// control blocks.
    kept: Option<Box<link::Live>>,
}

impl Splice {
    /// With where configurations and questions come from.
    pub(super) fn new(reloads: Reloads, queries: Queries) -> Splice {
        Splice { reloads, queries, kept: None }
    }
}

impl Controller for Splice {
    fn run(&mut self, link: &mut Link) -> Result<(), String> {
        let mut live = link::begin(link, &self.reloads, self.kept.take())?;
        live.run(link, &self.reloads, &self.queries)?;
        self.kept = Some(live);
        Ok(())
    }
}
