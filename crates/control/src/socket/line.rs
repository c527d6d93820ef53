//! Lines from a peer and replies to it, bounded in length and in time.

use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use serde::Serialize;

/// Bytes read or written at once.
const CHUNK: usize = 16 << 10;

/// Why there is no further line.
#[derive(Debug)]
pub enum NoLine {
    /// The peer closed the connection.
    Closed,
    /// The line is longer than allowed.
    TooLong,
    /// The peer took too long.
    TooSlow,
    /// The connection failed.
    Failed(io::Error),
}

/// Splits what a peer sends into lines.
#[derive(Debug)]
pub struct Lines<'s> {
    stream: &'s UnixStream,
    max: usize,
    buffer: Vec<u8>,
    /// Bytes of the buffer before this were given out already.
    start: usize,
    /// Bytes before this hold no end of a line.
    searched: usize,
}

impl<'s> Lines<'s> {
    /// Lines of up to `max` bytes.
    pub fn new(stream: &'s UnixStream, max: usize) -> Self {
        Lines { stream, max, buffer: Vec::new(), start: 0, searched: 0 }
    }

    /// The next line without its end. It must begin within `idle` and be complete `whole` after its first byte.
    pub fn next(&mut self, idle: Duration, whole: Duration) -> Result<&[u8], NoLine> {
        let mut until = Instant::now() + if self.start < self.buffer.len() { whole } else { idle };
        loop {
            if let Some(at) = self.buffer[self.searched..].iter().position(|&byte| byte == b'\n') {
                let (start, end) = (self.start, self.searched + at);
                (self.start, self.searched) = (end + 1, end + 1);
                if end - start > self.max {
                    return Err(NoLine::TooLong);
                }
                return Ok(&self.buffer[start..end]);
            }
            self.buffer.drain(..self.start);
            (self.start, self.searched) = (0, self.buffer.len());
            if self.buffer.len() > self.max {
                return Err(NoLine::TooLong);
            }
            let was_empty = self.buffer.is_empty();
            match self.fill(until) {
                Ok(0) => return Err(NoLine::Closed),
                Ok(_) if was_empty => until = Instant::now() + whole,
                Ok(_) => {}
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    return Err(NoLine::TooSlow);
                }
                Err(error) => return Err(NoLine::Failed(error)),
            }
        }
    }

    fn fill(&mut self, until: Instant) -> io::Result<usize> {
        let len = self.buffer.len();
        self.buffer.resize(len + CHUNK, 0);
        let read = loop {
            let left = left(until)?;
            self.stream.set_read_timeout(Some(left))?;
            match self.stream.read(&mut self.buffer[len..]) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => break read,
            }
        };
        self.buffer.truncate(len + read.as_ref().copied().unwrap_or(0));
        read
    }
}

/// Writes lines of JSON, many at once; the peer must take all of them before a moment.
#[derive(Debug)]
pub struct Writer<'s> {
    stream: &'s UnixStream,
    until: Instant,
    buffer: Vec<u8>,
}

impl<'s> Writer<'s> {
    /// A writer with `time` for everything.
    pub fn new(stream: &'s UnixStream, time: Duration) -> Self {
        Writer { stream, until: Instant::now() + time, buffer: Vec::new() }
    }

    /// Adds a line.
    pub fn line(&mut self, value: &impl Serialize) -> io::Result<()> {
        serde_json::to_writer(&mut self.buffer, value)?;
        self.buffer.push(b'\n');
        if self.buffer.len() >= CHUNK { self.flush() } else { Ok(()) }
    }

    /// Sends what was added.
    pub fn flush(&mut self) -> io::Result<()> {
        let mut rest = &self.buffer[..];
        while !rest.is_empty() {
            self.stream.set_write_timeout(Some(left(self.until)?))?;
            match self.stream.write(rest) {
                Ok(written) => rest = &rest[written..],
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.buffer.clear();
        Ok(())
    }
}

/// Time left; a time of zero would mean no limit to the system.
fn left(until: Instant) -> io::Result<Duration> {
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(left.max(Duration::from_millis(1))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_millis(50);
    const LONG: Duration = Duration::from_secs(20);

    fn pair() -> (UnixStream, UnixStream) {
        UnixStream::pair().unwrap()
    }

    #[test]
    fn lines_come_whole_however_they_are_cut() {
        let (mut peer, ours) = pair();
        let mut lines = Lines::new(&ours, 10);
        peer.write_all(b"one\ntwo\n\n0123456789\nth").unwrap();
        for expected in ["one", "two", "", "0123456789"] {
            assert_eq!(lines.next(LONG, LONG).unwrap(), expected.as_bytes());
        }
        let writer = std::thread::spawn(move || {
            peer.write_all(b"r").unwrap();
            std::thread::sleep(Duration::from_millis(20));
            peer.write_all(b"ee\nrest").unwrap();
        });
        assert_eq!(lines.next(LONG, LONG).unwrap(), b"three");
        assert!(matches!(lines.next(LONG, LONG), Err(NoLine::Closed)), "an end without a newline is no line");
        writer.join().unwrap();
    }

    #[test]
    fn long_and_slow_lines_are_refused() {
        for long in [&b"0123456789x\n"[..], &[b'x'; 100_000]] {
            let (mut peer, ours) = pair();
            std::thread::scope(|scope| {
                // The reader stops reading, so the rest cannot be written.
                scope.spawn(move || peer.write_all(long));
                assert!(matches!(Lines::new(&ours, 10).next(LONG, LONG), Err(NoLine::TooLong)));
                drop(ours);
            });
        }
        let (mut peer, ours) = pair();
        let mut lines = Lines::new(&ours, 10);
        assert!(matches!(lines.next(SOON, LONG), Err(NoLine::TooSlow)), "nothing came");
        peer.write_all(b"x").unwrap();
        assert!(matches!(lines.next(LONG, SOON), Err(NoLine::TooSlow)), "never complete");
    }

    #[test]
    fn who_does_not_read_is_not_waited_for() {
        let (peer, ours) = pair();
        let mut writer = Writer::new(&ours, SOON);
        let line = "x".repeat(1000);
        let start = Instant::now();
        let error = (0..100_000).find_map(|_| writer.line(&line).err()).expect("no socket takes 100 MB");
        assert!(matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{error}");
        assert!(start.elapsed() < LONG);
        drop(peer);
    }
}
