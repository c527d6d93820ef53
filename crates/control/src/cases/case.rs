//! What a case file says.

use std::ops::Range;
use std::path::PathBuf;

use baker::ir::{ChannelId, ControllerId, CounterId, DropId, Program, TableEntry, TableId};

use crate::application::AnySettings;
use crate::config::Config;
use crate::entries::PortNames;

/// A packet test.
#[derive(Clone, Debug)]
pub struct Case {
    /// Its file.
    pub file: PathBuf,
    /// The file's text.
    pub text: String,
    /// What it shows, in one sentence.
    pub description: String,
    /// Entries that the settings of controllers make: those of the case if it has any, else those of the configuration.
    pub controllers: Vec<(String, AnySettings)>,
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
    /// What cells of the program's counters must have at the end.
    pub counters: Vec<(CounterId, u32, u64)>,
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
    /// Where the parts stand in the file's text.
    pub places: Places,
}

/// Bytes of a case file's text in which the parts of a step stand.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places {
    /// What is behind `in =` or `wait =`.
    pub enters: Range<usize>,
    /// What is behind `out =`, where there is one.
    pub out: Option<Range<usize>>,
    /// Each packet in it.
    pub packets: Vec<Range<usize>>,
    /// What is behind `drops =`, where there is one.
    pub drops: Option<Range<usize>>,
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
    pub(super) fn show(self, program: &Program, ports: &PortNames) -> String {
        match self {
            To::Controller(id) => format!("controller {}", program.controllers[id.0 as usize].name),
            To::Host => "host".into(),
            To::Port(number) => ports.name(number).map_or(format!("port {number} (there is none)"), str::to_owned),
        }
    }
}

impl Case {
    /// Its file's name without `.toml`.
    pub fn name(&self) -> String {
        self.file.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
    }

    /// A case over a configuration.
    pub(super) fn new(file: PathBuf, text: String, mut config: Config, program: &Program) -> Self {
        let ports = config.port_names();
        config.entries.extend(config.port_entries(program));
        Case {
            file,
            text,
            description: String::new(),
            controllers: config.controllers,
            entries: config.entries,
            ports,
            externs: Vec::new(),
            steps: Vec::new(),
            after: Vec::new(),
            sizes: Vec::new(),
            counters: Vec::new(),
        }
    }
}
