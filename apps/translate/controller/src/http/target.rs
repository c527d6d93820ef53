//! What the URL of a request means.
//!
//! | URL | |
//! |---|---|
//! | `/NAME` | a stream of the configuration |
//! | `/rtp/[source@]group:port`, `/udp/…` | RTP, or an MPEG transport stream without RTP, to a group or an own address |
//! | `/rtsp/host[:port]/path` | a stream of an RTSP server |
//! | `/playlist.m3u`, `/playlist.m3u8` | all streams of the configuration |
//! | `/status`, `/status.json` | what passes |
//! | others | the host's own HTTP server's |

use std::borrow::Cow;

use media::settings::plain::is_place;
use serde::{Deserialize, Serialize};
use wire::rtsp::url::{self, host_port};

use super::place::{self, Place};
use super::refusal::{BAD_PLACE, BAD_URL, NO_INTERFACE, NOT_ALLOWED, Refusal, SEEK, SNAPSHOT};
use super::request::Request;
use crate::settings::Settings;

/// Where a stream comes from, as clients name it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Source {
    /// The configuration says it.
    Named(String),
    /// A server: `HOST[:PORT]/PATH`.
    Server(String),
    /// Whoever sends to a place.
    Place(Place),
}

impl Source {
    /// The name in the configuration.
    pub fn name(&self) -> Option<&str> {
        match self {
            Source::Named(name) => Some(name),
            _ => None,
        }
    }

    /// As operators see it.
    pub fn shown(&self) -> String {
        match self {
            Source::Named(name) => name.clone(),
            Source::Server(rest) => url::shown(&format!("rtsp://{rest}")),
            Source::Place(Place { source, address, port }) => {
                let place = url::authority(&address.to_string(), Some(*port));
                source.map_or_else(|| format!("rtp://{place}"), |source| format!("rtp://{source}@{place}"))
            }
        }
    }
}

/// What a request is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A stream.
    Stream(Source),
    /// The list of all streams.
    Playlist,
    /// What passes; as JSON, or a page.
    Status {
        /// Whether as JSON.
        json: bool,
    },
    /// None of the proxy's own.
    Other,
}

/// Parameters of a URL's query that hold a token.
pub const TOKENS: [&str; 2] = ["token", "r2h-token"];

/// The token of a request: in the query, or as rtp2httpd takes it, in a cookie or in `User-Agent`.
pub fn token(request: &Request) -> Option<String> {
    let pairs = |text: &str, between: char, name: &str| {
        let found = text.split(between).filter_map(|own| own.trim().split_once('='));
        found.into_iter().find(|(own, _)| *own == name).map(|(_, value)| value.to_owned())
    };
    let query = request.query.as_deref().unwrap_or("");
    let cookie = request.cookie.as_deref().unwrap_or("");
    let agent = request.agent.as_deref().unwrap_or("");
    let in_query = TOKENS.iter().find_map(|name| pairs(query, '&', name));
    let in_cookie = || pairs(cookie, ';', TOKENS[1]);
    let in_agent = || agent.split_whitespace().find_map(|own| own.strip_prefix("R2HTOKEN/").map(str::to_owned));
    in_query.or_else(in_cookie).or_else(in_agent)
}

/// What a request means.
///
/// # Errors
/// Why it means nothing that may be had.
pub fn target(request: &Request, settings: &Settings) -> Result<Target, Refusal> {
    let path = request.path.strip_prefix('/').unwrap_or(&request.path);
    let query = request.query.as_deref();
    let (first, rest) = path.split_once('/').unwrap_or((path, ""));
    match first {
        "rtp" | "udp" if path.contains('/') => {
            stream_query(request)?;
            let text = rest.strip_suffix('/').unwrap_or(rest);
            // udpxy knows a `%` between address and port, so what is written so comes first.
            let found = place::read(text).or_else(|| place::read(&decoded(text)?)).ok_or(BAD_PLACE)?;
            let allowed = settings.permits_group(found.address) && is_place(found.address);
            // One of the configuration is that, by whatever name it is asked for.
            if let Some(name) = settings.named(&found) {
                return Ok(Target::Stream(Source::Named(name.to_owned())));
            }
            if !allowed { Err(NOT_ALLOWED) } else { Ok(Target::Stream(Source::Place(found))) }
        }
        "rtsp" if path.contains('/') => {
            stream_query(request)?;
            let end = rest.find('/').unwrap_or(rest.len());
            let (host, port) = host_port(&rest[..end]).ok_or(BAD_URL)?;
            if !settings.sources.permits(host, port.unwrap_or(url::PORT)) {
                return Err(NOT_ALLOWED);
            }
            let path = &rest[end..];
            if !path.bytes().all(|byte| byte.is_ascii_graphic()) {
                return Err(BAD_URL);
            }
            let own = |name: &str| TOKENS.contains(&name) || name.starts_with("r2h-");
            let others = query.unwrap_or("").split('&').filter(|part| !part.is_empty());
            let others: Vec<&str> = others.filter(|part| !own(part.split('=').next().unwrap_or(""))).collect();
            let query = if others.is_empty() { String::new() } else { format!("?{}", others.join("&")) };
            Ok(Target::Stream(Source::Server(format!("{}{path}{query}", url::authority(host, port)))))
        }
        _ => {
            let name = decoded(path).ok_or(BAD_URL)?;
            let name = name.strip_suffix('/').unwrap_or(&name);
            match name {
                "playlist.m3u" | "playlist.m3u8" if settings.pages => Ok(Target::Playlist),
                "status" | "status.json" if settings.pages => Ok(Target::Status { json: name.ends_with("json") }),
                name if settings.sources.stream(name).is_some() => {
                    stream_query(request)?;
                    Ok(Target::Stream(Source::Named(name.to_owned())))
                }
                _ => Ok(Target::Other),
            }
        }
    }
}

/// What is asked of a stream beside itself. What is only about how fast it begins (FCC), or about packets that are sent
/// in addition (FEC), is passed over.
fn stream_query(request: &Request) -> Result<(), Refusal> {
    if request.wants_picture {
        return Err(SNAPSHOT);
    }
    for part in request.query.as_deref().unwrap_or("").split('&') {
        match part.split_once('=').unwrap_or((part, "")) {
            ("playseek" | "tvdr" | "r2h-seek-name", _) => return Err(SEEK),
            ("snapshot", value) if !["", "0"].contains(&value) => return Err(SNAPSHOT),
            ("r2h-ifname", _) => return Err(NO_INTERFACE),
            _ => {}
        }
    }
    Ok(())
}

/// A text without percent encoding (RFC 3986 section 2.1). None where it is wrong, or no text.
fn decoded(text: &str) -> Option<Cow<'_, str>> {
    if !text.contains('%') {
        return Some(Cow::Borrowed(text));
    }
    let bytes = text.as_bytes();
    let (mut out, mut at) = (Vec::with_capacity(bytes.len()), 0);
    while at < bytes.len() {
        if bytes[at] != b'%' {
            out.push(bytes[at]);
            at += 1;
            continue;
        }
        let digits = bytes.get(at + 1..at + 3).filter(|two| two.iter().all(u8::is_ascii_hexdigit))?;
        out.push(u8::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()?);
        at += 3;
    }
    String::from_utf8(out).ok().filter(|text| !text.chars().any(char::is_control)).map(Cow::Owned)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use media::settings::{Allowed, Named};
    use proptest::prelude::*;

    use super::*;
    use crate::http::request::Reader;

    fn settings() -> Settings {
        let sources = media::settings::Settings {
            origins: vec![Allowed::Prefix { address: "10.0.2.0".parse().unwrap(), length: 24 }],
            streams: vec![Named { name: "tv/hall".into(), url: "rtsp://c/1".into(), ..Named::default() }],
            ..media::settings::Settings::default()
        };
        let groups = vec![("239.0.0.0".parse().unwrap(), 8), ("ff00::".parse().unwrap(), 8)];
        Settings { sources: Arc::new(sources), groups, ..Settings::default() }
    }

    fn request(target: &str, fields: &str) -> Request {
        let text = format!("GET {target} HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
        Reader::default().push(text.as_bytes(), 8192).unwrap().unwrap().0
    }

    fn asked(url: &str) -> Result<Target, Refusal> {
        target(&request(url, ""), &settings())
    }

    #[test]
    fn urls_mean_streams() {
        let place = |text: &str| Ok(Target::Stream(Source::Place(place::read(text).unwrap())));
        let server = |text: &str| Ok(Target::Stream(Source::Server(text.into())));
        for (url, expected) in [
            ("/tv/hall", Ok(Target::Stream(Source::Named("tv/hall".into())))),
            ("/tv%2Fhall/?token=x", Ok(Target::Stream(Source::Named("tv/hall".into())))),
            ("/rtp/239.1.2.3:5004", place("239.1.2.3:5004")),
            ("/udp/239.1.2.3:5004/", place("239.1.2.3:5004")),
            ("/udp/239.1.2.3%24012", place("239.1.2.3:24012")),
            ("/rtp/239.1.2.3%3a5004?fcc=10.0.0.1:8027&fcc-type=huawei&fec=4055", place("239.1.2.3:5004")),
            ("/rtp/10.0.0.9@239.1.2.3:5004", place("10.0.0.9@239.1.2.3:5004")),
            ("/rtp/%5Bff15::1%5D:5004", place("[ff15::1]:5004")),
            ("/rtsp/10.0.2.11/ch?a=b&token=x&r2h-token=y", server("10.0.2.11/ch?a=b")),
            ("/rtsp/10.0.2.11:8554/a/b", server("10.0.2.11:8554/a/b")),
            ("/rtsp/10.0.2.11", server("10.0.2.11")),
            ("/playlist.m3u", Ok(Target::Playlist)),
            ("/status/", Ok(Target::Status { json: false })),
            ("/status.json", Ok(Target::Status { json: true })),
            ("/", Ok(Target::Other)),
            ("/rtp", Ok(Target::Other)),
            ("/tv/hall/x", Ok(Target::Other)),
            ("/index.html", Ok(Target::Other)),
        ] {
            assert_eq!(asked(url), expected, "{url}");
        }
    }

    #[test]
    fn what_may_not_be_had_is_refused() {
        for (url, refusal) in [
            ("/rtp/240.1.2.3:5004", NOT_ALLOWED),
            ("/rtp/10.0.2.1:5004", NOT_ALLOWED),
            ("/rtp/[ff02::1]:5004", NOT_ALLOWED),
            ("/rtp/127.0.0.1:5004", NOT_ALLOWED),
            ("/rtp/", BAD_PLACE),
            ("/rtp/239.1.2.3", BAD_PLACE),
            ("/udp/camera:5004", BAD_PLACE),
            ("/rtsp/10.0.3.11/x", NOT_ALLOWED),
            ("/rtsp/127.0.0.1/x", NOT_ALLOWED),
            ("/rtsp/u:p@10.0.2.11/x", BAD_URL),
            ("/rtsp//x", BAD_URL),
            ("/rtsp/10.0.2.11/x?playseek=20240101120000", SEEK),
            ("/tv/hall?snapshot=1", SNAPSHOT),
            ("/rtp/239.1.2.3:1?r2h-ifname=eth0", NO_INTERFACE),
            ("/a%00b", BAD_URL),
            ("/a%zz", BAD_URL),
            ("/a%ff", BAD_URL),
        ] {
            assert_eq!(asked(url), Err(refusal), "{url}");
        }
        let shut = Settings::default();
        assert_eq!(target(&request("/rtp/239.1.2.3:1", ""), &shut), Err(NOT_ALLOWED));
        assert_eq!(target(&request("/rtsp/10.0.2.11/a", ""), &shut), Err(NOT_ALLOWED));
    }

    #[test]
    fn tokens_are_found_where_players_put_them() {
        for (url, fields, found) in [
            ("/x?token=one", "", Some("one")),
            ("/x?a=b&r2h-token=two", "", Some("two")),
            ("/x", "Cookie: a=b; r2h-token=three\r\n", Some("three")),
            ("/x", "User-Agent: mpv R2HTOKEN/four\r\n", Some("four")),
            ("/x?mytoken=no", "Cookie: token2=no\r\n", None),
        ] {
            assert_eq!(token(&request(url, fields)).as_deref(), found, "{url} {fields}");
        }
    }

    proptest! {
        #[test]
        fn any_url_is_read_or_refused(path in "(/(rtp|udp|rtsp))?/[!-~]{0,40}") {
            if let Ok(Some((request, _))) = Reader::default().push(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes(), 8192)
                && let Ok(Target::Stream(source)) = target(&request, &settings())
            {
                prop_assert!(!source.shown().is_empty());
            }
        }
    }
}
