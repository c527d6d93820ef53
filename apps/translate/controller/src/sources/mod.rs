//! Streams from servers and senders: by the state machine of the media proxy, whose only client is this one, once for
//! each stream. So servers are asked, kept, lost and replaced as there, and one stream serves all viewers.
//!
//! | file | what |
//! |---|---|
//! | `path` | what that state machine does to the program |
//! | `viewer` | its client: asks for a stream, and keeps it |

mod path;
mod viewer;

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;

use control::application::Kept;
use dataplane::controller::NamedTables;
use media::settings::access::Access;
use media::settings::plain::{MP2T, Plain};
use media::settings::{Named, Settings as Engine};
use media::sockets::shared::Shared;
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;
use tokio::sync::mpsc::UnboundedSender;
use wire::rtp;
use wire::sdp::Description;

use self::path::Path;
use crate::http::refusal::Refusal;
use crate::http::target::Source;
use crate::settings::Settings;

/// Which of the streams that there were one is; in the lower 24 bits of a receiver's address.
type Id = u32;

/// What happens to streams.
#[derive(Debug)]
pub enum SourceEvent {
    /// A stream can't be had, or has ended.
    Ended {
        /// Its number.
        stream: u32,
        /// Which one it was.
        id: Id,
        /// Why.
        refusal: Refusal,
    },
    /// It has a session, by which it is known.
    Session {
        /// Its number.
        stream: u32,
        /// Which one it was.
        id: Id,
        /// The session's name.
        session: String,
    },
    /// A packet has come on a connection: RTP.
    Packet {
        /// The stream's number.
        stream: u32,
        /// Which one it was.
        id: Id,
        /// The packet.
        bytes: Vec<u8>,
    },
}

/// Streams that were asked for.
pub struct Sources {
    shared: Shared,
    kept: Kept,
    /// Whether it has had a program.
    has_run: bool,
    path: Path,
    settings: Arc<Settings>,
    open: BTreeMap<u32, Open>,
    next: Id,
    events: UnboundedSender<SourceEvent>,
}

struct Open {
    id: Id,
    source: Source,
    /// Its session, once it has one.
    session: Option<String>,
    /// What is told it at its end.
    stop: Arc<Notify>,
    /// What the configuration does not say of it.
    own: Option<Named>,
}

/// In front of the numbers of streams, in keys of records.
const SOURCE: &str = "source ";

/// What of a stream outlasts the process, beside what the media proxy's state machine keeps.
#[derive(Debug, Serialize, Deserialize)]
struct SourceRecord {
    id: Id,
    source: Source,
    session: Option<String>,
}

impl Sources {
    /// None yet. Events go to `events`.
    pub fn new(settings: &Arc<Settings>, kept: Kept, events: UnboundedSender<SourceEvent>) -> Result<Sources, String> {
        // Its sessions are those of the translator: nobody is to be told.
        let shared = Shared::new(Arc::new(engine(settings, [])), kept.clone(), Default::default())?;
        let path = Path::new(events.clone());
        let (settings, open) = (settings.clone(), BTreeMap::new());
        Ok(Sources { shared, kept, has_run: false, path, settings, open, next: 0, events })
    }

    /// Another program runs from now on. Streams of an earlier process go on with the first one: their numbers, and
    /// what they are.
    pub fn use_tables(&mut self, tables: &NamedTables) -> Result<Vec<(u32, Source)>, String> {
        let records = if std::mem::replace(&mut self.has_run, true) { Vec::new() } else { self.known() };
        self.next = records.iter().map(|(_, record)| record.id).max().unwrap_or(self.next);
        for (stream, SourceRecord { source, id, session }) in &records {
            let (_, own) = self.named(source, *id);
            let own = Open { id: *id, source: source.clone(), session: session.clone(), stop: Arc::default(), own };
            self.open.insert(*stream, own);
        }
        self.tell_engine();
        let flows = self.path.use_tables(tables)?;
        self.shared.use_path(Box::new(self.path.clone()), flows);
        for (stream, record) in &records {
            self.view(*stream, record.session.clone());
        }
        Ok(records.into_iter().map(|(stream, record)| (stream, record.source)).collect())
    }

    /// What was kept of streams.
    fn known(&self) -> Vec<(u32, SourceRecord)> {
        let read = |(key, value): (String, Vec<u8>)| {
            let stream = u32::from_str_radix(key.strip_prefix(SOURCE)?, 16).ok()?;
            let record = serde_json::from_slice(&value);
            let record = record.inspect_err(|error| {
                tracing::warn!("what was kept of a stream can't be read: {error}");
            });
            Some((stream, record.ok()?))
        };
        self.kept.all().into_iter().filter_map(read).collect()
    }

    /// Keeps what is known of a stream, or that there is none any more.
    fn keep(&self, stream: u32) {
        let record = self.open.get(&stream).and_then(|own| {
            let Open { id, source, session, .. } = own;
            serde_json::to_vec(&SourceRecord { id: *id, source: source.clone(), session: session.clone() }).ok()
        });
        self.kept.change([(format!("{SOURCE}{stream:04x}"), record)]);
    }

    /// A stream has a session, by which it is known.
    pub fn has_session(&mut self, stream: u32, id: Id, session: String) {
        if let Some(own) = self.open.get_mut(&stream).filter(|own| own.id == id) {
            own.session = Some(session);
            self.keep(stream);
        }
    }

    /// Other settings from now on.
    pub fn set_settings(&mut self, settings: &Arc<Settings>) {
        self.settings = settings.clone();
        self.tell_engine();
    }

    fn tell_engine(&self) {
        let own = self.open.values().filter_map(|own| own.own.clone());
        self.shared.set_settings(&Arc::new(engine(&self.settings, own)));
    }

    /// What a stream is called, and what the configuration does not say of it.
    fn named(&self, source: &Source, id: Id) -> (String, Option<Named>) {
        let place = match source {
            Source::Named(name) | Source::Server(name) => return (name.clone(), None),
            Source::Place(place) => place,
        };
        let name = format!("~{id}");
        let interface = self.settings.interface.clone().filter(|_| place.address.is_multicast());
        let places = vec![(place.address, place.port)];
        // It is read once for each, and is right.
        let Ok(description) = Description::parse(MP2T.as_bytes()) else { return (name, None) };
        let plain = Plain { places, source: place.source, interface, bare: true, description };
        let (url, plain) = (source.shown(), Some(Arc::new(plain)));
        (name.clone(), Some(Named { name, url, live: Some(true), plain, ..Named::default() }))
    }

    /// Asks for a stream.
    pub fn open(&mut self, stream: u32, source: &Source) {
        self.close(stream);
        self.next = (self.next + 1) & 0xff_ffff;
        let id = self.next;
        let (_, own) = self.named(source, id);
        let is_own = own.is_some();
        self.open.insert(stream, Open { id, source: source.clone(), session: None, stop: Arc::default(), own });
        if is_own {
            self.tell_engine();
        }
        self.keep(stream);
        self.view(stream, None);
    }

    /// Has a stream viewed, by the session that it has already, if there is one.
    fn view(&self, stream: u32, session: Option<String>) {
        let Some(own) = self.open.get(&stream) else { return };
        let (name, _) = self.named(&own.source, own.id);
        let viewing = viewer::Viewing {
            stream,
            id: own.id,
            url: format!("rtsp://translate/{name}"),
            session,
            shared: self.shared.clone(),
            events: self.events.clone(),
            stop: own.stop.clone(),
        };
        tokio::spawn(viewer::run(viewing));
    }

    /// Nobody wants a stream any more.
    pub fn close(&mut self, stream: u32) {
        let Some(own) = self.open.remove(&stream) else { return };
        own.stop.notify_one();
        self.keep(stream);
        if own.own.is_some() {
            self.tell_engine();
        }
    }

    /// Whether an event is about the stream that has the number now.
    pub fn is_current(&self, stream: u32, id: Id) -> bool {
        self.open.get(&stream).is_some_and(|own| own.id == id)
    }

    /// What is due: some times in a second.
    pub fn tick(&self) {
        for track in self.path.resumed() {
            // How numbers go on is no matter here: viewers know those of TCP alone.
            let first = rtp::Header { sequence: 0, timestamp: 0, ssrc: 0 };
            self.shared.event(|engine| engine.resumed(track, first));
        }
        self.shared.tick();
    }

    /// Ends all; servers are told.
    pub fn end(&mut self) {
        let all: Vec<u32> = self.open.keys().copied().collect();
        all.into_iter().for_each(|stream| self.close(stream));
        self.shared.end();
    }

    /// Connections to servers that are there.
    pub fn servers(&self) -> usize {
        self.shared.origins()
    }

    /// What of the engine is asked by name (queries of the media proxy): `origins`, `origin`, `streams`.
    pub fn query(&self, name: &str, with: &serde_json::Value) -> control::application::Answer {
        self.shared.query(name, with)
    }
}

/// The address of the receiver that stands for a stream, and the port of RTP; that of RTCP is the next one.
fn receiver(stream: u32, id: Id) -> (Ipv4Addr, u16) {
    let [_, a, b, c] = id.to_be_bytes();
    (Ipv4Addr::new(127, a, b, c), 1024 + 2 * stream as u16)
}

/// The stream that a receiver stands for.
fn stream_of(to: std::net::SocketAddr) -> Option<(u32, Id)> {
    let std::net::IpAddr::V4(address) = to.ip().to_canonical() else { return None };
    let [127, a, b, c] = address.octets() else { return None };
    Some((u32::from(to.port().checked_sub(1024)?) / 2, u32::from_be_bytes([0, a, b, c])))
}

/// The settings of the media proxy's state machine. Who may view is asked before.
fn engine(settings: &Settings, own: impl IntoIterator<Item = Named>) -> Engine {
    let mut engine = Engine { viewers: Arc::new(Access::default()), users: Vec::new(), ..(*settings.sources).clone() };
    engine.streams.extend(own);
    engine.streams.iter_mut().for_each(|stream| stream.viewers = None);
    engine
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, SocketAddr};

    use super::*;

    #[test]
    fn receivers_stand_for_streams() {
        for (stream, id) in [(0, 1), (127, 0xff_ffff), (7, 0x010203)] {
            let (address, port) = receiver(stream, id);
            assert!(IpAddr::V4(address).is_loopback() && port >= 1024 && port % 2 == 0);
            for port in [port, port + 1] {
                assert_eq!(stream_of(SocketAddr::new(address.into(), port)), Some((stream, id)));
            }
        }
        assert_eq!(stream_of("10.0.0.1:1024".parse().unwrap()), None);
    }
}
