//! The user-space data plane: frames, ports, tables, workers and counters around a compiled program.
//!
//! An [`Instance`] runs one program: a worker polls the ports' queues, lets an [`Engine`] process each batch, and hands
//! the packets that leave the program to the ports' transmit queues. Tables are shared by all workers and the control
//! plane; look-ups take no lock.
//!
//! Imports run one way, between folders and between files: each line of this table uses those below it.
//!
//! | folder | idea |
//! |---|---|
//! | `instance` | a program between ports: started, replaced by another one, ended |
//! | `offline` | a program without ports or threads: [`step`], [`replay()`], [`bench`] |
//! | `workers` | the loop over the ports' queues, a program on one worker, its timers, its replacement |
//! | `observer` | counters by name, summed up at each query |
//! | [`controller`] | what controllers are written against: packets through rings, tables by name |
//! | [`ports`] | drivers, one per file |
//! | [`xdp`] | the program's part in the kernel: loaded, attached, replaced |
//! | `engine` | what runs a program over a batch: machine code or the interpreter |
//! | `packets` | frames, the worker's context that machine code gets, batches, access modes |
//! | `tables` | tables in memory, shared by workers, the kernel and the control plane; epochs |
//! | `capture`, `sampling` | copies of packets as they come in, for who asks; samples of them for monitoring |
//! | `externs`, `counters` | functions of controllers as a program calls them; counters that workers write |
//! | [`rendezvous`] | requests between threads, and their answers |
//! | `wheel` | timers by number, in constant time: a controller's, and deadlines of table entries |
//! | `sys` | system calls |
//!
//! A received packet goes `ports → packets → engine → packets → ports`, driven by `workers`. A packet for a controller
//! leaves a worker by a ring of `controller`, and one that a controller injects comes back by another. What the
//! kernel's part hands over comes in by a port, and `xdp` says where the program goes on with it.

mod capture;
pub mod controller;
mod counters;
mod engine;
mod externs;
mod instance;
mod observer;
mod offline;
mod packets;
pub mod ports;
pub mod rendezvous;
pub mod sampling;
mod sys;
mod tables;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod wheel;
mod workers;
pub mod xdp;

pub use capture::{Capture, Captured};
pub use counters::{CounterBlock, PortCounters, WorkerCounters};
pub use engine::{Engine, EngineError, EngineKind, InterpEngine, NativeEngine, RunFnEngine, TableAccess};
pub use instance::{Instance, MAX_WORKERS, Next, Options, PortConfig, Prepared, ReloadError, Report, StartError};
pub use observer::{LookUpSnapshot, Observer, PortSnapshot, Snapshot, TimeSnapshot, TimerSnapshot, WorkerSnapshot};
pub use offline::{Entries, ReplayError, ReplayInput, ReplayOutputs, ReplayReport, bench, replay, step};
pub use packets::{
    Access, Bytes, Checksum, Cut, FrameConfig, FrameError, FrameHolders, FramePool, HEADER, Kind, Received, Refused,
    RxBatch, Segments, TxBatch, Unfinished, WorkerContext,
};
pub use sys::ethtool::{LinkMode, link_mode};
pub use sys::{give_way, is_trusted, join_group, monotonic_ns};
pub use tables::{Carried, Epochs, Registration, TableChange, Tables, TablesError, bytes_of_entry};
pub use workers::PollMode;
