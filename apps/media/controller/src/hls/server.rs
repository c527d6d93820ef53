//! Connections of viewers by HTTP, in a thread of their own: what they are sent delays nobody's packets.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener as Bound};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use media_cache::Cache;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::task::AbortHandle;

use super::ask;
use super::counts::add;
use super::patience::Patient;
use super::respond::{Front, respond};
use crate::settings::http::HttpSettings;
use crate::sockets::listener::bind;
use crate::sockets::shared::{Shared, canonical};

/// Threads that read files at most.
const READERS: usize = 16;
/// How long they may take at the end.
const END: Duration = Duration::from_secs(1);
/// The longest head of a request, in bytes.
const LONGEST_HEAD: usize = 32 << 10;

/// What its thread is told.
enum Change {
    Listen(SocketAddr, Bound),
    Leave(SocketAddr),
}

struct Running {
    front: Arc<Front>,
    changes: UnboundedSender<Change>,
    thread: JoinHandle<()>,
    listens: Vec<SocketAddr>,
}

/// See the module. Without settings there is no thread.
#[derive(Default)]
pub struct Http(Option<Running>);

impl std::fmt::Debug for Http {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Http").field(&self.0.as_ref().map(|own| &own.listens)).finish()
    }
}

impl Http {
    /// Serves recordings as settings say from now on.
    ///
    /// # Errors
    /// The first address that can't be had, or no thread; nothing has changed then.
    pub fn set(&mut self, settings: Option<&HttpSettings>, shared: &Shared) -> Result<(), String> {
        let Some(settings) = settings else {
            self.stop();
            return Ok(());
        };
        let had = self.0.as_ref().map_or(&[][..], |own| &own.listens);
        let mut new = Vec::new();
        for address in settings.listen.iter().filter(|own| !had.contains(own)) {
            let both = !settings.listen.iter().any(|own| own.is_ipv4() && own.port() == address.port());
            let bound = bind(*address, both).and_then(TcpListener::into_std);
            new.push((*address, bound.map_err(|error| format!("cannot listen on {address}: {error}"))?));
        }
        let own = match &mut self.0 {
            Some(own) => own,
            None => self.0.insert(start(settings, shared).map_err(|error| format!("HTTP: {error}"))?),
        };
        own.front.set_settings(settings);
        let gone = own.listens.iter().filter(|own| !settings.listen.contains(own));
        let changes =
            gone.map(|own| Change::Leave(*own)).chain(new.into_iter().map(|(own, on)| Change::Listen(own, on)));
        // The thread is there as long as somebody may tell it anything.
        changes.for_each(|change| _ = own.changes.send(change));
        own.listens.clone_from(&settings.listen);
        Ok(())
    }

    /// Recordings are in this cache from now on.
    pub fn use_cache(&self, cache: Option<Cache>) {
        self.0.iter().for_each(|own| own.front.set_cache(cache.clone()));
    }

    fn stop(&mut self) {
        if let Some(Running { front, changes, thread, .. }) = self.0.take() {
            drop(changes);
            front.set_cache(None);
            // One that has panicked has said so.
            let _ = thread.join();
        }
    }
}

impl Drop for Http {
    fn drop(&mut self) {
        self.stop();
    }
}

fn start(settings: &HttpSettings, shared: &Shared) -> io::Result<Running> {
    let front = Arc::new(Front::new(settings, ask::answer(shared.clone())));
    let counts = front.counts.clone();
    shared.count_http(Box::new(move || counts.now()));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(READERS).build()?;
    let (changes, mut told) = unbounded_channel();
    let own = front.clone();
    let run = move || {
        // Packets come first: one that is late may be lost, a segment is only late.
        dataplane::give_way();
        runtime.block_on(async {
            let mut listeners: HashMap<SocketAddr, AbortHandle> = HashMap::new();
            while let Some(change) = told.recv().await {
                match change {
                    Change::Leave(address) => listeners.remove(&address).iter().for_each(AbortHandle::abort),
                    Change::Listen(address, bound) => match TcpListener::from_std(bound) {
                        Ok(listener) => {
                            let task = tokio::spawn(accept(listener, own.clone()));
                            listeners.insert(address, task.abort_handle());
                        }
                        Err(error) => tracing::error!("cannot listen on {address}: {error}"),
                    },
                }
            }
        });
        runtime.shutdown_timeout(END);
    };
    let thread = thread::Builder::new().name("media-http".into()).spawn(run)?;
    Ok(Running { front, changes, thread, listens: Vec::new() })
}

async fn accept(listener: TcpListener, front: Arc<Front>) {
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                let address = canonical(peer).ip();
                let settings = front.settings();
                let Some(place) = front.places.take(address, settings.connections, settings.per_client) else {
                    // One beyond the limits is closed at once.
                    add(&front.counts.beyond, 1);
                    continue;
                };
                add(&front.counts.accepted, 1);
                tokio::spawn(serve(stream, address, place, front.clone(), settings.idle));
            }
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            // No descriptors, no memory: connections that wait are accepted when others have ended.
            Err(error) => {
                tracing::warn!("cannot accept a connection by HTTP: {error}");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

async fn serve(stream: TcpStream, address: IpAddr, place: Place, front: Arc<Front>, idle: Duration) {
    // Answers are written as a whole, so nothing is gained by waiting.
    let _ = stream.set_nodelay(true);
    let counts = front.counts.clone();
    counts.connections.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let service = service_fn(|request| respond(front.clone(), address, request));
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(idle).max_buf_size(LONGEST_HEAD);
    // Clients end connections as they like.
    let _ = builder.serve_connection(TokioIo::new(Patient::new(stream, counts.clone())), service).await;
    counts.connections.fetch_sub(1, std::sync::atomic::Ordering::Relaxed);
    drop(place);
}

/// Connections that there are, by address.
#[derive(Debug, Default)]
pub(super) struct Places(Arc<Mutex<HashMap<IpAddr, usize>>>);

/// One of them.
#[derive(Debug)]
struct Place(Arc<Mutex<HashMap<IpAddr, usize>>>, IpAddr);

impl Places {
    fn take(&self, address: IpAddr, most: usize, of_one: usize) -> Option<Place> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.values().sum::<usize>() >= most || all.get(&address).is_some_and(|own| *own >= of_one) {
            return None;
        }
        *all.entry(address).or_default() += 1;
        Some(Place(self.0.clone(), address))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = all.get_mut(&self.1) {
            *own -= 1;
            if *own == 0 {
                all.remove(&self.1);
            }
        }
    }
}
