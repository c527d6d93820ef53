//! Reads a connection, and writes what waits.

use std::cell::RefCell;
use std::io;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::timeout;
use wire::refused::Refused;
use wire::rtsp::framing::{Framer, Item};

use super::outbox::{Next, Outbox};

/// Bytes read at once.
const READ: usize = 16 << 10;

thread_local! {
    // The thread's, not a connection's: thousands of them say nothing most of the time.
    static BUFFER: RefCell<Vec<u8>> = RefCell::new(vec![0; READ]);
}

/// A peer that takes nothing for so long is given up.
const STALLED: Duration = Duration::from_secs(30);
/// How long a peer may take to close its side of a connection that ends.
const LINGER: Duration = Duration::from_secs(2);

/// Runs a connection to its end: `take` gets the bytes that come, and says whether more can be read. Why it has ended.
///
/// Thousands of connections wait here, so what is needed for a moment only is boxed.
pub async fn run(stream: &mut TcpStream, outbox: &Outbox, take: impl FnMut(&[u8]) -> bool) -> String {
    // Commands and packets go out as they come.
    let _ = stream.set_nodelay(true);
    let closed = {
        let stream = &*stream;
        tokio::select! {
            result = reading(stream, take) => result.map(|()| false),
            result = writing(stream, outbox) => result.map(|()| true),
        }
    };
    match closed {
        Ok(true) => {
            // Closed at once, with bytes unread, the connection would be reset, and what was sent could be lost.
            let _ = stream.shutdown().await;
            let _ = Box::pin(timeout(LINGER, drain(stream))).await;
            "it was closed here".into()
        }
        Ok(false) => "it was closed".into(),
        Err(error) => error.to_string(),
    }
}

async fn reading(stream: &TcpStream, mut take: impl FnMut(&[u8]) -> bool) -> io::Result<()> {
    while let Some(goes_on) = once(stream, &mut take).await? {
        if !goes_on {
            // The answer is on its way, and then the connection ends.
            Box::pin(drain(stream)).await;
            return Ok(());
        }
        // Where one sends without end, others have their turn.
        tokio::task::yield_now().await;
    }
    Ok(())
}

/// Waits for bytes; what `take` says of them, or none where the peer has closed its side.
async fn once(stream: &TcpStream, take: &mut impl FnMut(&[u8]) -> bool) -> io::Result<Option<bool>> {
    loop {
        stream.readable().await?;
        let taken: io::Result<Option<bool>> = BUFFER.with_borrow_mut(|buffer| {
            let count = stream.try_read(buffer)?;
            Ok((count > 0).then(|| take(&buffer[..count])))
        });
        match taken {
            // Readiness may be told of bytes that are gone.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            taken => return taken,
        }
    }
}

/// Gives `each` the messages and packets in what has come; whether more can be read.
pub fn items(framer: &mut Framer, bytes: &[u8], mut each: impl FnMut(Result<Item, Refused>)) -> bool {
    framer.push(bytes);
    loop {
        match framer.next_item() {
            Ok(Some(item)) => each(Ok(item)),
            Ok(None) => return true,
            Err(refused) => {
                each(Err(refused));
                return false;
            }
        }
    }
}

async fn drain(stream: &TcpStream) {
    while matches!(once(stream, &mut |_| true).await, Ok(Some(_))) {}
}

async fn writing(stream: &TcpStream, outbox: &Outbox) -> io::Result<()> {
    while let Next::Bytes(bytes) = outbox.next().await {
        let mut written = 0;
        while written < bytes.len() {
            match stream.try_write(&bytes[written..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => written += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => Box::pin(writable(stream)).await?,
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}

/// Waits until a peer takes something.
async fn writable(stream: &TcpStream) -> io::Result<()> {
    let stalled = |_| io::Error::new(io::ErrorKind::TimedOut, "it takes nothing any more");
    timeout(STALLED, stream.writable()).await.map_err(stalled)?
}
