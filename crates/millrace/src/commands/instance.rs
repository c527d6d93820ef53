//! What `run` and `replay` share: the configuration, the ports.

use std::path::{Path, PathBuf};

use baker::ir::Program;
use cli::failure::Failure;
use control::config::Config;
use dataplane::ports::PortSpec;
use dataplane::{Access, PortConfig};

use crate::apps::Source;
use applications::BUILT_IN;

/// Reads the configuration: the file given, else the one beside the program, else an empty one.
pub fn configuration(source: &Source, given: Option<&PathBuf>, program: &Program) -> Result<Config, Failure> {
    let config = match given {
        Some(path) => read(path, program)?,
        None => {
            let (name, text) = source.config.clone().unwrap_or_default();
            Config::parse(&name, &text, program, BUILT_IN).map_err(|errors| Failure::several(&errors))?
        }
    };
    for warning in &config.warnings {
        tracing::warn!("{warning}");
    }
    Ok(config)
}

/// Reads a configuration's file.
pub fn read(path: &Path, program: &Program) -> Result<Config, Failure> {
    let text =
        std::fs::read_to_string(path).map_err(|error| Failure::wrong(format!("error: {}: {error}", path.display())))?;
    Config::parse(&path.display().to_string(), &text, program, BUILT_IN).map_err(|errors| Failure::several(&errors))
}

/// The ports of a configuration and of the command line, whose access mode comes before that of the configuration.
pub fn ports(config: &Config, given: &[PortSpec], access: Option<Access>) -> Result<Vec<PortConfig>, Failure> {
    let mut ports = of_config(config, given)?;
    if let Some(access) = access {
        ports.iter_mut().for_each(|port| port.access = access);
    }
    Ok(ports)
}

/// The ports to open: those of the configuration, or, where it has none, those of the command line numbered from 1.
fn of_config(config: &Config, given: &[PortSpec]) -> Result<Vec<PortConfig>, Failure> {
    if config.ports.is_empty() {
        if given.len() > usize::from(u8::MAX) {
            return Err(Failure::wrong(format!("error: {} ports: at most 255 are possible", given.len())));
        }
        let numbered = given.iter().zip(1..=u8::MAX);
        return Ok(numbered.map(|(spec, number)| PortConfig::new(&spec.name, number, spec.driver.clone())).collect());
    }
    config.port_configs(given).map_err(|errors| Failure::several(&errors))
}

/// The number of the port that an option names.
pub fn port_number(config: &Config, option: &str, port: &str) -> Result<u8, Failure> {
    let named = config.ports.iter().find(|known| known.name == port).map(|known| known.number);
    named.or_else(|| port.parse().ok()).ok_or_else(|| {
        let known: Vec<_> = config.ports.iter().map(|port| &*port.name).collect();
        Failure::wrong(format!(
            "error: {option} {port}: neither a port of the configuration nor a number from 0 to 255\n  ports: {}",
            known.join(", ")
        ))
    })
}
