//! Why a message could not be read.

/// What a message could not be read for: the status of the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused(pub u16);
