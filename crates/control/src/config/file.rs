//! The configuration of one instance, read as a whole.

use std::sync::Arc;

use baker::ir::{DEFAULT_MTU, Pin, Program, TableEntry, TableId, TableStore};
use dataplane::ports::PortSpec;
use dataplane::{FrameConfig, Options, PortConfig};

use super::error::PortSetupError;
use super::metrics::{self, Metrics};
use super::ports::{self, Control, Port, Workers};
use super::web::{self, Web};
use super::{ipfix, sflow};
use crate::application::{AnySettings, Application};
use crate::applications::Applications;
use crate::document::{self, ConfigError, Errors, Path};
use crate::entries::{FillError, PortNames, fill, tables};
use crate::messages::list;

/// Its sections.
const SECTIONS: &[&str] =
    &["frames", "workers", "control", "metrics", "web", "sflow", "ipfix", "ports", "controllers", "tables"];

/// The configuration of one instance.
#[derive(Clone, Debug)]
pub struct Config {
    /// Its ports, by number.
    pub ports: Vec<Port>,
    /// Entries of its tables, table by table.
    pub entries: Vec<(TableId, TableEntry)>,
    /// Entries that the settings of its controllers make, by their names.
    pub controllers: Vec<(String, AnySettings)>,
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
    /// Where monitoring systems read what is counted; none: nowhere.
    pub metrics: Option<Metrics>,
    /// Where its web page and its HTTP API are; none: nowhere.
    pub web: Option<Web>,
    /// What it sends to collectors of sFlow; none: nothing.
    pub sflow: Option<::collectors::sflow::Settings>,
    /// What it sends to collectors of IPFIX; none: nothing.
    pub ipfix: Option<::collectors::ipfix::Settings>,
}

impl Config {
    /// Reads a configuration for a program; `applications` read the settings of its controllers. Errors come in the
    /// order of the text, at most 100 of them.
    pub fn parse(
        file_name: &str,
        text: &str,
        program: &Program,
        applications: Applications,
    ) -> Result<Config, Vec<ConfigError>> {
        let mut errors = Errors::new(file_name, text);
        let root = document::root(text, &mut errors);
        if !errors.is_empty() {
            return Err(errors.finish());
        }
        let path = Path::Root;
        document::only(&root, &path, SECTIONS, &mut errors);
        if !errors.is_empty() {
            // What a section of a wrong name was to say would be missing elsewhere, such as the name of a port.
            return Err(errors.finish());
        }
        let ports::Frames { config: frames, access, controllers: controller_frames } =
            ports::frames(root.get("frames"), program, &mut errors);
        let workers = ports::workers(root.get("workers"), program, &mut errors);
        let control = ports::control(root.get("control"), &mut errors);
        let metrics = metrics::metrics(root.get("metrics"), &mut errors);
        let web = web::web(root.get("web"), &mut errors);
        let sflow = sflow::sflow(root.get("sflow"), &mut errors);
        let ipfix = ipfix::ipfix(root.get("ipfix"), &mut errors);
        let ports = ports::ports(root.get("ports"), access, &mut errors);
        let names = PortNames(ports.iter().map(|port| (port.name.clone(), port.number)).collect());
        let entries = match root.get("tables") {
            Some(value) => tables::read_whole(program, &names, value, &path.key("tables"), &mut errors),
            None => Vec::new(),
        };
        let mut warnings = Errors::new(file_name, text);
        if let Some(value) = root.get("ipfix").filter(|_| !applications.tell_flows(program)) {
            let problem = "no controller of the program tells of flows, so none are sent";
            warnings.add(value.span().start, &path.key("ipfix"), problem, "");
        }
        let controllers = root
            .get("controllers")
            .map_or_else(Vec::new, |value| applications.read(program, &names, text, value, &mut errors, &mut warnings));
        if !errors.is_empty() {
            return Err(errors.finish());
        }
        let warnings = warnings.finish();
        Ok(Config {
            ports,
            entries,
            controllers,
            warnings,
            frames,
            controller_frames,
            workers,
            control,
            metrics,
            web,
            sflow,
            ipfix,
        })
    }

    /// The program with the PPFs pinned that are to stay on workers.
    pub fn pinned(&self, mut program: Arc<Program>) -> Arc<Program> {
        if !self.workers.ppfs.is_empty() {
            let own = Arc::make_mut(&mut program);
            self.workers.ppfs.iter().for_each(|ppf| own.ppfs[ppf.0 as usize].pin = Some(Pin::Worker));
        }
        program
    }

    /// Puts all entries into the tables of an engine: first those of the controllers, then those that are given. Of
    /// ports the program knows what the configuration says; an instance knows more of its interfaces.
    pub fn fill<S: TableStore + ?Sized>(&self, program: &Program, store: &mut S) -> Result<(), FillError> {
        self.controllers.iter().try_for_each(|(_, settings)| fill(program, &settings.entries, store))?;
        fill(program, &self.entries, store)?;
        fill(program, &self.port_entries(program), store)
    }

    /// What the program may ask of ports.
    pub(crate) fn port_entries(&self, program: &Program) -> Vec<(TableId, TableEntry)> {
        let Some(table) = program.port_mtus() else { return Vec::new() };
        let mtu = |port: &Port| u128::from(port.mtu.unwrap_or(DEFAULT_MTU));
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

    /// What the settings of an application's controller make for it, if it has any here.
    pub fn settings<A: Application>(&self) -> Option<Arc<A::Settings>> {
        let (_, settings) = self.controllers.iter().find(|(name, _)| name == A::NAME)?;
        settings.clone().typed().own
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
        for Port { name, number, device, host, access, own, gso, mtu } in &self.ports {
            let given = devices.iter().find(|spec| spec.name == *name).map(|spec| &spec.driver);
            match given.or(device.as_ref()) {
                Some(driver) => {
                    let spec = PortSpec { name: name.clone(), driver: driver.clone() };
                    let (number, host, access, own, gso, mtu) = (*number, *host, *access, *own, *gso, *mtu);
                    ports.push(PortConfig { spec, number, host, access, own, gso, mtu });
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
