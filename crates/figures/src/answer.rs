//! What a monitoring system is answered.
//!
//! A page of a browser on this machine must not read figures for somebody else: so who asks must call this machine by
//! an address, by `localhost`, or by a name that the configuration has (DNS rebinding takes a name of the attacker's).

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use control::socket::Seen;
use hyper::header::{ACCEPT, ALLOW, CACHE_CONTROL, CONTENT_TYPE, HOST, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use hyper::{HeaderMap, Method, Request, Response, StatusCode, Uri, Version};
use tokio::task::spawn_blocking;

use crate::exposition::{Format, text};

/// Where the figures are.
pub const PATH: &str = "/metrics";
/// How long figures are answered from one look at the instance: so frequent readers do not disturb controllers.
const FRESH: Duration = Duration::from_millis(100);

/// Looks at an instance.
pub type Look = Arc<dyn Fn() -> Seen + Send + Sync>;

/// What answers, for all connections.
pub(crate) struct Front {
    look: Look,
    hosts: RwLock<Vec<String>>,
    /// The last look, and when it was over. Held for the next one: there is one at a time.
    last: Mutex<Option<(Instant, Arc<Seen>)>>,
}

impl Front {
    pub fn new(look: Look, hosts: Vec<String>) -> Arc<Front> {
        Arc::new(Front { look, hosts: RwLock::new(hosts), last: Mutex::default() })
    }

    /// Names of this machine from now on, in small letters.
    pub fn set_hosts(&self, hosts: Vec<String>) {
        *self.hosts.write().unwrap_or_else(PoisonError::into_inner) = hosts;
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

    /// Why a request is not for this machine, if it is not.
    fn refuse(&self, uri: &Uri, headers: &HeaderMap, version: Version) -> Option<(StatusCode, &'static str)> {
        const BAD: Option<(StatusCode, &str)> = Some((StatusCode::BAD_REQUEST, "one Host is wanted\n"));
        let mut hosts = headers.get_all(HOST).iter();
        let (first, second) = (hosts.next(), hosts.next());
        let host = match (uri.authority(), first, second) {
            (_, _, Some(_)) => return BAD,
            (Some(authority), ..) => authority.as_str(),
            (None, Some(host), None) => match host.to_str() {
                Ok(host) => host,
                Err(_) => return BAD,
            },
            // Browsers always say it.
            (None, None, None) if version < Version::HTTP_11 => return None,
            (None, None, None) => return BAD,
        };
        let unknown = "this machine is not known by that name: see `hosts` of [metrics]\n";
        (!self.is_own(host)).then_some((StatusCode::MISDIRECTED_REQUEST, unknown))
    }

    /// Whether a `HOST[:PORT]` is this machine's.
    fn is_own(&self, host: &str) -> bool {
        let Ok(authority) = host.parse::<hyper::http::uri::Authority>() else { return false };
        let name = authority.host().trim_end_matches('.').to_ascii_lowercase();
        let address = name.trim_start_matches('[').trim_end_matches(']');
        let hosts = self.hosts.read().unwrap_or_else(PoisonError::into_inner);
        address.parse::<IpAddr>().is_ok() || name == "localhost" || hosts.contains(&name)
    }
}

/// Answers one request.
pub(crate) async fn answer<B>(front: Arc<Front>, request: Request<B>) -> Result<Response<String>, Infallible> {
    let (parts, _) = request.into_parts();
    if let Some((status, why)) = front.refuse(&parts.uri, &parts.headers, parts.version) {
        return Ok(plain(status, why));
    }
    if !matches!(parts.method, Method::GET | Method::HEAD) {
        let mut response = plain(StatusCode::METHOD_NOT_ALLOWED, "GET is accepted\n");
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return Ok(response);
    }
    Ok(match parts.uri.path() {
        PATH => {
            let format = wanted(&parts.headers);
            // Controllers are asked, who may take their time.
            match spawn_blocking(move || text(&front.seen(), format)).await {
                Ok(text) => response(StatusCode::OK, format.media_type(), text),
                Err(error) => {
                    tracing::error!("figures can't be told: {error}");
                    plain(StatusCode::INTERNAL_SERVER_ERROR, "see the log of the instance\n")
                }
            }
        }
        "/" => plain(StatusCode::OK, "Millrace: see /metrics\n"),
        _ => plain(StatusCode::NOT_FOUND, "there is /metrics\n"),
    })
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
