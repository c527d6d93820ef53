//! The options that say how accesses to packets are optimised: how far, and by which profile.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use baker::ir::Program;
use baker::opt::Level;
use baker::opt::profile::profiled;
use cli::failure::Failure;
use control::config::Config;

use super::trace::{self, Trace, wrong};
use applications::BUILT_IN;

/// `--opt`, `--profile`.
#[derive(Clone, clap::Args)]
pub struct Packets {
    /// How far accesses to packets are optimised.
    #[arg(long = "opt", value_enum, default_value_t = Name::Cgpc)]
    opt: Name,
    /// Packets like those to come (pcap or pcapng), by which the program is optimised. An interface of a pcapng file is
    /// the port of its name
    #[arg(long, value_name = "T.pcap")]
    profile: Option<PathBuf>,
    /// Port of the profile's packets whose file names none, or none of the configuration: a name there, or a number
    /// [default: 1]
    #[arg(long, value_name = "PORT")]
    profile_port: Option<String>,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Name {
    /// Each access on its own
    Base,
    /// Accesses of one packet processing function combined
    Pac,
    /// Headers kept in registers across packet processing functions
    Cgpc,
}

impl Packets {
    /// The level that was asked for.
    pub fn level(&self) -> Level {
        match self.opt {
            Name::Base => Level::Base,
            Name::Pac => Level::Pac,
            Name::Cgpc => Level::Cgpc,
        }
    }

    /// Whether a profile was given.
    pub fn has_profile(&self) -> bool {
        self.profile.is_some()
    }

    /// The program with the profile that was asked for, if one was.
    pub fn profiled(&self, program: Arc<Program>, config: &Config) -> Result<Arc<Program>, Failure> {
        let Some(path) = &self.profile else { return Ok(program) };
        let packets = trace::packets(&trace::file(path)?, config, ("--profile-port", self.profile_port.as_deref()))?;
        by_profile(&program, config, path, &packets)
    }
}

/// The program with what the packets of a capture file say about it.
pub fn by_profile(
    program: &Arc<Program>,
    config: &Config,
    path: &Path,
    packets: &Trace,
) -> Result<Arc<Program>, Failure> {
    let externs = BUILT_IN.externs(program).map_err(|error| wrong(&error))?;
    let with_profile = profiled(program, packets, |machine| {
        if let Some(externs) = externs {
            machine.set_externs(externs);
        }
        config.fill(program, machine)
    });
    with_profile.map(Arc::new).map_err(|error| wrong(&format!("{}: {error}", path.display())))
}
