//! A recorded packet as RTP (RFC 3550 section 5.1). Of MPEG-TS only the payload was kept, with sequence number,
//! timestamp and marker: there the header is made anew, with the recording's number as the source.

use media_cache::{Kind, Packet, Recording};

/// Bytes of a header without contributing sources and extension.
const HEADER: usize = 12;
/// MPEG-TS (RFC 3551 section 6).
const MP2T: u8 = 33;

/// Appends the packet.
pub fn append(recording: &Recording, packet: Packet<'_>, to: &mut Vec<u8>) {
    let Packet { about, bytes } = packet;
    if recording.source.kind != Kind::Rtp {
        to.reserve(HEADER + bytes.len());
        to.extend([2 << 6, MP2T | u8::from(about.marker) << 7]);
        to.extend((about.sequence as u16).to_be_bytes());
        to.extend(timestamp(recording.source.kind, packet).to_be_bytes());
        to.extend((recording.id as u32).to_be_bytes());
    }
    to.extend(bytes);
}

/// Datagrams without RTP have none: there it is the time of arrival, by a clock of 90 kHz (RFC 2250 section 2).
fn timestamp(kind: Kind, packet: Packet<'_>) -> u32 {
    match kind {
        Kind::Ts => (packet.about.npt * 9 / 100) as u32,
        Kind::Mp2t | Kind::Rtp => packet.about.timestamp,
    }
}
