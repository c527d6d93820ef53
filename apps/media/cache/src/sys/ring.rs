//! Writes with io_uring: blocks from registered memory, and the wake-up by an eventfd as one more operation.

#![allow(unsafe_code)]

use std::collections::HashMap;
use std::io;
use std::os::fd::AsRawFd;
use std::time::Duration;

use io_uring::types::{Fd, FsyncFlags, SubmitArgs, Timespec};
use io_uring::{IoUring, opcode, squeue};
use nix::sys::eventfd::EventFd;

use super::{Completion, Operation, System};
use crate::blocks::Place;

/// Operations that the ring holds before they are submitted.
const ENTRIES: u32 = 256;
/// The token of the read that waits for wake-ups.
const WAKE: u64 = u64::MAX;

/// A ring, with all that is under way in it.
pub struct Ring {
    ring: IoUring,
    registered: bool,
    /// What the kernel reads from until its completion has come, and how much of it is written.
    under_way: HashMap<u64, (Operation, usize)>,
    /// What has ended without the kernel.
    done: Vec<Completion>,
    /// Where the count of an eventfd is read to. In a box, because the kernel knows its address.
    count: Box<[u8; 8]>,
    waits: bool,
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ring").field("under_way", &self.under_way.len()).finish_non_exhaustive()
    }
}

impl Ring {
    /// A ring that writes from these blocks.
    pub fn new(places: &[Place]) -> io::Result<Ring> {
        let ring = IoUring::builder().dontfork().build(ENTRIES)?;
        if !ring.params().is_feature_ext_arg() || !ring.params().is_feature_nodrop() {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "it is of a kernel before 5.11"));
        }
        let vectors: Vec<libc::iovec> = places
            .iter()
            .map(|place| libc::iovec { iov_base: place.address as *mut libc::c_void, iov_len: place.length })
            .collect();
        // SAFETY: the places are those of blocks, which the kernel pins. It reads from them only for operations, and
        // a block lives in `under_way` until that of its own has ended.
        let registered = unsafe { ring.submitter().register_buffers(&vectors) };
        if let Err(error) = &registered {
            tracing::info!(%error, "the cache's buffers are not registered, which costs time (RLIMIT_MEMLOCK?)");
        }
        let registered = registered.is_ok();
        Ok(Ring { ring, registered, under_way: HashMap::new(), done: Vec::new(), count: Box::default(), waits: false })
    }

    /// What the kernel is to do for an operation of which so many bytes are done.
    fn entry(&self, operation: &Operation, done: usize) -> squeue::Entry {
        let flags = |durable: bool| if durable { libc::RWF_DSYNC } else { 0 };
        match operation {
            Operation::Block { file, offset, block, length, durable } => {
                let bytes = &block.bytes()[done..*length];
                let (fd, at, count) = (Fd(file.as_raw_fd()), offset + done as u64, bytes.len() as u32);
                if self.registered {
                    let write = opcode::WriteFixed::new(fd, bytes.as_ptr(), count, block.number());
                    write.offset(at).rw_flags(flags(*durable)).build()
                } else {
                    opcode::Write::new(fd, bytes.as_ptr(), count).offset(at).rw_flags(flags(*durable)).build()
                }
            }
            Operation::Bytes { file, offset, bytes, durable } => {
                let rest = &bytes[done..];
                let write = opcode::Write::new(Fd(file.as_raw_fd()), rest.as_ptr(), rest.len() as u32);
                write.offset(offset + done as u64).rw_flags(flags(*durable)).build()
            }
            Operation::Sync { file } => opcode::Fsync::new(Fd(file.as_raw_fd())).flags(FsyncFlags::DATASYNC).build(),
        }
    }

    fn push(&mut self, entry: &squeue::Entry) -> io::Result<()> {
        // SAFETY: what the entry points to is in `under_way`, or is `count`, until its completion has come: `drop`
        // waits for all of them.
        while unsafe { self.ring.submission().push(entry) }.is_err() {
            self.ring.submit()?;
        }
        Ok(())
    }

    fn begin(&mut self, token: u64, operation: Operation, done: usize) {
        let entry = self.entry(&operation, done).user_data(token);
        self.under_way.insert(token, (operation, done));
        if let Err(error) = self.push(&entry) {
            self.under_way.remove(&token);
            self.done.push(Completion { token, result: Err(error) });
        }
    }

    /// The kernel has ended one.
    fn ended(&mut self, token: u64, result: i32) {
        let Some((operation, done)) = self.under_way.remove(&token) else { return };
        let length = match &operation {
            Operation::Block { length, .. } => *length,
            Operation::Bytes { bytes, .. } => bytes.len(),
            Operation::Sync { .. } => 0,
        };
        let result = match usize::try_from(result) {
            Err(_) if matches!(-result, libc::EINTR | libc::EAGAIN) => return self.begin(token, operation, done),
            Err(_) => Err(io::Error::from_raw_os_error(-result)),
            Ok(written) if done + written >= length => Ok(()),
            Ok(0) => Err(io::ErrorKind::WriteZero.into()),
            // The rest of it; the disk may be full by now, which the next one says.
            Ok(written) => return self.begin(token, operation, done + written),
        };
        self.done.push(Completion { token, result });
    }

    /// Takes completions.
    fn take(&mut self) {
        let all: Vec<(u64, i32)> = self.ring.completion().map(|entry| (entry.user_data(), entry.result())).collect();
        for (token, result) in all {
            match token {
                WAKE => self.waits = false,
                _ => self.ended(token, result),
            }
        }
    }
}

impl System for Ring {
    fn name(&self) -> String {
        if self.registered { "io_uring" } else { "io_uring, buffers not registered" }.to_owned()
    }

    fn submit(&mut self, token: u64, operation: Operation) {
        self.begin(token, operation, 0);
    }

    fn wait(&mut self, wake: &EventFd, timeout: Duration, done: &mut Vec<Completion>) -> io::Result<()> {
        if !self.waits {
            let entry = opcode::Read::new(Fd(wake.as_raw_fd()), self.count.as_mut_ptr(), 8).build().user_data(WAKE);
            self.push(&entry)?;
            self.waits = true;
        }
        if self.done.is_empty() {
            let timeout = Timespec::from(timeout);
            let waited = self.ring.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&timeout));
            match waited {
                Err(error) if !matches!(error.raw_os_error(), Some(libc::ETIME | libc::EINTR | libc::EBUSY)) => {
                    return Err(error);
                }
                _ => {}
            }
        } else {
            self.ring.submit()?;
        }
        self.take();
        done.append(&mut self.done);
        Ok(())
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // The kernel may still read from blocks, and write to `count`.
        let cancel = opcode::AsyncCancel::new(WAKE).build().user_data(WAKE - 1);
        if self.waits && self.push(&cancel).is_err() {
            std::mem::forget(std::mem::take(&mut self.count));
            self.waits = false;
        }
        while self.waits || !self.under_way.is_empty() {
            if self.ring.submit_and_wait(1).is_err() {
                std::mem::forget((std::mem::take(&mut self.under_way), std::mem::take(&mut self.count)));
                return;
            }
            self.take();
        }
    }
}
