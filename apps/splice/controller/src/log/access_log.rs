//! The access log: a line for each request that is over.
//!
//! | format | line |
//! |---|---|
//! | `common` | `10.0.1.11 - - [22/Nov/2026:10:13:30 +0000] "GET /x HTTP/1.1" 200 1234`: the Common Log Format |
//! | `combined` | the same with `Referer` and `User-Agent` |
//! | `json` | an object with all that is known; see [`Line`] |

use std::time::{Duration, SystemTime};

use control::access_log::{Entry, LogFormat};
use jiff::Timestamp;
use serde::Serialize;
use wire::flow_key::FlowKey;

use crate::cluster::Cluster;
use crate::connection::exchange::{Finished, Head};
use crate::settings::address::text_of;

/// Where common formats must have a status and there is none, because the client went before: that of nginx.
const CLIENT_CLOSED: u16 = 499;

/// A request that is over. Times are in milliseconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Line {
    /// When it began: RFC 3339.
    pub time: String,
    /// The client's address and port.
    pub client: String,
    /// The virtual address and port.
    pub address: String,
    /// Of the first line of the request. What is no such line is in `target`.
    pub method: String,
    /// See `method`.
    pub target: String,
    /// See `method`.
    pub version: String,
    /// The host that it was for.
    pub host: String,
    /// The status of the response.
    pub status: Option<u16>,
    /// Bytes of the response's body that arrived.
    pub bytes: u64,
    /// Bytes of the request that arrived at the server.
    pub request_bytes: u64,
    /// The service.
    pub service: String,
    /// The pool and the server that it was sent to last.
    pub pool: Option<String>,
    /// See `pool`.
    pub server: Option<String>,
    /// How long connecting to the server took; none on a connection that was there.
    pub connect_ms: Option<f64>,
    /// From the whole head of the request to the first byte of the response.
    pub first_byte_ms: Option<f64>,
    /// From the first byte of the request to the end.
    pub duration_ms: f64,
    /// Servers that it was sent to in vain.
    pub retries: u32,
    /// How it ended.
    pub ended: &'static str,
    /// The field `Referer`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub referer: Option<String>,
    /// The field `User-Agent`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_agent: Option<String>,
    /// The time once more, and the first line as it came.
    #[serde(skip)]
    pub(super) began: Timestamp,
    #[serde(skip)]
    pub(super) head: Head,
}

/// Nanoseconds as milliseconds, to the microsecond.
fn milliseconds(nanoseconds: u64) -> f64 {
    (nanoseconds / 1000) as f64 / 1e3
}

impl Line {
    /// Of an exchange of a client with a service.
    pub fn new(cluster: &Cluster, client: &FlowKey, service: usize, finished: &Finished) -> Line {
        let exchange = &finished.exchange;
        let head = exchange.head.as_deref().cloned().unwrap_or_default();
        let began = SystemTime::now().checked_sub(Duration::from_nanos(finished.late));
        let began = began.and_then(|time| Timestamp::try_from(time).ok()).unwrap_or_default();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let mut words = head.line.splitn(3, |byte| *byte == b' ').map(text);
        let (method, target, version) = match (words.next(), words.next(), words.next()) {
            (Some(method), Some(target), Some(version)) => (method, target, version),
            _ => (String::new(), text(&head.line), String::new()),
        };
        let server = exchange.server.map(|number| &cluster.servers[number]);
        let service = cluster.settings.services.get(service).map(|own| own.name.clone());
        Line {
            time: began.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string(),
            client: text_of(client.src, client.src_port),
            address: text_of(client.dst, client.dst_port),
            method,
            target,
            version,
            host: head.host.clone(),
            status: exchange.status,
            bytes: exchange.body(),
            request_bytes: exchange.up.bytes,
            service: service.unwrap_or_default(),
            pool: server.map(|own| own.pool.name.clone()),
            server: server.map(|own| own.server.name.clone()),
            connect_ms: exchange.connect.map(milliseconds),
            first_byte_ms: exchange.first_byte.map(milliseconds),
            duration_ms: milliseconds(finished.duration),
            retries: exchange.retries,
            ended: finished.ending.name(),
            referer: head.referer.as_deref().map(text),
            user_agent: head.agent.as_deref().map(text),
            began,
            head,
        }
    }

    /// As a format has it, with its end.
    pub fn text(&self, format: LogFormat) -> String {
        let client = self.client.rsplit_once(':').map_or("-", |(address, _)| address.trim_matches(['[', ']']));
        let entry = Entry {
            client,
            time: &self.began.strftime("%d/%b/%Y:%H:%M:%S +0000"),
            request: &self.head.line,
            status: self.status.unwrap_or(CLIENT_CLOSED),
            bytes: self.bytes,
            referer: self.head.referer.as_deref(),
            user_agent: self.head.agent.as_deref(),
        };
        entry.line(format, self)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn line(first: &[u8], agent: Option<&[u8]>) -> Line {
        let head = Head { line: first.to_vec(), referer: None, agent: agent.map(<[u8]>::to_vec), host: "h".into() };
        Line {
            time: "2026-11-22T10:13:30.000Z".into(),
            client: "[2001:db8::1]:4000".into(),
            address: "10.0.1.80:80".into(),
            method: String::new(),
            target: String::from_utf8_lossy(first).into_owned(),
            version: String::new(),
            host: "h".into(),
            status: Some(200),
            bytes: 1234,
            request_bytes: 80,
            service: "www".into(),
            pool: None,
            server: None,
            connect_ms: Some(0.25),
            first_byte_ms: None,
            duration_ms: 12.5,
            retries: 0,
            ended: crate::connection::exchange::Ending::Complete.name(),
            referer: None,
            user_agent: agent.map(|agent| String::from_utf8_lossy(agent).into_owned()),
            began: Timestamp::from_second(1_795_342_410).unwrap(),
            head,
        }
    }

    /// The Common Log Format, read strictly: the parts of a line, and what is left of it.
    fn read(line: &str) -> Option<([String; 5], &str)> {
        fn until<'t>(text: &'t str, end: &str) -> Option<(&'t str, &'t str)> {
            text.split_once(end)
        }
        let (client, rest) = until(line, " - - [")?;
        client.parse::<std::net::IpAddr>().ok()?;
        let (time, rest) = until(rest, "] \"")?;
        let parts: Vec<&str> = time.split([':', '/', ' ']).collect();
        let [day, month, year, hour, minute, second, "+0000"] = parts[..] else { return None };
        let numbers = [(day, 2, 31), (year, 4, 9999), (hour, 2, 23), (minute, 2, 59), (second, 2, 60)];
        let fits = |(text, length, most): (&str, usize, u32)| {
            text.len() == length && text.parse::<u32>().is_ok_and(|number| number <= most)
        };
        let months = "JanFebMarAprMayJunJulAugSepOctNovDec";
        if !numbers.into_iter().all(fits) || !months.contains(month) || month.len() != 3 {
            return None;
        }
        // No quote inside: each is escaped.
        let (request, rest) = until(rest, "\" ")?;
        if request.contains('"') || !request.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
            return None;
        }
        let (status, rest) = rest.split_at_checked(3)?;
        status.parse::<u16>().ok().filter(|status| (100..600).contains(status))?;
        let rest = rest.strip_prefix(' ')?;
        let end = rest.find([' ', '\n'])?;
        let (bytes, rest) = rest.split_at(end);
        if bytes != "-" && bytes.parse::<u64>().is_err() {
            return None;
        }
        Some(([client, time, request, status, bytes].map(str::to_owned), rest))
    }

    #[test]
    fn lines_are_as_their_formats_say() {
        let own = line(b"GET /a?b=c HTTP/1.1", Some(b"curl/8 \"x\""));
        let common = own.text(LogFormat::Common);
        assert_eq!(common, "2001:db8::1 - - [22/Nov/2026:10:13:30 +0000] \"GET /a?b=c HTTP/1.1\" 200 1234\n");
        let parts = ["2001:db8::1", "22/Nov/2026:10:13:30 +0000", "GET /a?b=c HTTP/1.1", "200", "1234"];
        assert_eq!(read(&common), Some((parts.map(str::to_owned), "\n")));
        assert_eq!(own.text(LogFormat::Combined), common.trim_end().to_owned() + " \"-\" \"curl/8 \\x22x\\x22\"\n");
        let json: serde_json::Value = serde_json::from_str(&own.text(LogFormat::Json)).unwrap();
        assert_eq!((&json["user_agent"], &json["connect_ms"]), (&"curl/8 \"x\"".into(), &0.25.into()));
        assert_eq!((&json["first_byte_ms"], &json["ended"]), (&serde_json::Value::Null, &"complete".into()));
        let nothing = Line { status: None, bytes: 0, ..line(b"", None) }.text(LogFormat::Common);
        assert!(nothing.ends_with("\"-\" 499 -\n"), "{nothing}");
    }

    proptest! {
        /// Whatever a client sends, it can't make a second line, end a field, or send something to a terminal.
        #[test]
        fn what_clients_send_stays_one_field(first in any::<Vec<u8>>(), agent in prop::option::of(any::<Vec<u8>>())) {
            let own = line(&first, agent.as_deref());
            let combined = own.text(LogFormat::Combined);
            let (parts, rest) = read(&combined).ok_or_else(|| TestCaseError::fail(combined.clone()))?;
            prop_assert_eq!(combined.matches('\n').count(), 1);
            prop_assert_eq!(combined.matches('"').count(), 6);
            prop_assert!(rest.starts_with(" \"") && rest.ends_with("\"\n"));
            // Nothing is lost: what is escaped can be read back.
            let mut back = Vec::new();
            let mut pieces = parts[2].split("\\x");
            back.extend(pieces.next().unwrap_or_default().bytes());
            for piece in pieces {
                back.push(u8::from_str_radix(&piece[..2], 16).unwrap());
                back.extend(piece[2..].bytes());
            }
            prop_assert_eq!(back, if first.is_empty() { b"-".to_vec() } else { first });
            let json = own.text(LogFormat::Json);
            prop_assert_eq!(json.matches('\n').count(), 1);
            prop_assert!(json.trim_end().chars().all(|c| !c.is_control()));
            prop_assert!(serde_json::from_str::<serde_json::Value>(&json).is_ok());
        }
    }
}
