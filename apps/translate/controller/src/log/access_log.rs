//! The access log: a line for each connection that is over.
//!
//! | format | line |
//! |---|---|
//! | `common` | `10.0.1.11 - - [22/Nov/2026:10:13:30 +0000] "GET /hall HTTP/1.1" 200 1234`: the Common Log Format |
//! | `combined` | the same with `Referer` and `User-Agent` |
//! | `json` | an object with all that is known; see [`Line`] |

use std::time::{Duration, SystemTime};

use control::access_log::{Entry, LogFormat};
use jiff::Timestamp;
use serde::Serialize;

use crate::proxy::world::Ended;

/// A connection that is over. Times are in milliseconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Line<'l> {
    /// When it began: RFC 3339.
    time: String,
    /// What is known of it.
    #[serde(flatten)]
    ended: &'l Ended,
    #[serde(skip)]
    began: Timestamp,
}

impl Line<'_> {
    /// Of a connection that has ended now.
    pub fn new(ended: &Ended, now: SystemTime) -> Line<'_> {
        let began = now.checked_sub(Duration::from_millis(ended.duration_ms));
        let began = began.and_then(|time| Timestamp::try_from(time).ok()).unwrap_or_default();
        Line { time: began.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string(), ended, began }
    }

    /// As a format has it, with its end.
    pub fn text(&self, format: LogFormat) -> String {
        let Ended { client, request, status, bytes, referer, user_agent, .. } = self.ended;
        let entry = Entry {
            client,
            time: &self.began.strftime("%d/%b/%Y:%H:%M:%S +0000"),
            request: request.as_bytes(),
            status: *status,
            bytes: *bytes,
            referer: referer.as_deref().map(str::as_bytes),
            user_agent: user_agent.as_deref().map(str::as_bytes),
        };
        entry.line(format, self)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value as Json;

    use super::*;

    fn ended(request: &str, agent: Option<&str>) -> Ended {
        Ended {
            id: 7,
            client: "10.0.1.11".into(),
            request: request.into(),
            stream: Some("hall".into()),
            status: 200,
            duration_ms: 12_500,
            packets: 10,
            bytes: 13_160,
            again: 1,
            nulls: 0,
            fresh: 0,
            skipped: 2,
            round_trip_us: 900,
            ended: "client_closed",
            user_agent: agent.map(str::to_owned),
            referer: None,
        }
    }

    fn written(ended: &Ended, format: LogFormat) -> String {
        // 22 November 2026, 10:13:42.5, when the connection of 12.5 s ends.
        let now = SystemTime::UNIX_EPOCH + Duration::from_millis(1_795_342_422_500);
        Line::new(ended, now).text(format)
    }

    #[test]
    fn lines_have_their_formats() {
        let one = ended("GET /hall HTTP/1.1", Some("VLC/3"));
        let common = "10.0.1.11 - - [22/Nov/2026:10:13:30 +0000] \"GET /hall HTTP/1.1\" 200 13160";
        assert_eq!(written(&one, LogFormat::Common), format!("{common}\n"));
        assert_eq!(written(&one, LogFormat::Combined), format!("{common} \"-\" \"VLC/3\"\n"));
        let json: Json = serde_json::from_str(&written(&one, LogFormat::Json)).unwrap();
        assert_eq!((&json["time"], &json["ended"]), (&"2026-11-22T10:13:30.000Z".into(), &"client_closed".into()));
        let none = Ended { bytes: 0, status: 408, request: String::new(), ..one };
        let common = "10.0.1.11 - - [22/Nov/2026:10:13:30 +0000] \"-\" 408 -\n";
        assert_eq!(written(&none, LogFormat::Common), common);
    }

    proptest! {
        #[test]
        fn whatever_clients_send_is_one_line(request in any::<String>(), agent in prop::option::of(any::<String>())) {
            let one = ended(&request, agent.as_deref());
            for format in [LogFormat::Common, LogFormat::Combined, LogFormat::Json] {
                let line = written(&one, format);
                let inside = line.strip_suffix('\n').unwrap();
                prop_assert!(!inside.chars().any(char::is_control), "{:?}", inside);
                if format == LogFormat::Json {
                    let json: Json = serde_json::from_str(inside).unwrap();
                    prop_assert_eq!(&json["request"], &Json::from(request.clone()));
                } else {
                    let quotes = if format == LogFormat::Common { 2 } else { 6 };
                    prop_assert_eq!(inside.matches('"').count(), quotes);
                }
            }
        }
    }
}
