//! Recursive descent with precedence climbing; builds the tree as it goes.
//!
//! This file holds the machine: look-ahead, building, errors. Blanks and comments go into the node that was open when
//! they were met, before the next node starts, so no node begins or ends with them (but for the root).
//!
//! One error per cause: an error is dropped when one was given at the same token, or when the lexer found a mistake
//! just before it. After an error the parser skips to a place from which it can go on (`recover.rs`) and marks the
//! token there, so that the callers' own complaints about the same place are dropped too.

mod expr;
mod item;
mod module;
mod recover;
mod report;
mod stmt;

use rowan::{Checkpoint, GreenNode, GreenNodeBuilder, Language};

use super::kind::{Baker, SyntaxKind};
use super::lexer::{self, Token};
use crate::diag::{Diagnostic, SHOWN};
use crate::source::{FileId, Span};

/// How deep blocks and expressions may nest. Bounds the stack of the parser and of what walks the tree.
pub const MAX_DEPTH: u32 = 256;

/// How many errors of one file are reported.
pub const MAX_ERRORS: usize = SHOWN - 1;

/// Parses a file.
pub(super) fn parse(file: FileId, text: &str) -> (GreenNode, Vec<Diagnostic>) {
    if u32::try_from(text.len()).is_err() {
        let mut builder = GreenNodeBuilder::new();
        builder.start_node(Baker::kind_to_raw(SyntaxKind::SourceFile));
        builder.finish_node();
        let error = Diagnostic::new("file-too-big", Span::new(file, 0, 0), "a source file must be smaller than 4 GiB");
        return (builder.finish(), vec![error]);
    }
    let mut parser = Parser::new(file, text);
    parser.source_file();
    let Parser { builder, mut errors, .. } = parser;
    errors.sort_by_key(|e| e.primary.span.start);
    if errors.len() > MAX_ERRORS {
        let last = errors[MAX_ERRORS].primary.span;
        errors.truncate(MAX_ERRORS);
        errors.push(Diagnostic::new("too-many-errors", last, "there are more syntax errors from here on"));
    }
    (builder.finish(), errors)
}

/// A token that is not trivia, with what the parser asks of its surroundings.
#[derive(Clone, Copy)]
struct Seen {
    /// Index into `Parser::tokens`.
    raw: usize,
    /// A line ends between the token before and this one.
    new_line: bool,
    /// It is the first character of its line.
    column_0: bool,
    /// The lexer found a mistake in the token before or between the two.
    after_mistake: bool,
}

struct Parser<'t> {
    file: FileId,
    text: &'t str,
    /// All tokens.
    tokens: Vec<Token>,
    /// The tokens that are not trivia.
    seen: Vec<Seen>,
    /// Index into `seen` of the token looked at.
    pos: usize,
    /// Index into `tokens` of the next token for the tree.
    raw: usize,
    builder: GreenNodeBuilder<'static>,
    errors: Vec<Diagnostic>,
    /// The token at which the last error was given or to which the parser skipped.
    error_pos: Option<usize>,
    /// Where no matching bracket was found.
    no_bracket_at: Option<usize>,
    /// How deep the construct being parsed is nested.
    depth: u32,
    /// Within a protocol's field, where `covers {` ends an expression.
    in_field: bool,
    /// Before a body, whose `{` does not begin a structure value.
    before_body: bool,
    /// A module's items were met outside of a module, and this was reported.
    outside_module: bool,
    /// What stood before was no item. More of the same has the same cause, such as a missing `{`.
    after_no_item: bool,
    /// Nesting too deep was reported in this item of the file.
    too_deep: bool,
}

impl<'t> Parser<'t> {
    fn new(file: FileId, text: &'t str) -> Self {
        let tokens = lexer::lex(text);
        let mut seen = Vec::new();
        let (mut new_line, mut after_mistake) = (true, false);
        for (raw, token) in tokens.iter().enumerate() {
            if token.kind.is_trivia() {
                new_line |= text[token.start..token.end].contains('\n');
                after_mistake |= token.error.is_some();
            } else {
                let column_0 = token.start == 0 || text.as_bytes()[token.start - 1] == b'\n';
                seen.push(Seen { raw, new_line, column_0, after_mistake });
                (new_line, after_mistake) = (false, token.error.is_some());
            }
        }
        // What stands behind the last token. Its index is that of no token.
        seen.push(Seen { raw: tokens.len(), new_line: true, column_0: true, after_mistake });
        let errors = report::lexical_errors(file, text, &tokens);
        Parser {
            file,
            text,
            tokens,
            seen,
            pos: 0,
            raw: 0,
            builder: GreenNodeBuilder::new(),
            errors,
            error_pos: None,
            no_bracket_at: None,
            depth: 0,
            in_field: false,
            before_body: false,
            outside_module: false,
            after_no_item: false,
            too_deep: false,
        }
    }

    // Looking ahead.

    /// The `n`th token from here that is not trivia.
    fn ahead(&self, n: usize) -> &Seen {
        &self.seen[(self.pos + n).min(self.seen.len() - 1)]
    }

    /// Its kind.
    fn nth(&self, n: usize) -> SyntaxKind {
        self.tokens.get(self.ahead(n).raw).map_or(SyntaxKind::Eof, |t| t.kind)
    }

    /// Its text.
    fn nth_text(&self, n: usize) -> &'t str {
        self.tokens.get(self.ahead(n).raw).map_or("", |t| &self.text[t.start..t.end])
    }

    fn kind(&self) -> SyntaxKind {
        self.nth(0)
    }

    fn at(&self, kind: SyntaxKind) -> bool {
        self.kind() == kind
    }

    /// The contextual keyword that the `n`th token would be where the grammar names one.
    fn nth_keyword(&self, n: usize) -> Option<SyntaxKind> {
        if self.nth(n) == SyntaxKind::Name { SyntaxKind::contextual_keyword(self.nth_text(n)) } else { None }
    }

    fn at_keyword(&self, keyword: SyntaxKind) -> bool {
        self.nth_keyword(0) == Some(keyword)
    }

    /// True when the `n`th token can name a field.
    fn nth_is_field_name(&self, n: usize) -> bool {
        self.nth(n) == SyntaxKind::Name || self.nth(n).is_reserved_word()
    }

    // Building.

    /// Moves blanks, comments and unknown characters into the tree.
    fn trivia(&mut self) {
        while self.tokens.get(self.raw).is_some_and(|t| t.kind.is_trivia()) {
            self.push_token(None);
        }
    }

    fn push_token(&mut self, kind: Option<SyntaxKind>) {
        let token = self.tokens[self.raw];
        self.builder.token(Baker::kind_to_raw(kind.unwrap_or(token.kind)), &self.text[token.start..token.end]);
        self.raw += 1;
    }

    /// Starts a node at the next token.
    fn start(&mut self, kind: SyntaxKind) {
        self.trivia();
        self.builder.start_node(Baker::kind_to_raw(kind));
    }

    /// Marks the next token as a place where [`Parser::start_at`] may start a node later.
    fn checkpoint(&mut self) -> Checkpoint {
        self.trivia();
        self.builder.checkpoint()
    }

    fn start_at(&mut self, checkpoint: Checkpoint, kind: SyntaxKind) {
        self.builder.start_node_at(checkpoint, Baker::kind_to_raw(kind));
    }

    fn finish(&mut self) {
        self.builder.finish_node();
    }

    /// Takes the token, whatever it is.
    fn bump(&mut self) {
        self.bump_kind(None);
    }

    /// Takes the token as one of another kind: a keyword that the lexer took for a name, or the other way round.
    fn bump_as(&mut self, kind: SyntaxKind) {
        self.bump_kind(Some(kind));
    }

    fn bump_kind(&mut self, kind: Option<SyntaxKind>) {
        if self.at(SyntaxKind::Eof) {
            return;
        }
        self.trivia();
        self.push_token(kind);
        self.pos += 1;
    }

    /// Takes the token if it is of this kind.
    fn eat(&mut self, kind: SyntaxKind) -> bool {
        let found = self.at(kind);
        if found {
            self.bump();
        }
        found
    }

    /// Takes a contextual keyword.
    fn eat_keyword(&mut self, keyword: SyntaxKind) -> bool {
        let found = self.at_keyword(keyword);
        if found {
            self.bump_as(keyword);
        }
        found
    }

    /// Parses part of an expression one level deeper. At the limit reports, skips the part and returns `None`.
    fn nested<R>(&mut self, parse: impl FnOnce(&mut Self) -> R) -> Option<R> {
        if self.depth >= MAX_DEPTH {
            self.too_deep();
            self.skip_expr();
            return None;
        }
        self.depth += 1;
        let result = parse(self);
        self.depth -= 1;
        Some(result)
    }
}
