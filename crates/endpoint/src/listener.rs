//! The address of an endpoint: taken before anything else is changed, put in force, given back.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;
use tokio::time::sleep;

use crate::connections::{Acceptor, Connections, accept};
use crate::site::Site;

/// How long what has begun may take when it is to end.
const END: Duration = Duration::from_secs(1);
/// How often it is looked at meanwhile.
const ROUND: Duration = Duration::from_millis(5);

/// Where a site is answered, in a thread of its own.
pub struct Endpoint<S: Site> {
    site: Arc<S>,
    running: Mutex<Option<Running<S>>>,
}

struct Running<S: Site> {
    settings: S::Settings,
    /// Where it listens in fact: the port may have been left to the system.
    address: SocketAddr,
    tls: Acceptor,
    stop: oneshot::Sender<()>,
    /// Ends when nobody listens any more.
    closed: Receiver<()>,
    thread: JoinHandle<()>,
}

/// What is to be in force, with all that it takes.
#[derive(Debug)]
pub struct Bound<S: Site>(Option<(S::Settings, Option<TcpListener>)>);

impl<S: Site> std::fmt::Debug for Endpoint<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Endpoint").field("url", &self.url()).finish_non_exhaustive()
    }
}

/// Takes the address of an instance that does not run yet.
///
/// # Errors
/// Why it can't be had.
pub fn bind<S: Site>(settings: Option<S::Settings>) -> Result<Bound<S>, String> {
    let bound = settings.map(|settings| {
        let listener = listener::<S>(S::address(&settings))?;
        Ok((settings, Some(listener)))
    });
    bound.transpose().map(Bound)
}

impl<S: Site> Endpoint<S> {
    /// Without an address.
    pub fn new(site: S) -> Endpoint<S> {
        Endpoint { site: Arc::new(site), running: Mutex::default() }
    }

    /// Takes the address of other settings; nothing has changed yet.
    ///
    /// # Errors
    /// Why it can't be had.
    pub fn bind(&self, settings: Option<S::Settings>) -> Result<Bound<S>, String> {
        let now = self.lock();
        let (Some(settings), Some(now)) = (&settings, &*now) else { return bind(settings) };
        let listen = S::address(settings);
        if listen == S::address(&now.settings) {
            return Ok(Bound(Some((settings.clone(), None))));
        }
        let overlaps = listen.port() == now.address.port();
        let own = || format!("; this instance listens at {}: another port, or a restart, is needed", now.address);
        bind(Some(settings.clone())).map_err(|error| if overlaps { error + &own() } else { error })
    }

    /// Puts settings in force. Whether that changed anything.
    ///
    /// # Errors
    /// The system has no thread.
    pub fn put(&self, Bound(bound): Bound<S>) -> io::Result<bool> {
        let mut now = self.lock();
        let (settings, listener) = match (bound, &mut *now) {
            (None, _) => return Ok(now.take().map(Running::end).is_some()),
            (Some((settings, None)), Some(now)) => {
                let is_new = now.settings != settings;
                self.site.put(&settings);
                *now.tls.write().unwrap_or_else(PoisonError::into_inner) = S::tls(&settings).map(|tls| tls.acceptor());
                now.settings = settings;
                return Ok(is_new);
            }
            (Some((settings, Some(listener))), _) => (settings, listener),
            // It has been ended meanwhile.
            (Some((_, None)), None) => return Ok(false),
        };
        self.site.put(&settings);
        let next = Running::start(settings, listener, self.site.clone())?;
        now.replace(next).into_iter().for_each(|old| drop(old.end()));
        Ok(true)
    }

    /// Where it is, if it is anywhere.
    pub fn url(&self) -> Option<String> {
        let url = |now: &Running<S>| {
            let scheme = if S::tls(&now.settings).is_some() { "https" } else { "http" };
            format!("{scheme}://{}{}", now.address, S::PATH)
        };
        self.lock().as_ref().map(url)
    }

    /// Answers nothing more.
    pub fn stop(&self) {
        // One that has panicked has said so.
        self.lock().take().into_iter().for_each(|now| drop(now.end().join()));
    }

    fn lock(&self) -> MutexGuard<'_, Option<Running<S>>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: Site> Drop for Endpoint<S> {
    fn drop(&mut self) {
        self.stop();
    }
}

fn listener<S: Site>(address: SocketAddr) -> Result<TcpListener, String> {
    let listen = || {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        Ok(listener)
    };
    listen().map_err(|error: io::Error| {
        let hint = match error.kind() {
            io::ErrorKind::AddrInUse => ": another program, or another instance, listens there",
            io::ErrorKind::AddrNotAvailable => ": no interface has this address",
            _ => "",
        };
        let section = S::SECTION;
        format!("{section}: cannot listen on {address}{hint} ({error}); give [{section}] another `listen`")
    })
}

impl<S: Site> Running<S> {
    fn start(settings: S::Settings, listener: TcpListener, site: Arc<S>) -> io::Result<Running<S>> {
        let address = listener.local_addr()?;
        let tls = Acceptor::new(RwLock::new(S::tls(&settings).map(|tls| tls.acceptor())));
        let blocking = S::LIMITS.blocking;
        let runtime = Builder::new_current_thread().enable_all().max_blocking_threads(blocking).build()?;
        let (stop, stopped) = oneshot::channel();
        let (closing, closed) = channel();
        let thread = thread::Builder::new().name(S::SECTION.into()).spawn({
            let tls = tls.clone();
            move || {
                // Packets come first.
                dataplane::give_way();
                serve(runtime, (listener, site, tls), stopped, closing);
            }
        })?;
        Ok(Running { settings, address, tls, stop, closed, thread })
    }

    /// Nobody listens any more when this returns. The thread ends when what has begun has ended, which may be the
    /// caller: a reload that came by this endpoint.
    fn end(self) -> JoinHandle<()> {
        // The thread listens until it is told.
        let _ = self.stop.send(());
        let _ = self.closed.recv_timeout(END);
        self.thread
    }
}

fn serve<S: Site>(
    runtime: Runtime,
    (listener, site, tls): (TcpListener, Arc<S>, Acceptor),
    stopped: oneshot::Receiver<()>,
    closing: Sender<()>,
) {
    runtime.block_on(async {
        let listener = match tokio::net::TcpListener::from_std(listener) {
            Ok(listener) => listener,
            Err(error) => return tracing::error!("{}: cannot listen: {error}", S::SECTION),
        };
        site.begin();
        let connections = Connections::default();
        let accepting = tokio::spawn(accept(listener, site, tls, connections.clone()));
        // An error is the end, too.
        let _ = stopped.await;
        accepting.abort();
        // The address is free when the task has ended.
        let _ = accepting.await;
        drop(closing);
        let end = Instant::now() + END;
        while connections.are_answered() && Instant::now() < end {
            sleep(ROUND).await;
        }
    });
    runtime.shutdown_timeout(END);
}
