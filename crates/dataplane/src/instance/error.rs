//! Why an instance does not start.

use super::options::MAX_WORKERS;
use crate::engine::EngineError;
use crate::packets::FrameError;
use crate::ports::PortError;

/// Why an instance does not start. One line each.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Two ports have one number.
    #[error("ports {0} and {1} both have number {2}: give each its own")]
    PortNumber(String, String, u8),
    /// Two ports have one name.
    #[error("two ports are named {0}: give each its own name")]
    PortName(String),
    /// A host port that is not there.
    #[error("port {0}: its host port has number {1}, but there is no such port")]
    HostPort(String, u8),
    /// A port could not be opened.
    #[error("port {0}: {1}")]
    Port(String, PortError),
    /// Not possible frames.
    #[error(transparent)]
    Frames(#[from] FrameError),
    /// No engine.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The fast path is not at the ports.
    #[error("the kernel's part of the program cannot be started: {0}")]
    FastPath(std::io::Error),
    /// A controller that is wired and was not given.
    #[error("the program is wired to a controller {0}, which is not there")]
    Controller(String),
    /// No or too many workers.
    #[error("{0} workers: use 1 to {most}", most = MAX_WORKERS)]
    Workers(usize),
    /// Not one CPU per worker.
    #[error("{cpus} CPUs are named for {workers} workers: name one for each, or none")]
    Cpus {
        /// Number of workers.
        workers: usize,
        /// Number of CPUs.
        cpus: usize,
    },
    /// Two workers on one CPU.
    #[error("CPU {0} is named twice: each worker needs its own")]
    CpuTwice(usize),
    /// More workers than CPUs.
    #[error("{workers} workers, but this process may use {cpus} CPUs: each worker needs its own, so use fewer")]
    FewCpus {
        /// Number of workers.
        workers: usize,
        /// Number of CPUs.
        cpus: usize,
    },
    /// No such CPU, or not for us.
    #[error("CPU {0}: cannot run a worker there: {1}")]
    Cpu(usize, std::io::Error),
    /// No memory or thread.
    #[error("the system refused memory or a thread for a worker: {0}")]
    Worker(#[from] std::io::Error),
}
