//! Connections: one request each, few at a time, each bounded in time.
//!
//! Where there are too many the oldest one without a whole request is closed, so that idle or slow clients, however
//! many, never keep one with a request out. What hostile clients cause is not logged, so that they cannot fill a disk.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};

use crate::answer::{Front, answer};

/// Connections at a time.
const MOST: usize = 16;
/// How long the head of a request may take to arrive.
const HEAD: Duration = Duration::from_secs(5);
/// How long a connection may last.
const WHOLE: Duration = Duration::from_secs(15);
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
    /// Whether its request has come.
    asks: Arc<AtomicBool>,
}

/// Those that there are, the oldest first.
type Connections = Arc<Mutex<Vec<Connection>>>;

/// Accepts connections, for ever.
pub(crate) async fn accept(listener: TcpListener, front: Arc<Front>) {
    let connections = Connections::default();
    for number in 0.. {
        let stream = loop {
            match listener.accept().await {
                Ok((stream, _)) => break stream,
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) => {
                    tracing::warn!("cannot accept a connection for metrics: {error}");
                    sleep(PAUSE).await;
                }
            }
        };
        let mut all = connections.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= MOST {
            let Some(place) = all.iter().position(|own| !own.asks.load(Ordering::Relaxed)) else { continue };
            all.remove(place).task.abort();
        }
        let asks = Arc::new(AtomicBool::new(false));
        let task = tokio::spawn(serve(stream, number, front.clone(), asks.clone(), connections.clone()));
        all.push(Connection { number, task: task.abort_handle(), asks });
    }
}

async fn serve(stream: TcpStream, number: u64, front: Arc<Front>, asks: Arc<AtomicBool>, connections: Connections) {
    // Answers are written as a whole, so nothing is gained by waiting.
    let _ = stream.set_nodelay(true);
    let service = service_fn(|request| {
        asks.store(true, Ordering::Relaxed);
        answer(front.clone(), request)
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEAD).keep_alive(false);
    builder.max_buf_size(LONGEST_HEAD).max_headers(MOST_FIELDS);
    // Clients end connections as they like.
    let _ = timeout(WHOLE, builder.serve_connection(TokioIo::new(stream), service)).await;
    connections.lock().unwrap_or_else(PoisonError::into_inner).retain(|own| own.number != number);
}
