//! The packets that `explain` and `sim` measure with.

use std::path::PathBuf;

use control::config::{Config, PortNames};
use dataplane::ports::{TracePacket, read_trace};

use super::instance::port_number;
use crate::apps::Source;
use crate::failure::Failure;

/// Port numbers and frames: of the file given, by the `option` that messages name, else of the trace beside the program.
/// `port` is that of packets whose file names none.
pub fn read(
    given: Option<&PathBuf>,
    option: &str,
    port: &str,
    source: &Source,
    config: &Config,
) -> Result<Vec<(u8, Vec<u8>)>, Failure> {
    let wrong = |error: &dyn std::fmt::Display| Failure::wrong(format!("error: {error}"));
    let (name, content) = match (given, &source.trace) {
        (Some(path), _) => {
            let content = std::fs::read(path).map_err(|error| wrong(&format!("{}: {error}", path.display())))?;
            (path.display().to_string(), content)
        }
        (None, Some(trace)) => trace.clone(),
        (None, None) => {
            return Err(wrong(&format!(
                "{}: no trace lies beside it; give one to measure with: {option}",
                source.name
            )));
        }
    };
    let port = port_number(config, port)?;
    let names = config.port_names();
    let packets = read_trace(&name, &content).map_err(|error| wrong(&error))?;
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
