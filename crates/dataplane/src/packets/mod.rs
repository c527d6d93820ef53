//! Packet memory: frames that packets lie in, what a worker has of them, and batches between drivers and engines.
//!
//! A driver fills a [`RxBatch`] with frames of the worker's [`WorkerContext`], which takes them from the [`FramePool`];
//! what leaves the program goes to a driver as a [`TxBatch`]. What a sender has left [`Unfinished`], which a kernel
//! says or the packet itself ([`inferred`]), is written into frames as [`Segments`]. Imports run `access, batch →
//! shared → context → frames ← holders` and `batch → segments, inferred → layout, unfinished`.

mod access;
mod batch;
mod context;
mod frames;
mod holders;
mod inferred;
mod layout;
mod segments;
#[cfg(test)]
mod segments_tests;
mod shared;
mod unfinished;

pub use access::Access;
pub(crate) use access::LocalMemory;
pub use batch::{Received, RxBatch, TxBatch};
pub use context::WorkerContext;
pub use frames::{FrameConfig, FrameError, FramePool};
pub(crate) use frames::{group_frames, hold_frames, queue_frames};
pub use holders::FrameHolders;
pub(crate) use holders::{Holder, Holds};
pub use inferred::inferred;
pub use segments::Segments;
pub use shared::Bytes;
pub use unfinished::{Checksum, Cut, HEADER, Kind, Refused, Unfinished};
