//! What the media proxy's state machine does to the program: its flow entries lead to streams, and what it asks about
//! packets is what the program has counted of them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dataplane::controller::{NameError, NamedTables, Table};
use media::sockets::data_path::DataPath;
use media::tables::{Flow, FlowKey, Leads, Progress, Receiver};
use tokio::sync::mpsc::UnboundedSender;
use wire::{rtcp, rtp};

use super::{SourceEvent, stream_of};
use crate::http::refusal::NO_SERVER;
use crate::tables::{ANY_SOURCE, StreamCounts};

/// See the module. Clones are the same.
#[derive(Clone)]
pub(super) struct Path(Arc<Mutex<State>>);

impl fmt::Debug for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Path").finish_non_exhaustive()
    }
}

struct State {
    tables: Option<Tables>,
    events: UnboundedSender<SourceEvent>,
    /// The streams of tracks that have their receiver.
    tracks: HashMap<u32, Track>,
    /// What was counted of tracks whose packets come by the controller.
    relayed: HashMap<u32, Progress>,
    /// Tracks of which the first packet since they have another server is awaited.
    awaited: BTreeSet<u32>,
    /// Flow entries that there are.
    entries: BTreeMap<SocketAddrs, u32>,
}

type SocketAddrs = (SocketAddr, SocketAddr);

struct Tables {
    flows: Table<FlowKey, (u32, u8, u8)>,
    streams: Table<u32, StreamCounts>,
}

#[derive(Clone, Copy)]
struct Track {
    stream: u32,
    /// Which of those that had its number.
    id: u32,
    /// What was counted of the stream before.
    before: StreamCounts,
}

impl State {
    fn counts(&self, stream: u32) -> StreamCounts {
        self.tables.as_ref().and_then(|tables| tables.streams.get(&stream)).unwrap_or_default()
    }

    fn progress(&self, track: u32) -> Progress {
        if let Some(progress) = self.relayed.get(&track) {
            return *progress;
        }
        let Some(Track { stream, before, .. }) = self.tracks.get(&track) else { return Progress::default() };
        let now = self.counts(*stream);
        let packets = now.packets.saturating_sub(before.packets);
        if packets == 0 {
            return Progress::default();
        }
        Progress {
            packets,
            bytes: now.bytes.saturating_sub(before.bytes),
            heard: now.heard,
            seen: 1,
            highest: now.highest,
            ssrc: now.ssrc,
            lost: now.lost.wrapping_sub(before.lost),
            late: now.late.wrapping_sub(before.late),
            duplicate: now.duplicates.wrapping_sub(before.duplicates),
            restarts: now.restarts.wrapping_sub(before.restarts),
            ..Progress::default()
        }
    }
}

impl Path {
    /// Without a program.
    pub(super) fn new(events: UnboundedSender<SourceEvent>) -> Path {
        Path(Arc::new(Mutex::new(State {
            tables: None,
            events,
            tracks: HashMap::new(),
            relayed: HashMap::new(),
            awaited: BTreeSet::new(),
            entries: BTreeMap::new(),
        })))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Another program runs from now on. The first one may have entries of another process: they are returned, as far
    /// as the state machine knows of such.
    pub(super) fn use_tables(&self, tables: &NamedTables) -> Result<Vec<(FlowKey, Flow)>, String> {
        let text = |error: NameError| error.to_string();
        let flows: Table<FlowKey, (u32, u8, u8)> = tables.table("origins.flows").map_err(text)?;
        let streams = tables.table("ring.streams").map_err(text)?;
        let mut state = self.lock();
        let others: Vec<FlowKey> = flows.entries().into_iter().map(|(key, _)| key).collect();
        let others = others.into_iter().filter(|key| !state.entries.contains_key(&(key.src, key.dst)));
        let (again, tapped, rate, track, generation) = (false, false, 0, 0, 0);
        let flow = Flow { leads: Leads::Nobody, again, tapped, rate, track, generation };
        let others = others.map(|key| (key, flow)).collect();
        state.tables = Some(Tables { flows, streams });
        Ok(others)
    }

    /// Tracks of which the first packet has come since they have another server.
    pub(super) fn resumed(&self) -> Vec<u32> {
        let mut state = self.lock();
        let came: Vec<u32> =
            state.awaited.iter().copied().filter(|track| state.progress(*track).packets != 0).collect();
        came.iter().for_each(|track| _ = state.awaited.remove(track));
        came
    }
}

impl DataPath for Path {
    fn set_flow(&mut self, key: &FlowKey, flow: &Flow) -> Result<(), String> {
        let mut state = self.lock();
        // Where nobody is told its packets, it may be that the first one is to be told.
        let awaited = flow.leads == Leads::Nobody && flow.tapped;
        let stream = state.tracks.get(&flow.track).filter(|_| awaited || flow.leads != Leads::Nobody);
        let Some(stream) = stream.map(|track| track.stream) else {
            drop(state);
            self.remove_flow(key);
            return Ok(());
        };
        if awaited {
            state.awaited.insert(flow.track);
        } else {
            state.awaited.remove(&flow.track);
        }
        state.entries.insert((key.src, key.dst), stream);
        let Some(tables) = &mut state.tables else { return Ok(()) };
        let (form, payload_type) = ANY_SOURCE;
        tables.flows.set(key, &(stream, form, payload_type)).map_err(|error| error.to_string())
    }

    fn remove_flow(&mut self, key: &FlowKey) {
        let mut state = self.lock();
        state.entries.remove(&(key.src, key.dst));
        state.tables.iter_mut().for_each(|tables| _ = tables.flows.remove(key));
    }

    fn progress(&mut self, track: u32) -> Progress {
        self.lock().progress(track)
    }

    fn set_progress(&mut self, track: u32, progress: &Progress) {
        self.lock().relayed.insert(track, *progress);
    }

    fn reset_progress(&mut self, track: u32) {
        let mut state = self.lock();
        state.relayed.remove(&track);
        state.tracks.remove(&track);
        state.awaited.remove(&track);
    }

    fn join(&mut self, track: u32, receiver: &Receiver) -> Result<u32, String> {
        let (stream, id) = stream_of(receiver.to).ok_or("a receiver is none of this controller's")?;
        let mut state = self.lock();
        let before = state.counts(stream);
        state.tracks.insert(track, Track { stream, id, before });
        Ok(0)
    }

    fn set_member(&mut self, _: u32, _: u32, _: &Receiver) -> Result<(), String> {
        Ok(())
    }

    fn leave(&mut self, track: u32, _: u32) {
        self.lock().awaited.remove(&track);
    }

    fn has_receivers(&self) -> bool {
        true
    }

    fn to_group(&mut self, track: u32, _: IpAddr, packet: &[u8]) -> bool {
        let state = self.lock();
        let Some(Track { stream, id, .. }) = state.tracks.get(&track).copied() else { return false };
        state.events.send(SourceEvent::Packet { stream, id, bytes: packet.to_vec() }).is_ok()
    }

    fn datagram(&mut self, to: SocketAddr, datagram: &[u8]) {
        let Some((stream, id)) = stream_of(to) else { return };
        let event = if !rtp::is_rtcp(datagram) {
            SourceEvent::Packet { stream, id, bytes: datagram.to_vec() }
        } else if rtcp::parse(datagram).is_some_and(|own| !own.ended.is_empty()) {
            SourceEvent::Ended { stream, id, refusal: NO_SERVER }
        } else {
            return;
        };
        // Whoever takes them ends with the controller.
        let _ = self.lock().events.send(event);
    }

    fn takes_bare(&self) -> bool {
        true
    }
}
