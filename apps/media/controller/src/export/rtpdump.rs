//! `rtpdump -F dump` of rtptools: a line of text, a header, and each packet behind its length and time.

use std::io::{self, Write};

use media_cache::{Packet, Recording};

use super::rtp;

/// In front of each packet.
const RECORD: usize = 8;

/// A file that is being written.
pub struct Dump<W: Write> {
    recording: Recording,
    out: W,
    packet: Vec<u8>,
    /// Of the first packet that is written, in microseconds.
    first: Option<u64>,
}

impl<W: Write> Dump<W> {
    pub fn new(recording: &Recording, mut out: W) -> io::Result<Dump<W>> {
        // Address and port of the source, which are not recorded.
        out.write_all(b"#!rtpplay1.0 192.0.2.1/5004\n")?;
        let (seconds, microseconds) = (recording.began / 1_000_000, recording.began % 1_000_000);
        for own in [seconds as u32, microseconds as u32, u32::from_be_bytes([192, 0, 2, 1])] {
            out.write_all(&own.to_be_bytes())?;
        }
        out.write_all(&[5004u16.to_be_bytes(), [0; 2]].concat())?;
        Ok(Dump { recording: recording.clone(), out, packet: Vec::new(), first: None })
    }

    pub fn put(&mut self, packet: Packet<'_>, npt: u64) -> io::Result<()> {
        let since = npt.saturating_sub(*self.first.get_or_insert(npt)) / 1000;
        self.packet.clear();
        self.packet.resize(RECORD, 0);
        rtp::append(&self.recording, packet, &mut self.packet);
        let Ok(length) = u16::try_from(self.packet.len()) else {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a packet is longer than rtpdump has room for"));
        };
        self.packet[..2].copy_from_slice(&length.to_be_bytes());
        self.packet[2..4].copy_from_slice(&(length - RECORD as u16).to_be_bytes());
        self.packet[4..8].copy_from_slice(&(since as u32).to_be_bytes());
        self.out.write_all(&self.packet)
    }
}
