//! Arithmetic. The IR's is total, LLVM's is not: the operands that LLVM leaves undefined never reach it, or their
//! result is not chosen.

use baker::ir::{BinOp, CastOp, CmpOp};
use inkwell::IntPredicate;
use inkwell::values::IntValue;

use super::{Core, Res};
use crate::internal;

impl<'c> Core<'c, '_> {
    /// The constant's low `width` bits.
    pub(crate) fn constant(&self, width: u32, value: u128) -> Res<IntValue<'c>> {
        let words = [value as u64, (value >> 64) as u64];
        Ok(self.int(width)?.const_int_arbitrary_precision(&words))
    }

    /// A binary operation on integers of one width.
    pub(crate) fn binary(&self, op: BinOp, a: IntValue<'c>, b: IntValue<'c>) -> Res<IntValue<'c>> {
        let b_width = b.get_type().get_bit_width();
        let width = a.get_type().get_bit_width();
        if width != b_width {
            return internal(format!("{op:?} of {width} and {b_width} bits"));
        }
        let builder = &self.builder;
        if !self.has_wide()
            && let Some(result) = self.lacking(op, a, b)?
        {
            return Ok(result);
        }
        Ok(match op {
            BinOp::Add => builder.build_int_add(a, b, "")?,
            BinOp::Sub => builder.build_int_sub(a, b, "")?,
            BinOp::Mul => builder.build_int_mul(a, b, "")?,
            BinOp::And => builder.build_and(a, b, "")?,
            BinOp::Or => builder.build_or(a, b, "")?,
            BinOp::Xor => builder.build_xor(a, b, "")?,
            BinOp::UDiv => {
                let quotient = builder.build_int_unsigned_div(a, self.unless_zero(b)?, "")?;
                self.zero_where_zero(b, quotient)?
            }
            // x by 1 leaves 0, which is what x by 0 is to give.
            BinOp::URem => builder.build_int_unsigned_rem(a, self.unless_zero(b)?, "")?,
            // One bit is 0 or -1, so there is no 1 to divide by. -1 by -1 wraps to -1.
            BinOp::SDiv if width == 1 => builder.build_and(a, b, "")?,
            BinOp::SRem if width == 1 => a.get_type().const_zero(),
            BinOp::SDiv => {
                let quotient = builder.build_int_signed_div(a, self.signed_divisor(a, b)?, "")?;
                self.zero_where_zero(b, quotient)?
            }
            BinOp::SRem => builder.build_int_signed_rem(a, self.signed_divisor(a, b)?, "")?,
            BinOp::Shl => {
                let shifted = builder.build_left_shift(a, b, "")?;
                self.zero_unless_below_width(b, shifted)?
            }
            BinOp::LShr | BinOp::AShr => {
                let shifted = builder.build_right_shift(a, b, op == BinOp::AShr, "")?;
                self.zero_unless_below_width(b, shifted)?
            }
        })
    }

    /// The operation where the processor lacks it.
    fn lacking(&self, op: BinOp, a: IntValue<'c>, b: IntValue<'c>) -> Res<Option<IntValue<'c>>> {
        let divides = matches!(op, BinOp::UDiv | BinOp::URem | BinOp::SDiv | BinOp::SRem);
        let by = if divides { self.unless_zero(b)? } else { b };
        let Some(result) = self.put_together(op, a, by)? else { return Ok(None) };
        Ok(Some(match op {
            BinOp::UDiv | BinOp::SDiv => self.zero_where_zero(b, result)?,
            // What x by 1 leaves is 0.
            BinOp::Shl | BinOp::LShr | BinOp::AShr => self.zero_unless_below_width(b, result)?,
            _ => result,
        }))
    }

    /// A comparison of integers of one width.
    pub(crate) fn compare(&self, op: CmpOp, a: IntValue<'c>, b: IntValue<'c>) -> Res<IntValue<'c>> {
        if a.get_type() != b.get_type() {
            return internal(format!("{op:?} of different widths"));
        }
        let predicate = match op {
            CmpOp::Eq => IntPredicate::EQ,
            CmpOp::Ne => IntPredicate::NE,
            CmpOp::Ult => IntPredicate::ULT,
            CmpOp::Ule => IntPredicate::ULE,
            CmpOp::Slt => IntPredicate::SLT,
            CmpOp::Sle => IntPredicate::SLE,
        };
        Ok(self.builder.build_int_compare(predicate, a, b, "")?)
    }

    /// A change of width.
    pub(crate) fn cast(&self, op: CastOp, value: IntValue<'c>, width: u32) -> Res<IntValue<'c>> {
        let from = value.get_type().get_bit_width();
        let possible = match op {
            CastOp::ZExt | CastOp::SExt => width >= from,
            CastOp::Trunc => width <= from,
        };
        if !possible {
            return internal(format!("{op:?} from {from} to {width} bits"));
        }
        if op == CastOp::SExt && width > from {
            return Ok(self.builder.build_int_s_extend(value, self.int(width)?, "")?);
        }
        self.resize(value, width)
    }

    /// `b`, but 1 where it is 0.
    fn unless_zero(&self, b: IntValue<'c>) -> Res<IntValue<'c>> {
        let is_zero = self.is_zero(b)?;
        self.select_int(is_zero, b.get_type().const_int(1, false), b)
    }

    /// `b`, but 1 where `a / b` is undefined in LLVM: `b` is 0, or `a` is the least value and `b` is -1. By 1 the
    /// latter gives the wrapped quotient and remainder 0.
    fn signed_divisor(&self, a: IntValue<'c>, b: IntValue<'c>) -> Res<IntValue<'c>> {
        let ty = a.get_type();
        let width = ty.get_bit_width();
        let least = self.constant(width, 1 << (width - 1))?;
        let is_least = self.builder.build_int_compare(IntPredicate::EQ, a, least, "")?;
        let is_minus_one = self.builder.build_int_compare(IntPredicate::EQ, b, ty.const_all_ones(), "")?;
        let overflows = self.builder.build_and(is_least, is_minus_one, "")?;
        let undefined = self.builder.build_or(overflows, self.is_zero(b)?, "")?;
        self.select_int(undefined, ty.const_int(1, false), b)
    }

    fn zero_where_zero(&self, b: IntValue<'c>, value: IntValue<'c>) -> Res<IntValue<'c>> {
        let is_zero = self.is_zero(b)?;
        self.select_int(is_zero, value.get_type().const_zero(), value)
    }

    /// 0 where a shift went too far. LLVM's shift gives poison there, which a select that chooses the other operand
    /// does not pass on.
    fn zero_unless_below_width(&self, by: IntValue<'c>, shifted: IntValue<'c>) -> Res<IntValue<'c>> {
        let width = self.constant(by.get_type().get_bit_width(), by.get_type().get_bit_width().into())?;
        let below = self.builder.build_int_compare(IntPredicate::ULT, by, width, "")?;
        self.select_int(below, shifted, shifted.get_type().const_zero())
    }

    fn is_zero(&self, value: IntValue<'c>) -> Res<IntValue<'c>> {
        Ok(self.builder.build_int_compare(IntPredicate::EQ, value, value.get_type().const_zero(), "")?)
    }

    /// `then` where `condition` (1 bit) is 1, else `other`.
    pub(crate) fn select_int(
        &self,
        condition: IntValue<'c>,
        then: IntValue<'c>,
        other: IntValue<'c>,
    ) -> Res<IntValue<'c>> {
        Ok(self.builder.build_select(condition, then, other, "")?.into_int_value())
    }
}
