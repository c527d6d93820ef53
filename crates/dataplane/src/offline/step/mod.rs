//! One packet at a time, on any engine, without a thread: for tests and packet cases.
//!
//! Frames, context, tables and batches are those of a worker, so what an engine sees is what it sees in one. A program
//! is cut in two where it runs in the kernel, compiled, and then run step by step.

mod compile;
mod cuts;
mod error;
mod stepper;

pub use compile::Compiled;
pub use cuts::{cuts, place};
pub use error::StepError;
pub use stepper::{StepOutput, Stepper};
