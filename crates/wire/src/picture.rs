//! What of pictures RTP packets carry, as far as a proxy has to know: where a decoder can begin, and what it can do
//! without. Nothing is decoded; what can't be read says neither.
//!
//! | file | what |
//! |---|---|
//! | `units` | H.264 (RFC 6184) and H.265 (RFC 7798): the headers of NAL units |
//! | `transport_stream` | MPEG-TS (RFC 2250, ISO/IEC 13818-1): its tables, and the beginnings of pictures |

mod transport_stream;
mod units;

use crate::rtp;

/// How a stream is coded, where its packets tell something of pictures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coding {
    /// H.264.
    H264,
    /// H.265.
    H265,
    /// An MPEG transport stream.
    TransportStream,
}

impl Coding {
    /// That of an encoding's name (`rtpmap`).
    pub fn named(name: &str) -> Option<Coding> {
        let all = [("H264", Coding::H264), ("H265", Coding::H265), ("MP2T", Coding::TransportStream)];
        all.into_iter().find(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, coding)| coding)
    }

    /// Whether a packet carries parts of one picture only, and nothing else.
    pub fn is_one_picture(self) -> bool {
        self != Coding::TransportStream
    }
}

/// What a packet carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// A decoder can begin with the picture that it is of: it has parameters, or a part of a picture that refers to no
    /// other.
    pub access_point: bool,
    /// It carries parts of a picture that no other refers to, and nothing else.
    pub discardable: bool,
    /// The tables of a transport stream begin in it.
    pub tables: bool,
    /// The number of its picture in the stream, or of the last one that begins in it; wraps around.
    pub picture: u32,
}

/// Reads the packets of a stream, in the order in which they come.
#[derive(Clone, Debug)]
pub struct Reader {
    coding: Coding,
    /// The timestamp of the last picture, where that says which one it is.
    timestamp: Option<u32>,
    picture: u32,
    /// The highest temporal sub-layer that has come (H.265).
    highest: u8,
    stream: transport_stream::Stream,
}

impl Reader {
    /// One that has read nothing yet.
    pub fn new(coding: Coding) -> Reader {
        Reader { coding, timestamp: None, picture: 0, highest: 0, stream: transport_stream::Stream::default() }
    }

    /// How the stream is coded.
    pub fn coding(&self) -> Coding {
        self.coding
    }

    /// What an RTP packet carries.
    pub fn read(&mut self, packet: &[u8]) -> Contents {
        match (rtp::Header::read(packet), rtp::payload(packet)) {
            (Some(header), Some(payload)) => self.read_payload(header.timestamp, payload),
            _ => Contents { picture: self.picture, ..Contents::default() },
        }
    }

    /// What the payload of an RTP packet with this timestamp carries, or a datagram of MPEG-TS without RTP.
    pub fn read_payload(&mut self, timestamp: u32, payload: &[u8]) -> Contents {
        let found = match self.coding {
            Coding::H264 => units::h264(payload),
            Coding::H265 => units::h265(payload, &mut self.highest),
            Coding::TransportStream => {
                let (found, begun) = self.stream.read(payload);
                self.picture = self.picture.wrapping_add(begun);
                found
            }
        };
        // All packets of a picture have the same timestamp.
        if self.coding.is_one_picture() && self.timestamp.replace(timestamp) != Some(timestamp) {
            self.picture = self.picture.wrapping_add(1);
        }
        Contents { picture: self.picture, ..found }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// An RTP packet with a payload.
    fn packet(timestamp: u32, payload: &[u8]) -> Vec<u8> {
        let head = [0x80, 96, 0, 1];
        [&head[..], &timestamp.to_be_bytes(), &[0; 4], payload].concat()
    }

    fn said(coding: Coding, payloads: &[&[u8]]) -> Vec<(bool, bool)> {
        let mut reader = Reader::new(coding);
        let each = payloads.iter().map(|own| reader.read(&packet(1, own)));
        each.map(|own| (own.access_point, own.discardable)).collect()
    }

    #[test]
    fn units_of_h264_are_told_apart() {
        for (payload, access_point, discardable) in [
            // Single units: IDR, SPS, a slice that is referred to, one that is not, SEI.
            (&[0x65, 0x88, 0x84][..], true, false),
            (&[0x67, 0x42], true, false),
            (&[0x41, 0x9a], false, false),
            (&[0x01, 0x9e], false, true),
            (&[0x06, 0x05], false, false),
            // Several in one packet (STAP-A): PPS and a slice; SEI and one that is not referred to; SPS.
            (&[0x78, 0, 2, 0x68, 0xce, 0, 2, 0x41, 0x9a], false, false),
            (&[0x18, 0, 1, 0x06, 0, 2, 0x01, 0x9e], false, true),
            (&[0x78, 0, 2, 0x67, 0x42, 0, 2, 0x68, 0xce], true, false),
            // Fragments (FU-A): the first of an IDR, a later one of it, of a slice that is not referred to.
            (&[0x7c, 0x85, 1], true, false),
            (&[0x7c, 0x45, 1], false, false),
            (&[0x1c, 0x81, 1], false, true),
            (&[0x1c, 0x41, 1], false, true),
            // What is cut off, or of no known kind.
            (&[0x7c], false, false),
            (&[0x18, 0, 9, 0x01], false, false),
            (&[0x1a, 0, 0, 0, 1, 0x01], false, false),
            (&[], false, false),
        ] {
            assert_eq!(said(Coding::H264, &[payload]), [(access_point, discardable)], "{payload:02x?}");
        }
    }

    #[test]
    fn units_of_h265_are_told_apart() {
        for (payload, access_point, discardable) in [
            // IDR_W_RADL, CRA, VPS, TRAIL_R, TRAIL_N, RASL_N, AUD.
            (&[0x26, 1, 0xaf][..], true, false),
            (&[0x2a, 1, 0xaf], true, false),
            (&[0x40, 1, 0x0c], true, false),
            (&[0x02, 1, 0xd0], false, false),
            (&[0x00, 1, 0xd0], false, true),
            (&[0x10, 1, 0xd0], false, true),
            (&[0x46, 1, 0x50], false, false),
            // Several (AP): AUD and TRAIL_N; fragments (FU): the first of an IDR, a later one, one of TRAIL_N.
            (&[0x60, 1, 0, 2, 0x46, 1, 0, 3, 0x00, 1, 0xd0], false, true),
            (&[0x62, 1, 0x93, 1], true, false),
            (&[0x62, 1, 0x53, 1], false, false),
            (&[0x62, 1, 0x40, 1], false, true),
            (&[0x62, 1], false, false),
            (&[0x64, 1, 0, 0, 0, 1], false, false),
        ] {
            assert_eq!(said(Coding::H265, &[payload]), [(access_point, discardable)], "{payload:02x?}");
        }
        // Of a lower sub-layer, what the same does not refer to a higher one may.
        let lower_and_higher: [&[u8]; 3] = [&[0x02, 2, 0xd0], &[0x00, 1, 0xd0], &[0x00, 2, 0xd0]];
        assert_eq!(said(Coding::H265, &lower_and_higher), [(false, false), (false, false), (false, true)]);
    }

    #[test]
    fn pictures_have_numbers() {
        let mut reader = Reader::new(Coding::H264);
        let all = [(7, 0x65), (7, 0x65), (9, 0x41), (8, 0x01), (8, 0x01)];
        let numbers: Vec<u32> =
            all.iter().map(|(timestamp, unit)| reader.read(&packet(*timestamp, &[*unit])).picture).collect();
        assert_eq!(numbers, [1, 1, 2, 3, 3]);
    }

    proptest! {
        #[test]
        fn anything_can_come(packets in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..20)) {
            for coding in [Coding::H264, Coding::H265, Coding::TransportStream] {
                let mut reader = Reader::new(coding);
                for own in &packets {
                    let found = reader.read(own);
                    prop_assert!(!(found.access_point && found.discardable));
                    let found = reader.read(&packet(1, own));
                    prop_assert!(!(found.access_point && found.discardable));
                }
            }
        }
    }
}
