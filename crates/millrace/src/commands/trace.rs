//! Traces: packets from a capture file that programs are measured with, and profiled.

use std::path::{Path, PathBuf};

use control::config::{Config, PortNames};
use dataplane::ports::{TracePacket, read_trace};

use super::instance::port_number;
use crate::apps::Source;
use crate::failure::Failure;

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

/// The packets of a capture file. Those whose file names no interface come in on the port that an option, given with its
/// value, says: a name of the configuration, or a number.
pub fn packets(
    (name, content): &(String, Vec<u8>),
    config: &Config,
    (option, port): (&str, &str),
) -> Result<Trace, Failure> {
    let port = port_number(config, option, port)?;
    let names = config.port_names();
    let packets = read_trace(name, content).map_err(|error| wrong(&error))?;
    packets
        .into_iter()
        .map(|packet| enter(&names, packet, port).map_err(|what| wrong(&format!("{name}: {what}"))))
        .collect()
}

/// The port that a packet comes in on.
fn enter(names: &PortNames, packet: TracePacket, port: u8) -> Result<(u8, Vec<u8>), String> {
    let number = match &packet.interface {
        None => port,
        Some(interface) => names.number(interface).ok_or_else(|| {
            let known: Vec<_> = names.names().collect();
            format!("interface {interface} is no port of the configuration\n  ports: {}", known.join(", "))
        })?,
    };
    Ok((number, packet.frame))
}

/// What is wrong with what was given.
pub fn wrong(what: &dyn std::fmt::Display) -> Failure {
    Failure::wrong(format!("error: {what}"))
}
