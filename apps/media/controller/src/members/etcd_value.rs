//! What stands under a member's key in etcd: `{"host": "10.0.2.1", "port": 8554, "weight": 1}`.

use serde_json::{Value as Json, json};

use super::found::{Found, Reason, server};
use crate::settings::members::Announce;

/// The longest value that is read, in bytes.
const LONGEST: usize = 4096;

/// A member of its name and its value. `port` and `weight` need not be there; other fields may.
pub(super) fn read(name: &str, value: &[u8]) -> Found {
    if value.len() > LONGEST {
        return Err(Reason::Value);
    }
    let value: Json = serde_json::from_slice(value).map_err(|_| Reason::Value)?;
    let host = value.get("host").and_then(Json::as_str).ok_or(Reason::Value)?;
    let number = |key: &str, why| match value.get(key) {
        None => Ok(None),
        Some(own) => own.as_u64().map(Some).ok_or(why),
    };
    let (port, weight) = (number("port", Reason::Port)?, number("weight", Reason::Weight)?);
    server(name, host, port, weight.unwrap_or(1))
}

/// The value that says where this proxy is.
pub(super) fn write(own: &Announce) -> String {
    let port = own.port.unwrap_or(wire::rtsp::url::PORT);
    json!({ "host": own.host, "port": port, "weight": own.weight }).to_string()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::settings::pools::Server;

    #[test]
    fn values() {
        let own = Announce { host: "10.0.2.1".into(), port: None, weight: 2, ttl: Duration::from_secs(10) };
        let expected = Server { name: "e1".into(), host: own.host.clone(), port: Some(554), weight: 2 };
        assert_eq!(read("e1", write(&own).as_bytes()), Ok(expected));
        let long = format!("{{\"host\": \"h\", \"x\": \"{}\"}}", "x".repeat(LONGEST));
        let deep = "[".repeat(4000);
        for (value, expected) in [
            ("", Reason::Value),
            ("{", Reason::Value),
            ("[]", Reason::Value),
            ("\"10.0.2.1:554\"", Reason::Value),
            ("{\"host\": 1}", Reason::Value),
            ("{\"host\": \"a b\"}", Reason::Host),
            ("{\"host\": \"h\", \"port\": \"554\"}", Reason::Port),
            ("{\"host\": \"h\", \"port\": -1}", Reason::Port),
            ("{\"host\": \"h\", \"weight\": 1.5}", Reason::Weight),
            (&long, Reason::Value),
            (&deep, Reason::Value),
        ] {
            assert_eq!(read("e1", value.as_bytes()), Err(expected), "{value}");
        }
        assert_eq!(read("e1", b"{\"host\": \"h\", \"more\": [1]}").map(|own| own.weight), Ok(1));
    }
}
