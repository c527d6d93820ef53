//! What generated code calls of the tables.

use codegen::abi::Runtime;

use super::store::Tables;
use super::{deadlines, hash, hold, meter, trie};

impl Tables {
    /// The functions that generated code calls.
    pub fn runtime() -> Runtime {
        Runtime {
            hash_lookup: hash::lookup,
            hash_insert: hash::write::insert,
            hash_remove: hash::write::remove,
            lpm_lookup: trie::lookup,
            hold_put: hold::put,
            hold_get: hold::get,
            meter_take: meter::take,
            deadline_set: deadlines::set,
            deadline_take: deadlines::take,
        }
    }
}
