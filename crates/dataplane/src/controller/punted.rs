//! A packet that a controller holds.

use std::mem::ManuallyDrop;
use std::sync::Arc;

use super::metadata::{Field, read_metadata};
use super::rings::{Carried, Rings};

/// A packet that the program put to a channel that leads to the controller. It stays in its frame; dropping it gives
/// the frame back. As long as many are held, further ones are dropped as `controller_busy`.
#[derive(Debug)]
pub struct Punted {
    rings: Arc<Rings>,
    worker: usize,
    carried: Carried,
}

impl Punted {
    /// Takes a packet that came out of a worker's ring.
    pub(super) fn new(rings: Arc<Rings>, worker: usize, carried: Carried) -> Self {
        Punted { rings, worker, carried }
    }

    /// Full name of the channel that it was put to.
    pub fn channel(&self) -> &str {
        &self.rings.program().channels[self.carried.channel.0 as usize].name
    }

    /// Its bytes, from the header of the channel's protocol on; at least the protocol's fixed header.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the frame came from a worker with its packet and is ours until it is given back, when this is
        // dropped.
        unsafe { self.rings.pool().packet(self.carried.frame) }
    }

    /// The same, to be changed where they lie, such as before
    /// [`Injector::inject_punted`](super::Injector::inject_punted).
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let pool = self.rings.pool();
        // SAFETY: as for `bytes`; nothing else has a reference to them. What the descriptor says lies in the frame.
        unsafe {
            let descriptor = *pool.descriptor(self.carried.frame);
            std::slice::from_raw_parts_mut(pool.region().add(descriptor.addr as usize), descriptor.len as usize)
        }
    }

    /// A field of its metadata.
    pub fn metadata(&self, field: Field) -> u128 {
        // SAFETY: as for `bytes`.
        unsafe { read_metadata(self.rings.program(), self.rings.pool(), self.carried.frame, field) }
    }

    /// The worker that put it there. What is injected there is run behind what it has received since.
    pub fn worker(&self) -> usize {
        self.worker
    }

    /// Where it came from.
    pub(super) fn rings(&self) -> &Arc<Rings> {
        &self.rings
    }

    /// Its frame.
    pub(super) fn frame(&self) -> u32 {
        self.carried.frame
    }

    /// Its frame, which is the caller's from here on, and no longer counts as held.
    pub(super) fn into_frame(self) -> u32 {
        let this = ManuallyDrop::new(self);
        // SAFETY: read once, from a value that is not dropped; all else of it needs no drop.
        drop(unsafe { std::ptr::read(&this.rings) });
        this.carried.frame
    }
}

impl Drop for Punted {
    fn drop(&mut self) {
        self.rings.release(self.worker, self.carried.frame);
    }
}
