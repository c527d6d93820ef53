//! Writes by `pwrite`, one after the other, where there is no io_uring.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::EventFd;

use super::{Completion, Operation, System};

/// Does each operation at once.
#[derive(Debug, Default)]
pub struct Plain {
    done: Vec<Completion>,
}

/// Does an operation.
pub(super) fn carry_out(operation: &Operation) -> io::Result<()> {
    let (file, durable) = match operation {
        Operation::Block { file, offset, block, length, durable } => {
            file.write_all_at(&block.bytes()[..*length], *offset)?;
            (file, *durable)
        }
        Operation::Bytes { file, offset, bytes, durable } => {
            file.write_all_at(bytes, *offset)?;
            (file, *durable)
        }
        Operation::Sync { file } => (file, true),
    };
    if durable { file.sync_data() } else { Ok(()) }
}

impl System for Plain {
    fn name(&self) -> String {
        "pwrite".to_owned()
    }

    fn submit(&mut self, token: u64, operation: Operation) {
        self.done.push(Completion { token, result: carry_out(&operation) });
    }

    fn wait(&mut self, wake: &EventFd, timeout: Duration, done: &mut Vec<Completion>) -> io::Result<()> {
        let timeout = if self.done.is_empty() { timeout } else { Duration::ZERO };
        let timeout = PollTimeout::try_from(timeout).unwrap_or(PollTimeout::MAX);
        match poll(&mut [PollFd::new(wake.as_fd(), PollFlags::POLLIN)], timeout) {
            Ok(1..) => drop(wake.read()?),
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
        done.append(&mut self.done);
        Ok(())
    }
}
