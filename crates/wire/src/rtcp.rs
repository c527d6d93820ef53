//! RTCP (RFC 3550 section 6): what a proxy reads of senders and receivers, and the compound packets that it sends.

use rtcp_types::prelude::*;
use rtcp_types::{
    Bye, Compound, Packet, ReceiverReport, ReportBlock, Sdes, SdesChunk, SdesItem, SenderReport as Sender,
};

use crate::rtp::Rewrite;

/// What a sender says of its stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SenderReport {
    /// The stream's source.
    pub ssrc: u32,
    /// When it was sent, as NTP has it.
    pub ntp: u64,
    /// The same time as the stream's timestamps have it.
    pub rtp: u32,
    /// Packets that were sent.
    pub packets: u32,
    /// Bytes of their payload.
    pub octets: u32,
}

/// What a receiver says of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// The stream's source.
    pub ssrc: u32,
    /// Lost since the last report, in parts of 256.
    pub fraction_lost: u8,
    /// Lost since the beginning; negative where packets came twice.
    pub lost: i32,
    /// The highest sequence number, with how often they began anew in the upper half.
    pub highest: u32,
    /// The jitter, in units of timestamps.
    pub jitter: u32,
    /// The middle 32 bits of the NTP time of the last sender report; 0: none has come.
    pub last_sender_report: u32,
    /// The time since, in parts of 65536 of a second.
    pub delay: u32,
}

/// What came in one datagram.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// Sender reports.
    pub senders: Vec<SenderReport>,
    /// Reports about streams.
    pub reports: Vec<Report>,
    /// The canonical name that is said first.
    pub cname: Option<String>,
    /// Sources that have ended.
    pub ended: Vec<u32>,
    /// Why they have, as far as that is said.
    pub reason: Option<String>,
}

/// Reads a datagram. What is not known, and what is behind a mistake, is passed over; none where nothing can be read.
pub fn parse(datagram: &[u8]) -> Option<Received> {
    let mut found = Received::default();
    let mut any = false;
    for packet in Compound::parse(datagram).ok()? {
        let Ok(packet) = packet else { break };
        any = true;
        match packet {
            Packet::Sr(own) => {
                found.senders.push(SenderReport {
                    ssrc: own.ssrc(),
                    ntp: own.ntp_timestamp(),
                    rtp: own.rtp_timestamp(),
                    packets: own.packet_count(),
                    octets: own.octet_count(),
                });
                found.reports.extend(own.report_blocks().map(report));
            }
            Packet::Rr(own) => found.reports.extend(own.report_blocks().map(report)),
            Packet::Sdes(own) => {
                let names = own.chunks().flat_map(SdesChunk::items).filter(|item| item.type_() == SdesItem::CNAME);
                let name = names.map(|item| String::from_utf8_lossy(item.value()).into_owned()).next();
                found.cname = found.cname.or(name);
            }
            Packet::Bye(own) => {
                found.ended.extend(own.ssrcs());
                let reason = own.reason().map(|text| String::from_utf8_lossy(text).into_owned());
                found.reason = found.reason.or(reason);
            }
            _ => {}
        }
    }
    any.then_some(found)
}

fn report(block: ReportBlock) -> Report {
    Report {
        ssrc: block.ssrc(),
        fraction_lost: block.fraction_lost(),
        // 24 bits, signed.
        lost: (block.cumulative_lost() << 8) as i32 >> 8,
        highest: block.extended_sequence_number(),
        jitter: block.interarrival_jitter(),
        last_sender_report: block.last_sender_report_timestamp(),
        delay: block.delay_since_last_sender_report_timestamp(),
    }
}

impl SenderReport {
    /// As a receiver gets it whose packets are rewritten so.
    pub fn rewritten(&self, by: &Rewrite) -> SenderReport {
        SenderReport { ssrc: by.ssrc, rtp: self.rtp.wrapping_add(by.timestamp), ..*self }
    }

    /// As a datagram, with the sender's canonical name; with an end of the stream where `ends` says so.
    pub fn to_bytes(&self, cname: &str, ends: bool) -> Vec<u8> {
        let own = Sender::builder(self.ssrc)
            .ntp_timestamp(self.ntp)
            .rtp_timestamp(self.rtp)
            .packet_count(self.packets)
            .octet_count(self.octets);
        let compound = Compound::builder().add_packet(own).add_packet(description(self.ssrc, cname));
        written(if ends { compound.add_packet(Bye::builder().add_source(self.ssrc)) } else { compound })
    }
}

/// A receiver's report as a datagram, with its canonical name; without a block where nothing has been received.
pub fn receiver_report(ssrc: u32, cname: &str, report: Option<&Report>) -> Vec<u8> {
    let own = ReceiverReport::builder(ssrc);
    let own = match report {
        Some(report) => own.add_report_block(
            ReportBlock::builder(report.ssrc)
                .fraction_lost(report.fraction_lost)
                .cumulative_lost(report.lost.clamp(-(1 << 23), (1 << 23) - 1) as u32 & 0xff_ffff)
                .extended_sequence_number(report.highest)
                .interarrival_jitter(report.jitter)
                .last_sender_report_timestamp(report.last_sender_report)
                .delay_since_last_sender_report_timestamp(report.delay),
        ),
        None => own,
    };
    written(Compound::builder().add_packet(own).add_packet(description(ssrc, cname)))
}

/// The end of a source as a datagram: an empty receiver report, its name, and BYE (RFC 3550 section 6.1) with the
/// reason for leaving, of 255 bytes at most, where there is one (section 6.6).
pub fn bye(ssrc: u32, cname: &str, reason: &str) -> Vec<u8> {
    let own = Compound::builder().add_packet(ReceiverReport::builder(ssrc)).add_packet(description(ssrc, cname));
    written(own.add_packet(Bye::builder().add_source(ssrc).reason(reason)))
}

fn description(ssrc: u32, cname: &str) -> rtcp_types::SdesBuilder<'_> {
    // 255 bytes at most.
    let end = cname.floor_char_boundary(cname.len().min(255));
    let name = SdesItem::builder(SdesItem::CNAME, &cname[..end]);
    Sdes::builder().add_chunk(SdesChunk::builder(ssrc).add_item(name))
}

/// Nothing where it can't be written, which does not happen: all parts have the lengths that they may have.
fn written(compound: rtcp_types::CompoundBuilder) -> Vec<u8> {
    let mut bytes = vec![0; compound.calculate_size().unwrap_or(0)];
    if compound.write_into(&mut bytes).is_err() {
        bytes.clear();
    }
    bytes
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    // Written by hand after RFC 3550 section 6.4: a sender report of source 1 with a block about source 2, a canonical
    // name, an end.
    const DATAGRAM: [u8; 84] = [
        0x81, 200, 0, 12, 0, 0, 0, 1, 0xda, 0xb5, 0, 0, 0x80, 0, 0, 0, 0, 0, 0x10, 0, 0, 0, 0, 9, 0, 0, 1,
        0, // sender
        0, 0, 0, 2, 64, 0xff, 0xff, 0xfe, 0, 1, 0, 7, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0, // block
        0x81, 202, 0, 3, 0, 0, 0, 1, 1, 3, b'a', b'@', b'b', 0, 0, 0, // name
        0x81, 203, 0, 1, 0, 0, 0, 1, 0x80, 201, 0, 1, // end, and an empty receiver report
        0, 0, 0, 8,
    ];

    #[test]
    fn datagrams_are_read() {
        let found = parse(&DATAGRAM).unwrap();
        assert_eq!(
            found.senders,
            [SenderReport { ssrc: 1, ntp: 0xdab5_0000_8000_0000, rtp: 0x1000, packets: 9, octets: 256 }]
        );
        assert_eq!((found.reports.len(), found.cname.as_deref(), &found.ended[..]), (1, Some("a@b"), &[1][..]));
        let report = found.reports[0];
        assert_eq!(
            (report.ssrc, report.fraction_lost, report.lost, report.highest, report.jitter),
            (2, 64, -2, 0x10007, 5)
        );
    }

    #[test]
    fn datagrams_are_written() {
        let own = SenderReport { ssrc: 1, ntp: 2, rtp: u32::MAX, packets: 3, octets: 4 };
        let other = own.rewritten(&Rewrite { ssrc: 9, sequence: 5, timestamp: 2 });
        assert_eq!(other, SenderReport { ssrc: 9, rtp: 1, ..own });
        let found = parse(&other.to_bytes("x", true)).unwrap();
        assert_eq!((&found.senders[..], found.cname.as_deref(), &found.ended[..]), (&[other][..], Some("x"), &[9][..]));
        let report =
            Report { ssrc: 1, fraction_lost: 3, lost: -4, highest: 5, jitter: 6, last_sender_report: 7, delay: 8 };
        assert_eq!(parse(&receiver_report(2, "y", Some(&report))).unwrap().reports, [report]);
        assert_eq!(parse(&receiver_report(2, "y", None)).unwrap().cname.as_deref(), Some("y"));
        let found = parse(&bye(2, &"é".repeat(200), "gone")).unwrap();
        assert_eq!((&found.ended[..], found.reason.as_deref()), (&[2][..], Some("gone")));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(
            mut bytes in prop::collection::vec(any::<u8>(), 0..120), at in any::<prop::sample::Index>(), value in any::<u8>(),
        ) {
            parse(&bytes);
            bytes = DATAGRAM.to_vec();
            let at = at.index(bytes.len());
            bytes[at] = value;
            parse(&bytes);
        }
    }
}
