//! The proxy on a running instance: a current-thread runtime beside the link's packets.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use collectors::ipfix::Flows;
use control::application::{CompiledSettings, Kept, Queries, Reloads};
use dataplane::controller::{Event, Events, Link, Punted, Stop};
use tokio::runtime::Runtime;
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::hls::server::Http;
use crate::settings::Settings;
use crate::sockets::listener::Listeners;
use crate::sockets::shared::Shared;

/// Packets that are worked on before tasks have their turn.
const BATCH: usize = 64;
/// Between two looks at what is due.
const TICK: Duration = Duration::from_millis(500);
/// How long origins may take at the end to be told.
const END: Duration = Duration::from_secs(2);
/// How long it may take that siblings know.
const LEAVE: Duration = Duration::from_secs(1);

/// What outlasts runs of the controller: the runtime with its tasks, which are all connections.
pub struct Server {
    runtime: Runtime,
    shared: Shared,
    listeners: Listeners,
    http: Http,
}

impl Server {
    /// One without connections, with what was kept by another one. Flows that are over go where it is said.
    pub fn new(settings: Arc<Settings>, kept: Kept, flows: Flows) -> Result<Server, String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| error.to_string())?;
        Ok(Server {
            runtime,
            shared: Shared::new(settings, kept, flows)?,
            listeners: Listeners::default(),
            http: Http::default(),
        })
    }

    /// Runs until the link stops.
    pub fn run(&mut self, link: &mut Link, reloads: &Reloads<Settings>, queries: &Queries) -> Result<(), String> {
        let Server { runtime, shared, listeners, http } = self;
        runtime.block_on(run(link, shared, (listeners, http), reloads, queries))
    }
}

fn put_in_force(
    shared: &Shared,
    (listeners, http): (&mut Listeners, &mut Http),
    compiled: &CompiledSettings<Settings>,
) -> Result<(), String> {
    let settings = compiled.own.as_ref().ok_or("there are no settings")?;
    listeners.set(&settings.listen, shared)?;
    http.set(settings.http.as_ref(), shared)?;
    shared.set_settings(settings);
    http.use_cache(shared.cache());
    Ok(())
}

async fn run(
    link: &mut Link,
    shared: &Shared,
    (listeners, http): (&mut Listeners, &mut Http),
    reloads: &Reloads<Settings>,
    queries: &Queries,
) -> Result<(), String> {
    let text = |error: io::Error| error.to_string();
    let field = |name| link.field(name).map_err(|error| error.to_string());
    let (track, generation) = (field("track")?, field("generation")?);
    let events = Events::new(link).map_err(text)?;
    reloads.wakes(link.waker());
    queries.wakes(link.waker());
    let begun = reloads.begun();
    shared.use_program(link)?;
    put_in_force(shared, (listeners, http), &begun)?;
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut packets = Vec::with_capacity(BATCH);
    let mut ends: Option<Instant> = None;
    loop {
        let event = tokio::select! {
            event = events.next(link) => event.map_err(text)?,
            _ = ticks.tick() => {
                shared.tick();
                if ends.is_some_and(|ends| ends <= Instant::now() || shared.origins() == 0) {
                    return Ok(());
                }
                continue;
            }
        };
        match event {
            Event::Packet(packet) => {
                packets.push(packet);
                link.receive_many(&mut packets, BATCH - 1);
                let number = |packet: &Punted, field| packet.metadata(field) as u32;
                let all = packets.iter().map(|own| (number(own, track), number(own, generation), own.bytes()));
                shared.deliver(all);
                packets.clear();
                // Where packets come without end, connections are served all the same.
                tokio::task::yield_now().await;
            }
            Event::Room => shared.has_room(),
            Event::Timer(_) => {}
            Event::Idle => {
                reloads.apply(|compiled| put_in_force(shared, (listeners, http), compiled));
                queries.answer(|name, with| shared.query(name, with));
            }
            Event::Stop => {
                if link.stopping() == Some(Stop::TakeOver) || ends.is_some() {
                    return Ok(());
                }
                if shared.outlasts() {
                    return Ok(());
                }
                // Origins are told, and clients whose connections carry streams.
                shared.end();
                let drains = shared.origins() > 0 && link.drain(END);
                shared.leave(LEAVE).await;
                if !drains {
                    return Ok(());
                }
                ends = Some(Instant::now() + END);
            }
        }
    }
}
