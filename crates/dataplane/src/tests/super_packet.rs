//! Super-packets and what becomes of them, made and read by code that shares nothing with the drivers.

/// What the internet checksum of these parts is with its field in it: 0xffff where it is right (RFC 1071).
pub fn total(parts: &[&[u8]]) -> u16 {
    let bytes = parts.concat();
    let words = bytes.chunks(2).map(|pair| u64::from(pair[0]) << 8 | pair.get(1).map_or(0, |low| u64::from(*low)));
    let mut sum: u64 = words.sum();
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    sum as u16
}

/// A packet of TCP or UDP whose checksum its sender has left, and which may be longer than any link takes.
#[derive(Clone, Debug)]
pub struct Super {
    pub is_ipv6: bool,
    pub is_tcp: bool,
    /// Tags in the packet, the outer first.
    pub tags: Vec<u16>,
    /// "Don't fragment".
    pub is_atomic: bool,
    pub identification: u16,
    /// Bytes of IPv4 options, or of a destination options header of IPv6; 8 times a number.
    pub options: usize,
    /// Of TCP; 4 times a number.
    pub tcp_options: usize,
    pub flags: u8,
    pub sequence: u32,
    pub payload: Vec<u8>,
    /// The length in IPv4's header is 4 bytes less.
    pub lies: bool,
}

impl Super {
    pub fn new(is_ipv6: bool, is_tcp: bool, payload: usize) -> Self {
        Super {
            is_ipv6,
            is_tcp,
            tags: Vec::new(),
            is_atomic: true,
            identification: 0xfffe,
            options: 0,
            tcp_options: 12,
            flags: 0x18,
            sequence: 0xffff_f000,
            lies: false,
            payload: (0..payload).map(|at| (at * 7 + at / 251) as u8).collect(),
        }
    }

    /// Where the IP header begins.
    pub fn ip(&self) -> usize {
        14 + 4 * self.tags.len()
    }

    /// Where the header of TCP or UDP begins.
    pub fn transport(&self) -> usize {
        self.ip() + if self.is_ipv6 { 40 } else { 20 } + self.options
    }

    /// Where the payload begins.
    pub fn headers(&self) -> usize {
        self.transport() + if self.is_tcp { 20 + self.tcp_options } else { 8 }
    }

    /// `struct virtio_net_hdr` with segments of so many bytes of payload; none where it is 0. CWR is RFC 3168's.
    pub fn header(&self, size: u16) -> [u8; 10] {
        let place = if self.is_tcp { 16 } else { 6 };
        let kind = match (self.is_tcp, self.is_ipv6) {
            _ if size == 0 => 0,
            (true, false) => 1,
            (true, true) => 4,
            (false, _) => 5,
        };
        let ecn = if kind != 0 && self.is_tcp && self.flags & 0x80 != 0 { 0x80 } else { 0 };
        let mut header = [1, kind | ecn, 0, 0, 0, 0, 0, 0, 0, 0];
        let headers = if size == 0 { 0 } else { self.headers() as u16 };
        for (word, value) in [headers, size, self.transport() as u16, place].into_iter().enumerate() {
            header[2 + 2 * word..4 + 2 * word].copy_from_slice(&value.to_ne_bytes());
        }
        header
    }

    /// Its bytes. In the place of the checksum is the sum of the pseudo header.
    pub fn bytes(&self) -> Vec<u8> {
        let mut packet = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
        self.tags.iter().for_each(|tag| packet.extend([[0x81, 0], tag.to_be_bytes()].concat()));
        let protocol = if self.is_tcp { 6 } else { 17 };
        let length = self.payload.len() + self.headers() - self.transport();
        if self.is_ipv6 {
            packet.extend([0x86, 0xdd, 0x60, 0, 0, 9]);
            packet.extend(((length + self.options) as u16).to_be_bytes());
            packet.extend([if self.options > 0 { 60 } else { protocol }, 64]);
            let address = |last| [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last];
            packet.extend([address(1), address(2)].concat());
            if self.options > 0 {
                // One option that is to be ignored, which pads.
                packet.extend([protocol, (self.options / 8 - 1) as u8, 1, (self.options - 4) as u8]);
                packet.extend(vec![0; self.options - 4]);
            }
        } else {
            let start = packet.len() + 2;
            packet.extend([8, 0, 0x45 + (self.options / 4) as u8, 0x28]);
            let lie = if self.lies { 4 } else { 0 };
            packet.extend(((length + self.options + 20 - lie) as u16).to_be_bytes());
            packet.extend(self.identification.to_be_bytes());
            packet.extend([if self.is_atomic { 0x40 } else { 0 }, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
            // No operation.
            packet.extend(vec![1; self.options]);
            let check = !total(&[&packet[start..]]);
            packet[start + 10..start + 12].copy_from_slice(&check.to_be_bytes());
        }
        let addresses = if self.is_ipv6 { self.ip() + 8..self.ip() + 40 } else { self.ip() + 12..self.ip() + 20 };
        let pseudo = total(&[&packet[addresses], &[0, protocol], &(length as u16).to_be_bytes()]).to_be_bytes();
        packet.extend([0x13, 0x88, 0x17, 0x70]);
        if self.is_tcp {
            packet.extend(self.sequence.to_be_bytes());
            packet.extend([1, 2, 3, 4, (5 + self.tcp_options as u8 / 4) << 4, self.flags, 9, 9]);
            packet.extend([pseudo, [0, 0]].concat());
            packet.extend(vec![1; self.tcp_options]);
        } else {
            packet.extend((length as u16).to_be_bytes());
            packet.extend(pseudo);
        }
        packet.extend(&self.payload);
        packet
    }

    /// Its bytes with the checksum of TCP or UDP, after a change of the header.
    pub fn finished(&self, change: impl FnOnce(&mut [u8])) -> Vec<u8> {
        let mut packet = self.bytes();
        let place = self.transport() + if self.is_tcp { 16 } else { 6 };
        change(&mut packet[self.transport()..]);
        let check = !total(&[&packet[self.transport()..]]);
        packet[place..place + 2].copy_from_slice(&check.to_be_bytes());
        packet
    }

    /// Whether a segment's checksums are right, and its lengths those of its bytes.
    pub fn is_right(&self, segment: &[u8]) -> bool {
        let (ip, transport) = (self.ip(), self.transport());
        let length = (segment.len() - transport) as u16;
        let word = |at: usize| usize::from(u16::from_be_bytes([segment[at], segment[at + 1]]));
        let (addresses, is_ip_right) = match self.is_ipv6 {
            true => (ip + 8..ip + 40, word(ip + 4) == segment.len() - ip - 40),
            false => {
                let is_right =
                    word(ip + 2) == segment.len() - ip && total(&[&segment[ip..ip + 20 + self.options]]) == 0xffff;
                (ip + 12..ip + 20, is_right)
            }
        };
        let protocol = if self.is_tcp { 6 } else { 17 };
        let sum = total(&[&segment[addresses], &[0, protocol], &length.to_be_bytes(), &segment[transport..]]);
        let is_length_right = self.is_tcp || (word(transport + 4) == length.into() && word(transport + 6) != 0);
        is_ip_right && sum == 0xffff && is_length_right
    }
}
