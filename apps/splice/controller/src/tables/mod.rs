//! Records of the program's tables: flow entries, next hops, own addresses.

pub mod answered;
pub mod flow_entry;
pub mod live;
pub mod local_addresses;
pub mod next_hops;
pub mod packed;
