//! The proxy on a running instance: a current-thread runtime beside the link's packets.

mod leftover;
mod path;
mod segment;

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use control::access_log::AccessLog;
use control::application::{Answer, CompiledSettings, Kept, Queries, Reloads};
use dataplane::controller::{Event, Events, Link, Stop};
use serde_json::Value as Json;
use tokio::runtime::Runtime;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{Instant, MissedTickBehavior, interval};

use self::leftover::Ends;
use self::path::{Came, LivePath, LiveWorld, clock};
use crate::admin::queries;
use crate::log::access_log::Line;
use crate::proxy::Proxy;
use crate::proxy::requests::Segment;
use crate::proxy::take_up::Left;
use crate::proxy::world::Effect;
use crate::relay::{Relay, RelayEvent, What};
use crate::settings::Settings;
use crate::sources::{SourceEvent, Sources};

/// Packets that are worked on before tasks have their turn.
const BATCH: usize = 64;
/// Between two looks at what is due; while the first packet of a stream is awaited each of them is one.
const TICK: Duration = Duration::from_millis(20);
/// Otherwise so many of them.
const TICKS: u32 = 12;
/// How long clients and servers may take at the end.
const END: Duration = Duration::from_secs(2);

/// What outlasts runs of the controller: the runtime with its tasks, and all connections.
pub struct Server {
    runtime: Runtime,
    state: State,
}

struct State {
    proxy: Proxy<LiveWorld>,
    /// Records of connections, and of streams.
    kept: Kept,
    sources: Sources,
    relays: HashMap<u32, Relay>,
    log: Option<AccessLog>,
    source_events: UnboundedReceiver<SourceEvent>,
    relay_events: UnboundedReceiver<RelayEvent>,
    relay_sender: UnboundedSender<RelayEvent>,
    /// Whether it has had a program.
    has_run: bool,
    /// Whether another one in this process has failed.
    is_again: bool,
}

impl Server {
    /// One without connections, with what was kept by another one.
    /// `is_again`: that one was in this process.
    pub fn new(settings: Arc<Settings>, kept: Kept, is_again: bool) -> Result<Server, String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| error.to_string())?;
        let (sender, source_events) = unbounded_channel();
        let (relay_sender, relay_events) = unbounded_channel();
        let sources = Sources::new(&settings, kept.clone(), sender)?;
        let log = settings.log.as_ref().and_then(AccessLog::open);
        let proxy = Proxy::new(LiveWorld::default(), settings);
        let relays = HashMap::new();
        let state = State {
            proxy,
            kept,
            sources,
            relays,
            log,
            source_events,
            relay_events,
            relay_sender,
            has_run: false,
            is_again,
        };
        Ok(Server { runtime, state })
    }

    /// Runs until the link stops.
    pub fn run(&mut self, link: &mut Link, reloads: &Reloads<Settings>, queries: &Queries) -> Result<(), String> {
        let Server { runtime, state } = self;
        runtime.block_on(run(link, state, reloads, queries))
    }
}

impl State {
    fn put_in_force(&mut self, path: &mut LivePath, compiled: &CompiledSettings<Settings>) -> Result<(), String> {
        let settings = compiled.own.as_ref().ok_or("there are no settings")?;
        path.serve(&settings.listen)?;
        if self.log.as_ref().map(AccessLog::settings) != settings.log.as_ref() {
            self.log = settings.log.as_ref().and_then(AccessLog::open);
        }
        self.sources.set_settings(settings);
        self.event(path, |proxy| proxy.set_settings(settings.clone()));
        Ok(())
    }

    /// Gives the proxy an event, and carries out what it has done.
    fn event<T>(&mut self, path: &mut LivePath, event: impl FnOnce(&mut Proxy<LiveWorld>) -> T) -> T {
        self.proxy.set_now(clock());
        let result = event(&mut self.proxy);
        while let Some(effect) = self.proxy.next_effect() {
            self.carry_out(path, effect);
        }
        let records = self.proxy.take_records();
        if !records.is_empty() {
            self.kept.change(records);
        }
        path.flush();
        result
    }

    fn carry_out(&mut self, path: &mut LivePath, effect: Effect) {
        match effect {
            Effect::Order(connection, generation, order) => path.order(connection, generation, &order),
            Effect::Document { connection, index, next, bytes } => path.document(connection, index, next, &bytes),
            Effect::Join(stream, connection) => path.join(stream, connection),
            Effect::Leave(stream, connection) => path.leave(stream, connection),
            Effect::OpenStream { stream, source, delivery } => {
                path.keep(stream, &delivery);
                self.sources.open(stream, &source);
            }
            Effect::CloseStream(stream) => self.sources.close(stream),
            Effect::Connect { connection, generation, server, bytes } => {
                let relay = Relay::start(server, (connection, generation), bytes, self.relay_sender.clone());
                self.relays.insert(connection, relay);
            }
            Effect::ToServer(connection, bytes) => {
                self.relays.get(&connection).into_iter().for_each(|relay| relay.send(bytes.clone()));
            }
            Effect::EndServer(connection) => self.relays.get_mut(&connection).into_iter().for_each(Relay::end),
            Effect::ReadServer(connection) => self.relays.get(&connection).into_iter().for_each(Relay::read),
            Effect::Disconnect(connection) => _ = self.relays.remove(&connection),
            Effect::Log(ended) => self.log.iter().for_each(|log| {
                log.line(|format| Line::new(&ended, SystemTime::now()).text(format));
            }),
        }
    }

    fn came(&mut self, path: &mut LivePath, came: Came) {
        self.event(path, |proxy| match came {
            Came::Request { key, first, mss, payload } => {
                proxy.segment(Segment { key, first, mss, payload });
            }
            Came::Notice(connection, generation, notice) => proxy.notice(connection, generation, notice),
        });
    }

    fn source_event(&mut self, path: &mut LivePath, event: SourceEvent) {
        match event {
            SourceEvent::Ended { stream, id, refusal } => {
                if self.sources.is_current(stream, id) {
                    self.event(path, |proxy| proxy.source_ended(stream, refusal));
                }
            }
            SourceEvent::Session { stream, id, session } => self.sources.has_session(stream, id, session),
            SourceEvent::Packet { stream, id, bytes } => {
                if self.sources.is_current(stream, id) {
                    let counts = &mut self.proxy.counts;
                    match path.packet(stream, &bytes) {
                        true => counts.relayed_packets += 1,
                        false => counts.malformed += 1,
                    }
                }
            }
        }
    }

    fn relay_event(&mut self, path: &mut LivePath, event: RelayEvent) {
        let RelayEvent { connection, generation, what } = event;
        if matches!(what, What::Ended(Err(_))) {
            self.relays.remove(&connection);
        }
        self.event(path, |proxy| match what {
            What::Bytes(bytes) => proxy.server_says(connection, generation, &bytes),
            What::Took(bytes) => proxy.server_took(connection, generation, bytes),
            What::Ended(result) => proxy.server_ended(connection, generation, result),
        });
    }

    /// Whether clients have their end, and servers are gone.
    fn is_said(&self, link: &Link, last: &Ends) -> bool {
        self.sources.servers() == 0 && self.proxy.numbers().all(|number| last.has_come(link.tables(), number))
    }

    fn query(&mut self, path: &mut LivePath, name: &str, with: &Json) -> Answer {
        if ["origins", "origin"].contains(&name) {
            return self.sources.query(name, with);
        }
        let counts = self.log.as_ref().map(AccessLog::counts);
        self.event(path, |proxy| {
            if let Some((lost, written)) = counts {
                (proxy.counts.log_lost, proxy.counts.log_written) = (lost, written);
            }
            queries::answer(proxy, name, with)
        })
    }
}

async fn run(link: &mut Link, state: &mut State, reloads: &Reloads<Settings>, queries: &Queries) -> Result<(), String> {
    let text = |error: io::Error| error.to_string();
    let events = Events::new(link).map_err(text)?;
    reloads.wakes(link.waker());
    queries.wakes(link.waker());
    let mut path = LivePath::of(link)?;
    state.proxy.world = LiveWorld::of(link.tables())?;
    let streams = state.sources.use_tables(link.tables())?;
    state.put_in_force(&mut path, &reloads.begun())?;
    if !std::mem::replace(&mut state.has_run, true) {
        let left = Left {
            records: state.kept.all(),
            streams,
            connections: leftover::connections(link.program(), link.tables())?,
            held: leftover::held(link.program(), link.tables())?,
            is_exact: state.is_again || link.ports().iter().all(|port| port.in_kernel),
        };
        state.event(&mut path, |proxy| proxy.take_up(left));
        path.leave_others(&state.proxy.playing());
    }
    let last = Ends::of(link.program())?;
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut packets = Vec::with_capacity(BATCH);
    let (mut ends, mut passed): (Option<Instant>, u32) = (None, 0);
    loop {
        let event = tokio::select! {
            event = events.next(link) => event.map_err(text)?,
            Some(event) = state.source_events.recv() => {
                state.source_event(&mut path, event);
                continue;
            }
            Some(event) = state.relay_events.recv() => {
                state.relay_event(&mut path, event);
                continue;
            }
            _ = ticks.tick() => {
                passed += 1;
                if passed % TICKS == 0 {
                    state.sources.tick();
                }
                if passed % TICKS == 0 || state.proxy.is_awaiting() {
                    state.event(&mut path, Proxy::tick);
                }
                if ends.is_some_and(|ends| ends <= Instant::now() || state.is_said(link, &last)) {
                    state.event(&mut path, Proxy::forget_all);
                    return Ok(());
                }
                continue;
            }
        };
        match event {
            Event::Packet(packet) => {
                packets.push(packet);
                link.receive_many(&mut packets, BATCH - 1);
                for packet in packets.drain(..) {
                    if let Some(came) = path.came(&packet) {
                        state.came(&mut path, came);
                    }
                }
                // Where packets come without end, others are served all the same.
                tokio::task::yield_now().await;
            }
            Event::Timer(_) => {}
            Event::Room => path.flush(),
            Event::Idle => {
                reloads.apply(|compiled| state.put_in_force(&mut path, compiled));
                queries.answer(|name, with| state.query(&mut path, name, with));
            }
            Event::Stop => {
                if link.stopping() == Some(Stop::TakeOver) {
                    return Ok(());
                }
                if ends.is_some() {
                    state.event(&mut path, Proxy::forget_all);
                    return Ok(());
                }
                // All goes on with the next start, as if the process were killed.
                if state.proxy.settings().outlast && state.kept.is_on_disk() && link.keep_kernel() {
                    return Ok(());
                }
                // Clients get the end of what they have, and servers are told. Who comes now is the kernel's to refuse.
                path.serve(&[])?;
                state.event(&mut path, Proxy::end);
                state.sources.end();
                if !link.drain(END) {
                    return Ok(());
                }
                ends = Some(Instant::now() + END);
            }
        }
    }
}
