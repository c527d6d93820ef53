//! The intermediate representation: SSA form with explicit packet operations.
//!
//! A [`Program`] is what every engine runs: the interpreter (the reference), native code, later BPF and the IXP model.
//! Blocks take parameters in place of phi instructions. Nothing in it can fail: arithmetic is total, a field access
//! lies within what the packet's type promises, and a check that may fail is an ordinary branch.

mod access;
mod aging;
pub mod analysis;
pub mod arith;
mod build;
mod clean;
mod counters;
pub mod deadline;
mod dot;
mod inst;
pub mod interp;
mod kinds;
mod lower;
mod members;
pub mod meter;
mod ops;
mod ppf_times;
mod print;
mod profile;
mod program;
mod tables;
mod verify;
mod wires;
mod written;

pub use access::{How, Span, Touches};
pub use aging::Times;
pub(crate) use build::{Builder, Var};
pub(crate) use clean::tidy;
pub use counters::CounterSlots;
pub use dot::dot;
pub use inst::*;
pub use kinds::{DeclaredKind, KINDS, KindRow};
pub use lower::{declarations, lower, lower_with_operations};
pub use members::Member;
pub use ops::{Memory, Operand, Outcome, Row};
pub use ppf_times::PpfTimes;
pub use print::{print, print_body};
pub use profile::{Counts, Usage, WORTH};
pub use program::*;
pub use tables::{TableEntry, TableError, TableStore, is_expired, prefix_mask};
pub use verify::{VerifyError, verify};
pub use wires::{Wire, wires};
