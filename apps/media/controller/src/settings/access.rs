//! Who may view or publish: users, tokens, addresses.

use std::fmt;
use std::net::IpAddr;

use wire::rtsp::auth::equal;

use super::is_in;

/// Who may view, or publish. Where there are neither users nor tokens, whoever has one of the addresses may.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// Users, each of whom proves a password,
    pub users: Vec<String>,
    /// and tokens: whoever has one of them in the URL needs no password.
    pub tokens: Vec<Secret>,
    /// Prefixes of addresses; all where there are none.
    pub addresses: Vec<(IpAddr, u8)>,
}

impl Access {
    /// Whether a client's address is one of these.
    pub fn takes(&self, address: IpAddr) -> bool {
        self.addresses.is_empty() || self.addresses.iter().any(|(prefix, length)| is_in(*prefix, *length, address))
    }

    /// Whether an address is all that is asked for.
    pub fn is_open(&self) -> bool {
        self.users.is_empty() && self.tokens.is_empty()
    }

    /// Whether a token is one of these. The time that it takes does not tell how much of it is right.
    pub fn knows(&self, token: &str) -> bool {
        self.tokens.iter().fold(false, |found, own| found | equal(&own.0, token))
    }
}

/// A text that is not shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_tokens_are_known() {
        let mut access = Access::default();
        assert!(access.is_open() && access.takes("10.0.0.1".parse().unwrap()) && !access.knows(""));
        access.addresses = vec![("10.0.1.0".parse().unwrap(), 24), ("2001:db8::".parse().unwrap(), 32)];
        for (address, taken) in [("10.0.1.9", true), ("10.0.2.9", false), ("2001:db8:1::1", true), ("::1", false)] {
            assert_eq!(access.takes(address.parse().unwrap()), taken, "{address}");
        }
        access.tokens = vec![Secret("first-token".into()), Secret("second-token".into())];
        assert!(access.knows("second-token") && !access.knows("second-toke") && !access.is_open());
        assert!(!format!("{access:?}").contains("first"));
    }
}
