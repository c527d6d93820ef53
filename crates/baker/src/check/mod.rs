//! Checks: names, types, packet ownership, wiring. From syntax trees to a typed program.
//!
//! | file | what it decides |
//! |---|---|
//! | `load` | which files belong to the program |
//! | `names`, `declare`, `hints` | what each name stands for, and what could be meant |
//! | `consts`, `types` | constants and types |
//! | `protocols`, `items`, `meters` | protocols, metadata, structs, tables, counters, meters |
//! | `code`, `stmt`, `expr`, `arith`, `access`, `builtin`, `calls`, `packet`, `loops` | bodies of PPFs and functions |
//! | `ports` | what programs may ask of ports |
//! | `externs`, `timers` | functions of controllers; what runs without a packet |
//! | `wiring` | which channel leads where |
//! | `instances` | modules that are there several times |
//! | `params` | modules with parameters: one module for each instance |
//! | `flow` | what must hold on every path: handles consumed once, pointers tested |
//! | `sums`, `own` | declared checksums: what the compiler can't keep |
//! | `critical` | critical sections, and which tables' entries have a lock |
//! | `limits`, `paths`, `headroom` | what a program may cost |
//! | `facts` | what names stand for and what values are, also in wrong programs: for tools |

mod access;
mod arith;
mod arrays;
mod builtin;
mod calls;
mod clashes;
mod code;
mod consts;
mod critical;
mod declare;
mod expr;
mod externs;
mod facts;
mod flow;
mod groups;
mod headroom;
mod hints;
pub mod hir;
mod holds;
mod instances;
mod items;
mod lengths;
mod limits;
mod load;
mod loops;
mod meters;
mod names;
pub(crate) mod own;
mod packet;
mod params;
mod paths;
mod pins;
mod ports;
mod protocols;
mod queues;
mod stmt;
mod sums;
mod switch;
mod timers;
mod types;
mod visit;
mod wiring;

pub use facts::{Facts, Value, examine};
pub use load::{File, Loaded, load};

use crate::diag::{self, Diagnostic};
use crate::source::{Loader, Sources};

/// What came of a compilation.
#[derive(Debug)]
pub struct Compilation {
    /// All files that were read.
    pub sources: Sources,
    /// What is wrong, in the order of files and places.
    pub diagnostics: Vec<Diagnostic>,
    /// The typed program, where nothing is wrong.
    pub program: Option<hir::Program>,
    /// Whether the files hold a `program` block; without one they are a library, which can be checked but not run.
    pub runnable: bool,
}

/// Checks the program whose root file is `name` with this text.
pub fn check(name: &str, text: &str, loader: &dyn Loader) -> Compilation {
    let Loaded { mut sources, files, mut diagnostics } = load(name, text, loader);
    let mut program = None;
    let mut runnable = false;
    if diagnostics.is_empty() {
        let mut checker = names::Checker::new(name, &files, std::mem::take(&mut sources));
        checker.run();
        runnable = checker.runnable;
        (program, diagnostics, sources) = checker.finish();
    }
    let mut diagnostics = diag::by_file(diagnostics, &sources);
    diagnostics.sort_by_key(|d| (d.primary.span.file, d.primary.span.start));
    let program = program.filter(|_| diagnostics.is_empty());
    Compilation { sources, diagnostics, program, runnable }
}
