//! Where monitoring systems connect to: as the configuration has it, and as a reload has it from then on.

use control::config::Metrics;

pub use crate::answer::{Figures, Look, PATH};

/// Tells monitoring systems what an instance counts.
pub type Exporter = endpoint::Endpoint<Figures>;

/// What is to be in force, with all that it takes.
pub type Bound = endpoint::Bound<Figures>;

/// One that looks at the instance in this way, without an address.
pub fn exporter(look: Look) -> Exporter {
    Exporter::new(Figures::new(look))
}

/// Takes the address of an instance that does not run yet.
///
/// # Errors
/// Why it can't be had.
pub fn bind(settings: Option<&Metrics>) -> Result<Bound, String> {
    endpoint::bind(settings.cloned())
}
