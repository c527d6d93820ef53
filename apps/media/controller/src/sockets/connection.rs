//! Reads a connection, and writes what waits.

use std::cell::RefCell;
use std::io;
use std::time::Duration;

use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedReadHalf;
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
pub async fn run(stream: TcpStream, outbox: &Outbox, take: impl FnMut(&[u8]) -> bool) -> String {
    // Commands and packets go out as they come.
    let _ = stream.set_nodelay(true);
    let (read, mut write) = stream.into_split();
    let result = tokio::select! {
        result = reading(&read, take) => result.map_or_else(|error| error.to_string(), |()| "it was closed".into()),
        result = writing(&mut write, outbox) => match result {
            Ok(()) => {
                // Closed at once, with bytes unread, the connection would be reset, and what was sent could be lost.
                let _ = write.shutdown().await;
                let _ = timeout(LINGER, drain(&read)).await;
                "it was closed here".into()
            }
            Err(error) => error.to_string(),
        },
    };
    result
}

async fn reading(read: &OwnedReadHalf, mut take: impl FnMut(&[u8]) -> bool) -> io::Result<()> {
    while let Some(goes_on) = once(read, &mut take).await? {
        if !goes_on {
            // The answer is on its way, and then the connection ends.
            drain(read).await;
            return Ok(());
        }
        // Where one sends without end, others have their turn.
        tokio::task::yield_now().await;
    }
    Ok(())
}

/// Waits for bytes; what `take` says of them, or none where the peer has closed its side.
async fn once(read: &OwnedReadHalf, take: &mut impl FnMut(&[u8]) -> bool) -> io::Result<Option<bool>> {
    loop {
        read.readable().await?;
        let taken: io::Result<Option<bool>> = BUFFER.with_borrow_mut(|buffer| {
            let count = read.try_read(buffer)?;
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

async fn drain(read: &OwnedReadHalf) {
    while matches!(once(read, &mut |_| true).await, Ok(Some(_))) {}
}

async fn writing(write: &mut (impl AsyncWrite + Unpin), outbox: &Outbox) -> io::Result<()> {
    loop {
        match outbox.next().await {
            Next::Close => return Ok(()),
            Next::Bytes(bytes) => {
                let mut rest = &bytes[..];
                while !rest.is_empty() {
                    let stalled = |_| io::Error::new(io::ErrorKind::TimedOut, "it takes nothing any more");
                    let count = timeout(STALLED, write.write(rest)).await.map_err(stalled)??;
                    if count == 0 {
                        return Err(io::ErrorKind::WriteZero.into());
                    }
                    rest = &rest[count..];
                }
            }
        }
    }
}
