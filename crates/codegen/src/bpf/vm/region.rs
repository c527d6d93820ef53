//! Memory that code on the virtual machine reads and writes.

use std::ptr::NonNull;

/// One memory.
#[derive(Debug)]
pub(super) enum Region {
    /// The machine's own.
    Own(Vec<u8>),
    /// Somebody else's.
    Lent(Lent),
}

/// Memory that belongs to somebody else, such as a program's tables.
#[derive(Clone, Copy, Debug)]
pub struct Lent {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: plain memory; who touches it when is what [`Lent::new`] asks its caller.
unsafe impl Send for Lent {}

impl Lent {
    /// Of so many bytes.
    ///
    /// # Safety
    /// The memory is there as long as a machine has it, and nobody else reads or writes it while the machine runs a packet.
    pub unsafe fn new(start: NonNull<u8>, len: usize) -> Self {
        Lent { start, len }
    }
}

impl Region {
    pub fn bytes(&mut self) -> &mut [u8] {
        match self {
            Region::Own(bytes) => bytes,
            // SAFETY: by what was promised; the machine is borrowed as long as the result.
            Region::Lent(lent) => unsafe { std::slice::from_raw_parts_mut(lent.start.as_ptr(), lent.len) },
        }
    }
}
