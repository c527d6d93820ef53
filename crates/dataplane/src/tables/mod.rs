//! Tables as generated code reaches them: shared by all workers and the control plane, look-ups without a lock.
//!
//! Writers take the table's lock and publish with one aligned atomic store, so that a look-up sees either the old slot
//! or the new one. The control plane replaces the value of an entry as a whole, where it is more than one word: by a
//! new entry of a hash or lpm table, by a new copy of an array ([`array`]). What a program writes, through a pointer or
//! by inserting a key that is there, is written in place, and so are all entries of an array that a program writes:
//! each field of up to 8 bytes changes at once, but another worker's look-up at that moment may see some fields old and
//! others new.
//!
//! Imports run `runtime → deadlines, view → store → table → array, hash, lpm, trie`, from there to what these are made
//! of (`bucket`, `slots`, `entries`, `nodes`, `values`), and to memory (`space`) at the bottom. `layout` turns numbers
//! into bytes and back.

mod array;
mod bucket;
mod carry;
mod deadlines;
mod due;
mod entries;
mod epoch;
mod hash;
mod hold;
mod journal;
mod kept;
pub(crate) mod layout;
mod lock;
mod lpm;
mod members;
mod meter;
mod nodes;
mod runtime;
mod shared;
mod slots;
mod space;
mod staging;
mod store;
mod table;
mod trie;
mod values;
mod view;

pub use bucket::bytes_of_entry;
pub use carry::{Carried, carried};
pub(crate) use deadlines::Deadlines;
pub(crate) use epoch::MAX_READERS;
pub use epoch::{Epochs, Registration};
pub(crate) use hold::{Frames, HoldTable};
pub use journal::TableChange;
pub use members::NextMember;
pub(crate) use space::{Block, Shared, Space, Use};
pub use store::Tables;
pub use table::TablesError;
pub use view::View;

#[cfg(test)]
mod concurrent_tests;
#[cfg(test)]
mod tests;
