//! What `run` and `replay` share: the engine, the configuration, the ports.

use std::path::PathBuf;

use baker::ir::Program;
use codegen::OptLevel;
use control::config::Config;
use dataplane::ports::PortSpec;
use dataplane::{EngineKind, PortConfig};

use crate::apps::Source;
use crate::failure::Failure;

/// Which engine runs the program.
#[derive(Clone, Copy, clap::ValueEnum)]
pub enum Engine {
    /// Machine code through LLVM
    Native,
    /// The reference interpreter
    Interp,
}

impl Engine {
    /// The data plane's word for it.
    pub fn kind(self) -> EngineKind {
        match self {
            Engine::Native => EngineKind::Native(OptLevel::O3),
            Engine::Interp => EngineKind::Interp,
        }
    }
}

/// Reads the configuration: the file given, else the one beside the program, else an empty one.
pub fn configuration(source: &Source, given: Option<&PathBuf>, program: &Program) -> Result<Config, Failure> {
    let (name, text) = match given {
        Some(path) => {
            let text = std::fs::read_to_string(path)
                .map_err(|error| Failure::wrong(format!("error: {}: {error}", path.display())))?;
            (path.display().to_string(), text)
        }
        None => source.config.clone().unwrap_or_default(),
    };
    Config::parse(&name, &text, program).map_err(|errors| {
        let errors: Vec<_> = errors.iter().map(|e| format!("error: {e}")).collect();
        Failure::wrong(errors.join("\n"))
    })
}

/// The ports to open: those of the configuration with the devices of the command line, or, where the configuration has
/// none, those of the command line numbered from 1.
pub fn ports(config: &Config, given: &[PortSpec]) -> Result<Vec<PortConfig>, Failure> {
    if config.ports.is_empty() {
        let numbered = given.iter().zip(1..=u8::MAX);
        return Ok(numbered.map(|(spec, number)| PortConfig { spec: spec.clone(), number, host: None }).collect());
    }
    if let Some(unknown) = given.iter().find(|spec| config.ports.iter().all(|port| port.name != spec.name)) {
        let known: Vec<_> = config.ports.iter().map(|port| &*port.name).collect();
        return Err(Failure::wrong(format!(
            "error: --port {}: the configuration has no such port\n  ports: {}",
            unknown.name,
            known.join(", ")
        )));
    }
    let mut ports = Vec::new();
    let mut missing = Vec::new();
    for port in &config.ports {
        let given = given.iter().rev().find(|spec| spec.name == port.name);
        match given.map(|spec| spec.driver.clone()).or_else(|| port.driver.clone()) {
            Some(driver) => {
                let spec = PortSpec { name: port.name.clone(), driver };
                ports.push(PortConfig { spec, number: port.number, host: port.host });
            }
            None => missing.push(format!("--port {}=DRIVER:DEVICE", port.name)),
        }
    }
    if missing.is_empty() {
        return Ok(ports);
    }
    Err(Failure::wrong(format!(
        "error: {} of {} ports have no device; add to the command line, or give each a `device` in the configuration:\n  {}",
        missing.len(),
        config.ports.len(),
        missing.join("\n  ")
    )))
}
