//! Where monitoring systems connect to: as the configuration has it, and as a reload has it from then on.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use control::config::Metrics;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;

use crate::answer::Front;
pub use crate::answer::{Look, PATH};
use crate::connections::accept;

/// How long a look at the instance may take that has begun when it is to end.
const END: Duration = Duration::from_secs(1);

/// Tells monitoring systems what an instance counts, in a thread of its own.
pub struct Exporter {
    look: Look,
    running: Mutex<Option<Running>>,
}

struct Running {
    settings: Metrics,
    /// Where it listens in fact: the port may have been left to the system.
    address: SocketAddr,
    front: Arc<Front>,
    stop: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

/// What is to be in force, with all that it takes.
#[derive(Debug)]
pub struct Bound(Option<(Metrics, Option<TcpListener>)>);

impl std::fmt::Debug for Exporter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Exporter").field("url", &self.url()).finish_non_exhaustive()
    }
}

/// Takes the address of an instance that does not run yet.
///
/// # Errors
/// Why it can't be had.
pub fn bind(settings: Option<&Metrics>) -> Result<Bound, String> {
    let bound = settings.map(|settings| Ok((settings.clone(), Some(listener(settings.listen)?))));
    bound.transpose().map(Bound)
}

impl Exporter {
    /// Without an address.
    pub fn new(look: Look) -> Exporter {
        Exporter { look, running: Mutex::default() }
    }

    /// Takes the address of other settings; nothing has changed yet.
    ///
    /// # Errors
    /// Why it can't be had.
    pub fn bind(&self, settings: Option<&Metrics>) -> Result<Bound, String> {
        let now = self.lock();
        let (Some(settings), Some(now)) = (settings, &*now) else { return bind(settings) };
        if settings.listen == now.settings.listen {
            return Ok(Bound(Some((settings.clone(), None))));
        }
        let overlaps = settings.listen.port() == now.address.port();
        let own = || format!("; this instance listens at {}: another port, or a restart, is needed", now.address);
        bind(Some(settings)).map_err(|error| if overlaps { error + &own() } else { error })
    }

    /// Puts settings in force. Whether that changed anything.
    ///
    /// # Errors
    /// The system has no thread.
    pub fn put(&self, Bound(bound): Bound) -> io::Result<bool> {
        let mut now = self.lock();
        let (settings, listener) = match (bound, &mut *now) {
            (None, _) => return Ok(now.take().map(Running::end).is_some()),
            (Some((settings, None)), Some(now)) => {
                let is_new = now.settings != settings;
                now.front.set_hosts(settings.hosts.clone());
                now.settings = settings;
                return Ok(is_new);
            }
            (Some((settings, Some(listener))), _) => (settings, listener),
            // It has been ended meanwhile.
            (Some((_, None)), None) => return Ok(false),
        };
        let next = Running::start(settings, listener, self.look.clone())?;
        now.replace(next).into_iter().for_each(Running::end);
        Ok(true)
    }

    /// Where the figures are, if they are anywhere.
    pub fn url(&self) -> Option<String> {
        self.lock().as_ref().map(|now| format!("http://{}{PATH}", now.address))
    }

    /// Tells nothing more.
    pub fn stop(&self) {
        self.lock().take().into_iter().for_each(Running::end);
    }

    fn lock(&self) -> MutexGuard<'_, Option<Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        self.stop();
    }
}

fn listener(address: SocketAddr) -> Result<TcpListener, String> {
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
        format!("metrics: cannot listen on {address}{hint} ({error}); give [metrics] another `listen`")
    })
}

impl Running {
    fn start(settings: Metrics, listener: TcpListener, look: Look) -> io::Result<Running> {
        let address = listener.local_addr()?;
        let front = Front::new(look, settings.hosts.clone());
        // There is one look at a time, for however many ask.
        let runtime = Builder::new_current_thread().enable_all().max_blocking_threads(1).build()?;
        let (stop, stopped) = oneshot::channel();
        let thread = thread::Builder::new().name("metrics".into()).spawn({
            let front = front.clone();
            move || {
                // Packets come first.
                dataplane::give_way();
                serve(runtime, listener, front, stopped);
            }
        })?;
        Ok(Running { settings, address, front, stop, thread })
    }

    fn end(self) {
        // The thread listens until it is told; one that has panicked has said so.
        let _ = self.stop.send(());
        let _ = self.thread.join();
    }
}

fn serve(runtime: Runtime, listener: TcpListener, front: Arc<Front>, stopped: oneshot::Receiver<()>) {
    runtime.block_on(async {
        match tokio::net::TcpListener::from_std(listener) {
            Ok(listener) => {
                let accepting = tokio::spawn(accept(listener, front));
                // An error is the end, too.
                let _ = stopped.await;
                accepting.abort();
            }
            Err(error) => tracing::error!("metrics: cannot listen: {error}"),
        }
    });
    runtime.shutdown_timeout(END);
}
