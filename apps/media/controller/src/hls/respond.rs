//! The answer to a request.

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use hyper::body::Incoming;
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use media_cache::Cache;
use tokio::task::spawn_blocking;
use wire::rtsp::url;

use super::ask::Asks;
use super::blocks::Blocks;
use super::body::{Account, Part, Sent, Source};
use super::counts::{Counts, add};
use super::line::{Line, Wrong};
use super::place::Place;
use super::server::Places;
use super::{playlists, segments};
use crate::log::http_line::HttpLine;
use crate::proxy::http::{Asked, Verdict};
use crate::settings::http::HttpSettings;

/// The parameter of a URL that is a token.
const TOKEN: &str = "token";
/// Between two looks at what was recorded.
const LOOK: Duration = Duration::from_millis(250);
/// A stream that nobody asks for is forgotten.
const FORGOTTEN: Duration = Duration::from_secs(600);

/// What all connections have in common.
#[derive(Debug)]
pub struct Front {
    settings: RwLock<Arc<HttpSettings>>,
    cache: RwLock<Option<Cache>>,
    lines: Mutex<HashMap<String, Arc<Mutex<Known>>>>,
    pub(super) blocks: Arc<Blocks>,
    pub(super) counts: Arc<Counts>,
    pub(super) places: Places,
    asks: Asks,
}

/// What is known of a stream.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) line: Line,
    looked: Option<(Instant, Result<(), Wrong>)>,
}

impl Known {
    /// Looks what was recorded, unless that was done just now. This may wait for the disk.
    pub(super) fn refresh(&mut self, cache: &Cache, name: &str) -> Result<(), Wrong> {
        if let Some((_, result)) = self.looked.as_ref().filter(|(at, _)| at.elapsed() < LOOK) {
            return result.clone();
        }
        let result = self.line.refresh(cache, name);
        self.looked = Some((Instant::now(), result.clone()));
        result
    }
}

impl Front {
    /// One without a cache.
    pub fn new(settings: &HttpSettings, asks: Asks) -> Front {
        Front {
            settings: RwLock::new(Arc::new(settings.clone())),
            cache: RwLock::default(),
            lines: Mutex::default(),
            blocks: Arc::default(),
            counts: Arc::default(),
            places: Places::default(),
            asks,
        }
    }

    /// Other settings from now on.
    pub fn set_settings(&self, settings: &HttpSettings) {
        *self.settings.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(settings.clone());
    }

    /// The settings in force.
    pub fn settings(&self) -> Arc<HttpSettings> {
        self.settings.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Another cache, or none, from now on.
    pub fn set_cache(&self, cache: Option<Cache>) {
        *self.cache.write().unwrap_or_else(PoisonError::into_inner) = cache;
    }

    /// The cache.
    pub(super) fn cache(&self) -> Option<Cache> {
        self.cache.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What is known of a stream that there is.
    pub(super) fn known(&self, name: &str) -> Arc<Mutex<Known>> {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = lines.get(name) {
            return own.clone();
        }
        // One that is looked at just now is not forgotten.
        lines.retain(|_, own| {
            own.try_lock().map_or(true, |own| own.looked.as_ref().is_some_and(|(at, _)| at.elapsed() < FORGOTTEN))
        });
        let line = Line::new(now().as_secs(), self.settings().segment);
        let known = Arc::new(Mutex::new(Known { line, looked: None }));
        lines.insert(name.to_owned(), known.clone());
        known
    }
}

/// Since 1970.
pub(super) fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// What is answered.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) status: StatusCode,
    pub(super) headers: Vec<(HeaderName, String)>,
    pub(super) parts: Vec<Part>,
    pub(super) source: Option<Source>,
}

impl Reply {
    /// One with a text.
    pub(super) fn text(status: StatusCode, text: impl Into<String>) -> Reply {
        let headers = vec![(header::CONTENT_TYPE, "text/plain; charset=utf-8".to_owned())];
        Reply { status, headers, parts: vec![Part::Text(text.into().into())], source: None }
    }

    pub(super) fn with(mut self, name: HeaderName, value: impl Into<String>) -> Reply {
        self.headers.push((name, value.into()));
        self
    }
}

/// What of a request an answer depends on.
#[derive(Debug)]
pub(super) struct Wish {
    pub(super) headers: hyper::HeaderMap,
    /// The path with its query.
    pub(super) url: String,
    pub(super) is_head: bool,
    /// What stands behind the URIs of a playlist.
    pub(super) query: String,
    /// Anybody may have it who has its address,
    pub(super) is_open: bool,
    /// and the stream comes now.
    pub(super) comes: bool,
}

impl Wish {
    /// A header.
    pub(super) fn header(&self, name: HeaderName) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// Who may keep an answer: what passwords and tokens protect is the client's alone.
    pub(super) fn kept(&self, how: &str) -> String {
        format!("{}, {how}", if self.is_open { "public" } else { "private" })
    }
}

/// Answers a request.
pub async fn respond(
    front: Arc<Front>,
    peer: IpAddr,
    request: Request<Incoming>,
) -> Result<Response<Sent>, Infallible> {
    add(&front.counts.requests, 1);
    let began = Instant::now();
    let (head, body) = request.into_parts();
    // Nobody sends anything that is wanted.
    drop(body);
    let url = head.uri.path_and_query().map_or("/", |own| own.as_str()).to_owned();
    let path = head.uri.path().to_owned();
    let place = Place::parse(&path);
    let text = |name| head.headers.get(name).and_then(|own: &HeaderValue| own.to_str().ok()).map(str::to_owned);
    let line = HttpLine {
        time: SystemTime::now(),
        client: peer.to_string(),
        method: head.method.as_str().to_owned(),
        url: url::shown(&url),
        stream: place.as_ref().map(|own| own.name().to_owned()),
        status: 0,
        bytes: 0,
        duration_ms: 0,
        referer: text(header::REFERER),
        user_agent: text(header::USER_AGENT),
    };
    let origin = text(header::ORIGIN);
    let is_head = head.method == Method::HEAD;
    let mut reply = match head.method {
        Method::GET | Method::HEAD => match place {
            Some(place) => admitted(&front, peer, &place, url, &head.method, head.headers).await,
            None => Reply::text(StatusCode::NOT_FOUND, "there is /NAME/index.m3u8 of each stream that is recorded\n"),
        },
        Method::OPTIONS => options(),
        _ => {
            let reply = Reply::text(StatusCode::METHOD_NOT_ALLOWED, "GET, HEAD and OPTIONS are taken\n");
            reply.with(header::ALLOW, "GET, HEAD, OPTIONS")
        }
    };
    let settings = front.settings();
    if let Some(origin) = origin.filter(|own| settings.allows(own)) {
        let any = settings.allow_origins.iter().any(|own| own == "*");
        reply = reply.with(header::ACCESS_CONTROL_ALLOW_ORIGIN, if any { "*".to_owned() } else { origin });
        reply = reply.with(header::ACCESS_CONTROL_EXPOSE_HEADERS, "Content-Length, Content-Range, Date, ETag");
        if !any {
            reply = reply.with(header::ACCESS_CONTROL_ALLOW_CREDENTIALS, "true");
        }
    }
    if !settings.allow_origins.is_empty() {
        reply = reply.with(header::VARY, "Origin");
    }
    Ok(finished(&front, reply, is_head, HttpLine { status: 0, ..line }, began))
}

fn finished(front: &Front, reply: Reply, is_head: bool, mut line: HttpLine, began: Instant) -> Response<Sent> {
    let Reply { status, headers, parts, source } = reply;
    line.status = status.as_u16();
    let length: u64 = parts.iter().map(Part::length).sum();
    let parts = if is_head { Vec::new() } else { parts };
    let account = Account { line, began, asks: front.asks.clone(), counts: front.counts.clone() };
    let mut response = Response::new(Sent::new(parts, source, account));
    *response.status_mut() = status;
    for (name, value) in headers {
        // All are of texts that were headers or URLs, or are ours.
        if let Ok(value) = HeaderValue::from_str(&value) {
            response.headers_mut().append(name, value);
        }
    }
    if status != StatusCode::NO_CONTENT && status != StatusCode::NOT_MODIFIED {
        response.headers_mut().insert(header::CONTENT_LENGTH, length.into());
    }
    response
}

/// What a page's browser asks before it asks for ranges.
fn options() -> Reply {
    let reply = Reply { status: StatusCode::NO_CONTENT, headers: Vec::new(), parts: Vec::new(), source: None };
    reply
        .with(header::ALLOW, "GET, HEAD, OPTIONS")
        .with(header::ACCESS_CONTROL_ALLOW_METHODS, "GET, HEAD")
        .with(header::ACCESS_CONTROL_ALLOW_HEADERS, "Authorization, If-None-Match, If-Range, Range")
        .with(header::ACCESS_CONTROL_MAX_AGE, "86400")
}

async fn admitted(
    front: &Arc<Front>,
    peer: IpAddr,
    place: &Place<'_>,
    url: String,
    method: &Method,
    headers: hyper::HeaderMap,
) -> Reply {
    let settings = front.settings();
    let name = place.name().to_owned();
    let token = url::parameter(&url, TOKEN).map(str::to_owned);
    let text = |name| headers.get(name).and_then(|own: &HeaderValue| own.to_str().ok()).map(str::to_owned);
    let is_live = matches!(place, Place::Playlist { .. }) && url::parameter(&url, playlists::START).is_none();
    let asked = Asked {
        name: name.clone(),
        token: token.clone(),
        authorization: text(header::AUTHORIZATION),
        method: method.as_str().to_owned(),
        demand: is_live.then_some(settings.linger),
    };
    let (is_open, comes) = match front.asks.admit(peer, asked).await {
        Some(Verdict::Admitted { is_open, comes }) => (is_open, comes),
        Some(Verdict::Unknown) => {
            let reply = Reply::text(StatusCode::UNAUTHORIZED, "a password or a token is wanted\n");
            return reply.with(header::WWW_AUTHENTICATE, "Basic realm=\"Millrace\", charset=\"UTF-8\"");
        }
        Some(Verdict::Refused) => return Reply::text(StatusCode::FORBIDDEN, "this is not for you\n"),
        Some(Verdict::Nothing) => {
            return Reply::text(StatusCode::NOT_FOUND, "there is no such stream, or it is not recorded\n");
        }
        None => return unavailable("the proxy ends"),
    };
    let token = token.filter(|_| !is_open);
    let query = token.map_or_else(String::new, |own| format!("?{TOKEN}={own}"));
    let is_head = method == Method::HEAD;
    let wish = Wish { headers, url, is_head, query, is_open, comes };
    match place {
        Place::Playlist { .. } => playlists::answer(front, &name, wish).await,
        Place::Segment { id, number, .. } => {
            let (front, id, number) = (front.clone(), *id, *number);
            let answer = spawn_blocking(move || segments::answer(&front, &name, id, number, &wish));
            answer.await.unwrap_or_else(|_| unavailable("its task has failed"))
        }
    }
}

/// It may be there later.
pub(super) fn unavailable(why: &str) -> Reply {
    let reply = Reply::text(StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n"));
    reply.with(header::RETRY_AFTER, "2").with(header::CACHE_CONTROL, "no-store")
}
