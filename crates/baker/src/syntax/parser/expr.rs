//! Expressions, by precedence climbing.
//!
//! Each function returns the height of the tree that it built: a long chain such as `a + b + c + …` or `a.b.c.…` is
//! parsed in a loop but gives a tree as deep as it is long, which [`MAX_DEPTH`] must bound as well.

use super::{MAX_DEPTH, Parser, SyntaxKind};
use crate::diag::Diagnostic;
use crate::syntax::ast::{BinaryOp, UnaryOp};

use SyntaxKind::*;

impl Parser<'_> {
    /// `expr`
    pub(super) fn expr(&mut self) -> u32 {
        let checkpoint = self.checkpoint();
        let condition = self.binary(0);
        if !self.at(Question) || !self.may_wrap(condition) {
            return condition;
        }
        self.start_at(checkpoint, TernaryExpr);
        self.bump();
        let then_value = self.nested(Self::expr).unwrap_or(0);
        let else_value = if self.expect(Colon, "and the other value of this `?`") {
            self.nested(Self::expr).unwrap_or(0)
        } else {
            0
        };
        self.finish();
        condition.max(then_value).max(else_value) + 1
    }

    /// A chain of operands and of operators that bind at least as tightly as `minimum`.
    fn binary(&mut self, minimum: u8) -> u32 {
        let checkpoint = self.checkpoint();
        let mut height = self.unary();
        while let Some(precedence) = BinaryOp::from_kind(self.kind()).map(BinaryOp::precedence) {
            if precedence < minimum || !self.may_wrap(height) {
                break;
            }
            self.start_at(checkpoint, BinaryExpr);
            self.bump();
            let right = self.nested(|p| p.binary(precedence + 1)).unwrap_or(0);
            self.finish();
            height = height.max(right) + 1;
        }
        height
    }

    /// True when a tree of this height may get one more level on top; else reports and skips.
    fn may_wrap(&mut self, height: u32) -> bool {
        let allowed = self.depth + height < MAX_DEPTH;
        if !allowed {
            self.too_deep();
            self.skip_expr();
        }
        allowed
    }

    /// `unary`
    fn unary(&mut self) -> u32 {
        if UnaryOp::from_kind(self.kind()).is_some() {
            self.start(UnaryExpr);
            self.bump();
            let operand = self.nested(Self::unary).unwrap_or(0);
            self.finish();
            return operand + 1;
        }
        if self.at_cast() {
            self.start(CastExpr);
            self.bump();
            self.type_ref();
            self.bump();
            let operand = self.nested(Self::unary).unwrap_or(0);
            self.finish();
            return operand + 1;
        }
        self.postfix()
    }

    /// `(type)` in front of an operand. With a built-in type it is always a cast. With another name it is one if the
    /// operand cannot be anything else: `(a) - b` subtracts, `(a) b` casts.
    fn at_cast(&self) -> bool {
        if !(self.at(LParen) && self.nth(1) == Name && self.nth(2) == RParen) {
            return false;
        }
        if is_builtin_type(self.nth_text(1)) {
            return true;
        }
        match self.nth(3) {
            Name => {
                !(self.in_field && matches!(self.nth_keyword(3), Some(CoversKw | CountsKw)) && self.nth(4) == LBrace)
            }
            Int | Mac | Ipv4 | Ipv6 | TrueKw | FalseKw | NullKw | LParen => true,
            _ => false,
        }
    }

    /// `postfix`
    fn postfix(&mut self) -> u32 {
        let checkpoint = self.checkpoint();
        let mut height = self.primary();
        while matches!(self.kind(), Arrow | Dot | LBracket | LParen) && self.may_wrap(height) {
            let inner = match self.kind() {
                LBracket => {
                    self.start_at(checkpoint, IndexExpr);
                    self.bump();
                    let index = self.nested(Self::expr).unwrap_or(0);
                    self.close(RBracket, "after this index");
                    index
                }
                LParen => {
                    self.start_at(checkpoint, CallExpr);
                    self.arg_list()
                }
                _ => {
                    self.start_at(checkpoint, MemberExpr);
                    self.bump();
                    self.field_name();
                    0
                }
            };
            self.finish();
            height = height.max(inner) + 1;
        }
        height
    }

    /// `'(' (expr (',' expr)*)? ')'`
    pub(super) fn arg_list(&mut self) -> u32 {
        self.start(ArgList);
        self.bump();
        let mut height = 0;
        if !self.at(RParen) {
            loop {
                height = height.max(self.nested(Self::expr).unwrap_or(0));
                if !self.eat(Comma) {
                    break;
                }
            }
        }
        if !self.eat(RParen) {
            let error = self.missing("`,` or `)`", "after this argument");
            self.error(error);
            self.skip_to_closing(RParen, false);
        }
        self.finish();
        height
    }

    /// `primary`
    fn primary(&mut self) -> u32 {
        match self.kind() {
            Int | Mac | Ipv4 | Ipv6 | TrueKw | FalseKw | NullKw => {
                self.start(Literal);
                self.bump();
                self.finish();
                0
            }
            Name if self.at_struct_value() => self.struct_value(),
            Name => {
                self.start(NameExpr);
                self.bump();
                self.finish();
                0
            }
            LParen => {
                self.start(ParenExpr);
                self.bump();
                let inner = self.nested(Self::expr).unwrap_or(0);
                self.close(RParen, "after this expression");
                self.finish();
                inner + 1
            }
            LBrace if !self.ahead(0).new_line => {
                let title = "expected an expression, found `{`";
                let error = Diagnostic::new("expected-expression", self.here(), title)
                    .hint("a structure value begins with its structure's name: `NAME { field: value }`");
                self.error(error);
                self.skip_nested_stmt();
                0
            }
            found => {
                self.expected("expected-expression", "an expression");
                // Cannot be meant for anything else than the expression.
                if found == String {
                    self.skip_one();
                }
                0
            }
        }
    }

    /// `NAME '{'`, when what follows can be the inside of a structure value.
    fn at_struct_value(&self) -> bool {
        if self.before_body || self.in_field && matches!(self.nth_keyword(0), Some(CoversKw | CountsKw)) {
            return false;
        }
        let inside = self.nth(2) == RBrace || self.nth_is_field_name(2) && self.nth(3) == Colon;
        self.nth(1) == LBrace && inside
    }

    /// `NAME '{' (NAME ':' expr (',' NAME ':' expr)* ','?)? '}'`
    fn struct_value(&mut self) -> u32 {
        self.start(StructValue);
        self.bump();
        let open = self.here();
        self.bump();
        let mut height = 0;
        while !matches!(self.kind(), RBrace | Eof) {
            let before = self.pos;
            self.start(StructValueField);
            if self.field_name() {
                self.expect(Colon, "after the name of the field");
                height = height.max(self.nested(Self::expr).unwrap_or(0));
            }
            self.finish();
            if !self.eat(Comma) && !self.at(RBrace) {
                let error = self.missing("`,` or `}`", "after this field");
                self.error(error);
                self.skip_while(|p| !matches!(p.kind(), Comma | Semicolon | LBrace | RBrace));
                if !self.eat(Comma) {
                    break;
                }
            }
            debug_assert!(self.pos > before);
        }
        self.close_brace(Some(open), "structure value");
        self.finish();
        height + 1
    }
}

/// The types that the language itself names.
fn is_builtin_type(name: &str) -> bool {
    let width = name.strip_prefix(['u', 'i']).filter(|w| !w.starts_with('0'));
    matches!(name, "int" | "bool" | "void")
        || width.is_some_and(|w| w.bytes().all(|b| b.is_ascii_digit()) && w.parse().is_ok_and(|w: u8| w <= 128))
}
