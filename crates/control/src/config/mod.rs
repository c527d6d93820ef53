//! Configuration: one TOML file per instance, read against the program that it is for.
//!
//! ```toml
//! [frames]                             # optional
//! count = 8192
//! size = 2048                          # bytes
//! access = "in-place"                  # how workers get at packets: or "copy", "header-copy"
//! controllers = { splice = 2048 }      # frames that controllers may have; otherwise a fourth of all, evenly
//! [workers]                            # optional
//! count = 2
//! mode = "interrupt"                   # or "busy"
//! cpus = [0, 1]                        # pin each worker to one of these
//! ppfs = ["l2_bridge.spread", "arp"]   # keep these PPFs, or all of these modules, out of the kernel
//! [control]                            # optional
//! instance = "edge"                    # its name; otherwise that of the program
//! socket = "/run/edge.sock"            # otherwise where the name says
//! group = "netops"                     # whose members may use the socket too
//! [ports.p1]
//! number = 1                           # what rx.port and tx.port say; 1 to 255
//! device = "afpacket:eth0"             # or --port p1=afpacket:eth0 on the command line
//! host = "host1"                       # the port that takes this port's packets for the host
//! own = "program"                      # optional: who gets packets for its interface's own addresses, or "kernel"
//! access = "in-place"                  # optional: otherwise that of [frames]
//! mtu = 1500                           # optional: otherwise that of its interface, or 1500
//! [controllers.NAME]                   # optional: settings of a controller
//! [tables.MODULE.TABLE]                # array: INDEX = value; hash: "KEY" = value; lpm: "10.0.1.0/24" = value
//! ```
//!
//! | file | what it reads |
//! |---|---|
//! | `document` | TOML, with the place of every key |
//! | `ports` | `[ports]`, `[frames]`, `[workers]`, `[control]` |
//! | `tables` | `[tables]`: which entry goes into which table |
//! | `changes` | what is different in the tables of two configurations |
//! | `entry` | one entry of a table by itself, read and shown, for a running instance |
//! | `value` | one number in natural notation: addresses, names, port lists |

mod changes;
pub mod document;
mod entry;
mod error;
pub(crate) mod ports;
pub(crate) mod tables;
mod value;

use std::path::PathBuf;
use std::sync::Arc;

use baker::ir::{Pin, PpfId, Program, TableEntry, TableId, TableStore, USUAL_MTU};
use dataplane::ports::{Driver, Own, PortSpec};
use dataplane::{Access, FrameConfig, Options, PollMode, PortConfig};

pub use self::changes::{Changes, changes};
use self::document::{Errors, Path};
pub use self::entry::{EntryError, EntryFault, Key, Notation, text, typed};
pub use self::error::{ConfigError, FillError, PortSetupError};

pub(crate) use self::value::{address, literal};
use crate::application::{self, Made};
use crate::words::list;

/// A port of the instance.
#[derive(Clone, Debug)]
pub struct Port {
    /// Its name.
    pub name: String,
    /// Its number: what `rx.port` and `tx.port` say; never 0.
    pub number: u8,
    /// Its device, where the file gives one.
    pub device: Option<Driver>,
    /// Number of the port that takes the packets that came in here and that the program puts to `host`.
    pub host: Option<u8>,
    /// How workers get at its packets.
    pub access: Access,
    /// Who gets those for its interface's own addresses.
    pub own: Own,
    /// What it sends at most, in bytes behind the Ethernet header; otherwise what its interface does, or what Ethernet does.
    pub mtu: Option<u32>,
}

/// How the workers run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workers {
    /// How many there are.
    pub count: usize,
    /// What they do when no port has a packet.
    pub mode: PollMode,
    /// CPU of each; where empty, the first ones, or for a single worker any.
    pub cpus: Vec<usize>,
    /// PPFs that run on workers only, as with `@worker` in the program.
    pub ppfs: Vec<PpfId>,
}

/// How the instance is reached while it runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Control {
    /// Its name; that of the program where there is none.
    pub instance: Option<String>,
    /// Its socket; where the instance's name says if there is none.
    pub socket: Option<PathBuf>,
    /// Group whose members may use the socket as well as its owner.
    pub group: Option<String>,
}

/// The configuration of one instance.
#[derive(Clone, Debug)]
pub struct Config {
    /// Its ports, by number.
    pub ports: Vec<Port>,
    /// Entries of its tables, table by table.
    pub entries: Vec<(TableId, TableEntry)>,
    /// Entries that the settings of its controllers make, by their names.
    pub controllers: Vec<(String, Made)>,
    /// What is accepted but can hardly be meant.
    pub warnings: Vec<ConfigError>,
    /// Its frames.
    pub frames: FrameConfig,
    /// Those that controllers may have, by name, where that is said.
    pub controller_frames: Vec<(String, u32)>,
    /// Its workers.
    pub workers: Workers,
    /// How it is reached while it runs.
    pub control: Control,
}

impl Config {
    /// Reads a configuration for a program. Errors come in the order of the text, at most 100 of them.
    pub fn parse(file_name: &str, text: &str, program: &Program) -> Result<Config, Vec<ConfigError>> {
        let mut errors = Errors::new(file_name, text);
        let root = document::root(text, &mut errors);
        if !errors.is_empty() {
            return Err(errors.finish());
        }
        let path = Path::Root;
        document::only(&root, &path, &["frames", "workers", "control", "ports", "controllers", "tables"], &mut errors);
        if !errors.is_empty() {
            // What a section of a wrong name was to say would be missing elsewhere, such as the name of a port.
            return Err(errors.finish());
        }
        let ports::Frames { config: frames, access, controllers: controller_frames } =
            ports::frames(root.get("frames"), program, &mut errors);
        let workers = ports::workers(root.get("workers"), program, &mut errors);
        let control = ports::control(root.get("control"), &mut errors);
        let ports = ports::ports(root.get("ports"), access, &mut errors);
        let names = PortNames(ports.iter().map(|port| (port.name.clone(), port.number)).collect());
        let entries = match root.get("tables") {
            Some(value) => tables::read_whole(program, &names, value, &path.key("tables"), &mut errors),
            None => Vec::new(),
        };
        let mut warnings = Errors::new(file_name, text);
        let controllers = root.get("controllers").map_or_else(Vec::new, |value| {
            controllers::configure(program, &names, text, value, &mut errors, &mut warnings)
        });
        if !errors.is_empty() {
            return Err(errors.finish());
        }
        let warnings = warnings.finish();
        Ok(Config { ports, entries, controllers, warnings, frames, controller_frames, workers, control })
    }

    /// The program with the PPFs pinned that are to stay on workers.
    pub fn pinned(&self, mut program: Arc<Program>) -> Arc<Program> {
        if !self.workers.ppfs.is_empty() {
            let own = Arc::make_mut(&mut program);
            self.workers.ppfs.iter().for_each(|ppf| own.ppfs[ppf.0 as usize].pin = Some(Pin::Worker));
        }
        program
    }

    /// Puts all entries into the tables of an engine: first those of the controllers, then those that are given. Of ports the
    /// program knows what the configuration says; an instance knows more of its interfaces.
    pub fn fill<S: TableStore + ?Sized>(&self, program: &Program, store: &mut S) -> Result<(), FillError> {
        self.controllers.iter().try_for_each(|(_, made)| fill(program, &made.entries, store))?;
        fill(program, &self.entries, store)?;
        fill(program, &self.port_entries(program), store)
    }

    /// What the program may ask of ports.
    pub(crate) fn port_entries(&self, program: &Program) -> Vec<(TableId, TableEntry)> {
        let Some(table) = program.port_mtus() else { return Vec::new() };
        let mtu = |port: &Port| u128::from(port.mtu.unwrap_or(USUAL_MTU));
        let entry =
            |port: &Port| TableEntry { key: vec![port.number.into()], prefix_len: None, value: vec![mtu(port)] };
        self.ports.iter().map(|port| (table, entry(port))).collect()
    }

    /// Its entries by the names of their tables, for [`changes`].
    pub fn configured(&self, program: &Program) -> Vec<(String, TableEntry)> {
        let named =
            |(table, entry): &(TableId, TableEntry)| (program.tables[table.0 as usize].name.clone(), entry.clone());
        self.entries.iter().map(named).collect()
    }

    /// The ports as the data plane opens them: devices of the command line (`--port`) come before those of the file.
    pub fn port_configs(&self, devices: &[PortSpec]) -> Result<Vec<PortConfig>, Vec<PortSetupError>> {
        let mut errors = Vec::new();
        for (index, spec) in devices.iter().enumerate() {
            let name = spec.name.clone();
            if !self.ports.iter().any(|port| port.name == name) {
                let known = list(self.ports.iter().map(|port| port.name.as_str()));
                errors.push(PortSetupError::Unknown { name, known });
            } else if devices[..index].iter().any(|other| other.name == name) {
                errors.push(PortSetupError::Twice { name });
            }
        }
        let mut ports = Vec::new();
        for Port { name, number, device, host, access, own, mtu } in &self.ports {
            let given = devices.iter().find(|spec| spec.name == *name).map(|spec| &spec.driver);
            match given.or(device.as_ref()) {
                Some(driver) => {
                    let spec = PortSpec { name: name.clone(), driver: driver.clone() };
                    let (number, host, access, own, mtu) = (*number, *host, *access, *own, *mtu);
                    ports.push(PortConfig { spec, number, host, access, own, mtu });
                }
                None => errors.push(PortSetupError::NoDevice { name: name.clone() }),
            }
        }
        if errors.is_empty() { Ok(ports) } else { Err(errors) }
    }

    /// How the data plane runs the program, with its own choice of engine.
    pub fn options(&self) -> Options {
        Options {
            frames: self.frames,
            controller_frames: self.controller_frames.clone(),
            poll: self.workers.mode,
            workers: self.workers.count,
            cpus: self.workers.cpus.clone(),
            ..Options::default()
        }
    }

    /// The ports' names and numbers.
    pub fn port_names(&self) -> PortNames {
        PortNames(self.ports.iter().map(|port| (port.name.clone(), port.number)).collect())
    }
}

/// Puts entries into the tables of an engine.
pub(crate) fn fill<S: TableStore + ?Sized>(
    program: &Program,
    entries: &[(TableId, TableEntry)],
    store: &mut S,
) -> Result<(), FillError> {
    for same in entries.chunk_by(|(one, _), (other, _)| one == other) {
        let id = same[0].0;
        store.insert_all(id, &mut same.iter().map(|(_, entry)| entry)).map_err(|error| {
            let table = &program.tables[id.0 as usize];
            FillError { table: table.name.clone(), capacity: table.capacity, error }
        })?;
    }
    Ok(())
}

/// Names and numbers of ports: a number may be written as the name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortNames(Vec<(String, u8)>);

impl PortNames {
    /// The names of an instance's ports.
    pub fn new(ports: &[PortConfig]) -> Self {
        PortNames(ports.iter().map(|port| (port.spec.name.clone(), port.number)).collect())
    }

    /// The number of a port.
    pub fn number(&self, name: &str) -> Option<u8> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, number)| *number)
    }

    /// The name of a port.
    pub fn name(&self, number: u8) -> Option<&str> {
        self.0.iter().find(|(_, known)| *known == number).map(|(name, _)| name.as_str())
    }

    /// All names, by number.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| name.as_str())
    }
}
