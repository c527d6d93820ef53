//! Network interfaces through AF_XDP (Documentation/networking/af_xdp.rst): a small XDP program hands all packets of
//! the interface to workers before the kernel's own stack sees them.
//!
//! The frames of the instance are the kernel's UMEM ([`umem`]), so a packet is forwarded by its frame's number alone.
//! Each queue of the interface has a socket of one worker ([`plan`]), so a flow stays in order as far as the interface
//! keeps its packets in one queue. Everything hangs on descriptors: when the process ends, however it does, the program
//! and the sockets are gone.
//!
//! Half of the frames belong to these ports: those that the kernel has to receive into, and those that it has yet to
//! send. What a worker receives it replaces; what was sent comes back through the completion ring. Since both numbers
//! are bounded, no ring can run over, and no port can take the frames of the others.
//!
//! What happens to an interface that is down or gone is as for AF_PACKET.
//!
//! A port with a fast path has that in the place of the small program ([`entry`]); its sockets get what the fast path
//! hands over.

mod entry;
mod plan;
mod port;
mod ring;
mod socket;
mod sys;
mod umem;

use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

pub(crate) use entry::Take;
use port::{InterfaceCheck, Port};
use socket::{Kick, Xsk};
#[cfg(test)]
pub(crate) use umem::SPLITS;
pub(crate) use umem::Umem;

use super::count::Count;
use super::depth::Depth;
use super::error::PortError;
use super::lock::InterfaceLock;
use super::queue::{Queue, Sent};
use crate::counters::PortCounters;
use crate::packets::{RxBatch, TxBatch};
use crate::sys::{Interface, Repeated};
use crate::xdp::Netlink;

/// Between two looks for what has changed at an interface.
const WATCH: Duration = Duration::from_millis(100);

/// One worker's sockets at an interface.
pub struct AfXdp {
    interface: String,
    device: Interface,
    /// What all workers share, and which this one is.
    port: (Arc<Port>, usize),
    /// Readable while one of the sockets is.
    epoll: OwnedFd,
    sockets: Vec<Xsk>,
    /// The socket that packets are taken from first.
    first: usize,
    /// Frames that came back outside of a batch.
    back: Vec<u32>,
    umem: Arc<Umem>,
    /// The kernel took less than the ring holds: try again.
    unsent: bool,
    /// Why packets can't pass just now.
    trouble: Option<String>,
    /// The latest of other errors.
    error: Option<String>,
    /// What looks at the interface, aside of all workers; the first one's.
    _watch: Option<Repeated>,
}

impl AfXdp {
    /// Opens an interface for a number of workers, in place of another owner's XDP program if it `replaces`. Also gives
    /// a line about how it works.
    pub fn open(
        lock: &Arc<InterfaceLock>,
        workers: usize,
        umem: &Arc<Umem>,
        take: Take,
        replaces: bool,
    ) -> Result<(Vec<Self>, String), PortError> {
        let interface = lock.interface();
        let port = Arc::new(Port::open(lock.clone(), workers, umem.clone(), take, replaces)?);
        let about = port.about();
        let watched = port.clone();
        let watch = Netlink::new().and_then(|own| Repeated::start("watch", WATCH, move || watched.watch(&own)));
        let mut watch = Some(watch.map_err(|e| PortError(format!("{interface}: cannot be watched: {e}")))?);
        let queue = |worker| {
            let (device, sockets) = port.take(worker)?;
            let epoll = sys::epoll().map_err(|e| PortError(format!("{interface}: cannot be waited for: {e}")))?;
            let mut queue = AfXdp {
                interface: interface.to_owned(),
                device,
                port: (port.clone(), worker),
                epoll,
                sockets: Vec::new(),
                first: 0,
                // Room for all, so that it never grows.
                back: Vec::with_capacity(umem.pool().count() as usize),
                umem: umem.clone(),
                unsent: false,
                trouble: None,
                error: None,
                _watch: watch.take(),
            };
            queue.use_sockets(device, sockets)?;
            Ok(queue)
        };
        Ok(((0..workers).map(queue).collect::<Result<_, _>>()?, about))
    }

    /// Goes over to the sockets of another interface.
    fn use_sockets(&mut self, device: Interface, sockets: Vec<Xsk>) -> Result<(), PortError> {
        (self.device, self.sockets, self.first, self.unsent) = (device, sockets, 0, false);
        for socket in self.sockets.iter().filter(|socket| socket.receives()) {
            let watched = sys::watch(&self.epoll, socket.fd());
            watched.map_err(|e| PortError(format!("{}: cannot be waited for: {e}", self.interface)))?;
        }
        Ok(())
    }

    /// Takes the frames back that were sent.
    fn reclaim(&mut self) {
        for socket in &self.sockets {
            socket.kernel_frames().reclaim(|frame| self.back.push(frame));
        }
    }

    /// Lets the kernel send what it did not take before.
    fn kick(&mut self) {
        if let Some(socket) = self.sockets.iter_mut().find(|socket| socket.sends()) {
            let outcome = socket.kick(&mut self.back, &mut Sent::default());
            self.note(outcome);
        }
    }

    fn note(&mut self, outcome: Kick) {
        self.unsent = matches!(outcome, Kick::Again);
        if let Kick::Failed(error) = outcome {
            self.error = Some(format!("{}: cannot send: {error}", self.interface));
        }
    }

    /// Looks at the interface: whether packets can pass, and if not, why.
    fn look(&mut self) {
        let (port, worker) = &self.port;
        self.trouble = match port.look(*worker, self.device.index) {
            InterfaceCheck::Same(now) => {
                self.device = now;
                None
            }
            InterfaceCheck::New(now, sockets) => self.use_sockets(now, sockets).err().map(|error| error.0),
            InterfaceCheck::Trouble(what) => Some(what),
        };
    }
}

impl Queue for AfXdp {
    fn receive(&mut self, batch: &mut RxBatch<'_>) {
        self.reclaim();
        self.back.drain(..).for_each(|frame| batch.give_back(frame));
        batch.keep_to_share();
        if self.unsent {
            self.kick();
        }
        // Each queue comes first in turn, so that none waits for the others.
        let (before, after) = self.sockets.split_at_mut(self.first);
        after.iter_mut().chain(before).for_each(|socket| socket.receive(batch));
        self.first = if self.first + 1 < self.sockets.len() { self.first + 1 } else { 0 };
    }

    fn transmit(&mut self, batch: &mut TxBatch<'_>) -> Sent {
        let Some(socket) = self.sockets.iter_mut().find(|socket| socket.sends()) else { return Sent::default() };
        let (sent, outcome) = socket.transmit(batch, &self.device, &mut self.back);
        self.note(outcome);
        sent
    }

    fn wait_fd(&self) -> Option<RawFd> {
        Some(self.epoll.as_raw_fd())
    }

    fn depth(&self) -> Depth {
        self.sockets.iter().fold(Depth::default(), |sum, socket| sum + socket.depth())
    }

    fn tick(&mut self, counters: &PortCounters) {
        let dropped = self.sockets.iter_mut().map(Xsk::newly_dropped).sum();
        counters.rx_dropped.fetch_add(dropped, Ordering::Relaxed);
        self.look();
        counters.set_error(self.trouble.as_ref().or(self.error.as_ref()));
    }

    fn count(&self) -> Option<Arc<Count>> {
        self.port.0.count().cloned()
    }

    fn close(&mut self) -> Result<(), PortError> {
        let until = Instant::now() + Duration::from_millis(200);
        loop {
            self.kick();
            self.reclaim();
            if self.sockets.iter().all(|socket| socket.kernel_frames().is_done()) || Instant::now() >= until {
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        self.look();
        self.port.0.count().into_iter().for_each(|count| count.close());
        self.trouble.take().or(self.error.take()).map_or(Ok(()), |error| Err(PortError(error)))
    }
}

impl Drop for AfXdp {
    fn drop(&mut self) {
        self.umem.pool().put_back(&self.back);
    }
}
