//! Where a message's body ends (RFC 9112 section 6.3), found without looking at more of it than must be.

use super::refused::Refused;

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
const LINE: u16 = 4000;
/// Digits of a chunk's size at most.
const DIGITS: u16 = 15;
/// Lines of the trailer at most.
const TRAILERS: u32 = 128;

/// A body on its way. All that is known of it is one number ([`Body::word`]), so that flow entries can keep it.
#[derive(Clone, Debug)]
pub struct Body {
    state: State,
    /// Bytes that it may still announce.
    left: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Bytes of data, then the end.
    Data(u64),
    /// The first line of a chunk, with what it says so far and its bytes so far.
    Size(LinePosition, u64, u16),
    /// Data of a chunk.
    Chunk(u64),
    /// The line end behind a chunk; whether its CR has come.
    ChunkEnd(bool),
    /// Lines behind the last chunk: how many there were, and bytes of the present one.
    Trailer(LinePosition, u32, u16),
    Rest,
}

/// A place in a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LinePosition {
    /// The size, or the text of a trailer.
    Text,
    /// Blanks behind a size.
    Blank,
    /// An extension of a chunk (RFC 9112 section 7.1.1): passed on, as long as it can't be taken for something else.
    Extension,
    /// Behind the CR.
    End,
}

/// Bits of a word that the numbers of a state take, and those that the second of two takes.
const NUMBERS: u32 = 60;
const COUNT: u32 = 12;

impl Body {
    /// From its start.
    pub fn new(framing: Framing) -> Body {
        let state = match framing {
            Framing::Length(length) => State::Data(length),
            Framing::Chunked => State::Size(LinePosition::Text, 0, 0),
            Framing::Rest => State::Rest,
        };
        Body { state, left: u64::MAX }
    }

    /// Without a byte, or behind the last one.
    pub fn empty() -> Body {
        Body::new(Framing::Length(0))
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
            State::Data(left) | State::Chunk(left) => Next::Pass(left.min(MOST) as u32),
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
            self.state = State::ChunkEnd(false);
        }
    }

    /// Goes over bytes, up to the body's end: how many of them are its own.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<usize, Refused> {
        let mut at = 0;
        while let Some(byte) = bytes.get(at) {
            match self.next() {
                Next::End => break,
                Next::Rest => return Ok(bytes.len()),
                Next::Pass(most) => {
                    let count = (bytes.len() - at).min(most as usize);
                    self.passed(count as u32);
                    at += count;
                }
                Next::Look => {
                    self.state = self.state.after(*byte)?;
                    if let State::Chunk(size) = self.state {
                        self.left = self.left.checked_sub(size).ok_or(Refused(413))?;
                    }
                    at += 1;
                }
            }
        }
        Ok(at)
    }

    /// All that is known, as a number other than 0.
    pub fn word(&self) -> u64 {
        let two = |more: u64, count: u16| more << COUNT | u64::from(count);
        let (kind, numbers) = match self.state {
            State::Data(left) => (1, left),
            State::Chunk(left) => (2, left),
            State::ChunkEnd(cr) => (3, cr.into()),
            State::Rest => (4, 0),
            State::Size(position, size, count) => (5 + position as u64, two(size, count)),
            State::Trailer(position, lines, count) => (9 + position as u64, two(lines.into(), count)),
        };
        kind << NUMBERS | numbers
    }

    /// The body that a number stands for.
    pub fn of_word(word: u64) -> Option<Body> {
        let (kind, numbers) = (word >> NUMBERS, word & ((1 << NUMBERS) - 1));
        let (more, count) = (numbers >> COUNT, (numbers & ((1 << COUNT) - 1)) as u16);
        let position = |kind: u64| {
            [LinePosition::Text, LinePosition::Blank, LinePosition::Extension, LinePosition::End][kind as usize & 3]
        };
        let state = match kind {
            1 => State::Data(numbers),
            2 if numbers > 0 => State::Chunk(numbers),
            3 => State::ChunkEnd(numbers != 0),
            4 => State::Rest,
            5..=8 => State::Size(position(kind - 5), more, count),
            9..=12 => State::Trailer(position(kind - 9), u32::try_from(more).ok()?, count),
            _ => return None,
        };
        Some(Body { state, left: u64::MAX })
    }
}

impl State {
    /// Behind a byte that must be looked at. Lines end with CR LF and nothing else.
    fn after(self, byte: u8) -> Result<State, Refused> {
        let refused = Err(Refused(400));
        let (State::Size(position, _, count) | State::Trailer(position, _, count)) = self else {
            return match (self, byte) {
                (State::ChunkEnd(false), b'\r') => Ok(State::ChunkEnd(true)),
                (State::ChunkEnd(true), b'\n') => Ok(State::Size(LinePosition::Text, 0, 0)),
                _ => refused,
            };
        };
        if (position == LinePosition::End) != (byte == b'\n') || count >= LINE {
            return refused;
        }
        let next = count + 1;
        Ok(match (self, byte) {
            (State::Size(_, 0, _), b'\n') => State::Trailer(LinePosition::Text, 0, 0),
            (State::Size(_, size, _), b'\n') => State::Chunk(size),
            (State::Size(_, _, 0), b'\r') => return refused,
            (State::Size(_, size, _), b'\r') => State::Size(LinePosition::End, size, next),
            (State::Size(LinePosition::Text, size, _), digit) if digit.is_ascii_hexdigit() => {
                let size = size << 4 | u64::from((digit as char).to_digit(16).unwrap_or(0));
                if count >= DIGITS || size >> (NUMBERS - COUNT) != 0 {
                    return refused;
                }
                State::Size(position, size, next)
            }
            (State::Size(LinePosition::Text | LinePosition::Blank, size, 1..), b' ' | b'\t') => {
                State::Size(LinePosition::Blank, size, next)
            }
            (State::Size(LinePosition::Text | LinePosition::Blank, size, 1..), b';') => {
                State::Size(LinePosition::Extension, size, next)
            }
            (State::Size(LinePosition::Extension, size, _), _) => State::Size(position, size, next),
            // The end of an empty line: its CR is all that it has.
            (State::Trailer(_, _, 1), b'\n') => State::Data(0),
            (State::Trailer(_, lines, _), b'\n') if lines < TRAILERS => {
                State::Trailer(LinePosition::Text, lines + 1, 0)
            }
            (State::Trailer(_, lines, _), b'\r') => State::Trailer(LinePosition::End, lines, next),
            (State::Trailer(LinePosition::Text, lines, _), other) if other != b'\n' => {
                State::Trailer(position, lines, next)
            }
            _ => return refused,
        })
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
        assert_eq!(feed("ffffffffffff\r\n"), Err(Refused(413)));
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
        assert_eq!(ends(Framing::Chunked, &vec![b'0'; usize::from(DIGITS) + 1]), Err(Refused(400)));
        let long = ["5;", &"x".repeat(LINE.into())].concat();
        assert_eq!(ends(Framing::Chunked, long.as_bytes()), Err(Refused(400)));
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
            let (mut body, mut at) = (Body::new(Framing::Chunked), 0);
            for cut in cuts.into_iter().cycle() {
                body = Body::of_word(body.word()).unwrap();
                match body.next() {
                    Next::End => break,
                    Next::Pass(most) if cut % 2 == 0 => {
                        let count = most.min(cut as u32);
                        body.passed(count);
                        at += count as usize;
                    }
                    _ => {
                        at += body.feed(&bytes[at..(at + cut % 9 + 1).min(bytes.len())]).unwrap();
                    }
                }
            }
            prop_assert_eq!(at, end);
        }
    }
}
