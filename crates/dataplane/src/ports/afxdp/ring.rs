//! A ring between the kernel and us: one side writes entries and moves the producer index, the other reads them and
//! moves the consumer index. Indices only grow, and wrap at 2^32.
//!
//! An index is stored with release order after the entries were written or read, and loaded with acquire order before:
//! so each side sees entries whole, and none is overwritten before it was read.

use std::io;
use std::marker::PhantomData;
use std::mem::size_of;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};

use super::sys::{self, Kind};
use crate::sys::Mapping;

/// What both sides of a ring have. `T` is what the kernel has there: plain data.
#[derive(Debug)]
struct Ring<T> {
    mapping: Mapping,
    offsets: libc::xdp_ring_offset,
    mask: u32,
    entry: PhantomData<T>,
}

impl<T: Copy> Ring<T> {
    /// Makes and maps a ring of a socket with at least so many places.
    fn new(fd: &OwnedFd, kind: Kind, places: u32) -> io::Result<Self> {
        let size = places.next_power_of_two();
        sys::make_ring(fd, kind, size)?;
        let offsets = sys::offsets(fd, kind)?;
        let len = offsets.desc as usize + size as usize * size_of::<T>();
        let mapping = Mapping::of_fd_at(fd.as_raw_fd(), len, kind.page())?;
        let last = [offsets.producer, offsets.consumer, offsets.flags].into_iter().max().unwrap_or(0);
        if last as usize + 4 > len || !offsets.desc.is_multiple_of(align_of::<T>() as u64) {
            return Err(io::Error::from(io::ErrorKind::InvalidData));
        }
        Ok(Ring { mapping, offsets, mask: size - 1, entry: PhantomData })
    }

    fn word(&self, offset: u64) -> &AtomicU32 {
        // SAFETY: within the mapping, as `new` has tested, aligned as the kernel lays it out, and only accessed
        // atomically.
        unsafe { AtomicU32::from_ptr(self.mapping.ptr().add(offset as usize).cast()) }
    }

    fn producer(&self) -> &AtomicU32 {
        self.word(self.offsets.producer)
    }

    fn consumer(&self) -> &AtomicU32 {
        self.word(self.offsets.consumer)
    }

    fn entry(&self, index: u32) -> *mut T {
        // SAFETY: the mapping has `mask + 1` entries from `desc` on.
        unsafe { self.mapping.ptr().add(self.offsets.desc as usize).cast::<T>().add((index & self.mask) as usize) }
    }
}

/// Our side of a ring that we write.
#[derive(Debug)]
pub struct Producer<T> {
    ring: Ring<T>,
    /// Of the next entry; those before it are written, but maybe not published.
    next: u32,
}

impl<T: Copy> Producer<T> {
    /// Makes a ring.
    pub fn new(fd: &OwnedFd, kind: Kind, places: u32) -> io::Result<Self> {
        Ok(Producer { ring: Ring::new(fd, kind, places)?, next: 0 })
    }

    /// All its places.
    pub fn places(&self) -> u32 {
        self.ring.mask + 1
    }

    /// Places that are free.
    pub fn room(&self) -> u32 {
        self.places() - self.unread()
    }

    /// Entries that the kernel has not read.
    pub fn unread(&self) -> u32 {
        self.next.wrapping_sub(self.ring.consumer().load(Ordering::Acquire))
    }

    /// Writes an entry. There is room.
    pub fn write(&mut self, entry: T) {
        debug_assert!(self.room() > 0);
        // SAFETY: a free place is ours until it is published.
        unsafe { self.ring.entry(self.next).write(entry) };
        self.next = self.next.wrapping_add(1);
    }

    /// Shows the kernel what was written.
    pub fn publish(&self) {
        self.ring.producer().store(self.next, Ordering::Release);
    }

    /// Whether the kernel wants a system call before it looks at the ring.
    pub fn wants_wake(&self) -> bool {
        self.ring.word(self.ring.offsets.flags).load(Ordering::Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0
    }

    /// Overwrites each entry that the kernel has not read, the oldest first. To be called only while it does not look
    /// at the ring.
    pub fn replace(&mut self, mut with: impl FnMut(T) -> T) {
        for back in (1..=self.unread()).rev() {
            let entry = self.ring.entry(self.next.wrapping_sub(back));
            // SAFETY: an entry that was written, and is not read meanwhile, by the caller's promise.
            unsafe { entry.write(with(entry.read())) };
        }
    }
}

/// Our side of a ring that we read.
#[derive(Debug)]
pub struct Consumer<T> {
    ring: Ring<T>,
    next: u32,
}

impl<T: Copy> Consumer<T> {
    /// Makes a ring.
    pub fn new(fd: &OwnedFd, kind: Kind, places: u32) -> io::Result<Self> {
        Ok(Consumer { ring: Ring::new(fd, kind, places)?, next: 0 })
    }

    /// Entries that can be read.
    pub fn available(&self) -> u32 {
        self.ring.producer().load(Ordering::Acquire).wrapping_sub(self.next)
    }

    /// The entry so many places ahead, which is less than [`Consumer::available`].
    pub fn peek(&self, ahead: u32) -> T {
        debug_assert!(ahead < self.available());
        // SAFETY: published by the kernel, which leaves it until the consumer index moves.
        unsafe { self.ring.entry(self.next.wrapping_add(ahead)).read() }
    }

    /// Goes on by so many entries, whose places are the kernel's only after [`Consumer::release`].
    pub fn advance(&mut self, entries: u32) {
        self.next = self.next.wrapping_add(entries);
    }

    /// Gives the places of what was read back to the kernel.
    pub fn release(&self) {
        self.ring.consumer().store(self.next, Ordering::Release);
    }
}
