//! A line of the access log for a request by HTTP.

use std::time::SystemTime;

use control::access_log::{Entry, LogFormat};
use jiff::Timestamp;
use serde::Serialize;

/// A request that was answered. Times are in milliseconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HttpLine {
    /// When it came, by the wall clock; RFC 3339 in JSON.
    #[serde(serialize_with = "time")]
    pub time: SystemTime,
    /// The client's address.
    pub client: String,
    /// Its method,
    pub method: String,
    /// and URL, without secrets.
    pub url: String,
    /// The stream's name, where it is one.
    pub stream: Option<String>,
    /// The answer's status,
    pub status: u16,
    /// and the bytes of its body that were sent.
    pub bytes: u64,
    /// Until all was sent.
    pub duration_ms: u64,
    /// The page that it is for.
    pub referer: Option<String>,
    /// The client's program, as it says.
    pub user_agent: Option<String>,
}

fn stamp(time: SystemTime) -> Timestamp {
    Timestamp::try_from(time).unwrap_or_default()
}

fn time<S: serde::Serializer>(time: &SystemTime, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(&stamp(*time).strftime("%Y-%m-%dT%H:%M:%S%.3fZ"))
}

impl HttpLine {
    /// As a format has it, with its end.
    pub fn text(&self, format: LogFormat) -> String {
        let request = format!("{} {} HTTP/1.1", self.method, self.url);
        let entry = Entry {
            client: &self.client,
            time: &stamp(self.time).strftime("%d/%b/%Y:%H:%M:%S +0000"),
            request: request.as_bytes(),
            status: self.status,
            bytes: self.bytes,
            referer: self.referer.as_deref().map(str::as_bytes),
            user_agent: self.user_agent.as_deref().map(str::as_bytes),
        };
        entry.line(format, self)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn lines_have_their_formats() {
        let line = HttpLine {
            time: SystemTime::UNIX_EPOCH + Duration::from_millis(1_795_342_422_500),
            client: "10.0.1.11".into(),
            method: "GET".into(),
            url: "/door/5/0.ts?a=\"\n".into(),
            stream: Some("door".into()),
            status: 206,
            bytes: 188,
            duration_ms: 3,
            referer: None,
            user_agent: Some("hls".into()),
        };
        let common = "10.0.1.11 - - [22/Nov/2026:10:13:42 +0000] \"GET /door/5/0.ts?a=\\x22\\x0a HTTP/1.1\" 206 188";
        assert_eq!(line.text(LogFormat::Common), format!("{common}\n"));
        assert_eq!(line.text(LogFormat::Combined), format!("{common} \"-\" \"hls\"\n"));
        let own: serde_json::Value = serde_json::from_str(&line.text(LogFormat::Json)).unwrap();
        assert_eq!((&own["time"], &own["status"]), (&"2026-11-22T10:13:42.500Z".into(), &206.into()));
    }
}
