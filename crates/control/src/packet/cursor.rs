//! Characters of packet text, with their columns.

use super::written::PacketError;

/// Reads from front to back.
pub(super) struct Cursor<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Cursor<'t> {
    pub fn new(text: &'t str) -> Self {
        Cursor { text, at: 0 }
    }

    /// Byte offset of the next character, after blanks.
    pub fn at(&mut self) -> usize {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
        self.at
    }

    /// An error at a byte offset.
    pub fn error(&self, at: usize, problem: impl Into<String>) -> PacketError {
        PacketError { column: self.text[..at].chars().count() + 1, problem: problem.into() }
    }

    /// The next character after blanks, if any.
    pub fn peek(&mut self) -> Option<char> {
        let at = self.at();
        self.text[at..].chars().next()
    }

    /// Takes the next character if it is this one.
    pub fn take(&mut self, expected: char) -> bool {
        let found = self.peek() == Some(expected);
        if found {
            self.at += expected.len_utf8();
        }
        found
    }

    /// Takes this character or says what else is there.
    pub fn expect(&mut self, expected: char, what: &str) -> Result<(), PacketError> {
        if self.take(expected) {
            return Ok(());
        }
        let at = self.at();
        let found = self.peek().map_or("the end".to_string(), |c| format!("`{c}`"));
        Err(self.error(at, format!("expected `{expected}` {what}, found {found}")))
    }

    /// Letters, digits and `_`; empty where there is none.
    pub fn name(&mut self) -> &'t str {
        let start = self.at();
        let rest = &self.text[start..];
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    /// Everything before the next of these characters, without blanks at its ends.
    pub fn until(&mut self, ends: &[char]) -> &'t str {
        let start = self.at();
        let rest = &self.text[start..];
        let end = rest.find(ends).unwrap_or(rest.len());
        self.at += end;
        rest[..end].trim_end()
    }

    /// The next character, blank or not.
    pub fn next(&mut self) -> Option<char> {
        let c = self.text[self.at..].chars().next()?;
        self.at += c.len_utf8();
        Some(c)
    }
}
