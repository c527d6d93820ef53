//! Addresses and ports of URLs: `[source@]group:port`, as users of udpxy and rtp2httpd write them.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

/// Where a stream is sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Place {
    /// The only sender; none: any.
    pub source: Option<IpAddr>,
    /// A group, or an own address.
    pub address: IpAddr,
    /// The port.
    pub port: u16,
}

/// What may stand between address and port, as udpxy(1) has it; a colon is meant by all of them.
const SEPARATORS: [char; 6] = [':', '%', '~', '+', '-', '^'];

/// Reads `239.1.2.3:5004`, `10.0.0.1@232.1.2.3:5004`, `[ff3e::1]:5004`; none where it is none.
pub fn read(text: &str) -> Option<Place> {
    let (source, rest) = match text.split_once('@') {
        Some(("", rest)) => (None, rest),
        Some((source, rest)) => (Some(source), rest),
        None => (None, text),
    };
    let source = match source {
        // A port of the sender is not asked about.
        Some(text) => Some(address(text).or_else(|| with_port(text).map(|(address, _)| address))?),
        None => None,
    };
    let (address, port) = with_port(rest)?;
    let matches = source.is_none_or(|source| source.is_ipv4() == address.is_ipv4() && !source.is_multicast());
    matches.then_some(Place { source, address, port })
}

fn address(text: &str) -> Option<IpAddr> {
    match text.strip_prefix('[') {
        Some(rest) => rest.strip_suffix(']')?.parse::<std::net::Ipv6Addr>().ok().map(IpAddr::V6),
        None => text.parse::<std::net::Ipv4Addr>().ok().map(IpAddr::V4),
    }
}

fn with_port(text: &str) -> Option<(IpAddr, u16)> {
    let end = match text.starts_with('[') {
        true => text.find(']')? + 1,
        false => text.find(SEPARATORS)?,
    };
    let port = text.get(end..)?.strip_prefix(SEPARATORS)?;
    let digits = port.bytes().all(|byte| byte.is_ascii_digit());
    let port = port.parse().ok().filter(|port| digits && *port != 0)?;
    Some((address(&text[..end])?, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read() {
        let place = |source: Option<&str>, address: &str, port| Place {
            source: source.map(|own| own.parse().unwrap()),
            address: address.parse().unwrap(),
            port,
        };
        for (text, expected) in [
            ("239.1.2.3:5004", place(None, "239.1.2.3", 5004)),
            ("239.1.2.3%24012", place(None, "239.1.2.3", 24012)),
            ("224.0.2.26^24055", place(None, "224.0.2.26", 24055)),
            ("224.0.2.26-24055", place(None, "224.0.2.26", 24055)),
            ("@239.1.2.3:1", place(None, "239.1.2.3", 1)),
            ("10.170.185.82@232.22.137.57:5057", place(Some("10.170.185.82"), "232.22.137.57", 5057)),
            ("10.0.0.1:99@232.1.1.1:5057", place(Some("10.0.0.1"), "232.1.1.1", 5057)),
            ("[ff3e::1]:5004", place(None, "ff3e::1", 5004)),
            ("[2001:db8::1]@[ff3e::1]:5004", place(Some("2001:db8::1"), "ff3e::1", 5004)),
        ] {
            assert_eq!(read(text), Some(expected), "{text}");
        }
        for text in [
            "",
            ":",
            "239.1.2.3",
            "239.1.2.3:",
            "239.1.2.3:0",
            "239.1.2.3:65536",
            "239.1.2.3:+1",
            "239.1.2:5",
            "name:5",
            "ff3e::1:5004",
            "[ff3e::1]",
            "10.0.0.1@[ff3e::1]:1",
            "239.1.1.1@239.1.2.3:5",
            "a@239.1.2.3:5",
            "239.1.2.3:5004/x",
            "239.1.2.3:5:6",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
