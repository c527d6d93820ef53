//! Subcommands of `millrace` about a running firewall.

mod flows;

use cli::Command;

/// All of them.
pub const COMMANDS: &[Command] = &[Command::of::<flows::Args>()];
