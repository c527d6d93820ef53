//! The routes and neighbours of the kernel, in the tables of programs that import `net/next_hop`.
//!
//! Imports run `application → session → mirror → hops → decide → kernel`: each knows only what is behind it.
//!
//! | module | what |
//! |---|---|
//! | `application`, `settings`, `command` | the controller, `[controllers.routes]`, `millrace routes` |
//! | `state` | what is told of it |
//! | `session` | the mirror beside the kernel: dumps, events, requests for neighbours |
//! | `mirror` | which entries of the tables change, in which order |
//! | `hops`, `blocks` | numbers of next hops, places of the ways of groups |
//! | `program`, [`lookup`] | the program's tables; where packets go, for other controllers |
//! | [`ways`] | the kernel's way to single addresses, for controllers of programs without these tables |
//! | `decide`, `ports` | where packets to a prefix go; which port an interface is: pure functions |
//! | `kernel`, `prefix` | what is known of the kernel, and how it is told |
#![forbid(unsafe_code)]

mod application;
mod blocks;
mod command;
mod decide;
mod hops;
mod kernel;
pub mod lookup;
mod mirror;
mod ports;
mod prefix;
mod program;
#[cfg(test)]
mod recorded;
mod session;
mod settings;
mod state;
#[cfg(test)]
mod tests;
pub mod ways;

use cli::{Command, Linked};

pub use self::application::RoutesApplication;
pub use self::lookup::{Answer, Lookup, Route};

/// How a binary is linked with it.
pub const LINKED: Linked =
    Linked { application: &RoutesApplication, commands: &[Command::of::<command::Args>()], scene: None };
