//! The packet log: a header, then records. A record has a checksum of its own, so the log is read without its index,
//! too.

use super::codec::Input;

/// Bytes of the header in front.
pub const HEADER: usize = 16;
/// Bytes in front of a record's packet.
pub const RECORD: usize = 20;
/// With which a log begins; the last byte is the version.
const MAGIC: [u8; 8] = *b"MRRTPLG\x01";
/// With which a record begins.
const MARK: u16 = u16::from_le_bytes(*b"RP");

/// A record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'b> {
    /// When the packet came, in microseconds since the recording's start.
    pub npt: u64,
    /// The packet.
    pub packet: &'b [u8],
    /// Bits 16 to 31 of the sequence number that does not wrap around.
    pub cycle: u16,
    /// Bytes of the record.
    pub length: usize,
}

/// The header of a recording's log.
pub fn header(recording: u64) -> [u8; HEADER] {
    let mut bytes = [0; HEADER];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..].copy_from_slice(&recording.to_le_bytes());
    bytes
}

/// Whether a log begins here.
pub fn is_log(bytes: &[u8]) -> bool {
    bytes.starts_with(&MAGIC) && bytes.len() >= HEADER
}

/// What stands in front of a packet, which is not longer than 65535 bytes.
pub fn record(npt: u64, cycle: u16, packet: &[u8]) -> [u8; RECORD] {
    let mut bytes = [0; RECORD];
    bytes[..2].copy_from_slice(&MARK.to_le_bytes());
    bytes[2..4].copy_from_slice(&(packet.len() as u16).to_le_bytes());
    bytes[4..12].copy_from_slice(&npt.to_le_bytes());
    bytes[12..14].copy_from_slice(&cycle.to_le_bytes());
    let checksum = checksum(&bytes[..16], packet);
    bytes[16..].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

fn checksum(head: &[u8], packet: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(head);
    hasher.update(packet);
    hasher.finalize()
}

/// The record that begins here, if it is whole.
pub fn read(bytes: &[u8]) -> Option<Record<'_>> {
    let head = bytes.first_chunk::<RECORD>()?;
    let mut input = Input(head);
    if input.half()? != MARK {
        return None;
    }
    let (length, npt, cycle) = (input.half()?, input.long()?, input.half()?);
    let _reserved = input.half()?;
    let packet = bytes[RECORD..].get(..usize::from(length))?;
    let own = checksum(&head[..16], packet) == input.word()?;
    own.then_some(Record { npt, packet, cycle, length: RECORD + packet.len() })
}
