//! What texts of packets are made with, and what can be wrong with them.

use std::collections::BTreeMap;

/// Names that packet text may use: for packets, layers or field values.
pub type Definitions = BTreeMap<String, String>;

/// What is wrong with a packet's text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("column {column}: {problem}")]
pub struct PacketError {
    /// Column in characters, counted from 1.
    pub column: usize,
    /// What is wrong, and what is accepted.
    pub problem: String,
}

/// Longest packet that text may describe, in bytes.
pub const MAX_PACKET: usize = 65535;
