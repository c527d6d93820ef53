//! The splicer on a running instance.

use std::io::Read;
use std::net::Ipv6Addr;
use std::time::Duration;

use dataplane::controller::{Event, Field, Injector, Input, Link, NameError, Punted, Table};
use nix::time::{ClockId, clock_gettime};

use super::block::{Block, Ends};
use super::cluster::Agreed;
use super::live::LiveTables;
use super::packed::Blocks;
use super::path::{DataPath, Offer};
use super::restore::Restored;
use super::settings_of;
use super::splicer::{Accepted, Splicer};
use crate::controllers::{Made, Queries, Reloads};

/// How long it waits for a packet at most: new settings are looked for then.
const PAUSE: u64 = 50_000_000;

/// Packets that are worked on before the clocks are looked at.
const BATCH: usize = 32;

/// The program's `service_t`.
type Service = (u16, u16, u8, bool, bool, u16);

/// The data path of a running instance.
struct Live {
    injector: Injector,
    ready: Input,
    relayed: [Input; 2],
    errors: [Input; 2],
    tx_port: Field,
    seen: Field,
    blocks: Blocks<LiveTables>,
    services: Table<(Ipv6Addr, u16), Service>,
    told: Table<u64, u8>,
    secret: (u64, u64),
    rx_port: Field,
    /// The worker that the packet at hand came from: what follows from it is run there, in order.
    worker: usize,
    /// The port that it came in by: what answers it leaves by the same.
    port: u128,
}

impl Live {
    /// Has a frame pass, by the input for IPv4 or for IPv6.
    fn pass(&mut self, inputs: [Input; 2], frame: &[u8]) {
        let v6 = frame.get(12..14) == Some(&[0x86, 0xdd]);
        let with = [(self.seen, 1), (self.rx_port, self.port)];
        let _ = self.injector.inject_on(self.worker, inputs[usize::from(v6)], frame, &with);
    }
}

impl DataPath for Live {
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
        let with = [(self.rx_port, self.port)];
        self.injector.inject_on(self.worker, self.relayed[usize::from(v6)], frame, &with).is_ok()
    }

    fn relay(&mut self, frame: &[u8]) {
        self.pass(self.relayed, frame);
    }

    fn relay_error(&mut self, frame: &[u8]) {
        self.pass(self.errors, frame);
    }

    fn block(&mut self, ends: &Ends) -> Option<Block> {
        self.blocks.get(ends)
    }

    fn set_block(&mut self, ends: &Ends, block: &Block) -> bool {
        self.blocks.set(ends, block)
    }

    fn update_block(&mut self, ends: &Ends, block: &Block) -> bool {
        self.blocks.update(ends, block)
    }

    fn remove_block(&mut self, ends: &Ends) {
        self.blocks.remove(ends);
    }

    fn blocks(&mut self) -> Vec<(Ends, Block)> {
        self.blocks.entries()
    }

    fn told(&mut self) -> Vec<(u64, u8)> {
        self.told.entries()
    }

    fn tell(&mut self, server: u64, state: u8) -> bool {
        if state == 0 {
            self.told.remove(&server);
            return true;
        }
        self.told.set(&server, &state).is_ok()
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
        let agreed = Agreed {
            mss: packet.metadata(self.mss) as u16,
            scale: (scale < 15).then_some(scale),
            sack: packet.metadata(self.sack) != 0,
            times: false,
        };
        Accepted { port: packet.metadata(self.rx_port) as u8, number: packet.metadata(self.service) as u16, agreed }
    }
}

/// Two numbers that nobody can guess.
fn random() -> Result<(u64, u64), String> {
    let mut random = [0; 16];
    let source = std::fs::File::open("/dev/urandom").and_then(|mut source| source.read_exact(&mut random));
    source.map_err(|error| format!("/dev/urandom: {error}"))?;
    let both = u128::from_le_bytes(random);
    Ok(((both >> 64) as u64, both as u64))
}

/// Runs until the instance ends.
pub fn run(link: &mut Link, reloads: &Reloads, queries: &Queries) -> Result<(), String> {
    let text = |error: NameError| error.to_string();
    let field = |name: &str| link.field(name).map_err(text);
    let fields = Fields {
        rx_port: field("rx.port")?,
        service: field("service")?,
        mss: field("mss")?,
        scale: field("scale")?,
        sack: field("sack")?,
    };
    // That of a process before stays: clients still have its cookies.
    let mut secrets = link.tables().table::<u32, (u64, u64)>("accept.secret").map_err(text)?;
    let secret = match secrets.get(&0).filter(|kept| *kept != (0, 0)) {
        Some(kept) => kept,
        None => random()?,
    };
    secrets.set(&0, &secret).map_err(|error| format!("table accept.secret: {error}"))?;
    let live = Live {
        injector: link.injector(),
        ready: link.input("entry.ready").map_err(text)?,
        relayed: [link.input("spliced.v4").map_err(text)?, link.input("spliced.v6").map_err(text)?],
        errors: [link.input("errors.v4").map_err(text)?, link.input("errors.v6").map_err(text)?],
        tx_port: field("tx.port")?,
        seen: field("relayed")?,
        blocks: Blocks::new(LiveTables::of(link.tables()).map_err(text)?),
        services: link.tables().table("accept.services").map_err(text)?,
        told: link.tables().table("accept.told").map_err(text)?,
        secret,
        rx_port: fields.rx_port,
        worker: 0,
        port: 0,
    };
    let settings = reloads.begun().and_then(|made| settings_of(&made));
    let settings = settings.ok_or("there is no [controllers.splice] in the configuration")?;
    let mut splicer = Splicer::new(settings, live);
    let restored = splicer.restore();
    if restored != Restored::default() {
        let Restored { live, unread, lost } = restored;
        tracing::warn!(live, unread, lost, "connections taken up from the process before");
    }
    link.wake_late();
    let mut closed = Closed::new(link)?;
    loop {
        splicer.tick();
        let wait = splicer.next_wake().saturating_sub(splicer.path.now()).min(PAUSE);
        match link.receive(Duration::from_nanos(wait)) {
            Event::Packet(packet) => {
                receive(&mut splicer, &fields, &packet);
                // Those that came with it, before the clocks are looked at again.
                for packet in std::iter::from_fn(|| link.try_receive()).take(BATCH) {
                    receive(&mut splicer, &fields, &packet);
                }
            }
            Event::Idle => {}
            Event::Stop => return Ok(()),
        }
        reloads.apply(|made| reload(&mut splicer, link, made));
        closed.adapt(&splicer.path);
        queries.answer(|name, with| splicer.asked(name, with));
    }
}

/// How long connections that both sides have closed are kept for what may still be under way: the fuller the table, the shorter, so that
/// there is room for new ones (as Linux has `tcp_max_tw_buckets`).
struct Closed {
    timeouts: Table<u32, u32>,
    capacity: usize,
    looked: u64,
}

impl Closed {
    /// The state of the program that it is about (`CLOSED` of `state_t`).
    const STATE: u32 = 2;
    /// Seconds (RFC 9293 section 3.6.1 with segments that live for 30 s), and nanoseconds between two looks.
    const LONGEST: u32 = 60;
    const PAUSE: u64 = 500_000_000;

    fn new(link: &Link) -> Result<Closed, String> {
        let text = |error: NameError| error.to_string();
        let blocks = link.program().tables.iter().find(|table| table.name == "spliced.blocks");
        let capacity = blocks.map_or(0, |table| table.capacity) as usize;
        Ok(Closed { timeouts: link.tables().table("spliced.timeouts").map_err(text)?, capacity, looked: 0 })
    }

    /// All of the time up to a quarter of the table's capacity, then less in proportion; none where three quarters are used.
    fn seconds(used: usize, capacity: usize) -> u32 {
        let quarter = (capacity / 4).max(1);
        let left = (3 * quarter).saturating_sub(used).min(2 * quarter);
        (Self::LONGEST as usize * left / (2 * quarter)) as u32
    }

    fn adapt(&mut self, path: &Live) {
        let now = path.now();
        if now < self.looked + Self::PAUSE {
            return;
        }
        self.looked = now;
        let seconds = Self::seconds(path.blocks.tables().len(), self.capacity);
        if self.timeouts.get(&Self::STATE) != Some(seconds)
            && let Err(error) = self.timeouts.set(&Self::STATE, &seconds)
        {
            tracing::error!("table spliced.timeouts: {error}");
        }
    }
}

fn receive(splicer: &mut Splicer<Live>, fields: &Fields, packet: &Punted) {
    (splicer.path.worker, splicer.path.port) = (packet.worker(), packet.metadata(fields.rx_port));
    match packet.channel() {
        "accept.request_cc" => splicer.request(fields.of(packet), packet.bytes()),
        "errors.held_cc" => splicer.error(packet.bytes()),
        "fragments.fragment_cc" => splicer.fragment(packet.metadata(fields.rx_port) as u8, packet.bytes()),
        "entry.neighbour_cc" => splicer.neighbour(packet.metadata(fields.rx_port) as u8, packet.bytes()),
        _ => splicer.held(packet.bytes()),
    }
}

/// Puts new settings in force. Tables get the new entries; addresses that are in use no more stay until a restart.
fn reload(splicer: &mut Splicer<Live>, link: &Link, made: &Made) -> Result<(), String> {
    let settings = settings_of(made).ok_or("there is no [controllers.splice] in the configuration")?;
    let mut tables: Vec<_> = made.entries.iter().map(|(table, _)| *table).collect();
    tables.dedup();
    for table in tables {
        let entries: Vec<_> = made.entries.iter().filter(|(own, _)| *own == table).map(|(_, entry)| entry).collect();
        link.tables().replace(table, &entries).map_err(|error| error.to_string())?;
    }
    splicer.configure(settings);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closed_connections_make_room() {
        let seconds = [0, 250, 500, 700, 749, 750, 1000].map(|used| Closed::seconds(used, 1000));
        assert_eq!(seconds, [60, 60, 30, 6, 0, 0, 0]);
    }
}
