//! The frames of an instance as the kernel's UMEM, one for all its ports: a frame that came in at one goes out at
//! another as it lies there.
//!
//! The first socket registers the memory, the others share it. Whether the driver itself reads and writes frames
//! (zero-copy) is a property of that registration, so a driver that can do so while the first one cannot gets a
//! registration of the same memory for itself.
//!
//! A chunk of the UMEM is a frame, or the first page of one: the kernel knows no larger chunks. Packets that are longer
//! come in several frames and are put together in the first; they go out in several descriptors.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::ring::{Consumer, Producer};
use super::sys::{self, Kind};
use crate::packets::{FramePool, Holder, Holds};

/// What the kernel leaves free in front of packets (`XDP_PACKET_HEADROOM`).
const KERNEL_HEADROOM: u32 = 256;
/// Bytes of the smallest chunk that the kernel takes (`XDP_UMEM_MIN_CHUNK_SIZE`).
const LEAST_CHUNK: u32 = 2048;
/// Bytes of a page, and so of the largest chunk.
const MOST_CHUNK: u32 = 4096;
/// Frames that a port may have at the kernel at most: more rings do not help, they only take memory out of the caches.
const MOST_PER_PORT: u32 = 8192;
/// Parts of a packet at most (`MAX_SKB_FRAGS` and its head).
pub const MOST_PARTS: u32 = 18;

/// An address behind every UMEM.
pub const NOWHERE: u64 = u64::MAX;

/// What the kernel refused.
#[derive(Debug)]
pub enum Step {
    Socket,
    Memory,
    Ring,
    Bind,
}

/// Why there is no socket.
pub type Refusal = (Step, io::Error);

/// The frames, and the sockets that are bound to them.
#[derive(Debug)]
pub struct Umem {
    pool: Arc<FramePool>,
    chunk: u32,
    per_port: u32,
    bound: Mutex<Vec<Bound>>,
}

/// What a socket is bound with, which those that share its registration have, too.
#[derive(Clone, Debug)]
pub struct Bound {
    pub fd: Arc<OwnedFd>,
    /// The driver reads and writes frames itself.
    pub zero_copy: bool,
    /// A packet may have several descriptors.
    pub scatter: bool,
}

/// For tests: a packet whose bytes lie in two frames has several descriptors in copy mode, too.
#[cfg(test)]
pub static SPLITS: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);

impl Bound {
    /// Whether a packet whose bytes lie in two frames is sent from there. Where the kernel copies packets anyway, a
    /// second piece costs it more than a copy of ours: 1.8 µs against 1.3 (docs/benchmarks.md).
    pub fn splits(&self) -> bool {
        #[cfg(test)]
        if SPLITS.load(Ordering::Relaxed) {
            return self.scatter;
        }
        self.scatter && self.zero_copy
    }
}

/// A bound socket with its rings.
pub struct BoundSocket {
    pub bound: Bound,
    pub fill: Producer<u64>,
    pub completion: Consumer<u64>,
    pub rx: Option<Consumer<libc::xdp_desc>>,
    pub tx: Option<Producer<libc::xdp_desc>>,
}

/// What a socket is to be.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    pub interface: i32,
    pub queue: u32,
    /// Descriptors to receive into, 0 for none.
    pub receives: u32,
    /// Descriptors to send, 0 for none.
    pub sends: u32,
}

/// Where a socket's UMEM comes from.
enum From<'a> {
    Other(&'a Bound),
    Own { zero_copy: bool, scatter: bool },
}

impl Umem {
    /// Of these frames, for so many AF_XDP ports.
    pub fn new(pool: Arc<FramePool>, ports: usize) -> Self {
        let per_port = pool.count() / 2 / (ports.max(1) as u32);
        let chunk = pool.frame_size().min(MOST_CHUNK);
        Umem { pool, chunk, per_port: per_port.min(MOST_PER_PORT), bound: Mutex::default() }
    }

    /// Whether the frames can be one; what is wrong with them otherwise.
    pub fn check(&self) -> Result<(), String> {
        let (size, headroom) = (self.pool.frame_size(), self.pool.headroom());
        if size < LEAST_CHUNK {
            return Err(format!(
                "frames of {size} bytes are too small for AF_XDP: set `size` of [frames] to 2048 or more"
            ));
        }
        if headroom >= self.chunk {
            return Err(format!(
                "the program needs {headroom} bytes in front of packets, which AF_XDP with frames of {size} bytes does not \
                 leave: set `size` of [frames] to 4096, or use afpacket"
            ));
        }
        Ok(())
    }

    /// The frames.
    pub fn pool(&self) -> &Arc<FramePool> {
        &self.pool
    }

    /// Frames that each port may have at the kernel.
    pub fn per_port(&self) -> u32 {
        self.per_port
    }

    /// Bytes of a chunk.
    pub fn chunk(&self) -> usize {
        self.chunk as usize
    }

    /// Where a frame begins.
    pub fn address(&self, frame: u32) -> u64 {
        u64::from(frame) * u64::from(self.pool.frame_size())
    }

    /// The frame that an address lies in, and how far in it.
    pub fn place(&self, address: u64) -> (u32, usize) {
        let size = u64::from(self.pool.frame_size());
        ((address / size) as u32, (address % size) as usize)
    }

    /// Where bytes in one of the frames begin; 0 where there are none.
    pub fn offset(&self, bytes: &[u8]) -> u64 {
        if bytes.is_empty() { 0 } else { (bytes.as_ptr() as usize - self.pool.region() as usize) as u64 }
    }

    /// Descriptors that a piece of a packet takes.
    pub fn parts(&self, address: u64, len: usize) -> u32 {
        let chunk = u64::from(self.chunk);
        match len as u64 {
            0 => 0,
            len => ((address + len - 1) / chunk - address / chunk + 1) as u32,
        }
    }

    /// Makes a socket with rings of its own and binds it, in the best way that works. `like`: what another queue of
    /// the interface has.
    pub fn bind(&self, wanted: Wanted, like: Option<&Bound>) -> Result<BoundSocket, Refusal> {
        let mut bound = self.lock();
        let ways = [true, false].into_iter().filter(|zero_copy| like.is_none_or(|like| like.zero_copy == *zero_copy));
        let mut refusal = None;
        for zero_copy in ways {
            let others: Vec<_> = bound.iter().filter(|other| other.zero_copy == zero_copy).cloned().collect();
            let own = [true, false].map(|scatter| From::Own { zero_copy, scatter });
            for from in others.iter().map(From::Other).chain(own) {
                match self.attempt(&wanted, &from) {
                    Ok(made) => {
                        bound.push(made.bound.clone());
                        return Ok(made);
                    }
                    Err(error) => refusal = Some(error),
                }
            }
        }
        Err(refusal.expect("there is always a way to try"))
    }

    fn attempt(&self, wanted: &Wanted, from: &From) -> Result<BoundSocket, Refusal> {
        let ring = |error| (Step::Ring, error);
        let fd = sys::socket().map_err(|error| (Step::Socket, error))?;
        if matches!(from, From::Own { .. }) {
            let len = self.pool.count() as usize * self.pool.frame_size() as usize;
            let headroom = self.pool.headroom().saturating_sub(KERNEL_HEADROOM);
            // SAFETY: the pool keeps the region mapped, and the owner of the socket keeps the pool. The kernel is given
            // frames that have no other owner.
            unsafe { sys::register(&fd, self.pool.region(), len, self.chunk, headroom) }
                .map_err(|error| (Step::Memory, error))?;
        }
        // The kernel says what it has read only when it has read all that it once saw: meanwhile as many may be posted
        // again.
        let fill = Producer::new(&fd, Kind::Fill, 2 * wanted.receives.max(1)).map_err(ring)?;
        // Sockets that share the queue's completions may together have a few more under way than they mean to.
        let completion = Consumer::new(&fd, Kind::Completion, 2 * wanted.sends.max(1)).map_err(ring)?;
        let (rx, tx) = (wanted.receives > 0, wanted.sends > 0);
        let rx = rx.then(|| Consumer::new(&fd, Kind::Rx, wanted.receives)).transpose().map_err(ring)?;
        let tx = tx.then(|| sender(&fd, wanted.sends)).transpose().map_err(ring)?;
        let (shared, zero_copy, scatter) = match from {
            From::Other(other) => (Some(&*other.fd), other.zero_copy, other.scatter),
            From::Own { zero_copy, scatter } => (None, *zero_copy, *scatter),
        };
        let flags = libc::XDP_USE_NEED_WAKEUP
            | if zero_copy { libc::XDP_ZEROCOPY } else { libc::XDP_COPY }
            | if scatter { libc::XDP_USE_SG } else { 0 };
        sys::bind(&fd, wanted.interface, wanted.queue, flags, shared).map_err(|error| (Step::Bind, error))?;
        let zero_copy = sys::is_zero_copy(&fd).unwrap_or(zero_copy);
        Ok(BoundSocket { bound: Bound { fd: Arc::new(fd), zero_copy, scatter }, fill, completion, rx, tx })
    }

    /// Makes a further socket for a queue that has one, to send with.
    pub fn join(&self, wanted: Wanted, lead: &Bound) -> Result<(Bound, Producer<libc::xdp_desc>), Refusal> {
        let fd = sys::socket().map_err(|error| (Step::Socket, error))?;
        let tx = sender(&fd, wanted.sends).map_err(|error| (Step::Ring, error))?;
        sys::bind(&fd, wanted.interface, wanted.queue, 0, Some(&lead.fd)).map_err(|error| (Step::Bind, error))?;
        Ok((Bound { fd: Arc::new(fd), ..lead.clone() }, tx))
    }

    /// A socket is about to be closed: it is not shared any more.
    pub fn forget(&self, fd: &Arc<OwnedFd>) {
        self.lock().retain(|other| !Arc::ptr_eq(&other.fd, fd));
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Bound>> {
        self.bound.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn sender(fd: &OwnedFd, places: u32) -> io::Result<Producer<libc::xdp_desc>> {
    let ring = Producer::new(fd, Kind::Tx, places)?;
    sys::set_budget(fd, places.next_power_of_two());
    Ok(ring)
}

/// By frame, how many descriptors of it the kernel has.
#[derive(Debug)]
struct Lent(Box<[AtomicU16]>);

impl Holds for Lent {
    fn frames(&self, seen: &mut [bool]) -> u32 {
        let held = |(parts, seen): (&AtomicU16, &mut bool)| {
            let counts = parts.load(Ordering::Relaxed) > 0 && !*seen;
            *seen |= counts;
            u32::from(counts)
        };
        self.0.iter().zip(seen).map(held).sum()
    }
}

/// The frames that the kernel has through the sockets of one queue. They are the pool's again when the last of these is
/// closed, as far as they have no other holder.
///
/// Each descriptor at the kernel holds its frame once, so a frame that several packets share may have many.
#[derive(Debug)]
pub struct KernelFrames {
    umem: Arc<Umem>,
    parts: Arc<Lent>,
    /// Descriptors that are to be sent, and how many there may be.
    under_way: AtomicU32,
    limit: u32,
    completion: Mutex<Consumer<u64>>,
}

impl KernelFrames {
    /// None yet.
    pub fn new(umem: Arc<Umem>, completion: Consumer<u64>, limit: u32) -> Self {
        let parts = Arc::new(Lent((0..umem.pool.count()).map(|_| AtomicU16::new(0)).collect()));
        umem.pool.holders.register(Holder::Port, &parts);
        KernelFrames { umem, parts, under_way: AtomicU32::new(0), limit, completion: Mutex::new(completion) }
    }

    /// The kernel gets descriptors of a frame, at least one; the caller has held it once.
    pub fn lend(&self, frame: u32, parts: u32) {
        let (pool, count) = (self.umem.pool(), &self.parts.0[frame as usize]);
        if pool.is_shared(frame) {
            // Another worker may lend it, or take parts of it back, at the same time.
            count.fetch_add(parts as u16, Ordering::Relaxed);
        } else {
            count.store(parts as u16, Ordering::Relaxed);
        }
        pool.hold(frame, parts - 1);
    }

    /// One descriptor of a frame comes back. Whether the frame has no other holder, so that it is the caller's.
    pub fn back(&self, frame: u32) -> bool {
        let (pool, count) = (self.umem.pool(), &self.parts.0[frame as usize]);
        if pool.is_shared(frame) {
            count.fetch_sub(1, Ordering::Relaxed);
        } else {
            count.store(0, Ordering::Relaxed);
        }
        pool.let_go(frame)
    }

    /// Descriptors that may still be sent.
    pub fn room(&self) -> u32 {
        self.limit.saturating_sub(self.under_way.load(Ordering::Relaxed))
    }

    /// Whether everything was sent.
    pub fn is_done(&self) -> bool {
        self.under_way.load(Ordering::Relaxed) == 0
    }

    /// Descriptors were given to the kernel to be sent.
    pub fn sending(&self, descriptors: u32) {
        self.under_way.fetch_add(descriptors, Ordering::Relaxed);
    }

    /// Descriptors were sent, or taken out of the ring.
    pub fn sent(&self, descriptors: u32) {
        self.under_way.fetch_sub(descriptors, Ordering::Relaxed);
    }

    /// Gives the frames that were sent to the caller, unless another worker is doing that.
    pub fn reclaim(&self, mut give: impl FnMut(u32)) {
        let Ok(mut completion) = self.completion.try_lock() else { return };
        let all = completion.available();
        if all == 0 {
            return;
        }
        let mut sent = 0;
        // Newer kernels complete what they have passed over, too.
        for address in (0..all).map(|ahead| completion.peek(ahead)).filter(|address| *address != NOWHERE) {
            let (frame, _) = self.umem.place(address);
            if self.back(frame) {
                give(frame);
            }
            sent += 1;
        }
        completion.advance(all);
        completion.release();
        self.sent(sent);
    }
}

impl Drop for KernelFrames {
    fn drop(&mut self) {
        let pool = self.umem.pool();
        let mut free = Vec::new();
        for (parts, frame) in self.parts.0.iter().zip(0..) {
            let last = (0..parts.swap(0, Ordering::Relaxed)).filter(|_| pool.let_go(frame)).count();
            free.extend((last > 0).then_some(frame));
        }
        pool.put_back(&free);
    }
}
