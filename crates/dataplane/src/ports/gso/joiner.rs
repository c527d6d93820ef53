//! The socket by which super-packets leave.
//!
//! It is one of its own: rings have no room for them, and it goes through the queueing discipline, for what is to be
//! divided would be dropped past it (`PACKET_QDISC_BYPASS`).
//!
//! The ring of an AF_PACKET port goes past it. So a batch goes by one of the two, whole. While the ring has packets
//! that the device had no room for, it is the ring; and while the kernel has some of the socket's (`SIOCOUTQ`), the
//! socket. What the kernel does not take of the socket's goes into the ring, which waits until the rest is sent.

use std::io;
use std::os::fd::OwnedFd;

use super::joined::Joined;
use super::outgoing::Outgoing;
use super::plan::Plan;
use crate::counters::PortCounters;
use crate::packets::{Bytes, TxBatch};
use crate::ports::buffers::enlarge_sending;
use crate::ports::queue::Sent;
use crate::sys;

/// Packets of a flow in a batch from which on a super-packet is worth its price.
const LEAST: u16 = 4;

/// How far sending came.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All is sent, or can't be.
    Done,
    /// The kernel takes no more for now: what [`Joiner::rest`] gives is left.
    Full,
    /// The queueing discipline has dropped the first of the packets that are left, and counts that.
    Dropped,
    /// The interface takes nothing.
    Down,
}

/// The socket of a queue for super-packets.
#[derive(Debug)]
pub struct Joiner {
    socket: OwnedFd,
    plan: Plan,
    outgoing: Outgoing,
    /// Messages that were sent, or can't be.
    done: usize,
    /// The kernel may have some of what was sent.
    owes: bool,
    /// The kernel does not know such super-packets.
    is_refused: bool,
    joined: Joined,
    /// The latest error.
    pub error: Option<io::Error>,
}

impl Joiner {
    /// A socket that sends to the interface of this index; in a user namespace, too.
    pub fn open(index: i32, takes_udp: bool) -> io::Result<Self> {
        let socket = sys::packet_socket()?;
        sys::tell_unfinished(&socket)?;
        enlarge_sending(&socket);
        sys::bind_to_send(&socket, index)?;
        Ok(Joiner {
            socket,
            plan: Plan::new(takes_udp),
            outgoing: Outgoing::new(),
            done: 0,
            owes: false,
            is_refused: false,
            joined: Joined::default(),
            error: None,
        })
    }

    /// Whether the kernel still has some of what was sent, which nothing may overtake.
    pub fn owes(&mut self) -> bool {
        self.owes = self.owes && sys::unsent_bytes(&self.socket).is_ok_and(|bytes| bytes > 0);
        self.owes
    }

    /// Counts what was sent. A pending error is forgotten, for it would be taken for one of the next packet's.
    pub fn tick(&mut self, counters: &PortCounters) {
        let _ = sys::take_socket_error(&self.socket);
        self.joined.count(counters);
    }

    /// Looks at so many packets of a batch from `start` on, as many as a plan takes at most; whether they are to be
    /// sent by this socket. Those that do not fit the device are left out.
    pub fn plan(&mut self, batch: &TxBatch<'_>, start: usize, count: usize, fits: impl Fn(Bytes<'_>) -> bool) -> bool {
        if self.joins(batch, start, count, &fits) {
            return true;
        }
        let must = self.owes();
        if must && !self.may_join(count) {
            self.make(batch, start, count, fits);
        }
        must
    }

    /// As [`Joiner::plan`] where nothing waits that could be overtaken: whether some are worth joining.
    pub fn joins(&mut self, batch: &TxBatch<'_>, start: usize, count: usize, fits: impl Fn(Bytes<'_>) -> bool) -> bool {
        if !self.may_join(count) {
            return false;
        }
        self.make(batch, start, count, fits);
        self.plan.longest >= LEAST
    }

    fn may_join(&self, count: usize) -> bool {
        count >= usize::from(LEAST) && !self.is_refused
    }

    fn make(&mut self, batch: &TxBatch<'_>, start: usize, count: usize, fits: impl Fn(Bytes<'_>) -> bool) {
        self.plan.make(count, |number| Some(batch.packet(start + number)).filter(|packet| fits(*packet)));
    }

    /// Sends what was planned of a batch.
    pub fn send(&mut self, batch: &TxBatch<'_>, start: usize, sent: &mut Sent) -> Outcome {
        self.outgoing.make(&self.plan, batch, start, !self.is_refused);
        self.done = 0;
        self.go_on(sent)
    }

    /// Passes over what was dropped, and sends what is left; the bytes of what was dropped are not sent.
    pub fn pass_over(&mut self, sent: &mut Sent) -> Outcome {
        sent.packets += self.outgoing.ready.get(self.done).map_or(0, |dropped| usize::from(dropped.packets));
        self.done += 1;
        self.go_on(sent)
    }

    fn go_on(&mut self, sent: &mut Sent) -> Outcome {
        while let Some(next) = self.outgoing.ready.get(self.done) {
            // SAFETY: the pieces are of the batch, which is there, and of what was made for it.
            let result = unsafe { self.outgoing.messages.send(&self.socket, self.done) };
            match result.as_ref().map_err(io::Error::raw_os_error) {
                Ok(count) => {
                    let messages = &self.outgoing.ready[self.done..self.done + count];
                    messages.iter().for_each(|message| self.joined.note(message, sent));
                    self.done += count;
                    self.owes = true;
                }
                Err(Some(libc::EINTR)) => {}
                Err(Some(libc::EAGAIN | libc::ENOMEM)) => return Outcome::Full,
                Err(Some(libc::ENOBUFS)) => return Outcome::Dropped,
                Err(Some(libc::ENETDOWN | libc::ENXIO | libc::ENODEV)) => return Outcome::Down,
                // The MTU may shrink at any time.
                Err(Some(libc::EMSGSIZE)) => self.done += 1,
                Err(Some(libc::EINVAL)) if next.packets > 1 => {
                    (self.is_refused, self.error) = (true, result.err());
                    return Outcome::Full;
                }
                Err(_) => {
                    self.error = result.err();
                    self.done += 1;
                }
            }
        }
        Outcome::Done
    }

    /// Planned packets that were not sent, in the order in which they are to leave.
    pub fn rest(&self) -> impl Iterator<Item = usize> + '_ {
        let left = self.outgoing.ready.get(self.done..).unwrap_or_default();
        left.iter().flat_map(|message| self.plan.packets(message.first).take(message.packets.into()))
    }
}
