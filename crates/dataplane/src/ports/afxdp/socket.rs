//! A worker's socket at one queue of an interface: it receives, sends, or both.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use super::ring::{Consumer, Producer};
use super::sys as xsk;
use super::umem::{Bound, KernelFrames, MOST_PARTS, NOWHERE, Umem};
use crate::packets::{RxBatch, TxBatch};
use crate::ports::depth::Depth;
use crate::ports::queue::Sent;
use crate::sys::{self, Interface};

/// The packet goes on in the next descriptor.
const MORE: u32 = libc::XDP_PKT_CONTD;
/// In a transmit ring: nothing. The kernel passes over it, because the address lies behind every UMEM.
const NOTHING: libc::xdp_desc = libc::xdp_desc { addr: NOWHERE, len: 1, options: 0 };

/// What became of the kernel's being told to send.
#[derive(Debug)]
pub enum Kick {
    /// It has taken everything.
    Done,
    /// It takes the rest with the next call.
    Again,
    /// The interface is down or gone.
    Down,
    /// Something else.
    Failed(io::Error),
}

/// The receiving side.
#[derive(Debug)]
pub struct Incoming {
    pub fill: Producer<u64>,
    pub rx: Consumer<libc::xdp_desc>,
    /// Frames that the kernel has to receive into, and how many it is to have.
    pub posted: u32,
    pub target: u32,
}

/// A socket. Fields are dropped in their order: the frames come back when the socket is closed.
#[derive(Debug)]
pub struct Xsk {
    bound: Bound,
    incoming: Option<Incoming>,
    tx: Option<Producer<libc::xdp_desc>>,
    kernel_frames: Arc<KernelFrames>,
    umem: Arc<Umem>,
    /// Packets that the kernel has dropped, as last asked.
    dropped: u64,
}

impl Xsk {
    /// A bound socket with its rings. Posts frames to receive into.
    pub fn new(
        bound: Bound,
        incoming: Option<Incoming>,
        tx: Option<Producer<libc::xdp_desc>>,
        kernel_frames: Arc<KernelFrames>,
        umem: Arc<Umem>,
    ) -> Self {
        let mut socket = Xsk { bound, incoming, tx, kernel_frames, umem, dropped: 0 };
        let target = socket.incoming.as_ref().map_or(0, |incoming| incoming.target);
        let mut frames = vec![0; target as usize];
        let taken = socket.umem.pool().take(&mut frames);
        let mut frames = frames[..taken].iter().copied();
        socket.post(|| frames.next());
        socket
    }

    /// The socket.
    pub fn fd(&self) -> &OwnedFd {
        &self.bound.fd
    }

    /// What it is bound with.
    pub fn bound(&self) -> &Bound {
        &self.bound
    }

    /// The frames that the kernel has through its queue.
    pub fn kernel_frames(&self) -> &Arc<KernelFrames> {
        &self.kernel_frames
    }

    /// Whether it receives.
    pub fn receives(&self) -> bool {
        self.incoming.is_some()
    }

    /// Whether it sends.
    pub fn sends(&self) -> bool {
        self.tx.is_some()
    }

    /// How full its rings are. As many packets can wait as the kernel has frames to receive into.
    pub fn depth(&self) -> Depth {
        let (incoming, tx) = (self.incoming.as_ref(), self.tx.as_ref());
        Depth {
            rx: incoming.map_or(0, |incoming| incoming.rx.available()),
            rx_places: incoming.map_or(0, |incoming| incoming.target),
            tx: tx.map_or(0, Producer::unread),
            tx_places: tx.map_or(0, Producer::places),
        }
    }

    /// Packets that the kernel has dropped since the last time.
    pub fn newly_dropped(&mut self) -> u64 {
        let now = if self.receives() { xsk::dropped(self.fd()).unwrap_or(self.dropped) } else { 0 };
        let more = now.saturating_sub(self.dropped);
        self.dropped = now;
        more
    }

    /// Receives packets while there are some and the batch has room.
    pub fn receive(&mut self, batch: &mut RxBatch<'_>) {
        let Some(incoming) = &mut self.incoming else { return };
        let available = incoming.rx.available();
        let mut read = 0;
        while batch.room() > 0 && read < available {
            let first = incoming.rx.peek(read);
            let mut parts = 1;
            while first.options & MORE != 0
                && read + parts < available
                && incoming.rx.peek(read + parts - 1).options & MORE != 0
            {
                parts += 1;
            }
            if incoming.rx.peek(read + parts - 1).options & MORE != 0 {
                // The rest is yet to come.
                break;
            }
            let (frame, offset) = self.umem.place(first.addr);
            let rest = (read + 1..read + parts).map(|ahead| incoming.rx.peek(ahead));
            let len = rest.clone().fold(first.len as usize, |len, part| len + part.len as usize);
            let fits = offset + len <= self.umem.pool().frame_size() as usize;
            let mut end = offset + first.len as usize;
            for part in rest {
                let (other, from) = self.umem.place(part.addr);
                if fits {
                    // SAFETY: the kernel has given both back.
                    unsafe { self.umem.pool().copy((frame, end), (other, from), part.len as usize) };
                    end += part.len as usize;
                }
                self.kernel_frames.back(other);
                batch.give_back(other);
            }
            self.kernel_frames.back(frame);
            if fits {
                // SAFETY: the kernel has given the frame back, and the packet ends within it.
                unsafe { batch.take(frame, offset, len) };
            } else {
                batch.skip_oversize();
                batch.give_back(frame);
            }
            read += parts;
        }
        if read > 0 {
            incoming.rx.advance(read);
            incoming.rx.release();
            incoming.posted -= read;
        }
        if incoming.posted < incoming.target {
            self.post(|| batch.supply());
        }
    }

    /// Gives the kernel frames to receive into, up to its target.
    fn post(&mut self, mut supply: impl FnMut() -> Option<u32>) {
        let Some(incoming) = &mut self.incoming else { return };
        while incoming.posted < incoming.target
            && let Some(frame) = supply()
        {
            self.kernel_frames.lend(frame, 1);
            incoming.fill.write(self.umem.address(frame));
            incoming.posted += 1;
        }
        incoming.fill.publish();
        if incoming.fill.wants_wake() {
            xsk::wake(&self.bound.fd);
        }
    }

    /// Sends packets. What was not sent after all because the interface is down comes `back`.
    pub fn transmit(&mut self, batch: &mut TxBatch<'_>, device: &Interface, back: &mut Vec<u32>) -> (Sent, Kick) {
        let mut sent = Sent::default();
        let Some(tx) = &mut self.tx else { return (sent, Kick::Done) };
        let mut room = tx.room().min(self.kernel_frames.room());
        let (mut descriptors, mut tried) = (0, false);
        for index in 0..batch.len() {
            let packet = batch.packet(index);
            let len = packet.len();
            if !device.can_send(packet.head, len) {
                continue;
            }
            let is_shared = !packet.rest.is_empty();
            if is_shared
                && !self.bound.splits()
                && let Some(rest) = batch.gather(index)
                && self.umem.pool().let_go(rest)
            {
                back.push(rest);
            }
            let packet = batch.packet(index);
            let pieces = [packet.head, packet.rest].map(|piece| (self.umem.offset(piece), piece.len()));
            let pieces = pieces.map(|(address, len)| (address, len, self.umem.parts(address, len)));
            let parts: u32 = pieces.iter().map(|(.., parts)| *parts).sum();
            if parts > MOST_PARTS || (parts > 1 && !self.bound.scatter) {
                continue;
            }
            if parts > room && !tried {
                tried = true;
                self.kernel_frames.sending(std::mem::take(&mut descriptors));
                tx.publish();
                kick(&self.bound, tx);
                self.kernel_frames.reclaim(|frame| back.push(frame));
                room = tx.room().min(self.kernel_frames.room());
            }
            if parts > room {
                continue;
            }
            // Before the packet's own frame: this is in its descriptor.
            if let Some(rest) = batch.keep_rest(index) {
                self.kernel_frames.lend(rest, pieces[1].2);
            }
            self.kernel_frames.lend(batch.keep(index), pieces[0].2);
            let mut unwritten = len;
            for (mut at, mut left, _) in pieces {
                while left > 0 {
                    let part = left.min(self.umem.chunk() - at as usize % self.umem.chunk());
                    (left, unwritten) = (left - part, unwritten - part);
                    let options = if unwritten > 0 { MORE } else { 0 };
                    tx.write(libc::xdp_desc { addr: at, len: part as u32, options });
                    at += part as u64;
                }
            }
            room -= parts;
            descriptors += parts;
            sent.packets += 1;
            sent.bytes += len as u64;
        }
        self.kernel_frames.sending(descriptors);
        tx.publish();
        let outcome = self.kick(back, &mut sent);
        (sent, outcome)
    }

    /// Lets the kernel send what is in the ring. Where the interface is down, what it has not looked at comes `back`,
    /// and is not among those `sent`: it would be old news when the interface is up again.
    pub fn kick(&mut self, back: &mut Vec<u32>, sent: &mut Sent) -> Kick {
        let Some(tx) = &mut self.tx else { return Kick::Done };
        let outcome = kick(&self.bound, tx);
        // A driver that reads the ring itself may do so at any time.
        if matches!(outcome, Kick::Down) && !self.bound.zero_copy {
            let mut descriptors = 0;
            // The kernel looks at the ring only during our own system calls, but it may remember how far it is filled;
            // so the entries stay and mean nothing.
            tx.replace(|entry| {
                if entry.addr != NOWHERE {
                    descriptors += 1;
                    sent.packets = sent.packets.saturating_sub(usize::from(entry.options & MORE == 0));
                    sent.bytes = sent.bytes.saturating_sub(entry.len.into());
                    let (frame, _) = self.umem.place(entry.addr);
                    if self.kernel_frames.back(frame) {
                        back.push(frame);
                    }
                }
                NOTHING
            });
            self.kernel_frames.sent(descriptors);
        }
        outcome
    }
}

/// Lets the kernel send what is in a ring, as long as it takes something.
fn kick(bound: &Bound, tx: &Producer<libc::xdp_desc>) -> Kick {
    loop {
        let before = tx.unread();
        if before == 0 || !tx.wants_wake() {
            return Kick::Done;
        }
        let result = sys::kick(&bound.fd);
        match result.as_ref().map_err(io::Error::raw_os_error) {
            Ok(()) if bound.zero_copy => return Kick::Done,
            // Its share of a call is used up, its queue is full, or it has passed over one that means nothing.
            Ok(()) | Err(Some(libc::EAGAIN | libc::ENOBUFS | libc::EBUSY | libc::EINTR)) => {
                if tx.unread() == before {
                    return Kick::Again;
                }
            }
            Err(Some(libc::ENETDOWN | libc::ENXIO | libc::ENODEV)) => return Kick::Down,
            Err(_) => return Kick::Failed(result.expect_err("it is one")),
        }
    }
}

impl Drop for Xsk {
    fn drop(&mut self) {
        self.umem.forget(&self.bound.fd);
    }
}
