//! Recordings as files of other programs.
//!
//! | file | what |
//! |---|---|
//! | `rtp` | a recorded packet as RTP |
//! | `pcap` | captures: RTP in UDP in IPv4 |
//! | `rtpdump` | what rtptools read |

mod pcap;
mod rtp;
mod rtpdump;

use std::io::{self, BufWriter, Write};

use media_cache::{Archive, Met, Missing, Packet, Recording, Stopped};
use serde::Serialize;

/// What files there are. MP4 is made of MPEG-TS, by ffmpeg.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// MPEG-TS, as it was recorded
    Ts,
    /// MP4, made by ffmpeg of MPEG-TS
    Mp4,
    /// A capture of RTP with the times of arrival, for tcpdump and Wireshark
    Pcap,
    /// RTP with the times of arrival, for rtpplay and others (rtptools)
    Rtpdump,
}

impl Format {
    /// Whether packets must be MPEG-TS.
    pub fn wants_ts(self) -> bool {
        matches!(self, Format::Ts | Format::Mp4)
    }
}

/// A part of a recording, in microseconds since its first packet.
#[derive(Clone, Copy, Debug)]
pub struct Range {
    /// What comes before is left out.
    pub from: u64,
    /// So is what comes from here on.
    pub to: Option<u64>,
}

/// What was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Written {
    /// Packets.
    pub packets: u64,
    /// Bytes of them, without what the file adds.
    pub bytes: u64,
    /// Places where packets are missing,
    pub gaps: u64,
    /// and how many, as far as that is known.
    pub missing: u64,
    /// Of these, such whose bytes on the disk are damaged, or were removed.
    pub damaged: u64,
}

/// Writes a recording, or a part of it. `Mp4` is written as `Ts`.
///
/// # Errors
///
/// It can't be read, or written.
pub fn write(
    archive: &Archive,
    recording: &Recording,
    format: Format,
    range: Range,
    out: &mut dyn Write,
) -> Result<Written, Stopped<io::Error>> {
    let mut out = BufWriter::with_capacity(1 << 18, out);
    let mut written = Written::default();
    let mut sink = Sink::new(format, recording, &mut out).map_err(Stopped::Told)?;
    let mut first = None;
    let mut waiting = Vec::new();
    archive.walk(recording, |met| match met {
        Met::Gap(missing, count) => {
            // It counts when something follows it that is written.
            waiting.push((missing, count.unwrap_or(0)));
            Ok(())
        }
        Met::Packet(packet) => {
            let npt = packet.about.npt.saturating_sub(*first.get_or_insert(packet.about.npt));
            let gaps = std::mem::take(&mut waiting);
            if npt < range.from || range.to.is_some_and(|to| npt >= to) {
                return Ok(());
            }
            for (missing, count) in gaps.into_iter().filter(|_| written.packets > 0) {
                written.gaps += 1;
                written.missing += count;
                written.damaged += if matches!(missing, Missing::Damaged | Missing::Removed) { count } else { 0 };
            }
            written.packets += 1;
            written.bytes += packet.bytes.len() as u64;
            sink.put(packet, npt)
        }
    })?;
    drop(sink);
    out.flush().map_err(Stopped::Told)?;
    Ok(written)
}

/// Where packets go.
enum Sink<W: Write> {
    Ts(W),
    Pcap(pcap::Capture<W>),
    Rtpdump(rtpdump::Dump<W>),
}

impl<W: Write> Sink<W> {
    fn new(format: Format, recording: &Recording, out: W) -> io::Result<Sink<W>> {
        Ok(match format {
            Format::Ts | Format::Mp4 => Sink::Ts(out),
            Format::Pcap => Sink::Pcap(pcap::Capture::new(recording, out)?),
            Format::Rtpdump => Sink::Rtpdump(rtpdump::Dump::new(recording, out)?),
        })
    }

    /// `npt`: microseconds since the recording's first packet.
    fn put(&mut self, packet: Packet<'_>, npt: u64) -> io::Result<()> {
        match self {
            Sink::Ts(out) => out.write_all(packet.bytes),
            Sink::Pcap(own) => own.put(packet, npt),
            Sink::Rtpdump(own) => own.put(packet, npt),
        }
    }
}
