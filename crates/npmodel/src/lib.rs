//! A model of Intel's IXP network processors: what a Baker program would do there; and one of a host-based router
//! ([`bus`]).
//!
//! ```text
//! program ── optimise ──▶ IR ── interpreter, packet by packet ──▶ what was executed
//!                                                                     │ sequence, alu, words
//!                                    platforms/NAME.toml ──▶ micro-operations, one list per way
//!                                                                     │ mapping
//!                                                       steps of each stage ── event ──▶ rates, cycles, utilisation
//! ```
//!
//! The interpreter runs each packet, so results are the program's; the model says what they cost. Pure: no input or
//! output.

#![forbid(unsafe_code)]

mod alu;
pub mod bus;
mod demanded;
pub mod event;
mod listing;
pub mod mapping;
pub mod micro;
pub mod paths;
pub mod platform;
pub mod sequence;
pub mod simulate;
mod used;

pub use bus::HostBus;
pub use listing::listing;
pub use paths::{Traced, trace};
pub use platform::{AnyPlatform, Memory, Platform, PlatformError};
pub use simulate::{MOST, Point, simulate};
