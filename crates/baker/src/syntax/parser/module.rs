//! Modules and what stands in them.

use super::{Parser, SyntaxKind};
use crate::diag::Diagnostic;

use SyntaxKind::*;

impl Parser<'_> {
    /// `module`
    pub(super) fn module(&mut self) {
        self.start(Module);
        self.bump_as(ModuleKw);
        self.name("the name of the module");
        if self.at(LParen) {
            self.module_params();
        }
        let open = self.open_brace("module");
        // As in `braced`, but the items of a module begin as other items do.
        if open.is_some() || self.nth_keyword(0).is_some() && !self.at_outer_item(true) {
            while !matches!(self.kind(), RBrace | Eof) && !self.at_outer_item(true) {
                let before = self.pos;
                self.module_item();
                if self.pos == before {
                    self.skip_one();
                }
            }
            self.close_brace(open, "module");
            self.optional_semicolon();
        } else {
            self.skip_item_rest();
        }
        self.finish();
    }

    /// `'(' module_param (',' module_param)* ')'`
    fn module_params(&mut self) {
        self.start(ModuleParams);
        self.bump();
        loop {
            self.start(ModuleParam);
            let found = match self.nth_keyword(0) {
                Some(keyword @ (ProtocolKw | TypeKw | TableKw)) => {
                    self.bump_as(keyword);
                    true
                }
                Some(ConstKw) => {
                    self.bump_as(ConstKw);
                    self.type_ref()
                }
                _ => {
                    let title = format!("expected a parameter of the module, found {}", self.found());
                    let error = Diagnostic::new("expected-parameter", self.here(), title)
                        .hint("write `protocol NAME`, `type NAME`, `const TYPE NAME` or `table NAME`");
                    self.error(error);
                    false
                }
            };
            if found {
                self.name("the name of a parameter");
            }
            self.finish();
            if !found || !self.eat(Comma) {
                break;
            }
        }
        self.close(RParen, "after this parameter");
        self.finish();
    }

    /// `module_item`
    pub(super) fn module_item(&mut self) {
        let before = std::mem::take(&mut self.after_no_item);
        match self.nth_keyword(0).filter(|_| self.nth(1) != Dot) {
            Some(InKw | OutKw | ChannelKw) => self.port(),
            Some(ArrayKw | HashKw | LpmKw | SetKw | HoldKw | GroupKw) => self.table(),
            Some(CounterKw) => self.counter(),
            Some(MeterKw) => self.meter(),
            Some(QueueKw) => self.queue(),
            Some(PpfKw) => self.ppf(),
            None if self.at(At) => self.ppf(),
            Some(DropReasonKw) if self.nth(1) == Name && self.nth(2) == LParen => self.function(),
            Some(ExternKw) => self.extern_function(),
            Some(TimerKw) => self.timer(),
            Some(keyword @ (ConstKw | TypeKw | EnumKw | StructKw | DropReasonKw)) => self.keyword_item(keyword),
            Some(keyword @ (ImportKw | ProtocolKw | MetadataKw | ModuleKw | ProgramKw)) => {
                let title = format!("{} cannot stand in a module", self.found());
                let error = Diagnostic::new("inside-module", self.here(), title)
                    .hint("put it at the top level of the file; is the `}` of a module missing before it?");
                self.error(error);
                // Parsed as what it is, so that its inside gives no errors; a module is skipped, or hostile text could
                // nest modules without end.
                if keyword == ModuleKw { self.skip_item() } else { self.keyword_item(keyword) }
            }
            _ => {
                self.after_no_item = before;
                self.named_module_item();
            }
        }
    }

    fn named_module_item(&mut self) {
        let star = usize::from(self.nth(1) == Star);
        let before = std::mem::take(&mut self.after_no_item);
        if self.at(Name) && self.nth(1 + star) == Name && self.nth(2 + star) == LParen {
            return self.function();
        }
        if self.at(Name) && (self.nth(1) == Dot || self.nth(1 + star) == Name && self.nth(2 + star) == Dot) {
            let error = Diagnostic::new("inside-module", self.here(), "a dotted name is defined outside of modules")
                .hint("in its module a PPF is written `ppf NAME(…) from PORT { … }`");
            self.error(error);
            return self.out_of_body();
        }
        self.after_no_item = before;
        let title = format!("expected an item of a module, found {}", self.found());
        let error = Diagnostic::new("expected-item", self.here(), title).label("no item of a module begins so").hint(
            "`in`, `out`, `channel`, `array`, `hash`, `lpm`, `set`, `hold`, `group`, `counter`, `meter`, `queue`, `ppf`, `timer`, `extern`, \
             `const`, `type`, `enum`, `struct`, `drop_reason` or a function can stand here",
        );
        self.not_an_item(error);
    }

    fn port(&mut self) {
        self.start(Port);
        self.bump_as(self.nth_keyword(0).unwrap_or(InKw));
        if self.name("the name of a protocol") {
            self.name_list("the name of a port");
        }
        self.semicolon("after these ports");
        self.finish();
    }

    fn table(&mut self) {
        let is_group = self.nth_keyword(0) == Some(GroupKw);
        self.start(Table);
        self.bump_as(self.nth_keyword(0).unwrap_or(ArrayKw));
        if self.expect(Lt, "and the table's types") {
            self.type_ref();
            if self.eat(Comma) {
                self.type_ref();
            }
            self.expect(Gt, "after the table's types");
        }
        if self.name("the name of the table")
            && !(is_group && self.at_keyword(OfKw))
            && self.expect(LBracket, "and the number of entries after the table's name")
        {
            self.expr();
            self.close(RBracket, "after the number of entries");
        }
        self.rate_and_burst();
        if self.at_keyword(OfKw) {
            self.start(OfClause);
            self.bump_as(OfKw);
            self.expr();
            self.finish();
        }
        if self.at_keyword(IdleKw) {
            self.start(Idle);
            self.bump_as(IdleKw);
            self.expr();
            self.finish();
        }
        if self.at_keyword(IntoKw) {
            self.start(IntoClause);
            self.bump_as(IntoKw);
            self.name("the name of a table");
            self.finish();
        }
        self.semicolon("after this table");
        self.finish();
    }

    fn counter(&mut self) {
        self.start(Counter);
        self.bump_as(CounterKw);
        if self.name("the name of the counter") && self.eat(LBracket) {
            self.expr();
            self.close(RBracket, "after the number of counters");
        }
        self.semicolon("after this counter");
        self.finish();
    }

    fn meter(&mut self) {
        self.start(Meter);
        self.bump_as(MeterKw);
        if self.name("the name of the meter") && self.eat(LBracket) {
            self.expr();
            self.close(RBracket, "after the number of meters");
        }
        self.rate_and_burst();
        self.semicolon("after this meter");
        self.finish();
    }

    /// `('rate' expr 'burst' expr)?`
    fn rate_and_burst(&mut self) {
        if self.at_keyword(RateKw) {
            self.start(Rate);
            self.bump_as(RateKw);
            self.expr();
            self.finish();
            self.start(Burst);
            if self.expect_keyword(BurstKw, "and its tokens after the rate") {
                self.expr();
            }
            self.finish();
        }
    }

    fn queue(&mut self) {
        self.start(Queue);
        self.bump_as(QueueKw);
        if self.name("the name of the queue") && self.eat(LBracket) {
            self.expr();
            self.close(RBracket, "after the number of queues");
        }
        self.start(OfClause);
        if self.expect_keyword(OfKw, "and how many packets it holds at most") {
            self.expr();
        }
        self.finish();
        if self.at_keyword(DropKw) {
            self.start(DropClause);
            self.bump_as(DropKw);
            if self.name("`newest`, `oldest` or `lowest`") {
                // `lowest` and a name of the metadata.
                self.eat(Name);
            }
            self.finish();
        }
        self.semicolon("after this queue");
        self.finish();
    }

    fn ppf(&mut self) {
        self.start(Ppf);
        while self.at(At) {
            self.start(Pin);
            self.bump();
            self.name("`kernel` or `worker`");
            self.finish();
        }
        if !self.expect_keyword(PpfKw, "and the PPF that the pin is for") {
            self.finish();
            return self.skip_item_rest();
        }
        self.name("the name of the PPF");
        self.handle();
        self.start(FromClause);
        if self.expect_keyword(FromKw, "and the port whose packets this PPF processes") {
            self.name("the name of a port or channel");
        } else {
            // A misspelt `from` and what follows it.
            self.skip_while(|p| p.at(Name) && !p.ahead(0).new_line);
        }
        self.finish();
        // The body stands elsewhere.
        if !self.eat(Semicolon) {
            self.body("PPF");
        }
        self.finish();
    }

    fn extern_function(&mut self) {
        self.start(Extern);
        self.bump_as(ExternKw);
        self.type_ref();
        if self.name("the name of the function") {
            self.param_list();
        }
        self.semicolon("after this function, whose body a controller has");
        self.finish();
    }

    fn timer(&mut self) {
        self.start(Timer);
        self.bump_as(TimerKw);
        if self.name("the name of the timer") {
            self.param_list();
        }
        if self.at_keyword(OverKw) {
            self.start(OverClause);
            self.bump_as(OverKw);
            self.name("the name of a table");
            self.finish();
        }
        if self.at_keyword(AtKw) {
            self.start(DeadlineClause);
            self.bump_as(AtKw);
            self.expect_keyword(DeadlineKw, "the time that was set for an entry");
            self.finish();
            self.body("timer");
            return self.finish();
        }
        self.start(EveryClause);
        if self.expect_keyword(EveryKw, "and how often the timer runs") {
            self.before_body = true;
            self.expr();
            self.before_body = false;
        }
        self.finish();
        self.body("timer");
        self.finish();
    }
}
