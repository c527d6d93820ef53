//! A line of the access log for a request by HTTP.

use std::fmt::Write;
use std::time::SystemTime;

use control::access_log::{LogFormat, escape, json};
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
        let mut out = String::new();
        if format == LogFormat::Json {
            json(&mut out, &serde_json::to_string(self).unwrap_or_default());
        } else {
            let time = stamp(self.time).strftime("%d/%b/%Y:%H:%M:%S +0000");
            // Writing to a text can't fail.
            let _ = write!(out, "{} - - [{time}] \"", self.client);
            escape(&mut out, self.method.as_bytes());
            out.push(' ');
            escape(&mut out, self.url.as_bytes());
            let _ = match self.bytes {
                0 => write!(out, " HTTP/1.1\" {} -", self.status),
                bytes => write!(out, " HTTP/1.1\" {} {bytes}", self.status),
            };
        }
        if format == LogFormat::Combined {
            for own in [&self.referer, &self.user_agent] {
                out.push_str(" \"");
                escape(&mut out, own.as_deref().unwrap_or("-").as_bytes());
                out.push('"');
            }
        }
        out.push('\n');
        out
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
