//! What goes wrong at ports.

/// A port could not be opened or failed while running. The text says what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PortError(pub String);
