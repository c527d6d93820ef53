//! Traces: packets from a capture file that programs are measured with, and profiled.

use std::path::{Path, PathBuf};

use cli::failure::Failure;
use control::config::Config;
use control::entries::PortNames;
use dataplane::ports::read_trace;

use super::instance::port_number;
use crate::apps::Source;

/// Port numbers and frames.
pub type Trace = Vec<(u8, Vec<u8>)>;

/// A capture file's name and content.
pub fn file(path: &Path) -> Result<(String, Vec<u8>), Failure> {
    let content = std::fs::read(path).map_err(|error| wrong(&format!("{}: {error}", path.display())))?;
    Ok((path.display().to_string(), content))
}

/// The capture file given, else the trace beside the program. `option` is how messages say to give one.
pub fn given_or_beside(given: Option<&PathBuf>, source: &Source, option: &str) -> Result<(String, Vec<u8>), Failure> {
    match (given, &source.trace) {
        (Some(path), _) => file(path),
        (None, Some(beside)) => Ok(beside.clone()),
        (None, None) => {
            let name = &source.name;
            Err(wrong(&format!("{name}: no trace lies beside it; give one to measure with: {option} T.pcap")))
        }
    }
}

/// The packets of a capture file that came in: see [`EntryPorts`]. What can't be read of it is told.
pub fn packets((name, content): &(String, Vec<u8>), config: &Config, port: PortOption) -> Result<Trace, Failure> {
    let entry_ports = EntryPorts::new(config, port)?;
    let trace = read_trace(name, content).map_err(|error| wrong(&error))?;
    if let Some(skipped) = trace.skipped {
        tracing::warn!("{skipped}");
    }
    let mut packets = Trace::new();
    for packet in trace.packets {
        let entry = entry_ports.entry(packet.number, packet.interface.as_deref(), packet.outgoing);
        if let Some(port) = entry.map_err(|what| wrong(&format!("{name}: {what}")))? {
            packets.push((port, packet.frame));
        }
    }
    match packets.is_empty() {
        true => Err(wrong(&format!("{name}: ports have sent all of its packets, and received none"))),
        false => Ok(packets),
    }
}

/// An option that says on which port packets come in whose file does not say it, with its value where it was given.
pub type PortOption<'a> = (&'static str, Option<&'a str>);

/// Where the packets of a capture file come in. An interface is the port of its name, or, where it is called by a
/// number, the port of that number; of a lab's captures, whose interfaces are called `HOST:DEVICE`, that of the
/// device's name. An interface without a name is the port of its place in the file, counted from 1. Packets at other
/// interfaces, or at none, come in on the port that the option says: a name of the configuration, or a number. Without
/// it those at none come in on port 1, and those at others nowhere.
pub struct EntryPorts<'c> {
    names: PortNames,
    option: &'static str,
    given: Option<u8>,
    config: &'c Config,
}

impl<'c> EntryPorts<'c> {
    /// By an option.
    pub fn new(config: &'c Config, (option, port): PortOption) -> Result<Self, Failure> {
        let given = port.map(|port| port_number(config, option, port)).transpose()?;
        Ok(EntryPorts { names: config.port_names(), option, given, config })
    }

    /// The port that a packet comes in on; `None`: on none, for the file says that the port has sent it.
    pub fn entry(&self, number: Option<u32>, interface: Option<&str>, outgoing: bool) -> Result<Option<u8>, String> {
        let (port, shown) = match (interface, number) {
            (Some(interface), _) => (self.named(interface), interface.to_owned()),
            (None, None) => return Ok(Some(self.given.unwrap_or(1))),
            (None, Some(_)) if self.given.is_some() => return Ok(self.given),
            (None, Some(number)) => (self.numbered(number + 1), format!("number {number}, which has no name,")),
        };
        if let Some(port) = port {
            return Ok((!outgoing).then_some(port));
        }
        self.given.map(Some).ok_or_else(|| {
            let known: Vec<_> = self.config.ports.iter().map(|port| &*port.name).collect();
            format!(
                "interface {shown} is no port of the configuration\n  ports: {}\n  {} PORT says where its packets come in",
                known.join(", "),
                self.option
            )
        })
    }
}

impl EntryPorts<'_> {
    /// The port that an interface's name says.
    fn named(&self, interface: &str) -> Option<u8> {
        let device = interface.split_once(':').map_or(interface, |(_, device)| device);
        let by_name = [interface, device].into_iter().find_map(|name| self.names.number(name));
        by_name.or_else(|| self.numbered(interface.parse().ok()?))
    }

    /// The port of a number: one of the configuration, or any where that has none.
    fn numbered(&self, number: u32) -> Option<u8> {
        let number = u8::try_from(number).ok().filter(|number| *number > 0)?;
        let is_there = self.config.ports.is_empty() || self.names.name(number).is_some();
        is_there.then_some(number)
    }
}

/// What is wrong with what was given.
pub fn wrong(what: &dyn std::fmt::Display) -> Failure {
    Failure::wrong(format!("error: {what}"))
}
