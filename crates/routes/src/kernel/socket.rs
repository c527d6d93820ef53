//! The kernel over rtnetlink: sockets for events, and for dumps and requests.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use netlink_packet_core::{
    NLM_F_CREATE, NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::address::AddressMessage;
use netlink_packet_route::link::LinkMessage;
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourFlags, NeighbourMessage, NeighbourState,
};
use netlink_packet_route::route::{RouteAddress, RouteAttribute, RouteMessage};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};
use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, setsockopt, sockopt};

use super::event::{Event, RoutePath, event, way};

/// Of links, neighbours, addresses and routes (`linux/rtnetlink.h`).
const GROUPS: u32 = 1 | 4 | 0x10 | 0x40 | 0x100 | 0x400;
/// A datagram of the kernel has 32 KiB at most.
const DATAGRAM: usize = 64 << 10;
/// Datagrams that are taken before something else has its turn.
const AT_ONCE: usize = 1 << 14;

/// What a datagram has: each message's event. How many could not be read.
fn read(
    datagram: &[u8],
    mut each: impl FnMut(&NetlinkHeader, Result<Event, NetlinkPayload<RouteNetlinkMessage>>),
) -> u64 {
    let (mut rest, mut unreadable) = (datagram, 0);
    while let Some(length) = rest.first_chunk().map(|length| u32::from_ne_bytes(*length) as usize) {
        if length < 16 || length > rest.len() {
            return unreadable + 1;
        }
        match NetlinkMessage::<RouteNetlinkMessage>::deserialize(&rest[..length]) {
            Ok(NetlinkMessage { header, payload: NetlinkPayload::InnerMessage(message), .. }) => {
                if let Some(event) = event(&message, header.flags) {
                    each(&header, Ok(event));
                }
            }
            Ok(NetlinkMessage { header, payload, .. }) => each(&header, Err(payload)),
            Err(_) => unreadable += 1,
        }
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    unreadable
}

/// Events as they happen.
pub struct Monitor {
    socket: Socket,
    buffer: Vec<u8>,
}

/// How far a [`Monitor`] came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drained {
    /// Nothing more is there.
    All,
    /// The kernel had no room for more: some are lost.
    Overrun,
}

impl Monitor {
    /// Of the calling thread's network namespace, with room for so many bytes of events.
    pub fn open(receive_buffer: usize) -> io::Result<Monitor> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        // Beyond what everybody may have, where that is allowed.
        if setsockopt(&socket, sockopt::RcvBufForce, &receive_buffer).is_err() {
            setsockopt(&socket, sockopt::RcvBuf, &receive_buffer)?;
        }
        socket.bind(&SocketAddr::new(0, GROUPS))?;
        socket.set_non_blocking(true)?;
        Ok(Monitor { socket, buffer: vec![0; DATAGRAM] })
    }

    /// Takes the events that are there, or many of them.
    pub fn drain(&mut self, each: &mut dyn FnMut(Event)) -> io::Result<Drained> {
        for _ in 0..AT_ONCE {
            match self.socket.recv(&mut &mut self.buffer[..], 0) {
                Ok(length) => {
                    read(&self.buffer[..length.min(DATAGRAM)], |_, found| {
                        if let Ok(event) = found {
                            each(event);
                        }
                    });
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Drained::All),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.raw_os_error() == Some(Errno::ENOBUFS as i32) => return Ok(Drained::Overrun),
                Err(error) => return Err(error),
            }
        }
        Ok(Drained::All)
    }
}

impl AsFd for Monitor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Questions and requests.
pub struct Requests {
    socket: Socket,
    buffer: Vec<u8>,
    sequence: u32,
}

/// What can be dumped.
#[derive(Clone, Copy, Debug)]
pub enum Dump {
    Links,
    Addresses,
    Neighbours,
    Routes4,
    Routes6,
}

impl Dump {
    /// In the order in which one leads to the next.
    pub const ALL: [Dump; 5] = [Dump::Links, Dump::Addresses, Dump::Neighbours, Dump::Routes4, Dump::Routes6];

    fn message(self) -> RouteNetlinkMessage {
        let routes = |family| {
            let mut message = RouteMessage::default();
            message.header.address_family = family;
            RouteNetlinkMessage::GetRoute(message)
        };
        match self {
            Dump::Links => RouteNetlinkMessage::GetLink(LinkMessage::default()),
            Dump::Addresses => RouteNetlinkMessage::GetAddress(AddressMessage::default()),
            Dump::Neighbours => RouteNetlinkMessage::GetNeighbour(NeighbourMessage::default()),
            Dump::Routes4 => routes(AddressFamily::Inet),
            Dump::Routes6 => routes(AddressFamily::Inet6),
        }
    }
}

impl Requests {
    /// In the calling thread's network namespace.
    pub fn open() -> io::Result<Requests> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        Ok(Requests { socket, buffer: vec![0; DATAGRAM], sequence: 0 })
    }

    fn send(&mut self, message: RouteNetlinkMessage, flags: u16) -> io::Result<()> {
        self.sequence = self.sequence.wrapping_add(1);
        let mut header = NetlinkHeader::default();
        (header.flags, header.sequence_number) = (NLM_F_REQUEST | flags, self.sequence);
        let mut message = NetlinkMessage::new(header, NetlinkPayload::from(message));
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        self.socket.send(&bytes, 0).map(|_| ())
    }

    /// Waits for a datagram; how many bytes of the buffer it has.
    fn receive(&mut self) -> io::Result<usize> {
        loop {
            match self.socket.recv(&mut &mut self.buffer[..], 0) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                received => return received.map(|length| length.min(DATAGRAM)),
            }
        }
    }

    /// Has the kernel tell all that it knows of a kind; `between` is called from time to time. Whether nothing changed
    /// meanwhile, which may have hidden something.
    pub fn dump(&mut self, what: Dump, each: &mut dyn FnMut(Event), between: &mut dyn FnMut()) -> io::Result<bool> {
        self.send(what.message(), NLM_F_DUMP)?;
        let (mut whole, mut end) = (true, None);
        while end.is_none() {
            let length = self.receive()?;
            let own = self.sequence;
            read(&self.buffer[..length], |header, found| {
                if header.sequence_number != own {
                    return;
                }
                whole &= header.flags & NLM_F_DUMP_INTR == 0;
                match found {
                    Ok(event) => each(event),
                    Err(NetlinkPayload::Error(error)) => end = Some(error.code.map_or(Ok(()), |_| Err(error.to_io()))),
                    Err(NetlinkPayload::Done(done)) if done.code < 0 => {
                        end = Some(Err(io::Error::from_raw_os_error(-done.code)));
                    }
                    Err(NetlinkPayload::Done(_)) => end = Some(Ok(())),
                    Err(_) => {}
                }
            });
            between();
        }
        end.unwrap_or(Ok(())).map(|()| whole)
    }

    /// The way that the kernel's own packets to an address would take, by all of its tables and rules; `None` where
    /// none leads there.
    pub fn way(&mut self, address: IpAddr) -> io::Result<Option<Arc<RoutePath>>> {
        let mut message = RouteMessage::default();
        let (family, length, address) = match address {
            IpAddr::V4(v4) => (AddressFamily::Inet, 32, RouteAddress::Inet(v4)),
            IpAddr::V6(v6) => (AddressFamily::Inet6, 128, RouteAddress::Inet6(v6)),
        };
        (message.header.address_family, message.header.destination_prefix_length) = (family, length);
        message.attributes.push(RouteAttribute::Destination(address));
        self.send(RouteNetlinkMessage::GetRoute(message), 0)?;
        loop {
            let length = self.receive()?;
            let answer = NetlinkMessage::<RouteNetlinkMessage>::deserialize(&self.buffer[..length]);
            let answer = answer.map_err(io::Error::other)?;
            if answer.header.sequence_number != self.sequence {
                continue;
            }
            return match answer.payload {
                NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewRoute(message)) => Ok(way(&message)),
                // Blackhole, prohibit, unreachable, no route.
                NetlinkPayload::Error(error) => match Errno::from_raw(-error.raw_code()) {
                    Errno::EINVAL | Errno::EACCES | Errno::EHOSTUNREACH | Errno::ENETUNREACH => Ok(None),
                    _ => Err(error.to_io()),
                },
                _ => Ok(None),
            };
        }
    }

    /// Has the kernel act as if it had a packet for a neighbour: it finds the Ethernet address out, or asks whether
    /// one that it has not heard of for long is still there.
    pub fn use_neighbour(&mut self, interface: u32, address: IpAddr) -> io::Result<()> {
        // Answers are only there where it could not, such as by an interface that is down.
        while self.socket.recv(&mut &mut self.buffer[..], MsgFlags::MSG_DONTWAIT.bits()).is_ok() {}
        let mut message = NeighbourMessage::default();
        let (family, destination) = match address {
            IpAddr::V4(v4) => (AddressFamily::Inet, NeighbourAddress::Inet(v4)),
            IpAddr::V6(v6) => (AddressFamily::Inet6, NeighbourAddress::Inet6(v6)),
        };
        message.header.family = family;
        message.header.ifindex = interface;
        message.header.state = NeighbourState::None;
        message.header.flags = NeighbourFlags::Use;
        message.attributes.push(NeighbourAttribute::Destination(destination));
        self.send(RouteNetlinkMessage::NewNeighbour(message), NLM_F_CREATE)
    }
}
