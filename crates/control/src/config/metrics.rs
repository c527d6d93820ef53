//! `[metrics]`: where monitoring systems read what is counted.

use std::net::SocketAddr;
use std::str::FromStr;

use super::listen;
use crate::document::{self, Errors, Path, Value};

/// A port, for examples.
const PORT: u16 = 9464;

/// Where monitoring systems read what is counted, by HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metrics {
    /// Where they connect to.
    pub listen: SocketAddr,
    /// Names that they may call this machine, in small letters, beside its addresses and `localhost`.
    pub hosts: Vec<String>,
}

impl FromStr for Metrics {
    type Err = String;

    /// `ADDRESS:PORT`, or a port on loopback.
    fn from_str(text: &str) -> Result<Self, String> {
        listen::address(text, PORT).map(|listen| Metrics { listen, hosts: Vec::new() })
    }
}

/// `[metrics]`. Whether the address can be had is seen when the instance starts.
pub(super) fn metrics(value: Option<&Value>, errors: &mut Errors) -> Option<Metrics> {
    let root = Path::Root;
    let (value, path) = (value?, root.key("metrics"));
    let table = document::table(value, &path, errors)?;
    document::only(table, &path, &["listen", "hosts"], errors);
    let hosts = listen::hosts(table, &path, errors);
    let listen = listen::listen(value, table, &path, PORT, errors)?;
    Some(Metrics { listen, hosts })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Option<Metrics>, Vec<String>> {
        let mut errors = Errors::new("test.toml", text);
        let root = document::root(text, &mut errors);
        let found = metrics(root.get("metrics"), &mut errors);
        let all: Vec<_> = errors.finish().iter().map(ToString::to_string).collect();
        if all.is_empty() { Ok(found) } else { Err(all) }
    }

    #[test]
    fn a_port_alone_is_one_of_loopback() {
        let found = |text: &str| read(text).unwrap().map(|own| (own.listen.to_string(), own.hosts));
        assert_eq!(found(""), None);
        for listen in ["9464", "\"9464\"", "\"127.0.0.1:9464\""] {
            let text = format!("[metrics]\nlisten = {listen}");
            assert_eq!(found(&text), Some(("127.0.0.1:9464".into(), vec![])), "{text}");
        }
        let text = "metrics = { listen = \"[::]:1\", hosts = [\"Edge.example\"] }";
        assert_eq!(found(text), Some(("[::]:1".into(), vec!["edge.example".into()])));
    }

    #[test]
    fn mistakes_are_told() {
        for (text, said) in [
            ("[metrics]", "metrics: `listen` is missing"),
            (
                "[metrics]\nlisten = \"localhost\"",
                "metrics.listen: \"localhost\" is none; accepted: an address and port",
            ),
            ("[metrics]\nlisten = 65536", "metrics.listen: 65536 is out of range"),
            ("[metrics]\nlisten = true", "metrics.listen: this is true or false"),
            ("[metrics]\nlisten = 1\nport = 2", "metrics.port: unknown key"),
            ("[metrics]\nlisten = 1\nhosts = [\"a b\"]", "metrics.hosts[0]: \"a b\" is none"),
        ] {
            let errors = read(text).unwrap_err();
            assert!(errors.len() == 1 && errors[0].contains(said), "{text}: {errors:?}");
        }
    }
}
