//! Controllers: the part of an application that is not in its Baker program.
//!
//! A controller meets the data path in four ways and no other. It reads and changes **tables**; it receives the packets
//! of channels that are wired to it (`… -> controller NAME;`); it **injects** packets into inputs that are wired from
//! it (`controller NAME -> module.input;`); and it has the `extern` **functions** that the program calls. It runs on a
//! thread of its own, beside the workers, and nothing that it does keeps them waiting; but one whose packets take
//! microseconds may have workers work on them, which saves waking it ([`Link::receive_or_lend`]).
//!
//! ```
//! use std::time::Duration;
//! use dataplane::controller::{Controller, Event, ExternFn, Link};
//!
//! /// Sends each packet back, and notes its sender.
//! struct Mirror;
//!
//! impl Controller for Mirror {
//!     fn externs(&mut self) -> Vec<(String, ExternFn)> {
//!         vec![("mirror.is_odd".into(), Box::new(|numbers| numbers[0] & 1))]
//!     }
//!
//!     fn run(&mut self, link: &mut Link) -> Result<(), String> {
//!         let text = |error| format!("{error}");
//!         let back = link.input("mirror.back").map_err(text)?;
//!         let (rx, tx) = (link.field("rx.port").map_err(text)?, link.field("tx.port").map_err(text)?);
//!         let mut seen = link.tables().table::<[u8; 6], u64>("mirror.seen").map_err(text)?;
//!         loop {
//!             match link.receive(Duration::from_secs(1)) {
//!                 Event::Packet(packet) => {
//!                     let mac: [u8; 6] = packet.bytes()[6..12].try_into().expect("it is an Ethernet frame");
//!                     let times = seen.get(&mac).unwrap_or(0);
//!                     // Where the table is full it is not recorded, and where too many
//!                     // are under way it does not go back.
//!                     let _ = seen.set(&mac, &(times + 1));
//!                     let _ = link.inject(back, packet.bytes(), &[(tx, packet.metadata(rx))]);
//!                 }
//!                 Event::Timer(_) | Event::Room | Event::Idle => {}
//!                 Event::Stop => return Ok(()),
//!             }
//!         }
//!     }
//! }
//! ```

mod error;
mod events;
mod exchange;
mod groups;
mod health;
mod injector;
mod link;
mod loan;
mod metadata;
mod pace;
mod punted;
mod record;
mod rings;
mod several;
mod signal;
mod spare;
mod tables;
mod threads;
mod wheel;

pub use crate::externs::{ExternFn, ExternTable, MissingExterns};
pub use error::NameError;
pub use events::Events;
pub(crate) use exchange::Exchange;
pub use groups::Group;
pub(crate) use health::Roster;
pub use health::{ControllerSnapshot, ControllerState, MOST_DRAIN};
pub use injector::{InjectError, Injector, Input, Refused};
pub use link::{Event, Link, Waker};
pub use loan::Work;
pub use metadata::Field;
pub use pace::{PaceSnapshot, TimesSnapshot};
pub use punted::Punted;
pub use record::{Element, Key, Prefix, Record, fields_of};
pub(crate) use rings::{Pinning, Rings};
pub use rings::{PortInfo, Stop};
pub use several::run_per_worker;
pub use signal::LinkFd;
pub use tables::{NamedTables, Table};
pub(crate) use threads::{Controllers, Waiting};
pub use wheel::TICK;

/// How many links a controller has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Links {
    /// One, by which the packets of all workers come.
    #[default]
    One,
    /// One for each worker, which share its frames evenly. [`Controller::run`] gets that of the first, which has the
    /// others ([`Link::take_others`]); [`run_per_worker`] runs a thread for each.
    PerWorker,
}

/// A controller. See the [module](self) for an example.
pub trait Controller: Send {
    /// The functions that it has, by their names in the program: `module.function`. Asked for once, before it runs.
    fn externs(&mut self) -> Vec<(String, ExternFn)> {
        Vec::new()
    }

    /// How many links it has: always the same.
    fn links(&self) -> Links {
        Links::One
    }

    /// Runs, on a thread of its own, from the start of the instance until [`Event::Stop`]. Where it returns earlier
    /// without an error it has ended, and packets for it are dropped as `controller_gone`; the instance goes on.
    ///
    /// Where it fails, by an error of one line or by a panic, it is called again after a pause, which is longer each
    /// time that it fails in a row: with a link to the same program, and packets that were not looked at. Those that
    /// come in the pause are dropped as `controller_gone`. After a panic what belongs to the controller is as that has
    /// left it.
    ///
    /// Where another program takes over that has this controller, too, the link stops and this is called again, with a
    /// link to the new program. What is to outlast that belongs to the controller itself.
    fn run(&mut self, link: &mut Link) -> Result<(), String>;
}

/// A controller with its name in the program.
pub type Named = (String, Box<dyn Controller>);
