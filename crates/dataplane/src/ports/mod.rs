//! Ports: where packets come from and go to. One driver per file.
//!
//! A port has one queue per worker; a queue belongs to its worker and is never shared.
//!
//! `open` chooses the driver that a specification (`spec`) names. Imports run `open → a driver → queue → error`, so
//! drivers know nothing of each other, of workers or of the instance.

mod afpacket;
mod afxdp;
mod auto;
mod buffers;
mod capture;
mod count;
mod depth;
mod error;
mod fragments;
mod gso;
mod intake;
mod left_behind;
mod lock;
mod mem;
mod offloads;
mod open;
mod pcap;
mod pcapng;
mod queue;
mod spec;
mod tap;
mod tc;
mod up;

#[cfg(test)]
pub(crate) use afxdp::SPLITS;
pub use auto::best_hook;
pub use capture::{CaptureInput, Captured, Trace, TracePacket, read_trace};
pub(crate) use count::Count;
pub use depth::Depth;
pub use error::PortError;
pub use fragments::kernel_options;
pub use mem::{MemPort, MemSink};
pub(crate) use open::{Common, Extras, open};
pub(crate) use pcap::PcapOutput;
pub use pcapng::{PcapngOutput, PcapngPacket};
pub(crate) use queue::Opened;
pub use queue::{Queue, Sent};
pub use spec::{DRIVERS, Driver, Gso, OwnAddresses, PortSpec, SpecError};
