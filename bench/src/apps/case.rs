//! What is measured: a program with its tables, and packets with the ports that they come in on.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use baker::ir::{Program, TableEntry, TableId, TableStore};
use control::config::Config;
use dataplane::EngineKind;
use dataplane::bench::Rig;
use dataplane::ports::read_trace;

use crate::text;
use applications::BUILT_IN;

/// Ports and frames.
pub type Trace = Vec<(u8, Vec<u8>)>;

/// An application that ships with Millrace.
pub struct App {
    pub program: Arc<Program>,
    /// Its example configuration.
    pub example: String,
    folder: PathBuf,
}

impl App {
    /// The application of this name.
    pub fn new(name: &str) -> Result<Self, String> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../apps").join(name);
        let read = |file: String| std::fs::read_to_string(folder.join(&file)).map_err(|e| format!("{file}: {e}"));
        let source = folder.join(format!("{name}.baker")).display().to_string();
        let program = crate::compile::program(&source, &read(format!("{name}.baker"))?)?;
        let example = read(format!("{name}.toml"))?;
        Ok(App { program: Arc::new(program), example, folder })
    }

    /// The same with more in its example configuration.
    pub fn with(&self, more: &str) -> App {
        let App { program, example, folder } = self;
        App { program: program.clone(), example: format!("{example}\n{more}"), folder: folder.clone() }
    }

    /// A configuration of it.
    pub fn configured(&self, text: &str) -> Result<Config, String> {
        Config::parse("bench.toml", text, &self.program, BUILT_IN).map_err(|errors| format!("{errors:?}"))
    }

    /// A case with the example configuration.
    pub fn case(&self, name: &str, opening: Trace, packets: Trace) -> Result<Case, String> {
        let config = self.configured(&self.example)?;
        let (program, name, entries) = (self.program.clone(), name.into(), Vec::new());
        Ok(Case { name, program, config, entries, opening, packets, once: false })
    }

    /// The trace that ships with it, whose ports are those of the example configuration.
    pub fn shipped(&self, name: &str) -> Result<Case, String> {
        let mut case = self.case(name, Trace::new(), Trace::new())?;
        let ports = case.config.port_names();
        let content = std::fs::read(self.folder.join("trace.pcapng")).map_err(text)?;
        for packet in read_trace("trace.pcapng", &content).map_err(text)?.packets {
            let port = packet.interface.as_deref().and_then(|name| ports.number(name));
            case.packets.push((port.ok_or("a packet of the trace names no port")?, packet.frame));
        }
        case.opening = case.packets.clone();
        Ok(case)
    }
}

/// One measurement.
pub struct Case {
    pub name: String,
    pub program: Arc<Program>,
    pub config: Config,
    /// Entries beside those of the configuration, with their tables.
    pub entries: Vec<(&'static str, TableEntry)>,
    /// Comes before what is measured, once: opens flows, and warms caches.
    pub opening: Trace,
    pub packets: Trace,
    /// Whether the packets do something else when they come again.
    pub once: bool,
}

impl Case {
    /// Adds an entry.
    pub fn entry(&mut self, table: &'static str, key: &[u128], prefix_len: Option<u32>, value: &[u128]) {
        self.entries.push((table, TableEntry { key: key.to_vec(), prefix_len, value: value.to_vec() }));
    }

    /// Fills the tables.
    pub fn fill<S: TableStore + ?Sized>(&self, tables: &mut S) -> Result<(), String> {
        self.config.fill(&self.program, tables).map_err(text)?;
        for (name, entry) in &self.entries {
            let index = self.program.tables.iter().position(|table| table.name == *name);
            let table = TableId(index.ok_or_else(|| format!("there is no table {name}"))? as u32);
            tables.insert(table, entry).map_err(|error| format!("{name}: {error}"))?;
        }
        Ok(())
    }

    /// The compiled program with full tables, behind its opening.
    pub fn rig(&self, kind: EngineKind) -> Result<Rig, String> {
        let mut rig = Rig::new(&self.program, kind, |tables| self.fill(tables)).map_err(text)?;
        rig.run_trace(&self.opening, 1);
        Ok(rig)
    }
}
