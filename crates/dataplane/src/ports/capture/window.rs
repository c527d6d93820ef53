//! The bytes ahead in a file that may be longer than memory.

use std::io::{self, Read};

/// Bytes that are asked of the file at once, at least.
const PIECE: usize = 64 << 10;

/// A file from some place on.
pub(super) struct Window<R> {
    file: R,
    bytes: Vec<u8>,
    /// Where in `bytes` it begins; what is before that is behind it.
    start: usize,
    /// Bytes of the file that are behind it.
    behind: u64,
    ended: bool,
}

impl<R: Read> Window<R> {
    pub fn new(file: R) -> Self {
        Window { file, bytes: Vec::new(), start: 0, behind: 0, ended: false }
    }

    /// Where in the file it begins.
    pub fn offset(&self) -> u64 {
        self.behind
    }

    /// What is there already.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    /// At least so many bytes from its beginning on; fewer where the file ends before.
    pub fn peek(&mut self, count: usize) -> io::Result<&[u8]> {
        while !self.ended && self.bytes.len() - self.start < count {
            self.bytes.drain(..std::mem::take(&mut self.start));
            let had = self.bytes.len();
            self.bytes.resize(had + PIECE.max(count - had), 0);
            let read = loop {
                match self.file.read(&mut self.bytes[had..]) {
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    read => break read,
                }
            };
            self.bytes.truncate(had + *read.as_ref().unwrap_or(&0));
            self.ended = read? == 0;
        }
        Ok(self.bytes())
    }

    /// Whether the file ends with what is there.
    pub fn is_last(&self) -> bool {
        self.ended
    }

    /// Leaves bytes behind, as many of these as are there.
    pub fn skip(&mut self, count: usize) {
        let count = count.min(self.bytes.len() - self.start);
        self.start += count;
        self.behind += count as u64;
    }

    /// Leaves one byte behind, and all up to where `begins` says yes, which sees that place and at least `reach` bytes
    /// behind it (fewer where the file ends), and whether that is the file's end. Whether there is such a place.
    pub fn seek(&mut self, reach: usize, begins: impl Fn(&[u8], bool) -> bool) -> io::Result<bool> {
        self.skip(1);
        loop {
            self.peek(PIECE + reach)?;
            let (ahead, ended) = (self.bytes(), self.ended);
            let places = ahead.len().min(if ended { usize::MAX } else { PIECE });
            if let Some(found) = (0..places).find(|&place| begins(&ahead[place..], ended)) {
                self.skip(found);
                return Ok(true);
            }
            self.skip(places);
            if ended {
                return Ok(false);
            }
        }
    }
}
