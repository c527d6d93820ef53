//! Statements.

use super::{MAX_DEPTH, Parser, SyntaxKind};
use crate::diag::Diagnostic;
use crate::source::Span;

use SyntaxKind::*;

impl Parser<'_> {
    /// `block`. `what` names in messages what the block is the body of.
    pub(super) fn block(&mut self, what: &str) {
        if self.depth >= MAX_DEPTH {
            self.too_deep();
            self.skip_nested_stmt();
            return;
        }
        self.depth += 1;
        self.start(Block);
        let open = self.here();
        let opened = self.at(LBrace);
        self.expect(LBrace, &format!("to begin this {what}"));
        while !matches!(self.kind(), RBrace | Eof) && !self.at_outer_item(false) {
            let before = self.pos;
            self.stmt();
            if self.pos == before {
                self.skip_one();
            }
        }
        self.close_brace(opened.then_some(open), what);
        self.finish();
        self.depth -= 1;
    }

    /// The body of a function or PPF. If there is no `{`, it is read as if there were one when statements follow.
    pub(super) fn body(&mut self, what: &str) {
        let statement_follows = match self.kind() {
            LBrace => true,
            Name => self.nth_keyword(0).is_none(),
            kind => kind.is_reserved_word(),
        };
        if statement_follows {
            self.block(what);
        } else {
            let error = self.missing("`{`", &format!("to begin this {what}"));
            self.error(error);
            self.eat(Semicolon);
        }
    }

    /// `stmt`
    fn stmt(&mut self) {
        match self.kind() {
            LBrace => self.block("block"),
            Semicolon => {
                self.start(EmptyStmt);
                self.bump();
                self.finish();
            }
            IfKw => self.if_stmt(),
            ForKw => self.for_stmt(),
            SwitchKw => self.switch_stmt(),
            CriticalKw => self.critical_stmt(),
            ReturnKw => {
                self.start(ReturnStmt);
                self.bump();
                // Behind a forgotten `;` the next line may begin with a statement; else a value must follow.
                if self.at_expr_start() || !self.ahead(0).new_line && !matches!(self.kind(), Semicolon | RBrace) {
                    self.expr();
                }
                self.semicolon("after this `return`");
                self.finish();
            }
            BreakKw => self.jump(BreakStmt, "after `break`"),
            ContinueKw => self.jump(ContinueStmt, "after `continue`"),
            CaseKw | DefaultKw => {
                let error = Diagnostic::new("expected-statement", self.here(), "this label belongs to no `switch`")
                    .hint("labels stand directly between the braces of a `switch`");
                self.error(error);
                self.skip_while(|p| !matches!(p.kind(), Colon | Semicolon | LBrace | RBrace | Eof));
                self.eat(Colon);
            }
            ElseKw => {
                let error = Diagnostic::new("expected-statement", self.here(), "this `else` belongs to no `if`")
                    .hint("more than one statement before `else` needs braces");
                self.error(error);
                self.skip_one();
            }
            Name if self.at_keyword(ConstKw) && self.nth(1) == Name && self.nth(2) == Name => self.constant(),
            _ => {
                let hint = self.simple_stmt_hint();
                let checkpoint = self.checkpoint();
                let kind = if self.at_let() { self.let_parts() } else { self.simple_parts() };
                // Nothing there that could begin a statement: say that, not that a `;` is missing.
                if let Some(kind) = kind {
                    self.start_at(checkpoint, kind);
                    let (context, comma) = match kind {
                        LetStmt => ("after this declaration", self.at(Comma)),
                        _ => ("after this statement", false),
                    };
                    let hint = if comma { Some("declare each variable in its own statement") } else { hint };
                    self.semicolon_or(context, hint);
                    self.finish();
                } else {
                    self.skip_statement();
                }
            }
        }
    }

    /// What to say when a statement that begins here makes no sense: words of other languages.
    fn simple_stmt_hint(&self) -> Option<&'static str> {
        match self.nth_text(0) {
            "while" | "do" => Some("there is no `while` loop: write `for (…; …; …)` with constant bounds"),
            "goto" => Some("there is no `goto`"),
            _ => None,
        }
    }

    fn jump(&mut self, kind: SyntaxKind, context: &str) {
        self.start(kind);
        self.bump();
        self.semicolon(context);
        self.finish();
    }

    /// The statement under an `if`, `else` or `for`, one level deeper.
    fn branch(&mut self) {
        if self.depth >= MAX_DEPTH {
            self.too_deep();
            self.skip_nested_stmt();
            return;
        }
        self.depth += 1;
        if matches!(self.kind(), RBrace | Eof | ElseKw) {
            self.expected("expected-statement", "a statement");
        } else {
            self.stmt();
        }
        self.depth -= 1;
    }

    fn if_stmt(&mut self) {
        self.start(IfStmt);
        self.bump();
        let opened = self.expect(LParen, "after `if`");
        self.expr();
        if opened && self.at(Eq) {
            let error = Diagnostic::new("assignment-in-condition", self.here(), "an assignment is not a condition")
                .label("stores a value")
                .hint("`==` compares");
            self.error(error);
            self.skip_to_closing(RParen, false);
        } else if opened {
            self.close(RParen, "after this condition");
        } else {
            self.eat(RParen);
        }
        self.branch();
        if self.at(ElseKw) {
            self.bump();
            self.branch();
        }
        self.finish();
    }

    /// `'switch' '(' expr ')' '{' arm* '}'`
    fn switch_stmt(&mut self) {
        if self.depth >= MAX_DEPTH {
            self.too_deep();
            self.skip_nested_stmt();
            return;
        }
        self.depth += 1;
        self.start(SwitchStmt);
        self.bump();
        let opened = self.expect(LParen, "after `switch`");
        self.expr();
        if opened {
            self.close(RParen, "after this value");
        } else {
            self.eat(RParen);
        }
        let open = self.open_brace("`switch`");
        while !matches!(self.kind(), RBrace | Eof) && !self.at_outer_item(false) {
            if matches!(self.kind(), CaseKw | DefaultKw) {
                self.switch_arm();
            } else {
                let error = Diagnostic::new("expected-case", self.here(), "this belongs to no label of the `switch`")
                    .label("expected `case` or `default`");
                self.error(error);
                self.skip_while(|p| !matches!(p.kind(), CaseKw | DefaultKw | RBrace | Eof) && !p.at_outer_item(false));
            }
        }
        self.close_brace(open, "`switch`");
        self.finish();
        self.depth -= 1;
    }

    /// `label+ stmt*`
    fn switch_arm(&mut self) {
        self.start(SwitchArm);
        while matches!(self.kind(), CaseKw | DefaultKw) {
            self.start(CaseLabel);
            if self.eat(CaseKw) {
                self.expr();
                while self.eat(Comma) {
                    self.expr();
                }
            } else {
                self.bump();
            }
            self.expect(Colon, "after this label");
            self.finish();
        }
        while !matches!(self.kind(), CaseKw | DefaultKw | RBrace | Eof) && !self.at_outer_item(false) {
            let before = self.pos;
            self.stmt();
            if self.pos == before {
                self.skip_one();
            }
        }
        self.finish();
    }

    /// `'critical' '(' expr ')' block`
    fn critical_stmt(&mut self) {
        self.start(CriticalStmt);
        self.bump();
        let opened = self.expect(LParen, "after `critical`");
        self.expr();
        if opened {
            self.close(RParen, "after this entry");
        } else {
            self.eat(RParen);
        }
        if self.at(LBrace) {
            self.block("critical section");
        } else {
            let error = self.missing("`{`", "to begin this critical section");
            self.error(error);
            self.branch();
        }
        self.finish();
    }

    fn for_stmt(&mut self) {
        self.start(ForStmt);
        self.bump();
        let opened = self.expect(LParen, "after `for`");
        self.for_header(opened);
        self.branch();
        self.finish();
    }

    /// `(let | simple)? ';' expr? ';' simple? ')'`; on the first mistake skips the rest of it.
    fn for_header(&mut self, opened: bool) {
        if !self.at(Semicolon) {
            self.start(ForInit);
            let checkpoint = self.checkpoint();
            let kind = if self.at_let() { self.let_parts() } else { self.simple_parts() };
            if let Some(kind) = kind {
                self.start_at(checkpoint, kind);
                self.finish();
            }
            self.finish();
        }
        if !self.expect(Semicolon, "after the first part of this `for`") {
            return self.skip_to_closing(RParen, true);
        }
        if !self.at(Semicolon) {
            self.start(ForCondition);
            self.expr();
            self.finish();
        }
        if !self.expect(Semicolon, "after the condition of this `for`") {
            return self.skip_to_closing(RParen, true);
        }
        if !matches!(self.kind(), RParen | LBrace) {
            self.start(ForStep);
            let checkpoint = self.checkpoint();
            if let Some(kind) = self.simple_parts() {
                self.start_at(checkpoint, kind);
                self.finish();
            }
            self.finish();
        }
        if !opened {
            self.eat(RParen);
        } else if !self.expect(RParen, "after the last part of this `for`") {
            self.skip_to_closing(RParen, true);
        }
    }

    /// `NAME NAME` and `NAME '*' NAME` begin the declaration of a variable.
    fn at_let(&self) -> bool {
        if self.nth_is_outer_item(1, false) {
            return false;
        }
        let second = if self.nth(1) == Star { self.nth(2) } else { self.nth(1) };
        // A reserved word in the place of the variable's name: `u8 if = 1;`, but not a forgotten `;` before a
        // statement.
        let reserved = self.nth(1).is_reserved_word() && !self.ahead(1).new_line && self.nth(2) == Eq;
        self.at(Name) && (second == Name || reserved)
    }

    /// `let` without its `;`.
    fn let_parts(&mut self) -> Option<SyntaxKind> {
        self.type_ref();
        self.eat(Star);
        if self.name("the name of a variable") {
            self.array_length();
        }
        if self.nth(0).is_reserved_word() && self.nth(1) == Eq {
            self.skip_one();
        }
        if self.eat(Eq) {
            self.expr();
        }
        Some(LetStmt)
    }

    /// `simple` without its `;`; `None` when nothing of it is there.
    fn simple_parts(&mut self) -> Option<SyntaxKind> {
        let before = self.pos;
        if !self.at_expr_start() {
            self.expected("expected-statement", "a statement");
            return None;
        }
        self.expr();
        let kind = match self.kind() {
            Eq | PlusEq | MinusEq | StarEq | SlashEq | PercentEq | AmpEq | PipeEq | CaretEq | ShlEq | ShrEq => {
                self.bump();
                self.expr();
                AssignStmt
            }
            PlusPlus | MinusMinus => {
                self.bump();
                IncDecStmt
            }
            _ => ExprStmt,
        };
        (self.pos > before).then_some(kind)
    }

    fn at_expr_start(&self) -> bool {
        matches!(
            self.kind(),
            Name | Int | Mac | Ipv4 | Ipv6 | String | TrueKw | FalseKw | NullKw | LParen | Bang | Tilde | Minus | Star
        )
    }

    /// The place of a brace to come, if it is there.
    pub(super) fn open_brace(&mut self, what: &str) -> Option<Span> {
        let open = self.here();
        self.expect(LBrace, &format!("to begin this {what}")).then_some(open)
    }
}
