//! Ports: where packets come from and go to. One driver per file.
//!
//! A port has one queue per worker; a queue belongs to its worker and is never shared.

mod afpacket;
mod afxdp;
mod auto;
mod capture;
mod lock;
mod mem;
mod offloads;
mod pcap;
mod spec;
mod tap;

use std::os::fd::RawFd;
use std::sync::Arc;

use crate::batch::{RxBatch, TxBatch};
use crate::counters::PortCounters;
use crate::frames::FramePool;
use crate::sys;
use crate::xdp::{FastPath, PortRole};
pub(crate) use afxdp::Count;
use afxdp::{Take, Umem};
use lock::InterfaceLock;

pub use capture::{CaptureInput, Captured, Trace, TracePacket, read_trace};
pub use mem::{MemPort, MemSink};
pub(crate) use pcap::PcapOutput;
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

    /// Sends packets, in order, without waiting. The frames that the driver does not take out of the batch are free when it
    /// returns: those of packets whose bytes it has copied, or could not send. Those after such a one are still tried.
    fn transmit(&mut self, batch: &mut TxBatch<'_>) -> Sent;

    /// Readable when there may be packets. `None`: no need to wait for this queue.
    fn wait_fd(&self) -> Option<RawFd> {
        None
    }

    /// Whether no packet will come any more.
    fn finished(&self) -> bool {
        false
    }

    /// Who counts packets and bytes where a fast path takes most of them: what comes here was handed over by it.
    fn count(&self) -> Option<Arc<Count>> {
        None
    }

    /// Called a few times per second and before the end: brings counters that the kernel keeps up to date.
    fn tick(&mut self, _counters: &PortCounters) {}

    /// Waits briefly until what was accepted is sent, and finishes. Reports what went wrong while running.
    fn close(&mut self) -> Result<(), PortError> {
        Ok(())
    }
}

/// Who gets the packets for an interface's own addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Own {
    /// The program, as all others.
    #[default]
    Program,
    /// The kernel's own stack, before anything else is done with them.
    Kernel,
}

/// What the ports of an instance share.
#[derive(Debug)]
pub(crate) struct Common {
    workers: usize,
    pool: Arc<FramePool>,
    umem: Arc<Umem>,
    /// What runs in the kernel, if anything.
    fast_path: Option<Arc<FastPath>>,
    /// Somebody else's XDP programs are replaced.
    replaces: bool,
    /// The instance's name.
    instance: String,
    /// Frames that drivers have besides the workers.
    reserved: u32,
}

impl Common {
    /// For ports with these drivers.
    pub fn new<'a>(
        workers: usize,
        pool: &Arc<FramePool>,
        fast_path: Option<Arc<FastPath>>,
        replaces: bool,
        instance: &str,
        drivers: impl Iterator<Item = &'a Driver>,
    ) -> Self {
        let with_sockets =
            |driver: &&Driver| matches!(driver, Driver::AfXdp { .. } | Driver::Xdp { .. } | Driver::Auto { .. });
        let ports = drivers.filter(with_sockets).count();
        let umem = Arc::new(Umem::new(pool.clone(), ports));
        let reserved = umem.per_port() * ports as u32;
        Common { workers, pool: pool.clone(), umem, fast_path, replaces, instance: instance.to_owned(), reserved }
    }

    /// Frames that drivers have besides the workers.
    pub fn reserved(&self) -> u32 {
        self.reserved
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

/// Opens a port with one queue per worker. The packets of a flow in one direction come to one of the queues, in order.
pub(crate) fn open(driver: &Driver, role: PortRole, own: Own, common: &Common) -> Result<Opened, PortError> {
    // A TAP device the kernel itself lets one process have.
    let interface = driver.interface().filter(|_| !matches!(driver, Driver::Tap { .. }));
    let lock = Arc::new(InterfaceLock::new(interface.unwrap_or_default(), &common.instance));
    // Of one that is not there the driver says so.
    let found = interface.and_then(|name| sys::interface(&sys::inet_socket().ok()?, name).ok());
    found.map_or(Ok(()), |interface| lock.wait(interface.index))?;
    open_locked(driver, role, own, common, &lock)
}

/// As [`open`], of an interface that is this instance's.
fn open_locked(
    driver: &Driver,
    role: PortRole,
    own: Own,
    common: &Common,
    lock: &Arc<InterfaceLock>,
) -> Result<Opened, PortError> {
    if own == Own::Kernel && !matches!(driver, Driver::AfXdp { .. }) {
        return Err(PortError(format!(
            "{driver}: its packets cannot be told apart for the kernel: `own = \"kernel\"` takes an afxdp port"
        )));
    }
    fn boxed<Q: Queue + 'static>(queues: Vec<Q>) -> Vec<Box<dyn Queue>> {
        queues.into_iter().map(|queue| Box::new(queue) as Box<dyn Queue>).collect()
    }
    let workers = common.workers;
    let afxdp = |take| {
        let (queues, about) = afxdp::AfXdp::open(lock, workers, &common.umem, take, common.replaces)?;
        Ok(Opened { queues: boxed(queues), about: Some(about), warnings: offloads::warnings(lock.interface(), false) })
    };
    let queues = match driver {
        Driver::Auto { interface } => return auto::open_best(interface, role, common, lock),
        Driver::Xdp { interface } => {
            let path = common.fast_path.clone().ok_or_else(|| {
                PortError(format!(
                    "{interface}: xdp takes a program that runs in the kernel, and this one runs on workers only: use \
                     afxdp:{interface} or auto:{interface}, or --engine xdp"
                ))
            })?;
            return afxdp(Take::HandedOver(path, role));
        }
        Driver::AfXdp { .. } => return afxdp(Take::All(own)),
        Driver::AfPacket { .. } => {
            let queues = boxed(afpacket::AfPacket::open(lock, workers, common.pool.max_packet())?);
            return Ok(Opened { queues, about: None, warnings: offloads::warnings(lock.interface(), true) });
        }
        Driver::Pcap { input, output } => boxed(pcap::PcapPort::open(input.as_deref(), output.as_deref(), workers)?),
        Driver::Tap { device } => boxed(tap::Tap::open(device, workers)?),
        Driver::Mem(port) => boxed(port.queues(workers)),
    };
    Ok(Opened { queues, about: None, warnings: Vec::new() })
}
