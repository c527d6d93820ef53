//! The user-space data plane: frames, ports, tables, workers and counters around a compiled program.
//!
//! An [`Instance`] runs one program: a worker polls the ports' queues, lets an [`Engine`] process each batch, and hands
//! the packets that leave the program to the ports' transmit queues. Tables are shared by all workers and the control
//! plane; look-ups take no lock.

mod access;
mod batch;
pub mod bench;
mod context;
pub mod controller;
mod counters;
mod crew;
mod engine;
mod epoch;
mod frames;
mod handover;
mod instance;
mod mtus;
mod observer;
pub mod ports;
mod repeated;
mod replay;
mod running;
pub mod step;
mod sweep;
mod sys;
mod tables;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod timer;
mod worker;
pub mod xdp;

pub use access::Access;
pub use batch::{Received, RxBatch, TxBatch};
pub use context::WorkerContext;
pub use counters::{CounterBlock, PortCounters};
pub use engine::{Engine, EngineError, EngineKind, InterpEngine, NativeEngine, RunFnEngine, TableAccess};
pub use epoch::{Epochs, Registration};
pub use frames::{FrameConfig, FrameError, FramePool};
pub use instance::{Instance, MAX_WORKERS, Next, Options, PortConfig, Prepared, ReloadError, Report, StartError};
pub use observer::{Observer, PortSnapshot, Snapshot, TimerSnapshot};
pub use replay::{Entries, ReplayError, ReplayReport, replay};
pub use tables::{Carried, TableChange, Tables, TablesError, bytes_of_entry};
pub use worker::PollMode;
