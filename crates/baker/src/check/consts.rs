//! Constants: evaluated when first asked for, in any order, from any module.

use super::code::CodeChecker;
use super::hir::Type;
use super::names::{Checker, Lazy, Scope};
use crate::diag::Diagnostic;
use crate::ir::arith::mask;
use crate::number::Number;
use crate::source::{FileId, Span};
use crate::syntax::ast;

/// How deep constants and types may be nested in others while they are worked out, in levels of expressions.
pub(super) const MAX_CHAIN: u32 = 384;

/// Value of a constant expression.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Constant {
    /// A number that takes the type of its surroundings.
    Untyped(Number),
    /// A number or truth value of a type.
    Typed(Type, u128),
    /// Already reported.
    Error,
}

impl Constant {
    /// The value, where it is not negative.
    pub(super) fn bits(self) -> Option<u128> {
        match self {
            Constant::Untyped(value) => (!value.is_negative()).then(|| value.bits(128)),
            Constant::Typed(Type::Int { width, signed: true }, bits) if bits >> (width - 1) == 1 => None,
            Constant::Typed(_, bits) => Some(bits),
            Constant::Error => None,
        }
    }
}

/// The error about a constant that is neither a number nor a bool.
pub(super) fn no_such_constant(span: Span, described: &str) -> Diagnostic {
    Diagnostic::new("bad-constant-type", span, format!("there are no constants of type `{described}`"))
        .label("declared with that type")
        .hint("a constant has an integer type or bool")
}

/// The greatest value of a type, as bits.
fn greatest(width: u32, signed: bool) -> u128 {
    mask(width) >> u32::from(signed)
}

impl Checker<'_> {
    /// Evaluates all aliases and constants, so that mistakes in unused ones are found.
    pub(super) fn aliases_and_consts(&mut self) {
        for index in 0..self.aliases.len() {
            self.alias(index);
        }
        for index in 0..self.consts.len() {
            self.constant(index);
        }
    }

    /// The value of a named constant; `None` where it was reported.
    pub(super) fn constant(&mut self, index: usize) -> Option<Constant> {
        match self.consts[index].state {
            Lazy::Done(Constant::Error) => return None,
            Lazy::Done(value) => return Some(value),
            Lazy::Computing => {
                let (name, span) = (self.consts[index].name.clone(), self.consts[index].span);
                self.error(
                    Diagnostic::new("constant-cycle", span, format!("the constant `{name}` depends on itself"))
                        .label("its value leads back to here"),
                );
                self.consts[index].state = Lazy::Done(Constant::Error);
                return None;
            }
            Lazy::Waiting => {}
        }
        if self.depth >= MAX_CHAIN {
            self.too_deep(self.consts[index].span);
            self.consts[index].state = Lazy::Done(Constant::Error);
            return None;
        }
        self.consts[index].state = Lazy::Computing;
        let value = self.evaluate(index);
        // A cycle may have been found meanwhile.
        if self.consts[index].state == Lazy::Computing {
            self.consts[index].state = Lazy::Done(value.unwrap_or(Constant::Error));
        }
        match self.consts[index].state {
            Lazy::Done(Constant::Error) => None,
            _ => value,
        }
    }

    /// Reports a constant or type that leads through too many others.
    pub(super) fn too_deep(&mut self, span: Span) {
        self.report_once(
            Diagnostic::new("chain-too-long", span, "this is known only through too many others")
                .label("the chain is too long here")
                .hint("declare the names that the others are made of first"),
        );
    }

    fn evaluate(&mut self, index: usize) -> Option<Constant> {
        let def = &self.consts[index];
        let (file, scope, span) = (def.file, def.scope, def.span);
        let (ty, value, after) = (def.ty.clone(), def.value.clone(), def.after);
        let (value_file, value_scope) = def.value_at.map_or((file, scope), |file| (file, None));
        let ty = ty.map(|ty| self.type_of(file, scope, &ty, false));
        if self.consts[index].enumerator && !matches!(ty, None | Some(Type::Int { .. })) {
            return None; // reported at the enum
        }
        let Some(expr) = value else {
            // An enumerator without a value is one more than the one before it.
            let Some(after) = after else {
                return Some(ty.map_or(Constant::Untyped(Number::ZERO), |ty| Constant::Typed(ty, 0)));
            };
            let after = self.constant(after)?;
            if let Constant::Untyped(value) = after
                && let Some(next) = value.checked_add(Number::from(1))
            {
                return Some(Constant::Untyped(next));
            }
            return match after {
                Constant::Typed(ty @ Type::Int { width, signed }, bits) if bits != greatest(width, signed) => {
                    Some(Constant::Typed(ty, bits.wrapping_add(1) & mask(width)))
                }
                Constant::Error => None,
                _ => {
                    self.error(
                        Diagnostic::new("constant-out-of-range", span, "this enumerator does not fit into its type")
                            .label("one more than the greatest value"),
                    );
                    None
                }
            };
        };
        match ty {
            None => self.evaluate_expr(value_file, value_scope, &expr),
            Some(Type::Error) => None,
            Some(ty @ (Type::Int { .. } | Type::Bool)) => {
                let mut code = CodeChecker::constant(self, value_file, value_scope);
                let value = code.expr(&expr, None);
                let value = code.coerce(value, ty)?;
                code.constant_of(value)
            }
            Some(ty) => {
                let written = self.consts[index].ty.as_ref().and_then(|ty| ty.name());
                let described = written.map_or_else(|| self.describe(ty), |name| name.text().to_string());
                self.error(no_such_constant(span, &described));
                None
            }
        }
    }

    /// The value of a constant expression.
    pub(super) fn evaluate_expr(&mut self, file: FileId, scope: Scope, expr: &ast::Expr) -> Option<Constant> {
        CodeChecker::constant(self, file, scope).evaluate(expr)
    }

    /// A constant expression from `least` to `most`.
    pub(super) fn size(
        &mut self,
        file: FileId,
        scope: Scope,
        expr: &ast::Expr,
        what: &str,
        (least, most): (u32, u32),
    ) -> Option<u32> {
        let value = self.evaluate_expr(file, scope, expr)?;
        self.size_of(self.span(file, expr), value, what, (least, most))
    }

    /// A constant as a number from `least` to `most`.
    pub(super) fn size_of(&mut self, at: Span, value: Constant, what: &str, (least, most): (u32, u32)) -> Option<u32> {
        let size = value.bits().and_then(|bits| u32::try_from(bits).ok()).filter(|s| (least..=most).contains(s));
        if size.is_none() {
            self.error(
                Diagnostic::new("size-out-of-range", at, format!("{what} is out of range"))
                    .label(format!("must be from {least} to {most}")),
            );
        }
        size
    }
}
