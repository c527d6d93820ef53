//! Numbers of constant expressions before they have a type: wide enough for every value of every type, so that what is
//! written takes the type of its surroundings and is refused only where it does not fit there.

use std::cmp::Ordering;
use std::fmt;
use std::ops::{BitAnd, BitOr, BitXor, Not};

use crate::ir::arith::{mask, signed};

/// A whole number from -2^128 to 2^128 - 1, in two's complement of 129 bits. Operations whose result lies beyond give
/// `None`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Number {
    /// The uppermost bit.
    negative: bool,
    /// The others.
    low: u128,
}

impl Number {
    /// Nothing.
    pub const ZERO: Number = Number { negative: false, low: 0 };

    /// The value of `width` bits, 1 to 128, of a type.
    pub fn of_bits(bits: u128, width: u32, is_signed: bool) -> Number {
        let value = signed(width, bits);
        match is_signed {
            true => Number { negative: value < 0, low: value as u128 },
            false => Number::from(bits),
        }
    }

    /// Its lowest bits, 1 to 128 of them.
    pub fn bits(self, width: u32) -> u128 {
        self.low & mask(width)
    }

    /// Whether an integer type of so many bits has it.
    pub fn fits(self, width: u32, is_signed: bool) -> bool {
        let greatest = mask(width) >> u32::from(is_signed);
        match (self.negative, is_signed) {
            (false, _) => self.low <= greatest,
            (true, true) => self.low >= !greatest,
            (true, false) => false,
        }
    }

    /// The fewest bits of an integer type that has it; 128 where none has.
    pub fn width(self, is_signed: bool) -> u32 {
        (1..=128).find(|&width| self.fits(width, is_signed)).unwrap_or(128)
    }

    /// Whether it is below zero.
    pub fn is_negative(self) -> bool {
        self.negative
    }

    /// Sum.
    pub fn checked_add(self, other: Number) -> Option<Number> {
        let (low, carry) = self.low.overflowing_add(other.low);
        Self::sum(low, i32::from(carry) - i32::from(self.negative) - i32::from(other.negative))
    }

    /// Difference.
    pub fn checked_sub(self, other: Number) -> Option<Number> {
        let (low, borrow) = self.low.overflowing_sub(other.low);
        Self::sum(low, i32::from(other.negative) - i32::from(self.negative) - i32::from(borrow))
    }

    /// `low`, and so many times 2^128.
    fn sum(low: u128, above: i32) -> Option<Number> {
        matches!(above, 0 | -1).then_some(Number { negative: above != 0, low })
    }

    /// Product.
    pub fn checked_mul(self, other: Number) -> Option<Number> {
        match (self.magnitude(), other.magnitude()) {
            (Some(a), Some(b)) => Self::with_sign(a.checked_mul(b)?, self.negative != other.negative),
            _ if self.low == 1 && !self.negative => Some(other),
            _ if other.low == 1 && !other.negative => Some(self),
            // -2^128 and something else than 1.
            (a, b) => (a == Some(0) || b == Some(0)).then_some(Self::ZERO),
        }
    }

    /// Quotient, towards zero; by zero it is 0.
    pub fn checked_div(self, other: Number) -> Option<Number> {
        Some(self.div_rem(other)?.0)
    }

    /// Remainder, with the sign of `self`; by zero it is 0.
    pub fn checked_rem(self, other: Number) -> Option<Number> {
        match other.magnitude() {
            Some(1) => Some(Self::ZERO),
            _ => Some(self.div_rem(other)?.1),
        }
    }

    fn div_rem(self, other: Number) -> Option<(Number, Number)> {
        let negative = self.negative != other.negative;
        let (quotient, remainder) = match (self.magnitude(), other.magnitude()) {
            (_, Some(0)) => (0, 0),
            (Some(a), Some(b)) => (a / b, a % b),
            // Less than 2^128, divided by it.
            (Some(a), None) => (0, a),
            (None, None) => (1, 0),
            (None, Some(1)) if negative => return Some((self, Self::ZERO)),
            (None, Some(1)) => return None,
            (None, Some(b)) => {
                // 2^128 is one more than what 128 bits hold.
                let (quotient, remainder) = (u128::MAX / b, u128::MAX % b + 1);
                (quotient + remainder / b, remainder % b)
            }
        };
        Some((Self::with_sign(quotient, negative)?, Self::with_sign(remainder, self.negative)?))
    }

    /// Its value without the sign; `None`: 2^128.
    fn magnitude(self) -> Option<u128> {
        match self.negative {
            false => Some(self.low),
            true => (self.low != 0).then(|| self.low.wrapping_neg()),
        }
    }

    fn with_sign(magnitude: u128, negative: bool) -> Option<Number> {
        let number = Number::from(magnitude);
        if negative { number.checked_neg() } else { Some(number) }
    }

    /// The same below zero, or above it.
    pub fn checked_neg(self) -> Option<Number> {
        Self::ZERO.checked_sub(self)
    }

    /// Shifted to the left; `None`, too, where the count is negative.
    pub fn checked_shl(self, count: Number) -> Option<Number> {
        if self == Self::ZERO && !count.negative {
            return Some(self);
        }
        let count = count.as_u32().filter(|count| *count <= 128)?;
        let shifted = Number { low: self.low.checked_shl(count).unwrap_or(0), ..self };
        (shifted.shifted_right(count) == self).then_some(shifted)
    }

    /// Shifted to the right, with copies of the sign; by 128 or more it is 0, as in the language. `None` where the
    /// count is negative.
    pub fn checked_shr(self, count: Number) -> Option<Number> {
        if count.negative {
            return None;
        }
        let count = count.as_u32().filter(|count| *count < 128);
        Some(count.map_or(Self::ZERO, |count| self.shifted_right(count)))
    }

    fn shifted_right(self, count: u32) -> Number {
        let sign = if self.negative { u128::MAX } else { 0 };
        let low = match count {
            0 => self.low,
            1..128 => self.low >> count | sign << (128 - count),
            _ => sign,
        };
        Number { low, ..self }
    }

    /// As an ordinary number, where that has it.
    pub fn as_u32(self) -> Option<u32> {
        u32::try_from(self.low).ok().filter(|_| !self.negative)
    }
}

/// All bits turned over.
impl Not for Number {
    type Output = Number;

    fn not(self) -> Number {
        Number { negative: !self.negative, low: !self.low }
    }
}

/// Bits of both.
impl BitAnd for Number {
    type Output = Number;

    fn bitand(self, other: Number) -> Number {
        Number { negative: self.negative & other.negative, low: self.low & other.low }
    }
}

/// Bits of either.
impl BitOr for Number {
    type Output = Number;

    fn bitor(self, other: Number) -> Number {
        Number { negative: self.negative | other.negative, low: self.low | other.low }
    }
}

/// Bits of one of them.
impl BitXor for Number {
    type Output = Number;

    fn bitxor(self, other: Number) -> Number {
        Number { negative: self.negative ^ other.negative, low: self.low ^ other.low }
    }
}

impl From<u128> for Number {
    fn from(low: u128) -> Number {
        Number { negative: false, low }
    }
}

impl Ord for Number {
    fn cmp(&self, other: &Number) -> Ordering {
        other.negative.cmp(&self.negative).then(self.low.cmp(&other.low))
    }
}

impl PartialOrd for Number {
    fn partial_cmp(&self, other: &Number) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.negative, self.magnitude()) {
            (false, _) => write!(f, "{}", self.low),
            (true, Some(magnitude)) => write!(f, "-{magnitude}"),
            // 2^128
            (true, None) => f.write_str("-340282366920938463463374607431768211456"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A number that 128 signed bits hold.
    fn small(value: i128) -> Number {
        Number::of_bits(value as u128, 128, true)
    }

    /// As `i128` computes it, wherever that can.
    #[test]
    fn small_numbers() {
        let edges = [0, 1, 2, 3, 7, 64, 127, 1 << 64, (1 << 64) - 1, i128::MAX / 3];
        let all: Vec<i128> = edges.into_iter().chain(edges.map(|edge: i128| -edge)).collect();
        for &a in &all {
            assert_eq!((small(a).to_string(), small(a).checked_neg()), (a.to_string(), Some(small(-a))));
            assert_eq!(!small(a), small(!a));
            for &b in &all {
                let (x, y) = (small(a), small(b));
                assert_eq!((x.checked_add(y), x.checked_sub(y)), (Some(small(a + b)), Some(small(a - b))), "{a} {b}");
                assert_eq!((x & y, x | y, x ^ y), (small(a & b), small(a | b), small(a ^ b)), "{a} {b}");
                assert_eq!(x.cmp(&y), a.cmp(&b), "{a} {b}");
                if let Some(product) = a.checked_mul(b) {
                    assert_eq!(x.checked_mul(y), Some(small(product)), "{a} {b}");
                }
                let (quotient, remainder) = if b == 0 { (0, 0) } else { (a / b, a % b) };
                assert_eq!(
                    (x.checked_div(y), x.checked_rem(y)),
                    (Some(small(quotient)), Some(small(remainder))),
                    "{a} {b}"
                );
                if (0..127).contains(&b) {
                    assert_eq!(x.checked_shr(y), Some(small(a >> b)), "{a} {b}");
                    if a.checked_mul(1 << b).is_some() {
                        assert_eq!(x.checked_shl(y), Some(small(a << b)), "{a} {b}");
                    }
                }
            }
        }
    }

    #[test]
    fn the_ends_of_the_range() {
        let one = Number::from(1);
        let most = Number::from(u128::MAX);
        let least = !most;
        assert_eq!(least.to_string(), format!("-{}", "340282366920938463463374607431768211456"));
        assert_eq!((most.checked_add(one), least.checked_sub(one), least.checked_neg()), (None, None, None));
        assert_eq!(
            (least.checked_add(one), most.checked_sub(one)),
            (most.checked_neg(), Some(Number::from(u128::MAX - 1)))
        );
        assert_eq!(least.checked_add(most), Some(small(-1)));
        assert_eq!((least.checked_mul(one), least.checked_mul(Number::ZERO)), (Some(least), Some(Number::ZERO)));
        assert_eq!(
            (least.checked_mul(small(-1)), most.checked_mul(Number::from(2)), least.checked_mul(least)),
            (None, None, None)
        );
        assert_eq!(most.checked_mul(small(-1)), most.checked_neg());
        // 2^128 = 3 * 113427455640312821154458202477256070485 + 1
        let third = 113_427_455_640_312_821_154_458_202_477_256_070_485;
        assert_eq!(
            (least.checked_div(Number::from(3)), least.checked_rem(Number::from(3))),
            (Some(small(-third)), Some(small(-1)))
        );
        assert_eq!(
            (least.checked_div(one), least.checked_rem(one), least.checked_rem(small(-1))),
            (Some(least), Some(small(0)), Some(small(0)))
        );
        assert_eq!((least.checked_div(small(-1)), least.checked_div(Number::from(2))), (None, Some(small(i128::MIN))));
        assert_eq!(
            (least.checked_div(least), most.checked_div(least), most.checked_rem(least)),
            (Some(one), Some(small(0)), Some(most))
        );
        let count = |count: u128| Number::from(count);
        assert_eq!(one.checked_shl(count(127)), Some(Number::from(1 << 127)));
        assert_eq!(
            (one.checked_shl(count(128)), one.checked_shl(small(-1)), one.checked_shr(small(-1))),
            (None, None, None)
        );
        assert_eq!((small(-1).checked_shl(count(128)), small(-1).checked_shl(count(129))), (Some(least), None));
        assert_eq!((least.checked_shr(count(127)), least.checked_shr(count(128))), (Some(small(-2)), Some(small(0))));
        assert_eq!((most.checked_shr(count(127)), most.checked_shr(most)), (Some(one), Some(small(0))));
        assert_eq!(Number::ZERO.checked_shl(most), Some(Number::ZERO));
        assert!(least < small(i128::MIN) && small(-1) < small(0) && small(i128::MAX) < most);
    }

    #[test]
    fn what_types_have() {
        for width in 1..=128 {
            let most = Number::from(mask(width));
            assert!(
                most.fits(width, false)
                    && (width == 128 || !most.checked_add(Number::from(1)).unwrap().fits(width, false))
            );
            assert!(!small(-1).fits(width, false));
            assert_eq!(most.width(false), width);
            let most = Number::from(mask(width) >> 1);
            let least = !most;
            assert!(most.fits(width, true) && !most.checked_add(Number::from(1)).unwrap().fits(width, true), "{width}");
            assert!(
                least.fits(width, true) && !least.checked_sub(Number::from(1)).unwrap().fits(width, true),
                "{width}"
            );
            assert_eq!((least.width(true), Number::of_bits(least.bits(width), width, true)), (width, least));
        }
    }
}
