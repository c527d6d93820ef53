//! Hosts as requests name them (RFC 9110 section 7.2), read strictly: what one reader takes for a name and another for
//! something else is refused.

use std::net::Ipv6Addr;

use super::refused::Refused;

/// The name without its port, in small letters, of what may be a host (RFC 9110 section 7.2, RFC 3986 section 3.2.2): a
/// name, an address, an IPv6 address in brackets, or nothing.
pub fn host_name(value: &[u8]) -> Result<String, Refused> {
    let value = str::from_utf8(value).map_err(|_| Refused(400))?.trim_ascii();
    let end = match value.strip_prefix('[') {
        Some(rest) => {
            let address = rest.find(']').filter(|end| rest[..*end].parse::<Ipv6Addr>().is_ok());
            address.ok_or(Refused(400))? + 2
        }
        None => {
            let end = value.find(':').unwrap_or(value.len());
            if !is_name(&value.as_bytes()[..end]) {
                return Err(Refused(400));
            }
            end
        }
    };
    let (name, port) = value.split_at(end);
    let is_port = |digits: &str| {
        digits.bytes().all(|byte| byte.is_ascii_digit()) && (digits.is_empty() || digits.parse::<u16>().is_ok())
    };
    if !port.is_empty() && !port.strip_prefix(':').is_some_and(is_port) {
        return Err(Refused(400));
    }
    Ok(name.to_ascii_lowercase())
}

/// Whether bytes are a registered name (RFC 3986 section 3.2.2).
fn is_name(bytes: &[u8]) -> bool {
    let is_hex = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_hexdigit);
    bytes.iter().enumerate().all(|(at, byte)| match byte {
        b'%' => is_hex(at + 1) && is_hex(at + 2),
        byte => byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=".contains(byte),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By the grammar of RFC 3986 section 3.2.2, byte by byte.
    #[test]
    fn hosts_that_can_be_none_are_refused() {
        let host = |value: &str| host_name(value.as_bytes());
        for (value, name) in [
            ("WWW.Example", "www.example"),
            ("a_b-c.d:80", "a_b-c.d"),
            ("a:", "a"),
            ("a.:65535", "a."),
            ("10.0.0.1:8080", "10.0.0.1"),
            ("[2001:DB8::1]", "[2001:db8::1]"),
            ("[::ffff:10.0.0.1]:8080", "[::ffff:10.0.0.1]"),
            ("[::1]:", "[::1]"),
            ("xn--bcher-kva.example", "xn--bcher-kva.example"),
            ("b%C3%BCcher", "b%c3%bccher"),
            ("", ""),
        ] {
            assert_eq!(host(value).as_deref(), Ok(name), "{value:?}");
        }
        let none = [
            "a/b",
            "user@host",
            "a b",
            "a\tb",
            "a?b",
            "a#b",
            "a\\b",
            "\"a\"",
            "<a>",
            "a^b",
            "a`b",
            "{a}",
            "a|b",
            "a%",
            "a%4",
            "a%4g",
            "a:b",
            "a:80:80",
            "a:65536",
            "a:-1",
            "a:+1",
            "::1",
            "2001:db8::1",
            "[::1",
            "::1]",
            "[a]",
            "[]",
            "[::1]a",
            "[::1%eth0]",
            "[10.0.0.1]",
            "[[::1]]",
            "a[::1]",
            "b\u{fc}cher",
            "a\x7f",
            ":/",
            "@",
        ];
        for value in none {
            assert_eq!(host(value), Err(Refused(400)), "{value:?}");
        }
        let names = (0..=255u8).filter(|byte| host_name(&[b'a', *byte, b'b']).is_ok());
        let names: String = names.map(char::from).collect();
        assert_eq!(names, "!$&'()*+,-.0123456789;=ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz~");
    }
}
