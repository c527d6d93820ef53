//! Going on after an error.

use super::{MAX_DEPTH, Parser, SyntaxKind};
use crate::diag::Diagnostic;
use crate::source::Span;

use SyntaxKind::*;

/// How far a missing closing bracket is looked for, in tokens.
const BRACKET_SEARCH: usize = 256;

impl Parser<'_> {
    /// Moves tokens into an [`SyntaxKind::Error`] node while `go_on` holds, and goes on from there.
    pub(super) fn skip_while(&mut self, mut go_on: impl FnMut(&Self) -> bool) {
        if !self.at(Eof) && go_on(self) {
            self.start(Error);
            self.bump();
            while !self.at(Eof) && go_on(self) {
                self.bump();
            }
            self.finish();
        }
        self.resume_here();
    }

    /// Skips exactly one token.
    pub(super) fn skip_one(&mut self) {
        let here = self.pos;
        self.skip_while(|p| p.pos == here);
    }

    /// Takes the `;` that ends a statement or declaration. If it is missing, says so, and skips what is left of the
    /// statement: to its `;`, or to a brace or a new line, where something else begins.
    pub(super) fn semicolon(&mut self, context: &str) {
        self.semicolon_or(context, None);
    }

    /// As [`Parser::semicolon`], with a hint for the case that it is missing.
    pub(super) fn semicolon_or(&mut self, context: &str, hint: Option<&str>) {
        if self.eat(Semicolon) {
            return;
        }
        let mut error = self.missing("`;`", context);
        error.hint = hint.map(str::to_owned);
        self.error(error);
        self.skip_statement();
    }

    /// Skips the rest of a statement or declaration in which an error was given.
    pub(super) fn skip_statement(&mut self) {
        let mut level = 0u32;
        self.skip_while(|p| {
            match p.kind() {
                Semicolon | LBrace | RBrace => return false,
                // Brackets may span lines.
                _ if level == 0 && p.ahead(0).new_line => return false,
                LParen | LBracket => level += 1,
                RParen | RBracket => level = level.saturating_sub(1),
                _ => {}
            }
            true
        });
        self.eat(Semicolon);
    }

    /// Takes a closing `)` or `]`. If something else stands there, says so and skips to it, if it is near.
    pub(super) fn close(&mut self, kind: SyntaxKind, context: &str) {
        if !self.expect(kind, context) {
            self.skip_to_closing(kind, false);
        }
    }

    /// Skips to the bracket that closes what is open here and takes it, if it is of this kind. Does nothing when a
    /// brace or (unless `over_semicolons`) a `;` comes first.
    pub(super) fn skip_to_closing(&mut self, kind: SyntaxKind, over_semicolons: bool) {
        // An outer bracket would find the same as the inner one: look once only, or deep nesting takes quadratic time.
        if self.no_bracket_at == Some(self.pos) {
            return;
        }
        let mut level = 0u32;
        for n in 0..BRACKET_SEARCH {
            match self.nth(n) {
                LParen | LBracket => level += 1,
                RParen | RBracket if level > 0 => level -= 1,
                found @ (RParen | RBracket) => {
                    if found != kind {
                        break;
                    }
                    let target = self.pos + n;
                    self.skip_while(|p| p.pos < target);
                    self.bump();
                    self.resume_here();
                    return;
                }
                Semicolon if !over_semicolons => break,
                LBrace | RBrace | Eof => break,
                _ => {}
            }
        }
        self.no_bracket_at = Some(self.pos);
    }

    /// Takes the `}` that closes the `{` at `open`.
    pub(super) fn close_brace(&mut self, open: Option<Span>, what: &str) {
        if self.eat(RBrace) {
            return;
        }
        let mut error = self.missing("`}`", &format!("to close this {what}"));
        if let Some(open) = open {
            error = error.also(open, "opened here");
        }
        self.error(error);
    }

    /// True where something begins that can only stand at a higher level: a `}` must be missing before it. In a module
    /// fewer things can. What could also be meant for this level counts only at the very start of a line.
    pub(super) fn at_outer_item(&self, in_module: bool) -> bool {
        self.nth_is_outer_item(0, in_module)
    }

    /// As [`Parser::at_outer_item`], for the `n`th token from here.
    pub(super) fn nth_is_outer_item(&self, n: usize, in_module: bool) -> bool {
        if self.nth(n) != Name {
            return false;
        }
        let keyword = self.nth_keyword(n);
        let (second, third) = (self.nth(n + 1), self.nth(n + 2));
        if keyword == Some(PpfKw) && !in_module && second == Name && third == LParen {
            return self.nth_is_param_start(n + 3);
        }
        if !self.ahead(n).column_0 {
            return false;
        }
        let star = usize::from(second == Star);
        match keyword {
            Some(ModuleKw) if second == Name => matches!(third, LBrace | LParen),
            Some(ProtocolKw) if second == Name => third == LBrace,
            Some(ProgramKw | MetadataKw) if second == LBrace => true,
            Some(ImportKw) if second == String => true,
            Some(StructKw | EnumKw) if second == Name && !in_module => matches!(third, LBrace | Colon),
            Some(DropReasonKw) if second == Name && third != LParen && !in_module => matches!(third, Comma | Semicolon),
            // `M.P.ppf(`, `M.P(` and `type M.P`; a statement can begin as the second does.
            _ if second == Dot && third == Name => {
                let ppf = self.nth(n + 3) == Dot && self.nth_keyword(n + 4) == Some(PpfKw) && self.nth(n + 5) == LParen;
                ppf || in_module && self.nth(n + 3) == LParen
            }
            _ if self.nth(n + 1 + star) == Name => match self.nth(n + 2 + star) {
                Dot => true,
                LParen => !in_module,
                _ => false,
            },
            _ => false,
        }
    }

    /// `NAME NAME` or `NAME '*'`.
    pub(super) fn nth_is_param_start(&self, n: usize) -> bool {
        self.nth(n) == Name && matches!(self.nth(n + 1), Name | Star)
    }

    /// Skips something that is no item: at least one token, to the end of the `;` or block that ends it, or to the next
    /// item.
    pub(super) fn skip_item(&mut self) {
        self.skip_item_from(self.pos + 1);
    }

    /// Skips the rest of an item, if anything of it is left.
    pub(super) fn skip_item_rest(&mut self) {
        self.skip_item_from(self.pos);
    }

    /// Skips an item; what stands at token `first` or later may be the next item.
    fn skip_item_from(&mut self, first: usize) {
        let mut level = 0u32;
        let mut done = false;
        self.skip_while(|p| {
            let next = p.pos >= first && p.at_next_item();
            if done || next && (p.ahead(0).column_0 || level == 0) {
                return false;
            }
            match p.kind() {
                LBrace => level += 1,
                RBrace if level == 0 => return false,
                RBrace => {
                    level -= 1;
                    done = level == 0;
                }
                Semicolon => done = level == 0,
                _ => {}
            }
            true
        });
        if done {
            self.eat(Semicolon);
        }
    }

    /// True at a word that begins an item, at the start of a line.
    pub(super) fn at_next_item(&self) -> bool {
        self.ahead(0).new_line && self.nth_keyword(0).is_some_and(|k| !k.is_within_items()) && self.nth(1) != Dot
    }

    /// Reports that nesting is too deep, once per item of the file.
    pub(super) fn too_deep(&mut self) {
        if std::mem::replace(&mut self.too_deep, true) {
            return self.resume_here();
        }
        let title = format!("this is nested more than {MAX_DEPTH} levels deep");
        let error =
            Diagnostic::new("too-deep", self.here(), title).hint("split it into several statements or functions");
        self.error(error);
    }

    /// Skips the rest of an expression: to the bracket that closes what is open here, or to the statement's end.
    pub(super) fn skip_expr(&mut self) {
        let mut level = 0u32;
        self.skip_while(|p| {
            match p.kind() {
                LParen | LBracket | LBrace => level += 1,
                RParen | RBracket | RBrace if level == 0 => return false,
                RParen | RBracket | RBrace => level -= 1,
                Semicolon => return false,
                _ => {}
            }
            true
        });
    }

    /// Skips a statement that is nested too deep: to its `;`, or all of its block.
    pub(super) fn skip_nested_stmt(&mut self) {
        let (mut level, mut parens) = (0u32, 0u32);
        let mut done = false;
        self.skip_while(|p| {
            match p.kind() {
                _ if done => return false,
                LParen => parens += 1,
                RParen => parens = parens.saturating_sub(1),
                RBrace if level == 0 => return false,
                LBrace => level += 1,
                RBrace => {
                    level -= 1;
                    done = level == 0;
                }
                // Those in the header of a `for` end nothing.
                Semicolon => done = level == 0 && parens == 0,
                _ => {}
            }
            true
        });
    }
}
