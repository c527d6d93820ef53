//! Errors: their titles, places and hints.

use super::{Parser, SyntaxKind};
use crate::diag::Diagnostic;
use crate::source::{FileId, Span};
use crate::syntax::lexer::{LexError, Token};
use crate::syntax::literal::LiteralError;

/// Longest piece of source that a title quotes, in characters.
const QUOTE: usize = 40;

/// A piece of source for a title, shortened and without control characters.
fn quote(text: &str) -> String {
    let mut quoted: String = text.chars().take(QUOTE).flat_map(|c| c.escape_debug()).collect();
    // `escape_debug` is meant for literals: quotes need no backslash here.
    quoted = quoted.replace("\\\"", "\"").replace("\\'", "'");
    if text.chars().nth(QUOTE).is_some() {
        quoted.push('…');
    }
    format!("`{quoted}`")
}

/// One error per token that the lexer marked.
pub(super) fn lexical_errors(file: FileId, text: &str, tokens: &[Token]) -> Vec<Diagnostic> {
    tokens.iter().filter_map(|t| Some(lexical_error(file, text, t, t.error?))).collect()
}

fn lexical_error(file: FileId, text: &str, token: &Token, error: LexError) -> Diagnostic {
    let span = Span::new(file, token.start as u32, token.end as u32);
    let found = quote(&text[token.start..token.end]);
    let new = |code, title: String| Diagnostic::new(code, span, title);
    match error {
        LexError::Unknown => {
            let first = text[token.start..].chars().next().unwrap_or_default();
            let error = new("unknown-character", format!("{found} is not part of Baker"));
            match first {
                '#' => error.hint("there is no preprocessor: use `import` and `const`"),
                '\'' => error.hint("there are no character literals: write the number"),
                _ => error,
            }
        }
        LexError::NonAsciiName => new("non-ascii-name", format!("{found} holds letters that a name may not have"))
            .hint("names are made of the letters a to z and A to Z, digits and `_`"),
        LexError::UnterminatedString => new("unterminated-string", "this string has no end".into())
            .label("expected `\"` before the end of the line"),
        LexError::UnterminatedComment => {
            let start = Span::new(file, span.start, span.start + 2);
            Diagnostic::new("unterminated-comment", start, "this comment has no end")
                .label("expected `*/` before the end of the file")
        }
        LexError::Literal(LiteralError::TooBig) => new("number-too-big", "this number needs more than 128 bits".into()),
        LexError::Literal(LiteralError::BadNumber) => new("bad-number", format!("{found} is not a number"))
            .hint("a number is decimal, hexadecimal after `0x` or binary after `0b`; `_` may stand between two digits"),
        LexError::Literal(LiteralError::Fraction) => {
            new("bad-number", format!("{found} is not a number")).hint("there are no fractions, only whole numbers")
        }
        LexError::Literal(LiteralError::BadMac) => new("bad-mac", format!("{found} is not a MAC address"))
            .hint("a MAC address is six pairs of hexadecimal digits: `02:00:00:00:00:01`"),
        LexError::Literal(LiteralError::BadIpv4) => new("bad-ipv4", format!("{found} is not an IPv4 address"))
            .hint("an IPv4 address is four numbers from 0 to 255: `10.0.0.1`"),
        LexError::Literal(LiteralError::BadIpv6) => new("bad-ipv6", format!("{found} is not an IPv6 address"))
            .hint("an IPv6 address is eight groups of hexadecimal digits, or fewer around `::`: `2001:db8::1`"),
        LexError::Literal(LiteralError::Ipv4Part) => {
            new("bad-ipv4", format!("a part of the IPv4 address {found} is above 255"))
        }
    }
}

impl Parser<'_> {
    /// How titles name the token looked at.
    pub(super) fn found(&self) -> String {
        match self.kind() {
            SyntaxKind::Eof => "the end of the file".into(),
            SyntaxKind::String => format!("the string {}", quote(self.nth_text(0))),
            _ => quote(self.nth_text(0)),
        }
    }

    /// The place of the token looked at; empty at the end of the file.
    pub(super) fn here(&self) -> Span {
        let at_end = (self.text.len(), self.text.len());
        let (start, end) = self.tokens.get(self.ahead(0).raw).map_or(at_end, |t| (t.start, t.end));
        Span::new(self.file, start as u32, end as u32)
    }

    /// The empty place right behind the token before.
    pub(super) fn behind(&self) -> Span {
        let end = self.pos.checked_sub(1).map_or(0, |p| self.tokens[self.seen[p].raw].end);
        Span::new(self.file, end as u32, end as u32)
    }

    /// The token looked at if it stands on the line of the token before, else the place behind that one.
    fn here_or_behind(&self) -> Span {
        let first = self.pos == 0 && !self.at(SyntaxKind::Eof);
        if self.ahead(0).new_line && !first { self.behind() } else { self.here() }
    }

    /// Gives an error about the token looked at, unless one was given already.
    pub(super) fn error(&mut self, error: Diagnostic) {
        if self.error_pos != Some(self.pos) && !self.ahead(0).after_mistake {
            self.errors.push(error);
        }
        self.error_pos = Some(self.pos);
    }

    /// Marks the token looked at as the place where the parser goes on after an error: errors here have that cause.
    pub(super) fn resume_here(&mut self) {
        self.error_pos = Some(self.pos);
    }

    /// An error about a missing word or sign. `context` may be empty, or begins with a word such as "after".
    pub(super) fn missing(&self, what: &str, context: &str) -> Diagnostic {
        let space = if context.is_empty() { "" } else { " " };
        Diagnostic::new(
            "expected-token",
            self.behind(),
            format!("expected {what}{space}{context}, found {}", self.found()),
        )
        .label(format!("expected {what}"))
    }

    /// Takes a token of this kind; if there is none, says so and takes nothing.
    pub(super) fn expect(&mut self, kind: SyntaxKind, context: &str) -> bool {
        let found = self.eat(kind);
        if !found {
            let error = self.missing(kind.describe(), context);
            self.error(error);
        }
        found
    }

    /// As [`Parser::expect`], for a contextual keyword.
    pub(super) fn expect_keyword(&mut self, keyword: SyntaxKind, context: &str) -> bool {
        let found = self.eat_keyword(keyword);
        if !found {
            let error = self.missing(keyword.describe(), context);
            self.error(error);
        }
        found
    }

    /// An error where an expression, a name, an item or the like should begin.
    pub(super) fn expected(&mut self, code: &'static str, what: &str) {
        let title = format!("expected {what}, found {}", self.found());
        let mut error = Diagnostic::new(code, self.here_or_behind(), title).label(format!("expected {what}"));
        if code == "expected-name" && self.kind().is_reserved_word() {
            error = error.hint(format!("{} is a reserved word: choose another name", self.found()));
        }
        self.error(error);
    }

    /// Takes a name.
    pub(super) fn name(&mut self, what: &str) -> bool {
        let found = self.eat(SyntaxKind::Name);
        if !found {
            self.expected("expected-name", what);
        }
        found
    }

    /// Takes a field's name, which may be any word.
    pub(super) fn field_name(&mut self) -> bool {
        let found = self.nth_is_field_name(0);
        if found {
            self.bump_as(SyntaxKind::Name);
        } else {
            self.expected("expected-name", "the name of a field");
        }
        found
    }
}
