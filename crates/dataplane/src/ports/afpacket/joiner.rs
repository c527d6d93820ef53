//! The socket by which super-packets leave ([`gso`](crate::ports::gso)).
//!
//! It is one of its own: rings have no room for them, and it goes through the queueing discipline, for what is to be
//! divided would be dropped past it (`PACKET_QDISC_BYPASS`). As the ring goes past it, a batch goes by one of the two,
//! whole. While the ring has packets that the device had no room for, it is the ring; and while the kernel has some of
//! the socket's (`SIOCOUTQ`), the socket. What the kernel does not take of the socket's goes into the ring, which waits
//! until the rest is sent.

use std::io;
use std::os::fd::OwnedFd;

use super::device;
use super::socket::enlarge_buffer;
use crate::packets::{Bytes, TxBatch};
use crate::ports::gso::{Outgoing, Plan};
use crate::ports::queue::Sent;
use crate::ports::spec::Gso;
use crate::sys;

/// Packets of a flow in a batch from which on a super-packet is worth its price.
const LEAST: u16 = 4;

/// The socket for super-packets to an interface, where there is to be one, and a line about it. `socket` asks.
pub fn open(socket: &OwnedFd, interface: &str, index: i32, wanted: Gso) -> (Option<Joiner>, Option<String>) {
    match device::takes(socket, interface, wanted) {
        (None, about) => (None, about),
        (Some(takes_udp), about) => match Joiner::open(index, takes_udp) {
            Ok(joiner) => (Some(joiner), about),
            Err(error) => (None, Some(format!("sends no super-packets: {error}"))),
        },
    }
}

/// How far sending came.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All is sent, or can't be.
    Done,
    /// The kernel takes no more for now: what [`Joiner::rest`] gives is left.
    Full,
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
    /// Super-packets sent, and the packets in them.
    pub sent: [u64; 2],
    /// The latest error.
    pub error: Option<io::Error>,
}

impl Joiner {
    /// A socket that sends to the interface of this index; in a user namespace, too.
    fn open(index: i32, takes_udp: bool) -> io::Result<Self> {
        let socket = sys::packet_socket()?;
        sys::tell_unfinished(&socket)?;
        enlarge_buffer(&socket);
        sys::bind_to_send(&socket, index)?;
        Ok(Joiner {
            socket,
            plan: Plan::new(takes_udp),
            outgoing: Outgoing::new(),
            done: 0,
            owes: false,
            is_refused: false,
            sent: [0; 2],
            error: None,
        })
    }

    /// Whether the kernel still has some of what was sent, which nothing may overtake.
    pub fn owes(&mut self) -> bool {
        self.owes = self.owes && sys::unsent_bytes(&self.socket).is_ok_and(|bytes| bytes > 0);
        self.owes
    }

    /// A pending error would be taken for one of the next packet's.
    pub fn forget_error(&self) {
        let _ = sys::take_socket_error(&self.socket);
    }

    /// Looks at so many packets of a batch from `start` on, as many as a plan takes at most; whether they are to be
    /// sent by this socket. Those that do not fit the device are left out.
    pub fn plan(&mut self, batch: &TxBatch<'_>, start: usize, count: usize, fits: impl Fn(Bytes<'_>) -> bool) -> bool {
        let make = |plan: &mut Plan| {
            plan.make(count, |number| Some(batch.packet(start + number)).filter(|packet| fits(*packet)));
        };
        let may_join = count >= usize::from(LEAST) && !self.is_refused;
        if may_join {
            make(&mut self.plan);
            if self.plan.longest >= LEAST {
                return true;
            }
        }
        let must = self.owes();
        if must && !may_join {
            make(&mut self.plan);
        }
        must
    }

    /// Sends what was planned of a batch.
    pub fn send(&mut self, batch: &TxBatch<'_>, start: usize, sent: &mut Sent) -> Outcome {
        self.outgoing.make(&self.plan, batch, start, !self.is_refused);
        self.done = 0;
        while let Some(next) = self.outgoing.ready.get(self.done) {
            // SAFETY: the pieces are of the batch, which is there, and of what was made for it.
            let result = unsafe { self.outgoing.messages.send(&self.socket, self.done) };
            match result.as_ref().map_err(io::Error::raw_os_error) {
                Ok(count) => {
                    for message in &self.outgoing.ready[self.done..self.done + count] {
                        sent.packets += usize::from(message.packets);
                        sent.bytes += u64::from(message.bytes);
                        if message.packets > 1 {
                            self.sent[0] += 1;
                            self.sent[1] += u64::from(message.packets);
                        }
                    }
                    self.done += count;
                    self.owes = true;
                }
                Err(Some(libc::EINTR)) => {}
                Err(Some(libc::EAGAIN | libc::ENOBUFS | libc::ENOMEM)) => return Outcome::Full,
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
        let left = &self.outgoing.ready[self.done..];
        left.iter().flat_map(|message| self.plan.packets(message.first).take(message.packets.into()))
    }
}
