//! Subcommands, one file each.

pub mod check;
pub mod demo;
pub mod emit;
mod instance;
pub mod replay;
pub mod run;
