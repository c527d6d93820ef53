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

    /// Takes the one that waits next; whether all of it is taken.
    pub fn take(
        &mut self,
        socket: &OwnedFd,
        batch: &mut RxBatch<'_>,
        tag: Option<[u8; TAG]>,
        intake: &mut Intake,
    ) -> bool {
        if self.len == 0 {
            // An error of the socket comes first, once.
            let result =
                sys::receive_long(socket, &mut self.buffer).or_else(|_| sys::receive_long(socket, &mut self.buffer));
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
