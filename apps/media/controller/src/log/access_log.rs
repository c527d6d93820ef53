//! The access log: a line for each session that is over.
//!
//! | format | line |
//! |---|---|
//! | `common` | `10.0.1.11 - - [22/Nov/2026:10:13:30 +0000] "PLAY rtsp://proxy/door RTSP/1.0" 200 1234`: the Common Log Format; SETUP in the place of PLAY where nothing was played |
//! | `combined` | the same with `Referer`, which RTSP does not have, and `User-Agent` |
//! | `json` | an object with all that is known; see [`Line`] |

use std::time::{Duration, SystemTime};

use control::access_log::{Entry, LogFormat};
use jiff::Timestamp;
use serde::Serialize;

use crate::proxy::accounts::Ended;

/// A session that is over. Times are in milliseconds.
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
    /// Of a session that has ended now.
    pub fn new(ended: &Ended, now: SystemTime) -> Line<'_> {
        let began = now.checked_sub(Duration::from_millis(ended.duration_ms));
        let began = began.and_then(|time| Timestamp::try_from(time).ok()).unwrap_or_default();
        Line { time: began.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string(), ended, began }
    }

    /// As a format has it, with its end.
    pub fn text(&self, format: LogFormat) -> String {
        let Ended { client, url, bytes, playing_ms, user_agent, .. } = self.ended;
        let method = if *playing_ms == 0 && *bytes == 0 { "SETUP" } else { "PLAY" };
        let request = format!("{method} {url} RTSP/1.0");
        let entry = Entry {
            client,
            time: &self.began.strftime("%d/%b/%Y:%H:%M:%S +0000"),
            request: request.as_bytes(),
            status: 200,
            bytes: *bytes,
            referer: None,
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
    use crate::proxy::session::Ending;

    fn ended(url: &str, agent: Option<&str>) -> Ended {
        Ended {
            id: 7,
            client: "10.0.1.11".into(),
            url: url.into(),
            stream: Some("door".into()),
            origin: "rtsp://10.0.2.11/1".into(),
            server: None,
            cache: None,
            transport: "udp",
            duration_ms: 12_500,
            playing_ms: 12_000,
            packets: 10,
            bytes: 13_280,
            lost: Some(1),
            ended: "teardown",
            user_agent: agent.map(str::to_owned),
            why: Ending::Teardown,
            carried: Vec::new(),
        }
    }

    fn written(ended: &Ended, format: LogFormat) -> String {
        // 22 November 2026, 10:13:42.5, when the session of 12.5 s ends.
        let now = SystemTime::UNIX_EPOCH + Duration::from_millis(1_795_342_422_500);
        Line::new(ended, now).text(format)
    }

    #[test]
    fn lines_have_their_formats() {
        let one = ended("rtsp://proxy/door", Some("VLC/3"));
        let common = "10.0.1.11 - - [22/Nov/2026:10:13:30 +0000] \"PLAY rtsp://proxy/door RTSP/1.0\" 200 13280";
        assert_eq!(written(&one, LogFormat::Common), format!("{common}\n"));
        assert_eq!(written(&one, LogFormat::Combined), format!("{common} \"-\" \"VLC/3\"\n"));
        let json: Json = serde_json::from_str(&written(&one, LogFormat::Json)).unwrap();
        assert_eq!((&json["time"], &json["ended"]), (&"2026-11-22T10:13:30.000Z".into(), &"teardown".into()));
        assert_eq!((&json["packets"], &json["server"]), (&10.into(), &Json::Null));
        let none = Ended { playing_ms: 0, bytes: 0, ..one };
        let common = "10.0.1.11 - - [22/Nov/2026:10:13:30 +0000] \"SETUP rtsp://proxy/door RTSP/1.0\" 200 -\n";
        assert_eq!(written(&none, LogFormat::Common), common);
    }

    proptest! {
        #[test]
        fn whatever_clients_send_is_one_line(url in any::<String>(), agent in prop::option::of(any::<String>())) {
            let one = ended(&url, agent.as_deref());
            for format in [LogFormat::Common, LogFormat::Combined, LogFormat::Json] {
                let line = written(&one, format);
                let inside = line.strip_suffix('\n').unwrap();
                prop_assert!(!inside.chars().any(char::is_control), "{:?}", inside);
                if format == LogFormat::Json {
                    let json: Json = serde_json::from_str(inside).unwrap();
                    prop_assert_eq!(&json["url"], &Json::from(url.clone()));
                } else {
                    let quotes = if format == LogFormat::Common { 2 } else { 6 };
                    prop_assert_eq!(inside.matches('"').count(), quotes);
                }
            }
        }
    }
}
