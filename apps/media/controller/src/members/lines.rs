//! Texts by lines, of pieces as they come.

/// A line.
#[derive(Debug, PartialEq, Eq)]
pub enum Line {
    /// Its bytes, without its end.
    Whole(Vec<u8>),
    /// One that is longer than a line may be; it is dropped.
    TooLong,
}

/// Lines of pieces.
#[derive(Debug)]
pub struct Lines {
    most: usize,
    bytes: Vec<u8>,
    /// In front of this there is no end of a line.
    seen: usize,
    /// Whether the rest of a line is dropped.
    drops: bool,
}

impl Lines {
    /// None yet; `most` are the bytes of a line at most.
    pub fn new(most: usize) -> Lines {
        Lines { most, bytes: Vec::new(), seen: 0, drops: false }
    }

    /// The next piece.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The next line that is whole, other than empty ones. To be called until there is none.
    pub fn next_line(&mut self) -> Option<Line> {
        loop {
            let Some(at) = self.bytes[self.seen..].iter().position(|byte| *byte == b'\n') else {
                self.seen = self.bytes.len();
                if self.seen > self.most {
                    self.drops = true;
                }
                if self.drops {
                    self.bytes.clear();
                    self.seen = 0;
                }
                return None;
            };
            let rest = self.bytes.split_off(self.seen + at + 1);
            let mut line = std::mem::replace(&mut self.bytes, rest);
            self.seen = 0;
            line.pop();
            if std::mem::take(&mut self.drops) || line.len() > self.most {
                return Some(Line::TooLong);
            }
            if !line.iter().all(u8::is_ascii_whitespace) {
                return Some(Line::Whole(line));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_any_length_make_the_same_lines() {
        let text =
            b"one\n\ntwo and more\r\n  \n0123456789012345678901234567890\nthree\n0123456789012345678901234567890 and";
        for length in 1..text.len() {
            let mut lines = Lines::new(16);
            let mut found = Vec::new();
            for piece in text.chunks(length) {
                lines.push(piece);
                while let Some(line) = lines.next_line() {
                    found.push(line);
                }
                assert!(lines.bytes.len() <= 16 + length, "what waits is bounded");
            }
            let whole = |text: &str| Line::Whole(text.as_bytes().to_vec());
            assert_eq!(found, [whole("one"), whole("two and more\r"), Line::TooLong, whole("three")], "{length}");
        }
    }
}
