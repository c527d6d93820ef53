//! Own UDP ports: bound as long as they are a stream's, so that nothing else on the host takes them. RTCP comes to
//! them; RTP does only where its flow is not known yet.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::os::fd::AsRawFd;
use std::sync::Arc;

use dataplane::join_group;
use nix::ifaddrs::{InterfaceAddress, getifaddrs};
use nix::net::if_::if_nametoindex;
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockType, SockaddrStorage, sendto, setsockopt, socket, sockopt,
};
use tokio::net::UdpSocket;
use tokio::task::AbortHandle;

use super::shared::Shared;
use crate::proxy::world::{Interface, Listening};

/// Datagrams of a socket that are read before others have their turn.
const BATCH: usize = 64;
/// Bytes of a datagram at most.
const LONGEST: usize = 2048;

/// A bound socket with the task that reads it.
#[derive(Debug)]
struct Bound {
    socket: Arc<UdpSocket>,
    task: AbortHandle,
}

impl Drop for Bound {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Which socket a datagram came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum To {
    /// RTP of a pair towards an origin: own address, first port of the pair.
    PairMedia(IpAddr, u16),
    /// RTCP of a pair.
    PairReports(IpAddr, u16),
    /// RTP of the ports towards receivers.
    Media(IpAddr),
    /// RTCP of the ports towards receivers.
    Reports(IpAddr),
}

/// The sockets.
#[derive(Debug, Default)]
pub struct Datagrams {
    bound: HashMap<To, Bound>,
    /// The first port that is tried next.
    next: u16,
}

impl Datagrams {
    /// Binds two ports that follow each other, the first one even, out of a range.
    pub fn bind_pair(&mut self, address: IpAddr, range: &RangeInclusive<u16>, shared: &Shared) -> Option<u16> {
        let first = range.start().next_multiple_of(2);
        let pairs = (u32::from(*range.end()) + 1).checked_sub(u32::from(first))? / 2;
        if !range.contains(&self.next) {
            self.next = first;
        }
        for _ in 0..pairs {
            let port = self.next;
            let following = port.checked_add(3).filter(|last| range.contains(last));
            self.next = following.map_or(first, |last| last - 1);
            if self.bind_pair_again(address, port, shared) {
                return Some(port);
            }
        }
        None
    }

    /// Binds a certain pair; whether it is.
    pub fn bind_pair_again(&mut self, address: IpAddr, port: u16, shared: &Shared) -> bool {
        let both = [To::PairMedia, To::PairReports].map(|to| to(address, port));
        !self.bound.contains_key(&both[0]) && self.bind_both(address, port, both, shared)
    }

    /// Binds the ports towards receivers; whether they are.
    pub fn bind_media(&mut self, address: IpAddr, port: u16, shared: &Shared) -> bool {
        self.bound.contains_key(&To::Media(address))
            || self.bind_both(address, port, [To::Media(address), To::Reports(address)], shared)
    }

    /// Listens where a stream comes to, RTCP too where its port can be had; groups are joined.
    pub fn listen(&mut self, at: &Listening, shared: &Shared) -> io::Result<()> {
        let interface = index_of(&at.interface)?;
        let bind = |port, to| -> io::Result<Bound> {
            let family = if at.address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
            let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
            let socket = socket(family, SockType::Datagram, flags, None)?;
            if at.address.is_multicast() {
                // Others on the host may listen to it, too.
                setsockopt(&socket, sockopt::ReuseAddr, &true)?;
            }
            let own = SocketAddr::new(at.address, port);
            nix::sys::socket::bind(socket.as_raw_fd(), &SockaddrStorage::from(own))?;
            if at.address.is_multicast() {
                join_group(&socket, at.address, at.source, interface)?;
            }
            let socket = Arc::new(UdpSocket::from_std(socket.into())?);
            let task = tokio::spawn(read(socket.clone(), to, shared.clone())).abort_handle();
            Ok(Bound { socket, task })
        };
        let media = bind(at.port, To::PairMedia(at.address, at.port))?;
        self.bound.insert(To::PairMedia(at.address, at.port), media);
        if let Some(port) = at.port.checked_add(1).filter(|_| at.reports) {
            let to = To::PairReports(at.address, at.port);
            match bind(port, to) {
                Ok(reports) => _ = self.bound.insert(to, reports),
                Err(error) => tracing::info!("port {port} of {}: {error}; no reports are read", at.address),
            }
        }
        Ok(())
    }

    fn bind_both(&mut self, address: IpAddr, port: u16, [media, reports]: [To; 2], shared: &Shared) -> bool {
        let bind = |port, to| -> io::Result<Bound> {
            let socket = std::net::UdpSocket::bind(SocketAddr::new(address, port))?;
            socket.set_nonblocking(true)?;
            let socket = Arc::new(UdpSocket::from_std(socket)?);
            let task = tokio::spawn(read(socket.clone(), to, shared.clone())).abort_handle();
            Ok(Bound { socket, task })
        };
        match bind(port, media).and_then(|first| Ok((first, bind(port + 1, reports)?))) {
            Ok((first, second)) => {
                self.bound.extend([(media, first), (reports, second)]);
                true
            }
            Err(error) => {
                tracing::debug!("ports {port} and {} of {address}: {error}", port + 1);
                false
            }
        }
    }

    /// Gives a pair back.
    pub fn release_pair(&mut self, address: IpAddr, port: u16) {
        self.bound.remove(&To::PairMedia(address, port));
        self.bound.remove(&To::PairReports(address, port));
    }

    /// Gives back the ports towards receivers, which others are to be.
    pub fn release_media(&mut self) {
        self.bound.retain(|to, _| !matches!(to, To::Media(_) | To::Reports(_)));
    }

    /// Sends a datagram, if the socket has room for it. The system is asked, and not tokio, which knows of no room in a
    /// socket before it has heard of it for the first time.
    pub fn send(&self, by: To, to: SocketAddr, bytes: &[u8]) -> bool {
        let Some(bound) = self.bound.get(&by) else { return false };
        let to = SockaddrStorage::from(to);
        sendto(bound.socket.as_raw_fd(), bytes, &to, MsgFlags::MSG_DONTWAIT).is_ok()
    }
}

/// The index of an interface, as the kernel has it; 0: that of its route.
fn index_of(interface: &Interface) -> io::Result<u32> {
    let name = match interface {
        Interface::Any => return Ok(0),
        Interface::Named(name) => name.clone(),
        Interface::Of(address) => {
            let is_it = |own: &InterfaceAddress| {
                let own = own.address.as_ref();
                let v4 = own.and_then(|own| Some(IpAddr::V4(own.as_sockaddr_in()?.ip())));
                v4.or_else(|| Some(IpAddr::V6(own?.as_sockaddr_in6()?.ip()))) == Some(*address)
            };
            let found = getifaddrs()?.find(is_it).map(|own| own.interface_name);
            found.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, format!("no interface has {address}")))?
        }
    };
    if_nametoindex(name.as_str())
        .map_err(|error| io::Error::new(io::Error::from(error).kind(), format!("{name}: {error}")))
}

async fn read(socket: Arc<UdpSocket>, to: To, shared: Shared) {
    let mut buffer = vec![0; LONGEST];
    let mut count = 0;
    loop {
        // Errors are those of datagrams that were sent, which their receivers do not take.
        if let Ok((length, from)) = socket.recv_from(&mut buffer).await {
            shared.datagram(to, from, &buffer[..length]);
        }
        count += 1;
        if count % BATCH == 0 {
            tokio::task::yield_now().await;
        }
    }
}
