//! Ports: where packets come from and go to. One driver per file.
//!
//! A port has one queue per worker; a queue belongs to its worker and is never shared.

mod afpacket;
mod capture;
mod mem;
mod pcap;
mod spec;
mod tap;

use std::os::fd::RawFd;

use crate::context::{RxBatch, TxBatch};
use crate::counters::PortCounters;

pub use capture::{TracePacket, read_trace};
pub use mem::{MemPort, MemSink};
pub(crate) use pcap::{PcapInput, PcapOutput};
pub use spec::{DRIVERS, Driver, PortSpec, SpecError};

/// A port could not be opened or failed while running. The text says what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PortError(pub String);

/// What a driver sent of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Packets sent. The rest of the batch could not be.
    pub packets: usize,
    /// Their bytes.
    pub bytes: u64,
}

/// One worker's queue of a port: what a driver implements.
pub trait Queue: Send {
    /// Receives packets while there are some and the batch has room.
    fn receive(&mut self, batch: &mut RxBatch<'_>);

    /// Sends packets, in order, without waiting. Their bytes are copied: the frames are free when it returns. A packet
    /// that cannot be sent is left out; those after it are still tried.
    fn transmit(&mut self, batch: &TxBatch<'_>) -> Sent;

    /// Readable when there may be packets. `None`: no need to wait for this queue.
    fn wait_fd(&self) -> Option<RawFd> {
        None
    }

    /// Whether no packet will come any more.
    fn finished(&self) -> bool {
        false
    }

    /// Called a few times per second and before the end: brings counters that the kernel keeps up to date.
    fn tick(&mut self, _counters: &PortCounters) {}

    /// Waits briefly until what was accepted is sent, and finishes. Reports what went wrong while running.
    fn close(&mut self) -> Result<(), PortError> {
        Ok(())
    }
}

/// Opens a port with one queue per worker, for packets of up to `max_packet` bytes. The packets of a flow, in either
/// direction, come to one of the queues, in order.
pub fn open(driver: &Driver, workers: usize, max_packet: usize) -> Result<Vec<Box<dyn Queue>>, PortError> {
    fn boxed<Q: Queue + 'static>(queues: Vec<Q>) -> Vec<Box<dyn Queue>> {
        queues.into_iter().map(|queue| Box::new(queue) as Box<dyn Queue>).collect()
    }
    Ok(match driver {
        Driver::AfPacket { interface } => boxed(afpacket::AfPacket::open(interface, workers, max_packet)?),
        Driver::Pcap { input, output } => boxed(pcap::PcapPort::open(input.as_deref(), output.as_deref(), workers)?),
        Driver::Tap { device } => boxed(tap::Tap::open(device, workers)?),
        Driver::Mem(port) => boxed(port.queues(workers)),
    })
}
