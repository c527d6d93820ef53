//! Where a message's body ends (RFC 9112 section 6.3), found without looking at more of it than must be.

use super::http::Refused;

/// How a body is framed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// So many bytes.
    Length(u64),
    /// In chunks (RFC 9112 section 7.1).
    Chunked,
    /// Until the connection ends.
    Rest,
}

/// What comes next of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// So many bytes that need not be looked at; at least one.
    Pass(u32),
    /// Bytes that must be looked at.
    Look,
    /// Nothing: it has ended.
    End,
    /// Everything until the connection ends.
    Rest,
}

/// Bytes that may pass at once: far less than half of all sequence numbers.
const MOST: u64 = 1 << 30;
/// Bytes of a chunk's first line, or of a line of the trailer, at most.
const LINE: usize = 4096;
/// Lines of the trailer at most.
const TRAILERS: u32 = 128;

/// A body on its way.
#[derive(Clone, Debug)]
pub struct Body {
    state: State,
    /// Bytes that it may still announce.
    left: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    /// Bytes of data, then the end.
    Data(u64),
    /// The first line of a chunk.
    Size,
    /// Data of a chunk and the line end behind it.
    Chunk(u64),
    /// The line end behind a chunk.
    ChunkEnd,
    /// Lines behind the last chunk, and how many there were.
    Trailer(u32),
    Rest,
}

impl Body {
    /// From its start.
    pub fn new(framing: Framing) -> Body {
        let state = match framing {
            Framing::Length(length) => State::Data(length),
            Framing::Chunked => State::Size,
            Framing::Rest => State::Rest,
        };
        Body { state, left: u64::MAX }
    }

    /// With so many bytes at most: 413 where it has more (RFC 9110 section 15.5.14).
    pub fn limited(framing: Framing, most: u64) -> Result<Body, Refused> {
        match framing {
            Framing::Length(length) if length > most => Err(Refused(413)),
            _ => Ok(Body { left: most, ..Body::new(framing) }),
        }
    }

    /// What comes next.
    pub fn next(&self) -> Next {
        match self.state {
            State::Data(0) => Next::End,
            State::Data(left) | State::Chunk(left) if left > 0 => Next::Pass(left.min(MOST) as u32),
            State::Rest => Next::Rest,
            _ => Next::Look,
        }
    }

    /// Says that bytes have passed, as many as [`Next::Pass`] allows.
    pub fn passed(&mut self, count: u32) {
        match &mut self.state {
            State::Data(left) | State::Chunk(left) => *left -= u64::from(count),
            _ => {}
        }
        if self.state == State::Chunk(0) {
            self.state = State::ChunkEnd;
        }
    }

    /// Goes over bytes, up to the body's end: how many of them are its own, or must be there again with more behind them.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<usize, Refused> {
        let mut at = 0;
        loop {
            let rest = &bytes[at..];
            match self.next() {
                Next::End => return Ok(at),
                Next::Rest => return Ok(bytes.len()),
                Next::Pass(_) if rest.is_empty() => return Ok(at),
                Next::Pass(most) => {
                    let count = rest.len().min(most as usize);
                    self.passed(count as u32);
                    at += count;
                }
                Next::Look => {
                    if self.state == State::ChunkEnd && rest.first().is_some_and(|byte| *byte != b'\r') {
                        return Err(Refused(400));
                    }
                    let Some(line) = line(rest)? else { return Ok(at) };
                    self.line(line)?;
                    at += line.len() + 2;
                }
            }
        }
    }

    fn line(&mut self, line: &[u8]) -> Result<(), Refused> {
        self.state = match self.state {
            State::ChunkEnd if line.is_empty() => State::Size,
            State::Size => {
                // Extensions are passed on, as long as nobody can take them for something else.
                let digits = line.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
                let behind = line[digits..].trim_ascii();
                if digits == 0 || digits > 15 || !(behind.is_empty() || behind[0] == b';') {
                    return Err(Refused(400));
                }
                let text = str::from_utf8(&line[..digits]).map_err(|_| Refused(400))?;
                match u64::from_str_radix(text, 16).map_err(|_| Refused(400))? {
                    0 => State::Trailer(0),
                    size => {
                        self.left = self.left.checked_sub(size).ok_or(Refused(413))?;
                        State::Chunk(size)
                    }
                }
            }
            State::Trailer(_) if line.is_empty() => State::Data(0),
            State::Trailer(lines) if lines < TRAILERS => State::Trailer(lines + 1),
            _ => return Err(Refused(400)),
        };
        Ok(())
    }
}

/// The first line without its end, which is CR LF and nothing else.
fn line(bytes: &[u8]) -> Result<Option<&[u8]>, Refused> {
    let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else {
        let cr = bytes.iter().position(|byte| *byte == b'\r');
        let bad = bytes.len() > LINE || cr.is_some_and(|cr| cr + 1 != bytes.len());
        return if bad { Err(Refused(400)) } else { Ok(None) };
    };
    match bytes[..end].split_last() {
        Some((b'\r', line)) if !line.contains(&b'\r') && line.len() <= LINE => Ok(Some(line)),
        _ => Err(Refused(400)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ends(framing: Framing, bytes: &[u8]) -> Result<Option<usize>, Refused> {
        let mut body = Body::new(framing);
        let used = body.feed(bytes)?;
        Ok((body.next() == Next::End).then_some(used))
    }

    #[test]
    fn ends_are_found() {
        assert_eq!(ends(Framing::Length(3), b"abcd"), Ok(Some(3)));
        assert_eq!(ends(Framing::Length(0), b"abcd"), Ok(Some(0)));
        assert_eq!(ends(Framing::Length(5), b"abcd"), Ok(None));
        assert_eq!(ends(Framing::Rest, b"abcd"), Ok(None));
        let chunked = b"5;x=\"y\"\r\nhello\r\nA \r\n0123456789\r\n000\r\nTrailer: x\r\n\r\n";
        assert_eq!(ends(Framing::Chunked, &[&chunked[..], b"GET"].concat()), Ok(Some(chunked.len())));
    }

    #[test]
    fn too_much_is_refused_as_soon_as_it_is_announced() {
        let limited = |framing| Body::limited(framing, 10);
        assert!(limited(Framing::Length(10)).is_ok());
        assert_eq!(limited(Framing::Length(11)).map(|_| ()), Err(Refused(413)));
        let feed = |text: &str| limited(Framing::Chunked).unwrap().feed(text.as_bytes());
        assert_eq!(feed("5\r\nhello\r\n5\r\nhello\r\n0\r\n\r\n"), Ok(25));
        assert_eq!(feed("5\r\nhello\r\n6\r\n"), Err(Refused(413)));
        assert_eq!(feed("fffffffffffffff\r\n"), Err(Refused(413)));
    }

    #[test]
    fn chunks_that_may_be_read_in_two_ways_are_refused() {
        for text in [
            "5\nhello\r\n",
            "5\r\nhello\n",
            "5\r\nhellooo",
            "\r\n",
            "-1\r\n",
            "0x5\r\n",
            "5 5\r\n",
            "10000000000000000\r\n",
            "5;a\rb\r\n",
            "g\r\n",
            "5\r \n",
            " 5\r\n",
            "5\r\nhello0\r\n\r\n",
        ] {
            assert_eq!(ends(Framing::Chunked, text.as_bytes()), Err(Refused(400)), "{text:?}");
        }
        assert_eq!(ends(Framing::Chunked, &vec![b'0'; LINE + 2]), Err(Refused(400)));
        let trailer = format!("0\r\n{}", "a: b\r\n".repeat(200));
        assert_eq!(ends(Framing::Chunked, trailer.as_bytes()), Err(Refused(400)));
    }

    proptest! {
        /// In pieces of any size, some of them passed without a look, the end is where it is.
        #[test]
        fn pieces_make_no_difference(
            chunks in prop::collection::vec(1usize..3000, 0..6),
            cuts in prop::collection::vec(1usize..700, 1..60),
        ) {
            let mut bytes = Vec::new();
            for (index, size) in chunks.iter().enumerate() {
                bytes.extend(format!("{size:x}\r\n").bytes());
                bytes.extend(vec![b'\r' + index as u8; *size]);
                bytes.extend(b"\r\n");
            }
            bytes.extend(b"0\r\n\r\n");
            let end = bytes.len();
            bytes.extend(b"next");
            let (mut body, mut at, mut held) = (Body::new(Framing::Chunked), 0, 0);
            for cut in cuts.into_iter().cycle() {
                match body.next() {
                    Next::End => break,
                    Next::Pass(most) if cut % 2 == 0 => {
                        prop_assert_eq!(held, 0);
                        let count = most.min(cut as u32);
                        body.passed(count);
                        at += count as usize;
                    }
                    _ => {
                        let piece = &bytes[at..(at + held + cut).min(bytes.len())];
                        let used = body.feed(piece).unwrap();
                        held = piece.len() - used;
                        at += used;
                    }
                }
            }
            prop_assert_eq!(at, end);
        }
    }
}
