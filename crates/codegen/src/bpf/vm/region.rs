//! Memory that code on the virtual machine reads and writes.

use std::ptr::NonNull;

/// One memory.
#[derive(Debug)]
pub(super) enum Region {
    /// The machine's own.
    Own(Vec<u8>),
    /// Another owner's.
    Borrowed(Borrowed),
}

/// Borrowed memory, such as a program's tables.
#[derive(Clone, Copy, Debug)]
pub struct Borrowed {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: plain memory; when it is touched is what [`Borrowed::new`] asks its caller.
unsafe impl Send for Borrowed {}

impl Borrowed {
    /// Of so many bytes.
    ///
    /// # Safety
    /// The memory is there as long as a machine has it, and nothing else reads or writes it while the machine runs a
    /// packet.
    pub unsafe fn new(start: NonNull<u8>, len: usize) -> Self {
        Borrowed { start, len }
    }
}

impl Region {
    pub fn bytes(&mut self) -> &mut [u8] {
        match self {
            Region::Own(bytes) => bytes,
            // SAFETY: by what was promised; the machine is borrowed as long as the result.
            Region::Borrowed(borrowed) => unsafe {
                std::slice::from_raw_parts_mut(borrowed.start.as_ptr(), borrowed.len)
            },
        }
    }
}
