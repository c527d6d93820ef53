//! Total arithmetic: what each operation gives for every operand. Constant folding and the interpreter share it.

use super::inst::{BinOp, CastOp, CmpOp, Op, Value};

/// The low `width` bits set; `width` is 1 to 128.
pub fn mask(width: u32) -> u128 {
    u128::MAX >> (128 - width)
}

/// A value of `width` bits read as two's complement.
pub fn signed(width: u32, value: u128) -> i128 {
    let unused = 128 - width;
    (value << unused) as i128 >> unused
}

impl BinOp {
    /// The result for two values of `width` bits whose upper bits are zero; so are the result's.
    pub fn eval(self, width: u32, a: u128, b: u128) -> u128 {
        let (sa, sb) = (signed(width, a), signed(width, b));
        let result = match self {
            BinOp::Add => a.wrapping_add(b),
            BinOp::Sub => a.wrapping_sub(b),
            BinOp::Mul => a.wrapping_mul(b),
            BinOp::UDiv => a.checked_div(b).unwrap_or(0),
            BinOp::SDiv if sb == 0 => 0,
            BinOp::SDiv => sa.wrapping_div(sb) as u128,
            BinOp::URem => a.checked_rem(b).unwrap_or(0),
            BinOp::SRem if sb == 0 => 0,
            BinOp::SRem => sa.wrapping_rem(sb) as u128,
            BinOp::And => a & b,
            BinOp::Or => a | b,
            BinOp::Xor => a ^ b,
            BinOp::Shl | BinOp::LShr | BinOp::AShr if b >= width as u128 => 0,
            BinOp::Shl => a << b,
            BinOp::LShr => a >> b,
            BinOp::AShr => (sa >> b) as u128,
        };
        result & mask(width)
    }
}

impl CmpOp {
    /// The answer for two values of `width` bits.
    pub fn eval(self, width: u32, a: u128, b: u128) -> bool {
        match self {
            CmpOp::Eq => a == b,
            CmpOp::Ne => a != b,
            CmpOp::Ult => a < b,
            CmpOp::Ule => a <= b,
            CmpOp::Slt => signed(width, a) < signed(width, b),
            CmpOp::Sle => signed(width, a) <= signed(width, b),
        }
    }
}

impl CastOp {
    /// The value of `from` bits in `to` bits.
    pub fn eval(self, from: u32, to: u32, value: u128) -> u128 {
        match self {
            CastOp::ZExt | CastOp::Trunc => value & mask(to),
            CastOp::SExt => signed(from, value) as u128 & mask(to),
        }
    }
}

impl Op {
    /// What an operation on numbers gives in `width` bits, where `number` knows its operands: their widths and values.
    pub(crate) fn fold(&self, width: u32, number: impl Fn(Value) -> Option<(u32, u128)>) -> Option<u128> {
        let value = |operand| Some(number(operand)?.1);
        match *self {
            Op::Const(constant) => Some(constant),
            Op::Bin(op, a, b) => {
                let (bits, a) = number(a)?;
                Some(op.eval(bits, a, value(b)?))
            }
            Op::Cmp(op, a, b) => {
                let (bits, a) = number(a)?;
                Some(op.eval(bits, a, value(b)?).into())
            }
            Op::Cast(op, a) => {
                let (from, a) = number(a)?;
                Some(op.eval(from, width, a))
            }
            Op::Select(condition, a, b) => value(if value(condition)? == 1 { a } else { b }),
            _ => None,
        }
    }
}
