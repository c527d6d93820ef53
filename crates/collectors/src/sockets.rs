//! Collectors' sockets, and what was sent to them.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

/// Collectors at most.
pub const MOST_COLLECTORS: usize = 8;

/// What was sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Datagrams that were sent, to all collectors together.
    pub datagrams: u64,
    /// Datagrams that could not be sent.
    pub failed: u64,
    /// Why the last one could not be; none where it was.
    pub error: Option<String>,
}

/// A socket for each collector.
#[derive(Debug)]
pub struct Sockets {
    sockets: Vec<(SocketAddr, UdpSocket)>,
    sent: Sent,
}

impl Sockets {
    /// Opens them.
    ///
    /// # Errors
    /// The system has no more.
    pub fn open(collectors: &[SocketAddr]) -> io::Result<Sockets> {
        let open = |to: &SocketAddr| {
            let socket = UdpSocket::bind(any(to))?;
            socket.set_nonblocking(true)?;
            Ok((*to, socket))
        };
        let sockets = collectors.iter().map(open).collect::<io::Result<_>>()?;
        Ok(Sockets { sockets, sent: Sent::default() })
    }

    /// Sends a datagram to each.
    pub fn send(&mut self, datagram: &[u8]) {
        let mut error = None;
        for (to, socket) in &self.sockets {
            match socket.send_to(datagram, to) {
                Ok(_) => self.sent.datagrams += 1,
                Err(why) => {
                    self.sent.failed += 1;
                    error = Some(format!("{to}: {why}"));
                }
            }
        }
        if let Some(why) = error.as_ref().filter(|_| self.sent.error.is_none()) {
            tracing::warn!(why, "a collector gets nothing");
        }
        self.sent.error = error;
    }

    /// What was sent.
    pub fn sent(&self) -> &Sent {
        &self.sent
    }
}

/// The address by which this machine reaches the first collector that it has a way to.
pub fn local(collectors: &[SocketAddr]) -> IpAddr {
    let address = |to: &SocketAddr| {
        let socket = UdpSocket::bind(any(to)).ok()?;
        // Nothing is sent.
        socket.connect(to).ok()?;
        Some(socket.local_addr().ok()?.ip())
    };
    collectors.iter().find_map(address).unwrap_or(Ipv4Addr::UNSPECIFIED.into())
}

fn any(to: &SocketAddr) -> SocketAddr {
    let address: IpAddr = if to.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    SocketAddr::from((address, 0))
}
