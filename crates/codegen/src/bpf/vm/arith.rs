//! Arithmetic and comparisons of the virtual machine: RFC 9669, sections 4.1 to 4.3.

/// An operation of class 4 (32 bits) or 7 (64).
pub(super) fn arithmetic(op: u8, a: u64, b: u64, number: i32) -> Result<u64, String> {
    let is_short = op & 7 == 4;
    if op >> 4 == 0xd {
        let big = op & 8 != 0 || !is_short;
        return match (number, big) {
            (16, true) => Ok(u64::from((a as u16).swap_bytes())),
            (32, true) => Ok(u64::from((a as u32).swap_bytes())),
            (64, true) => Ok(a.swap_bytes()),
            (16 | 32 | 64, false) => Ok(a & (u64::MAX >> (64 - number))),
            _ => Err(format!("the order of {number} bits")),
        };
    }
    let (a, b) = if is_short { (u64::from(a as u32), u64::from(b as u32)) } else { (a, b) };
    let by = (b & if is_short { 31 } else { 63 }) as u32;
    let result = match op >> 4 {
        0 => a.wrapping_add(b),
        1 => a.wrapping_sub(b),
        2 => a.wrapping_mul(b),
        3 => a.checked_div(b).unwrap_or(0),
        4 => a | b,
        5 => a & b,
        6 => a << by,
        7 => a >> by,
        8 => a.wrapping_neg(),
        9 => a.checked_rem(b).unwrap_or(a),
        10 => a ^ b,
        11 => b,
        12 if is_short => (a as i32 >> by) as u64,
        12 => (a as i64 >> by) as u64,
        _ => return Err(format!("operation {op:#x}")),
    };
    Ok(if is_short { u64::from(result as u32) } else { result })
}

/// Whether a jump is taken that compares so many bits.
pub(super) fn decides<const BITS: u32>(condition: u8, a: u64, b: u64) -> Result<bool, String> {
    let cut = |value: u64| if BITS == 32 { u64::from(value as u32) } else { value };
    let sign = |value: u64| if BITS == 32 { i64::from(value as i32) } else { value as i64 };
    let (ua, ub, sa, sb) = (cut(a), cut(b), sign(a), sign(b));
    Ok(match condition {
        0 => true,
        1 => ua == ub,
        2 => ua > ub,
        3 => ua >= ub,
        4 => ua & ub != 0,
        5 => ua != ub,
        6 => sa > sb,
        7 => sa >= sb,
        10 => ua < ub,
        11 => ua <= ub,
        12 => sa < sb,
        13 => sa <= sb,
        _ => return Err(format!("jump {condition:#x}")),
    })
}
