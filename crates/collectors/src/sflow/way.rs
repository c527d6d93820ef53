//! What becomes of a packet that was sampled as it came in.

use std::fmt::Debug;

/// Where a packet goes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Way {
    /// That is not known.
    #[default]
    Unknown,
    /// Out at ports with these numbers.
    Ports(Vec<u8>),
    /// To this machine itself.
    Own,
    /// Nowhere: it is dropped.
    Dropped,
}

/// Says where a packet goes that has come in at a port. Of a long packet the first bytes are there, and zeros.
pub type Follow = Box<dyn FnMut(u8, &[u8]) -> Way + Send>;

/// Knows what becomes of packets.
pub trait Ways: Debug + Send + Sync {
    /// What follows the packets of an agent.
    fn follow(&self) -> Follow;
}
