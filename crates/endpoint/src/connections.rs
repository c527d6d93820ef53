//! Connections: one request each, few at a time, each bounded in time.
//!
//! Where there are too many the oldest one without a whole request is closed, so that idle or slow clients, however
//! many, never keep one with a request out. What hostile clients cause is not logged, so that they cannot fill a disk.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_rustls::TlsAcceptor;

use crate::site::{Lasts, Site};

/// How long the head of a request may take to arrive, and before it TLS to agree.
const HEAD: Duration = Duration::from_secs(5);
/// Bytes of the longest head.
const LONGEST_HEAD: usize = 16 << 10;
/// Fields that it has at most.
const MOST_FIELDS: usize = 64;
/// After a failure to accept, such as when there are no file descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// A connection that there is.
struct Connection {
    number: u64,
    task: AbortHandle,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    /// Whether its request has come.
    asks: AtomicBool,
    /// Whether its answer goes on for long.
    lasts: AtomicBool,
}

/// Those that there are, the oldest first.
#[derive(Clone, Default)]
pub(crate) struct Connections(Arc<Mutex<Vec<Connection>>>);

impl Connections {
    /// Whether requests are being answered, but for those that go on for long.
    pub fn are_answered(&self) -> bool {
        let is_answered =
            |own: &Connection| own.state.asks.load(Ordering::Relaxed) && !own.state.lasts.load(Ordering::Relaxed);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().any(is_answered)
    }
}

/// What connections begin with, for as long as there is something.
pub(crate) type Acceptor = Arc<RwLock<Option<TlsAcceptor>>>;

/// Accepts connections, for ever.
pub(crate) async fn accept<S: Site>(listener: TcpListener, site: Arc<S>, tls: Acceptor, connections: Connections) {
    for number in 0.. {
        let (stream, client) = loop {
            match listener.accept().await {
                Ok(accepted) => break accepted,
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) => {
                    tracing::warn!("cannot accept a connection for {}: {error}", S::SECTION);
                    sleep(PAUSE).await;
                }
            }
        };
        let mut all = connections.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= S::LIMITS.connections {
            let Some(place) = all.iter().position(|own| !own.state.asks.load(Ordering::Relaxed)) else { continue };
            all.remove(place).task.abort();
        }
        let state = Arc::new(State::default());
        let tls = tls.read().unwrap_or_else(PoisonError::into_inner).clone();
        let (served, site, connections) = (state.clone(), site.clone(), connections.clone());
        let task = tokio::spawn(async move {
            // Answers are written as a whole, so nothing is gained by waiting.
            let _ = stream.set_nodelay(true);
            serve(stream, client, tls, site, served).await;
            connections.0.lock().unwrap_or_else(PoisonError::into_inner).retain(|own| own.number != number);
        });
        all.push(Connection { number, task: task.abort_handle(), state });
    }
}

async fn serve<S: Site>(
    stream: TcpStream,
    client: SocketAddr,
    tls: Option<TlsAcceptor>,
    site: Arc<S>,
    state: Arc<State>,
) {
    let Some(tls) = tls else { return drive(stream, client, site, &state).await };
    // Who does not speak TLS is told so by its end.
    if let Ok(Ok(stream)) = timeout(HEAD, tls.accept(stream)).await {
        drive(stream, client, site, &state).await;
    }
}

async fn drive<S: Site>(stream: impl AsyncRead + AsyncWrite + Unpin, client: SocketAddr, site: Arc<S>, state: &State) {
    let until = Mutex::new(Instant::now() + S::LIMITS.whole);
    let end = || *until.lock().unwrap_or_else(PoisonError::into_inner);
    let service = service_fn(|request| {
        state.asks.store(true, Ordering::Relaxed);
        let answer = site.clone().answer(request, client);
        let until = &until;
        async move {
            let response = answer.await?;
            if let Some(Lasts(time)) = response.extensions().get() {
                state.lasts.store(true, Ordering::Relaxed);
                *until.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now() + *time;
            }
            Ok::<_, std::convert::Infallible>(response)
        }
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEAD).keep_alive(false);
    builder.max_buf_size(LONGEST_HEAD).max_headers(MOST_FIELDS);
    let mut connection = std::pin::pin!(builder.serve_connection(TokioIo::new(stream), service));
    // The end may be put off meanwhile.
    while Instant::now() < end() {
        tokio::select! {
            // Clients end connections as they like.
            _ = connection.as_mut() => return,
            () = sleep_until(end()) => {}
        }
    }
}
