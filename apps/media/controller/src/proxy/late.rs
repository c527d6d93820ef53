//! Viewers that come late to a live stream begin at its last access point: the packets since then are kept, and sent
//! first, faster than they came, then those that come. The program takes a receiver over between two packets: the flow
//! entry has a number that each packet carries on, so each is either the controller's to send or the program's.

use std::collections::{BTreeMap, VecDeque};

use wire::picture::{Coding, Contents};
use wire::rtp::{self, Header};
use wire::rtsp::framing::interleaved;

use super::session::Delivery;
use super::world::{Effect, From, Piece, World};
use super::{Proxy, SessionId, UpstreamId};

/// Packets that a viewer gets at once when it joins,
const FIRST: usize = 32;
/// and for each one that comes, until it has all.
const MORE: usize = 4;
/// Where no packet ends a picture, the program takes over behind so many that a viewer had at once.
const WAITS: u32 = 64;
/// So many packets in front of an access point tables of a transport stream may lie that belong to it.
const TABLES: u64 = 64;

/// What is kept of a track for those who come late.
#[derive(Debug, Default)]
pub(super) struct Late {
    /// Bytes that may be kept; 0: nothing is.
    most: usize,
    kept: VecDeque<(Vec<u8>, Contents)>,
    bytes: usize,
    /// Packets that have come: the number of the next one.
    next: u64,
    /// The last access point.
    access: Option<u64>,
    /// The last picture's first packet and its timestamp, and the last tables.
    picture: (u64, Option<u32>),
    tables: Option<u64>,
    /// Who has not got all of it yet.
    behind: BTreeMap<SessionId, Behind>,
    /// The number in the flow entry.
    pub(super) generation: u32,
}

/// A viewer that has not got all of it yet.
#[derive(Clone, Copy, Debug)]
struct Behind {
    /// The packet that is next.
    next: u64,
    /// Packets with this number in their flow entry are the program's to send.
    until: Option<u32>,
    /// Packets that it had as soon as they came.
    waits: u32,
}

impl Late {
    /// Another flow, whose packets are others; numbers go on.
    pub(super) fn anew(&self) -> Late {
        Late { most: self.most, generation: self.generation, ..Late::default() }
    }

    /// Keeps so many bytes, where it is not known yet how many.
    pub(super) fn keep(&mut self, most: usize) {
        if self.most == 0 {
            self.most = most;
        }
    }

    /// Viewers that have not got all of it yet.
    pub(super) fn len(&self) -> usize {
        self.behind.len()
    }

    /// Whether anything is kept.
    pub(super) fn is_on(&self) -> bool {
        self.most != 0
    }

    /// Whether a viewer gets its packets from the controller until it has all.
    pub(super) fn is_behind(&self, session: SessionId) -> bool {
        self.behind.contains_key(&session)
    }

    /// Whether the program has nothing to do with a viewer yet.
    pub(super) fn catches_up(&self, session: SessionId) -> bool {
        self.behind.get(&session).is_some_and(|own| own.until.is_none())
    }

    /// From which number in the flow entry on packets are the program's to send to a viewer.
    pub(super) fn since(&self, session: SessionId) -> u32 {
        self.behind.get(&session).and_then(|own| own.until).unwrap_or(0)
    }

    /// A viewer plays no more, or has all.
    pub(super) fn forget(&mut self, session: SessionId) {
        self.behind.remove(&session);
    }

    fn front(&self) -> u64 {
        self.next - self.kept.len() as u64
    }

    fn at(&self, number: u64) -> Option<&(Vec<u8>, Contents)> {
        self.kept.get(usize::try_from(number.checked_sub(self.front())?).ok()?)
    }

    /// A packet has come. How many viewers have lost packets that there was no room for.
    fn push(&mut self, packet: &[u8], contents: Contents, coding: Coding) -> u64 {
        let timestamp = Header::read(packet).map(|own| own.timestamp);
        if self.picture.1 != timestamp {
            self.picture = (self.next, timestamp);
        }
        if contents.tables {
            self.tables = Some(self.next);
        }
        if contents.access_point {
            let near = self.tables.filter(|tables| self.next - tables <= TABLES);
            self.access = Some(if coding.is_one_picture() { self.picture.0 } else { near.unwrap_or(self.next) });
        }
        self.bytes += packet.len();
        self.kept.push_back((packet.to_vec(), contents));
        self.next += 1;
        // What may be a beginning, or is somebody's yet.
        let beginning = self.access.unwrap_or(self.picture.0.min(self.tables.unwrap_or(u64::MAX)));
        let needed = self.behind.values().map(|own| own.next).fold(beginning, u64::min);
        while self.front() < needed || self.bytes > self.most {
            let Some((gone, _)) = self.kept.pop_front() else { break };
            self.bytes -= gone.len();
        }
        let front = self.front();
        self.access = self.access.filter(|access| *access >= front);
        let mut lost = 0;
        for own in self.behind.values_mut().filter(|own| own.next < front) {
            own.next = front;
            lost += 1;
        }
        lost
    }

    /// Has a viewer begin at the last access point; its first packet, where there is one.
    fn begin(&mut self, session: SessionId) -> Option<Header> {
        let access = self.access?;
        let first = Header::read(&self.at(access)?.0)?;
        self.behind.insert(session, Behind { next: access, until: None, waits: 0 });
        Some(first)
    }
}

impl<W: World> Proxy<W> {
    /// How many bytes are kept of a track for those who come late.
    pub(super) fn late_bytes(&self, id: UpstreamId, track: usize) -> usize {
        let own = self.upstreams.get(&id).filter(|own| own.live);
        let known = own.and_then(|own| own.tracks.get(track)).is_some_and(|own| own.reader.is_some());
        if known { self.settings.limits.late_join } else { 0 }
    }

    fn late(&mut self, id: UpstreamId, track: usize) -> Option<&mut Late> {
        self.upstreams.get_mut(&id)?.tracks.get_mut(track).map(|own| &mut own.audience.late)
    }

    /// A session plays a track for the first time: it begins at the last access point, if there is one; the numbers
    /// there.
    pub(super) fn begin_late(&mut self, id: UpstreamId, session: SessionId, track: usize) -> Option<Header> {
        let first = self.late(id, track)?.begin(session)?;
        self.counts.late += 1;
        Some(first)
    }

    /// What a packet of a track carries, where that is known; it is kept for those who come late.
    pub(super) fn read_packet(&mut self, id: UpstreamId, track: usize, packet: &[u8]) -> Option<(Contents, Coding)> {
        let own = self.upstreams.get_mut(&id)?.tracks.get_mut(track)?;
        // Nobody wants to know it where packets go by the program alone.
        if own.channels.is_none() && own.audience.is_of_receivers_alone() {
            return None;
        }
        let reader = own.reader.as_mut()?;
        let (contents, coding) = (reader.read(packet), reader.coding());
        if own.audience.late.is_on() {
            let lost = own.audience.late.push(packet, contents, coding);
            self.counts.late_lost += lost;
        }
        Some((contents, coding))
    }

    /// Sends those who are behind what they have not got: so many packets, for one that has come with a number in its
    /// flow entry, or on a connection.
    pub(super) fn feed(&mut self, id: UpstreamId, track: usize, generation: Option<u32>) {
        let Some(late) = self.late(id, track) else { return };
        let behind: Vec<SessionId> = late.behind.keys().copied().collect();
        for session in behind {
            self.feed_one(id, session, track, generation, MORE);
        }
    }

    /// The first packets of one that has just joined.
    pub(super) fn feed_first(&mut self, id: UpstreamId, session: SessionId, track: usize) {
        if self.late(id, track).is_some_and(|own| own.is_behind(session)) {
            self.feed_one(id, session, track, None, FIRST);
        }
    }

    fn feed_one(&mut self, id: UpstreamId, session: SessionId, track: usize, generation: Option<u32>, most: usize) {
        let Some(own) = self.sessions.get(&session) else { return };
        let Some(viewer) = own.viewers.get(track) else { return };
        let (local, delivery, rewrite) = (own.local, viewer.delivery, viewer.rewrite);
        let Some(of) = self.upstreams.get_mut(&id).and_then(|own| own.tracks.get_mut(track)) else { return };
        let (is_carried, coding) = (of.channels.is_some(), of.reader.as_ref().map(|own| own.coding()));
        let late = &mut of.audience.late;
        let Some(mut behind) = late.behind.get(&session).copied() else { return };
        // It had all but this one, which is the program's.
        if behind.until.zip(generation).is_some_and(|(until, own)| own >= until) {
            return late.forget(session);
        }
        let (mut effects, mut ends_picture) = (Vec::new(), false);
        while effects.len() < most
            && let Some((packet, contents)) = late.at(behind.next)
            && let Some(header) = Header::read(packet)
        {
            behind.next += 1;
            ends_picture = rtp::is_marked(packet);
            let mut copy = packet.clone();
            rewrite.apply(header).write(&mut copy);
            effects.extend(match delivery {
                Delivery::Udp { rtp, .. } => Some(Effect::Datagram(From::Media(local), rtp, copy)),
                Delivery::Interleaved { client, rtp, .. } => interleaved(rtp, &copy).map(|framed| {
                    let piece = coding.map(|coding| Piece::new(rtp, *contents, coding));
                    Effect::MediaToClient(client, framed, piece)
                }),
            });
        }
        self.counts.delivered += effects.len() as u64;
        self.effects.extend(effects);
        let has_all = behind.next == late.next;
        // The next picture comes after a pause, in which what is under way arrives: then the program takes over.
        behind.waits += u32::from(has_all);
        let tells = coding.is_some_and(Coding::is_one_picture) && behind.waits < WAITS;
        let at_seam = has_all && (ends_picture || !tells);
        match delivery {
            Delivery::Interleaved { .. } if has_all => late.forget(session),
            Delivery::Udp { .. } if has_all && is_carried => {
                late.forget(session);
                self.update_viewer(id, session, track);
            }
            Delivery::Udp { .. } if at_seam && behind.until.is_none() => {
                late.generation += 1;
                behind.until = Some(late.generation);
                late.behind.insert(session, behind);
                self.update_viewer(id, session, track);
            }
            _ => _ = late.behind.insert(session, behind),
        }
    }
}
