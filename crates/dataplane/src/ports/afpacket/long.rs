//! Packets that are longer than a slot of the ring: they wait whole in the socket's own queue.

use std::os::fd::OwnedFd;

use crate::packets::{HEADER, RxBatch};
use crate::ports::intake::Intake;
use crate::sys::{self, ETHERNET, TAG};

/// The longest one, and its header: longer ones are only made where the system is told so (BIG TCP).
const LONGEST: usize = HEADER + ETHERNET + 2 * TAG + 65_535;

/// Room for one of them.
#[derive(Debug)]
pub struct Long {
    buffer: Box<[u8]>,
    /// Bytes of the one that is there, with its header; 0 where there is none.
    len: usize,
    /// Those that the kernel had no room for, since the last look.
    lost: u64,
}

impl Long {
    /// Without a packet.
    pub fn new() -> Self {
        Long { buffer: vec![0; LONGEST].into(), len: 0, lost: 0 }
    }

    /// Takes the one of so many bytes that waits next; whether all of it is taken. One of another length is what is
    /// left of a slot before.
    pub fn take(
        &mut self,
        socket: &OwnedFd,
        bytes: usize,
        batch: &mut RxBatch<'_>,
        tag: Option<[u8; TAG]>,
        intake: &mut Intake,
    ) -> bool {
        if self.len == 0 {
            // An error of the socket comes first, once.
            let mut receive =
                || sys::receive_long(socket, &mut self.buffer).or_else(|_| sys::receive_long(socket, &mut self.buffer));
            let mut result = receive();
            while result.as_ref().is_ok_and(|len| *len != HEADER + bytes) {
                result = receive();
            }
            match result {
                Ok(len) if len > self.buffer.len() => {
                    batch.skip_oversize();
                    return true;
                }
                Ok(len) if len > HEADER => self.len = len,
                _ => {
                    self.lose();
                    return true;
                }
            }
        }
        let Some((header, packet)) = self.buffer[..self.len].split_first_chunk::<HEADER>() else { return true };
        let is_taken = intake.take(batch, header, packet, tag);
        if is_taken {
            self.len = 0;
        }
        is_taken
    }

    /// Counts one whose beginning alone is there.
    pub fn lose(&mut self) {
        self.lost += 1;
    }

    /// Those that were lost since the last call.
    pub fn take_lost(&mut self) -> u64 {
        std::mem::take(&mut self.lost)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixDatagram;
    use std::sync::Arc;

    use baker::ir::CounterSlots;

    use super::*;
    use crate::FrameConfig;
    use crate::counters::CounterBlock;
    use crate::packets::{FramePool, Received, WorkerContext};
    use crate::testing::forward_program;

    #[test]
    fn what_is_left_of_a_slot_before_is_passed_over() {
        let program = forward_program();
        let pool = Arc::new(FramePool::new(&program, FrameConfig::default()).unwrap());
        let counters = Arc::new(CounterBlock::new(CounterSlots::new(&program).len()));
        let mut context = WorkerContext::new(&program, pool, None, counters).unwrap();
        let mut received = Received::default();
        let mut batch = RxBatch::new(&mut context, &mut received, 0);
        let (kernel, socket) = UnixDatagram::pair().unwrap();
        socket.set_nonblocking(true).unwrap();
        let (mut long, socket, mut intake) = (Long::new(), OwnedFd::from(socket), Intake::default());
        for bytes in [1700, 1500, 1600] {
            kernel.send(&vec![0; HEADER + bytes]).unwrap();
        }
        assert!(long.take(&socket, 1600, &mut batch, None, &mut intake));
        assert_eq!((batch.totals(), long.take_lost()), ((1, 1600, 0), 0));
        assert!(long.take(&socket, 1600, &mut batch, None, &mut intake));
        assert_eq!((batch.totals(), long.take_lost()), ((1, 1600, 0), 1));
    }
}
