//! Meters: token buckets, kept as tables.

use super::access::Cell;
use super::code::CodeChecker;
use super::expr::Typed;
use super::hir::ExprKind;
use super::names::{Checker, ModuleId, Symbol};
use super::types::unsigned;
use crate::diag::Diagnostic;
use crate::ir::meter::MeterRate;
use crate::ir::{DeclaredKind, Layout, LayoutField, LayoutId, Table, TableId, TableKind};
use crate::source::{FileId, Span};
use crate::syntax::ast;

/// Meters of one declaration at most.
const MAX_METERS: u32 = 1 << 20;

/// Tokens per second, and tokens at once, at most.
const MAX_TOKENS: u64 = 1_000_000_000_000;

impl Checker<'_> {
    pub(super) fn meter(&mut self, file: FileId, module: ModuleId, item: &ast::Meter) {
        let Some(name) = item.name() else { return };
        let size = match item.size() {
            Some(size) => self.size(file, Some(module), &size, "the size of a meter", (1, MAX_METERS)).unwrap_or(1),
            None => 1,
        };
        let rate = self.meter_rate(file, module, (item.rate(), item.burst()));
        let key = self.layout("u32", unsigned(32));
        self.add_meters(file, module, &name, (TableKind::Array, key, size), rate, None);
    }

    /// A table whose values are meters.
    pub(super) fn meter_table(
        &mut self,
        file: FileId,
        module: ModuleId,
        item: &ast::Table,
        name: &ast::Name,
        kind: TableKind,
    ) {
        let size = item
            .size()
            .and_then(|size| self.size(file, Some(module), &size, "the size of a table of meters", (1, MAX_METERS)));
        let key = match (kind, item.types().next()) {
            (TableKind::Hash | TableKind::Lpm, Some(key)) => self.entry_layout(file, module, &key),
            _ => None,
        };
        let key = key.unwrap_or_else(|| self.layout("u32", unsigned(32)));
        self.check_lpm_key(file, item, kind, key);
        if let (TableKind::Lpm, Some(rate)) = (kind, item.rate()) {
            let span = self.span(file, &rate);
            self.error(
                Diagnostic::new("bad-meter", span, "meters of an lpm table have the rates of their routes")
                    .label("packets can't add routes, so no meter begins with this one"),
            );
        }
        if let Some(into) = item.led_into() {
            let error = Diagnostic::new("bad-into", into.span(file), "meters are no keys of a table");
            self.error(error.label("the values are meters"));
        }
        let rate = self.meter_rate(file, module, (item.rate(), item.burst()));
        let row = if kind == TableKind::Hash { DeclaredKind::Hash } else { DeclaredKind::Meter }.row();
        let idle = self.idle(file, module, row, item);
        self.add_meters(file, module, name, (kind, key, size.unwrap_or(1)), rate, idle);
    }

    /// Tokens per second and at most, where they are written; else 0.
    fn meter_rate(
        &mut self,
        file: FileId,
        module: ModuleId,
        (rate, burst): (Option<ast::Expr>, Option<ast::Expr>),
    ) -> MeterRate {
        let mut tokens = |expr: Option<ast::Expr>, what: &str| {
            let expr = expr?;
            let value = self.evaluate_expr(file, Some(module), &expr)?;
            let tokens = value.bits().and_then(|n| u64::try_from(n).ok()).filter(|n| *n <= MAX_TOKENS);
            if tokens.is_none() {
                let span = self.span(file, &expr);
                self.error(
                    Diagnostic::new("bad-meter", span, format!("this is no {what} of a meter"))
                        .label(format!("must be from 0 to {MAX_TOKENS} tokens")),
                );
            }
            tokens
        };
        let rate = tokens(rate, "rate").unwrap_or(0);
        MeterRate { rate, burst: tokens(burst, "burst").unwrap_or(0) }
    }

    fn add_meters(
        &mut self,
        file: FileId,
        module: ModuleId,
        name: &ast::Name,
        (kind, key, capacity): (TableKind, LayoutId, u32),
        rate: MeterRate,
        idle: Option<u64>,
    ) {
        let value = self.meter_layout(idle.is_some());
        let id = TableId(self.hir.tables.len() as u32);
        self.hir.tables.push(Table {
            name: self.full_name(module, name.text()),
            kind,
            is_set: false,
            idle,
            meter: Some(rate),
            hold: None,
            group: None,
            locked: false,
            into: None,
            key,
            value,
            capacity,
            span: Some(name.span(file)),
        });
        self.bind(file, Some(module), name, Symbol::Meter(id));
    }

    /// The layout of all meters: rate, burst, and the time up to which tokens are taken. In front of that time in the
    /// order of fields, and behind it in memory, those that age have the time of the last look-up.
    fn meter_layout(&mut self, ages: bool) -> LayoutId {
        let field = |name: &str, offset| LayoutField {
            name: name.into(),
            type_name: "u64".into(),
            width: 64,
            signed: false,
            names: Vec::new(),
            offset,
        };
        let used = ages.then(|| field("last_used", 24));
        let shown = [field("rate", 0), field("burst", 8)];
        let fields = shown.into_iter().chain(used).chain([field("taken_up_to", 16)]).collect();
        self.intern(Layout { name: "meter".into(), fields, size: if ages { 32 } else { 24 }, align: 8 })
    }
}

impl CodeChecker<'_, '_> {
    /// `meter_take(meter, n)`, `meter_take(meter[i], n)` or `meter_take(table[key], n)`.
    pub(super) fn meter_take(&mut self, args: &[ast::Expr], span: Span) -> Typed {
        let Some(Cell { base, index, span: at }) = self.cell(&args[0]) else { return Typed::error(span) };
        let Some(Symbol::Meter(meter)) = self.named(&base) else {
            self.error(Diagnostic::new("not-a-meter", at, "a meter is needed here").label("not a meter"));
            return Typed::error(span);
        };
        let Table { capacity, kind, .. } = self.checker.hir.tables[meter.0 as usize];
        let index = match (kind, index) {
            (TableKind::Array, index) => self.cell_index("meter", capacity, index, at),
            (_, Some(key)) => self.table_key(meter, &key),
            (_, None) => {
                let error = Diagnostic::new("cell-index", at, "each key of this table has a meter");
                self.error(error.label("which one?").hint("write `meter_take(table[key], n)`"));
                None
            }
        };
        let amount = self.expr(&args[1], None);
        let amount = self.coerce(amount, unsigned(64));
        match index.zip(amount) {
            Some((index, amount)) => {
                let taken = ExprKind::Take(meter, Box::new(index), Box::new(amount));
                Typed::new(taken, super::hir::Type::Bool, span)
            }
            None => Typed::error(span),
        }
    }
}
