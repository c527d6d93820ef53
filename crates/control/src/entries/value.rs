//! One number of a table entry in natural notation: integers, addresses, names, lists of ports.

use std::net::{Ipv4Addr, Ipv6Addr};

use baker::ir::LayoutField;
use baker::ir::arith::mask;
use toml::de::DeValue;

use super::names::PortNames;
use crate::document::kind;
use crate::messages::{did_you_mean, list};

/// A number as it is written: as the key of a TOML table, or as a TOML value.
#[derive(Clone, Copy)]
pub(super) enum Written<'v> {
    Key(&'v str),
    Value(&'v DeValue<'v>),
}

/// The number for a field, or what is wrong.
pub(super) fn number(field: &LayoutField, written: Written, ports: &PortNames) -> Result<u128, String> {
    let number = any_number(field, written, ports)?;
    if field.is_reason() && !field.names.iter().any(|(_, value)| *value == number) {
        return Err(format!("{number} is no drop reason of the program"));
    }
    Ok(number)
}

fn any_number(field: &LayoutField, written: Written, ports: &PortNames) -> Result<u128, String> {
    match written {
        Written::Key(text) => from_text(field, text, ports),
        Written::Value(DeValue::String(text)) => from_text(field, text, ports),
        Written::Value(DeValue::Boolean(value)) if field.width == 1 => Ok(u128::from(*value)),
        Written::Value(DeValue::Integer(integer)) => {
            let (digits, radix) = (integer.as_str(), integer.radix());
            let parsed = match digits.strip_prefix('-') {
                Some(digits) => u128::from_str_radix(digits, radix).map(|size| (true, size)),
                None => u128::from_str_radix(digits, radix).map(|size| (false, size)),
            };
            let (negative, size) = parsed.map_err(|_| format!("{integer} is out of range"))?;
            in_range(field, negative, size).ok_or_else(|| format!("{integer} is out of range"))
        }
        Written::Value(DeValue::Array(list)) if is_port_set(field) => {
            let mut set = 0;
            for element in list.iter() {
                let bit = 1 << port(field, element.get_ref(), ports)?;
                if set & bit != 0 {
                    return Err("a port is named twice".into());
                }
                set |= bit;
            }
            Ok(set)
        }
        Written::Value(other) => Err(format!("this is {}", kind(other))),
    }
}

/// Whether a list of ports may stand for the field: bit N for port N.
fn is_port_set(field: &LayoutField) -> bool {
    field.width >= 16 && !field.signed && field.names.is_empty()
}

/// A port of a list, by name or number: its bit must be in the field.
fn port(field: &LayoutField, element: &DeValue, ports: &PortNames) -> Result<u32, String> {
    let number = match element {
        DeValue::String(name) => ports.number(name).ok_or_else(|| {
            format!("there is no port {name:?}{}; there are {}", did_you_mean(name, ports.names()), list(ports.names()))
        })?,
        DeValue::Integer(number) => u8::from_str_radix(number.as_str(), number.radix())
            .ok()
            .filter(|number| *number > 0)
            .ok_or_else(|| format!("{number} is no port number: use 1 to 255"))?,
        other => return Err(format!("in this list of ports is {}", kind(other))),
    };
    if u32::from(number) < field.width {
        Ok(number.into())
    } else {
        Err(format!("port {number} is beyond the last bit, {}", field.width - 1))
    }
}

fn from_text(field: &LayoutField, text: &str, ports: &PortNames) -> Result<u128, String> {
    if let Some((_, value)) = field.names.iter().find(|(name, _)| name == text) {
        return Ok(*value);
    }
    if let Some(number) = ports.number(text).filter(|_| takes_port(field)) {
        return Ok(number.into());
    }
    let parsed = match text {
        "true" if field.width == 1 => Some(1),
        "false" if field.width == 1 => Some(0),
        _ => literal(field.width, text).and_then(|(negative, size)| in_range(field, negative, size)),
    };
    parsed.ok_or_else(|| {
        let names = field.names.iter().map(|(name, _)| name.as_str());
        let ports = ports.names().filter(|_| takes_port(field));
        match literal(field.width, text) {
            Some(_) => format!("{text} is out of range"),
            None => {
                format!("{text:?} is not a value of `{}`{}", field.type_name, did_you_mean(text, names.chain(ports)))
            }
        }
    })
}

/// Whether the name of a port may stand for the field.
fn takes_port(field: &LayoutField) -> bool {
    field.names.is_empty() && (8..=32).contains(&field.width)
}

/// A number as text: sign and size. Addresses are read where the width is theirs.
pub(crate) fn literal(width: u32, text: &str) -> Option<(bool, u128)> {
    let address = match width {
        48 => mac(text),
        32 => text.parse::<Ipv4Addr>().ok().map(|address| u32::from(address).into()),
        128 => text.parse::<Ipv6Addr>().ok().map(u128::from),
        _ => None,
    };
    if let Some(address) = address {
        return Some((false, address));
    }
    let (negative, digits) = text.strip_prefix('-').map_or((false, text), |digits| (true, digits));
    let (digits, radix) = match (digits.strip_prefix("0x"), digits.strip_prefix("0b")) {
        (Some(digits), _) => (digits, 16),
        (_, Some(digits)) => (digits, 2),
        _ => (digits, 10),
    };
    let valid = digits.chars().all(|c| c.is_digit(radix) || c == '_') && digits.starts_with(|c: char| c != '_');
    let size = u128::from_str_radix(&digits.replace('_', ""), radix).ok()?;
    valid.then_some((negative, size))
}

/// An address as text, where the width and the name of the type say that it is one.
pub(crate) fn address(width: u32, type_name: &str, value: u128) -> Option<String> {
    let named = type_name.contains("addr");
    match width {
        48 => {
            let bytes = &value.to_be_bytes()[10..];
            Some(bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(":"))
        }
        32 if named => Some(Ipv4Addr::from(value as u32).to_string()),
        128 if named => Some(Ipv6Addr::from(value).to_string()),
        _ => None,
    }
}

/// Six pairs of hexadecimal digits joined by `:`.
fn mac(text: &str) -> Option<u128> {
    let mut value = 0;
    let mut pairs = 0;
    for pair in text.split(':') {
        if pair.len() != 2 || !pair.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        value = value << 8 | u128::from_str_radix(pair, 16).ok()?;
        pairs += 1;
    }
    (pairs == 6).then_some(value)
}

/// The number in two's complement, where the field holds it.
fn in_range(field: &LayoutField, negative: bool, size: u128) -> Option<u128> {
    let all = mask(field.width);
    let most = if field.signed { all >> 1 } else { all };
    match negative {
        false => (size <= most).then_some(size),
        true if size == 0 => Some(0),
        true => (field.signed && size <= most + 1).then_some(size.wrapping_neg() & all),
    }
}

/// What may be written for a field.
pub(super) fn accepted(field: &LayoutField) -> String {
    if field.width == 1 && field.names.iter().all(|(name, _)| name == "true" || name == "false") {
        return "true or false".into();
    }
    let most = mask(field.width) >> u32::from(field.signed);
    let least = if field.signed { format!("-{}", most + 1) } else { "0".into() };
    let integer = format!("an integer from {least} to {most}");
    if field.is_reason() {
        return format!("one of {}", list(field.names.iter().map(|(name, _)| name.as_str())));
    }
    if !field.names.is_empty() {
        return format!("one of {}, or {integer}", list(field.names.iter().map(|(name, _)| name.as_str())));
    }
    match field.width {
        48 => format!("an Ethernet address such as \"02:00:00:00:00:01\", or {integer}"),
        32 => format!("{integer}, or an IPv4 address such as \"10.0.0.1\""),
        128 => "an IPv6 address such as \"2001:db8::1\", or an integer".into(),
        8 => format!("{integer}, or the name of a port"),
        _ if is_port_set(field) => format!("{integer}, or a list of ports for a bit mask: bit N stands for port N"),
        _ => integer,
    }
}
