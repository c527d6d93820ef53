//! Reads `[controllers.media]`. apps/media/README.md describes every key.

pub mod access;
pub mod amounts;
mod cache;
mod http;
mod members;
mod peers;
mod plain;
mod pools;

use std::net::IpAddr;
use std::sync::Arc;

use control::access_log::LogSettings;
use control::document::{self, Errors, Path, Table, Value};
use toml::de::DeValue;
use wire::rtsp::url::{Url, host_port};

use super::cache::Record;
use super::pools::Pool;
use super::{Allowed, Credentials, Named, Settings};
use crate::proxy::MOST_RECEIVERS;

/// Streams with names of their own at most.
const MOST_STREAMS: usize = 4096;

/// Reads the settings. None where there are errors.
pub fn settings(value: &Value, path: &Path, errors: &mut Errors) -> Option<Settings> {
    let table = document::table(value, path, errors)?;
    let known = [
        "listen",
        "media_port",
        "ports",
        "origins",
        "pools",
        "peers",
        "streams",
        "users",
        "schemes",
        "viewers",
        "limits",
        "timeouts",
        "log",
        "cache",
        "http",
        "at_end",
    ];
    document::only(table, path, &known, errors);
    let mut settings = Settings::default();
    let mut reader =
        Reader { errors, pools: Vec::new(), reads: Reads { of_stream: &["record", "cache"], ..Reads::default() } };
    let accepted = "an address and a port, such as \"0.0.0.0:554\" or \"[::]:554\", or a list of them";
    let listen = reader.several(table, path, "listen", accepted, |text| text.parse().ok());
    if !listen.is_empty() {
        settings.listen = listen;
    }
    settings.media_port = reader.number(table, path, "media_port", 1024, 65534, settings.media_port.into()) as u16;
    if let Some(value) = table.get("media_port").filter(|_| settings.media_port % 2 != 0) {
        let problem = "this is an odd number";
        reader.errors.add(value.span().start, &path.key("media_port"), problem, "an even port; RTCP has the next one");
    }
    reader.ports(table, path, &mut settings);
    if (settings.media_port..=settings.media_port + 1).any(|port| settings.ports.contains(&port)) {
        let problem = format!("{} and the next port are among the ports of origins", settings.media_port);
        let at = table.get("media_port").or(table.get("ports")).map_or(0, |value| value.span().start);
        reader.errors.add(at, &path.key("media_port"), problem, "an even port outside of `ports`");
    }
    settings.cache = reader.cache(table, path);
    reader.origins(table, path, &mut settings);
    settings.peers = reader.peers(table, path);
    if let Some(value) = table.get("limits") {
        let (path, limits) = (path.key("limits"), &mut settings.limits);
        let table = document::table(value, &path, reader.errors)?;
        let known = [
            "connections",
            "sessions",
            "per_client",
            "receivers",
            "backlog",
            "late_join",
            "guesses",
            "bandwidth",
            "client_bandwidth",
        ];
        document::only(table, &path, &known, reader.errors);
        let mut number = |key, most, default: usize| reader.number(table, &path, key, 1, most, default as u64) as usize;
        limits.connections = number("connections", 100_000, limits.connections);
        limits.sessions = number("sessions", 60_000, limits.sessions);
        limits.per_client = number("per_client", 100_000, limits.per_client);
        limits.receivers = number("receivers", MOST_RECEIVERS as u64, limits.receivers);
        limits.backlog = number("backlog", 1 << 30, limits.backlog);
        limits.late_join = reader.number(table, &path, "late_join", 0, 1 << 30, limits.late_join as u64) as usize;
        let mut number = |key, most, default: usize| reader.number(table, &path, key, 1, most, default as u64) as usize;
        limits.guesses = number("guesses", 1000, limits.guesses as usize) as u32;
        limits.bandwidth = reader.rate(table, &path, "bandwidth");
        limits.client_bandwidth = reader.rate(table, &path, "client_bandwidth");
    }
    if let Some(value) = table.get("timeouts") {
        let (path, timeouts) = (path.key("timeouts"), &mut settings.timeouts);
        let table = document::table(value, &path, reader.errors)?;
        document::only(table, &path, &["session", "idle", "connect", "answer", "silence", "retry"], reader.errors);
        timeouts.session = reader.time(table, &path, "session", timeouts.session);
        timeouts.idle = reader.time(table, &path, "idle", timeouts.idle);
        timeouts.connect = reader.time(table, &path, "connect", timeouts.connect);
        timeouts.answer = reader.time(table, &path, "answer", timeouts.answer);
        timeouts.silence = reader.time_or_none(table, &path, "silence", timeouts.silence);
        timeouts.retry = reader.time_or_none(table, &path, "retry", timeouts.retry);
    }
    settings.http = reader.http(table, path, &settings);
    settings.log = table.get("log").and_then(|value| LogSettings::read(value, &path.key("log"), reader.errors));
    settings.outlast = outlast(table, path, reader.errors);
    settings.pools = reader.pools;
    errors.is_empty().then_some(settings)
}

/// Reads `at_end`: whether sessions, or connections, outlast an orderly end.
pub fn outlast(table: &Table, path: &Path, errors: &mut Errors) -> bool {
    let Some(value) = table.get("at_end") else { return false };
    let accepted = "\"end\", or \"keep\": sessions go on when Millrace is there again";
    let keeps = |text: &str| match text {
        "end" => Some(false),
        "keep" => Some(true),
        _ => None,
    };
    document::parsed(value, &path.key("at_end"), accepted, errors, keeps).unwrap_or_default()
}

/// How another application reads what its section has in common with this one's.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reads {
    /// Keys of a stream that are its own.
    pub of_stream: &'static [&'static str],
    /// Whether all streams are MPEG transport streams, which come from elsewhere.
    pub transport_streams: bool,
}

/// Keys that [`sources`] reads.
pub const SOURCES: [&str; 6] = ["ports", "origins", "users", "schemes", "viewers", "pools"];

/// Reads where streams come from, and who may view them, of another application's section: [`SOURCES`] and `streams`.
pub fn sources(table: &Table, path: &Path, reads: Reads, errors: &mut Errors) -> Settings {
    let mut settings = Settings::default();
    let mut reader = Reader { errors, pools: Vec::new(), reads };
    reader.ports(table, path, &mut settings);
    reader.origins(table, path, &mut settings);
    settings.pools = reader.pools;
    settings
}

/// `10.0.2.0/24`, `camera.example`, `camera.example:8554`, `2001:db8::1`.
fn allowed(text: &str) -> Option<Allowed> {
    if let Some((address, length)) = text.split_once('/') {
        let (address, length): (IpAddr, u8) = (address.parse().ok()?, length.parse().ok()?);
        let most = if address.is_ipv4() { 32 } else { 128 };
        return (length <= most).then_some(Allowed::Prefix { address, length });
    }
    if let Ok(address) = text.parse::<IpAddr>() {
        return Some(Allowed::Host { name: address.to_string(), port: None });
    }
    let (name, port) = host_port(text)?;
    Some(Allowed::Host { name: name.to_ascii_lowercase(), port })
}

/// Reads a value of a table, or a list of them; those that are wrong are left out.
pub fn several<T>(
    table: &Table,
    path: &Path,
    key: &str,
    accepted: &str,
    errors: &mut Errors,
    parse: impl Fn(&str) -> Option<T> + Copy,
) -> Vec<T> {
    let (Some(value), path) = (table.get(key), path.key(key)) else { return Vec::new() };
    let DeValue::Array(values) = value.get_ref() else {
        return document::parsed(value, &path, accepted, errors, parse).into_iter().collect();
    };
    let one = |(index, value)| document::parsed(value, &path.index(index), accepted, errors, parse);
    values.iter().enumerate().filter_map(one).collect()
}

struct Reader<'r, 't> {
    errors: &'r mut Errors<'t>,
    /// Those that streams may come from.
    pools: Vec<Pool>,
    reads: Reads,
}

impl Reader<'_, '_> {
    fn parsed<T>(
        &mut self,
        value: &Value,
        path: &Path,
        accepted: &str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Option<T> {
        document::parsed(value, path, accepted, self.errors, parse)
    }

    fn several<T>(
        &mut self,
        table: &Table,
        path: &Path,
        key: &str,
        accepted: &str,
        parse: impl Fn(&str) -> Option<T> + Copy,
    ) -> Vec<T> {
        several(table, path, key, accepted, self.errors, parse)
    }

    fn number(&mut self, table: &Table, path: &Path, key: &str, min: u64, max: u64, default: u64) -> u64 {
        let found = table.get(key).map(|value| document::integer(value, &path.key(key), min, max, self.errors));
        found.flatten().unwrap_or(default)
    }

    fn ports(&mut self, table: &Table, path: &Path, settings: &mut Settings) {
        let Some(value) = table.get("ports") else { return };
        let accepted = "the first and the last port, such as \"20000-29999\", two at least";
        let range = |text: &str| {
            let (first, last) = text.split_once('-')?;
            let (first, last): (u16, u16) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
            (first >= 1024 && first < last).then_some(first..=last)
        };
        let read = self.parsed(value, &path.key("ports"), accepted, range);
        read.into_iter().for_each(|ports| settings.ports = ports);
    }

    /// Reads where streams come from, and who may view them.
    fn origins(&mut self, table: &Table, path: &Path, settings: &mut Settings) {
        let accepted =
            "an origin such as \"10.0.2.0/24\", \"camera.example\" or \"camera.example:8554\", or a list of them";
        settings.origins = self.several(table, path, "origins", accepted, allowed);
        self.access_of_all(table, path, settings);
        if let Some(value) = table.get("pools") {
            self.pools = self.pools(value, &path.key("pools"));
        }
        if let Some(value) = table.get("streams") {
            settings.streams = self.streams(value, &path.key("streams"), settings);
        }
    }

    fn streams(&mut self, value: &Value, path: &Path, settings: &Settings) -> Vec<Named> {
        let Some(table) = document::table(value, path, self.errors) else { return Vec::new() };
        if table.len() > MOST_STREAMS {
            let problem = format!("{} streams", table.len());
            self.errors.add(value.span().start, path, problem, format!("{MOST_STREAMS} at most"));
        }
        let one = |(name, value): (&toml::Spanned<_>, &Value)| {
            let name: &std::borrow::Cow<str> = name.get_ref();
            self.stream(name, value, &path.key(name), settings)
        };
        let streams: Vec<Named> = table.iter().filter_map(one).collect();
        if let Some(own) = streams.iter().find(|own| own.record.is_on() && settings.cache.is_none()) {
            let problem = "there is no cache for its recordings";
            let accepted = "`directory` in [controllers.media.cache]";
            self.errors.add(value.span().start, &path.key(&own.name).key("record"), problem, accepted);
        }
        self.places_differ(&streams, value, path);
        streams
    }

    fn stream(&mut self, name: &str, value: &Value, path: &Path, settings: &Settings) -> Option<Named> {
        let table = document::table(value, path, self.errors)?;
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~/".contains(&byte);
        if name.is_empty() || !name.bytes().all(plain) || name.starts_with('/') || name.ends_with('/') {
            let accepted = "letters, digits, -, _, ., ~, and / within it";
            self.errors.add(value.span().start, path, format!("{name:?} can't be a name"), accepted);
        }
        if table.contains_key("publish") && !self.reads.transport_streams {
            return self.published(name, table, path, settings);
        }
        if Reader::is_plain(table) {
            return self.plain(name, table, path, settings);
        }
        let place = if table.contains_key("pool") { ["pool", "path"] } else { ["url", "pool"] };
        let known = ["user", "password", "live", "transport", "viewers"];
        document::only(table, path, &[&place[..], &known, self.reads.of_stream].concat(), self.errors);
        let record = self.record(table, path);
        let (text, pool) = match table.contains_key("pool") {
            true => self.pool_of(table, value, path).unzip(),
            false => (self.url(table, value, path), None),
        };
        let credentials = self.credentials(table, value, path);
        let live = table.get("live").and_then(|value| document::boolean(value, &path.key("live"), self.errors));
        let transport = |text: &str| match text {
            "udp" => Some((false, false)),
            "tcp" => Some((true, false)),
            "multicast" => Some((false, true)),
            _ => None,
        };
        let cache = table.get("cache").and_then(|value| document::boolean(value, &path.key("cache"), self.errors));
        let lacks_one = cache == Some(true) && settings.cache.is_none();
        if let Some(own) = table.get("cache").filter(|_| lacks_one) {
            let accepted = "`directory` in [controllers.media.cache]";
            let problem = "there is no cache for what is recorded";
            self.errors.add(own.span().start, &path.key("cache"), problem, accepted);
        }
        let accepted = "\"udp\", \"tcp\" or \"multicast\"; UDP, and TCP where the server refuses it, otherwise";
        let transport =
            table.get("transport").and_then(|value| self.parsed(value, &path.key("transport"), accepted, transport));
        let (carried, multicast) = (transport.map(|own| own.0), transport.is_some_and(|own| own.1));
        let viewers = self.access(table, path, "viewers", &settings.users).map(Arc::new);
        let (name, url) = (name.to_owned(), text?);
        let known = Named { live, carried, multicast, viewers, record, cache, ..Named::default() };
        Some(Named { name, url, pool, credentials, ..known })
    }

    /// Who this proxy is elsewhere.
    fn credentials(&mut self, table: &Table, value: &Value, path: &Path) -> Option<Credentials> {
        let mut text_at = |key| document::text_at(table, path, key, "a text", self.errors);
        match (text_at("user"), text_at("password")) {
            (Some(user), password) => Some(Credentials { user, password: password.unwrap_or_default() }),
            (None, Some(_)) => {
                self.errors.add(value.span().start, path, "`user` is missing", "a user along with the password");
                None
            }
            (None, None) => None,
        }
    }

    /// When a stream is recorded.
    fn record(&mut self, table: &Table, path: &Path) -> Record {
        let Some(value) = table.get("record") else { return Record::default() };
        let named = |text: &str| match text {
            "viewed" => Some(Record::Viewed),
            "always" => Some(Record::Always),
            _ => None,
        };
        match value.get_ref() {
            DeValue::Boolean(false) => Record::Never,
            DeValue::Boolean(true) => Record::Viewed,
            _ => {
                let accepted = "true or \"viewed\", \"always\", or false";
                self.parsed(value, &path.key("record"), accepted, named).unwrap_or_default()
            }
        }
    }

    /// A stream's URL at its only origin.
    fn url(&mut self, table: &Table, value: &Value, path: &Path) -> Option<String> {
        let accepted = "the stream's URL at its origin, such as \"rtsp://camera.example/1\", or `pool` and `path`";
        let Some(url) = table.get("url") else {
            self.errors.add(value.span().start, path, "`url` is missing", accepted);
            return None;
        };
        let text = self.parsed(url, &path.key("url"), accepted, |text| {
            Url::parse(text).filter(|url| url.user.is_none()).map(|url| url.without_user())
        });
        if text.is_none() && url.get_ref().as_str().and_then(Url::parse).is_some() {
            let problem = "user and password stand in the URL";
            self.errors.add(url.span().start, &path.key("url"), problem, "`user` and `password` beside it");
        }
        text
    }
}
