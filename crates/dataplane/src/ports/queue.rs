//! What a driver makes of a port: a queue for each worker.

use std::os::fd::RawFd;
use std::sync::Arc;

use super::count::Count;
use super::depth::Depth;
use super::error::PortError;
use crate::counters::PortCounters;
use crate::packets::{RxBatch, TxBatch};

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

    /// Sends packets, those of a flow in order, without waiting. The frames that the driver does not take out of the
    /// batch are free when it returns: those of packets whose bytes it has copied, or could not send. Those after such
    /// a one are still tried.
    fn transmit(&mut self, batch: &mut TxBatch<'_>) -> Sent;

    /// Readable when there may be packets. `None`: no need to wait for this queue.
    fn wait_fd(&self) -> Option<RawFd> {
        None
    }

    /// Whether no packet will come any more.
    fn finished(&self) -> bool {
        false
    }

    /// What counts packets and bytes where a fast path takes most of them: what comes here was handed over by it.
    fn count(&self) -> Option<Arc<Count>> {
        None
    }

    /// How full its rings are at this moment.
    fn depth(&self) -> Depth {
        Depth::default()
    }

    /// Called a few times per second and before the end: brings counters that the kernel keeps up to date.
    fn tick(&mut self, _counters: &PortCounters) {}

    /// Waits briefly until what was accepted is sent, and finishes. Reports what went wrong while running.
    fn close(&mut self) -> Result<(), PortError> {
        Ok(())
    }
}

/// An open port.
pub(crate) struct Opened {
    /// One per worker.
    pub queues: Vec<Box<dyn Queue>>,
    /// A line about how it works, where that depends on the system.
    pub about: Option<String>,
    /// What is likely wrong with the interface, one line each.
    pub warnings: Vec<String>,
}
