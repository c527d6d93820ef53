//! The controller of `apps/splice`: what the data path can't do for HTTP connections. docs/splice.md has the whole
//! picture.
//!
//! | part | what |
//! |---|---|
//! | `settings` | the configuration, and how it is read |
//! | `tables`, `data_path` | flow entries and next hops as the program's tables have them; what the splicer needs of the data path |
//! | `cluster` | servers: their choice, checks, Ethernet addresses, the idle pool |
//! | [`connection`] | one connection: a state machine that takes events and gives effects |
//! | `log` | the access log |
//! | `admin` | queries, sessions, metrics |
//! | [`splicer`] | all connections: maps, timers, effects carried out |
//! | `run` | the splicer on a running instance |
//! | `application`, `commands`, `demo` | what the splicer is to Millrace: controller and settings, subcommands, a scene of the demo |
//!
//! Imports run one way, from the bottom of this table to its top. The splicer has the whole state; `admin` reads it,
//! and keeps the metrics that it counts.
//!
//! Segments, heads and all else that is the protocols' lies in the crate `wire`.
#![forbid(unsafe_code)]

pub mod admin;
mod application;
pub mod cluster;
mod commands;
pub mod connection;
pub mod data_path;
mod demo;
mod fragments;
pub mod key;
mod log;
mod run;
pub mod settings;
pub mod splicer;
pub mod tables;

use cli::Linked;

pub use self::application::{Splice, SpliceApplication};

/// How a binary is linked with it.
pub const LINKED: Linked =
    Linked { application: &SpliceApplication, commands: commands::COMMANDS, scene: Some(demo::SCENE) };
