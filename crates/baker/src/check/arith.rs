//! Arithmetic and conversions.
//!
//! Numbers are computed in the width of the widest operand, at least 32 bits, as in C; the result may be stored without
//! a cast in anything as wide as the widest operand. Storing in less needs a cast. Signed and unsigned do not mix
//! unless the unsigned one is narrower. A number without a type takes the type of its surroundings and must fit there.

use super::code::CodeChecker;
use super::expr::Typed;
use super::hir::{Comparison, Expr, ExprKind, Type};
use crate::diag::Diagnostic;
use crate::ir::BinOp;
use crate::ir::arith::{mask, signed};
use crate::number::Number;
use crate::source::Span;
use crate::syntax::ast::{self, BinaryOp, UnaryOp};

/// Numbers narrower than this are computed in this many bits.
const COMPUTED_IN: u32 = 32;

impl CodeChecker<'_, '_> {
    pub(super) fn binary_expr(&mut self, binary: &ast::BinaryExpr, span: Span) -> Typed {
        let (Some(op), Some(a), Some(b)) = (binary.op(), binary.lhs(), binary.rhs()) else { return Typed::error(span) };
        let (a, b) = (self.expr(&a, None), self.expr(&b, None));
        self.binary(op, a, b, span)
    }

    /// A binary operator on two checked operands.
    pub(super) fn binary(&mut self, op: BinaryOp, a: Typed, b: Typed, span: Span) -> Typed {
        if a.is_error() || b.is_error() {
            return Typed::error(span);
        }
        match op {
            BinaryOp::And | BinaryOp::Or => {
                let (a, b) = (self.condition(a), self.condition(b));
                let Some((a, b)) = a.zip(b) else { return Typed::error(span) };
                let (a, b) = (Box::new(a), Box::new(b));
                let kind = if op == BinaryOp::And { ExprKind::And(a, b) } else { ExprKind::Or(a, b) };
                Typed::new(kind, Type::Bool, span)
            }
            BinaryOp::Eq => self.compare(Comparison::Eq, a, b, span),
            BinaryOp::Ne => self.compare(Comparison::Ne, a, b, span),
            BinaryOp::Lt => self.compare(Comparison::Lt, a, b, span),
            BinaryOp::Le => self.compare(Comparison::Le, a, b, span),
            BinaryOp::Gt => self.compare(Comparison::Gt, a, b, span),
            BinaryOp::Ge => self.compare(Comparison::Ge, a, b, span),
            BinaryOp::Shl | BinaryOp::Shr => self.shift(op, a, b, span),
            _ => self.arithmetic(op, a, b, span),
        }
    }

    fn arithmetic(&mut self, op: BinaryOp, a: Typed, b: Typed, span: Span) -> Typed {
        if let (Some(x), Some(y)) = (a.lit, b.lit) {
            // A quotient's or remainder's upper bits depend on the width, which is not known: the sign stays.
            let complement = (a.complement || b.complement) && !matches!(op, BinaryOp::Div | BinaryOp::Rem);
            let Some(value) = fold(op, x, y) else {
                self.error(too_large(span));
                return Typed::error(span);
            };
            return Typed { complement, ..Typed::number(value, span) };
        }
        let bits = matches!(op, BinaryOp::BitAnd | BinaryOp::BitOr | BinaryOp::BitXor);
        let truth = a.expr.ty == Type::Bool && b.expr.ty == Type::Bool;
        if let Some(bad) = [&a, &b].into_iter().find(|t| !matches!(t.expr.ty, Type::Int { .. }))
            && !(bits && truth)
        {
            let (at, found) = (bad.expr.span, bad.expr.ty);
            return self.not_a_number(at, found, span);
        }
        let naturals = [&a, &b].map(|t| if t.lit.is_some() { 0 } else { t.natural });
        let Some((a, b, natural)) = self.common(a, b, span) else { return Typed::error(span) };
        // What is masked or divided by a constant gets no wider by it.
        let shrinks = matches!(op, BinaryOp::BitAnd | BinaryOp::Div | BinaryOp::Rem) && naturals.contains(&0);
        let natural = if shrinks { naturals[0].max(naturals[1]) } else { natural };
        let is_signed = matches!(a.ty, Type::Int { signed: true, .. });
        let op = match op {
            BinaryOp::Add => BinOp::Add,
            BinaryOp::Sub => BinOp::Sub,
            BinaryOp::Mul => BinOp::Mul,
            BinaryOp::Div if is_signed => BinOp::SDiv,
            BinaryOp::Div => BinOp::UDiv,
            BinaryOp::Rem if is_signed => BinOp::SRem,
            BinaryOp::Rem => BinOp::URem,
            BinaryOp::BitAnd => BinOp::And,
            BinaryOp::BitOr => BinOp::Or,
            BinaryOp::BitXor => BinOp::Xor,
            _ => unreachable!("comparisons, shifts and logic are handled before"),
        };
        let ty = a.ty;
        Typed { natural, ..Typed::new(binary(op, a, b), ty, span) }
    }

    /// The result has the left operand's type; the count is a number of any type.
    fn shift(&mut self, op: BinaryOp, a: Typed, b: Typed, span: Span) -> Typed {
        for operand in [&a, &b] {
            if !matches!(operand.expr.ty, Type::Int { .. }) {
                return self.not_a_number(operand.expr.span, operand.expr.ty, span);
            }
        }
        if let Some(value) = a.lit {
            let Some(count) = b.lit else {
                self.error(
                    Diagnostic::new("untyped-shift", a.expr.span, "the type of this number is not known here")
                        .label("shifted by a number that is not constant")
                        .hint("give it a type: `(u32) 1 << n`"),
                );
                return Typed::error(span);
            };
            let shifted = if op == BinaryOp::Shl { value.checked_shl(count) } else { value.checked_shr(count) };
            return match shifted {
                // What a right shift brings in at the top depends on the width, which is not known: the sign stays.
                Some(value) => Typed { complement: a.complement && op == BinaryOp::Shl, ..Typed::number(value, span) },
                None => {
                    self.error(
                        Diagnostic::new("constant-overflow", span, "this constant is too large")
                            .label("more than 128 bits, or shifted by a negative number"),
                    );
                    Typed::error(span)
                }
            };
        }
        let natural = a.natural;
        let a = self.promote(a.expr);
        let Type::Int { width, signed } = a.ty else { unreachable!("a number") };
        let count = Type::Int { width, signed: false };
        let b = match (b.lit, b.expr.ty) {
            (None, Type::Int { signed: true, .. }) => {
                self.error(
                    Diagnostic::new("signed-shift", b.expr.span, "a shift by a signed number")
                        .label("may be negative")
                        .hint("cast it to an unsigned type"),
                );
                return Typed::error(span);
            }
            _ => self.coerce(b, count),
        };
        let Some(b) = b else { return Typed::error(span) };
        let b = Expr { ty: a.ty, ..b };
        let op = match op {
            BinaryOp::Shl => BinOp::Shl,
            _ if signed => BinOp::AShr,
            _ => BinOp::LShr,
        };
        let ty = a.ty;
        Typed { natural, ..Typed::new(binary(op, a, b), ty, span) }
    }

    pub(super) fn negate(&mut self, op: UnaryOp, value: Typed, span: Span) -> Typed {
        if let Some(lit) = value.lit {
            return match (op, lit.checked_neg()) {
                (UnaryOp::BitNot, _) => Typed { complement: true, ..Typed::number(!lit, span) },
                (_, Some(value)) => Typed::number(value, span),
                (_, None) => {
                    self.error(too_large(span));
                    Typed::error(span)
                }
            };
        }
        let natural = value.natural;
        match (op, value.expr.ty) {
            (_, Type::Int { .. }) => {
                let value = self.promote(value.expr);
                let Type::Int { width, .. } = value.ty else { unreachable!("a number") };
                let constant = Expr { kind: ExprKind::Const(0), ty: value.ty, span };
                let ty = value.ty;
                let kind = match op {
                    UnaryOp::BitNot => {
                        let ones = Expr { kind: ExprKind::Const(mask(width)), ..constant };
                        binary(BinOp::Xor, value, ones)
                    }
                    _ => binary(BinOp::Sub, constant, value),
                };
                Typed { natural, ..Typed::new(kind, ty, span) }
            }
            (_, found) => self.not_a_number(value.expr.span, found, span),
        }
    }

    fn not_a_number(&mut self, at: Span, found: Type, span: Span) -> Typed {
        let described = self.checker.describe(found);
        let error =
            Diagnostic::new("not-a-number", at, format!("`{described}` is not a number")).label("used in arithmetic");
        self.error(match found {
            Type::Pointer(_) | Type::Loaded { .. } => {
                error.hint("a look-up yields a pointer: give it a name, test it, and use `*name`")
            }
            Type::Bool => error.hint("cast it: `(u32) value` is 0 or 1"),
            _ => error,
        });
        Typed::error(span)
    }

    fn compare(&mut self, comparison: Comparison, a: Typed, b: Typed, span: Span) -> Typed {
        if let (Some(x), Some(y)) = (a.lit, b.lit) {
            let answer = match comparison {
                Comparison::Eq => x == y,
                Comparison::Ne => x != y,
                Comparison::Lt => x < y,
                Comparison::Le => x <= y,
                Comparison::Gt => x > y,
                Comparison::Ge => x >= y,
            };
            return Typed::new(ExprKind::Const(answer as u128), Type::Bool, span);
        }
        let Some((a, b, _)) = self.common(a, b, span) else { return Typed::error(span) };
        let ordered = !matches!(comparison, Comparison::Eq | Comparison::Ne);
        let comparable = match a.ty {
            Type::Int { .. } => true,
            Type::Bool | Type::Reason => !ordered,
            Type::Pointer(_) | Type::Loaded { .. } | Type::Packet(_) | Type::Null => {
                !ordered && (a.ty == Type::Null) != (b.ty == Type::Null)
            }
            _ => false,
        };
        if !comparable {
            let described = self.checker.describe(a.ty);
            self.error(
                Diagnostic::new("not-comparable", span, format!("two `{described}` can't be compared like this"))
                    .label("only numbers have an order; pointers are compared with null"),
            );
            return Typed::error(span);
        }
        if let (ExprKind::Const(x), ExprKind::Const(y), Type::Int { width, signed }) = (&a.kind, &b.kind, a.ty) {
            let order = match signed {
                true => crate::ir::arith::signed(width, *x).cmp(&crate::ir::arith::signed(width, *y)),
                false => x.cmp(y),
            };
            let answer = match comparison {
                Comparison::Eq => order.is_eq(),
                Comparison::Ne => order.is_ne(),
                Comparison::Lt => order.is_lt(),
                Comparison::Le => order.is_le(),
                Comparison::Gt => order.is_gt(),
                Comparison::Ge => order.is_ge(),
            };
            return Typed::new(ExprKind::Const(answer as u128), Type::Bool, span);
        }
        Typed::new(ExprKind::Compare(comparison, Box::new(a), Box::new(b)), Type::Bool, span)
    }

    /// Both operands in one type, and the natural width of what is computed from them.
    pub(super) fn common(&mut self, a: Typed, b: Typed, span: Span) -> Option<(Expr, Expr, u32)> {
        if a.is_error() || b.is_error() {
            return None;
        }
        let (a, b) = match (a.expr.ty, b.expr.ty) {
            (Type::Null, Type::Int { .. } | Type::Bool | Type::Reason | Type::Struct(_)) => (a, self.as_pointer(b)),
            (Type::Int { .. } | Type::Bool | Type::Reason | Type::Struct(_), Type::Null) => (self.as_pointer(a), b),
            _ => (a, b),
        };
        match (a.lit, b.lit) {
            (Some(x), Some(y)) => {
                // The choice of `?:`. It fits wherever both numbers do.
                let is_signed = x.is_negative() || y.is_negative();
                let natural = x.width(is_signed).max(y.width(is_signed));
                let ty = Type::Int { width: natural.max(COMPUTED_IN), signed: is_signed };
                return Some((self.coerce(a, ty)?, self.coerce(b, ty)?, natural));
            }
            (Some(_), None) => {
                let natural = natural_with(&b, &a);
                let b = self.promote(b.expr);
                return Some((self.coerce(a, b.ty)?, b, natural));
            }
            (None, Some(_)) => {
                let natural = natural_with(&a, &b);
                let a = self.promote(a.expr);
                let b = self.coerce(b, a.ty)?;
                return Some((a, b, natural));
            }
            (None, None) => {}
        }
        let mut natural = a.natural.max(b.natural);
        match (a.expr.ty, b.expr.ty) {
            (Type::Int { width: wa, signed: sa }, Type::Int { width: wb, signed: sb }) => {
                let width = wa.max(wb).max(COMPUTED_IN);
                let unsigned = if sa { &b } else { &a };
                if sa != sb && unsigned.natural >= width {
                    let [ta, tb] = [a.expr.ty, b.expr.ty].map(|ty| self.checker.describe(ty));
                    self.error(
                        Diagnostic::new("mixed-signs", span, format!("`{ta}` and `{tb}` do not mix"))
                            .label("one is signed, the other is not")
                            .hint("cast one of them"),
                    );
                    return None;
                }
                if sa != sb {
                    // One bit more than the unsigned one has, for the sign.
                    natural = natural.max(unsigned.natural + 1);
                }
                let ty = Type::Int { width, signed: sa || sb };
                Some((convert(a.expr, ty), convert(b.expr, ty), natural))
            }
            (Type::Pointer(_) | Type::Loaded { .. } | Type::Packet(_), Type::Null)
            | (Type::Null, Type::Pointer(_) | Type::Loaded { .. } | Type::Packet(_) | Type::Null) => {
                Some((a.expr, b.expr, natural))
            }
            (Type::Pointer(x), Type::Pointer(y)) if x == y => Some((a.expr, b.expr, natural)),
            (x, y) if x == y => Some((a.expr, b.expr, natural)),
            (x, y) => {
                let [tx, ty] = [x, y].map(|ty| self.checker.describe(ty));
                let error = Diagnostic::new("type-mismatch", span, format!("`{tx}` and `{ty}` do not go together"))
                    .label("operands of different types");
                let either = |is: fn(Type) -> bool| is(x) || is(y);
                self.error(if either(|ty| matches!(ty, Type::Packet(_))) {
                    error.hint("a handle always stands for a packet: there is nothing to compare it with")
                } else if either(|ty| matches!(ty, Type::Pointer(_) | Type::Loaded { .. })) {
                    error.hint("a look-up yields a pointer: give it a name, test it, and use `*name`")
                } else {
                    error
                });
                None
            }
        }
    }

    /// A number in at least 32 bits; anything else as it is.
    pub(super) fn promote(&mut self, expr: Expr) -> Expr {
        match expr.ty {
            Type::Int { width, signed } if width < COMPUTED_IN => {
                convert(expr, Type::Int { width: COMPUTED_IN, signed })
            }
            _ => expr,
        }
    }

    /// An explicit cast.
    pub(super) fn cast(&mut self, value: Typed, to: Type, span: Span) -> Typed {
        let (Type::Int { .. } | Type::Bool, Type::Int { width, .. }) = (value.expr.ty, to) else {
            if value.expr.ty == to && value.lit.is_none() {
                return value;
            }
            let [from, to] = [value.expr.ty, to].map(|ty| self.checker.describe(ty));
            self.error(
                Diagnostic::new("bad-cast", span, format!("`{from}` can't be cast to `{to}`"))
                    .label("a cast is from a number or bool to an integer type"),
            );
            return Typed::error(span);
        };
        if let Some(lit) = value.lit {
            return Typed::new(ExprKind::Const(lit.bits(width)), to, span);
        }
        let expr = Expr { span, ..convert(value.expr, to) };
        Typed { natural: width, ..Typed::new(expr.kind, to, span) }
    }

    /// A value in the type that is needed, or an error.
    pub(super) fn coerce(&mut self, value: Typed, to: Type) -> Option<Expr> {
        let span = value.expr.span;
        if let Some(lit) = value.lit {
            return self.coerce_number(lit, value.complement, to, span);
        }
        let value = if matches!(to, Type::Pointer(_)) { self.as_pointer(value) } else { value };
        match (value.expr.ty, to) {
            (Type::Error, _) | (_, Type::Error) => None,
            (Type::Int { .. }, Type::Int { width, signed: want })
                if let ExprKind::Const(bits) = value.expr.kind
                    && let Some(found) = constant_value(bits, value.expr.ty)
                    && found.fits(width, want) =>
            {
                Some(Expr { kind: ExprKind::Const(found.bits(width)), ty: to, span })
            }
            (Type::Int { signed: from, .. }, Type::Int { width, signed: want }) => {
                let fits = if from == want { value.natural <= width } else { !from && value.natural < width };
                if fits {
                    if let ExprKind::Const(bits) = value.expr.kind
                        && let Some(found) = constant_value(bits, value.expr.ty)
                        && loses_bits(bits, value.expr.ty, width)
                    {
                        return self.coerce_number(found, false, to, span);
                    }
                    return Some(convert(value.expr, to));
                }
                let [found, wanted] =
                    [Type::Int { width: value.natural, signed: from }, to].map(|ty| self.checker.describe(ty));
                let (code, title) = match from == want {
                    true => ("narrowing", format!("`{found}` does not fit into `{wanted}`")),
                    false => ("mixed-signs", format!("`{found}` can't become `{wanted}` by itself")),
                };
                self.error(
                    Diagnostic::new(code, span, title)
                        .label(format!("has {} bits, {}", value.natural, if from { "signed" } else { "unsigned" }))
                        .hint(format!("write `({wanted})` in front of it if that is meant")),
                );
                None
            }
            (Type::Bool, Type::Int { .. }) => Some(convert(value.expr, to)),
            (Type::Null, Type::Pointer(_) | Type::Loaded { .. }) => Some(Expr { ty: to, ..value.expr }),
            (Type::Pointer(a), Type::Pointer(b)) if self.checker.same_layout(a, b) => Some(value.expr),
            (
                Type::Pointer(_) | Type::Loaded { .. },
                Type::Int { .. } | Type::Bool | Type::Reason | Type::Struct(_),
            ) => {
                self.error(
                    Diagnostic::new("pointer-as-value", span, "a look-up yields a pointer, not a value")
                        .label("may be null")
                        .hint("give the pointer a name, test it, and use `*name`"),
                );
                None
            }
            (a, b) if a == b => Some(value.expr),
            (a @ Type::Int { .. }, Type::Bool) => {
                let described = self.checker.describe(a);
                self.error(
                    Diagnostic::new("type-mismatch", span, format!("this is `{described}`, but `bool` is needed"))
                        .label(format!("has type `{described}`"))
                        .hint("compare it: `… != 0`"),
                );
                None
            }
            (a, b) => {
                self.checker.mismatch(span, b, a);
                None
            }
        }
    }

    fn coerce_number(&mut self, lit: Number, complement: bool, to: Type, span: Span) -> Option<Expr> {
        match to {
            Type::Int { width, signed } if complement || lit.fits(width, signed) => {
                Some(Expr { kind: ExprKind::Const(lit.bits(width)), ty: to, span })
            }
            Type::Bool if lit.fits(1, false) => Some(Expr { kind: ExprKind::Const(lit.bits(1)), ty: to, span }),
            Type::Int { .. } | Type::Bool => {
                let described = self.checker.describe(to);
                self.error(
                    Diagnostic::new("constant-out-of-range", span, format!("{lit} does not fit into `{described}`"))
                        .label("out of range"),
                );
                None
            }
            Type::Error => None,
            _ => {
                self.checker.mismatch(span, to, Type::Int { width: 32, signed: true });
                None
            }
        }
    }
}

fn binary(op: BinOp, a: Expr, b: Expr) -> ExprKind {
    if let (ExprKind::Const(x), ExprKind::Const(y), Type::Int { width, .. }) = (&a.kind, &b.kind, a.ty) {
        return ExprKind::Const(op.eval(width, *x, *y));
    }
    ExprKind::Binary(op, Box::new(a), Box::new(b))
}

/// A number or bool in another integer type, without asking whether it fits.
pub(super) fn convert(expr: Expr, to: Type) -> Expr {
    let span = expr.span;
    match (&expr.kind, expr.ty, to) {
        (_, from, _) if from == to => expr,
        (ExprKind::Const(bits), from, Type::Int { width, .. }) => {
            let value = match from {
                Type::Int { width: old, signed: true } => signed(old, *bits) as u128,
                _ => *bits,
            };
            Expr { kind: ExprKind::Const(value & mask(width)), ty: to, span }
        }
        _ => Expr { kind: ExprKind::Cast(Box::new(expr)), ty: to, span },
    }
}

/// Whether a constant has bits above a width that are not all those of a number below zero or of a complement.
fn loses_bits(bits: u128, ty: Type, width: u32) -> bool {
    let Type::Int { width: computed_in, .. } = ty else { return false };
    let above = mask(computed_in) & !mask(width);
    !matches!(bits & above, 0) && bits & above != above
}

/// The value of a constant of an integer type.
fn constant_value(bits: u128, ty: Type) -> Option<Number> {
    match ty {
        Type::Int { width, signed } => Some(Number::of_bits(bits, width, signed)),
        _ => None,
    }
}

/// Natural width of what is computed from a typed operand and a number without a type.
fn natural_with(typed: &Typed, number: &Typed) -> u32 {
    match (typed.expr.ty, number.lit) {
        (Type::Int { signed, .. }, Some(lit)) if !number.complement => typed.natural.max(lit.width(signed)),
        _ => typed.natural,
    }
}

fn fold(op: BinaryOp, a: Number, b: Number) -> Option<Number> {
    match op {
        BinaryOp::Add => a.checked_add(b),
        BinaryOp::Sub => a.checked_sub(b),
        BinaryOp::Mul => a.checked_mul(b),
        BinaryOp::Div => a.checked_div(b),
        BinaryOp::Rem => a.checked_rem(b),
        BinaryOp::BitAnd => Some(a & b),
        BinaryOp::BitOr => Some(a | b),
        BinaryOp::BitXor => Some(a ^ b),
        _ => unreachable!("comparisons, shifts and logic are folded elsewhere"),
    }
}

/// A number that no type has, nor a sum with it.
fn too_large(span: Span) -> Diagnostic {
    Diagnostic::new("constant-overflow", span, "this constant is too large").label("more than 128 bits")
}
