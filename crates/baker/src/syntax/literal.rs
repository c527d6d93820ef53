//! Values of literals.

use std::net::Ipv6Addr;

use super::kind::SyntaxKind;

/// What a literal stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LiteralValue {
    /// A number; a duration in nanoseconds.
    Int(u128),
    /// A MAC address in its low 48 bits, the first pair most significant.
    Mac(u64),
    /// An IPv4 address, the first part most significant.
    Ipv4(u32),
    /// An IPv6 address, the first group most significant.
    Ipv6(u128),
    /// `true` or `false`.
    Bool(bool),
    /// `null`.
    Null,
}

/// Why a literal has no value. The parser has reported it already.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LiteralError {
    /// The number needs more than 128 bits.
    TooBig,
    /// Not a number: no digit, a wrong digit or suffix, a misplaced `_`.
    BadNumber,
    /// A number with a decimal point.
    Fraction,
    /// Not six pairs.
    BadMac,
    /// Not four parts.
    BadIpv4,
    /// Neither eight groups nor fewer around one `::`.
    BadIpv6,
    /// A part of an IPv4 address is above 255.
    Ipv4Part,
}

/// The value of a token; `None` when the token is no literal.
pub(super) fn decode(kind: SyntaxKind, text: &str) -> Option<Result<LiteralValue, LiteralError>> {
    Some(match kind {
        SyntaxKind::Int => int(text).map(LiteralValue::Int),
        SyntaxKind::Mac => mac(text).map(LiteralValue::Mac),
        SyntaxKind::Ipv4 => ipv4(text).map(LiteralValue::Ipv4),
        SyntaxKind::Ipv6 => {
            text.parse().map(|address: Ipv6Addr| LiteralValue::Ipv6(address.into())).map_err(|_| LiteralError::BadIpv6)
        }
        SyntaxKind::TrueKw => Ok(LiteralValue::Bool(true)),
        SyntaxKind::FalseKw => Ok(LiteralValue::Bool(false)),
        SyntaxKind::NullKw => Ok(LiteralValue::Null),
        _ => return None,
    })
}

/// A duration as in a program, such as `30s`, in nanoseconds.
pub fn duration(text: &str) -> Option<u64> {
    let has_unit = text.ends_with(|c: char| c.is_ascii_alphabetic()) && !text.starts_with("0x");
    int(text).ok().filter(|_| has_unit).and_then(|ns| u64::try_from(ns).ok())
}

fn int(text: &str) -> Result<u128, LiteralError> {
    let (digits, radix) = match text.as_bytes() {
        [b'0', b'x', ..] => (&text[2..], 16),
        [b'0', b'b', ..] => (&text[2..], 2),
        _ => (text, 10),
    };
    let (digits, unit) = if radix == 10 { split_unit(digits) } else { (digits, 1) };
    // `_` stands between two digits, so no piece between two `_` is empty.
    if digits.split('_').any(|piece| piece.is_empty() || !piece.chars().all(|c| c.is_digit(radix))) {
        return Err(LiteralError::BadNumber);
    }
    let number = u128::from_str_radix(&digits.replace('_', ""), radix).ok();
    number.and_then(|number| number.checked_mul(unit)).ok_or(LiteralError::TooBig)
}

/// A duration's digits and its unit in nanoseconds; 1 without a unit.
fn split_unit(text: &str) -> (&str, u128) {
    const UNITS: [(&str, u128); 6] = [
        ("ns", 1),
        ("us", 1_000),
        ("ms", 1_000_000),
        ("min", 60_000_000_000),
        ("h", 3_600_000_000_000),
        ("s", 1_000_000_000),
    ];
    UNITS.iter().find_map(|(unit, ns)| Some((text.strip_suffix(unit)?, *ns))).unwrap_or((text, 1))
}

fn mac(text: &str) -> Result<u64, LiteralError> {
    let pairs: Vec<&str> = text.split(':').collect();
    if pairs.len() != 6 || pairs.iter().any(|p| p.len() != 2) {
        return Err(LiteralError::BadMac);
    }
    u64::from_str_radix(&pairs.concat(), 16).map_err(|_| LiteralError::BadMac)
}

fn ipv4(text: &str) -> Result<u32, LiteralError> {
    let parts: Vec<&str> = text.split('.').collect();
    if parts.iter().any(|p| p.is_empty() || !p.bytes().all(|b| b.is_ascii_digit())) {
        return Err(LiteralError::BadIpv4);
    }
    match parts.len() {
        2 => Err(LiteralError::Fraction),
        4 => {
            // A part with too many digits to parse is above 255 too.
            let byte = |p: &&str| p.parse::<u8>().map_err(|_| LiteralError::Ipv4Part);
            parts.iter().try_fold(0u32, |address, p| Ok(address << 8 | u32::from(byte(p)?)))
        }
        _ => Err(LiteralError::BadIpv4),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        assert_eq!(int("0"), Ok(0));
        assert_eq!(int("1_000"), Ok(1000));
        assert_eq!(int("010"), Ok(10), "no octal numbers");
        assert_eq!(int("0xFf_ff"), Ok(0xffff));
        assert_eq!(int("0b1_0"), Ok(2));
        assert_eq!(int("340282366920938463463374607431768211455"), Ok(u128::MAX));
        assert_eq!(int("340282366920938463463374607431768211456"), Err(LiteralError::TooBig));
        assert_eq!([int("7ns"), int("60s"), int("1_500ms")], [Ok(7), Ok(60_000_000_000), Ok(1_500_000_000)]);
        assert_eq!([int("2us"), int("3min"), int("1h")], [Ok(2_000), Ok(180_000_000_000), Ok(3_600_000_000_000)]);
        for bad in ["0x", "0b2", "1_", "1__0", "0x_1", "0X1", "60sec", "0x60s", "s", "1_s", "1e3", "_"] {
            assert_eq!(int(bad), Err(LiteralError::BadNumber), "{bad}");
        }
    }

    #[test]
    fn addresses() {
        assert_eq!(mac("aa:bb:cc:dd:ee:0F"), Ok(0xaabb_ccdd_ee0f));
        assert_eq!(mac("aa:bb:cc:dd:ee"), Err(LiteralError::BadMac));
        assert_eq!(mac("aa:bb:cc:dd:ee:fg"), Err(LiteralError::BadMac));
        assert_eq!(mac("aa:bb:cc:dd:+e:ff"), Err(LiteralError::BadMac));
        assert_eq!(ipv4("10.0.0.255"), Ok(0x0a00_00ff));
        assert_eq!(ipv4("10.0.0.256"), Err(LiteralError::Ipv4Part));
        assert_eq!(ipv4("10.0.0.99999999999999999999"), Err(LiteralError::Ipv4Part));
        assert_eq!(ipv4("10.0.0"), Err(LiteralError::BadIpv4));
        assert_eq!(ipv4("1.5"), Err(LiteralError::Fraction));
    }
}
