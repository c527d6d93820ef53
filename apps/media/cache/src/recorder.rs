//! The caller's side of a recording: packets in order, into blocks, to the writer. It never waits for the disk.

use std::sync::Arc;

use wire::picture::{Coding, Reader};
use wire::rtp;

use crate::core::Core;
use crate::filling::Blocks;
use crate::format::entry::Entry;
use crate::format::ts;
use crate::info::{End, Kind, Recording};
use crate::live::Live;
use crate::reorder::{Arrival, Dropped, Place, Window};
use crate::settings::LONGEST;

/// So many packets at most lie between the tables of MPEG-TS and the access point that they belong to.
const TABLES_AHEAD: usize = 64;

/// A recording ended; nothing more is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the recording has ended: {}", .0.name())]
pub struct Ended(pub End);

/// Counts of a recorder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets that went into blocks.
    pub recorded: u64,
    /// Packets that never came.
    pub lost: u64,
    /// Packets that were left out, in the order of [`Dropped::ALL`].
    pub dropped: [u64; 6],
}

/// Records a stream.
#[derive(Debug)]
pub struct Recorder {
    window: Window,
    ordered: Ordered,
    /// For datagrams without RTP.
    next: u16,
    counts: Counts,
    /// The threads live as long as somebody records.
    _core: Arc<Core>,
}

/// Packets that are in order: where segments end.
#[derive(Debug)]
struct Ordered {
    recording: Arc<Recording>,
    live: Arc<Live>,
    linger: u64,
    pictures: Option<Reader>,
    /// The first packet's arrival.
    began: Option<Arrival>,
    /// Tables of MPEG-TS, and what came behind them, when a segment is to end: they go into the next one.
    held: Vec<(Entry, Vec<u8>)>,
    blocks: Blocks,
}

impl Recorder {
    pub(crate) fn new(core: &Arc<Core>, recording: &Arc<Recording>, live: &Arc<Live>) -> Recorder {
        let settings = &core.inner.settings;
        let coding = match recording.source.kind {
            Kind::Rtp => Coding::named(&recording.source.encoding),
            Kind::Mp2t | Kind::Ts => Some(Coding::TransportStream),
        };
        let blocks = Blocks::new(core, recording, live);
        let (recording, live, linger) = (recording.clone(), live.clone(), settings.linger_ms * 1000);
        let pictures = coding.map(Reader::new);
        let ordered = Ordered { recording, live, linger, pictures, began: None, held: Vec::new(), blocks };
        let window = Window::new(settings.window, settings.window_ms * 1000);
        Recorder { window, ordered, next: 0, counts: Counts::default(), _core: core.clone() }
    }

    /// The recording.
    pub fn recording(&self) -> &Recording {
        &self.ordered.recording
    }

    /// What it has recorded, and left out.
    pub fn counts(&self) -> Counts {
        let blocks = &self.ordered.blocks;
        let mut counts = Counts { recorded: blocks.recorded, lost: blocks.lost, ..self.counts };
        counts.dropped[Dropped::Stray as usize] += self.window.strays;
        counts.dropped[Dropped::TooLong as usize] += blocks.too_long;
        counts
    }

    /// Records an RTP packet, or a datagram of MPEG-TS. Packets that are left out are counted.
    ///
    /// # Errors
    ///
    /// The recording has ended, for this reason.
    pub fn put(&mut self, arrival: Arrival, packet: &[u8]) -> Result<(), Ended> {
        self.going()?;
        if let Err(dropped) = self.sort(arrival, packet) {
            self.counts.dropped[dropped as usize] += 1;
        }
        self.ordered.linger(arrival.monotonic);
        self.going()
    }

    fn going(&self) -> Result<(), Ended> {
        self.ordered.live.ended().map_or(Ok(()), |end| Err(Ended(end)))
    }

    fn sort(&mut self, arrival: Arrival, packet: &[u8]) -> Result<(), Dropped> {
        let kind = self.ordered.recording.source.kind;
        let ordered = &mut self.ordered;
        let mut next = |place: Place, packet: &[u8]| ordered.put(place, packet);
        if kind == Kind::Ts {
            if !ts::is_ts(packet) {
                return Err(Dropped::NotTs);
            }
            let number = self.next;
            self.next = number.wrapping_add(1);
            return self.window.put(number, 0, arrival, packet, &mut next);
        }
        let header = rtp::Header::read(packet).ok_or(Dropped::NotRtp)?;
        let payload = rtp::payload(packet).ok_or(Dropped::NotRtp)?;
        if kind == Kind::Mp2t && !ts::is_ts(payload) {
            return Err(Dropped::NotTs);
        }
        if packet.len() > usize::from(u16::MAX) {
            return Err(Dropped::TooLong);
        }
        self.window.put(header.sequence, header.ssrc, arrival, packet, &mut next)
    }

    /// What time does: nobody waits longer than the settings say. To be called when no packet has come for a while.
    ///
    /// # Errors
    ///
    /// The recording has ended, for this reason.
    pub fn poll(&mut self, now: u64) -> Result<(), Ended> {
        self.going()?;
        let ordered = &mut self.ordered;
        self.window.expire(now, &mut |place, packet| ordered.put(place, packet));
        self.ordered.linger(now);
        self.going()
    }

    /// Hands all that is in order to the writer, so that readers see it soon.
    ///
    /// # Errors
    ///
    /// The recording has ended, for this reason.
    pub fn flush(&mut self) -> Result<(), Ended> {
        self.going()?;
        self.ordered.release();
        self.ordered.blocks.write(false);
        self.going()
    }

    /// Ends the recording. Dropping it does the same.
    pub fn finish(self) {}
}

impl Drop for Recorder {
    fn drop(&mut self) {
        let ordered = &mut self.ordered;
        if ordered.live.ended().is_none() {
            self.window.flush(&mut |place, packet| ordered.put(place, packet));
            ordered.release();
            ordered.blocks.end_segment();
        }
        ordered.live.stop(End::Finished);
        ordered.blocks.end();
    }
}

impl Ordered {
    /// A packet, in order.
    fn put(&mut self, place: Place, packet: &[u8]) {
        if self.live.ended().is_some() {
            return;
        }
        let began = *self.began.get_or_insert(place.arrival);
        let kind = self.recording.source.kind;
        let (timestamp, marker, bytes) = match kind {
            Kind::Ts => (0, false, packet),
            _ => {
                let timestamp = rtp::Header::read(packet).map_or(0, |header| header.timestamp);
                let payload = rtp::payload(packet).unwrap_or_default();
                (timestamp, rtp::is_marked(packet), if kind == Kind::Mp2t { payload } else { packet })
            }
        };
        let pictures = self.pictures.as_mut();
        let contents = pictures.map(|own| match kind {
            Kind::Rtp => own.read(packet),
            _ => own.read_payload(timestamp, bytes),
        });
        let contents = contents.unwrap_or_default();
        let entry = Entry {
            sequence: place.sequence,
            timestamp,
            npt: place.arrival.monotonic.saturating_sub(began.monotonic),
            clock: place.arrival.clock,
            length: bytes.len() as u32,
            access_point: contents.access_point,
            marker,
            restart: place.restart,
            estimated: false,
            pcr: kind.is_ts().then(|| ts::pcr(bytes)).flatten(),
        };
        if self.is_due(&entry) {
            if entry.access_point || self.is_overdue(&entry) {
                self.blocks.end_segment();
                self.release();
            } else if contents.tables {
                self.release();
                self.held.push((entry, bytes.to_vec()));
                return;
            }
        }
        if self.held.is_empty() {
            self.blocks.append(&entry, bytes);
        } else {
            self.held.push((entry, bytes.to_vec()));
            if self.held.len() > TABLES_AHEAD {
                self.release();
            }
        }
    }

    /// Whether the segment is to end at the next access point. As it may get twice as long from then on, there is one
    /// where they come as often as that,
    fn is_due(&self, entry: &Entry) -> bool {
        self.blocks.is_as_long(entry, if self.pictures.is_some() { LONGEST / 2 } else { 4 })
    }

    /// or anywhere.
    fn is_overdue(&self, entry: &Entry) -> bool {
        self.blocks.is_as_long(entry, if self.pictures.is_some() { LONGEST } else { 4 })
    }

    /// What was held goes to the segment.
    fn release(&mut self) {
        for (entry, bytes) in std::mem::take(&mut self.held) {
            self.blocks.append(&entry, &bytes);
        }
    }

    /// What is too old is written.
    fn linger(&mut self, now: u64) {
        let (began, longest) = (self.began.unwrap_or_default().monotonic, self.linger);
        let is_old = |npt: u64| now.saturating_sub(began) >= npt.saturating_add(longest);
        if self.held.first().is_some_and(|(entry, _)| is_old(entry.npt)) {
            self.release();
        }
        if self.blocks.first().is_some_and(is_old) {
            self.blocks.write(false);
        }
    }
}
