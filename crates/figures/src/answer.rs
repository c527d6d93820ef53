//! What a monitoring system is answered.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use control::config::Metrics;
use control::socket::Seen;
use endpoint::{Hosts, Limits, Site};
use hyper::body::Incoming;
use hyper::header::{ACCEPT, ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use tokio::task::spawn_blocking;

use crate::exposition::{Format, text};

/// Where the figures are.
pub const PATH: &str = "/metrics";
/// How long figures are answered from one look at the instance: so frequent readers do not disturb controllers.
const FRESH: Duration = Duration::from_millis(100);

/// Looks at an instance.
pub type Look = Arc<dyn Fn() -> Seen + Send + Sync>;

/// What answers, for all connections.
pub struct Figures {
    look: Look,
    hosts: Hosts,
    /// The last look, and when it was over. Held for the next one: there is one at a time.
    last: Mutex<Option<(Instant, Arc<Seen>)>>,
}

impl std::fmt::Debug for Figures {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Figures").field("hosts", &self.hosts).finish_non_exhaustive()
    }
}

impl Figures {
    /// Of an instance that is looked at in this way.
    pub fn new(look: Look) -> Figures {
        Figures { look, hosts: Hosts::default(), last: Mutex::default() }
    }

    fn seen(&self) -> Arc<Seen> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        match &*last {
            Some((when, seen)) if when.elapsed() < FRESH => seen.clone(),
            _ => {
                let seen = Arc::new((self.look)());
                *last = Some((Instant::now(), seen.clone()));
                seen
            }
        }
    }
}

impl Site for Figures {
    type Settings = Metrics;
    type Body = String;

    const SECTION: &'static str = "metrics";
    const PATH: &'static str = PATH;
    // There is one look at a time, for however many ask.
    const LIMITS: Limits = Limits { connections: 16, whole: Duration::from_secs(15), blocking: 1 };

    fn address(settings: &Metrics) -> SocketAddr {
        settings.listen
    }

    fn put(&self, settings: &Metrics) {
        self.hosts.set(settings.hosts.clone());
    }

    async fn answer(
        self: Arc<Self>,
        request: Request<Incoming>,
        _: SocketAddr,
    ) -> Result<Response<String>, Infallible> {
        Ok(answer(self, request).await)
    }
}

/// Answers one request.
async fn answer<B>(figures: Arc<Figures>, request: Request<B>) -> Response<String> {
    let (parts, _) = request.into_parts();
    if let Err((status, why)) = figures.hosts.called(&parts, Figures::SECTION) {
        return plain(status, &(why + "\n"));
    }
    if !matches!(parts.method, Method::GET | Method::HEAD) {
        let mut response = plain(StatusCode::METHOD_NOT_ALLOWED, "GET is accepted\n");
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return response;
    }
    match parts.uri.path() {
        PATH => {
            let format = wanted(&parts.headers);
            // Controllers are asked, who may take their time.
            match spawn_blocking(move || text(&figures.seen(), format)).await {
                Ok(text) => response(StatusCode::OK, format.media_type(), text),
                Err(error) => {
                    tracing::error!("figures can't be told: {error}");
                    plain(StatusCode::INTERNAL_SERVER_ERROR, "see the log of the instance\n")
                }
            }
        }
        "/" => plain(StatusCode::OK, "Millrace: see /metrics\n"),
        _ => plain(StatusCode::NOT_FOUND, "there is /metrics\n"),
    }
}

/// The format that a client takes: the older one where it does not name the other.
fn wanted(headers: &HeaderMap) -> Format {
    let types = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let mut types = types.flat_map(|value| value.split(',')).map(str::trim_start);
    let is_open = |own: &str| own.starts_with("application/openmetrics-text");
    if types.any(is_open) { Format::OpenMetrics } else { Format::Prometheus }
}

fn plain(status: StatusCode, text: &str) -> Response<String> {
    response(status, "text/plain; charset=utf-8", text.to_owned())
}

fn response(status: StatusCode, media_type: &'static str, text: String) -> Response<String> {
    let mut response = Response::new(text);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}
