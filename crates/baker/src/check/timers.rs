//! Timers: what they go over, how often, and their bodies.

use super::access::Cell;
use super::code::CodeChecker;
use super::expr::Typed;
use super::hir::{self, Expr, ExprKind, Type};
use super::names::{Checker, Symbol};
use super::types::unsigned;
use crate::diag::Diagnostic;
use crate::ir::{TableId, TableKind};
use crate::source::{FileId, Span};
use crate::syntax::ast;

impl Checker<'_> {
    pub(super) fn timer_body(&mut self, index: usize) {
        let def = &self.timers[index];
        let (file, module, item, span) = (def.file, def.module, def.ast.clone(), def.span);
        let name = self.full_name(module, &def.name.clone());
        let errors = self.errors.len();
        let period = match item.period() {
            _ if item.is_at_deadline() => Some(0),
            Some(period) => {
                let error = Diagnostic::new("bad-period", self.span(file, &period), "a timer can't run this often");
                self.duration(file, module, &period, error.hint("such as `every 30s`"))
            }
            None => None,
        };
        let table = match item.table() {
            None => None,
            Some(over) => match self.meant(file, Some(module), &over) {
                Some(Symbol::Table(table)) => Some((table, over.span(file))),
                found => return self.unknown(file, &over, "table", found),
            },
        };
        if let Some((table, over)) = table
            && !self.hir.tables[table.0 as usize].kind_row().timers
        {
            return self.error(
                Diagnostic::new("wrong-table", over, "a timer goes over an array, hash or set table")
                    .label("an lpm table is the control plane's"),
            );
        }
        let params: Vec<ast::Param> = item.params().collect();
        let table = table.map(|(table, _)| table);
        let Some(types) = self.timer_params(file, index, table, &params) else { return };
        let (Some(period), Some(block)) = (period, item.body()) else { return };
        let mut code = CodeChecker::new(self, file, Some(module));
        for (param, ty) in params.iter().zip(&types) {
            let Some(name) = param.name() else { return };
            code.declare(name.text(), *ty, name.span(file));
        }
        let code = code.body(&block);
        // How many calls fit between two batches is known when the whole program is.
        let params = params.len() as u32;
        let timer = hir::Timer { name, table, period, slice: 1, params, code, span };
        if self.errors.len() == errors {
            let mut found = Vec::new();
            super::flow::check_timer(&self.hir, &timer, &mut found);
            self.errors.extend(found);
        }
        self.hir.timers.push(timer);
    }

    /// Finds the tables whose entries have deadlines, before any code is checked that sets them.
    pub(super) fn deadline_tables(&mut self) {
        for index in 0..self.timers.len() {
            let def = &self.timers[index];
            let (file, module, item, span) = (def.file, def.module, def.ast.clone(), def.span);
            if !item.is_at_deadline() {
                continue;
            }
            let Some(over) = item.table() else {
                self.error(
                    Diagnostic::new(
                        "no-deadline",
                        span,
                        "a timer at deadlines goes over a table, whose entries have them",
                    )
                    .label("goes over none")
                    .hint("write `over TABLE at deadline`"),
                );
                continue;
            };
            // What else it may be is reported where its body is checked.
            let Some(Symbol::Table(table)) = self.resolve(Some(module), over.text()) else { continue };
            // Each instance of the timer's module has a timer of its own, over a table of its own or not.
            let instances = self.modules[module.0].instances.clone();
            let of = |instance: usize| TableId(self.number_in(instance, table.0, |own| &own.tables));
            let tables: Vec<TableId> = match instances.is_empty() {
                true => vec![table],
                false => instances.into_iter().map(of).collect(),
            };
            for (n, table) in tables.iter().enumerate() {
                let other = self.deadlines.iter().find(|(other, _)| other == table).map(|(_, first)| *first);
                if let Some(first) = other.or(tables[..n].contains(table).then_some(index)) {
                    let first = self.timers[first].span;
                    self.error(
                        Diagnostic::new("second-deadline", over.span(file), "an entry has one deadline")
                            .label("another timer runs at the deadlines of this table")
                            .also(first, "this one"),
                    );
                    break;
                }
            }
            self.deadlines.extend(tables.into_iter().map(|table| (table, index)));
            // In the module's own code.
            if !self.deadlines.iter().any(|(other, _)| *other == table) {
                self.deadlines.push((table, index));
            }
        }
    }

    /// The types of a timer's parameters, where they suit what it goes over: the key, and a pointer to the entry.
    fn timer_params(
        &mut self,
        file: FileId,
        index: usize,
        table: Option<TableId>,
        params: &[ast::Param],
    ) -> Option<Vec<Type>> {
        let def = &self.timers[index];
        let (scope, span) = (Some(def.module), def.span);
        let wanted = match table.map(|table| &self.hir.tables[table.0 as usize]) {
            None => Vec::new(),
            Some(table) => {
                let key = match table.kind {
                    TableKind::Array => unsigned(32),
                    _ => self.pointee(table.key),
                };
                let entry = (!table.is_set).then_some(Type::Pointer(table.value));
                [key].into_iter().chain(entry).collect()
            }
        };
        let mut right = params.len() == wanted.len();
        let mut failed = false;
        for (param, wanted) in params.iter().zip(&wanted) {
            let ty = param.ty()?;
            let found = self.type_of(file, scope, &ty, param.star().is_some());
            failed |= found == Type::Error;
            right &= match (found, *wanted) {
                (Type::Pointer(a), Type::Pointer(b)) => self.same_layout(a, b),
                (found, wanted) => found == wanted,
            };
        }
        if right || failed {
            return (!failed).then_some(wanted);
        }
        let at = match (params.first(), params.last()) {
            (Some(first), Some(last)) => Span { end: self.span(file, last).end, ..self.span(file, first) },
            _ => span,
        };
        let takes: Vec<String> = wanted.iter().map(|ty| self.describe(*ty)).collect();
        let error = match &takes[..] {
            [] => Diagnostic::new("timer-parameters", at, "a timer that goes over no table takes nothing")
                .label("there is nothing to take")
                .hint("write `()`, or `over TABLE` behind the parameters"),
            [key] => Diagnostic::new("timer-parameters", at, format!("a timer over this set takes its key, `{key}`"))
                .label("takes something else"),
            all => {
                let title = format!("a timer over this table takes `{}` and `{}`", all[0], all[1]);
                Diagnostic::new("timer-parameters", at, title)
                    .label("takes something else")
                    .hint("the key, and a pointer to the entry")
            }
        };
        self.error(error);
        None
    }
}

impl CodeChecker<'_, '_> {
    /// `timer_set(table[key], time)`: true where the entry is there.
    pub(super) fn timer_set(&mut self, args: &[ast::Expr], span: Span) -> Typed {
        let entry = self.entry_with_deadline(&args[0]);
        let at = self.expr(&args[1], None);
        let at = self.coerce(at, unsigned(64));
        match entry.zip(at) {
            Some(((table, key), at)) => {
                Typed::new(ExprKind::SetDeadline(table, vec![key], Box::new(at)), Type::Bool, span)
            }
            None => Typed::error(span),
        }
    }

    /// `timer_cancel(table[key])`.
    pub(super) fn timer_cancel(&mut self, args: &[ast::Expr], span: Span) -> Typed {
        let Some((table, key)) = self.entry_with_deadline(&args[0]) else { return Typed::error(span) };
        let never = Expr { kind: ExprKind::Const(0), ty: unsigned(64), span };
        Typed::new(ExprKind::SetDeadline(table, vec![key], Box::new(never)), Type::Bool, span)
    }

    /// `table[key]`
    fn entry_with_deadline(&mut self, entry: &ast::Expr) -> Option<(TableId, Expr)> {
        let Cell { base, index, span } = self.cell(entry)?;
        let (Some(Symbol::Table(table)), Some(key)) = (self.named(&base), index) else {
            let error = Diagnostic::new("not-an-entry", span, "the deadline of a table's entry is set")
                .label("not an entry by its key")
                .hint("such as `timer_set(flows[key], now_ns() + 20ms)`");
            self.error(self.with_hidden(error, &base));
            return None;
        };
        if !self.checker.deadlines.iter().any(|(other, _)| *other == table) {
            let declared = self.checker.hir.tables[table.0 as usize].span;
            let mut error = Diagnostic::new("no-deadline", span, "nothing runs at deadlines of this table's entries")
                .label("its entries have no deadline")
                .hint("declare what does: `timer NAME(…) over TABLE at deadline { … }`");
            if let Some(declared) = declared {
                error = error.also(declared, "declared here");
            }
            self.error(error);
            return None;
        }
        Some((table, self.table_key(table, &key)?))
    }
}
