//! A client of HTTP that sends what it is told to.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value as Json;

/// Longer than any answer takes.
const PATIENCE: Duration = Duration::from_secs(20);

/// What came back.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Answer {
    /// Its body, which must be JSON.
    #[track_caller]
    pub fn json(&self) -> Json {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The JSON of an answer that is no refusal.
    #[track_caller]
    pub fn ok(&self) -> Json {
        assert_eq!(self.status, 200, "{self:?}");
        self.json()
    }

    /// The code of a refusal with this status.
    #[track_caller]
    pub fn refused(&self, status: u16) -> String {
        assert_eq!(self.status, status, "{self:?}");
        self.json()["code"].as_str().unwrap_or_else(|| panic!("{self:?}")).to_owned()
    }
}

/// A connection with its time limits.
pub fn connect(address: &str) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap_or_else(|error| panic!("{address}: {error}"));
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Sends bytes; all that comes back.
pub fn raw(address: &str, request: &[u8]) -> String {
    let mut stream = connect(address);
    // It may have enough before all is sent, and end the connection.
    let _ = stream.write_all(request);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

/// Asks with these fields, each with its end of line.
#[track_caller]
pub fn ask(address: &str, method: &str, path: &str, fields: &str, body: &str) -> Answer {
    let length = if body.is_empty() { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
    let host = if fields.contains("Host: ") { String::new() } else { format!("Host: {address}\r\n") };
    let text = raw(address, format!("{method} {path} HTTP/1.1\r\n{host}{length}{fields}\r\n{body}").as_bytes());
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{method} {path}: {text:?}"));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_else(|| panic!("{head}"));
    Answer { status, head: head.into(), body: body.into() }
}
