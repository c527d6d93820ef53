//! Why there is no stepper.

use crate::engine::EngineError;
use crate::packets::FrameError;
use crate::xdp::{KernelEngineError, PartitionError};

/// Why there is no stepper.
#[derive(Debug, thiserror::Error)]
pub enum StepError {
    /// The engine.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The kernel.
    #[error(transparent)]
    Kernel(#[from] KernelEngineError),
    /// As much of a program as the kernel takes.
    #[error(transparent)]
    Partition(#[from] PartitionError),
    /// The frames.
    #[error(transparent)]
    Frames(#[from] FrameError),
    /// No memory.
    #[error("the system refused memory for a worker: {0}")]
    Memory(#[from] std::io::Error),
}
