//! Frames of a device through a memory-mapped receive ring, and in batches out of it.
//!
//! The ring is TPACKET_V2 (Documentation/networking/packet_mmap.rst): a slot per frame, visible as soon as it arrives.
//! TPACKET_V3 hands frames over in blocks, which a frame of a quiet link would wait for. Sending is sendmmsg(2) and not
//! a transmit ring: there the kernel keeps frames as references to the ring's pages, and a veth device copies those
//! again; and here each refusal is known.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::io::{self, IoSlice};
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use nix::errno::Errno;
use nix::libc::{self, tpacket2_hdr};
use nix::net::if_::if_nametoindex;
use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, getsockopt, socket, sockopt};

use crate::error::{Error, Result};
use crate::namespace::Namespace;
use crate::sys::{self, BATCH};

/// Bytes of a block of the ring: contiguous kernel memory, so not too large.
const BLOCK_BYTES: usize = 1 << 17;
/// What the kernel puts before a frame in its slot, rounded up.
const SLOT_HEADER: usize = 128;
/// Bytes of an Ethernet header with a VLAN tag.
const TAGGED_HEADER: usize = 18;
/// Where a VLAN tag lies: after the two addresses.
const TAG_AT: usize = 12;
/// Where the kernel puts the address that a frame came from: behind the header.
const ADDRESS_AT: usize = size_of::<tpacket2_hdr>().next_multiple_of(libc::TPACKET_ALIGNMENT);
/// How much the socket may have under way.
const SEND_BUFFER: i32 = 4 << 20;

/// A frame as it lies in the ring.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame<'a> {
    /// Its bytes, without the VLAN tag.
    pub(crate) bytes: &'a [u8],
    tag: Option<[u8; 4]>,
    /// When the kernel saw it, in ns since 1970.
    pub(crate) stamp: u64,
    /// It was longer than a slot, so its end is missing.
    pub(crate) cut: bool,
    /// The device sent it; otherwise it received it.
    pub(crate) outgoing: bool,
    /// Its length on the wire, without the VLAN tag.
    length: usize,
}

impl Frame<'_> {
    /// Its parts in order: the kernel takes the VLAN tag out, and here it is between the parts again.
    pub(crate) fn parts(&self) -> [&[u8]; 3] {
        let tag = self.tag.as_ref().map_or(&[][..], |tag| &tag[..]);
        let (addresses, rest) = self.bytes.split_at(if self.tag.is_some() { TAG_AT } else { 0 });
        [addresses, tag, rest]
    }

    /// Bytes that [`Frame::parts`] hold together.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len() + if self.tag.is_some() { 4 } else { 0 }
    }

    /// Its length in bytes before anything was cut.
    pub(crate) fn wire_length(&self) -> usize {
        self.length + if self.tag.is_some() { 4 } else { 0 }
    }
}

/// Mapped memory of a socket.
struct Mapping {
    start: NonNull<c_void>,
    bytes: NonZeroUsize,
}

// SAFETY: the mapping is memory of the whole process and belongs to one ring, which alone reads and writes it.
unsafe impl Send for Mapping {}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: it was mapped with these values, and what points into it ended before.
        let _ = unsafe { munmap(self.start, self.bytes.get()) };
    }
}

/// What a ring is to be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RingConfig {
    /// Longest frame in bytes, without Ethernet header and VLAN tag; longer ones are cut.
    pub(crate) mtu: usize,
    /// Its size in bytes, a power of two and 1 MiB at least.
    pub(crate) bytes: usize,
    /// Show what the device sends, too.
    pub(crate) outgoing: bool,
    /// What is sent by it is shown to captures of the device; otherwise it goes the shorter way past them.
    pub(crate) shown: bool,
}

/// A device's receive ring; the same socket sends.
pub(crate) struct Ring {
    socket: Arc<OwnedFd>,
    mapping: Mapping,
    slot_bytes: usize,
    slots: usize,
    next: usize,
}

impl Ring {
    /// Opens `device` of `namespace`; frames are kept from here on.
    pub(crate) fn open(namespace: &Namespace, device: &str, config: RingConfig) -> Result<Ring> {
        let what = || format!("cannot open a packet ring on {device} of namespace {}", namespace.name());
        namespace.enter(|| Ring::open_here(device, config))?.map_err(|e| Error::system(what(), e))
    }

    fn open_here(device: &str, config: RingConfig) -> io::Result<Ring> {
        let RingConfig { mtu, bytes, outgoing, shown } = config;
        let index = if_nametoindex(device)?;
        let socket = unbound()?;
        let slot_bytes = (mtu + TAGGED_HEADER + SLOT_HEADER).next_power_of_two();
        let block = BLOCK_BYTES.max(slot_bytes);
        let slots = bytes / slot_bytes;
        let request = libc::tpacket_req {
            tp_block_size: block as u32,
            tp_block_nr: (bytes / block) as u32,
            tp_frame_size: slot_bytes as u32,
            tp_frame_nr: slots as u32,
        };
        let set = |name, value: i32| sys::set_option(socket.as_fd(), libc::SOL_PACKET, name, &value);
        set(libc::PACKET_VERSION, libc::tpacket_versions::TPACKET_V2 as i32)?;
        set(libc::PACKET_IGNORE_OUTGOING, i32::from(!outgoing))?;
        prepare_to_send(socket.as_fd(), shown);
        sys::set_option(socket.as_fd(), libc::SOL_PACKET, libc::PACKET_RX_RING, &request)?;
        let bytes = NonZeroUsize::new(bytes).expect("not zero");
        // SAFETY: a new mapping at an address of the kernel's choice touches no other memory.
        let start = unsafe {
            mmap(None, bytes, ProtFlags::PROT_READ | ProtFlags::PROT_WRITE, MapFlags::MAP_SHARED, &socket, 0)?
        };
        let mapping = Mapping { start, bytes };
        sys::bind_packet(socket.as_fd(), index, libc::ETH_P_ALL as u16)?;
        Ok(Ring { socket: Arc::new(socket), mapping, slot_bytes, slots, next: 0 })
    }

    /// The socket, to wait for frames and to send with.
    pub(crate) fn socket(&self) -> Arc<OwnedFd> {
        self.socket.clone()
    }

    fn slot(&self) -> *mut tpacket2_hdr {
        // SAFETY: slots divide the blocks, so they follow each other without gaps, and `next` is below their number.
        unsafe { self.mapping.start.cast::<u8>().as_ptr().add(self.next * self.slot_bytes).cast() }
    }

    /// Whether a frame is there.
    pub(crate) fn is_ready(&self) -> bool {
        status(self.slot()).load(Ordering::Acquire) & libc::TP_STATUS_USER != 0
    }

    /// Shows the next frame to `see` if there is one, and gives its slot back.
    pub(crate) fn receive<T>(&mut self, see: impl FnOnce(Frame<'_>) -> T) -> Option<T> {
        let slot = self.slot();
        let flags = status(slot).load(Ordering::Acquire);
        if flags & libc::TP_STATUS_USER == 0 {
            return None;
        }
        // SAFETY: the status says that the slot is ours until it is given back below. The kernel keeps the frame within
        // it, behind the header and the address (packet_mmap.rst, "Frame structure").
        let (header, address, bytes) = unsafe {
            let header = *slot;
            let address = *slot.cast::<u8>().add(ADDRESS_AT).cast::<libc::sockaddr_ll>();
            let start = slot.cast::<u8>().add(usize::from(header.tp_mac));
            let length = (header.tp_snaplen as usize).min(self.slot_bytes - usize::from(header.tp_mac));
            (header, address, std::slice::from_raw_parts(start, length))
        };
        let tag = (flags & libc::TP_STATUS_VLAN_VALID != 0 && bytes.len() >= TAG_AT).then(|| {
            let known = flags & libc::TP_STATUS_VLAN_TPID_VALID != 0;
            let tpid = if known { header.tp_vlan_tpid } else { libc::ETH_P_8021Q as u16 };
            let ([t0, t1], [c0, c1]) = (tpid.to_be_bytes(), header.tp_vlan_tci.to_be_bytes());
            [t0, t1, c0, c1]
        });
        let seen = see(Frame {
            bytes,
            tag,
            stamp: u64::from(header.tp_sec) * 1_000_000_000 + u64::from(header.tp_nsec),
            cut: header.tp_snaplen < header.tp_len,
            outgoing: address.sll_pkttype == libc::PACKET_OUTGOING,
            length: header.tp_len as usize,
        });
        status(slot).store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.next = (self.next + 1) % self.slots;
        Some(seen)
    }

    /// Frames that the kernel dropped since the last call, because the ring was full.
    pub(crate) fn take_dropped(&self) -> u64 {
        let read = sys::option::<libc::tpacket_stats>(self.socket.as_fd(), libc::SOL_PACKET, libc::PACKET_STATISTICS);
        read.map_or(0, |statistics| statistics.tp_drops.into())
    }

    /// Clears what makes every wait return at once: the device was taken down or is gone.
    pub(crate) fn clear_error(&self) {
        // A socket always has this option.
        let _ = getsockopt(&*self.socket, sockopt::SocketError);
    }
}

/// The word with which the kernel and this process hand a slot to each other.
fn status<'a>(slot: *mut tpacket2_hdr) -> &'a AtomicU32 {
    // SAFETY: callers pass a slot of a mapped ring and use the result at once; the word is only accessed atomically.
    unsafe { AtomicU32::from_ptr(&raw mut (*slot).tp_status) }
}

/// A packet socket that gets no packets: its protocol is 0 until it is bound, so nothing of other devices comes in.
fn unbound() -> io::Result<OwnedFd> {
    Ok(socket(AddressFamily::Packet, SockType::Raw, SockFlag::SOCK_CLOEXEC, None)?)
}

/// A socket for [`send`] alone on `device` of `namespace`.
pub(crate) fn sender(namespace: &Namespace, device: &str) -> Result<OwnedFd> {
    let open = || {
        let index = if_nametoindex(device)?;
        let socket = unbound()?;
        prepare_to_send(socket.as_fd(), false);
        sys::bind_packet(socket.as_fd(), index, 0)?;
        Ok(socket)
    };
    let what = || format!("cannot send on {device} of namespace {}", namespace.name());
    namespace.enter(open)?.map_err(|e: io::Error| Error::system(what(), e))
}

/// Both only make it faster, so their refusal does not matter.
fn prepare_to_send(socket: BorrowedFd<'_>, shown: bool) {
    let _ = sys::set_option(socket, libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, &i32::from(!shown));
    let _ = sys::set_option(socket, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &SEND_BUFFER)
        .or_else(|_| sys::set_option(socket, libc::SOL_SOCKET, libc::SO_SNDBUF, &SEND_BUFFER));
}

/// Sends frames, at most [`BATCH`], in order. A frame that is refused is passed over; `refused` hears its position.
pub(crate) fn send(socket: BorrowedFd<'_>, frames: &[IoSlice<'_>], mut refused: impl FnMut(usize)) {
    debug_assert!(frames.len() <= BATCH);
    let mut next = 0;
    let mut patience = 100;
    while next < frames.len() {
        match sys::send_batch(socket, &frames[next..]) {
            Ok(sent) => next += sent,
            Err(e) if e.raw_os_error() == Some(Errno::EINTR as i32) => {}
            // The device has its hands full: it gets some time, but the wait has an end.
            Err(e) if is_busy(&e) && patience > 0 => {
                patience -= 1;
                std::thread::yield_now();
            }
            Err(_) => {
                refused(next);
                next += 1;
            }
        }
    }
}

fn is_busy(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::ENOBUFS))
}
