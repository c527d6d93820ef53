//! The splicer on a running instance.

use std::io::Read;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use baker::ir::TableError;
use control::application::{CompiledSettings, Given, Queries, Reloads};
use dataplane::controller::{Event, Field, Injector, Input, Link, NameError, PortInfo, Punted, Table};
use nix::time::{ClockId, clock_gettime};
use routes::ways::{Found, Ways};
use wire::flow_key::FlowKey;

use crate::cluster::NegotiatedOptions;
use crate::data_path::{DataPath, Offer};
use crate::settings::Settings;
use crate::splicer::restore::Restored;
use crate::splicer::{Accepted, Splicer};
use crate::tables::flow_entry::FlowEntry;
use crate::tables::live::LiveTables;
use crate::tables::local_addresses::LocalAddresses;
use crate::tables::packed::FlowTable;

/// How long it waits for a packet at most: new settings are looked for then.
const PAUSE: Duration = Duration::from_millis(50);

/// Packets that are worked on before the clocks are looked at.
const BATCH: usize = 32;

/// The program's `service_t`.
type Service = (u16, u16, u8, bool, bool, u16);

/// The data path of a running instance.
pub struct LivePath {
    injector: Injector,
    ready: Input,
    relayed: [Input; 2],
    errors: [Input; 2],
    tx_port: Field,
    seen: Field,
    fields: Fields,
    flows: FlowTable<LiveTables>,
    services: Table<(Ipv6Addr, u16), Service>,
    admin_states: Table<u64, u8>,
    secret: (u64, u64),
    macs: Table<u32, [u8; 6]>,
    shared: Table<u32, bool>,
    addresses: Table<Ipv6Addr, u8>,
    timeouts: Table<u32, u32>,
    ports: Vec<PortInfo>,
    /// Where an interface is the kernel's, too.
    ways: Option<Ways>,
    /// The worker that the packet at hand came from: what follows from it is run there, in order.
    worker: usize,
    /// The port that it came in by: what answers it leaves by the same.
    port: u128,
}

impl LivePath {
    /// That of a link's program.
    fn of(link: &Link, secret: (u64, u64)) -> Result<LivePath, NameError> {
        let tables = link.tables();
        Ok(LivePath {
            injector: link.injector(),
            ready: link.input("entry.ready")?,
            relayed: [link.input("spliced.v4")?, link.input("spliced.v6")?],
            errors: [link.input("errors.v4")?, link.input("errors.v6")?],
            tx_port: link.field("tx.port")?,
            seen: link.field("relayed")?,
            fields: Fields {
                rx_port: link.field("rx.port")?,
                service: link.field("service")?,
                mss: link.field("mss")?,
                scale: link.field("scale")?,
                sack: link.field("sack")?,
            },
            flows: FlowTable::new(LiveTables::of(tables)?),
            services: tables.table("accept.services")?,
            admin_states: tables.table("accept.admin_states")?,
            secret,
            macs: tables.table("entry.macs")?,
            shared: tables.table("entry.is_shared")?,
            addresses: tables.table("entry.addresses")?,
            timeouts: tables.table("spliced.timeouts")?,
            ports: link.ports().to_vec(),
            ways: None,
            worker: 0,
            port: 0,
        })
    }

    /// Has a frame pass, by the input for IPv4 or for IPv6.
    fn pass(&mut self, inputs: [Input; 2], frame: &[u8]) {
        let v6 = frame.get(12..14) == Some(&[0x86, 0xdd]);
        let with = [(self.seen, 1), (self.fields.rx_port, self.port)];
        let _ = self.injector.inject_on(self.worker, inputs[usize::from(v6)], frame, &with);
    }
}

impl DataPath for LivePath {
    fn now(&self) -> u64 {
        let time = clock_gettime(ClockId::CLOCK_MONOTONIC).map(Duration::from).unwrap_or_default();
        time.as_nanos() as u64
    }

    fn secret(&self) -> (u64, u64) {
        self.secret
    }

    // Where too many packets are under way one is lost, as on any link, and comes again.
    fn send(&mut self, port: u8, frame: &[u8]) {
        let _ = self.injector.inject_on(self.worker, self.ready, frame, &[(self.tx_port, port.into())]);
    }

    fn enter(&mut self, frame: &[u8]) -> bool {
        let v6 = frame.get(12..14) == Some(&[0x86, 0xdd]);
        let with = [(self.fields.rx_port, self.port)];
        self.injector.inject_on(self.worker, self.relayed[usize::from(v6)], frame, &with).is_ok()
    }

    fn relay(&mut self, frame: &[u8]) {
        self.pass(self.relayed, frame);
    }

    fn relay_error(&mut self, frame: &[u8]) {
        self.pass(self.errors, frame);
    }

    fn entry(&mut self, key: &FlowKey) -> Option<FlowEntry> {
        self.flows.get(key)
    }

    fn set_entry(&mut self, key: &FlowKey, entry: &FlowEntry) -> bool {
        self.flows.set(key, entry)
    }

    fn update_entry(&mut self, key: &FlowKey, entry: &FlowEntry) -> bool {
        self.flows.update(key, entry)
    }

    fn remove_entry(&mut self, key: &FlowKey) {
        self.flows.remove(key);
    }

    fn entries(&mut self) -> Vec<(FlowKey, FlowEntry)> {
        self.flows.entries()
    }

    fn own(&mut self) -> LocalAddresses {
        let (macs, addresses) = (self.macs.entries(), self.addresses.entries());
        let shared = self.shared.entries().into_iter().filter(|(_, is_shared)| *is_shared);
        let shared = shared.map(|(port, _)| port).collect();
        LocalAddresses { macs, shared, addresses, timeouts: self.timeouts.entries() }
    }

    fn set_local(&mut self, own: &LocalAddresses) -> Result<(), String> {
        let named =
            |name: &str, result: Result<(), TableError>| result.map_err(|error| format!("table {name}: {error}"));
        let shared: Vec<_> = own.shared.iter().map(|port| (*port, true)).collect();
        // First, so that the kernel gets what is its own.
        named("entry.is_shared", self.shared.replace(&shared))?;
        named("entry.macs", self.macs.replace(&own.macs))?;
        named("entry.addresses", self.addresses.replace(&own.addresses))?;
        named("spliced.timeouts", self.timeouts.replace(&own.timeouts))
    }

    fn ways(&mut self, wanted: Vec<IpAddr>) -> Arc<Found> {
        if self.ways.is_none() {
            match Ways::start(self.ports.clone()) {
                Ok(ways) => self.ways = Some(ways),
                // It is asked again soon.
                Err(error) => tracing::error!("the kernel can't be asked for its routes: {error}"),
            }
        }
        let found = self.ways.as_ref().map(|ways| {
            ways.want(wanted);
            ways.found()
        });
        found.unwrap_or_default()
    }

    fn admin_states(&mut self) -> Vec<(u64, u8)> {
        self.admin_states.entries()
    }

    fn set_admin_state(&mut self, server: u64, state: u8) -> bool {
        if state == 0 {
            self.admin_states.remove(&server);
            return true;
        }
        self.admin_states.set(&server, &state).is_ok()
    }

    fn offer(&mut self, offers: &[((Ipv6Addr, u16), Offer)]) {
        for (endpoint, _) in self.services.entries() {
            if !offers.iter().any(|(own, _)| *own == endpoint) {
                self.services.remove(&endpoint);
            }
        }
        for (endpoint, offer) in offers {
            let before = self.services.get(endpoint).filter(|_| !offer.learned);
            let (_, mss, scale, sack, times, _) =
                before.unwrap_or((0, offer.mss, offer.scale, offer.sack, offer.times, 0));
            if let Err(error) = self.services.set(endpoint, &(offer.number, mss, scale, sack, times, offer.window)) {
                tracing::error!("table accept.services: {error}");
            }
        }
    }
}

/// What the packets of the program say beside their bytes.
struct Fields {
    rx_port: Field,
    service: Field,
    mss: Field,
    scale: Field,
    sack: Field,
}

impl Fields {
    fn of(&self, packet: &Punted) -> Accepted {
        let scale = packet.metadata(self.scale) as u8;
        let negotiated = NegotiatedOptions {
            mss: packet.metadata(self.mss) as u16,
            scale: (scale < 15).then_some(scale),
            sack: packet.metadata(self.sack) != 0,
            times: false,
        };
        Accepted { port: packet.metadata(self.rx_port) as u8, number: packet.metadata(self.service) as u16, negotiated }
    }
}

/// Two numbers that can't be guessed.
fn random() -> Result<(u64, u64), String> {
    let mut random = [0; 16];
    let source = std::fs::File::open("/dev/urandom").and_then(|mut source| source.read_exact(&mut random));
    source.map_err(|error| format!("/dev/urandom: {error}"))?;
    let both = u128::from_le_bytes(random);
    Ok(((both >> 64) as u64, both as u64))
}

/// The secret of the program's cookies. That of a process before stays: clients still have its cookies.
fn secret(link: &Link) -> Result<(u64, u64), String> {
    let mut secrets = link.tables().table::<u32, (u64, u64)>("accept.secret").map_err(|error| error.to_string())?;
    let secret = match secrets.get(&0).filter(|kept| *kept != (0, 0)) {
        Some(kept) => kept,
        None => random()?,
    };
    secrets.set(&0, &secret).map_err(|error| format!("table accept.secret: {error}"))?;
    Ok(secret)
}

/// The splicer at work on a running instance.
pub type Live = Splicer<LivePath>;

/// The settings of what a configuration made.
fn settings_of(compiled: &CompiledSettings<Settings>) -> Result<Arc<Settings>, String> {
    compiled.own.clone().ok_or_else(|| "there is no [controllers.splice] in the configuration".into())
}

/// Says where own ports at interfaces that the kernel has, too, are those that it gives its own connections.
fn compare_ports(settings: &Settings) {
    let read = |name: &str| std::fs::read_to_string(format!("/proc/sys/net/ipv4/{name}")).unwrap_or_default();
    let (range, reserved) = (read("ip_local_port_range"), read("ip_local_reserved_ports"));
    for interface in settings.interfaces.iter().filter(|own| own.is_shared) {
        if let Some(port) = common_port(interface.ports, &range, &reserved) {
            tracing::warn!(
                port,
                "the kernel gives its own connections ports that are the splicer's, too: set `ports` of the interface, \
                 or net.ipv4.ip_local_reserved_ports"
            );
        }
    }
}

/// The first port of a range that the kernel may give, by what its parameters say.
fn common_port((first, last): (u16, u16), range: &str, reserved: &str) -> Option<u16> {
    let numbers = |text: &str, between: fn(char) -> bool| -> Option<(u16, u16)> {
        let mut numbers = text.split(between).filter(|part| !part.is_empty()).map(|part| part.trim().parse().ok());
        let first = numbers.next()??;
        Some((first, numbers.next().unwrap_or(Some(first))?))
    };
    let (own_first, own_last) = numbers(range, char::is_whitespace)?;
    let reserved: Vec<_> = reserved.split(',').filter_map(|part| numbers(part, |letter| letter == '-')).collect();
    let is_reserved = |port: u16| reserved.iter().any(|(first, last)| (*first..=*last).contains(&port));
    (first.max(own_first)..=last.min(own_last)).find(|port| !is_reserved(*port))
}

/// What the controller is to a program that begins, or takes over: with what it knows of the one before, if there was
/// one, else of the flow entries, if a process or a controller before has left any.
pub fn begin(link: &Link, given: &Given<Settings>, kept: Option<Box<Live>>) -> Result<Box<Live>, String> {
    let secret = secret(link)?;
    let path = LivePath::of(link, secret).map_err(|error| error.to_string())?;
    let settings = settings_of(&given.reloads.begun())?;
    compare_ports(&settings);
    if let Some(mut splicer) = kept {
        splicer.go_on(path, settings)?;
        return Ok(splicer);
    }
    let mut splicer = Box::new(Splicer::new(settings, path));
    splicer.metrics.flows = given.flows.clone();
    let restored = splicer.restore();
    if restored != Restored::default() {
        let Restored { live, passthrough, lost } = restored;
        tracing::warn!(live, passthrough, lost, "connections taken up from the process before");
    }
    splicer.put_local()?;
    Ok(splicer)
}

impl Live {
    /// Runs until the link stops. While it waits, workers have it work on their packets.
    pub fn run(&mut self, link: &mut Link, reloads: &Reloads<Settings>, queries: &Queries) -> Result<(), String> {
        link.wake_late();
        let mut closed = Closed::new(link)?;
        loop {
            self.tick();
            let wait = self.time_left().min(PAUSE);
            let mut work = |packets: &mut dyn Iterator<Item = Punted>| {
                // To make room all connections are looked at, which takes long.
                while !self.is_full()
                    && let Some(packet) = packets.next()
                {
                    self.receive(&packet);
                }
                self.time_left()
            };
            match link.receive_or_lend(wait, &mut work) {
                Event::Packet(packet) => {
                    self.receive(&packet);
                    // Those that came with it, before the clocks are looked at again.
                    for packet in std::iter::from_fn(|| link.try_receive()).take(BATCH) {
                        self.receive(&packet);
                    }
                }
                Event::Room | Event::Timer(_) | Event::Idle => {}
                Event::Stop => return Ok(()),
            }
            reloads.apply(|compiled| self.configure(settings_of(compiled)?));
            closed.adapt(&self.path);
            queries.answer(|name, with| self.query(name, with));
        }
    }

    /// How long it is until something is due.
    fn time_left(&self) -> Duration {
        Duration::from_nanos(self.next_wake().saturating_sub(self.path.now()))
    }

    fn receive(&mut self, packet: &Punted) {
        (self.path.worker, self.path.port) = (packet.worker(), packet.metadata(self.path.fields.rx_port));
        match packet.channel() {
            "accept.request_cc" => self.request(self.path.fields.of(packet), packet.bytes()),
            "errors.held_cc" => self.error(packet.bytes()),
            "fragments.fragment_cc" => self.fragment(self.path.port as u8, packet.bytes()),
            "entry.neighbour_cc" => self.neighbour(self.path.port as u8, packet.bytes()),
            _ => self.held(packet.bytes()),
        }
    }
}

/// How long connections that both sides have closed are kept for what may still be under way: the fuller the table, the
/// shorter, so that there is room for new ones (as Linux has `tcp_max_tw_buckets`).
struct Closed {
    timeouts: Table<u32, u32>,
    capacity: usize,
    progress: u64,
}

impl Closed {
    /// The state of the program that it is about (`CLOSED` of `state_t`).
    const STATE: u32 = 2;
    /// Seconds (RFC 9293 section 3.6.1 with segments that live for 30 s), and nanoseconds between two looks.
    const LONGEST: u32 = 60;
    const PAUSE: u64 = 500_000_000;

    fn new(link: &Link) -> Result<Closed, String> {
        let text = |error: NameError| error.to_string();
        let flows = link.program().tables.iter().find(|table| table.name == "spliced.flows");
        let capacity = flows.map_or(0, |table| table.capacity) as usize;
        Ok(Closed { timeouts: link.tables().table("spliced.timeouts").map_err(text)?, capacity, progress: 0 })
    }

    /// All of the time up to a quarter of the table's capacity, then less in proportion; none where three quarters are
    /// used.
    fn seconds(used: usize, capacity: usize) -> u32 {
        let quarter = (capacity / 4).max(1);
        let left = (3 * quarter).saturating_sub(used).min(2 * quarter);
        (Self::LONGEST as usize * left / (2 * quarter)) as u32
    }

    fn adapt(&mut self, path: &LivePath) {
        let now = path.now();
        if now < self.progress + Self::PAUSE {
            return;
        }
        self.progress = now;
        let seconds = Self::seconds(path.flows.tables().len(), self.capacity);
        if self.timeouts.get(&Self::STATE) != Some(seconds)
            && let Err(error) = self.timeouts.set(&Self::STATE, &seconds)
        {
            tracing::error!("table spliced.timeouts: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_ports_are_none_of_the_kernel_s() {
        let range = "32768\t60999\n";
        let common = [(10_000, 32_767), (61_000, 65_535), (1024, 65_535), (40_000, 40_010)];
        assert_eq!(common.map(|own| common_port(own, range, "\n")), [None, None, Some(32_768), Some(40_000)]);
        assert_eq!(common_port((40_000, 40_010), range, "8080,40000-40009\n"), Some(40_010));
        assert_eq!(common_port((40_000, 40_010), range, "39000-40010\n"), None);
        assert_eq!(common_port((1, 2), "", ""), None);
    }

    #[test]
    fn closed_connections_make_room() {
        let seconds = [0, 250, 500, 700, 749, 750, 1000].map(|used| Closed::seconds(used, 1000));
        assert_eq!(seconds, [60, 60, 30, 6, 0, 0, 0]);
    }
}
