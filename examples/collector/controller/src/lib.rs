//! Counts the packets that its program taps, and serves the counts over HTTP: an example of a controller that is a
//! server, on one current-thread runtime of tokio beside its packets.
//!
//! Its program is `examples/collector`. The one await of its loop is that for the link's descriptor: packets, timers,
//! and what its tasks want come by that. Everything else are tasks of the runtime, which run whenever the loop waits,
//! or yields after a batch.

//!
//! | file | idea |
//! |---|---|
//! | `settings` | where it listens |
//! | `state` | the counts and the connections, which loop and tasks share |
//! | `http` | the tasks: connections, and the request of each |

#![forbid(unsafe_code)]

mod http;
mod settings;
mod state;

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use cli::Linked;
use control::application::{Application, CompiledSettings, Given, Reloads, Section, SettingsUse};
use control::document::Errors;
use dataplane::controller::{Controller, Event, Events, Link, Stop};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::task::AbortHandle;

pub use settings::Settings;

use settings::settings_of;
use state::Shared;

/// Packets that are counted before tasks have their turn.
const BATCH: usize = 64;
/// Between two lines of `/live`.
const PERIOD: Duration = Duration::from_millis(100);
/// How long clients may take at the end.
const DRAIN: Duration = Duration::from_secs(10);

/// What outlasts runs of the controller: the runtime with its tasks, which are the connections and what accepts them.
struct Server {
    runtime: Runtime,
    tasks: Tasks,
}

impl Server {
    fn new() -> io::Result<Server> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
        Ok(Server { runtime, tasks: Tasks::default() })
    }
}

/// What it is to Millrace.
pub struct CollectorApplication;

/// How a binary is linked with it.
pub const LINKED: Linked = Linked::new(&CollectorApplication);

impl Application for CollectorApplication {
    const NAME: &'static str = "collector";
    type Settings = Settings;
    const SETTINGS: SettingsUse = SettingsUse::Optional;

    fn controller(&self, given: Given<Settings>) -> Box<dyn Controller> {
        Box::new(Collector::new(given.reloads))
    }

    fn read(&self, section: &Section, errors: &mut Errors, _: &mut Errors) -> CompiledSettings<Settings> {
        settings::read(section, errors)
    }
}

/// The controller.
pub struct Collector {
    reloads: Reloads<Settings>,
    server: Option<Server>,
}

impl Collector {
    /// With where configurations come from.
    fn new(reloads: Reloads<Settings>) -> Collector {
        Collector { reloads, server: None }
    }
}

impl Controller for Collector {
    fn run(&mut self, link: &mut Link) -> Result<(), String> {
        let server = self.server.take().map_or_else(Server::new, Ok);
        let Server { runtime, mut tasks } = server.map_err(|error| error.to_string())?;
        runtime.block_on(tasks.run(link, &self.reloads))?;
        self.server = Some(Server { runtime, tasks });
        Ok(())
    }
}

#[derive(Default)]
struct Tasks {
    shared: Shared,
    accepting: Option<(SocketAddr, AbortHandle)>,
}

impl Tasks {
    /// Listens there from now on.
    fn listen(&mut self, address: SocketAddr) -> Result<(), String> {
        if self.accepting.as_ref().is_some_and(|(own, _)| *own == address) {
            return Ok(());
        }
        let bind = || -> io::Result<TcpListener> {
            let listener = std::net::TcpListener::bind(address)?;
            listener.set_nonblocking(true)?;
            TcpListener::from_std(listener)
        };
        let listener = bind().map_err(|error| format!("cannot listen on {address}: {error}"))?;
        let task = tokio::spawn(http::accept(listener, self.shared.clone()));
        self.stop_listening();
        self.accepting = Some((address, task.abort_handle()));
        Ok(())
    }

    fn stop_listening(&mut self) {
        self.accepting.take().into_iter().for_each(|(_, task)| task.abort());
    }

    /// Runs until the link stops.
    async fn run(&mut self, link: &mut Link, reloads: &Reloads<Settings>) -> Result<(), String> {
        let text = |error: io::Error| error.to_string();
        let rx_port = link.field("rx.port").map_err(|error| error.to_string())?;
        let events = Events::new(link).map_err(text)?;
        reloads.wakes(link.waker());
        self.listen(settings_of(&reloads.begun()).listen)?;
        {
            // Timers are the link's: clients of the one before get new ones.
            let mut state = self.shared.lock();
            state.waker = Some(link.waker());
            state.new = state.live.keys().copied().collect();
        }
        self.set_timers(link);
        let mut packets = Vec::with_capacity(BATCH);
        loop {
            match events.next(link).await.map_err(text)? {
                Event::Packet(packet) => {
                    packets.push(packet);
                    link.receive_many(&mut packets, BATCH - 1);
                    {
                        let mut state = self.shared.lock();
                        packets.drain(..).for_each(|packet| state.count(&packet, rx_port));
                    }
                    // Where packets come without end, clients are served all the same.
                    tokio::task::yield_now().await;
                }
                Event::Timer(id) => {
                    if self.shared.lock().tell(id) {
                        link.set_timer(id, Instant::now() + PERIOD);
                    }
                }
                Event::Room => {}
                Event::Idle => {
                    reloads.apply(|compiled| self.listen(settings_of(compiled).listen));
                    self.set_timers(link);
                    if let Some(error) = self.shared.lock().failed.take() {
                        return Err(format!("cannot accept connections: {error}"));
                    }
                    if self.has_ended() {
                        return Ok(());
                    }
                }
                Event::Stop => {
                    if link.stopping() == Some(Stop::TakeOver) || !self.end() || !link.drain(DRAIN) {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Sets a timer for each client of `/live` that has none.
    fn set_timers(&self, link: &mut Link) {
        let new = std::mem::take(&mut self.shared.lock().new);
        new.into_iter().for_each(|id| link.set_timer(id, Instant::now() + PERIOD));
    }

    /// Accepts no more, and has clients of `/live` told that there is no more; whether there is any connection to wait
    /// for. True once.
    fn end(&mut self) -> bool {
        self.stop_listening();
        let mut state = self.shared.lock();
        state.live.clear();
        !std::mem::replace(&mut state.is_ending, true) && state.open > 0
    }

    fn has_ended(&self) -> bool {
        let state = self.shared.lock();
        state.is_ending && state.open == 0
    }
}
