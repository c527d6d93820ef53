//! Places in a text: byte offsets here, lines and UTF-16 code units in the protocol (LSP 3.17, "Position").

use lsp_types::{Position, Range};

/// Where the lines of a text begin.
#[derive(Debug)]
pub struct LineIndex<'t> {
    text: &'t str,
    /// Byte offsets of the first byte of each line.
    starts: Vec<usize>,
    /// UTF-16 code units before each mark, so that a place in a line of a megabyte is found as fast as any.
    marks: Vec<usize>,
}

/// Bytes from one mark to the next.
const MARK: usize = 256;

impl<'t> LineIndex<'t> {
    /// Finds the lines of a text. They end with `\n`, `\r\n` or `\r`.
    pub fn new(text: &'t str) -> Self {
        let bytes = text.as_bytes();
        let ends = |i: &usize| bytes[*i] == b'\n' || bytes[*i] == b'\r' && bytes.get(i + 1) != Some(&b'\n');
        let starts = std::iter::once(0).chain((0..bytes.len()).filter(ends).map(|i| i + 1)).collect();
        let mut marks = vec![0];
        for end in (MARK..=text.len()).step_by(MARK) {
            let part = &text[text.floor_char_boundary(end - MARK)..text.floor_char_boundary(end)];
            marks.push(marks[marks.len() - 1] + part.encode_utf16().count());
        }
        LineIndex { text, starts, marks }
    }

    /// UTF-16 code units before a byte offset at the start of a character.
    fn units(&self, offset: usize) -> usize {
        let mark = offset / MARK;
        self.marks[mark] + self.text[self.text.floor_char_boundary(mark * MARK)..offset].encode_utf16().count()
    }

    /// The position of a byte offset; one beyond the end or within a character is moved to the left.
    pub fn position(&self, offset: usize) -> Position {
        let offset = self.text.floor_char_boundary(offset);
        let line = self.starts.partition_point(|start| *start <= offset) - 1;
        let units = self.units(offset) - self.units(self.starts[line]);
        Position::new(number(line), number(units))
    }

    /// The range of `start..end` in bytes.
    pub fn range(&self, start: usize, end: usize) -> Range {
        Range::new(self.position(start), self.position(end.max(start)))
    }

    /// The byte offset of a position. Beyond the end of its line it is that end, beyond the last line that of the text;
    /// in the middle of a character it is its start.
    pub fn offset(&self, position: Position) -> usize {
        let line = position.line as usize;
        let Some(&start) = self.starts.get(line) else { return self.text.len() };
        let end = self.starts.get(line + 1).copied().unwrap_or(self.text.len());
        let content = self.text[start..end].trim_end_matches(['\n', '\r']);
        let mut units = 0;
        for (at, c) in content.char_indices() {
            units += c.len_utf16();
            if units > position.character as usize {
                return start + at;
            }
        }
        start + content.len()
    }
}

/// Numbers of lines and columns have 32 bits in the protocol.
fn number(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn utf_16_units_are_counted() {
        // One, one, two and one unit; one, two, four and one byte.
        let index = LineIndex::new("aé𝄞b\nx\r\n\ry");
        let at = |offset| (index.position(offset).line, index.position(offset).character);
        assert_eq!([0, 1, 3, 7, 8].map(at), [(0, 0), (0, 1), (0, 2), (0, 4), (0, 5)]);
        assert_eq!(at(4), (0, 2), "within a character");
        assert_eq!([9, 10, 12, 13, 14, 99].map(at), [(1, 0), (1, 1), (2, 0), (3, 0), (3, 1), (3, 1)]);
        let offset = |line, character| index.offset(Position::new(line, character));
        assert_eq!([0, 1, 2, 3, 4, 5, 6].map(|c| offset(0, c)), [0, 1, 3, 3, 7, 8, 8]);
        assert_eq!([offset(1, 0), offset(1, 1), offset(1, 9), offset(2, 0), offset(3, 1)], [9, 10, 10, 12, 14]);
        assert_eq!([offset(4, 0), offset(u32::MAX, u32::MAX)], [14, 14]);
    }

    #[test]
    fn offsets_return() {
        let long = ["a𝄞€\n".repeat(200), "𝄞ü".repeat(500), "x".repeat(256), "é".repeat(256)];
        let short = ["", "a", "\n", "a\nb", "ü𝄞\n\n€", "\u{feff}x"].map(str::to_owned);
        for text in short.iter().chain(&long) {
            let index = LineIndex::new(text);
            for (offset, _) in text.char_indices().chain([(text.len(), ' ')]) {
                assert_eq!(index.offset(index.position(offset)), offset, "{text:?} at {offset}");
                let line = text[..offset].rfind('\n').map_or(0, |i| i + 1);
                let units = text[line..offset].encode_utf16().count();
                assert_eq!(index.position(offset).character as usize, units, "{text:?} at {offset}");
            }
        }
    }
}
