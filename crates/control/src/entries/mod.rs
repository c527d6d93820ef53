//! Entries of tables in natural notation, in files and for a running instance.
//!
//! | file | idea |
//! |---|---|
//! | `names` | names of ports |
//! | `value` | one number: integers, addresses, names, lists of ports |
//! | `tables` | `[tables]` of a file: which entry goes into which table |
//! | `entry` | one entry of a table by itself, read and shown as JSON, for a running instance |
//! | `fill` | entries on their way into tables |

mod entry;
mod fill;
mod names;
pub(crate) mod tables;
pub(crate) mod value;

pub use self::entry::{EntryError, EntryFault, Key, Notation, text, typed};
pub use self::fill::{FillError, fill};
pub use self::names::PortNames;
