//! Reads `[controllers.translate]`. apps/translate/README.md describes every key.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use baker::syntax::duration;
use control::access_log::LogSettings;
use control::document::{self, Errors, Path, Table, Value};
use control::messages::list;
use media::settings::plain::is_place;
use media::settings::read::access::prefix;
use media::settings::read::amounts::{rate, time, time_or_none};
use media::settings::read::{Reads, SOURCES, outlast, several, sources};
use wire::rtsp::auth::Scheme;

use super::{Delivery, Fill, MOST_CONNECTIONS, MOST_STREAMS, MOST_VIEWERS, Policy, Rate, Settings, Start};

/// Keys that say how streams are delivered: of all, and of each.
const DELIVERY: [&str; 8] = ["fill", "rate", "policy", "playout", "reorder", "bandwidth", "start", "start_within"];
/// Those of one stream.
const OF_STREAM: [&str; 9] =
    ["title", "fill", "rate", "policy", "playout", "reorder", "bandwidth", "start", "start_within"];
/// Names that are the proxy's own paths, and what such paths begin with.
const OWN_PATHS: [&str; 8] = ["status", "status.json", "playlist.m3u", "playlist.m3u8", "rtp", "udp", "rtsp", "player"];

/// Reads the settings. None where there are errors.
pub fn settings(value: &Value, path: &Path, errors: &mut Errors) -> Option<Settings> {
    let table = document::table(value, path, errors)?;
    let known = [
        "listen",
        "streams",
        "groups",
        "interface",
        "http_server",
        "https_server",
        "pages",
        "limits",
        "timeouts",
        "at_end",
        "log",
    ];
    document::only(table, path, &[&known[..], &SOURCES, &DELIVERY].concat(), errors);
    let mut settings = Settings { listen: listen(table, value, path, errors), ..Settings::default() };
    let reads = Reads { of_stream: &OF_STREAM, transport_streams: true };
    let mut own = sources(table, path, reads, errors);
    settings.delivery = delivery(table, path, &Delivery::default(), errors);
    if let Some((value, table)) = table.get("streams").and_then(|value| Some((value, value.get_ref().as_table()?))) {
        for (name, of) in table.iter() {
            let (name, path): (&str, _) = (name.get_ref(), path.key("streams"));
            let path = path.key(name);
            if OWN_PATHS.contains(&name.split('/').next().unwrap_or(name)) {
                let accepted = format!("a name other than {}", list(OWN_PATHS));
                errors.add(value.span().start, &path, "the proxy's own path is called so", accepted);
            }
            let Some(table) = of.get_ref().as_table() else { continue };
            settings.streams.insert(name.to_owned(), delivery(table, &path, &settings.delivery, errors));
        }
    }
    let accepted = "a group or an own address, such as \"239.0.0.0/8\" or \"10.0.2.1\", or a list of them";
    settings.groups = several(table, path, "groups", accepted, errors, |text| {
        prefix(text).filter(|(address, length)| *length == 0 || is_place(*address))
    });
    settings.interface = document::text_at(table, path, "interface", "the name of a device", errors);
    settings.http_server = server(table, path, "http_server", "an HTTP server, such as \"127.0.0.1:8080\"", errors);
    settings.https_server = server(table, path, "https_server", "a TLS server, such as \"127.0.0.1:443\"", errors);
    if !table.contains_key("schemes") {
        // Players that know Basic alone are many.
        own.schemes = vec![Scheme::Sha256, Scheme::Md5, Scheme::Basic];
    }
    if let Some(value) = table.get("pages") {
        settings.pages = document::boolean(value, &path.key("pages"), errors).unwrap_or(true);
    }
    settings.outlast = outlast(table, path, errors);
    let mut silence = None;
    limits(table, path, &mut settings, errors);
    if let Some(value) = table.get("timeouts") {
        let path = path.key("timeouts");
        if let Some(table) = document::table(value, &path, errors) {
            let known =
                ["request", "idle", "tunnel", "first", "linger", "server", "connect", "answer", "silence", "retry"];
            document::only(table, &path, &known, errors);
            let own = &mut settings.timeouts;
            own.idle = time(table, &path, "idle", own.idle, errors);
            own.tunnel = time(table, &path, "tunnel", own.tunnel, errors);
            own.request = time(table, &path, "request", own.request, errors);
            own.first = time(table, &path, "first", own.first, errors);
            own.linger = time(table, &path, "linger", own.linger, errors);
            own.server = time(table, &path, "server", own.server, errors);
            let mut of = media::settings::Settings::default().timeouts;
            of.connect = time(table, &path, "connect", of.connect, errors);
            of.answer = time(table, &path, "answer", of.answer, errors);
            of.silence = time_or_none(table, &path, "silence", of.silence, errors);
            of.retry = time_or_none(table, &path, "retry", of.retry, errors);
            silence = Some(of);
        }
    }
    own.timeouts = silence.unwrap_or(own.timeouts);
    settings.log = table.get("log").and_then(|value| LogSettings::read(value, &path.key("log"), errors));
    // The only client of the sources is the proxy itself, once for each stream.
    (own.limits.connections, own.limits.sessions, own.limits.per_client) = (MOST, MOST, MOST);
    settings.sources = Arc::new(own);
    errors.is_empty().then_some(settings)
}

/// Clients of the sources at most: those that end may still be there when others begin.
const MOST: usize = 4 * MOST_STREAMS;

fn listen(table: &Table, value: &Value, path: &Path, errors: &mut Errors) -> Vec<SocketAddr> {
    let accepted = "an own address and a port, such as \"10.0.1.1:8080\" or \"[2001:db8::1]:8080\", or a list of them";
    let Some(own) = table.get("listen") else {
        errors.add(value.span().start, path, "`listen` is missing", accepted);
        return Vec::new();
    };
    let listen: Vec<SocketAddr> = several(table, path, "listen", accepted, errors, |text| {
        let own: SocketAddr = text.parse().ok()?;
        let ip = own.ip();
        (own.port() != 0 && !ip.is_unspecified() && !ip.is_multicast() && !ip.is_loopback()).then_some(own)
    });
    for (at, address) in listen.iter().enumerate().filter(|(at, address)| listen[..*at].contains(address)) {
        errors.add(own.span().start, &path.key("listen").index(at), format!("{address} is there twice"), "each once");
    }
    if listen.len() > 1024 {
        errors.add(own.span().start, &path.key("listen"), format!("{} addresses", listen.len()), "1024 at most");
    }
    listen
}

fn limits(table: &Table, path: &Path, settings: &mut Settings, errors: &mut Errors) {
    let Some(value) = table.get("limits") else { return };
    let (path, limits) = (path.key("limits"), &mut settings.limits);
    let Some(table) = document::table(value, &path, errors) else { return };
    let known = ["connections", "per_client", "per_stream", "streams", "head", "requests", "guesses"];
    document::only(table, &path, &known, errors);
    let mut number = |key: &str, min: u64, most: usize, default: usize| {
        let value = table.get(key);
        let found = value.and_then(|value| document::integer(value, &path.key(key), min, most as u64, errors));
        found.map_or(default, |found| found as usize)
    };
    limits.connections = number("connections", 1, MOST_CONNECTIONS, limits.connections);
    limits.per_client = number("per_client", 1, MOST_CONNECTIONS, limits.per_client);
    limits.per_stream = number("per_stream", 1, MOST_VIEWERS, limits.per_stream);
    limits.streams = number("streams", 1, MOST_STREAMS, limits.streams);
    // The program takes 16 KiB of a connection that is not opened.
    limits.head = number("head", 256, 16000, limits.head);
    limits.requests = number("requests", 1, 1 << 30, limits.requests as usize) as u32;
    limits.guesses = number("guesses", 1, 1000, limits.guesses as usize) as u32;
}

/// The address and the port of a server of the host.
fn server(table: &Table, path: &Path, key: &str, what: &str, errors: &mut Errors) -> Option<SocketAddr> {
    let accepted = format!("the address and the port of {what}");
    let read = |text: &str| text.parse().ok().filter(|own: &SocketAddr| own.port() != 0);
    document::parsed(table.get(key)?, &path.key(key), &accepted, errors, read)
}

/// One of several words.
fn word<T: Copy>(table: &Table, path: &Path, key: &str, words: &[(&str, T)], default: T, errors: &mut Errors) -> T {
    let Some(value) = table.get(key) else { return default };
    let accepted = format!("one of {}", list(words.iter().map(|(name, _)| *name)));
    let find = |text: &str| words.iter().find(|(name, _)| *name == text).map(|(_, found)| *found);
    document::parsed(value, &path.key(key), &accepted, errors, find).unwrap_or(default)
}

fn delivery(table: &Table, path: &Path, all: &Delivery, errors: &mut Errors) -> Delivery {
    let fills = [("buffered", Fill::Buffered), ("empty", Fill::Empty), ("fresh", Fill::Fresh)];
    let rates = [("tfrc", Rate::Tfrc), ("playout", Rate::Playout), ("none", Rate::None)];
    let policies = [("oldest", Policy::Oldest), ("newest", Policy::Newest), ("pictures", Policy::Pictures)];
    let starts = [("newest", Start::Newest), ("access point", Start::AccessPoint)];
    let mut short = |key: &str, most: u64, default: Duration| {
        let Some(value) = table.get(key) else { return default };
        let accepted = format!("a time up to \"{most}ms\", such as \"500ms\"");
        let read = |text: &str| {
            let time = Duration::from_nanos(duration(text)?);
            (time <= Duration::from_millis(most)).then_some(time)
        };
        document::parsed(value, &path.key(key), &accepted, errors, read).unwrap_or(default)
    };
    let (playout, reorder) = (short("playout", 30_000, all.playout), short("reorder", 1000, all.reorder));
    let start_within = short("start_within", 10_000, all.start_within);
    let own = Delivery {
        title: None,
        fill: word(table, path, "fill", &fills, all.fill, errors),
        rate: word(table, path, "rate", &rates, all.rate, errors),
        policy: word(table, path, "policy", &policies, all.policy, errors),
        playout,
        reorder,
        bandwidth: rate(table, path, "bandwidth", errors).or(all.bandwidth),
        start: word(table, path, "start", &starts, all.start, errors),
        start_within,
    };
    if let Some(value) = table.get("playout").filter(|_| own.playout.is_zero()) {
        errors.add(value.span().start, &path.key("playout"), "nothing could be sent again", "\"100ms\" or more");
    }
    if let Some(value) = table.get("rate").filter(|_| own.rate == Rate::Playout && own.bandwidth.is_none()) {
        let accepted = "`bandwidth`, such as \"5 Mbit/s\", along with it";
        errors.add(value.span().start, &path.key("rate"), "what the stream takes is not said", accepted);
    }
    // Of a single stream; unknown keys were refused before.
    let title = table.get("title").and_then(|value| {
        let accepted = "a text without line ends and control characters";
        let plain = |text: &str| (!text.chars().any(char::is_control)).then(|| text.to_owned());
        document::parsed(value, &path.key("title"), accepted, errors, plain)
    });
    Delivery { title, ..own }
}
