//! Connections: a thread each, few of them, each bounded in time.
//!
//! Where there are too many the one that has been idle for longest is closed, so that idle clients, however many, never
//! keep one with a request out. What hostile clients cause is logged for debugging only, so that they cannot fill a
//! disk.

use std::io::{self, ErrorKind};
use std::net::Shutdown;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::sys::socket::sockopt::PeerCredentials;
use nix::sys::socket::{getsockopt, shutdown};

use super::claim::Claim;
use super::line::{Lines, NoLine, Writer};
use super::protocol::{Code, Refusal};
use super::reply::refuse;
use super::service::{Caller, Service};

/// Connections at a time.
const MAX_CONNECTIONS: usize = 16;
/// Threads of connections, with those that are about to end.
const MAX_THREADS: usize = 2 * MAX_CONNECTIONS;
/// Bytes of the longest request.
pub const MAX_REQUEST: usize = 64 << 10;
/// How long a connection may stay without a request.
const IDLE: Duration = Duration::from_secs(60);
/// How long a request may take to arrive.
const ARRIVAL: Duration = Duration::from_secs(5);
/// How long a reply may take to be read.
const REPLY: Duration = Duration::from_secs(30);
/// After a failure to accept, such as when there are no file descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// Answers on a socket until it is dropped; then the socket is removed and all connections are closed.
#[derive(Debug)]
pub struct Server {
    shared: Arc<Shared>,
    claim: Option<Claim>,
    accept: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    service: Arc<Service>,
    stopping: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    connections: Vec<Connection>,
    threads: usize,
    next: u64,
}

#[derive(Debug)]
struct Connection {
    number: u64,
    stream: Arc<UnixStream>,
    /// Since when there is no request; `None` while one is answered.
    idle: Option<Instant>,
}

impl Server {
    /// Starts to answer.
    pub fn start(claim: Claim, service: Arc<Service>) -> io::Result<Server> {
        let shared = Arc::new(Shared { service, stopping: AtomicBool::new(false), state: Mutex::default() });
        let listener = claim.listener().try_clone()?;
        let accept = thread::Builder::new().name("control".into()).spawn({
            let shared = shared.clone();
            move || {
                while !shared.stopping.load(Ordering::Acquire) {
                    match listener.accept() {
                        Ok((stream, _)) => shared.clone().admit(stream),
                        Err(_) if shared.stopping.load(Ordering::Acquire) => {}
                        Err(error) if error.kind() == ErrorKind::Interrupted => {}
                        Err(error) => {
                            tracing::warn!(%error, "cannot accept a control connection");
                            thread::sleep(PAUSE);
                        }
                    }
                }
            }
        })?;
        Ok(Server { shared, claim: Some(claim), accept: Some(accept) })
    }

    /// Where it answers.
    pub fn path(&self) -> Option<&Path> {
        self.claim.as_ref().map(Claim::path)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::Release);
        if let Some(claim) = &self.claim {
            // Wakes `accept`, as on Linux.
            let _ = shutdown(claim.listener().as_raw_fd(), nix::sys::socket::Shutdown::Both);
        }
        if let Some(accept) = self.accept.take() {
            let _ = accept.join();
        }
        // The name is free before the last client sees the end of its connection.
        self.claim = None;
        for connection in &self.shared.lock().connections {
            let _ = connection.stream.shutdown(Shutdown::Both);
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a connection its thread, in the place of an idle one if there are too many.
    fn admit(self: Arc<Self>, stream: UnixStream) {
        let stream = Arc::new(stream);
        let mut state = self.lock();
        if state.connections.len() >= MAX_CONNECTIONS {
            let idle = state.connections.iter().enumerate().filter_map(|(index, c)| Some((c.idle?, index)));
            if let Some((_, index)) = idle.min() {
                let _ = state.connections.swap_remove(index).stream.shutdown(Shutdown::Both);
            }
        }
        if state.connections.len() >= MAX_CONNECTIONS || state.threads >= MAX_THREADS {
            drop(state);
            tracing::debug!("a control connection was refused: there are too many");
            let message = format!("there are {MAX_CONNECTIONS} connections already");
            // It fits into the socket's buffer; a client that does not read it learns the same from the end of the
            // connection.
            let _ = refuse(&mut Writer::new(&stream, PAUSE), Refusal { code: Code::Busy, message });
            return;
        }
        let number = state.next;
        state.next += 1;
        state.threads += 1;
        state.connections.push(Connection { number, stream: stream.clone(), idle: Some(Instant::now()) });
        drop(state);
        let started = thread::Builder::new().name(format!("control-{number}")).spawn({
            let shared = self.clone();
            move || {
                shared.serve(number, &stream);
                shared.end(number);
            }
        });
        if let Err(error) = started {
            tracing::warn!(%error, "no thread for a control connection");
            self.end(number);
        }
    }

    fn serve(&self, number: u64, stream: &UnixStream) {
        let caller = match getsockopt(stream, PeerCredentials) {
            Ok(credentials) => Caller::process(credentials.pid(), credentials.uid()),
            Err(_) => return,
        };
        let mut lines = Lines::new(stream, MAX_REQUEST);
        loop {
            let line = match lines.next(IDLE, ARRIVAL) {
                Ok(line) => line,
                Err(NoLine::TooLong) => {
                    tracing::debug!(pid = caller.pid, uid = caller.uid, "a control request is too long");
                    let message = format!("a request has {MAX_REQUEST} bytes at most");
                    let refusal = Refusal { code: Code::BadRequest, message };
                    let _ = refuse(&mut Writer::new(stream, PAUSE), refusal);
                    return;
                }
                Err(NoLine::TooSlow | NoLine::Closed) => return,
                Err(NoLine::Failed(error)) => {
                    tracing::debug!(%error, "a control connection failed");
                    return;
                }
            };
            self.set_idle(number, None);
            if let Err(error) = self.service.answer(line, caller, &mut Writer::new(stream, REPLY)) {
                tracing::debug!(%error, pid = caller.pid, "a control client did not take its reply");
                return;
            }
            self.set_idle(number, Some(Instant::now()));
        }
    }

    fn set_idle(&self, number: u64, idle: Option<Instant>) {
        let mut state = self.lock();
        if let Some(connection) = state.connections.iter_mut().find(|c| c.number == number) {
            connection.idle = idle;
        }
    }

    fn end(&self, number: u64) {
        let mut state = self.lock();
        state.connections.retain(|connection| connection.number != number);
        state.threads -= 1;
    }
}
