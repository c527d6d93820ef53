//! Who reads a stream: an ordinary client of the kernel's TCP.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, SocketAddrV4, TcpStream};
use std::time::{Duration, Instant};

use crate::text;

/// For a connection, and for the first byte of a stream.
const PATIENCE: Duration = Duration::from_secs(20);
/// In what pieces of time bytes are counted.
pub const BIN: Duration = Duration::from_millis(100);

/// What a client gets in each piece of time.
#[derive(Default)]
pub struct Bins {
    /// Bytes that it reads. What lies behind a lost segment comes with that.
    pub read: Vec<u64>,
    /// Bytes of frames that come to its interface.
    pub wire: Vec<u64>,
}

/// Asks for a stream, reads it for the time `before`, and then tells how many bytes came in each piece of the time
/// `window`. To be called in the viewers' namespace.
pub fn read(from: SocketAddrV4, path: &str, before: Duration, window: Duration) -> Result<Bins, String> {
    let mut stream = TcpStream::connect_timeout(&SocketAddr::V4(from), PATIENCE).map_err(text)?;
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: stream\r\n\r\n").as_bytes()).map_err(text)?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(text)?;
    let mut buffer = vec![0; 65536];
    let first = stream.read(&mut buffer).map_err(text)?;
    let head = String::from_utf8_lossy(&buffer[..first.min(60)]).into_owned();
    if !head.starts_with("HTTP/1.1 200") {
        return Err(format!("the answer is {head:?}"));
    }
    stream.set_read_timeout(Some(BIN)).map_err(text)?;
    let begin = Instant::now() + before;
    let count = (window.as_nanos() / BIN.as_nanos()) as u32;
    let mut bins = vec![0; count as usize];
    // A thread begins in the network namespace of the one that starts it.
    let wire = std::thread::spawn(move || {
        let came = |bin| {
            std::thread::sleep((begin + BIN * bin).saturating_duration_since(Instant::now()));
            received()
        };
        let all = (0..=count).map(came).collect::<Result<Vec<_>, _>>()?;
        Ok::<_, String>(all.windows(2).map(|two| two[1] - two[0]).collect())
    });
    loop {
        let result = stream.read(&mut buffer);
        let now = Instant::now();
        if now >= begin + window {
            let wire = wire.join().map_err(|_| "a thread has panicked")??;
            return Ok(Bins { read: bins, wire });
        }
        let bytes = match result {
            Ok(0) => return Err("the stream has ended".into()),
            Ok(bytes) => bytes as u64,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => 0,
            Err(error) => return Err(error.to_string()),
        };
        if let Some(since) = now.checked_duration_since(begin)
            && let Some(bin) = bins.get_mut((since.as_nanos() / BIN.as_nanos()) as usize)
        {
            *bin += bytes;
        }
    }
}

/// Bytes of frames that eth0 of this thread's namespace has received.
fn received() -> Result<u64, String> {
    let devices = std::fs::read_to_string("/proc/thread-self/net/dev").map_err(text)?;
    let line = devices.lines().find_map(|line| line.trim().strip_prefix("eth0:"));
    let bytes = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    bytes.ok_or_else(|| "the client has no eth0".to_owned())
}
