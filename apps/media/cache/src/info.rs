//! What is known of recordings and their segments.

use serde::{Deserialize, Serialize};

use crate::format::index::Chunk;

/// What packets of a stream are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// RTP with MPEG-TS (RFC 2250): segments are plain MPEG-TS.
    Mp2t,
    /// Datagrams of MPEG-TS without RTP; they are numbered as they come.
    Ts,
    /// Other RTP: segments are logs of packets.
    Rtp,
}

impl Kind {
    /// Whether segments are MPEG-TS.
    pub fn is_ts(self) -> bool {
        self != Kind::Rtp
    }

    /// What names of segments end with.
    pub fn extension(self) -> &'static str {
        if self.is_ts() { "ts" } else { "rtp" }
    }
}

/// What is to be recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// By which it is found again: the URL, as the proxy knows it.
    pub key: String,
    /// Which media of its description.
    pub track: u16,
    /// What its packets are.
    pub kind: Kind,
    /// The encoding's name (`rtpmap`), by which access points are found.
    pub encoding: String,
    /// Units of RTP's timestamps in a second.
    pub clock_rate: u32,
    /// What a decoder must know, as its caller writes it: recordings of a key with the same may follow each other.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub format: String,
    /// The session's description; in a file of its own.
    #[serde(skip)]
    pub sdp: String,
    /// Of which film it is a part; none: it is of a stream that has no beginning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub film: Option<FilmSource>,
}

/// Of which film a recording is a part, and which part.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilmSource {
    /// Where in the film it begins, in microseconds.
    pub position: u64,
    /// When the film was changed last, as its origin says it; empty where it does not.
    pub modified: String,
    /// Until when it may be served without a question to the origin, in microseconds since 1970.
    pub expires: u64,
}

/// Why a recording ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// The recorder was told so, or dropped.
    Finished,
    /// The file system, or a limit of it, is full.
    DiskFull,
    /// The disk could not keep up.
    DiskSlow,
    /// The disk, or file system, failed.
    DiskFailed,
    /// The quota, or the free space, is used up, and nothing can be removed.
    CacheFull,
    /// The process, or machine, ended.
    Interrupted,
    /// No block was free, as other recordings fill them.
    NoMemory,
}

impl End {
    /// All of them; files have their places here as numbers.
    pub const ALL: [End; 7] =
        [End::Finished, End::DiskFull, End::DiskSlow, End::DiskFailed, End::CacheFull, End::Interrupted, End::NoMemory];

    /// Those of recordings that could not go on, though their streams did.
    pub const BROKEN: [End; 5] = [End::DiskFull, End::DiskSlow, End::DiskFailed, End::CacheFull, End::NoMemory];

    /// Its name, as log lines and counters have it.
    pub fn name(self) -> &'static str {
        match self {
            End::Finished => "finished",
            End::DiskFull => "disk_full",
            End::DiskSlow => "disk_slow",
            End::DiskFailed => "disk_failed",
            End::CacheFull => "cache_full",
            End::Interrupted => "interrupted",
            End::NoMemory => "no_memory",
        }
    }

    /// What an error of the system means.
    pub fn of_error(error: &std::io::Error) -> End {
        match error.raw_os_error() {
            Some(libc::ENOSPC | libc::EDQUOT) => End::DiskFull,
            _ => End::DiskFailed,
        }
    }

    /// A number that is not 0.
    pub(crate) fn code(self) -> u8 {
        End::ALL.iter().position(|own| *own == self).map_or(0, |at| at as u8 + 1)
    }

    pub(crate) fn of_code(code: u8) -> Option<End> {
        End::ALL.get(usize::from(code).checked_sub(1)?).copied()
    }
}

/// A recording.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recording {
    /// Its number; later ones are higher.
    pub id: u64,
    /// What was recorded.
    pub source: Source,
    /// When it began, in microseconds since 1970.
    pub began: u64,
    /// Why it ended; none while it is written.
    pub end: Option<End>,
    /// Its segments are not removed.
    pub pinned: bool,
}

/// What is known of a recording without a look at its files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// The recording; that of one that has ended is without its description.
    pub recording: Recording,
    /// What its segments are in all.
    pub sums: Sums,
    /// The first and the last of them; none where nothing is written yet.
    pub ends: Option<(Segment, Segment)>,
}

/// What segments are in all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// Segments.
    pub segments: u64,
    /// Bytes that they take on the disk.
    pub bytes: u64,
    /// Packets in them.
    pub packets: u64,
    /// Packets that are missing.
    pub lost: u64,
    /// Access points.
    pub access_points: u64,
}

impl Sums {
    /// With a segment more.
    pub(crate) fn with(self, own: &Segment) -> Sums {
        Sums {
            segments: self.segments + 1,
            bytes: self.bytes + own.size(),
            packets: self.packets + own.packets,
            lost: self.lost + own.lost,
            access_points: self.access_points + own.access_points,
        }
    }

    /// With a segment less.
    pub(crate) fn without(self, own: &Segment) -> Sums {
        Sums {
            segments: self.segments.saturating_sub(1),
            bytes: self.bytes.saturating_sub(own.size()),
            packets: self.packets.saturating_sub(own.packets),
            lost: self.lost.saturating_sub(own.lost),
            access_points: self.access_points.saturating_sub(own.access_points),
        }
    }
}

impl Summary {
    /// Of a recording with these segments, in order.
    pub(crate) fn of_segments(recording: Recording, segments: &[Segment]) -> Summary {
        let sums = segments.iter().fold(Sums::default(), |sums, own| sums.with(own));
        Summary { recording, sums, ends: segments.first().cloned().zip(segments.last().cloned()) }
    }

    /// How long it is, in microseconds, by a clock that is never set.
    pub fn length(&self) -> u64 {
        self.ends.as_ref().map_or(0, |(first, last)| last.latest_npt.saturating_sub(first.first_npt))
    }

    /// When its first and its latest packet came, in microseconds since 1970, as the wall clock was at the first one.
    pub fn span(&self) -> Option<(u64, u64)> {
        let (first, _) = self.ends.as_ref()?;
        Some((first.first_clock, first.first_clock.saturating_add(self.length())))
    }
}

/// A segment of a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Segment {
    /// The recording.
    pub recording: u64,
    /// Its number in the recording.
    pub number: u32,
    /// Bytes.
    pub bytes: u64,
    /// Bytes of its index.
    pub index_bytes: u64,
    /// Packets.
    pub packets: u64,
    /// Packets that are missing.
    pub lost: u64,
    /// Access points.
    pub access_points: u64,
    /// The first packet's sequence number,
    pub first_sequence: u64,
    /// and the last one's.
    pub last_sequence: u64,
    /// Arrival of the first packet, in microseconds since the recording's start,
    pub first_npt: u64,
    /// and of the latest.
    pub latest_npt: u64,
    /// The same by the wall clock, in microseconds since 1970.
    pub first_clock: u64,
    /// The latest of it.
    pub latest_clock: u64,
    /// The last program clock reference and its time, where the index was made anew: the next segment's goes on.
    #[serde(skip)]
    pub(crate) reference: Option<(u64, u64)>,
}

impl Segment {
    /// What chunks say of their segment.
    pub fn of_chunks<'c>(recording: u64, number: u32, chunks: impl Iterator<Item = &'c Chunk>) -> Segment {
        let mut segment = Segment { recording, number, ..Segment::default() };
        for chunk in chunks {
            if segment.packets == 0 {
                segment.first_sequence = chunk.first.sequence;
                segment.first_npt = chunk.first.npt;
                segment.first_clock = chunk.first.clock;
            }
            segment.bytes = chunk.offset.saturating_add(chunk.length.into());
            segment.packets += u64::from(chunk.count);
            segment.lost += u64::from(chunk.lost);
            segment.access_points += u64::from(chunk.access_points);
            segment.last_sequence = chunk.last_sequence;
            segment.latest_npt = segment.latest_npt.max(chunk.latest_npt);
            segment.latest_clock = segment.latest_clock.max(chunk.latest_clock);
        }
        segment
    }

    /// All that it takes on the disk.
    pub fn size(&self) -> u64 {
        self.bytes + self.index_bytes
    }
}
