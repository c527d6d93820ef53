//! Programs without an instance: one packet at a time for tests, over capture files, and measured in memory. No thread,
//! no port. Each of the three stands for itself.

pub mod bench;
mod replay;
pub mod step;

pub use replay::{Entries, ReplayError, ReplayInput, ReplayOutputs, ReplayReport, replay};
