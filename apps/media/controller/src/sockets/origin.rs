//! Connects to origins.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::timeout;
use wire::rtsp::framing::Framer;

use super::connection;
use super::outbox::Outbox;
use super::shared::{Shared, canonical};

/// The proxy gives a connection up itself; behind that its task must end, too.
const GRACE: Duration = Duration::from_secs(1);

/// Connects to an origin, and runs the connection to its end.
pub async fn run(id: u64, host: String, port: u16, outbox: Arc<Outbox>, shared: Shared) {
    let connected = timeout(shared.connect_timeout() + GRACE, connect(&host, port, &shared)).await;
    let why = match connected.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
        Err(error) => error.to_string(),
        Ok(mut stream) => match (stream.local_addr(), stream.peer_addr()) {
            (Ok(local), Ok(peer)) => {
                shared.event(|proxy| proxy.origin_opened(id, canonical(local), canonical(peer)));
                let each = |item| {
                    shared.event(|proxy| match item {
                        Ok(item) => proxy.origin_item(id, item),
                        Err(_) => proxy.origin_closed(id, "its answer can't be read"),
                    });
                };
                let mut framer = Framer::default();
                connection::run(&mut stream, &outbox, |bytes| connection::items(&mut framer, bytes, each)).await
            }
            (Err(error), _) | (_, Err(error)) => error.to_string(),
        },
    };
    shared.origin_closed(id, &why);
}

/// The first address of a host that takes the connection, among those that may be asked.
async fn connect(host: &str, port: u16, shared: &Shared) -> io::Result<TcpStream> {
    let addresses: Vec<SocketAddr> = tokio::net::lookup_host((host, port)).await?.collect();
    let mut last = io::Error::new(io::ErrorKind::NotFound, format!("{host} has no address"));
    for address in addresses {
        if !shared.permits_address(address.ip()) {
            last = io::Error::new(io::ErrorKind::PermissionDenied, format!("{} is not allowed", address.ip()));
            continue;
        }
        match TcpStream::connect(address).await {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}
