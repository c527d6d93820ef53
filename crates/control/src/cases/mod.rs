//! Packet tests as data: `apps/NAME/cases/*.toml`.
//!
//! ```toml
//! description = "a packet for the other subnet is routed"
//! config = "../l3switch.toml"                 # optional; this is the default, with the program's name, if it is there
//! [controllers.firewall]                      # optional: settings of controllers, in place of the configuration's
//! rules = []
//! [ports.p3]                                  # optional: otherwise that of the configuration
//! mtu = 1400
//! [ports.p9]                                  # optional: one that the configuration has not
//! number = 9
//! [tables.l3_forward.neighbours]              # optional: more entries, or other values, than the configuration's
//! "10.0.2.13" = { mac = "02:00:00:00:00:13", heard = 0 }
//! [define]                                    # optional: names for packets, layers and values
//! h3 = "02:00:00:00:00:13"
//! [externs.balance]                           # what functions of controllers give
//! pick_server = 3
//! [[step]]                                    # in order, on one running program
//! note = "…"                                  # optional
//! in = { port = "p1", packet = "ether(dst=…)/…" }
//! out = [{ port = "p3", packet = "…" }]       # in order; "host" for the host; nothing where it is left out
//! [[step]]                                    # a controller injects a packet
//! in = { port = "controller arp -> l3_switch.input", packet = "…", metadata = { "tx.port" = 3 } }
//! out = [{ port = "controller arp", packet = "…" }]   # and one is handed to it
//! [[step]]
//! wait = "30s"                                # time goes on, and timers run; it stands still otherwise
//! drops = { no_route = 1 }                    # packets dropped in this step, by reason; none where it is left out
//! [after.tables.l3_forward.neighbours]        # optional: entries that must be there at the end
//! "10.0.1.11" = { mac = "02:00:00:00:00:11", heard = 1 }
//! [after.entries]                             # optional: how many entries tables must have at the end
//! l3_forward.neighbours = 1                   # of an array, those count that are not all zero
//! [after.counters]                            # optional: what the program's counters must have at the end
//! patch.bytes = 60                            # of one with several cells: { 3 = 60 }
//! ```
//!
//! | file | what it does |
//! |---|---|
//! | `case` | what a case says |
//! | `load`, `step` | case files to cases |
//! | `run` | a case on an engine |
//! | `suite` | cases by several variants: engines with access modes |
//! | `update` | a case file with what was found in place of what it expects |
//!
//! Paths are relative to the case file; packets are written as [`crate::packet`] says.

mod case;
mod load;
mod run;
mod step;
mod suite;
mod update;

pub use self::case::{Case, Enters, Leaving, Places, Step, To};
pub use self::load::{LoadError, Loader, files, load, load_all};
pub use self::run::{CaseFailure, Observed, observe, run, run_with};
pub use self::suite::{Kernel, Outcome, Suite, Variant};
pub use self::update::{UpdateError, updated};
