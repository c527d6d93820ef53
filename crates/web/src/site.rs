//! Answers requests: who may ask, then the API or a file of the page.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, PoisonError, RwLock, Weak};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderName, HeaderValue};
use axum::http::{Request, StatusCode};
use axum::response::{IntoResponse, Response};
use control::config;
use control::socket::{Code, MAX_REQUEST, Refusal, Service};
use endpoint::{Bound, Endpoint, Hosts, Limits, Site, Tls};
use hyper::body::Incoming;
use tokio::time::timeout;
use tower::ServiceExt;

use crate::Server;
use crate::access::{Access, Token, same_origin};
use crate::answer::{refused, uniform, with_status};
use crate::api::{self, Api, Asker};
use crate::live::Live;
use crate::page;

/// How long the body of a request may take to arrive.
const ARRIVAL: Duration = Duration::from_secs(5);
/// Where the API begins.
const API: &str = "/api/";

/// Fields of all answers. The page has no parts from elsewhere and no script but its own, and stands in no frame.
const FIELDS: [(HeaderName, &str); 7] = [
    (
        CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'",
    ),
    (CACHE_CONTROL, "no-store"),
    (HeaderName::from_static("x-content-type-options"), "nosniff"),
    (HeaderName::from_static("x-frame-options"), "DENY"),
    (HeaderName::from_static("referrer-policy"), "no-referrer"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
];

/// What the configuration says, with what is in its files.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The section.
    pub web: config::Web,
    /// Of those who may change something.
    pub token: Option<Token>,
    /// By which connections are encrypted.
    pub tls: Option<Tls>,
}

/// Reads the files of a configuration.
///
/// # Errors
/// Which one can't be used, and why.
pub fn load(web: Option<&config::Web>) -> Result<Option<Settings>, String> {
    let Some(web) = web else { return Ok(None) };
    let token = web.token_file.as_deref().map(Token::read).transpose()?;
    let tls = web.tls.as_ref().map(|(certificate, key)| Tls::read(certificate, key)).transpose();
    Ok(Some(Settings { web: web.clone(), token, tls: tls.map_err(|error| format!("web: {error}"))? }))
}

/// Takes the address of an instance that does not run yet.
///
/// # Errors
/// Why it can't be had.
pub fn bind(settings: Option<Settings>) -> Result<Bound<Web>, String> {
    endpoint::bind(settings)
}

/// The page and the API of an instance, without an address yet.
pub fn server(service: Weak<Service>) -> Server {
    Endpoint::new(Web::new(service))
}

/// What answers, for all connections.
pub struct Web {
    hosts: Hosts,
    access: RwLock<Access>,
    router: Router,
    live: Arc<Live>,
    service: Weak<Service>,
}

impl std::fmt::Debug for Web {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Web").field("hosts", &self.hosts).finish_non_exhaustive()
    }
}

impl Web {
    /// Of an instance; nobody may change anything yet.
    pub fn new(service: Weak<Service>) -> Web {
        let live = Arc::new(Live::new());
        let (router, _) = api::routes();
        let router = router.with_state(Api { service: service.clone(), live: live.clone() });
        let access = RwLock::new(Access { token: None, readers: config::Readers::Token });
        Web { hosts: Hosts::default(), access, router, live, service }
    }

    /// Answers a request of a client.
    pub async fn respond(&self, request: Request<Body>, client: SocketAddr) -> Response {
        let mut response = self.answer_to(request, client).await;
        let headers = response.headers_mut();
        for (name, value) in FIELDS {
            headers.insert(name, HeaderValue::from_static(value));
        }
        response
    }

    async fn answer_to(&self, request: Request<Body>, client: SocketAddr) -> Response {
        let (parts, body) = request.into_parts();
        let host = match self.hosts.called(&parts, Self::SECTION) {
            Ok(host) => host,
            Err((status, message)) => return with_status(status, Refusal { code: Code::BadRequest, message }),
        };
        if !parts.uri.path().starts_with(API) {
            return page::file(&parts.method, parts.uri.path());
        }
        if let Err(refusal) = same_origin(&parts.headers, host) {
            return refused(refusal);
        }
        let rights = self.access.read().unwrap_or_else(PoisonError::into_inner).rights(&parts.headers);
        // Before anything of it is done, and whoever sends it.
        let Ok(body) = timeout(ARRIVAL, to_bytes(body, MAX_REQUEST)).await else {
            return StatusCode::REQUEST_TIMEOUT.into_response();
        };
        let Ok(body) = body else {
            let message = format!("a request has {MAX_REQUEST} bytes at most");
            return with_status(StatusCode::PAYLOAD_TOO_LARGE, Refusal { code: Code::BadRequest, message });
        };
        let mut request = Request::from_parts(parts, Body::from(body));
        request.extensions_mut().insert(Asker { client, rights });
        let Ok(response) = self.router.clone().oneshot(request).await;
        uniform(response).await
    }
}

impl Site for Web {
    type Settings = Settings;
    type Body = Body;

    const SECTION: &'static str = "web";
    const PATH: &'static str = "/";
    // A reload may take long; looks, and a few who wait for controllers, at a time.
    const LIMITS: Limits = Limits { connections: 32, whole: Duration::from_secs(120), blocking: 6 };

    fn address(settings: &Settings) -> SocketAddr {
        settings.web.listen
    }

    fn tls(settings: &Settings) -> Option<&Tls> {
        settings.tls.as_ref()
    }

    fn put(&self, settings: &Settings) {
        self.hosts.set(settings.web.hosts.clone());
        let access = Access { token: settings.token.clone(), readers: settings.web.readers() };
        *self.access.write().unwrap_or_else(PoisonError::into_inner) = access;
    }

    fn begin(self: &Arc<Self>) {
        tokio::spawn(self.live.clone().look(self.service.clone()));
    }

    async fn answer(self: Arc<Self>, request: Request<Incoming>, client: SocketAddr) -> Result<Response, Infallible> {
        Ok(self.respond(request.map(Body::new), client).await)
    }
}
