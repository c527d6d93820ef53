//! What of an instance outlasts its process: the entries of its tables and what its controllers keep beside them, in a
//! database in a directory (`--state DIR`).
//!
//! A start puts them back where a table is declared as it was. Entries of the configuration are treated as by a reload:
//! what the file has now and had not, or otherwise, is set, and what it has no more is removed; all else is as it was.
//!
//! | file | idea |
//! |---|---|
//! | `store` | the database: tables by name, with what they were declared as |
//! | `declared` | what tables were declared as |
//! | `restore` | entries put back at the start |
//! | `persister` | a thread that keeps it up to date |

mod declared;
mod persister;
mod restore;
mod store;
#[cfg(test)]
mod tests;

pub use self::declared::{Configured, StateError};
pub use self::persister::Persister;
pub use self::restore::{Restored, restore};
pub use self::store::Store;
