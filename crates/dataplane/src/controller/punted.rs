//! A packet that a controller holds.

use std::sync::Arc;

use baker::ir::Program;

use super::metadata::{Field, read_metadata};
use super::rings::{Carried, Rings};

/// A packet that the program put to a channel that leads to the controller. It stays in its frame; dropping it gives the
/// frame back. As long as many are held, further ones are dropped as `controller_busy`.
#[derive(Debug)]
pub struct Punted {
    program: Arc<Program>,
    rings: Arc<Rings>,
    worker: usize,
    carried: Carried,
}

impl Punted {
    /// Takes a packet that came out of a worker's ring.
    pub(super) fn new(program: Arc<Program>, rings: Arc<Rings>, worker: usize, carried: Carried) -> Self {
        Punted { program, rings, worker, carried }
    }

    /// Full name of the channel that it was put to.
    pub fn channel(&self) -> &str {
        &self.program.channels[self.carried.channel.0 as usize].name
    }

    /// Its bytes, from the header of the channel's protocol on; at least the protocol's fixed header.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the frame came from a worker with its packet and is ours until it is given back, when this is dropped.
        unsafe { self.rings.pool().packet(self.carried.frame) }
    }

    /// A field of its metadata.
    pub fn metadata(&self, field: Field) -> u128 {
        // SAFETY: as for `bytes`.
        unsafe { read_metadata(&self.program, self.rings.pool(), self.carried.frame, field) }
    }

    /// The worker that put it there. What is injected there is run behind what it has received since.
    pub fn worker(&self) -> usize {
        self.worker
    }
}

impl Drop for Punted {
    fn drop(&mut self) {
        self.rings.release(self.worker, self.carried.frame);
    }
}
