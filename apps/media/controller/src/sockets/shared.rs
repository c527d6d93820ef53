//! The proxy, and its effects carried out.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, SystemTime};

use collectors::ipfix::Flows;
use control::access_log::{AccessLog, LogFormat};
use control::application::{Answer, Kept};
use dataplane::controller::{Group, Link, Table};
use media_cache::Cache;
use routes::Lookup;
use serde_json::Value as Json;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};
use wire::rtp;

use super::data_path::{DataPath, Tables};
use super::datagrams::To;
use super::group_input::GroupInput;
use super::live::Live;
use super::origin;
use super::outbox::Outbox;
use super::recording::{self, Played};
use super::thinning::Fate;
use crate::admin::{cache, queries};
use crate::cache::recordings::Recordings;
use crate::log::access_log::Line;
use crate::log::flow;
use crate::members::report::{Report, channel};
use crate::members::watchers::Watchers;
use crate::proxy::http::Numbers;
use crate::proxy::world::{Effect, From, World as _};
use crate::proxy::{ClientId, Left, MOST_TRACKS, OriginId, Proxy};
use crate::settings::Settings;
use crate::tables::{Flow, FlowKey, Progress, Receiver};

/// Between two looks whether the way to a viewer is known,
const LOOK: Duration = Duration::from_millis(2);
/// and how long it is looked for. The kernel asks for a neighbour once a second, and mostly once is enough.
const SOUGHT: Duration = Duration::from_millis(1500);

/// An address as the rest of the program has it: those of IPv4 are IPv4.
pub fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// The proxy with its connections; clones are the same.
#[derive(Clone)]
pub struct Shared(Arc<Mutex<State>>);

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

/// The same for the proxy's own world, which must not keep the proxy: its ports are free again when it is gone.
#[derive(Clone, Default)]
pub(super) struct WeakShared(Weak<Mutex<State>>);

impl WeakShared {
    /// The proxy, as long as it is there.
    pub(super) fn upgrade(&self) -> Option<Shared> {
        self.0.upgrade().map(Shared)
    }
}

impl fmt::Debug for WeakShared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WeakShared").finish_non_exhaustive()
    }
}

struct State {
    proxy: Proxy<Live>,
    /// Records of sessions.
    kept: Kept,
    clients: BTreeMap<ClientId, Arc<Outbox>>,
    origins: BTreeMap<OriginId, Arc<Outbox>>,
    log: Option<AccessLog>,
    /// Where sessions go that are over, for collectors of IPFIX.
    flows: Flows,
    http: Option<CountHttp>,
    watchers: Watchers,
}

/// Counts viewers by HTTP.
type CountHttp = Box<dyn Fn() -> Numbers + Send>;

impl Shared {
    /// A proxy without connections, with what was kept by another one.
    pub fn new(settings: Arc<Settings>, kept: Kept, flows: Flows) -> Result<Shared, String> {
        let log = settings.log.as_ref().and_then(AccessLog::open);
        let mut live = Live::new(settings.clone())?;
        live.recordings = settings.cache.as_ref().map(Recordings::open).transpose()?;
        let proxy = Proxy::new(live, settings);
        let shared = Shared(Arc::new(Mutex::new(State {
            proxy,
            kept,
            clients: BTreeMap::new(),
            origins: BTreeMap::new(),
            log,
            flows,
            http: None,
            watchers: Watchers::default(),
        })));
        shared.lock().proxy.world.shared = WeakShared(Arc::downgrade(&shared.0));
        Ok(shared)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Another program runs from now on. Its tables hold what those of the one before held; where they are the first,
    /// sessions of an earlier process go on.
    pub fn use_program(&self, link: &Link) -> Result<(), String> {
        let tables = link.tables();
        let text = |error: dataplane::controller::NameError| error.to_string();
        let mut state = self.lock();
        let flows: Table<FlowKey, Flow> = tables.table("streams.flows").map_err(text)?;
        let receivers: Group<Receiver> = tables.group("streams.receivers").map_err(text)?;
        let left = state.proxy.world.path.is_none().then(|| {
            let groups = if receivers.is_empty() { 0 } else { MOST_TRACKS };
            let of = |group| receivers.members(group).into_iter().map(move |(member, own)| (group, member, own));
            Left { records: state.kept.all(), flows: flows.entries(), members: (0..groups).flat_map(of).collect() }
        });
        let progress: Table<u32, Progress> = tables.table("streams.progress").map_err(text)?;
        let input = GroupInput::of(link).map_err(text)?;
        state.proxy.world.path = Some(Box::new(Tables { flows, receivers, progress, input }));
        state.proxy.world.lookup = Lookup::new(tables).map_err(text)?;
        drop(state);
        left.into_iter().for_each(|left| self.event(|proxy| proxy.take_up(left)));
        Ok(())
    }

    /// Another program than that of this crate runs from now on, with these flow entries. Where it is the first one,
    /// sessions of an earlier process go on; its receivers join anew.
    pub fn use_path(&self, path: Box<dyn DataPath>, flows: Vec<(FlowKey, Flow)>) {
        let mut state = self.lock();
        let is_first = state.proxy.world.path.replace(path).is_none();
        let left = is_first.then(|| Left { records: state.kept.all(), flows, members: Vec::new() });
        drop(state);
        left.into_iter().for_each(|left| self.event(|proxy| proxy.take_up(left)));
    }

    /// There is room again for packets that the program is given.
    pub fn has_room(&self) {
        self.lock().proxy.world.path.iter_mut().for_each(|path| path.has_room());
    }

    /// Other settings from now on.
    pub fn set_settings(&self, settings: &Arc<Settings>) {
        let mut state = self.lock();
        let is_changed = state.proxy.settings().cache != settings.cache;
        let live = &mut state.proxy.world;
        match &settings.cache {
            Some(own) if live.recordings.is_none() => match Recordings::open(own) {
                Ok(own) => live.recordings = Some(own),
                Err(why) => tracing::error!("nothing is recorded: {why}"),
            },
            Some(_) if is_changed => tracing::warn!("what has changed of `cache` is in force with the next start"),
            Some(_) => {}
            None => live.recordings = None,
        }
        if live.settings.media_port != settings.media_port {
            live.datagrams.release_media();
        }
        live.settings = settings.clone();
        if state.log.as_ref().map(AccessLog::settings) != settings.log.as_ref() {
            state.log = settings.log.as_ref().and_then(AccessLog::open);
        }
        state.proxy.set_settings(settings.clone());
        let own = WeakShared(Arc::downgrade(&self.0));
        let followed = state.watchers.set(settings, || {
            let (reports, told) = channel();
            tokio::spawn(tell(told, own));
            reports
        });
        if let Err(error) = followed {
            tracing::error!("members can't be watched: {error}");
        }
    }

    /// Has siblings know that this proxy goes, as far as they find it; for so long at most.
    pub async fn leave(&self, most: Duration) {
        let left = self.lock().watchers.leave();
        if let Some(left) = left {
            // Where that takes longer they find it by themselves.
            let _ = timeout(most, left).await;
        }
    }

    /// Gives the proxy an event, and carries out what it has done.
    pub fn event<T>(&self, event: impl FnOnce(&mut Proxy<Live>) -> T) -> T {
        let mut state = self.lock();
        let now = Duration::from_nanos(state.proxy.world.clock());
        state.proxy.set_now(now);
        let result = event(&mut state.proxy);
        while let Some(effect) = state.proxy.next_effect() {
            state.carry_out(effect, self);
        }
        let records = state.proxy.take_records();
        if !records.is_empty() {
            state.kept.change(records);
        }
        result
    }

    /// Packets of streams for the controller to deliver: each with its track and the number in its flow entry, as an
    /// Ethernet frame.
    pub fn deliver<'p>(&self, packets: impl Iterator<Item = (u32, u32, &'p [u8])>) {
        self.event(|proxy| {
            for (track, generation, frame) in packets {
                if let Some(packet) = payload(frame) {
                    proxy.deliver(track, generation, packet);
                }
            }
        });
    }

    /// What is due.
    pub fn tick(&self) {
        let alive = self.event(|proxy| {
            let clock = Duration::from_nanos(proxy.world.clock());
            proxy.world.recordings.iter_mut().for_each(|own| own.poll(clock));
            proxy.tick();
            proxy.take_alive()
        });
        if alive.is_some() {
            self.lock().kept.change(alive);
        }
    }

    /// Whether the proxy may connect to an address.
    pub fn permits_address(&self, address: IpAddr) -> bool {
        self.lock().proxy.settings().permits_address(address)
    }

    /// How long connecting to an origin may take.
    pub fn connect_timeout(&self) -> Duration {
        self.lock().proxy.settings().timeouts.connect
    }

    /// A client has connected; its number, if there may be another one.
    pub fn client_opened(&self, peer: SocketAddr, local: SocketAddr, outbox: Arc<Outbox>) -> Option<ClientId> {
        let id = self.event(|proxy| proxy.client_opened(peer, local))?;
        self.lock().clients.insert(id, outbox);
        Some(id)
    }

    /// The connection of a client has ended.
    pub fn client_closed(&self, id: ClientId) {
        self.lock().clients.remove(&id);
        self.event(|proxy| proxy.client_closed(id));
    }

    /// The connection to an origin has ended.
    pub fn origin_closed(&self, id: OriginId, why: &str) {
        self.lock().origins.remove(&id);
        self.event(|proxy| proxy.origin_closed(id, why));
    }

    /// Answers a query.
    pub fn query(&self, name: &str, with: &Json) -> Answer {
        if let Some(answer) = cache::answer(self.cache().as_ref(), name, with) {
            return answer;
        }
        let (counts, unwritten) = {
            let state = self.lock();
            (state.log.as_ref().map(AccessLog::counts), state.kept.failed())
        };
        let http = self.lock().http.as_ref().map(|count| count());
        self.event(|proxy| {
            proxy.counts.http = http;
            proxy.counts.unwritten = unwritten;
            if let Some((lost, written)) = counts {
                (proxy.counts.log_lost, proxy.counts.log_written) = (lost, written);
            }
            queries::answer(proxy, name, with)
        })
    }

    /// Viewers by HTTP are counted so from now on.
    pub fn count_http(&self, count: CountHttp) {
        self.lock().http = Some(count);
    }

    /// Adds a line to the access log, where there is one.
    pub fn log(&self, text: impl FnOnce(LogFormat) -> String) {
        if let Some(own) = &self.lock().log {
            own.line(text);
        }
    }

    /// Where streams are recorded.
    pub fn cache(&self) -> Option<Cache> {
        self.lock().proxy.world.recordings.as_ref().map(|own| own.cache().clone())
    }

    /// Ends all sessions; origins are told.
    pub fn end(&self) {
        self.event(Proxy::end);
    }

    /// Whether sessions are to go on in another process.
    pub fn outlasts(&self) -> bool {
        let state = self.lock();
        state.proxy.settings().outlast && state.kept.is_on_disk()
    }

    /// Connections to origins that are there.
    pub fn origins(&self) -> usize {
        self.lock().origins.len()
    }

    /// A datagram has come to an own port.
    pub(super) fn datagram(&self, to: To, from: SocketAddr, bytes: &[u8]) {
        self.event(|proxy| match to {
            To::PairMedia(address, port) if !rtp::is_rtcp(bytes) => {
                proxy.media_at_socket(address, port, from, bytes);
            }
            To::PairMedia(address, port) | To::PairReports(address, port) => {
                proxy.report_from_origin(address, port, from, bytes);
            }
            // Clients open the ways through their firewalls by datagrams of any kind.
            To::Media(_) if !rtp::is_rtcp(bytes) => {}
            To::Media(_) | To::Reports(_) => proxy.report_from_client(from.ip(), bytes),
        });
    }
}

impl State {
    fn carry_out(&mut self, effect: Effect, shared: &Shared) {
        let backlog = self.proxy.settings().limits.backlog;
        match effect {
            Effect::ToClient(id, bytes) => {
                self.clients.get(&id).into_iter().for_each(|outbox| outbox.message(&bytes, backlog));
            }
            Effect::MediaToClient(id, bytes, piece) => {
                match self.clients.get(&id).map(|outbox| outbox.media(&bytes, piece, backlog)) {
                    Some(Fate::Lost) => self.proxy.counts.slow += 1,
                    Some(Fate::Thinned) => self.proxy.counts.thinned += 1,
                    Some(Fate::Sent) | None => {}
                }
            }
            Effect::CloseClient(id) => self.clients.get(&id).into_iter().for_each(|outbox| outbox.close()),
            Effect::Connect { id, host, port } => {
                let outbox = Arc::new(Outbox::default());
                self.origins.insert(id, outbox.clone());
                let recordings = self.proxy.world.recordings.as_ref();
                let played = recordings.and_then(|own| Played::at(&host, own.cache(), &own.confirmed));
                match played {
                    Some(played) => tokio::spawn(recording::run(id, played, outbox, shared.clone())),
                    None => tokio::spawn(origin::run(id, host, port, outbox, shared.clone())),
                };
            }
            Effect::ToOrigin(id, bytes) => {
                self.origins.get(&id).into_iter().for_each(|outbox| outbox.message(&bytes, backlog));
            }
            Effect::CloseOrigin(id) => self.origins.get(&id).into_iter().for_each(|outbox| outbox.close()),
            Effect::Seek(address) => _ = tokio::spawn(seek(address, shared.clone())),
            Effect::SetFlow(key, flow) => {
                let set = self.proxy.world.path.as_mut().map(|path| path.set_flow(&key, &flow));
                if let Some(Err(error)) = set {
                    self.proxy.counts.no_flow += 1;
                    tracing::warn!("a stream from {} has no flow entry: {error}", key.src);
                }
            }
            Effect::Log(ended) => {
                let now = SystemTime::now();
                self.log.iter().for_each(|log| log.line(|format| Line::new(&ended, now).text(format)));
                ended.carried.iter().for_each(|own| self.flows.put(|| flow::of(&ended, own, now)));
            }
            Effect::RemoveFlow(key) => self.proxy.world.path.iter_mut().for_each(|path| path.remove_flow(&key)),
            Effect::Leave(track, member) => {
                self.proxy.world.path.iter_mut().for_each(|path| path.leave(track, member));
            }
            Effect::ToGroup(track, member, packet) => {
                let path = self.proxy.world.path.as_mut();
                let taken = path.is_some_and(|path| path.to_group(track, member, &packet));
                self.proxy.counts.slow += u64::from(!taken);
            }
            Effect::ReleasePair(address, port) => self.proxy.world.datagrams.release_pair(address, port),
            Effect::Datagram(from, to, bytes) => {
                let path = self.proxy.world.path.as_mut().filter(|path| path.has_receivers());
                if let (Some(path), From::Media(_) | From::Reports(_)) = (path, from) {
                    return path.datagram(to, &bytes);
                }
                let by = match from {
                    From::Pair(address, port) => To::PairReports(address, port),
                    From::Reports(address) => To::Reports(address),
                    From::Media(address) => To::Media(address),
                };
                if !self.proxy.world.datagrams.send(by, to, &bytes) {
                    self.proxy.counts.slow += 1;
                }
            }
        }
    }
}

/// Tells the proxy of members, as long as it is there.
async fn tell(mut reports: mpsc::Receiver<Report>, proxy: WeakShared) {
    while let Some(Report { pool, source, news }) = reports.recv().await {
        let Some(shared) = proxy.upgrade() else { return };
        shared.event(|proxy| proxy.members_told(&pool, &source, news));
    }
}

/// Waits until the way to a viewer is known, and no longer than it may take.
async fn seek(address: IpAddr, shared: Shared) {
    let end = Instant::now() + SOUGHT;
    while Instant::now() < end && !shared.lock().proxy.world.has_way(address) {
        sleep(LOOK).await;
    }
    shared.event(|proxy| proxy.way_sought(address));
}

/// The RTP packet of a frame that the program has found to be one.
fn payload(frame: &[u8]) -> Option<&[u8]> {
    let header = match frame.get(12..14)? {
        [0x08, 0x00] => 34,
        [0x86, 0xdd] => 54,
        _ => return None,
    };
    let length = u16::from_be_bytes([*frame.get(header + 4)?, *frame.get(header + 5)?]);
    frame.get(header + 8..header + usize::from(length))
}
