//! What subcommands of `millrace` have in common, also those that applications bring, and how a binary is linked with
//! applications.
//!
//! | module | what |
//! |---|---|
//! | [`linked`] | an application as a binary is linked with it: controller, subcommands, scene of the demo |
//! | [`failure`] | why a command failed, and the exit status |
//! | [`output`] | standard output |
//! | [`report`], [`metrics`] | counters and metrics as a person reads them |
//! | [`remote`] | a running instance, asked |
//! | [`examples`] | examples in the help of commands |
//! | [`arguments`] | arguments of several subcommands |
//! | [`watch`], [`listing`] | what is shown again and again, and lists among that |
#![forbid(unsafe_code)]

pub mod arguments;
pub mod examples;
pub mod failure;
pub mod linked;
pub mod listing;
pub mod metrics;
pub mod output;
pub mod remote;
pub mod report;
pub mod watch;

pub use self::failure::Failure;
pub use self::linked::{Command, Linked, Scene, Subcommand};
