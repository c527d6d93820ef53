//! Subcommands of `millrace` about a running splicer.

mod servers;
mod sessions;

use cli::Command;

/// All of them.
pub const COMMANDS: &[Command] = &[Command::of::<servers::Args>(), Command::of::<sessions::Args>()];
