//! Captures: each packet as RTP in UDP (RFC 768) in IPv4 (RFC 791), by addresses for documentation (RFC 5737), since
//! those of the stream are not recorded. Times are those of arrival, to a microsecond.

use std::io::{self, Write};
use std::time::Duration;

use media_cache::{Packet, Recording};
use pcap_file::pcap::{PcapHeader, PcapPacket, PcapWriter};
use pcap_file::{DataLink, PcapError};
use wire::checksum::checksum;

use super::rtp;

/// Bytes of both headers.
const IP: usize = 20;
const UDP: usize = 8;
/// From where to where.
const ADDRESSES: [[u8; 4]; 2] = [[192, 0, 2, 1], [192, 0, 2, 2]];
/// The port of the first track; each has two.
const PORT: u16 = 5004;
const IP_PROTOCOL_UDP: u8 = 17;
/// Bytes of a packet at most: as libpcap has it.
const SNAPLEN: u32 = 262_144;

/// A capture that is being written.
pub struct Capture<W: Write> {
    recording: Recording,
    writer: PcapWriter<W>,
    packet: Vec<u8>,
    port: u16,
    /// When the first packet came, in microseconds since 1970.
    began: Option<u64>,
}

impl<W: Write> Capture<W> {
    pub fn new(recording: &Recording, out: W) -> io::Result<Capture<W>> {
        let header = PcapHeader { snaplen: SNAPLEN, datalink: DataLink::RAW, ..PcapHeader::default() };
        let writer = PcapWriter::with_header(out, header).map_err(of_pcap)?;
        let port = PORT.wrapping_add(2 * recording.source.track);
        Ok(Capture { recording: recording.clone(), writer, packet: Vec::new(), port, began: None })
    }

    pub fn put(&mut self, packet: Packet<'_>, npt: u64) -> io::Result<()> {
        let began = *self.began.get_or_insert(packet.about.clock.saturating_sub(npt));
        self.packet.clear();
        self.packet.resize(IP + UDP, 0);
        rtp::append(&self.recording, packet, &mut self.packet);
        let Ok(length) = u16::try_from(self.packet.len()) else {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a packet is longer than IPv4 has room for"));
        };
        headers(&mut self.packet, length, self.port);
        // Packets are in the order of their sequence numbers, so a time may be less than the one before.
        let time = Duration::from_micros(began.saturating_add(npt));
        let packet = PcapPacket::new(time, u32::from(length), &self.packet);
        self.writer.write_packet(&packet).map(drop).map_err(of_pcap)
    }
}

/// The headers in front of a datagram.
fn headers(packet: &mut [u8], length: u16, port: u16) {
    packet[0] = 0x45;
    packet[2..4].copy_from_slice(&length.to_be_bytes());
    packet[6] = 0x40;
    packet[8..10].copy_from_slice(&[64, IP_PROTOCOL_UDP]);
    packet[12..16].copy_from_slice(&ADDRESSES[0]);
    packet[16..20].copy_from_slice(&ADDRESSES[1]);
    let sum = checksum(&packet[..IP], 0);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    let bytes = length - IP as u16;
    for (at, value) in [(IP, port), (IP + 2, port), (IP + 4, bytes)] {
        packet[at..at + 2].copy_from_slice(&value.to_be_bytes());
    }
    // The pseudo header: addresses, protocol, length.
    let words = packet[12..20].chunks(2).map(|own| u32::from(u16::from_be_bytes([own[0], own[1]])));
    let pseudo = words.sum::<u32>() + u32::from(IP_PROTOCOL_UDP) + u32::from(bytes);
    let sum = checksum(&packet[IP..], pseudo);
    // 0 would say that there is none.
    packet[IP + 6..IP + 8].copy_from_slice(&if sum == 0 { 0xffff } else { sum }.to_be_bytes());
}

fn of_pcap(error: PcapError) -> io::Error {
    match error {
        PcapError::IoError(error) => error,
        other => io::Error::other(other),
    }
}
