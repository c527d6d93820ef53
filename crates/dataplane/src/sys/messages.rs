//! Messages, to a packet socket many in one call (`sendmmsg(2)`) or one by one to a file, each gathered from pieces of
//! memory.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use super::call::check;

/// `<linux/sockios.h>`: the same number as of terminals.
const SIOCOUTQ: libc::Ioctl = libc::TIOCOUTQ;

/// Messages to be sent, with room for so many that sending needs no memory.
#[derive(Debug)]
pub struct Messages {
    /// Of all messages, one after the other. Never more than its capacity, so that they stay where they are.
    pieces: Vec<libc::iovec>,
    messages: Vec<libc::mmsghdr>,
}

// SAFETY: the pointers are used by `send` alone, whose caller answers for what they point to; those from messages to
// pieces point into this structure's own memory on the heap.
unsafe impl Send for Messages {}

impl Messages {
    /// Room for so many messages of so many pieces in all.
    pub fn new(messages: usize, pieces: usize) -> Self {
        Messages { pieces: Vec::with_capacity(pieces), messages: Vec::with_capacity(messages) }
    }

    /// Begins anew, without messages.
    pub fn clear(&mut self) {
        self.pieces.clear();
        self.messages.clear();
    }

    /// Begins a further message, without pieces.
    pub fn begin(&mut self) {
        assert!(self.messages.len() < self.messages.capacity(), "more messages than there is room for");
        // SAFETY: the structure is plain data for which zero is valid; the pointer is to the end of the pieces at most.
        let message = unsafe {
            let mut message: libc::mmsghdr = std::mem::zeroed();
            message.msg_hdr.msg_iov = self.pieces.as_mut_ptr().add(self.pieces.len());
            message
        };
        self.messages.push(message);
    }

    /// Adds bytes to the message that was begun last; none of no bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        assert!(self.pieces.len() < self.pieces.capacity(), "more pieces than there is room for");
        self.pieces.push(libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() });
        let message = self.messages.last_mut().expect("a message was begun");
        message.msg_hdr.msg_iovlen += 1;
    }

    /// Sends messages from this one on without waiting, while the kernel takes them; how many it took. An error is
    /// about the first of them.
    ///
    /// # Safety
    /// The bytes of all pieces that were pushed since the last [`Messages::clear`] are still there.
    pub unsafe fn send(&mut self, fd: &OwnedFd, from: usize) -> io::Result<usize> {
        let messages = &mut self.messages[from..];
        // SAFETY: the messages are as many as is said, their pieces lie behind the pointers that `begin` set, and what
        // those point to is there by the caller's promise. The kernel only reads it.
        let sent = unsafe {
            let count = messages.len() as libc::c_uint;
            check(libc::sendmmsg(fd.as_raw_fd(), messages.as_mut_ptr(), count, libc::MSG_DONTWAIT as _))?
        };
        Ok(sent as usize)
    }
}

impl Messages {
    /// Writes one message to a device that takes each call's bytes as a packet.
    ///
    /// # Safety
    /// As for [`Messages::send`].
    pub unsafe fn write(&self, fd: &impl AsRawFd, number: usize) -> io::Result<()> {
        let message = &self.messages[number].msg_hdr;
        // SAFETY: as in `send`, by the caller's promise.
        let written = unsafe { libc::writev(fd.as_raw_fd(), message.msg_iov, message.msg_iovlen as libc::c_int) };
        if written < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

/// Bytes that were sent with a packet socket and that the kernel still holds, as it counts them: in a queueing
/// discipline, or at a device.
pub fn unsent_bytes(fd: &OwnedFd) -> io::Result<usize> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the kernel writes one integer.
    unsafe { check(libc::ioctl(fd.as_raw_fd(), SIOCOUTQ, &mut bytes))? };
    Ok(bytes.max(0) as usize)
}
