//! Programs in the kernel: their memory, loading, and running them for tests.
//!
//! Everything hangs on descriptors: when the process ends, however it does, nothing stays behind, unless it is to
//! outlast it ([`pins`]).
//!
//! A program's part is compiled and loaded as far as the kernel takes it (`partition`), over memory that it shares with
//! workers (`memory`). `fast_path` puts it at the ports' interfaces (`attach`) and exchanges it; until a large
//! one is verified, another one runs in its place (`stand_in`). `resume` says where workers go on with what it hands
//! over. Imports run `stand_in → fast_path → partition → load → memory → sys`, and for what
//! outlasts a process `previous, old_place → pins → bpf_fs → sys`.

mod attach;
mod bpf_fs;
mod engine;
mod failed;
mod fast_path;
mod front;
mod grace;
mod kernel_part;
mod load;
mod memory;
mod netlink;
mod old_place;
mod own_addresses;
mod partition;
mod pins;
mod previous;
mod redirect;
mod resume;
mod stand_in;
mod sys;
mod tap_ring;
#[cfg(test)]
mod tests;

pub(crate) use attach::{AttachError, Attached};
pub use engine::{KERNEL_FRAMES, KernelCode, KernelEngine, KernelEngineError};
pub(crate) use fast_path::worker_of;
pub use fast_path::{FastPath, NextPart, PortRole};
pub use front::{Copied, Copies, Front};
pub use kernel_part::{KernelPart, Progress};
pub use load::{LoadError, Loaded, Ran};
pub use memory::{MemoryError, SharedMemory};
pub(crate) use netlink::{Netlink, Peer, QueueStatistics, Statistics};
pub(crate) use own_addresses::OwnAddressSet;
pub(crate) use partition::partition_by;
pub use partition::{KernelAnswer, PartitionError, Partitioned, code, partition, partition_known};
pub use pins::forget;
pub(crate) use pins::left_by;
pub(crate) use redirect::Redirect;
pub(crate) use resume::{Onward, Resume};
pub use sys::send_live;
pub use sys::verification::{Verification, verification};
pub use tap_ring::{Taken, TapRing};
