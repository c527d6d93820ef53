//! The controller of `apps/firewall`: compiles the rules, installs them while flows go on, and logs denied packets.
//!
//! | file | what |
//! |---|---|
//! | `application` | the controller, and what it is to Millrace |
//! | `settings` | reads `[controllers.firewall]` |
//! | `rule` | a rule, and which rules are never reached |
//! | `compile` | rules to look-up tables; `addresses` and `services` are the classes of their fields, `rows` the array |
//! | `denied` | a denied packet as a line of the log |
#![forbid(unsafe_code)]

mod addresses;
mod application;
mod compile;
mod denied;
mod rows;
mod rule;
mod services;
mod settings;
#[cfg(test)]
mod tests;

use cli::Linked;

pub use self::application::{Firewall, FirewallApplication};

/// How a binary is linked with it.
pub const LINKED: Linked = Linked::new(&FirewallApplication);
