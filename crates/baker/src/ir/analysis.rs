//! What passes, verifier and code generators ask of a body: its control flow, and where values come from.
//!
//! | file | idea |
//! |---|---|
//! | `cfg` | order of the blocks, predecessors, loops |
//! | `dominators` | which blocks every path to a block passes |
//! | `uses` | the values that blocks use and pass on |
//! | `definitions` | what makes a value |
//! | `liveness` | which values are still needed at a place |
//!
//! Each is built for a body as it is, and says nothing of the body after a change.

mod cfg;
mod definitions;
mod dominators;
mod liveness;
mod uses;

pub use cfg::Cfg;
pub use definitions::{Definition, Definitions, Passed};
pub use dominators::Dominators;
pub use liveness::Liveness;
