//! Types of generated programs, and the language's rules for what goes with what (`baker::check`, arithmetic).

use crate::numbers::SplitMix64;

/// Numbers narrower than this are computed in this many bits.
pub const COMPUTED_IN: u32 = 32;

/// A scalar type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ty {
    Bool,
    Int { width: u32, signed: bool },
}

pub fn unsigned(width: u32) -> Ty {
    Ty::Int { width, signed: false }
}

/// Type of a variable or table entry: a scalar, or the struct with this index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    Scalar(Ty),
    Struct(usize),
}

/// What is known of an expression. A number is typed: literals are written where their type is known.
#[derive(Clone, Debug)]
pub struct Expr {
    pub text: String,
    pub ty: Ty,
    /// Bits of the widest operand: the result may be stored in so many without a cast.
    pub natural: u32,
    /// Computed from constants alone: then the checker looks at its value, which is not known here.
    pub constant: bool,
}

impl Ty {
    pub fn random(n: &mut SplitMix64) -> Ty {
        match n.below(8) {
            0 => Ty::Bool,
            1 => Ty::Int { width: 32, signed: true },
            2 | 3 => Ty::Int { width: width(n), signed: true },
            _ => unsigned(width(n)),
        }
    }

    pub fn name(self) -> String {
        match self {
            Ty::Bool => "bool".into(),
            Ty::Int { width: 32, signed: true } => "int".into(),
            Ty::Int { width, signed } => format!("{}{width}", if signed { 'i' } else { 'u' }),
        }
    }

    pub fn width(self) -> u32 {
        match self {
            Ty::Bool => 1,
            Ty::Int { width, .. } => width,
        }
    }

    pub fn is_signed(self) -> bool {
        matches!(self, Ty::Int { signed: true, .. })
    }

    /// The type that a number of this type is computed in.
    pub fn promoted(self) -> Ty {
        match self {
            Ty::Int { width, signed } => Ty::Int { width: width.max(COMPUTED_IN), signed },
            Ty::Bool => Ty::Bool,
        }
    }
}

/// Widths that programs use and widths at the edges of the machine's.
pub fn width(n: &mut SplitMix64) -> u32 {
    match n.below(8) {
        0..=3 => *n.pick(&[8, 16, 32, 64]),
        4 => *n.pick(&[1, 31, 33, 48, 63, 65, 127, 128]),
        5 => n.range(1, 8) as u32,
        _ => n.range(1, 128) as u32,
    }
}

impl Expr {
    pub fn new(text: impl Into<String>, ty: Ty) -> Expr {
        Expr { text: text.into(), ty, natural: ty.width(), constant: false }
    }

    /// Whether it may be stored in this type without a cast.
    pub fn fits(&self, to: Ty) -> bool {
        match (self.ty, to) {
            (Ty::Bool, _) => true,
            (Ty::Int { .. }, Ty::Bool) => false,
            _ if self.constant => false,
            (Ty::Int { signed: from, .. }, Ty::Int { width, signed }) => {
                if from == signed {
                    self.natural <= width
                } else {
                    !from && self.natural < width
                }
            }
        }
    }

    pub fn cast(self, to: Ty) -> Expr {
        match to {
            Ty::Bool if self.ty == Ty::Bool => self,
            Ty::Bool => Expr { constant: self.constant, ..Expr::new(format!("({} != 0)", self.text), Ty::Bool) },
            Ty::Int { .. } => {
                Expr { constant: self.constant, ..Expr::new(format!("(({}) {})", to.name(), self.text), to) }
            }
        }
    }

    /// This number and another one with an operator between them, which may not mix their signs.
    pub fn with(&self, op: &str, other: &Expr) -> Option<Expr> {
        let width = self.ty.width().max(other.ty.width()).max(COMPUTED_IN);
        let (a, b) = (self.ty.is_signed(), other.ty.is_signed());
        let mut natural = self.natural.max(other.natural);
        if a != b {
            let unsigned = if a { other } else { self };
            if unsigned.natural >= width {
                return None;
            }
            // One bit more than the unsigned one has, for the sign.
            natural = natural.max(unsigned.natural + 1);
        }
        let text = format!("({} {op} {})", self.text, other.text);
        let constant = self.constant && other.constant;
        Some(Expr { text, ty: Ty::Int { width, signed: a || b }, natural, constant })
    }

    /// This number and a literal, on the left or on the right, with an operator between them.
    pub fn with_literal(&self, op: &str, literal: &Literal, on_left: bool) -> Expr {
        // What is masked or divided by a constant gets no wider by it.
        let wider = if matches!(op, "&" | "/" | "%") && !literal.typed { 0 } else { literal.bits };
        let (a, b) = if on_left { (&literal.text, &self.text) } else { (&self.text, &literal.text) };
        let text = format!("({a} {op} {b})");
        Expr { text, ty: self.ty.promoted(), natural: self.natural.max(wider), constant: self.constant }
    }
}

/// A literal that was written for a certain type.
pub struct Literal {
    pub text: String,
    /// Fewest bits that hold it; 0 for a complement, which fits everywhere.
    pub bits: u32,
    /// Above 127 bits it is a `u128`.
    typed: bool,
}

/// A literal that fits a type.
pub fn literal(n: &mut SplitMix64, ty: Ty) -> Literal {
    let Ty::Int { width, signed } = ty else {
        return Literal { text: n.pick(&["true", "false"]).to_string(), bits: 1, typed: true };
    };
    let value = match (width, signed) {
        (1, true) => 0,
        (width, true) => n.bits(width - 1),
        (width, false) => n.bits(width),
    };
    let typed = value > i128::MAX as u128;
    // A sign is one bit more; a negative number may need one less than that, which does not matter to `fits`.
    let bits = 128 - value.leading_zeros() + u32::from(signed);
    let (text, bits) = match n.below(8) {
        0 if !typed => (format!("(~{value})"), 0),
        1 | 2 if signed && width > 1 => (format!("(-{value})"), bits),
        3 => (format!("{value:#x}"), bits),
        4 => (format!("{value:#b}"), bits),
        5 if value >= 10 => (format!("{}_{}", value / 10, value % 10), bits),
        _ => (value.to_string(), bits),
    };
    Literal { text, bits, typed }
}
