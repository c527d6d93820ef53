//! Connections to servers of the host, one for each request or tunnel, on sockets of the kernel.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::AbortHandle;
use tokio::time::timeout;

/// How long connecting may take.
const CONNECT: Duration = Duration::from_secs(5);
/// Bytes read at once.
const READ: usize = 16 << 10;

/// What happens to such a connection: of which connection of a client, and of its generation.
#[derive(Debug)]
pub struct RelayEvent {
    /// The connection.
    pub connection: u32,
    /// Its generation.
    pub generation: u32,
    /// What.
    pub what: What,
}

/// See [`RelayEvent`].
#[derive(Debug)]
pub enum What {
    /// Bytes of the server.
    Bytes(Vec<u8>),
    /// So many bytes of the client were taken, behind the first.
    Took(u32),
    /// The server sends nothing more; an error: nor takes it anything.
    Ended(Result<(), String>),
}

/// A connection; it ends when this is dropped.
#[derive(Debug)]
pub struct Relay {
    task: AbortHandle,
    /// Bytes to be sent; none: nothing more is.
    bytes: Option<UnboundedSender<Vec<u8>>>,
    /// Readings that may be done.
    readings: Arc<Semaphore>,
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Relay {
    /// Connects, and sends what the request begins with.
    pub fn start(
        server: SocketAddr,
        (connection, generation): (u32, u32),
        first: Vec<u8>,
        events: UnboundedSender<RelayEvent>,
    ) -> Relay {
        let (bytes, receiver) = unbounded_channel();
        let readings = Arc::new(Semaphore::new(0));
        let own = readings.clone();
        let task = tokio::spawn(async move {
            // Whoever takes them ends with the controller.
            let event = |what| _ = events.send(RelayEvent { connection, generation, what });
            if let Err(error) = run(server, first, receiver, &own, &event).await {
                event(What::Ended(Err(error.to_string())));
            }
        });
        Relay { task: task.abort_handle(), bytes: Some(bytes), readings }
    }

    /// Sends more; the program's credit bounds how much waits.
    pub fn send(&self, bytes: Vec<u8>) {
        // It may have ended.
        self.bytes.iter().for_each(|own| _ = own.send(bytes.clone()));
    }

    /// Says that nothing more is sent; what the server sends comes as before.
    pub fn end(&mut self) {
        self.bytes = None;
    }

    /// Has it read once more.
    pub fn read(&self) {
        self.readings.add_permits(1);
    }
}

/// Runs until neither side has anything more to send.
async fn run(
    server: SocketAddr,
    first: Vec<u8>,
    mut bytes: UnboundedReceiver<Vec<u8>>,
    readings: &Semaphore,
    event: impl Fn(What),
) -> std::io::Result<()> {
    let stream = timeout(CONNECT, TcpStream::connect(server)).await??;
    // What comes in small pieces, as WebSocket's messages, is not to wait for more.
    stream.set_nodelay(true)?;
    let (mut read, mut write) = stream.into_split();
    let reading = async {
        let mut buffer = vec![0; READ];
        loop {
            // The semaphore is never closed.
            let Ok(permit) = readings.acquire().await else { return Ok(()) };
            permit.forget();
            match read.read(&mut buffer).await? {
                0 => {
                    event(What::Ended(Ok(())));
                    return Ok(());
                }
                count => event(What::Bytes(buffer[..count].to_vec())),
            }
        }
    };
    let writing = async {
        write.write_all(&first).await?;
        while let Some(more) = bytes.recv().await {
            write.write_all(&more).await?;
            event(What::Took(more.len() as u32));
        }
        write.shutdown().await
    };
    // A server may answer, and close, before it has read all: what it says counts.
    let written =
        async { writing.await.map_err(|error: std::io::Error| tracing::debug!("a server of the host: {error}")) };
    let (read, _) = tokio::join!(reading, written);
    read
}
