//! Frames, built by hand: nothing of Millrace is used, so that it is checked against something else than itself.

/// Type of frames for local experiments (IEEE 802 clause 9.2.3.4): no kernel answers them.
pub const ETH_EXPERIMENT: u16 = 0x88b5;
/// Type of IPv4 frames.
pub const ETH_IPV4: u16 = 0x0800;
/// All hosts.
pub const BROADCAST: [u8; 6] = [0xff; 6];

/// A frame without padding.
pub fn ethernet(dst: [u8; 6], src: [u8; 6], kind: u16, payload: &[u8]) -> Vec<u8> {
    [&dst[..], &src, &kind.to_be_bytes(), payload].concat()
}

/// The Internet checksum (RFC 1071) of data in which the checksum's place is 0; 0 of data with a right checksum.
pub fn checksum(data: &[u8]) -> u16 {
    let word = |pair: &[u8]| u32::from(u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)]));
    let mut sum: u32 = data.chunks(2).map(word).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// An IPv4 packet (RFC 791); the parts that are `None` are made right.
#[derive(Clone, Debug)]
pub struct Ipv4 {
    pub src: [u8; 4],
    pub dst: [u8; 4],
    pub ttl: u8,
    pub protocol: u8,
    pub identification: u16,
    pub version: u8,
    /// Without the end-of-options bytes that fill up the last word.
    pub options: Vec<u8>,
    pub payload: Vec<u8>,
    pub ihl: Option<u8>,
    pub total_length: Option<u16>,
    /// Added to the right checksum.
    pub checksum_error: u16,
}

impl Ipv4 {
    /// An ICMP packet with TTL 64. What it carries has no right ICMP checksum, so its receiver does not answer.
    pub fn new(src: [u8; 4], dst: [u8; 4], payload: &[u8]) -> Ipv4 {
        Ipv4 {
            src,
            dst,
            ttl: 64,
            protocol: 1,
            identification: 1,
            version: 4,
            options: Vec::new(),
            payload: payload.to_vec(),
            ihl: None,
            total_length: None,
            checksum_error: 0,
        }
    }

    /// Its bytes.
    pub fn bytes(&self) -> Vec<u8> {
        let mut options = self.options.clone();
        options.resize(options.len().next_multiple_of(4), 0);
        let header = 20 + options.len();
        let ihl = self.ihl.unwrap_or((header / 4) as u8);
        let total_length = self.total_length.unwrap_or((header + self.payload.len()) as u16);
        let mut bytes = vec![self.version << 4 | ihl, 0];
        bytes.extend(total_length.to_be_bytes());
        bytes.extend(self.identification.to_be_bytes());
        bytes.extend([0, 0, self.ttl, self.protocol, 0, 0]);
        bytes.extend(self.src);
        bytes.extend(self.dst);
        bytes.extend(options);
        let sum = checksum(&bytes).wrapping_add(self.checksum_error);
        bytes[10..12].copy_from_slice(&sum.to_be_bytes());
        bytes.extend(&self.payload);
        bytes
    }

    /// A frame with it.
    pub fn frame(&self, dst: [u8; 6], src: [u8; 6]) -> Vec<u8> {
        ethernet(dst, src, ETH_IPV4, &self.bytes())
    }
}
