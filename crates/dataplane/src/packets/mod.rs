//! Packet memory: frames that packets lie in, what a worker has of them, and batches between drivers and engines.
//!
//! A driver fills a [`RxBatch`] with frames of the worker's [`WorkerContext`], which takes them from the [`FramePool`];
//! what leaves the program goes to a driver as a [`TxBatch`]. Imports run `access, batch → shared → context → frames ←
//! holders`.

mod access;
mod batch;
mod context;
mod frames;
mod holders;
mod shared;

pub use access::Access;
pub(crate) use access::LocalMemory;
pub use batch::{Received, RxBatch, TxBatch};
pub use context::WorkerContext;
pub use frames::{FrameConfig, FrameError, FramePool};
pub(crate) use frames::{group_frames, hold_frames, queue_frames};
pub use holders::FrameHolders;
pub(crate) use holders::{Holder, Holds};
pub use shared::Bytes;
