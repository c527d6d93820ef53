//! The controller of `apps/translate`: HTTP with clients, streams with servers. Packets of streams and TCP are the
//! program's.
//!
//! | part | what |
//! |---|---|
//! | `settings` | the configuration, and how it is read |
//! | [`http`] | requests read, answers written |
//! | [`tables`] | entries of the program's tables, orders and notices, as it has them |
//! | [`proxy`] | the state machine: segments and notices in, effects out, without sockets |
//! | `log` | the access log |
//! | `sources` | streams from servers, by the media proxy's state machine |
//! | `relay` | connections to the host's own HTTP server |
//! | `admin` | queries and metrics |
//! | `run` | the proxy on a running instance |
//! | `application`, `commands`, `demo` | what it is to Millrace: controller and settings, subcommands, a scene |
//!
//! Imports run one way, from the bottom of this table to its top.
#![forbid(unsafe_code)]

pub mod admin;
mod application;
mod commands;
mod demo;
pub mod http;
mod log;
pub mod proxy;
mod relay;
mod run;
pub mod settings;
mod sources;
pub mod tables;

use cli::Linked;

pub use self::application::{Translate, TranslateApplication};

/// How a binary is linked with it.
pub const LINKED: Linked =
    Linked { application: &TranslateApplication, commands: commands::COMMANDS, scene: Some(demo::SCENE) };
