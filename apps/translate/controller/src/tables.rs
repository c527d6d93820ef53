//! Entries of the program's tables, and what passes between it and the controller, as it has them
//! (`apps/translate/*.baker`).

use std::net::Ipv6Addr;
use std::time::Duration;

use dataplane::controller::Record;
use wire::flow_key::FlowKey;

use crate::settings::{Delivery, Fill, Policy, Rate, Start};

/// Documents of a connection that may be on their way (`DOCUMENTS`).
pub const DOCUMENTS: u32 = 16;
/// Bytes of requests that a client may send before it gets more credit (`CREDIT`).
pub const CREDIT: u32 = 16384;
/// No stream.
pub const NO_STREAM: u32 = u32::MAX;
/// What a source's packets are: RTP, or transport streams without (`FORM_ANY`); any payload type.
pub const ANY_SOURCE: (u8, u8) = (2, 0xff);

/// What follows behind a document (`NEXT_…`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Next {
    /// More documents, or nothing for now.
    Document = 0,
    /// The live stream.
    Stream = 1,
    /// The end of the connection.
    Close = 2,
}

/// What the program is told about a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// A flow becomes a connection.
    Open {
        /// As its client sends.
        key: FlowKey,
        /// The stream that it may go on with.
        stream: u32,
        /// How that is delivered.
        fill: Fill,
        /// At what rate.
        rate: Rate,
        /// What is left out.
        policy: Policy,
    },
    /// It may go on with a stream; see [`Order::Open`].
    Stream {
        #[allow(missing_docs)]
        stream: u32,
        #[allow(missing_docs)]
        fill: Fill,
        #[allow(missing_docs)]
        rate: Rate,
        #[allow(missing_docs)]
        policy: Policy,
    },
    /// It ends behind what was sent.
    Close,
    /// It is reset.
    Abort,
    /// A flow that is no connection is reset.
    Refuse(FlowKey),
    /// So many bytes more are taken from its client.
    Credit(u32),
    /// A client whose connection nobody knows any more is asked where it is, by a number, and is reset then.
    Probe(FlowKey, u32),
}

impl Order {
    /// As the program reads it (protocol `order`).
    pub fn bytes(&self, connection: u32, generation: u32) -> [u8; 56] {
        let mut out = [0; 56];
        let mut delivered = |fill: &Fill, rate: &Rate, policy: &Policy| {
            out[1] = match fill {
                Fill::Buffered => 0,
                Fill::Empty => 1,
                Fill::Fresh => 2,
            };
            out[2] = match rate {
                Rate::Tfrc => 0,
                Rate::Playout => 1,
                Rate::None => 2,
            };
            out[3] = match policy {
                Policy::Oldest => 0,
                Policy::Newest => 1,
                Policy::Pictures => 2,
            };
        };
        let (kind, key, stream) = match self {
            Order::Open { key, stream, fill, rate, policy } => {
                delivered(fill, rate, policy);
                (1, *key, *stream)
            }
            Order::Close => (2, FlowKey::UNSPECIFIED, 0),
            Order::Abort => (3, FlowKey::UNSPECIFIED, 0),
            Order::Refuse(key) => (4, *key, 0),
            Order::Credit(bytes) => (5, FlowKey::UNSPECIFIED, *bytes),
            Order::Stream { stream, fill, rate, policy } => {
                delivered(fill, rate, policy);
                (6, FlowKey::UNSPECIFIED, *stream)
            }
            Order::Probe(key, number) => (7, *key, *number),
        };
        out[0] = kind;
        out[4..8].copy_from_slice(&connection.to_be_bytes());
        out[8..12].copy_from_slice(&generation.to_be_bytes());
        out[12..16].copy_from_slice(&stream.to_be_bytes());
        out[16..32].copy_from_slice(&key.src.octets());
        out[32..48].copy_from_slice(&key.dst.octets());
        out[48..50].copy_from_slice(&key.src_port.to_be_bytes());
        out[50..52].copy_from_slice(&key.dst_port.to_be_bytes());
        out
    }
}

/// Why a connection has ended, as the program says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// Both sides have closed it.
    Closed,
    /// Its client has reset it.
    Reset,
    /// Its client was not heard of any more.
    TimedOut,
    /// What had to be sent again was not there any more.
    Lost,
    /// As it was told.
    Aborted,
    /// There was no such flow.
    NoFlow,
}

/// What the program says about a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// So many of its documents have come, in all.
    Acked(u32),
    /// Its client sends nothing more.
    HalfClosed,
    /// It is over.
    Ended(Over),
}

/// Reads a notice: connection, generation, what. None where it is none that is known.
pub fn notice(bytes: &[u8]) -> Option<(u32, u32, Notice)> {
    let word = |at: usize| Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let (connection, generation, documents) = (word(4)?, word(8)?, word(12)?);
    let notice = match (bytes[0], bytes[1]) {
        (1, _) => Notice::Acked(documents),
        (2, _) => Notice::HalfClosed,
        (3, reason) => Notice::Ended(match reason {
            1 => Over::Closed,
            2 => Over::Reset,
            3 => Over::TimedOut,
            4 => Over::Lost,
            5 => Over::Aborted,
            6 => Over::NoFlow,
            _ => return None,
        }),
        _ => return None,
    };
    Some((connection, generation, notice))
}

/// How a stream is kept (`settings_t`): reordering, playout and lag in milliseconds, bytes per second; how long ago
/// an access point came at most that viewers begin with, and whether pictures are told apart. Who begins in the past
/// may be so much further behind.
pub fn stream_settings(own: &Delivery) -> (u16, u16, u16, u32, u16, bool) {
    let ms = |time: std::time::Duration| u16::try_from(time.as_millis()).unwrap_or(u16::MAX);
    let rate = own.bandwidth.map_or(0, |bits| u32::try_from(bits / 8).unwrap_or(u32::MAX));
    let start = if own.start == Start::AccessPoint { own.start_within } else { std::time::Duration::ZERO };
    let lag = own.playout * 2 + start;
    (ms(own.reorder), ms(own.playout), ms(lag), rate, ms(start), own.policy == Policy::Pictures)
}

/// The key of a service: an own address and a port (`endpoint_t`).
pub type Endpoint = (Ipv6Addr, u16);

/// Bytes of payload that clients are told to send at most, on Ethernet.
pub fn mss(address: Ipv6Addr) -> u16 {
    if address.to_ipv4_mapped().is_some() { 1460 } else { 1440 }
}

/// What was counted of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamCounts {
    /// Packets.
    pub packets: u64,
    /// Bytes of their payload.
    pub bytes: u64,
    /// Numbers that were left out and have not come late.
    pub lost: u32,
    /// Packets that came twice.
    pub duplicates: u32,
    /// Packets behind others that were sent later.
    pub late: u32,
    /// Jumps of numbers, and other sources.
    pub restarts: u32,
    /// Packets that can't be translated.
    pub refused: u32,
    /// Time of the last packet, in nanoseconds of the monotonic clock.
    pub heard: u64,
    /// The source of the last RTP packet,
    pub ssrc: u32,
    /// and the highest sequence number.
    pub highest: u32,
}

/// What was counted of a connection since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Segments.
    pub packets: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Segments that were sent again,
    pub again: u32,
    /// of them, null packets in their place,
    pub nulls: u32,
    /// and newer packets in their place.
    pub fresh: u32,
    /// Packets of the stream that were left out.
    pub skipped: u32,
    /// The round trip, in microseconds.
    pub srtt_us: u32,
    /// Bytes per second that may be sent.
    pub rate: u32,
    /// Times that nothing was acknowledged in time.
    pub timeouts: u32,
}

impl Totals {
    /// What was counted since then.
    pub fn since(&self, then: &Totals) -> Totals {
        Totals {
            packets: self.packets.saturating_sub(then.packets),
            bytes: self.bytes.saturating_sub(then.bytes),
            again: self.again.saturating_sub(then.again),
            nulls: self.nulls.saturating_sub(then.nulls),
            fresh: self.fresh.saturating_sub(then.fresh),
            skipped: self.skipped.saturating_sub(then.skipped),
            timeouts: self.timeouts.saturating_sub(then.timeouts),
            ..*self
        }
    }
}

/// A connection that another process has left, as the program has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeftConnection {
    /// Its number.
    pub number: u32,
    /// Its generation.
    pub generation: u32,
    /// As its client sends.
    pub key: FlowKey,
    /// The stream that it may go on with.
    pub stream: u32,
    /// Documents that it was given, and those that have come.
    pub documents: u32,
    #[allow(missing_docs)]
    pub delivered: u32,
    /// Whether it ends behind what it has.
    pub ends: bool,
    /// Whether it has come to its stream, or comes to it behind the documents that it has.
    pub plays: bool,
    /// Whether it has nothing of a request, and all answers.
    pub is_idle: bool,
    /// When something came from its client last, by the monotonic clock.
    pub heard: Duration,
    /// Whether all that is under way adds up.
    pub is_sound: bool,
}

impl Default for LeftConnection {
    fn default() -> Self {
        LeftConnection {
            number: 0,
            generation: 0,
            key: FlowKey::UNSPECIFIED,
            stream: NO_STREAM,
            documents: 0,
            delivered: 0,
            ends: false,
            plays: false,
            is_idle: false,
            heard: Duration::ZERO,
            is_sound: false,
        }
    }
}

/// As `stream_t` has them; what it has beside them is the program's own.
impl Record for StreamCounts {
    const FIELDS: usize = 18;

    fn to_fields(&self, fields: &mut [u128]) {
        fields.fill(0);
        (self.packets, self.bytes, self.heard).to_fields(&mut fields[..3]);
        fields[6] = self.ssrc.into();
        (self.lost, self.duplicates, self.late, self.restarts).to_fields(&mut fields[8..12]);
        fields[12] = self.refused.into();
        fields[13] = (self.highest.wrapping_add(1) & 0xffff).into();
    }

    fn from_fields(fields: &[u128]) -> Option<Self> {
        let (packets, bytes, heard) = Record::from_fields(fields.get(..3)?)?;
        let (lost, duplicates, late, restarts) = Record::from_fields(fields.get(8..12)?)?;
        let number = |at: usize| u32::try_from(*fields.get(at)?).ok();
        let (ssrc, refused, expected) = (number(6)?, number(12)?, number(13)? as u16);
        let highest = expected.wrapping_sub(1).into();
        Some(StreamCounts { packets, bytes, lost, duplicates, late, restarts, refused, heard, ssrc, highest })
    }
}

impl Record for Totals {
    const FIELDS: usize = 9;

    fn to_fields(&self, fields: &mut [u128]) {
        (self.packets, self.bytes, self.again, self.nulls).to_fields(&mut fields[..4]);
        (self.fresh, self.skipped, self.srtt_us, self.rate).to_fields(&mut fields[4..8]);
        fields[8] = self.timeouts.into();
    }

    fn from_fields(fields: &[u128]) -> Option<Self> {
        let (packets, bytes, again, nulls) = Record::from_fields(fields.get(..4)?)?;
        let (fresh, skipped, srtt_us, rate) = Record::from_fields(fields.get(4..8)?)?;
        let timeouts = u32::try_from(*fields.get(8)?).ok()?;
        Some(Totals { packets, bytes, again, nulls, fresh, skipped, srtt_us, rate, timeouts })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By the table of the protocol, byte by byte.
    #[test]
    fn orders_lie_as_the_program_reads_them() {
        let key = FlowKey {
            src: "::ffff:10.0.1.11".parse().unwrap(),
            dst: "2001:db8::2".parse().unwrap(),
            src_port: 0x1234,
            dst_port: 80,
        };
        let open = Order::Open { key, stream: 7, fill: Fill::Fresh, rate: Rate::None, policy: Policy::Newest };
        let mut expected = vec![1, 2, 2, 1, 0, 0, 1, 2, 0, 0, 0, 9, 0, 0, 0, 7];
        expected.extend([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 1, 11]);
        expected.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0x12, 0x34, 0, 80, 0, 0, 0, 0]);
        assert_eq!(open.bytes(258, 9), expected[..]);
        assert_eq!(Order::Refuse(key).bytes(0, 0)[..16], [4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        let order = Order::Stream { stream: 258, fill: Fill::Empty, rate: Rate::Tfrc, policy: Policy::Pictures };
        assert_eq!(order.bytes(1, 2)[..16], [6, 1, 0, 2, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 1, 2]);
        assert_eq!(Order::Credit(258).bytes(1, 2)[..16], [5, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 1, 2]);
    }

    #[test]
    fn records_are_what_they_were() {
        let mut fields = vec![0; StreamCounts::FIELDS];
        let counts =
            StreamCounts { packets: 1, heard: 2, ssrc: 3, late: 4, refused: 5, highest: 65535, ..Default::default() };
        counts.to_fields(&mut fields);
        assert_eq!(StreamCounts::from_fields(&fields), Some(counts));
        let mut fields = vec![0; Totals::FIELDS];
        let totals = Totals { packets: 1, nulls: 2, rate: 3, timeouts: 4, ..Totals::default() };
        totals.to_fields(&mut fields);
        assert_eq!(Totals::from_fields(&fields), Some(totals));
    }

    #[test]
    fn notices_are_read() {
        let with = |kind, reason| {
            let mut bytes = [0; 16];
            (bytes[0], bytes[1], bytes[7], bytes[11], bytes[14], bytes[15]) = (kind, reason, 5, 6, 1, 2);
            notice(&bytes)
        };
        assert_eq!(with(1, 0), Some((5, 6, Notice::Acked(258))));
        assert_eq!(with(2, 0), Some((5, 6, Notice::HalfClosed)));
        assert_eq!(with(3, 3), Some((5, 6, Notice::Ended(Over::TimedOut))));
        assert_eq!((with(3, 9), with(9, 0), notice(&[3, 1, 0])), (None, None, None));
    }
}
