//! Why a replay failed.

use crate::engine::EngineError;
use crate::packets::FrameError;
use crate::ports::PortError;

/// Why a replay failed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// A capture file.
    #[error(transparent)]
    File(#[from] PortError),
    /// The engine.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The frames.
    #[error(transparent)]
    Frames(#[from] FrameError),
    /// No memory.
    #[error("the system refused memory for a worker: {0}")]
    Memory(#[from] std::io::Error),
    /// On which port a packet comes in can't be said.
    #[error("{0}")]
    Entry(String),
    /// Filling the tables failed.
    #[error("{0}")]
    Tables(String),
}
