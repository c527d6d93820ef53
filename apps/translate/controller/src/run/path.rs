//! The program that runs: its tables, what it is told, and what comes from it.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::io::Read;
use std::net::SocketAddr;
use std::time::Duration;

use dataplane::controller::{Field, Group, InjectError, Injector, Input, Link, NameError, NamedTables, Punted, Table};
use nix::time::{ClockId, clock_gettime};
use wire::flow_key::FlowKey;

use super::segment;
use crate::proxy::world::World;
use crate::settings::Delivery;
use crate::tables::{Endpoint, Next, Notice, Order, StreamCounts, Totals, mss, notice, stream_settings};

/// The monotonic clock, by which the program has its times.
pub fn clock() -> Duration {
    clock_gettime(ClockId::CLOCK_MONOTONIC).map(Duration::from).unwrap_or_default()
}

/// What the program has counted.
#[derive(Debug, Default)]
pub struct LiveWorld {
    streams: Option<Table<u32, StreamCounts>>,
    totals: Option<Table<u32, Totals>>,
}

impl LiveWorld {
    /// Of the program that runs.
    pub fn of(tables: &NamedTables) -> Result<LiveWorld, String> {
        let text = |error: NameError| error.to_string();
        let streams = Some(tables.table("ring.streams").map_err(text)?);
        Ok(LiveWorld { streams, totals: Some(tables.table("sender.totals").map_err(text)?) })
    }
}

impl World for LiveWorld {
    fn stream(&mut self, stream: u32) -> StreamCounts {
        self.streams.as_ref().and_then(|table| table.get(&stream)).unwrap_or_default()
    }

    fn totals(&mut self, connection: u32) -> Totals {
        self.totals.as_ref().and_then(|table| table.get(&connection)).unwrap_or_default()
    }

    fn secret(&mut self) -> (u64, u64) {
        // Without a source of random numbers no program is run: see [`LivePath::of`].
        random().unwrap_or_default()
    }
}

/// What has come from the program.
#[derive(Debug)]
pub enum Came<'p> {
    /// Bytes of a client.
    Request {
        /// What they came with.
        key: FlowKey,
        /// Whether they are the first ones of their connection.
        first: bool,
        /// The segment size of the connection.
        mss: u16,
        /// The bytes.
        payload: &'p [u8],
    },
    /// What it says of a connection: number, generation, what.
    Notice(u32, u32, Notice),
}

/// A packet for the program: worker, input, bytes, metadata.
type Waiting = (usize, Input, Vec<u8>, Vec<(Field, u128)>);

/// See the module.
pub struct LivePath {
    injector: Injector,
    orders: Input,
    documents: Input,
    /// Where packets go that come on connections.
    packets: Input,
    fields: Fields,
    workers: usize,
    services: Table<Endpoint, (u16, u16, u8)>,
    settings: Table<u32, (u16, u16, u16, u32, u16, bool)>,
    viewers: Group<u32>,
    /// The connection of a stream's only viewer; 0: there are none or several.
    single: Table<u32, u32>,
    /// Of each connection in a group: its stream and its number there.
    members: HashMap<u32, (u32, u32)>,
    /// The connections of each group.
    grouped: HashMap<u32, BTreeSet<u32>>,
    /// What found no room, in order.
    waiting: VecDeque<Waiting>,
}

struct Fields {
    addresses: [Field; 2],
    ports: [Field; 2],
    skip: Field,
    service: Field,
    mss: Field,
    connection: Field,
    index: Field,
    next: Field,
    stream: Field,
    numbered: Field,
    sequence: Field,
    ssrc: Field,
    payload: Field,
}

impl LivePath {
    /// That of a link's program.
    pub fn of(link: &Link) -> Result<LivePath, String> {
        let text = |error: NameError| error.to_string();
        let field = |name| link.field(name).map_err(text);
        let tables = link.tables();
        let mut secrets = tables.table::<u32, (u64, u64)>("accept.secret").map_err(text)?;
        // That of a process before stays: clients still have its cookies.
        if secrets.get(&0).is_none_or(|secret| secret == (0, 0)) {
            secrets.set(&0, &random()?).map_err(|error| format!("table accept.secret: {error}"))?;
        }
        let viewers: Group<u32> = tables.group("ring.viewers").map_err(text)?;
        let streams = link.program().tables.iter().find(|table| table.name == "ring.streams");
        let streams = streams.map_or(0, |table| table.capacity);
        let members = (0..streams).flat_map(|stream| {
            viewers.members(stream).into_iter().map(move |(member, connection)| (connection, (stream, member)))
        });
        let mut path = LivePath {
            injector: link.injector(),
            orders: link.input("orders.input").map_err(text)?,
            documents: link.input("documents.input").map_err(text)?,
            packets: link.input("ring.input").map_err(text)?,
            fields: Fields {
                addresses: [field("src")?, field("dst")?],
                ports: [field("src_port")?, field("dst_port")?],
                skip: field("skip")?,
                service: field("service")?,
                mss: field("mss")?,
                connection: field("connection")?,
                index: field("index")?,
                next: field("next")?,
                stream: field("stream")?,
                numbered: field("numbered")?,
                sequence: field("sequence")?,
                ssrc: field("ssrc")?,
                payload: field("payload")?,
            },
            workers: link.workers(),
            services: tables.table("accept.services").map_err(text)?,
            settings: tables.table("ring.settings").map_err(text)?,
            members: members.collect(),
            grouped: HashMap::new(),
            viewers,
            single: tables.table("ring.single").map_err(text)?,
            waiting: VecDeque::new(),
        };
        for (connection, (stream, _)) in &path.members {
            path.grouped.entry(*stream).or_default().insert(*connection);
        }
        (0..streams).for_each(|stream| path.set_single(stream));
        Ok(path)
    }

    /// A stream with a single viewer needs no worker.
    fn set_single(&mut self, stream: u32) {
        let viewers = self.grouped.get(&stream).filter(|viewers| viewers.len() == 1);
        let single = viewers.and_then(|viewers| viewers.first().copied());
        self.tell_single(stream, single.unwrap_or(0));
    }

    fn tell_single(&mut self, stream: u32, connection: u32) {
        if self.single.get(&stream) != Some(connection)
            && let Err(error) = self.single.set(&stream, &connection)
        {
            tracing::error!("table ring.single: {error}");
        }
    }

    /// Serves at these addresses from now on, and at no others.
    pub fn serve(&mut self, listen: &[SocketAddr]) -> Result<(), String> {
        let of = |(at, own): (usize, &SocketAddr)| {
            let address = media::tables::mapped(own.ip());
            ((address, own.port()), (at as u16 + 1, mss(address), 0))
        };
        let entries: Vec<(Endpoint, (u16, u16, u8))> = listen.iter().enumerate().map(of).collect();
        self.services.replace(&entries).map_err(|error| format!("table accept.services: {error}"))
    }

    /// How a stream is kept from now on.
    pub fn keep(&mut self, stream: u32, delivery: &Delivery) {
        if let Err(error) = self.settings.set(&stream, &stream_settings(delivery)) {
            tracing::error!("table ring.settings: {error}");
        }
    }

    /// A connection is one of those that a stream's packets go to.
    pub fn join(&mut self, stream: u32, connection: u32) {
        match self.members.get(&connection) {
            // As a process before has left it.
            Some((known, _)) if *known == stream => return,
            Some((known, _)) => self.leave(*known, connection),
            None => {}
        }
        // No packet is for another one alone when this one begins.
        self.tell_single(stream, 0);
        match self.viewers.join(stream, &connection) {
            Ok(member) => {
                self.members.insert(connection, (stream, member));
                self.grouped.entry(stream).or_default().insert(connection);
            }
            Err(error) => tracing::error!("group ring.viewers: {error}"),
        }
        self.set_single(stream);
    }

    /// It is none of them any more.
    pub fn leave(&mut self, stream: u32, connection: u32) {
        if let Some((_, member)) = self.members.remove(&connection).filter(|(own, _)| *own == stream) {
            self.viewers.leave(stream, member);
            if let Some(viewers) = self.grouped.get_mut(&stream) {
                viewers.remove(&connection);
            }
            self.set_single(stream);
        }
    }

    /// No other connections than these have a stream any more.
    pub fn leave_others(&mut self, playing: &BTreeSet<u32>) {
        let others: Vec<u32> = self.members.keys().copied().filter(|own| !playing.contains(own)).collect();
        for connection in others {
            if let Some((stream, _)) = self.members.get(&connection).copied() {
                self.leave(stream, connection);
            }
        }
    }

    /// Tells the program something about a connection.
    pub fn order(&mut self, connection: u32, generation: u32, order: &Order) {
        let worker = self.worker_of(connection);
        self.inject(worker, self.orders, order.bytes(connection, generation).to_vec(), Vec::new());
    }

    /// Has bytes sent exactly.
    pub fn document(&mut self, connection: u32, index: u32, next: Next, bytes: &[u8]) {
        let packet = segment::plain(bytes);
        let fields = &self.fields;
        let with = vec![
            (fields.connection, connection.into()),
            (fields.index, index.into()),
            (fields.next, (next as u8).into()),
        ];
        let worker = self.worker_of(connection);
        self.inject(worker, self.documents, packet, with);
    }

    /// An RTP packet of a stream that has come on a connection; whether it has what it must.
    pub fn packet(&mut self, stream: u32, bytes: &[u8]) -> bool {
        let Some(packet) = segment::of_rtp(bytes) else { return false };
        let fields = &self.fields;
        let with = [
            (fields.stream, stream.into()),
            (fields.numbered, 1),
            (fields.sequence, packet.sequence.into()),
            (fields.ssrc, packet.ssrc.into()),
            (fields.payload, packet.sum.into()),
        ];
        // Where too many are under way one is lost, as on any link.
        let _ = self.injector.inject_on(stream as usize % self.workers, self.packets, &packet.bytes, &with);
        true
    }

    /// What concerns a connection is run by one worker, in order.
    fn worker_of(&self, connection: u32) -> usize {
        connection as usize % self.workers
    }

    fn inject(&mut self, worker: usize, input: Input, bytes: Vec<u8>, with: Vec<(Field, u128)>) {
        self.waiting.push_back((worker, input, bytes, with));
    }

    /// Injects what waits, as far as there is room.
    pub fn flush(&mut self) {
        while let Some((worker, input, bytes, with)) = self.waiting.front() {
            match self.injector.inject_on(*worker, *input, bytes, with) {
                Err(InjectError::Busy) => return,
                // The program has ended; what it was to be told is of no use to the next one.
                Err(InjectError::Gone) => return self.waiting.clear(),
                Err(error) => tracing::error!("a packet for the program: {error}"),
                Ok(()) => {}
            }
            self.waiting.pop_front();
        }
    }

    /// What a packet of the program is. None: it is nothing that is known.
    pub fn came<'p>(&self, packet: &'p Punted) -> Option<Came<'p>> {
        let bytes = packet.bytes();
        if !packet.channel().ends_with("request_cc") {
            let (connection, generation, notice) = notice(bytes)?;
            return Some(Came::Notice(connection, generation, notice));
        }
        let fields = &self.fields;
        let [src, dst] = fields.addresses.map(|field| packet.metadata(field).into());
        let [src_port, dst_port] = fields.ports.map(|field| packet.metadata(field) as u16);
        let from = usize::from(bytes.get(segment::OFFSET)? >> 4) * 4 + packet.metadata(fields.skip) as usize;
        let payload = bytes.get(from..)?;
        Some(Came::Request {
            key: FlowKey { src, dst, src_port, dst_port },
            first: packet.metadata(fields.service) != 0,
            mss: packet.metadata(fields.mss) as u16,
            payload,
        })
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
