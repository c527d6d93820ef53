//! Network interfaces with the fast path at traffic control's ingress, on the kernel's own packets: hosts keep their
//! offloads.
//!
//! What the fast path hands over does not come in here: the kernel's program puts it into the ring of a worker
//! ([`crate::xdp::TapRing`]), whatever port it came in by. So a queue only sends, by a packet socket that receives
//! nothing. Its packets go through the interface's queueing discipline, as those do that the fast path sends. What a
//! batch has of a flow leaves as a super-packet, by a socket of its own ([`gso`]), whatever the interface does with
//! it: the fast path sends super-packets there, too.
//!
//! What happens to an interface that is down or gone is as for AF_PACKET.

mod port;

use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::time::Duration;

use codegen::abi::MAX_BATCH;

use self::port::{InterfaceCheck, Port};
use super::buffers::enlarge_sending;
use super::count::Count;
use super::error::{PortError, is_denied};
use super::gso::{self, Joiner, Outcome};
use super::lock::InterfaceLock;
use super::queue::{Queue, Sent};
use super::spec::Gso;
use crate::counters::PortCounters;
use crate::packets::{Bytes, RxBatch, TxBatch};
use crate::sys::{self, Interface, Messages, Repeated};
use crate::xdp::{FastPath, PortRole};

/// Between two looks for what has changed at an interface.
const WATCH: Duration = Duration::from_millis(100);
/// Packets of a call, and pieces of each.
const WINDOW: usize = if MAX_BATCH < gso::WINDOW { MAX_BATCH } else { gso::WINDOW };
const PIECES: usize = 2;

/// What one worker sends by at an interface.
pub struct Tc {
    interface: String,
    device: Interface,
    port: Arc<Port>,
    socket: OwnedFd,
    messages: Messages,
    /// Where it sends super-packets.
    joiner: Option<Joiner>,
    /// Whether it is to.
    gso: Gso,
    /// Why packets can't pass just now.
    trouble: Option<String>,
    /// The latest of other errors.
    error: Option<String>,
    /// What looks at the interface, aside of all workers; the first one's.
    _watch: Option<Repeated>,
}

impl Tc {
    /// Opens an interface for a number of workers. Also gives a line about how it works.
    pub fn open(
        lock: &Arc<InterfaceLock>,
        workers: usize,
        path: Arc<FastPath>,
        (role, gso): (PortRole, Gso),
    ) -> Result<(Vec<Self>, String), PortError> {
        let interface = lock.interface();
        let (port, device, about) = Port::open(lock.clone(), path, role)?;
        let port = Arc::new(port);
        let watched = port.clone();
        let watch = Repeated::start("watch", WATCH, move || watched.watch());
        let mut watch = Some(watch.map_err(|e| PortError(format!("{interface}: cannot be watched: {e}")))?);
        let queue = |_| {
            let socket = socket(interface, device.index)?;
            Ok(Tc {
                interface: interface.to_owned(),
                device,
                port: port.clone(),
                socket,
                messages: Messages::new(WINDOW, WINDOW * PIECES),
                joiner: joiner(gso, device.index),
                gso,
                trouble: None,
                error: None,
                _watch: watch.take(),
            })
        };
        Ok(((0..workers).map(queue).collect::<Result<_, _>>()?, about))
    }

    /// Sends these packets of a batch with others of their flows in one, where there are such; whether it did.
    fn send_joined(&mut self, batch: &TxBatch<'_>, packets: Range<usize>, sent: &mut Sent) -> bool {
        let (device, start) = (self.device, packets.start);
        let fits = |packet: Bytes<'_>| device.can_send(packet.head, packet.len());
        let Some(joiner) = &mut self.joiner else { return false };
        if !joiner.joins(batch, start, packets.len(), fits) {
            return false;
        }
        let mut outcome = joiner.send(batch, start, sent);
        while outcome == Outcome::Dropped {
            outcome = joiner.pass_over(sent);
        }
        if let Some(error) = joiner.error.take() {
            self.error = Some(format!("{}: cannot send: {error}", self.interface));
        }
        if outcome == Outcome::Full
            && let Some(joiner) = self.joiner.take()
        {
            // The kernel may not know such super-packets.
            self.send_some(batch, &mut joiner.rest().map(|number| start + number), sent);
            self.joiner = Some(joiner);
        }
        true
    }

    /// Sends packets of a batch, at most as many as fit into a call.
    fn send_some(&mut self, batch: &TxBatch<'_>, packets: &mut dyn Iterator<Item = usize>, sent: &mut Sent) {
        let (mut lens, mut count) = ([0; WINDOW], 0);
        self.messages.clear();
        for packet in packets.map(|index| batch.packet(index)) {
            // The kernel would say so of each, and stop there.
            if self.device.can_send(packet.head, packet.len()) {
                self.messages.begin();
                self.messages.push(packet.head);
                self.messages.push(packet.rest);
                lens[count] = packet.len();
                count += 1;
            }
        }
        // Whether the one before was not taken, for a reason that is not known: the kernel says that of a call's first
        // alone, and to ask for it would be to send that packet again. It is taken to be that of the one behind it.
        let (mut done, mut stopped) = (0, false);
        while done < count {
            // SAFETY: the pieces are bytes of the batch's packets, which is borrowed.
            match unsafe { self.messages.send(&self.socket, done) } {
                Ok(taken) => {
                    sent.packets += taken + usize::from(stopped);
                    sent.bytes += lens[done..done + taken].iter().sum::<usize>() as u64;
                    done += taken;
                    stopped = done < count;
                    done += usize::from(stopped);
                }
                // The queueing discipline or the device has dropped it, and counts that itself ([`Count::failed`]).
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {
                    sent.packets += 1 + usize::from(stopped);
                    stopped = false;
                    done += 1;
                }
                Err(error) => {
                    stopped = false;
                    if !self.goes_on(&error) {
                        break;
                    }
                    // Of those behind it the kernel has said nothing.
                    done += 1;
                }
            }
        }
        sent.packets += usize::from(stopped);
    }

    /// Whether further packets are worth a try after an error.
    #[cold]
    fn goes_on(&mut self, error: &io::Error) -> bool {
        match error.raw_os_error() {
            // The MTU has shrunk since it was looked at.
            Some(libc::EINTR | libc::EMSGSIZE) => true,
            // The socket's buffer is full, or the interface is down: what is to be sent now would be old news.
            Some(libc::EAGAIN | libc::ENETDOWN | libc::ENXIO | libc::ENODEV) => false,
            _ => {
                self.error = Some(format!("{}: cannot send: {error}", self.interface));
                true
            }
        }
    }

    /// Looks at the interface: whether packets can pass, and if not, why.
    fn look(&mut self) {
        // Of one that is gone, another one may have the index.
        let index = sys::bound_interface(&self.socket).unwrap_or_default();
        self.trouble = match self.port.look(index) {
            InterfaceCheck::Same(now) => {
                self.device = now;
                None
            }
            InterfaceCheck::New(now) => self.use_interface(now).err().map(|error| error.0),
            InterfaceCheck::Trouble(what) => Some(what),
        };
    }

    /// Goes over to the interface that has the name now.
    #[cold]
    fn use_interface(&mut self, now: Interface) -> Result<(), PortError> {
        let socket = socket(&self.interface, now.index)?;
        // The worker waits for the descriptor by its number.
        sys::put_in_place(&socket, &self.socket)
            .map_err(|error| PortError(format!("{}: cannot be opened again: {error}", self.interface)))?;
        self.device = now;
        self.joiner = joiner(self.gso, now.index);
        Ok(())
    }
}

/// The socket for super-packets to an interface. Where there is none they leave one by one.
fn joiner(gso: Gso, index: i32) -> Option<Joiner> {
    (gso != Gso::Off).then(|| Joiner::open(index, gso::knows_udp()).ok()).flatten()
}

/// A socket that sends by an interface.
fn socket(interface: &str, index: i32) -> Result<OwnedFd, PortError> {
    let socket = sys::packet_socket().and_then(|socket| sys::bind_to_send(&socket, index).map(|()| socket));
    let socket = socket.map_err(|error| match is_denied(&error) {
        true => port::no_permission(interface),
        false => PortError(format!("{interface}: no packet socket: {error}")),
    })?;
    enlarge_sending(&socket);
    Ok(socket)
}

impl Queue for Tc {
    fn receive(&mut self, _batch: &mut RxBatch<'_>) {}

    fn transmit(&mut self, batch: &mut TxBatch<'_>) -> Sent {
        let mut sent = Sent::default();
        for start in (0..batch.len()).step_by(WINDOW) {
            let packets = start..batch.len().min(start + WINDOW);
            if !self.send_joined(batch, packets.clone(), &mut sent) {
                self.send_some(batch, &mut packets.into_iter(), &mut sent);
            }
        }
        sent
    }

    /// Never readable, but for an error: packets come by the worker's ring.
    fn wait_fd(&self) -> Option<RawFd> {
        Some(self.socket.as_raw_fd())
    }

    fn tick(&mut self, counters: &PortCounters) {
        // A pending error would make every poll return at once.
        let _ = sys::take_socket_error(&self.socket);
        self.joiner.iter_mut().for_each(|joiner| joiner.tick(counters));
        self.look();
        counters.set_error(self.trouble.as_ref().or(self.error.as_ref()));
    }

    fn count(&self) -> Option<Arc<Count>> {
        Some(self.port.count().clone())
    }

    fn close(&mut self) -> Result<(), PortError> {
        self.look();
        self.port.count().close();
        self.trouble.take().or(self.error.take()).map_or(Ok(()), |error| Err(PortError(error)))
    }
}
