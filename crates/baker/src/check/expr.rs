//! Expressions.

use super::code::CodeChecker;
use super::consts::Constant;
use super::hints::{import_of, nearest};
use super::hir::{Comparison, Expr, ExprKind, Type};
use super::names::Symbol;
use super::types::unsigned;
use crate::diag::Diagnostic;
use crate::number::Number;
use crate::source::Span;
use crate::syntax::ast::{self, LiteralValue, UnaryOp};

/// An expression with what conversions need to know.
#[derive(Clone, Debug)]
pub(super) struct Typed {
    pub expr: Expr,
    /// A number that takes its type from where it is used; `expr` is then a placeholder.
    pub lit: Option<Number>,
    /// The number came from `~`: it fits any width, upper bits cut off.
    pub complement: bool,
    /// Bits of the widest operand: arithmetic is done in at least 32 bits, yet its result may be stored in this many.
    pub natural: u32,
}

impl Typed {
    pub(super) fn new(kind: ExprKind, ty: Type, span: Span) -> Typed {
        let natural = match ty {
            Type::Int { width, .. } => width,
            _ => 1,
        };
        Typed { expr: Expr { kind, ty, span }, lit: None, complement: false, natural }
    }

    pub(super) fn number(value: Number, span: Span) -> Typed {
        let ty = Type::Int { width: 128, signed: true };
        Typed { lit: Some(value), ..Typed::new(ExprKind::Const(0), ty, span) }
    }

    pub(super) fn error(span: Span) -> Typed {
        Typed::new(ExprKind::Const(0), Type::Error, span)
    }

    pub(super) fn is_error(&self) -> bool {
        self.expr.ty == Type::Error
    }
}

impl CodeChecker<'_, '_> {
    /// Checks an expression. `wanted` says what protocol a packet made here should have, where that is known.
    pub(super) fn expr(&mut self, expr: &ast::Expr, wanted: Option<Type>) -> Typed {
        self.checker.depth += 1;
        let typed = self.expr_inside(expr, wanted);
        self.looked_at(expr, typed.expr.ty);
        self.checker.depth -= 1;
        typed
    }

    fn expr_inside(&mut self, expr: &ast::Expr, wanted: Option<Type>) -> Typed {
        let span = self.span(expr);
        match expr {
            ast::Expr::Literal(literal) => match literal.value() {
                Ok(LiteralValue::Int(value)) => Typed::number(Number::from(value), span),
                Ok(LiteralValue::Mac(value)) => Typed::new(ExprKind::Const(value as u128), unsigned(48), span),
                Ok(LiteralValue::Ipv4(value)) => Typed::new(ExprKind::Const(value as u128), unsigned(32), span),
                Ok(LiteralValue::Ipv6(value)) => Typed::new(ExprKind::Const(value), unsigned(128), span),
                Ok(LiteralValue::Bool(value)) => Typed::new(ExprKind::Const(value as u128), Type::Bool, span),
                Ok(LiteralValue::Null) => Typed::new(ExprKind::Const(0), Type::Null, span),
                Err(_) => Typed::error(span),
            },
            ast::Expr::Name(name) => match name.name() {
                Some(name) => self.name(&name),
                None => Typed::error(span),
            },
            ast::Expr::Paren(paren) => match paren.inner() {
                Some(inner) => self.expr(&inner, wanted),
                None => Typed::error(span),
            },
            ast::Expr::Unary(unary) => self.unary(unary, span),
            ast::Expr::Binary(binary) => self.binary_expr(binary, span),
            ast::Expr::Ternary(ternary) => self.ternary(ternary, span),
            ast::Expr::Cast(cast) => self.cast_expr(cast, span),
            ast::Expr::Member(member) => self.member(member, span),
            ast::Expr::Index(index) => self.index(index, span),
            ast::Expr::Call(call) => self.call(call, wanted, span),
            ast::Expr::StructValue(value) => self.struct_value(value, span),
        }
    }

    fn name(&mut self, name: &ast::Name) -> Typed {
        let span = name.span(self.file);
        let text = name.text();
        if let Some(protocol) = self.header {
            let fields = &self.checker.hir.protocols[protocol.0 as usize].fields;
            if let Some(index) = fields.iter().position(|f| f.name == text) {
                let kind = ExprKind::Field(super::hir::LocalId(0), index as u32);
                let width = fields[index].bits.width;
                self.checker.note_header_field(span, protocol, text);
                return Typed::new(kind, unsigned(width), span);
            }
        }
        if let Some(local) = self.local(text) {
            self.note_local(span, local);
            return match self.constants.get(&local) {
                Some(Constant::Typed(ty, bits)) => Typed::new(ExprKind::Const(*bits), *ty, span),
                Some(_) => Typed::error(span),
                None => Typed::new(ExprKind::Local(local), self.local_type(local), span),
            };
        }
        match self.checker.meant(self.file, self.scope, name) {
            Some(Symbol::Const(index)) => match self.checker.constant(index) {
                Some(Constant::Untyped(value)) => Typed::number(value, span),
                Some(Constant::Typed(ty, bits)) => Typed::new(ExprKind::Const(bits), ty, span),
                _ => Typed::error(span),
            },
            Some(Symbol::Reason(reason)) if !self.constant => {
                let value = self.checker.hir.reasons[reason.0 as usize].value();
                Typed::new(ExprKind::Const(value.into()), Type::Reason, span)
            }
            Some(Symbol::Reported) => {
                self.checker.repeated += 1;
                Typed::error(span)
            }
            Some(symbol) => {
                let hint = match symbol {
                    Symbol::Table(_) => "look a key up in it: `table[key]`",
                    Symbol::Hold(_) => "packets are got by `hold_get(table, number)`",
                    Symbol::Group(_) => "a packet behind it has a member: `group_member(viewers, pkt)`",
                    Symbol::Queue(_) => "put packets into it: `channel_put_at(output, line[i], pkt, time)`",
                    Symbol::Meter(_) => "take tokens from it: `meter_take(meter, 1)`",
                    Symbol::Counter(_) => "counters are only added to: `counter_add(counter, 1)`",
                    Symbol::Port(_) => "packets are handed to a channel by `channel_put(channel, packet)`",
                    Symbol::Function(_) | Symbol::Extern(_) => "call it: `function(…)`",
                    Symbol::Module(_) | Symbol::Instance(_) => "name something in it: `module.table`",
                    _ => "a variable, constant or field is needed here",
                };
                self.error(
                    Diagnostic::new("not-a-value", span, format!("`{text}` is {}, not a value", symbol.what()))
                        .label("used as a value")
                        .hint(hint),
                );
                Typed::error(span)
            }
            None => {
                let error =
                    Diagnostic::new("unknown-name", span, format!("there is no `{text}` here")).label("not declared");
                let locals = self.scopes.iter().flat_map(|s| s.keys()).map(String::as_str);
                let near = nearest(text, locals).or_else(|| self.checker.similar(text, "value"));
                let hint = import_of(text).or(near.map(|near| format!("did you mean `{near}`?")));
                self.checker.report_once(Diagnostic { hint, ..error });
                Typed::error(span)
            }
        }
    }

    fn unary(&mut self, unary: &ast::UnaryExpr, span: Span) -> Typed {
        let (Some(op), Some(operand)) = (unary.op(), unary.operand()) else { return Typed::error(span) };
        if op == UnaryOp::Deref {
            let pointer = self.expr(&operand, None);
            return self.dereference(pointer, span);
        }
        let value = self.expr(&operand, None);
        if value.is_error() {
            return value;
        }
        if op == UnaryOp::Not {
            let Some(condition) = self.condition(value) else { return Typed::error(span) };
            if let ExprKind::Const(bit) = condition.kind {
                return Typed::new(ExprKind::Const(1 - bit), Type::Bool, span);
            }
            return Typed::new(ExprKind::Not(Box::new(condition)), Type::Bool, span);
        }
        self.negate(op, value, span)
    }

    fn ternary(&mut self, ternary: &ast::TernaryExpr, span: Span) -> Typed {
        let parts = (ternary.condition(), ternary.then_value(), ternary.else_value());
        let (Some(condition), Some(a), Some(b)) = parts else { return Typed::error(span) };
        let condition = self.expr(&condition, None);
        let condition = self.condition(condition);
        let (a, b) = (self.expr(&a, None), self.expr(&b, None));
        let Some(condition) = condition else { return Typed::error(span) };
        if a.is_error() || b.is_error() {
            return Typed::error(span);
        }
        if matches!(a.expr.ty, Type::Packet(_)) {
            self.error(
                Diagnostic::new("packet-choice", span, "a packet can't be chosen by `?:`")
                    .label("it would be unclear which one is consumed")
                    .hint("use `if`"),
            );
            return Typed::error(span);
        }
        let Some((a, b, natural)) = self.common(a, b, span) else { return Typed::error(span) };
        let ty = if a.ty == Type::Null { b.ty } else { a.ty };
        let kind = ExprKind::Ternary(Box::new(condition), Box::new(a), Box::new(b));
        Typed { natural, ..Typed::new(kind, ty, span) }
    }

    fn cast_expr(&mut self, cast: &ast::CastExpr, span: Span) -> Typed {
        let (Some(ty), Some(operand)) = (cast.ty(), cast.operand()) else { return Typed::error(span) };
        let to = self.checker.type_of(self.file, self.scope, &ty, false);
        let value = self.expr(&operand, None);
        if value.is_error() || to == Type::Error {
            return Typed::error(span);
        }
        self.cast(value, to, span)
    }

    fn struct_value(&mut self, value: &ast::StructValue, span: Span) -> Typed {
        if self.constant {
            return self.not_constant(span);
        }
        let Some(name) = value.name() else { return Typed::error(span) };
        let id = match self.checker.meant(self.file, self.scope, &name) {
            Some(Symbol::Struct(id)) => id,
            found => {
                self.checker.unknown(self.file, &name, "struct", found);
                return Typed::error(span);
            }
        };
        let declared = self.checker.hir.structs[id.0 as usize].fields.clone();
        let mut values: Vec<Option<Expr>> = vec![None; declared.len()];
        let mut failed = false;
        for field in value.fields() {
            let (Some(field_name), Some(expr)) = (field.name(), field.value()) else { continue };
            let at = field_name.span(self.file);
            self.checker.note_struct_field(at, id, field_name.text());
            let Some(index) = declared.iter().position(|f| f.0 == field_name.text()) else {
                if !self.array_without_index(id, &field_name) {
                    self.no_field(&field_name, name.text(), self.field_names(id));
                }
                failed = true;
                continue;
            };
            let value = self.expr(&expr, None);
            let value = self.coerce(value, declared[index].1);
            failed |= value.is_none();
            if values[index].is_some() {
                self.error(
                    Diagnostic::new("duplicate-field", at, format!("the field `{}` is given twice", field_name.text()))
                        .label("given again here"),
                );
                failed = true;
            }
            values[index] = value;
        }
        if failed {
            return Typed::error(span);
        }
        // There are no values of arrays: their elements are zero.
        let arrays = &self.checker.hir.structs[id.0 as usize].arrays;
        for field in arrays.iter().flat_map(|(_, elements)| elements.first..elements.first + elements.count) {
            let ty = declared[field as usize].1;
            values[field as usize] = Some(Expr { kind: ExprKind::Const(0), ty, span });
        }
        let missing: Vec<_> = declared.iter().zip(&values).filter(|(_, v)| v.is_none()).map(|(f, _)| &*f.0).collect();
        if !missing.is_empty() {
            self.error(
                Diagnostic::new("missing-field", span, format!("`{}` has more fields", name.text()))
                    .label(format!("missing: {}", missing.join(", "))),
            );
            return Typed::error(span);
        }
        Typed::new(ExprKind::Struct(values.into_iter().flatten().collect()), Type::Struct(id), span)
    }

    /// Reports a field that is not there.
    pub(super) fn no_field(&mut self, field: &ast::Name, of: &str, known: Vec<String>) {
        let error =
            Diagnostic::new("unknown-field", field.span(self.file), format!("`{of}` has no field `{}`", field.text()))
                .label("not a field")
                .hint(format!("its fields are {}", known.join(", ")));
        self.error(error);
    }

    /// An expression as a condition: a number is compared with 0, a pointer with null.
    pub(super) fn condition(&mut self, value: Typed) -> Option<Expr> {
        let span = value.expr.span;
        let compared = |expr: Expr, kind, ty| {
            let zero = Expr { kind, ty, span };
            let kind = ExprKind::Compare(Comparison::Ne, Box::new(expr), Box::new(zero));
            Some(Expr { kind, ty: Type::Bool, span })
        };
        if let Some(lit) = value.lit {
            return Some(Expr { kind: ExprKind::Const((lit != Number::ZERO) as u128), ty: Type::Bool, span });
        }
        match value.expr.ty {
            Type::Bool => Some(value.expr),
            Type::Int { .. } => {
                if let ExprKind::Const(bits) = value.expr.kind {
                    return Some(Expr { kind: ExprKind::Const((bits != 0) as u128), ty: Type::Bool, span });
                }
                let ty = value.expr.ty;
                compared(value.expr, ExprKind::Const(0), ty)
            }
            Type::Pointer(_) | Type::Loaded { .. } => compared(value.expr, ExprKind::Const(0), Type::Null),
            Type::Error => None,
            other => {
                let found = self.checker.describe(other);
                self.error(
                    Diagnostic::new("bad-condition", span, format!("`{found}` is not a condition"))
                        .label("neither bool, number nor pointer"),
                );
                None
            }
        }
    }
}
