//! Items of a file but for modules.

use super::{Parser, SyntaxKind};
use crate::diag::Diagnostic;

use SyntaxKind::*;

/// What can stand at the top level, for messages.
const ITEMS: &str = "`import`, `const`, `type`, `enum`, `struct`, `protocol`, `metadata`, `drop_reason`, `module`, \
                     `program`, a function or a PPF's body `MODULE.PPF.ppf(…) { … }` can stand here";

impl Parser<'_> {
    /// `file`
    pub(super) fn source_file(&mut self) {
        // The root alone begins before the first blanks, so that it holds all of the text.
        self.builder.start_node(<crate::syntax::Baker as rowan::Language>::kind_to_raw(SourceFile));
        while !self.at(Eof) {
            let before = self.pos;
            self.too_deep = false;
            self.item();
            if self.pos == before {
                self.skip_one();
            }
        }
        self.trivia();
        self.finish();
    }

    /// `item`
    fn item(&mut self) {
        if let Some(keyword) = self.nth_keyword(0).filter(|_| self.nth(1) != Dot) {
            match keyword {
                InKw | OutKw | ChannelKw | ArrayKw | HashKw | LpmKw | SetKw | HoldKw | GroupKw | CounterKw
                | MeterKw | QueueKw | PpfKw | ExternKw | TimerKw => self.stray_module_item(),
                within if within.is_within_items() => return self.named_item(),
                DropReasonKw if self.nth(1) == Name && self.nth(2) == LParen => return self.named_item(),
                _ => self.keyword_item(keyword),
            }
            self.after_no_item = false;
            return;
        }
        match self.kind() {
            Name => self.named_item(),
            RBrace => self.stray_brace(),
            _ => self.no_item(),
        }
    }

    /// An item that begins with this keyword.
    pub(super) fn keyword_item(&mut self, keyword: SyntaxKind) {
        match keyword {
            ImportKw => self.import(),
            ConstKw => self.constant(),
            TypeKw => self.alias(),
            EnumKw => self.enumeration(),
            StructKw => self.structure(),
            ProtocolKw => self.protocol(),
            MetadataKw => self.metadata(),
            DropReasonKw => self.reasons(),
            ModuleKw => self.module(),
            ProgramKw => self.program(),
            other => unreachable!("{other:?} begins no item"),
        }
    }

    fn no_item(&mut self) {
        let title = format!("expected an item, found {}", self.found());
        let error = Diagnostic::new("expected-item", self.here(), title).label("no item begins so").hint(ITEMS);
        self.not_an_item(error);
    }

    /// Gives the error, unless it follows another of its kind, and skips what should be an item.
    pub(super) fn not_an_item(&mut self, error: Diagnostic) {
        if self.after_no_item {
            self.resume_here();
        }
        self.error(error);
        self.skip_item();
        self.after_no_item = true;
    }

    fn stray_brace(&mut self) {
        // Items of a module whose head was wrong or missing: this brace ends it.
        if self.outside_module || self.after_no_item {
            self.resume_here();
        }
        self.outside_module = false;
        let error = Diagnostic::new("unmatched-brace", self.here(), "this `}` closes nothing");
        self.error(error);
        self.skip_one();
    }

    /// An item of a module outside of any module: reported once, then parsed as what it is.
    fn stray_module_item(&mut self) {
        if !self.outside_module {
            let title = format!("{} can only stand in a module", self.found());
            let error = Diagnostic::new("outside-module", self.here(), title)
                .hint("put it into `module NAME { … }`; is there a `}` too many before it?");
            self.error(error);
        }
        self.outside_module = true;
        self.start(Error);
        self.module_item();
        self.finish();
    }

    /// A function or an out-of-body definition, or nothing of that kind.
    pub(super) fn named_item(&mut self) {
        let star = usize::from(self.nth(1) == Star);
        let is_wire = self.nth(1) == Arrow || self.nth(1) == Dot && matches!(self.nth(3), Arrow | Semicolon);
        if is_wire {
            let error = Diagnostic::new("expected-item", self.here(), "a wire can only stand in `program { … }`");
            return self.not_an_item(error);
        }
        if self.nth(1) == Dot || self.nth(1 + star) == Name && self.nth(2 + star) == Dot {
            self.after_no_item = false;
            return self.out_of_body();
        }
        if self.nth(1 + star) == Name && self.nth(2 + star) == LParen {
            self.after_no_item = false;
            return self.function();
        }
        if self.nth(1 + star) == Name && matches!(self.nth(2 + star), Eq | Semicolon) {
            let error = Diagnostic::new("expected-item", self.here(), "a variable cannot stand outside of a function")
                .hint("`const TYPE NAME = VALUE;` declares a constant; state is kept in the tables of a module");
            return self.not_an_item(error);
        }
        self.no_item();
    }

    /// The `;` that may follow a `}`.
    pub(super) fn optional_semicolon(&mut self) {
        self.eat(Semicolon);
    }

    /// `type`
    pub(super) fn type_ref(&mut self) -> bool {
        let found = self.at(Name);
        if found {
            self.start(TypeRef);
            self.bump();
            self.finish();
        } else {
            self.expected("expected-type", "the name of a type");
        }
        found
    }

    /// `'[' expr ']'`, where it is there.
    pub(super) fn array_length(&mut self) {
        if !self.at(LBracket) {
            return;
        }
        self.start(ArrayLength);
        self.bump();
        self.expr();
        self.expect(RBracket, "after the number of elements");
        self.finish();
    }

    /// `NAME (',' NAME)*`
    pub(super) fn name_list(&mut self, what: &str) {
        while self.name(what) && self.eat(Comma) {}
    }

    fn import(&mut self) {
        self.start(Import);
        self.bump_as(ImportKw);
        if !self.eat(String) {
            self.expected("expected-token", "the file's path in double quotes");
        }
        self.semicolon("after this import");
        self.finish();
    }

    pub(super) fn constant(&mut self) {
        self.start(Const);
        self.bump_as(ConstKw);
        self.type_ref();
        if self.name("the name of the constant") && self.expect(Eq, "and a value after the constant's name") {
            self.expr();
        }
        self.semicolon("after this constant");
        self.finish();
    }

    fn alias(&mut self) {
        self.start(Alias);
        self.bump_as(TypeKw);
        if self.name("the name of the new type") && self.expect(Eq, "and a type after the new type's name") {
            self.type_ref();
        }
        self.semicolon("after this type");
        self.finish();
    }

    fn enumeration(&mut self) {
        self.start(Enum);
        self.bump_as(EnumKw);
        self.name("the name of the enumeration");
        if self.eat(Colon) {
            self.type_ref();
        }
        self.braced("enumeration", |p| {
            p.start(Enumerator);
            if p.name("the name of an enumerator") && p.eat(Eq) {
                p.expr();
            }
            p.finish();
            if !p.eat(Comma) && !p.at(RBrace) {
                let error = p.missing("`,` or `}`", "after this enumerator");
                p.error(error);
                p.skip_while(|p| !matches!(p.kind(), Comma | LBrace | RBrace) && !p.ahead(0).new_line);
                p.eat(Comma);
            }
        });
        self.finish();
    }

    fn structure(&mut self) {
        self.start(Struct);
        self.bump_as(StructKw);
        self.name("the name of the structure");
        self.braced("structure", Self::struct_field);
        self.finish();
    }

    fn metadata(&mut self) {
        self.start(Metadata);
        self.bump_as(MetadataKw);
        self.braced("metadata", Self::struct_field);
        self.finish();
    }

    fn struct_field(&mut self) {
        self.start(StructField);
        if self.field_name() && self.expect(Colon, "and a type after the name of the field") && self.type_ref() {
            self.array_length();
        }
        self.semicolon("after this field");
        self.finish();
    }

    fn protocol(&mut self) {
        self.start(Protocol);
        self.bump_as(ProtocolKw);
        self.name("the name of the protocol");
        self.braced("protocol", |p| match p.nth(1) == LBrace {
            true if p.at_keyword(DemuxKw) => p.bytes_clause(Demux, DemuxKw, "after the size of the header"),
            true if p.at_keyword(LengthKw) => p.bytes_clause(Length, LengthKw, "after the length"),
            true if p.at_keyword(PseudoKw) => p.pseudo(),
            _ => p.field(),
        });
        self.finish();
    }

    /// `demux` or `length`: a number of bytes in braces.
    fn bytes_clause(&mut self, clause: SyntaxKind, keyword: SyntaxKind, after: &str) {
        self.start(clause);
        self.bump_as(keyword);
        let open = self.here();
        self.bump();
        self.expr();
        if !self.at(RBrace) {
            let error = self.missing("`}`", after);
            self.error(error);
            self.skip_while(|p| !matches!(p.kind(), RBrace | LBrace) && !p.ahead(0).new_line);
        }
        self.close_brace(Some(open), if clause == Demux { "`demux`" } else { "`length`" });
        self.optional_semicolon();
        self.finish();
    }

    fn field(&mut self) {
        self.start(Field);
        if self.field_name() && self.expect(Colon, "and a width or type after the name of the field") {
            self.in_field = true;
            self.expr();
            if self.eat(Eq) {
                self.expr();
            }
            self.in_field = false;
            match self.nth_keyword(0) {
                Some(CoversKw) => self.parts(Covers, CoversKw),
                Some(CountsKw) => self.parts(Counts, CountsKw),
                _ => {}
            }
        }
        self.semicolon("after this field");
        self.finish();
    }

    fn pseudo(&mut self) {
        self.start(Pseudo);
        self.bump_as(PseudoKw);
        self.covered_fields();
        self.optional_semicolon();
        self.finish();
    }

    /// What a checksum covers, or a length counts.
    fn parts(&mut self, node: SyntaxKind, keyword: SyntaxKind) {
        self.start(node);
        self.bump_as(keyword);
        self.covered_fields();
        self.finish();
    }

    fn covered_fields(&mut self) {
        if let Some(open) = self.open_brace("list of covered fields") {
            while self.field_name() && self.eat(Comma) {}
            if !self.at(RBrace) {
                let error = self.missing("`,` or `}`", "after the name of a covered field");
                self.error(error);
                self.skip_while(|p| !matches!(p.kind(), RBrace | LBrace | Semicolon));
            }
            self.close_brace(Some(open), "list of covered fields");
        }
    }

    fn reasons(&mut self) {
        self.start(Reasons);
        self.bump_as(DropReasonKw);
        self.name_list("the name of a drop reason");
        self.semicolon("after these drop reasons");
        self.finish();
    }

    pub(super) fn function(&mut self) {
        self.start(Function);
        self.type_ref();
        self.eat(Star);
        self.name("the name of the function");
        self.param_list();
        self.body("function");
        self.finish();
    }

    pub(super) fn out_of_body(&mut self) {
        self.start(OutOfBody);
        if self.nth(1) != Dot {
            self.type_ref();
            self.eat(Star);
        }
        self.start(Path);
        self.bump();
        self.bump();
        let mut right = self.name("the name of a PPF");
        self.finish();
        if self.eat(Dot) {
            right &= self.expect_keyword(PpfKw, "after the PPF's name");
        }
        if !right {
            self.skip_while(|p| !matches!(p.kind(), LParen | Semicolon | LBrace | RBrace) && !p.ahead(0).new_line);
        }
        self.handle();
        self.body("PPF");
        self.finish();
    }

    /// `'(' (param (',' param)*)? ')'`
    pub(super) fn param_list(&mut self) {
        self.start(ParamList);
        if !self.expect(LParen, "and the parameters after the name") {
            return self.finish();
        }
        if !self.at(RParen) {
            loop {
                self.param();
                if !self.eat(Comma) {
                    break;
                }
            }
        }
        if !self.eat(RParen) {
            let error = self.missing("`,` or `)`", "after this parameter");
            self.error(error);
            self.skip_to_closing(RParen, false);
        }
        self.finish();
    }

    /// The parameter list of a PPF: exactly one packet handle.
    pub(super) fn handle(&mut self) {
        self.start(ParamList);
        if self.expect(LParen, "and the packet handle after the PPF's name") {
            self.param();
            if self.at(Comma) {
                let error = Diagnostic::new("ppf-parameter", self.here(), "a PPF has one parameter, the packet handle")
                    .hint("what goes with a packet from PPF to PPF is declared in `metadata { … }`");
                self.error(error);
                self.skip_to_closing(RParen, false);
            } else {
                self.close(RParen, "after the packet handle");
            }
        } else if self.nth_is_param_start(0) {
            self.param();
            self.eat(RParen);
        }
        self.finish();
    }

    fn param(&mut self) {
        self.start(Param);
        if self.type_ref() {
            self.eat(Star);
            self.name("the name of a parameter");
        }
        self.finish();
    }

    fn program(&mut self) {
        self.start(Program);
        self.bump_as(ProgramKw);
        self.braced("program", |p| {
            let injects = p.at_keyword(ControllerKw) && p.nth(2) == Arrow;
            if p.at(Name) && matches!(p.nth(1), Name | LParen) && !injects {
                return p.instances();
            }
            p.start(Wire);
            if p.wire_end() && p.expect(Arrow, "after the end that packets come from") && p.wire_end() {
                p.batch();
            }
            let hint = p.at(Arrow).then_some("write one wire for each pair of ends");
            p.semicolon_or("after this wire", hint);
            p.finish();
        });
        self.finish();
    }

    /// `NAME ('(' expr (',' expr)* ')')? NAME (',' NAME)* ';'`
    fn instances(&mut self) {
        self.start(Instances);
        self.bump();
        if self.at(LParen) {
            self.arg_list();
        }
        self.name_list("the name of an instance");
        self.semicolon("after these instances");
        self.finish();
    }

    /// `('batch' expr 'within' expr)?`
    fn batch(&mut self) {
        if !self.at_keyword(BatchKw) {
            return;
        }
        self.start(BatchClause);
        self.bump_as(BatchKw);
        self.expr();
        if self.expect_keyword(WithinKw, "and how long a packet waits at most for others") {
            self.expr();
        }
        self.finish();
    }

    fn wire_end(&mut self) -> bool {
        if !self.at(Name) {
            self.expected("expected-name", "an end of a wire: `MODULE.PORT`, `rx`, `tx`, `host` or `controller NAME`");
            return false;
        }
        self.start(WireEnd);
        if self.at_keyword(ControllerKw) && self.nth(1) == Name {
            self.bump_as(ControllerKw);
            self.bump();
            self.finish();
            return true;
        }
        self.bump();
        if self.eat(Dot) {
            self.name("the name of a port");
        }
        self.finish();
        true
    }

    /// `'{' … '}' ';'?` with as many elements as there are. `element` may take nothing, after an error.
    pub(super) fn braced(&mut self, what: &str, element: impl Fn(&mut Self)) {
        let open = self.open_brace(what);
        // Without `{`, what stands there is read as if it were in braces, unless it looks like something else.
        let plausible = self.nth_is_field_name(0) && matches!(self.nth(1), Colon | Eq | Comma | RBrace | Arrow | Dot);
        if open.is_none() && (!plausible || self.at_next_item()) {
            return self.skip_item_rest();
        }
        while !matches!(self.kind(), RBrace | Eof) && !self.at_outer_item(false) {
            let before = self.pos;
            element(self);
            if self.pos == before {
                // A whole block, so that its inside gives no errors.
                if self.at(LBrace) { self.skip_nested_stmt() } else { self.skip_one() }
            }
        }
        self.close_brace(open, what);
        self.optional_semicolon();
    }
}
