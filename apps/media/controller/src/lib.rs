//! The controller of `apps/media`: RTSP with clients and origins, and what becomes of their streams.
//!
//! | part | what |
//! |---|---|
//! | `settings` | the configuration, and how it is read |
//! | `pools` | origins of pools: which of them work, and which one is next |
//! | `tables` | flow entries and counts as the program's tables have them |
//! | [`proxy`] | the state machine: events in, effects out, without sockets |
//! | `log` | the access log |
//! | [`members`] | servers of pools that are found in etcd or Kubernetes |
//! | [`cache`] | recorded streams, and how they are played |
//! | `sockets` | connections and datagrams: the effects carried out |
//! | `hls` | recordings by HTTP |
//! | [`export`] | recordings as files of other programs |
//! | `admin` | queries and metrics |
//! | `run` | the proxy on a running instance |
//! | `application`, `commands`, `demo` | what the proxy is to Millrace: controller and settings, subcommands, a scene |
//!
//! Imports run one way, from the bottom of this table to its top. Messages, descriptions and reports lie in the crate
//! `wire`.
#![forbid(unsafe_code)]

pub mod admin;
mod application;
pub mod cache;
mod commands;
mod demo;
pub mod export;
mod hls;
mod log;
pub mod members;
pub mod pools;
pub mod proxy;
mod run;
pub mod settings;
pub mod sockets;
pub mod tables;

use cli::Linked;

pub use self::application::{Media, MediaApplication};

/// How a binary is linked with it.
pub const LINKED: Linked =
    Linked { application: &MediaApplication, commands: commands::COMMANDS, scene: Some(demo::SCENE) };
