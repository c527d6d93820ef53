//! The contract between Millrace and an application: what a crate implements whose controller programs are wired to.
//!
//! | file | idea |
//! |---|---|
//! | `settings` | what is made of `[controllers.NAME]` of a configuration |
//! | `reloads` | settings on their way to the controller |
//! | `queries` | what a running controller can be asked |
//! | `metrics` | what it has counted |
//! | `kept` | what it keeps beside tables |
//!
//! [`Applications`](crate::applications::Applications) are those that a binary is linked with.

mod kept;
pub mod metrics;
mod queries;
mod reloads;
mod settings;

use baker::ir::Program;
use collectors::ipfix::Flows;
use dataplane::controller::{Controller, NamedTables};

pub use self::kept::Kept;
pub use self::queries::{Answer, METRICS, Offer, Offered, Queries, QueryError, QueryTarget, Registry};
pub use self::reloads::{AnyReloads, Reloads};
pub use self::settings::{AnySettings, CompiledSettings, Section};
use crate::document::Errors;
use crate::entries::fill;

/// Whether an application's controller has a section `[controllers.NAME]` of the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingsUse {
    /// There is none, and one in a file is an error.
    None,
    /// It may have one.
    Optional,
    /// It does not run without.
    Required,
}

/// What a controller is given.
#[derive(Clone, Debug)]
pub struct Given<S> {
    /// The way by which settings come to it,
    pub reloads: Reloads<S>,
    /// and queries.
    pub queries: Queries,
    /// What was kept for it.
    pub kept: Kept,
    /// Where it puts flows that are over, for collectors of IPFIX.
    pub flows: Flows,
}

/// An application: its controller, how its settings are read and put in force, and what it can be asked.
///
/// ```
/// use control::application::{Application, Given};
/// use dataplane::controller::{Controller, Event, Link};
///
/// /// Counts the packets that come to it.
/// struct Count;
///
/// impl Controller for Count {
///     fn run(&mut self, link: &mut Link) -> Result<(), String> {
///         let mut packets = 0u64;
///         loop {
///             match link.receive(std::time::Duration::from_secs(1)) {
///                 Event::Packet(_) => packets += 1,
///                 Event::Stop => return Ok(()),
///                 _ => {}
///             }
///         }
///     }
/// }
///
/// struct Counter;
///
/// impl Application for Counter {
///     const NAME: &'static str = "count";
///     type Settings = ();
///
///     fn controller(&self, _: Given<()>) -> Box<dyn Controller> {
///         Box::new(Count)
///     }
/// }
///
/// static BUILT_IN: &[&dyn control::applications::AnyApplication] = &[&Counter];
/// assert_eq!(control::applications::Applications::new(BUILT_IN).names().collect::<Vec<_>>(), ["count"]);
/// ```
pub trait Application: Sync {
    /// The name of the controller in programs, in `[controllers.NAME]` and for operators.
    const NAME: &'static str;
    /// What of the settings is in no table.
    type Settings: Send + Sync + 'static;
    /// Whether there are settings.
    const SETTINGS: SettingsUse = SettingsUse::None;
    /// What the controller answers by [`Queries::answer`].
    const QUERIES: &'static [Offer] = &[];
    /// Whether the controller puts flows that are over into [`Given::flows`].
    const TELLS_FLOWS: bool = false;

    /// A new controller. It does nothing before it runs: one is also made to ask for its functions
    /// ([`Controller::externs`]).
    fn controller(&self, given: Given<Self::Settings>) -> Box<dyn Controller>;

    /// Whether a program needs the controller that is not wired to it and calls none of its functions, such as for
    /// tables that it is to fill.
    fn serves(&self, _program: &Program) -> bool {
        false
    }

    /// What the settings make. Reads them and does nothing else, so that `replay`, `explain` and packet cases have
    /// their entries, too.
    fn read(
        &self,
        _section: &Section,
        _errors: &mut Errors,
        _warnings: &mut Errors,
    ) -> CompiledSettings<Self::Settings> {
        CompiledSettings::default()
    }

    /// Puts settings in force in the tables of a program that is about to take over.
    ///
    /// # Errors
    /// Why they can't be.
    fn install(&self, tables: &NamedTables, settings: &CompiledSettings<Self::Settings>) -> Result<(), String> {
        fill(tables.program(), &settings.entries, &mut tables.access()).map_err(|error| error.to_string())
    }
}
