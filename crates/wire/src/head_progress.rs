//! Progress of the parser in a head that comes in parts.

/// Progress of the parser in a head that is not whole yet, so that each byte of it is read a few times at most, in
/// whatever parts it comes.
#[derive(Clone, Copy, Debug, Default)]
pub struct HeadProgress {
    /// Bytes whose lines were looked at.
    lines: usize,
    /// Where the head ends, behind its empty line.
    end: Option<usize>,
    /// Bytes that were parsed last, without an end.
    parsed: usize,
    /// Bytes that were read so far, each as often as it was.
    #[cfg(test)]
    pub read: usize,
}

impl HeadProgress {
    /// Looks at what has come since the last time: the bytes that are worth parsing, and whether they are the whole
    /// head. That is so at its end, and before that where twice as many have come as the last time: so mistakes are
    /// found early, and the work stays in proportion to the bytes. An error where a line ends otherwise than with CR
    /// LF.
    pub(super) fn on<'b>(&mut self, bytes: &'b [u8]) -> Result<Option<(&'b [u8], bool)>, ()> {
        for at in self.lines..if self.end.is_some() { self.lines } else { bytes.len() } {
            let behind_cr = at > 0 && bytes[at - 1] == b'\r';
            if (bytes[at] == b'\n') != behind_cr || bytes[at] == 0 {
                return Err(());
            }
            self.note_read(1);
            self.lines = at + 1;
            if bytes[..=at].ends_with(b"\r\n\r\n") {
                self.end = Some(at + 1);
                break;
            }
        }
        let end = self.end.unwrap_or(bytes.len());
        if self.end.is_none() && bytes.len() < 2 * self.parsed {
            return Ok(None);
        }
        self.note_read(end);
        self.parsed = end;
        Ok(Some((&bytes[..end], self.end.is_some())))
    }

    #[cfg(test)]
    fn note_read(&mut self, count: usize) {
        self.read += count;
    }

    #[cfg(not(test))]
    fn note_read(&mut self, _: usize) {}
}
