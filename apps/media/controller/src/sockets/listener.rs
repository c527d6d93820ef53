//! Accepts clients.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;

use nix::sys::socket::{setsockopt, sockopt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::AbortHandle;

use super::connection;
use super::inbound::Inbound;
use super::outbox::Outbox;
use super::shared::{Shared, canonical};

/// Connections that wait to be accepted at most.
const BACKLOG: u32 = 1024;

/// Where clients are accepted.
#[derive(Debug, Default)]
pub struct Listeners(Vec<(SocketAddr, AbortHandle)>);

impl Listeners {
    /// Accepts clients at these addresses from now on, and at no others.
    ///
    /// # Errors
    /// The first address that can't be had; nothing has changed then.
    pub fn set(&mut self, addresses: &[SocketAddr], shared: &Shared) -> Result<(), String> {
        let kept = |address: &SocketAddr| self.0.iter().any(|(own, _)| own == address);
        let mut new = Vec::new();
        for address in addresses.iter().filter(|address| !kept(address)) {
            // One socket takes both versions of IP, unless the other version has its own.
            let both = !addresses.iter().any(|own| own.is_ipv4() && own.port() == address.port());
            let listener = bind(*address, both);
            new.push((*address, listener.map_err(|error| format!("cannot listen on {address}: {error}"))?));
        }
        self.0.retain(|(own, task)| {
            let stays = addresses.contains(own);
            if !stays {
                task.abort();
            }
            stays
        });
        for (address, listener) in new {
            let task = tokio::spawn(accept(listener, shared.clone()));
            self.0.push((address, task.abort_handle()));
        }
        Ok(())
    }
}

/// Listens on an address, for the other version of IP, too, where that is said.
pub fn bind(address: SocketAddr, both: bool) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_reuseaddr(true)?;
    if address.is_ipv6() {
        setsockopt(&socket.as_fd(), sockopt::Ipv6V6Only, &!both)?;
    }
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

async fn accept(listener: TcpListener, shared: Shared) {
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                let Ok(local) = stream.local_addr() else { continue };
                let outbox = Arc::new(Outbox::default());
                // One beyond the limits is closed at once.
                if let Some(id) = shared.client_opened(canonical(peer), canonical(local), outbox.clone()) {
                    tokio::spawn(serve(stream, id, outbox, shared.clone()));
                }
            }
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            // No descriptors, no memory: connections that wait are accepted when others have ended.
            Err(error) => {
                tracing::warn!("cannot accept a connection: {error}");
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            }
        }
    }
}

async fn serve(mut stream: TcpStream, id: u64, outbox: Arc<Outbox>, shared: Shared) {
    let mut inbound = Inbound::default();
    connection::run(&mut stream, &outbox, |bytes| inbound.take(id, bytes, &shared)).await;
    drop(stream);
    shared.client_closed(id);
}
