//! The packet-access optimiser.
//!
//! Packet memory is far away and a header field is small, so a program that goes to memory for each field spends its time
//! waiting. The published compiler (Shangri-La; "packet access combining" and "compiler-generated packet caching") loads
//! what a program touches once and stores it once. Here, each level contains the one before:
//!
//! | level | passes |
//! |---|---|
//! | [`Level::Base`] | none: each access resolves its handle and goes to packet memory |
//! | [`Level::Pac`] | [`cache`] within each PPF: accesses to a header are combined |
//! | [`Level::Cgpc`] | [`aggregate`], then [`cache`] over whole aggregates: headers, heads, lengths and metadata stay in registers across PPFs and channels |
//!
//! That handles are unique and that a handle's type is a promise is what makes this legal: the checker has proved both.

pub mod aggregate;
pub mod cache;
mod liveness;
mod straighten;
mod usual;

use crate::ir::Program;

/// How far packet accesses are optimised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum Level {
    /// Not at all.
    Base,
    /// Packet access combining.
    Pac,
    /// Compiler-generated packet caching.
    #[default]
    Cgpc,
}

impl Level {
    /// All levels, least first.
    pub const ALL: [Level; 3] = [Level::Base, Level::Pac, Level::Cgpc];

    /// Its name on the command line and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Level::Base => "base",
            Level::Pac => "pac",
            Level::Cgpc => "cgpc",
        }
    }
}

/// A program with the same meaning, optimised to this level. What the ends see is the same: packets, `tx.port` at `tx`,
/// `rx.port` at `host`, counters, tables. Metadata that no end sees may be missing from packets that leave.
pub fn optimise(program: &Program, level: Level) -> Program {
    match level {
        Level::Base => program.clone(),
        Level::Pac => cache::cache(program, &cache::Scope::ppf()).0,
        Level::Cgpc => {
            let aggregated = aggregate::aggregate(program);
            cache::cache(&aggregated, &cache::Scope::aggregate(&aggregated, None)).0
        }
    }
}
