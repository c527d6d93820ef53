//! What is answered at an endpoint.

use std::convert::Infallible;
use std::error::Error;
use std::fmt::Debug;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http_body::Body;
use hyper::body::{Bytes, Incoming};
use hyper::{Request, Response};

use crate::tls::Tls;

/// Answers requests.
pub trait Site: Send + Sync + Sized + 'static {
    /// What is in force while it listens, with all that files say.
    type Settings: Clone + Debug + PartialEq + Send;
    /// Of its answers.
    type Body: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Send + 'static;

    /// Its section of the configuration.
    const SECTION: &'static str;
    /// Where there is something to begin with, for its URL.
    const PATH: &'static str;
    /// Of its connections.
    const LIMITS: Limits;

    /// Where it listens.
    fn address(settings: &Self::Settings) -> SocketAddr;

    /// What it proves itself by; none: connections are in clear.
    fn tls(_settings: &Self::Settings) -> Option<&Tls> {
        None
    }

    /// Other settings are in force.
    fn put(&self, settings: &Self::Settings);

    /// It begins to listen; what is spawned here goes on as long as it does.
    fn begin(self: &Arc<Self>) {}

    /// Answers one request.
    fn answer(
        self: Arc<Self>,
        request: Request<Incoming>,
        client: SocketAddr,
    ) -> impl Future<Output = Result<Response<Self::Body>, Infallible>> + Send;
}

/// Limits of an endpoint's connections.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections at a time.
    pub connections: usize,
    /// How long one may last.
    pub whole: Duration,
    /// Calls at a time that may wait for somebody.
    pub blocking: usize,
}

/// An extension of an answer that goes on for long: how long its connection may last from then on.
#[derive(Clone, Copy, Debug)]
pub struct Lasts(pub Duration);
