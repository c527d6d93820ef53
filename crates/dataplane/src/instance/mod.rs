//! An instance: a program that runs between ports.
//!
//! [`Instance::prepare`] opens the ports and compiles the program, [`Prepared::run`] starts workers and controllers,
//! and [`Instance::next`] makes ready what takes over from a program that runs.
//!
//! Imports run `prepare, next → run → site → error → options`: what is started knows nothing of what starts it.

mod error;
mod mtus;
mod next;
mod options;
mod prepare;
mod run;
mod site;
mod sweep;
pub(crate) mod worker_pool;

pub use error::StartError;
pub use next::{Next, ReloadError};
pub use options::{MAX_WORKERS, Options, PortConfig};
pub use prepare::Prepared;
pub use run::{Instance, Report};
