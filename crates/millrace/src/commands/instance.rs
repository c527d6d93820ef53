//! What `run` and `replay` share: the engine, the configuration, the ports.

use std::path::PathBuf;

use baker::ir::Program;
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
            Engine::Native => EngineKind::NATIVE,
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
    Config::parse(&name, &text, program).map_err(|errors| wrong(&errors))
}

/// The ports to open: those of the configuration, or, where it has none, those of the command line numbered from 1.
pub fn ports(config: &Config, given: &[PortSpec]) -> Result<Vec<PortConfig>, Failure> {
    if config.ports.is_empty() {
        if given.len() > usize::from(u8::MAX) {
            return Err(Failure::wrong(format!("error: {} ports: at most 255 are possible", given.len())));
        }
        let numbered = given.iter().zip(1..=u8::MAX);
        return Ok(numbered.map(|(spec, number)| PortConfig { spec: spec.clone(), number, host: None }).collect());
    }
    config.port_configs(given).map_err(|errors| wrong(&errors))
}

/// Several errors, a line each.
fn wrong<E: std::fmt::Display>(errors: &[E]) -> Failure {
    let errors: Vec<_> = errors.iter().map(|e| format!("error: {e}")).collect();
    Failure::wrong(errors.join("\n"))
}
