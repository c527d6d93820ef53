//! Timers: what they go over, how often, and their bodies.

use super::code::CodeChecker;
use super::hir::{self, Type};
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
        let period = item.period().and_then(|period| {
            let error = Diagnostic::new("bad-period", self.span(file, &period), "a timer can't run this often");
            self.duration(file, module, &period, error.hint("such as `every 30s`"))
        });
        let table = match item.table() {
            None => None,
            Some(over) => match self.resolve(Some(module), over.text()) {
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
