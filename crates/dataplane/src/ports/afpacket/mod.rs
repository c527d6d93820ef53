//! Network interfaces through AF_PACKET with memory-mapped rings. Works unprivileged inside a user namespace.
//!
//! Rings are TPACKET_V2 (Documentation/networking/packet_mmap.rst): a slot per packet, visible as soon as it arrives.
//! TPACKET_V3 packs packets into blocks but hands a block over only when it is full or after at least a millisecond,
//! which every packet of a quiet connection would wait for, at every hop.
//!
//! The kernel strips VLAN tags on receipt; they are put back. It shows a transmit ring's packets to the device in
//! order. Where they have a header (see below) it compares none with the MTU, so those that are longer are sorted out
//! before; where the MTU shrinks, the device sends or drops what is too long until that is noticed. What the kernel
//! refuses for another reason it skips (PACKET_LOSS) in place of stopping there.
//!
//! The kernel says in front of each packet what its sender has left to be done (`PACKET_VNET_HDR`), and that is done on
//! the way into frames ([`super::intake`]). Slots are as long as frames. What is longer, such as a super-packet, waits
//! whole in the socket's own queue, in the order of the slots that its beginnings are in (`TP_STATUS_COPY`): slots for
//! all that may come would take 64 KiB for each packet, and one call for 64 KiB costs little.
//!
//! Where a batch has several packets of a flow, they go to the kernel as one: see [`gso`](super::gso).
//!
//! While an interface is down or gone, what is to be sent fails at once: it would be old news when the interface is
//! back. An interface that comes up again is used again; for one that is made again under its name each worker opens a
//! new socket.

mod device;
mod long;
mod share;
mod socket;

use std::io;
use std::mem::size_of;
use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use libc::{TPACKET_ALIGNMENT, tpacket2_hdr};
use long::Long;
use share::Share;
use socket::{RING_BYTES, Socket};

use super::depth::{Depth, taken};
use super::error::PortError;
use super::gso::{Joiner, Outcome, PLAIN, WINDOW};
use super::intake::Intake;
use super::lock::InterfaceLock;
use super::queue::{Queue, Sent};
use super::spec::Gso;
use super::up::interface_up;
use crate::counters::PortCounters;
use crate::packets::{Bytes, HEADER, RxBatch, TxBatch};
use crate::sys::{self, Interface, Mapping, TAG};

/// What the kernel puts in front of a packet in a slot, and room for a VLAN tag, rounded up.
const SLOT_HEADER: usize = 128;

/// One worker's queue of an interface.
pub struct AfPacket {
    interface: String,
    device: Interface,
    socket: OwnedFd,
    rings: Mapping,
    slot_size: usize,
    slots: usize,
    rx_next: usize,
    tx_next: usize,
    /// The device took less than the ring holds: send again.
    unsent: bool,
    /// Where it sends super-packets.
    joiner: Option<Joiner>,
    /// Whether it is to.
    gso: Gso,
    /// The sockets of all workers, and which this one is.
    share: (Arc<Share>, usize),
    lock: Arc<InterfaceLock>,
    intake: Intake,
    long: Long,
    /// Why packets can't pass just now.
    trouble: Option<String>,
    /// The latest of other errors.
    error: Option<String>,
}

impl AfPacket {
    /// Opens an interface for packets of up to `max_packet` bytes, with a socket for each worker; and a line about its
    /// super-packets.
    pub fn open(
        lock: &Arc<InterfaceLock>,
        workers: usize,
        max_packet: usize,
        gso: Gso,
    ) -> Result<(Vec<Self>, Option<String>), PortError> {
        let interface = lock.interface();
        // The largest packet that a frame can hold, or the largest that the interface can get; a slot holds either.
        let slot_size = (max_packet + SLOT_HEADER).next_power_of_two().max(2048);
        let share = Arc::new(Share::new(workers));
        let mut about = None;
        let open = |worker| {
            let Socket { fd, rings, device } = join(interface, slot_size, &share, worker)?;
            let joiner;
            (joiner, about) = device::joiner(&fd, interface, device.index, gso);
            Ok(AfPacket {
                interface: interface.to_owned(),
                device,
                socket: fd,
                rings,
                slot_size,
                slots: RING_BYTES / slot_size,
                rx_next: 0,
                tx_next: 0,
                unsent: false,
                joiner,
                gso,
                intake: Intake::default(),
                long: Long::new(),
                share: (share.clone(), worker),
                lock: lock.clone(),
                trouble: None,
                error: None,
            })
        };
        let queues = (0..workers).map(open).collect::<Result<_, _>>()?;
        Ok((queues, about))
    }

    /// First byte of a slot: the receive ring comes first in the mapping, then the transmit ring.
    fn slot(&self, ring: usize, index: usize) -> *mut tpacket2_hdr {
        debug_assert!(ring < 2 && index < self.slots);
        // SAFETY: slots divide the blocks, so they follow each other without gaps, and the index is below their number.
        unsafe { self.rings.ptr().add(ring * RING_BYTES + index * self.slot_size).cast() }
    }

    fn rx_slot(&self) -> *mut tpacket2_hdr {
        self.slot(0, self.rx_next)
    }

    fn tx_slot(&self) -> *mut tpacket2_hdr {
        self.slot(1, self.tx_next)
    }

    /// Lets the kernel send what is in the ring; whether the interface takes packets at all.
    fn kick(&mut self) -> bool {
        if self.joiner.as_mut().is_some_and(Joiner::owes) {
            // Nothing overtakes what was sent before it.
            self.unsent = true;
            return true;
        }
        let result = sys::kick(&self.socket);
        self.unsent = false;
        match result.as_ref().map_err(io::Error::raw_os_error) {
            Ok(()) => true,
            // The device's queue is full; what is in the ring goes out with the next call.
            Err(Some(libc::EAGAIN | libc::ENOBUFS | libc::EINTR)) => {
                self.unsent = true;
                true
            }
            Err(Some(libc::ENETDOWN | libc::ENXIO | libc::ENODEV)) => false,
            Err(_) => {
                self.note(&result.expect_err("it is one"));
                true
            }
        }
    }

    /// Takes back what the kernel has not looked at, the latest first: packets and bytes.
    fn take_back(&mut self) -> Sent {
        let mut taken = Sent::default();
        for _ in 0..self.slots {
            let last = (self.tx_next + self.slots - 1) % self.slots;
            let slot = self.slot(1, last);
            // The kernel looks at the ring only during our own system calls, so what it has not begun to send is ours.
            if status(slot).load(Ordering::Acquire) != libc::TP_STATUS_SEND_REQUEST {
                break;
            }
            taken.packets += 1;
            // SAFETY: the slot is ours, and its length was written with the packet.
            taken.bytes += u64::from(unsafe { (*slot).tp_len }) - HEADER as u64;
            status(slot).store(libc::TP_STATUS_AVAILABLE, Ordering::Release);
            self.tx_next = last;
        }
        taken
    }

    /// Sends packets by the ring.
    fn send_by_ring<'b>(&mut self, packets: impl Iterator<Item = Bytes<'b>>, sent: &mut Sent) {
        let mut taken = Sent::default();
        let (fits, mut kicked) = (self.fits(), false);
        for packet in packets.filter(|packet| fits(*packet)) {
            if !self.put(packet) {
                if !kicked {
                    self.kick();
                    kicked = true;
                }
                if !self.put(packet) {
                    continue;
                }
            }
            taken.packets += 1;
            taken.bytes += packet.len() as u64;
        }
        if taken.packets > 0 && !self.kick() {
            // What was there before this batch was counted as sent; it is lost as on a line that is pulled out.
            let back = self.take_back();
            taken.packets = taken.packets.saturating_sub(back.packets);
            taken.bytes = taken.bytes.saturating_sub(back.bytes);
        }
        sent.packets += taken.packets;
        sent.bytes += taken.bytes;
    }

    /// Whether packets fit a slot, and what the device can send.
    fn fits(&self) -> impl Fn(Bytes<'_>) -> bool + Copy + use<> {
        let (room, device) = (self.slot_size - TX_DATA - HEADER, self.device);
        move |packet| packet.len() <= room && device.can_send(packet.head, packet.len())
    }

    /// Puts a packet that fits into the ring; whether there is room.
    fn put(&mut self, packet: Bytes<'_>) -> bool {
        let slot = self.tx_slot();
        if status(slot).load(Ordering::Acquire) != libc::TP_STATUS_AVAILABLE {
            return false;
        }
        // SAFETY: the slot is free, so ours, and the packet's length was checked against its room.
        unsafe {
            (*slot).tp_len = (HEADER + packet.len()) as u32;
            let data = slot.cast::<u8>().add(TX_DATA);
            data.copy_from_nonoverlapping(PLAIN.as_ptr(), HEADER);
            let data = data.add(HEADER);
            data.copy_from_nonoverlapping(packet.head.as_ptr(), packet.head.len());
            data.add(packet.head.len()).copy_from_nonoverlapping(packet.rest.as_ptr(), packet.rest.len());
        }
        status(slot).store(libc::TP_STATUS_SEND_REQUEST, Ordering::Release);
        self.tx_next = (self.tx_next + 1) % self.slots;
        true
    }

    /// Sends these packets of a batch with others of their flows in one, where there are such and the ring has nothing
    /// that comes first; whether it did.
    fn send_joined(&mut self, batch: &TxBatch<'_>, packets: Range<usize>, sent: &mut Sent) -> bool {
        let (fits, start) = (self.fits(), packets.start);
        let Some(joiner) = &mut self.joiner else { return false };
        if !joiner.plan(batch, start, packets.len(), fits) {
            return false;
        }
        if self.unsent {
            self.kick();
        }
        let unsent = self.unsent;
        let Some(mut joiner) = self.joiner.take_if(|_| !unsent) else { return false };
        if let Outcome::Full | Outcome::Dropped = joiner.send(batch, start, sent) {
            for packet in joiner.rest().map(|number| batch.packet(start + number)) {
                if self.put(packet) {
                    sent.packets += 1;
                    sent.bytes += packet.len() as u64;
                }
            }
            // They wait until the kernel has sent what is before them.
            self.unsent = true;
        }
        if let Some(error) = joiner.error.take() {
            self.note(&error);
        }
        self.joiner = Some(joiner);
        true
    }

    #[cold]
    fn note(&mut self, error: &io::Error) {
        self.error = Some(format!("{}: cannot send: {error}", self.interface));
    }

    /// Looks at the interface: whether packets can pass, and if not, why.
    fn look(&mut self) {
        let name = &self.interface;
        self.trouble = match interface_up(&self.socket, name) {
            Ok(now) => {
                let attached = sys::bound_interface(&self.socket).is_ok_and(|index| index == now.index);
                let result = if attached { Ok(()) } else { self.open_again(now.index) };
                result.err().map(|error| error.0).or_else(|| {
                    self.device = now;
                    let waits = !self.share.0.is_open(now.index);
                    waits.then(|| format!("{}: was made again; not all workers have noticed", self.interface))
                })
            }
            Err(why) => Some(why),
        };
    }

    /// Goes over to the interface that has the name now.
    #[cold]
    fn open_again(&mut self, index: i32) -> Result<(), PortError> {
        self.lock.take(index)?;
        let (share, worker) = &self.share;
        if status(self.rx_slot()).load(Ordering::Acquire) & libc::TP_STATUS_USER != 0 {
            return Err(PortError(format!("{}: was made again; packets of the old one come first", self.interface)));
        }
        let Socket { fd, rings, device } = join(&self.interface, self.slot_size, share, *worker)?;
        // The worker waits for the descriptor by its number.
        sys::put_in_place(&fd, &self.socket)
            .map_err(|error| PortError(format!("{}: cannot be opened again: {error}", self.interface)))?;
        (self.rings, self.device) = (rings, device);
        (self.joiner, _) = device::joiner(&self.socket, &self.interface, device.index, self.gso);
        (self.rx_next, self.tx_next, self.unsent) = (0, 0, false);
        Ok(())
    }
}

/// A socket of a worker, which gets its packets when those of all workers are there.
fn join(interface: &str, slot_size: usize, share: &Share, worker: usize) -> Result<Socket, PortError> {
    let socket = Socket::open(interface, slot_size, share.is_shared())?;
    let joined = share.join(worker, &socket.fd, socket.device.index);
    joined.map_err(|error| PortError(format!("{interface}: cannot be shared by several workers: {error}")))?;
    Ok(socket)
}

/// The tag of a VLAN that the kernel has taken out of a packet.
fn tag(slot: &tpacket2_hdr, flags: u32) -> Option<[u8; TAG]> {
    let given = flags & libc::TP_STATUS_VLAN_TPID_VALID != 0;
    let tpid = if given { slot.tp_vlan_tpid } else { libc::ETH_P_8021Q as u16 };
    let ([t0, t1], [c0, c1]) = (tpid.to_be_bytes(), slot.tp_vlan_tci.to_be_bytes());
    (flags & libc::TP_STATUS_VLAN_VALID != 0).then_some([t0, t1, c0, c1])
}

/// The status word of a slot, which the kernel and we hand the slot over with.
fn status<'a>(slot: *mut tpacket2_hdr) -> &'a AtomicU32 {
    // SAFETY: callers pass a slot of a mapped ring and use the result at once; the word is only accessed atomically.
    unsafe { AtomicU32::from_ptr(&raw mut (*slot).tp_status) }
}

/// Offset of the packet's header in a transmit slot.
const TX_DATA: usize = size_of::<tpacket2_hdr>().next_multiple_of(TPACKET_ALIGNMENT);

impl Queue for AfPacket {
    fn receive(&mut self, batch: &mut RxBatch<'_>) {
        if self.unsent {
            self.kick();
        }
        while batch.room() > 0 {
            let slot = self.rx_slot();
            let flags = status(slot).load(Ordering::Acquire);
            if flags & libc::TP_STATUS_USER == 0 {
                return;
            }
            // SAFETY: the status says that the slot is ours until we give it back; the kernel keeps `tp_mac` and
            // `tp_snaplen` within it, and puts the packet's header in front of it.
            let (slot_header, header, packet) = unsafe {
                let slot_header = *slot;
                let start = slot.cast::<u8>().add(usize::from(slot_header.tp_mac));
                let packet = std::slice::from_raw_parts(start, slot_header.tp_snaplen as usize);
                (slot_header, &*start.sub(HEADER).cast::<[u8; HEADER]>(), packet)
            };
            let tag = tag(&slot_header, flags);
            let is_taken = if slot_header.tp_snaplen == slot_header.tp_len {
                self.intake.take(batch, header, packet, tag)
            } else if flags & libc::TP_STATUS_COPY != 0 {
                let len = slot_header.tp_len as usize;
                self.long.take(&self.socket, len, batch, tag, &mut self.intake)
            } else {
                self.long.lose();
                true
            };
            if !is_taken {
                return;
            }
            status(slot).store(libc::TP_STATUS_KERNEL, Ordering::Release);
            self.rx_next = (self.rx_next + 1) % self.slots;
        }
    }

    fn transmit(&mut self, batch: &mut TxBatch<'_>) -> Sent {
        let mut sent = Sent::default();
        for start in (0..batch.len()).step_by(WINDOW) {
            let packets = start..batch.len().min(start + WINDOW);
            if !self.send_joined(batch, packets.clone(), &mut sent) {
                self.send_by_ring(packets.map(|index| batch.packet(index)), &mut sent);
            }
        }
        sent
    }

    fn wait_fd(&self) -> Option<RawFd> {
        Some(self.socket.as_raw_fd())
    }

    fn depth(&self) -> Depth {
        let flags = |ring, index| status(self.slot(ring, index % self.slots)).load(Ordering::Relaxed);
        let has_come = |ahead| flags(0, self.rx_next + ahead) & libc::TP_STATUS_USER != 0;
        // Those that were put there last are sent last.
        let is_to_go = |back| flags(1, self.tx_next + self.slots - 1 - back) != libc::TP_STATUS_AVAILABLE;
        let places = self.slots as u32;
        Depth {
            rx: taken(self.slots, has_come) as u32,
            rx_places: places,
            tx: taken(self.slots, is_to_go) as u32,
            tx_places: places,
        }
    }

    fn tick(&mut self, counters: &PortCounters) {
        if let Ok((_, dropped)) = sys::packet_statistics(&self.socket) {
            counters.rx_dropped.fetch_add(dropped.into(), Ordering::Relaxed);
        }
        counters.rx_dropped.fetch_add(self.long.take_lost(), Ordering::Relaxed);
        self.intake.count(counters);
        // A pending error would make every poll return at once.
        let _ = sys::take_socket_error(&self.socket);
        self.joiner.iter_mut().for_each(|joiner| joiner.tick(counters));
        self.look();
        // Packets that the device had no room for are still in the ring.
        if self.unsent && !self.kick() {
            self.take_back();
        }
        counters.set_error(self.trouble.as_ref().or(self.error.as_ref()));
    }

    fn close(&mut self) -> Result<(), PortError> {
        let until = Instant::now() + Duration::from_millis(200);
        let last = (self.tx_next + self.slots - 1) % self.slots;
        while status(self.slot(1, last)).load(Ordering::Acquire) != libc::TP_STATUS_AVAILABLE && Instant::now() < until
        {
            self.kick();
            std::thread::sleep(Duration::from_millis(1));
        }
        self.look();
        self.trouble.take().or(self.error.take()).map_or(Ok(()), |error| Err(PortError(error)))
    }
}
