//! Types of generated programs, and the language's rules for what goes with what (`baker::check`, arithmetic).

use crate::numbers::Numbers;

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
}

impl Ty {
    pub fn random(n: &mut Numbers) -> Ty {
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
pub fn width(n: &mut Numbers) -> u32 {
    match n.below(8) {
        0..=3 => *n.pick(&[8, 16, 32, 64]),
        4 => *n.pick(&[1, 31, 33, 48, 63, 65, 127, 128]),
        5 => n.range(1, 8) as u32,
        _ => n.range(1, 128) as u32,
    }
}

impl Expr {
    pub fn new(text: impl Into<String>, ty: Ty) -> Expr {
        Expr { text: text.into(), ty, natural: ty.width() }
    }

    /// Whether it may be stored in this type without a cast.
    pub fn fits(&self, to: Ty) -> bool {
        match (self.ty, to) {
            (Ty::Bool, _) => true,
            (Ty::Int { .. }, Ty::Bool) => false,
            (Ty::Int { signed: from, .. }, Ty::Int { width, signed }) => {
                if from == signed { self.natural <= width } else { !from && self.natural < width }
            }
        }
    }

    pub fn cast(self, to: Ty) -> Expr {
        match to {
            Ty::Bool if self.ty == Ty::Bool => self,
            Ty::Bool => Expr::new(format!("({} != 0)", self.text), Ty::Bool),
            Ty::Int { .. } => Expr::new(format!("(({}) {})", to.name(), self.text), to),
        }
    }

    /// The common type of two numbers and the natural width of their result; `None` where their signs do not mix.
    pub fn common(&self, other: &Expr) -> Option<(Ty, u32)> {
        let width = self.ty.width().max(other.ty.width()).max(COMPUTED_IN);
        let (a, b) = (self.ty.is_signed(), other.ty.is_signed());
        let unsigned = if a { other } else { self };
        let mixed = a != b && unsigned.natural >= width;
        (!mixed).then_some((Ty::Int { width, signed: a || b }, self.natural.max(other.natural)))
    }
}

/// A literal that fits a type.
pub fn literal(n: &mut Numbers, ty: Ty) -> String {
    let Ty::Int { width, signed } = ty else {
        return n.pick(&["true", "false"]).to_string();
    };
    // A literal above 127 bits has the type u128, so it does not stand where a signed number is needed.
    let value = n.bits(if signed { width - 1 + u32::from(width == 1) } else { width });
    if signed {
        let value = if width == 1 { 0 } else { value };
        return match n.below(3) {
            0 if width > 1 => format!("(-{value})"),
            1 => format!("(~{value})"),
            _ => value.to_string(),
        };
    }
    match n.below(6) {
        0 => format!("{value:#x}"),
        1 => format!("{value:#b}"),
        2 if value <= i128::MAX as u128 => format!("(~{value})"),
        3 if value >= 10 => format!("{}_{}", value / 10, value % 10),
        _ => value.to_string(),
    }
}
