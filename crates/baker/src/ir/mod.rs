//! The intermediate representation: SSA form with explicit packet operations.
//!
//! A [`Program`] is what every engine runs: the interpreter (the reference), native code, later BPF and the IXP model.
//! Blocks take parameters in place of phi instructions. Nothing in it can fail: arithmetic is total, a field access
//! lies within what the packet's type promises, and a check that may fail is an ordinary branch.

mod counters;
mod inst;
mod program;
mod tables;

pub use counters::CounterSlots;
pub use inst::*;
pub use program::*;
pub use tables::{TableEntry, TableError, TableStore};
