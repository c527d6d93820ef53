//! One recording of a take, read packet by packet: all of them, or the pictures at which a decoder can begin.

use std::io;
use std::time::Duration;

use media_cache::{Item, Kind, Missing, Reader};
use wire::picture::{self, Coding};
use wire::rtp::{self, Header};

use super::film::Next;
use super::timeline::{Piece, Take};

/// The payload type of MPEG-TS (RFC 3551 table 5).
const MP2T: u8 = 33;

/// See the module.
#[derive(Debug)]
pub struct Track {
    /// Its place in the description.
    pub track: usize,
    reader: Reader,
    /// What is added to its packets' npt; none before the first packet of what had none.
    shift: Option<i64>,
    /// Where its take begins: in the timeline, and by the wall clock.
    begins: (u64, u64),
    /// What was read, and is not taken yet.
    pub next: Option<Next>,
    /// Its next packet is the first of another recording than the one before.
    anew: bool,
    /// Why no more is read, if so.
    pub has_ended: bool,
    /// Which pictures are read; all of them otherwise.
    keys: Option<Keys>,
    /// It ends where something of it was removed, or is damaged.
    is_strict: bool,
    /// Where it has ended so, in the timeline.
    pub broken: Option<u64>,
    /// The time of its last packet.
    last: u64,
    /// What was written by then, as its reader counts it, where it is written still.
    seen: Option<u64>,
}

/// Which pictures are read.
#[derive(Debug)]
struct Keys {
    pictures: picture::Reader,
    /// The one that is read.
    now: Option<u32>,
}

/// How a recording is coded, where its packets tell something of pictures.
fn coding(reader: &Reader) -> Option<Coding> {
    let source = &reader.recording().source;
    match source.kind {
        Kind::Rtp => Coding::named(&source.encoding),
        Kind::Mp2t | Kind::Ts => Some(Coding::TransportStream),
    }
}

impl Track {
    /// One that begins with its recording. Of what tells nothing of pictures there are no keys. One that is strict ends
    /// where something of it was removed, or is damaged.
    pub fn new(track: usize, reader: Reader, piece: Piece, take: &Take, keys: bool, is_strict: bool) -> Option<Track> {
        let keys = match (keys, coding(&reader)) {
            (false, _) => None,
            (true, coding) => Some(Keys { pictures: picture::Reader::new(coding?), now: None }),
        };
        let begins = (take.offset, take.clock);
        let (next, shift) = (None, piece.shift);
        let last = take.offset;
        Some(Track {
            track,
            reader,
            shift,
            begins,
            next,
            anew: true,
            has_ended: false,
            keys,
            is_strict,
            broken: None,
            last,
            seen: None,
        })
    }

    /// Whether it is written now.
    pub fn is_live(&self) -> bool {
        self.reader.recording().end.is_none()
    }

    /// Whether there may be more than there was when it was read last.
    pub fn may_have_more(&self) -> bool {
        self.has_ended || self.seen.is_none() || self.seen != self.reader.changes()
    }

    /// A time of the timeline in the recording.
    fn own(&self, time: u64) -> u64 {
        time.saturating_add_signed(self.shift.unwrap_or_default().saturating_neg())
    }

    /// Goes to the last access point at or before a time; whether there is one.
    ///
    /// # Errors
    /// It can't be read; so below.
    pub fn seek_access_point(&mut self, time: u64) -> io::Result<bool> {
        self.reader.seek_access_point(self.own(time))
    }

    /// Goes to the first packet that came at a time or later.
    ///
    /// # Errors
    /// As above.
    pub fn seek(&mut self, time: u64) -> io::Result<()> {
        self.reader.seek_npt(self.own(time))
    }

    /// Reads the next packet, if there is one.
    ///
    /// # Errors
    /// As above.
    pub fn fill(&mut self) -> io::Result<()> {
        let (kind, ssrc) = (self.reader.recording().source.kind, self.reader.recording().id as u32);
        while self.next.is_none() && !self.has_ended {
            if self.keys.as_ref().is_some_and(|own| own.now.is_none()) {
                self.reader.skip_to_access_point()?;
            }
            let own = match self.reader.next_item()? {
                Item::Packet(own) => own,
                Item::Gap(Missing::Removed | Missing::Damaged, _) if self.is_strict => {
                    (self.has_ended, self.broken) = (true, Some(self.last));
                    return Ok(());
                }
                Item::Gap(..) => continue,
                // What was written meanwhile is read yet.
                Item::Pending => match self.reader.changes() {
                    seen if seen == self.seen => return Ok(()),
                    seen => {
                        self.seen = seen;
                        continue;
                    }
                },
                Item::End(_) => {
                    self.has_ended = true;
                    return Ok(());
                }
            };
            let (about, is_log) = (own.about, kind == Kind::Rtp);
            if let Some(keys) = &mut self.keys {
                let pictures = &mut keys.pictures;
                let read = if is_log { pictures.read(own.bytes) } else { pictures.read_payload(0, own.bytes) };
                let is_of_it = keys.now == Some(read.picture);
                if about.access_point {
                    keys.now = Some(read.picture);
                } else if !is_of_it {
                    // A packet of MPEG-TS may have the rest of the picture in front of the next one.
                    let has_rest = keys.now.take().is_some() && !pictures.coding().is_one_picture();
                    if !has_rest {
                        continue;
                    }
                }
            }
            let packet = match is_log {
                true => own.bytes.to_vec(),
                false => {
                    let header = Header { sequence: about.sequence as u16, timestamp: about.timestamp, ssrc };
                    with_header(header, about.marker, own.bytes)
                }
            };
            let (offset, clock) = self.begins;
            let shift = *self.shift.get_or_insert_with(|| {
                let passed = about.clock.saturating_sub(clock);
                offset.saturating_add(passed) as i64 - about.npt as i64
            });
            let npt = Duration::from_micros(about.npt.saturating_add_signed(shift));
            self.last = about.npt.saturating_add_signed(shift);
            let anew = std::mem::take(&mut self.anew);
            let recording = self.reader.recording().id;
            self.next = Some(Next { track: self.track, npt, packet, anew, recording });
        }
        Ok(())
    }
}

/// The RTP packet whose payload was recorded.
fn with_header(header: Header, marker: bool, payload: &[u8]) -> Vec<u8> {
    let mut packet = Vec::with_capacity(rtp::HEADER + payload.len());
    packet.extend([0x80, MP2T | u8::from(marker) << 7]);
    packet.resize(rtp::HEADER, 0);
    header.write(&mut packet);
    packet.extend_from_slice(payload);
    packet
}
