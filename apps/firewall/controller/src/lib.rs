//! The controller of `apps/firewall`: compiles the rules, installs them while flows go on, and logs denied packets.
//!
//! | file | what |
//! |---|---|
//! | `application` | what the firewall is to Millrace; `commands` are its subcommands |
//! | `run` | the running controller |
//! | `queries` | what it can be asked |
//! | `settings` | reads `[controllers.firewall]` |
//! | `rule` | a rule, and which rules are never reached |
//! | `compile` | rules to look-up tables; `addresses` and `services` are the classes of their fields, `rows` the array |
//! | `denied` | a denied packet as a line of the log |
//! | `flow`, `flows` | flows as the program has them, and as operators see them: `filter` says which, `rates` how fast |
//! | `counting` | when the program counts and records them |
//! | `record` | what a flow has carried, for collectors of IPFIX |
#![forbid(unsafe_code)]

mod addresses;
mod application;
mod commands;
mod compile;
mod counting;
mod denied;
mod filter;
mod flow;
mod flows;
mod queries;
mod rates;
mod record;
mod rows;
mod rule;
mod run;
mod services;
mod settings;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

use cli::Linked;

pub use self::application::{Firewall, FirewallApplication};

/// How a binary is linked with it.
pub const LINKED: Linked = Linked { application: &FirewallApplication, commands: commands::COMMANDS, scene: None };
