//! Packet tests as data: `apps/NAME/cases/*.toml`.
//!
//! ```toml
//! description = "a packet for the other subnet is routed"
//! config = "../l3switch.toml"                 # optional; this is the default, with the program's name
//! [controllers.firewall]                      # optional: settings of controllers, in place of the configuration's
//! rules = []
//! [ports.p3]                                  # optional: otherwise that of the configuration
//! mtu = 1400
//! [tables.l3_forward.neighbours]              # optional: more entries, or other values, than the configuration's
//! "10.0.2.13" = { mac = "02:00:00:00:00:13", heard = 0 }
//! [define]                                    # optional: names for packets, layers and values
//! h3 = "02:00:00:00:00:13"
//! [externs.balance]                           # what functions of controllers give
//! pick_server = 3
//! [[step]]                                    # in order, on one running program
//! note = "…"                                  # optional
//! in = { port = "p1", packet = "ether(dst=…)/…" }
//! out = [{ port = "p3", packet = "…" }]       # in order; "host" for the host; nothing where it is left out
//! [[step]]                                    # a controller injects a packet
//! in = { port = "controller arp -> l3_switch.input", packet = "…", metadata = { "tx.port" = 3 } }
//! out = [{ port = "controller arp", packet = "…" }]   # and one is handed to it
//! [[step]]
//! wait = "30s"                                # time goes on, and timers run; it stands still otherwise
//! drops = { no_route = 1 }                    # packets dropped in this step, by reason; none where it is left out
//! [after.tables.l3_forward.neighbours]        # optional: entries that must be there at the end
//! "10.0.1.11" = { mac = "02:00:00:00:00:11", heard = 1 }
//! [after.entries]                             # optional: how many entries tables must have at the end
//! l3_forward.neighbours = 1                   # of an array, those count that are not all zero
//! ```
//!
//! Paths are relative to the case file; packets are written as [`crate::packet`] says.

mod load;
mod run;
mod step;

use std::path::PathBuf;

use baker::ir::{ChannelId, ControllerId, DropId, Program, TableEntry, TableId};

use crate::application::Made;
use crate::config::{Config, PortNames};
pub use load::{LoadError, files, load};
pub use run::{CaseFailure, run, run_with};

/// A packet test.
#[derive(Clone, Debug)]
pub struct Case {
    /// Its file.
    pub file: PathBuf,
    /// What it shows, in one sentence.
    pub description: String,
    /// Entries that the settings of controllers make: those of the case if it has any, else those of the configuration.
    pub controllers: Vec<(String, Made)>,
    /// Entries of the configuration, what its ports send at most, then entries of the case.
    pub entries: Vec<(TableId, TableEntry)>,
    /// Names of the configuration's ports.
    pub ports: PortNames,
    /// What functions of controllers give, by name.
    pub externs: Vec<(String, u64)>,
    /// Packets in and out, in order.
    pub steps: Vec<Step>,
    /// Entries that must be in the tables at the end.
    pub after: Vec<(TableId, TableEntry)>,
    /// Number of entries that tables must have at the end; of an array, those count that are not all zero.
    pub sizes: Vec<(TableId, usize)>,
}

/// One packet in, or a pause, and what must come of it.
#[derive(Clone, Debug)]
pub struct Step {
    /// Line of the file where it stands.
    pub line: usize,
    /// What it shows; may be empty.
    pub note: String,
    /// What enters.
    pub enters: Enters,
    /// Packets that leave the program, in order.
    pub outputs: Vec<Leaving>,
    /// Packets that it drops, by reason; the other reasons stay as they are.
    pub drops: Vec<(DropId, u64)>,
}

/// What enters the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Enters {
    /// A packet at a port.
    Received {
        /// Number of the port.
        port: u8,
        /// Its bytes.
        packet: Vec<u8>,
    },
    /// A packet of a controller.
    Injected {
        /// The channel from the controller.
        channel: ChannelId,
        /// Its bytes.
        packet: Vec<u8>,
        /// One number per field of the metadata; those left out are 0.
        metadata: Vec<u128>,
    },
    /// Nothing for so many nanoseconds.
    Wait(u64),
}

/// A packet that leaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaving {
    /// Where to.
    pub to: To,
    /// Its bytes.
    pub packet: Vec<u8>,
}

/// Where a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum To {
    /// Out of the port of this number.
    Port(u8),
    /// To the host.
    Host,
    /// To a controller.
    Controller(ControllerId),
}

impl To {
    /// Its name in a case file.
    fn show(self, program: &Program, ports: &PortNames) -> String {
        match self {
            To::Controller(id) => format!("controller {}", program.controllers[id.0 as usize].name),
            To::Host => "host".into(),
            To::Port(number) => ports.name(number).map_or(format!("port {number} (there is none)"), str::to_owned),
        }
    }
}

impl Case {
    /// A case over a configuration.
    fn new(file: PathBuf, mut config: Config, program: &Program) -> Self {
        let ports = config.port_names();
        config.entries.extend(config.port_entries(program));
        Case {
            file,
            description: String::new(),
            controllers: config.controllers,
            entries: config.entries,
            ports,
            externs: Vec::new(),
            steps: Vec::new(),
            after: Vec::new(),
            sizes: Vec::new(),
        }
    }
}
