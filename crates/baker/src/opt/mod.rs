//! The packet-access optimiser.
//!
//! Packet memory is far away and a header field is small, so a program that goes to memory for each field spends its
//! time waiting. The published compiler (Shangri-La; "packet access combining" and "compiler-generated packet caching")
//! loads what a program touches once and stores it once. Here, each level contains the one before:
//!
//! | level | passes |
//! |---|---|
//! | [`Level::Base`] | none: each access resolves its handle and goes to packet memory |
//! | [`Level::Pac`] | [`COMBINE`], [`VALUE_NUMBERING`]: accesses to the headers that a PPF sees are combined |
//! | [`Level::Cgpc`] | [`AGGREGATE`], [`CACHE`], [`VALUE_NUMBERING`]: headers, heads, lengths and metadata stay in registers across PPFs and channels |
//!
//! Native code of the last level stages look-ups: see [`stage`].
//!
//! That handles are unique and that a handle's type is a promise is what makes this legal: the checker has proved both.

mod aggregate;
mod bounds;
pub mod cache;
pub mod division;
mod expected;
pub mod explain;
pub mod profile;
pub mod reach;
pub mod share;
pub mod stage;
mod straighten;
pub mod timing;
mod value_numbering;

use crate::ir::{Program, verify};

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

/// A transformation that keeps a program's meaning.
#[derive(Clone, Copy)]
pub struct Pass {
    /// Its name in reports.
    pub name: &'static str,
    /// The program after it.
    pub run: fn(&Program) -> Program,
}

/// PPFs joined by channels become one body.
pub const AGGREGATE: Pass = Pass { name: "aggregate", run: aggregate::aggregate };
/// Packets are held in registers within each PPF.
pub const COMBINE: Pass = Pass { name: "combine", run: |program| cache::cache(program, &cache::CacheOptions::ppf()).0 };
/// Packets are held in registers within each aggregate.
pub const CACHE: Pass =
    Pass { name: "cache", run: |program| cache::cache(program, &cache::CacheOptions::aggregate(program)).0 };
/// Times of PPFs are measured. No level has it.
pub const TIMING: Pass = Pass { name: "timing", run: timing::timed };
/// What is computed twice is computed once.
pub const VALUE_NUMBERING: Pass = Pass { name: "number", run: value_numbering::number };

impl Level {
    /// The passes of a level, in order.
    pub fn passes(self) -> &'static [Pass] {
        match self {
            Level::Base => &[],
            Level::Pac => &[COMBINE, VALUE_NUMBERING],
            Level::Cgpc => &[AGGREGATE, CACHE, VALUE_NUMBERING],
        }
    }
}

/// A program with the same meaning, optimised to this level. What the ends see is the same: packets, `tx.port` at `tx`,
/// `rx.port` at `host`, all metadata at controllers, counters, tables. Metadata that no end sees may be missing from
/// packets that leave.
pub fn optimise(program: &Program, level: Level) -> Program {
    run(program, level, aggregate::aggregate)
}

/// As [`optimise`], where no aggregate may have more than `largest` instructions, copies counted, before it is
/// optimised.
pub fn optimise_within(program: &Program, level: Level, largest: usize) -> Program {
    run(program, level, |program| aggregate::aggregate_within(program, largest))
}

fn run(program: &Program, level: Level, aggregate: impl Fn(&Program) -> Program) -> Program {
    level.passes().iter().fold(program.clone(), |program, pass| {
        let after = if pass.name == AGGREGATE.name { aggregate(&program) } else { (pass.run)(&program) };
        debug_assert!(verify(&after).is_ok(), "{}: {:?}", pass.name, verify(&after));
        after
    })
}
