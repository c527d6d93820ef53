//! Meters: token buckets, kept as tables.

use super::access::Cell;
use super::code::CodeChecker;
use super::expr::Typed;
use super::hir::ExprKind;
use super::names::{Checker, ModuleId, Symbol};
use super::types::unsigned;
use crate::diag::Diagnostic;
use crate::ir::meter::MeterRate;
use crate::ir::{Layout, LayoutField, LayoutId, Table, TableId, TableKind};
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
        let rate = tokens(item.rate(), "rate").unwrap_or(0);
        let burst = tokens(item.burst(), "burst").unwrap_or(0);
        let key = self.layout("u32", unsigned(32));
        let value = self.meter_layout();
        let id = TableId(self.hir.tables.len() as u32);
        self.hir.tables.push(Table {
            name: self.full_name(module, name.text()),
            kind: TableKind::Array,
            is_set: false,
            idle: None,
            meter: Some(MeterRate { rate, burst }),
            hold: None,
            group: None,
            locked: false,
            into: None,
            key,
            value,
            capacity: size,
            span: Some(name.span(file)),
        });
        self.bind(file, Some(module), &name, Symbol::Meter(id));
    }

    /// The layout of all meters: rate, burst, and the time up to which tokens are taken.
    fn meter_layout(&mut self) -> LayoutId {
        let field = |(index, name): (u32, &str)| LayoutField {
            name: name.into(),
            type_name: "u64".into(),
            width: 64,
            signed: false,
            names: Vec::new(),
            offset: index * 8,
        };
        let fields = (0..).zip(["rate", "burst", "taken_up_to"]).map(field).collect();
        self.intern(Layout { name: "meter".into(), fields, size: 24, align: 8 })
    }
}

impl CodeChecker<'_, '_> {
    /// `meter_take(meter, n)` or `meter_take(meter[i], n)`.
    pub(super) fn meter_take(&mut self, args: &[ast::Expr], span: Span) -> Typed {
        let Some(Cell { base, index, span: at }) = self.cell(&args[0]) else { return Typed::error(span) };
        let Some(Symbol::Meter(meter)) = self.named(&base) else {
            self.error(Diagnostic::new("not-a-meter", at, "a meter is needed here").label("not a meter"));
            return Typed::error(span);
        };
        let size = self.checker.hir.tables[meter.0 as usize].capacity;
        let index = self.cell_index("meter", size, index, at);
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
