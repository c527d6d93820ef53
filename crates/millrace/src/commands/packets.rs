//! The option that says how far packet accesses are optimised.

use baker::opt::Level;

/// `--opt`.
#[derive(clap::Args)]
pub struct Packets {
    /// How far accesses to packets are optimised.
    #[arg(long = "opt", value_enum, default_value_t = Name::Cgpc)]
    opt: Name,
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
}
