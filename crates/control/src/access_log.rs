//! Access logs: what applications that log what is over have in common. Each has its own lines.
//!
//! Whatever a client sends it is one line, with nothing in it that a terminal or a reader takes for something else:
//! quotes, backslashes and all bytes that are no visible ASCII are written as `\xHH`, as Apache and nginx do, or as
//! JSON has them.

use std::fmt::{Display, Write};
use std::path::PathBuf;

use serde::Serialize;

use crate::document::{self, Errors, Path, Value};
use crate::line_log::LineLog;
use crate::messages::list;

/// Where and how an access log is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogSettings {
    /// The file.
    pub file: PathBuf,
    /// How a line looks.
    pub format: LogFormat,
}

/// How a line of an access log looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// The Common Log Format.
    Common,
    /// With `Referer` and `User-Agent`.
    Combined,
    /// A JSON object.
    Json,
}

impl LogSettings {
    /// Reads the section of a log, a table of `file` and `format`. None where there are errors.
    pub fn read(value: &Value, path: &Path, errors: &mut Errors) -> Option<LogSettings> {
        let table = document::table(value, path, errors)?;
        document::only(table, path, &["file", "format"], errors);
        let format = match table.get("format") {
            None => LogFormat::Common,
            Some(value) => {
                let accepted = format!("one of {}", list(["common", "combined", "json"]));
                document::parsed(value, &path.key("format"), &accepted, errors, |text| match text {
                    "common" => Some(LogFormat::Common),
                    "combined" => Some(LogFormat::Combined),
                    "json" => Some(LogFormat::Json),
                    _ => None,
                })?
            }
        };
        let accepted = "the path of a file";
        if !table.contains_key("file") {
            errors.add(value.span().start, path, "`file` is missing", accepted);
        }
        let file = document::text_at(table, path, "file", accepted, errors)?;
        Some(LogSettings { file: file.into(), format })
    }
}

/// An open log.
#[derive(Debug)]
pub struct AccessLog {
    settings: LogSettings,
    file: LineLog,
}

impl AccessLog {
    /// Opens it. None, and an error in the log of the process, where the system has no thread for it.
    pub fn open(settings: &LogSettings) -> Option<AccessLog> {
        let opened = LineLog::open(&settings.file);
        let failed = |error: &std::io::Error| tracing::error!(file = %settings.file.display(), %error, "no access log");
        let file = opened.inspect_err(failed).ok()?;
        Some(AccessLog { settings: settings.clone(), file })
    }

    /// What it was opened with.
    pub fn settings(&self) -> &LogSettings {
        &self.settings
    }

    /// Lines that were lost, and that were written.
    pub fn counts(&self) -> (u64, u64) {
        self.file.counts()
    }

    /// Adds a line, as its format has it, with its end. It never waits.
    pub fn line(&self, text: impl FnOnce(LogFormat) -> String) {
        self.file.line(text(self.settings.format).into_bytes());
    }
}

/// What the Common and the Combined Log Format say of a request.
pub struct Entry<'e> {
    /// The client's address.
    pub client: &'e str,
    /// When it began, as `22/Nov/2026:10:13:30 +0000`.
    pub time: &'e dyn Display,
    /// Its line, as it came; empty: there was none.
    pub request: &'e [u8],
    /// The answer's status,
    pub status: u16,
    /// and the bytes of its body.
    pub bytes: u64,
    /// The page that it is for.
    pub referer: Option<&'e [u8]>,
    /// The client's program, as it says.
    pub user_agent: Option<&'e [u8]>,
}

impl Entry<'_> {
    /// A line with its end: of this, or in JSON of all that is known, which is `object`.
    pub fn line(&self, format: LogFormat, object: &impl Serialize) -> String {
        let mut out = String::new();
        if format == LogFormat::Json {
            json(&mut out, &serde_json::to_string(object).unwrap_or_default());
        } else {
            // Writing to a text can't fail.
            let _ = write!(out, "{} - - [{}] \"", self.client, self.time);
            escape(&mut out, if self.request.is_empty() { b"-" } else { self.request });
            let _ = match self.bytes {
                0 => write!(out, "\" {} -", self.status),
                bytes => write!(out, "\" {} {bytes}", self.status),
            };
        }
        if format == LogFormat::Combined {
            for field in [self.referer, self.user_agent] {
                out.push_str(" \"");
                escape(&mut out, field.unwrap_or(b"-"));
                out.push('"');
            }
        }
        out.push('\n');
        out
    }
}

/// Appends JSON with those control characters escaped that it may have as they are: DEL, and those behind ASCII.
fn json(out: &mut String, text: &str) {
    for c in text.chars() {
        // Writing to a text can't fail.
        let _ = if c.is_control() { write!(out, "\\u{:04x}", u32::from(c)) } else { out.write_char(c) };
    }
}

/// Appends bytes so that they are one piece of a line between quotes.
fn escape(out: &mut String, bytes: &[u8]) {
    for byte in bytes {
        match byte {
            b' '..=b'~' if !matches!(byte, b'"' | b'\\') => out.push(char::from(*byte)),
            _ => _ = write!(out, "\\x{byte:02x}"),
        }
    }
}
