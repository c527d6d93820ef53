//! A platform's parameters, read from `platforms/NAME.toml` and checked.

use include_dir::{Dir, include_dir};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use toml::Spanned;

use crate::bus::HostBus;

static BUILT_IN: Dir = include_dir!("$CARGO_MANIFEST_DIR/../../platforms");

/// What is wrong with a platform, or that there is no such one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlatformError {
    /// No such platform comes with Millrace.
    #[error("there is no platform {name}\n  platforms: {}; or a file, NAME.toml", known.join(", "))]
    Unknown {
        /// What was asked for.
        name: String,
        /// Those that there are.
        known: Vec<String>,
    },
    /// A file that can't be taken.
    #[error("{file}:{line}: {message}")]
    Wrong {
        /// The file's name.
        file: String,
        /// The line, from 1.
        line: usize,
        /// What is wrong; names the key.
        message: String,
    },
}

/// A number, and where it comes from.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parameter {
    value: Spanned<f64>,
    source: String,
    #[serde(default = "yes")]
    verified: bool,
}

fn yes() -> bool {
    true
}

impl Parameter {
    /// The number.
    pub fn get(&self) -> f64 {
        *self.value.get_ref()
    }

    /// A number that was checked to be whole.
    pub fn whole(&self) -> u32 {
        self.get() as u32
    }

    /// Where it comes from.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Whether a readable source of the processor's own says it.
    pub fn verified(&self) -> bool {
        self.verified
    }

    /// Another number in its place, such as in a sweep.
    pub fn set(&mut self, value: f64) {
        *self.value.get_mut() = value;
    }
}

/// The engines.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Engines {
    /// Clock, in hertz.
    pub clock_hz: Parameter,
    /// How many there are, with those that receive and send.
    pub count: Parameter,
    /// Threads of each.
    pub threads: Parameter,
    /// Instructions that an engine holds.
    pub code_store: Parameter,
    /// Cycles of a switch to another thread.
    pub swap: Parameter,
}

/// A memory behind the engines, shared by all.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemoryParameters {
    /// Engine cycles from a command to its end where nothing else is under way.
    pub latency: Parameter,
    /// Commands per second.
    pub commands: Parameter,
    /// Bytes per second.
    pub bandwidth: Parameter,
    /// Bytes that it moves at least, and to whose multiples accesses are widened.
    pub unit: Parameter,
    /// Bytes of one command at most.
    pub burst: Parameter,
    /// Whether part of a unit can be written; 0 or 1. Otherwise the unit is read first.
    pub masked_writes: Parameter,
    /// Whether reading and writing have ports of their own, each of that bandwidth; 0 or 1.
    pub duplex: Parameter,
}

/// The memories.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Memories {
    /// Packets.
    pub dram: MemoryParameters,
    /// Descriptors, tables.
    pub sram: MemoryParameters,
    /// Rings, the hash unit.
    pub scratch: MemoryParameters,
}

/// Rings between stages.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rings {
    /// Packets at most.
    pub capacity: Parameter,
}

/// A stage in front of the program or behind it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Edge {
    /// Engines that do it.
    pub engines: Parameter,
    /// Instructions per packet, without those that issue its memory accesses.
    pub instructions: Parameter,
}

/// How packet memory is accessed.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PacketAccess {
    /// Bytes that an access moves at least where its alignment is not known.
    pub base_bytes: Parameter,
}

/// A memory, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Memory {
    /// Packets.
    Dram,
    /// Descriptors, tables.
    Sram,
    /// Rings.
    Scratch,
}

impl Memory {
    /// All, in the order of reports.
    pub const ALL: [Memory; 3] = [Memory::Dram, Memory::Sram, Memory::Scratch];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Memory::Dram => "dram",
            Memory::Sram => "sram",
            Memory::Scratch => "scratch",
        }
    }
}

/// What lies where.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Places {
    /// Packet descriptors with their metadata.
    pub descriptors: Memory,
    /// Tables.
    pub tables: Memory,
    /// The program's counters.
    pub counters: Memory,
}

/// The trie of longest prefix matches.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lpm {
    /// Bits of the first step.
    pub first: Parameter,
    /// Bits of each further one.
    pub next: Parameter,
}

/// A processor.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Platform {
    /// Its name on the command line.
    pub name: String,
    /// Its name for people.
    pub title: String,
    /// The engines.
    pub engines: Engines,
    /// The memories.
    pub memory: Memories,
    /// Rings between stages.
    pub rings: Rings,
    /// The receiving stage.
    pub receive: Edge,
    /// The sending stage.
    pub transmit: Edge,
    /// Accesses to packet memory.
    pub access: PacketAccess,
    /// What lies where.
    pub place: Places,
    /// Longest prefix match.
    pub lpm: Lpm,
}

/// What a parameter may be: its key, itself, the least, the greatest, and whether it is a whole number.
pub(crate) type Rule<'a> = (String, &'a Parameter, f64, f64, bool);

/// A platform of any kind.
pub enum AnyPlatform {
    /// A network processor.
    Processor(Box<Platform>),
    /// A host-based router.
    HostBus(Box<HostBus>),
}

/// Names of the platforms that come with Millrace.
pub fn known() -> Vec<String> {
    let stem = |file: &include_dir::File| Some(file.path().file_stem()?.to_str()?.to_owned());
    let mut names: Vec<String> = BUILT_IN.files().filter_map(stem).collect();
    names.sort();
    names
}

/// A platform that comes with Millrace.
pub fn built_in(name: &str) -> Result<AnyPlatform, PlatformError> {
    let file = format!("{name}.toml");
    match BUILT_IN.get_file(&file).and_then(include_dir::File::contents_utf8) {
        Some(text) => AnyPlatform::parse(&format!("platforms/{file}"), text),
        None => Err(PlatformError::Unknown { name: name.to_owned(), known: known() }),
    }
}

#[cfg(test)]
pub(crate) fn text_of(name: &str) -> String {
    BUILT_IN.get_file(format!("{name}.toml")).unwrap().contents_utf8().unwrap().to_owned()
}

impl AnyPlatform {
    /// Reads a platform file; `file` is its name in messages. What has a bus of its own is a router.
    pub fn parse(file: &str, text: &str) -> Result<AnyPlatform, PlatformError> {
        if toml::from_str::<toml::Table>(text).is_ok_and(|table| table.contains_key("bus")) {
            return HostBus::parse(file, text).map(|platform| AnyPlatform::HostBus(Box::new(platform)));
        }
        Platform::parse(file, text).map(|platform| AnyPlatform::Processor(Box::new(platform)))
    }
}

/// Says what is wrong at a place of a file.
fn wrong(file: &str, text: &str, at: usize, message: String) -> PlatformError {
    let line = text.get(..at).map_or(0, |before| before.matches('\n').count()) + 1;
    PlatformError::Wrong { file: file.to_owned(), line, message }
}

/// Reads a platform file of one kind.
pub(crate) fn read<T: DeserializeOwned>(file: &str, text: &str) -> Result<T, PlatformError> {
    toml::from_str(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        let section = section(text, at);
        let message = error.message();
        wrong(file, text, at, if section.is_empty() { message.into() } else { format!("{section}: {message}") })
    })
}

/// Checks the parameters of a file.
pub(crate) fn check(file: &str, text: &str, rules: Vec<Rule>) -> Result<(), PlatformError> {
    for (key, parameter, least, greatest, whole) in rules {
        let value = parameter.get();
        let wrong = |message| Err(wrong(file, text, parameter.value.span().start, message));
        if !(least..=greatest).contains(&value) {
            return wrong(format!("{key}: {value} is not from {least} to {greatest}"));
        }
        if whole && value.fract() != 0.0 {
            return wrong(format!("{key}: {value} is not a whole number"));
        }
        if parameter.source.trim().is_empty() {
            return wrong(format!("{key}: `source` does not say where the value comes from"));
        }
    }
    Ok(())
}

impl Platform {
    /// A network processor that comes with Millrace.
    pub fn built_in(name: &str) -> Result<Platform, PlatformError> {
        match built_in(name)? {
            AnyPlatform::Processor(platform) => Ok(*platform),
            AnyPlatform::HostBus(_) => Err(PlatformError::Unknown { name: name.to_owned(), known: known() }),
        }
    }

    /// Reads a platform file; `file` is its name in messages.
    pub fn parse(file: &str, text: &str) -> Result<Platform, PlatformError> {
        let platform: Platform = read(file, text)?;
        check(file, text, platform.rules())?;
        let edges = platform.receive.engines.whole() + platform.transmit.engines.whole();
        if edges >= platform.engines.count.whole() {
            let at = platform.engines.count.value.span().start;
            let message = format!("engines.count: {edges} receive and send, so none is left for the program");
            return Err(wrong(file, text, at, message));
        }
        Ok(platform)
    }

    fn rules(&self) -> Vec<Rule<'_>> {
        let mut rules: Vec<Rule> = vec![
            ("engines.clock_hz".into(), &self.engines.clock_hz, 1e6, 1e10, false),
            ("engines.count".into(), &self.engines.count, 3.0, 256.0, true),
            ("engines.threads".into(), &self.engines.threads, 1.0, 32.0, true),
            ("engines.code_store".into(), &self.engines.code_store, 256.0, 1e6, true),
            ("engines.swap".into(), &self.engines.swap, 0.0, 1000.0, true),
            ("rings.capacity".into(), &self.rings.capacity, 1.0, 65536.0, true),
            ("receive.engines".into(), &self.receive.engines, 1.0, 64.0, true),
            ("receive.instructions".into(), &self.receive.instructions, 0.0, 1e5, true),
            ("transmit.engines".into(), &self.transmit.engines, 1.0, 64.0, true),
            ("transmit.instructions".into(), &self.transmit.instructions, 0.0, 1e5, true),
            ("access.base_bytes".into(), &self.access.base_bytes, 1.0, 64.0, true),
            ("lpm.first".into(), &self.lpm.first, 1.0, 24.0, true),
            ("lpm.next".into(), &self.lpm.next, 1.0, 16.0, true),
        ];
        for memory in Memory::ALL {
            let of = self.memory(memory);
            let key = |name: &str| format!("memory.{}.{name}", memory.name());
            rules.extend([
                (key("latency"), &of.latency, 1.0, 1e5, true),
                (key("commands"), &of.commands, 1e5, 1e11, false),
                (key("bandwidth"), &of.bandwidth, 1e6, 1e13, false),
                (key("unit"), &of.unit, 1.0, 64.0, true),
                (key("burst"), &of.burst, of.unit.get(), 4096.0, true),
                (key("masked_writes"), &of.masked_writes, 0.0, 1.0, true),
                (key("duplex"), &of.duplex, 0.0, 1.0, true),
            ]);
        }
        rules
    }

    /// A memory's parameters.
    pub fn memory(&self, memory: Memory) -> &MemoryParameters {
        match memory {
            Memory::Dram => &self.memory.dram,
            Memory::Sram => &self.memory.sram,
            Memory::Scratch => &self.memory.scratch,
        }
    }

    /// A memory's parameters, to sweep them.
    pub fn memory_mut(&mut self, memory: Memory) -> &mut MemoryParameters {
        match memory {
            Memory::Dram => &mut self.memory.dram,
            Memory::Sram => &mut self.memory.sram,
            Memory::Scratch => &mut self.memory.scratch,
        }
    }

    /// Engines that are left for the program.
    pub fn application_engines(&self) -> u32 {
        self.engines.count.whole() - self.receive.engines.whole() - self.transmit.engines.whole()
    }
}

/// The section of a TOML text that a place is in, and the key of its line.
fn section(text: &str, at: usize) -> String {
    let end = text[at..].find('\n').map_or(text.len(), |length| at + length);
    let header = text[..end].lines().rev().find_map(|line| line.trim().strip_prefix('[')?.split(']').next());
    let line = text[..end].lines().next_back().unwrap_or("");
    let key = line.split_once('=').map(|(key, _)| key.trim()).filter(|key| !key.starts_with('#'));
    header.into_iter().chain(key).collect::<Vec<_>>().join(".")
}

#[cfg(test)]
mod tests;
