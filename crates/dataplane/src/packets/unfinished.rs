//! What the sender of a packet has left to a device: a checksum, and the division into segments. Kernels tell it by a
//! header in front of the packet (`struct virtio_net_hdr`, linux/virtio_net.h; Virtio 1.3 section 5.1.6).

/// Bytes of the header.
pub const HEADER: usize = 10;
/// `VIRTIO_NET_HDR_F_NEEDS_CSUM`
const NEEDS_CHECKSUM: u8 = 1;
/// `VIRTIO_NET_HDR_GSO_TCPV4` and others of that name; `ECN` or `ACCECN` goes with those of TCP.
const TCP_V4: u8 = 1;
const TCP_V6: u8 = 4;
const UDP_L4: u8 = 5;
const ECN: u8 = 0x80;
const ACCECN: u8 = 0x10;

/// What is left to be done with a packet; the default is nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unfinished {
    /// A checksum whose field has the sum of the pseudo header.
    pub checksum: Option<Checksum>,
    /// It is a super-packet.
    pub cut: Option<Cut>,
}

/// A checksum that is to be computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checksum {
    /// The first byte that it covers, from the beginning of the packet.
    pub start: u16,
    /// Where it is stored, from `start` on.
    pub place: u16,
    /// How many bytes it covers; `None`: all to the packet's end.
    pub len: Option<u16>,
}

/// How a super-packet is to be divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// What it is one of.
    pub kind: Kind,
    /// Bytes of payload of each segment but the last.
    pub size: u16,
    /// Of TCP: its flag CWR is every segment's (accurate ECN, RFC 9768), and not the first one's alone (RFC 3168
    /// section 6.1.2).
    pub keeps_cwr: bool,
}

/// What a super-packet holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// TCP in IPv4.
    TcpV4,
    /// TCP in IPv6.
    TcpV6,
    /// Datagrams of UDP.
    Udp,
    /// What its headers say.
    ByHeaders,
}

/// Why a packet can't be finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The checksum lies, or begins, beyond the packet.
    ChecksumOutside,
    /// Segments without payload.
    NoSegmentSize,
    /// A way of dividing that the header does not describe: IP fragments and what may come.
    UnknownSegmentation,
    /// The headers are not those of what it is said to be, or lengths in them are wrong.
    BadHeaders,
    /// What is to be divided lies in a tunnel.
    Tunnel,
}

impl Refused {
    /// Each reason once, in the order of their numbers.
    pub const ALL: [Refused; 5] = [
        Refused::ChecksumOutside,
        Refused::NoSegmentSize,
        Refused::UnknownSegmentation,
        Refused::BadHeaders,
        Refused::Tunnel,
    ];

    /// Its name, as counters have it.
    pub fn name(self) -> &'static str {
        match self {
            Refused::ChecksumOutside => "checksum_outside",
            Refused::NoSegmentSize => "no_segment_size",
            Refused::UnknownSegmentation => "unknown_segmentation",
            Refused::BadHeaders => "bad_headers",
            Refused::Tunnel => "tunnel",
        }
    }
}

impl Unfinished {
    /// What a kernel says in front of a packet.
    pub fn read(header: &[u8; HEADER]) -> Result<Unfinished, Refused> {
        let [flags, segmentation, ..] = *header;
        let word = |at: usize| u16::from_ne_bytes([header[at], header[at + 1]]);
        let checksum = Checksum { start: word(6), place: word(8), len: None };
        let kind = match segmentation & !(ECN | ACCECN) {
            0 => None,
            TCP_V4 => Some(Kind::TcpV4),
            TCP_V6 => Some(Kind::TcpV6),
            UDP_L4 => Some(Kind::Udp),
            _ => return Err(Refused::UnknownSegmentation),
        };
        // Kernels say so of each sender of RFC 3168. Of accurate ECN some say nothing (Linux 6.18).
        let keeps_cwr = segmentation & ECN == 0 || segmentation & ACCECN != 0;
        Ok(Unfinished {
            checksum: (flags & NEEDS_CHECKSUM != 0).then_some(checksum),
            cut: kind.map(|kind| Cut { kind, size: word(4), keeps_cwr }),
        })
    }

    /// The header that says so to a kernel, of a packet with so many bytes of headers. `marked`: the first segment says
    /// that the sender's congestion window was reduced (CWR), the others don't. Where the kernel is to find out itself
    /// what it is ([`Kind::ByHeaders`]), it is told of no division.
    pub fn header(&self, headers: u16, marked: bool) -> [u8; HEADER] {
        let mut header = [0; HEADER];
        let mut put = |at: usize, value: u16| header[at..at + 2].copy_from_slice(&value.to_ne_bytes());
        if let Some(Checksum { start, place, .. }) = self.checksum {
            put(6, start);
            put(8, place);
        }
        if let Some(cut) = self.cut {
            put(2, headers);
            put(4, cut.size);
            header[1] = match cut.kind {
                Kind::TcpV4 => TCP_V4,
                Kind::TcpV6 => TCP_V6,
                Kind::Udp => UDP_L4,
                Kind::ByHeaders => 0,
            } | if marked { ECN } else { 0 };
        }
        header[0] = if self.checksum.is_some() { NEEDS_CHECKSUM } else { 0 };
        header
    }
}
