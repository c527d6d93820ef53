//! The sockets of several workers at one interface: the kernel spreads packets over them by a hash of the flow that is
//! the same for both directions (PACKET_FANOUT_HASH, packet(7)).
//!
//! A socket can join only when it is bound, and would get every packet until then; and while some have joined, they get
//! the flows of those that have not. So each is kept shut until all are there, also where an interface was made again
//! and the workers notice it one after the other: a socket keeps to the interface on which it joined (packet_do_bind in
//! net/packet/af_packet.c), so that all of them are new then.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::sys;

/// What the workers of a port know of each other.
#[derive(Debug)]
pub struct Share {
    workers: usize,
    group: Mutex<Group>,
}

#[derive(Debug, Default)]
struct Group {
    /// Of the interface.
    index: i32,
    /// The kernel's number for it, once there is one.
    number: Option<i32>,
    /// Those that have joined, with the sockets that are shut.
    joined: Vec<(usize, OwnedFd)>,
    open: bool,
}

impl Share {
    /// For so many workers.
    pub fn new(workers: usize) -> Self {
        Share { workers, group: Mutex::default() }
    }

    /// Whether there is more than one.
    pub fn is_shared(&self) -> bool {
        self.workers > 1
    }

    /// Adds the new socket of a worker, which [`sys::keep_out`] has shut and which is bound to the interface of this
    /// index. With the last one all are opened.
    pub fn join(&self, worker: usize, socket: &OwnedFd, index: i32) -> io::Result<()> {
        if !self.is_shared() {
            return Ok(());
        }
        let mut group = self.lock();
        // Another interface than that of the others, or a further one in its place.
        if group.index != index || group.open || group.joined.iter().any(|(other, _)| *other == worker) {
            *group = Group { index, ..Group::default() };
        }
        const TYPE: i32 = libc::PACKET_FANOUT_HASH as i32;
        // The kernel finds a number that no other group has.
        let unique = (TYPE | libc::PACKET_FANOUT_FLAG_UNIQUEID as i32) << 16;
        let number = group.number.map_or(unique, |number| TYPE << 16 | number);
        sys::set_option(socket, libc::SOL_PACKET, libc::PACKET_FANOUT, &number)?;
        group.number = Some(sys::packet_option(socket, libc::PACKET_FANOUT)? & 0xffff);
        group.joined.push((worker, socket.try_clone()?));
        if group.joined.len() == self.workers {
            group.open = true;
            for (_, socket) in std::mem::take(&mut group.joined) {
                sys::let_in(&socket)?;
            }
        }
        Ok(())
    }

    /// Whether packets come in from the interface of this index.
    pub fn is_open(&self, index: i32) -> bool {
        let group = self.lock();
        !self.is_shared() || (group.index == index && group.open)
    }

    fn lock(&self) -> MutexGuard<'_, Group> {
        self.group.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
