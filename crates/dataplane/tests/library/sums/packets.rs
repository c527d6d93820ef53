//! Packets of all kinds of headers, with checksums that are right or wrong by some number.

use crate::keeping::SplitMix64;

/// The kinds of headers of a packet.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub vlan: bool,
    pub labels: usize,
    /// IP headers, the outermost first.
    pub ips: &'static [u8],
    pub upper: &'static str,
    /// Bytes of options of the innermost IPv4 header, or of a header of destination options behind IPv6.
    pub options: usize,
    /// Of UDP: without a checksum.
    pub bare: bool,
}

impl Shape {
    pub fn random(n: &mut SplitMix64) -> Shape {
        let ips: &[u8] = n.pick(&[&[4][..], &[4], &[6], &[6], &[4, 4], &[4, 6], &[6, 4]]);
        let inner = ips[ips.len() - 1];
        let upper = n.pick(&["tcp", "udp", if inner == 4 { "icmp" } else { "icmpv6" }]);
        let vlan = n.below(4) == 0;
        let labels = if vlan { 0 } else { n.pick(&[0, 0, 0, 1, 2]) };
        Shape { vlan, labels, ips, upper, options: n.pick(&[0, 0, 8]), bare: n.below(5) == 0 }
    }

    /// Bytes in front of an IP header.
    pub fn ip_at(&self, index: usize) -> usize {
        let front: usize = 14 + if self.vlan { 4 } else { 0 } + self.labels * 4;
        front + self.ips[..index].iter().map(|version| if *version == 4 { 20 } else { 40 }).sum::<usize>()
    }

    pub fn upper_at(&self) -> usize {
        let last = self.ips.len() - 1;
        self.ip_at(last) + if self.ips[last] == 4 { 20 } else { 40 } + self.options
    }

    pub fn header(&self) -> usize {
        if self.upper == "tcp" { 20 } else { 8 }
    }
}

pub fn put16(packet: &mut [u8], at: usize, value: usize) {
    packet[at..at + 2].copy_from_slice(&(value as u16).to_be_bytes());
}

/// A packet with `payload` bytes behind the innermost header and some of padding behind that.
pub fn packet(shape: &Shape, n: &mut SplitMix64) -> Vec<u8> {
    let upper_at = shape.upper_at();
    let payload = 24 + n.below(40) as usize;
    let end = upper_at + shape.header() + payload;
    let padding = n.pick(&[0, 0, 1, 2, 7, 18]) as usize;
    let mut packet: Vec<u8> = (0..end + padding).map(|_| n.bits(8) as u8).collect();
    let number = |upper: &str| match upper {
        "tcp" => 6,
        "udp" => 17,
        "icmp" => 1,
        _ => 58,
    };
    let kind = |version: u8| if version == 4 { 0x0800 } else { 0x86dd };
    let first = kind(shape.ips[0]);
    put16(
        &mut packet,
        12,
        if shape.vlan {
            0x8100
        } else if shape.labels > 0 {
            0x8847
        } else {
            first
        },
    );
    if shape.vlan {
        put16(&mut packet, 16, first);
    }
    for label in 0..shape.labels {
        let bottom = u8::from(label + 1 == shape.labels);
        let byte = &mut packet[14 + label * 4 + 2];
        *byte = *byte & !1 | bottom;
    }
    for (index, &version) in shape.ips.iter().enumerate() {
        let at = shape.ip_at(index);
        let last = index + 1 == shape.ips.len();
        let next = match shape.ips.get(index + 1) {
            Some(4) => 4,
            Some(_) => 41,
            None => number(shape.upper),
        };
        let options = if last { shape.options } else { 0 };
        if version == 4 {
            packet[at] = 0x40 | (5 + options / 4) as u8;
            put16(&mut packet, at + 2, end - at);
            packet[at + 9] = next;
        } else {
            packet[at] = 0x60;
            put16(&mut packet, at + 4, end - at - 40);
            packet[at + 6] = if options > 0 { 60 } else { next };
            if options > 0 {
                (packet[at + 40], packet[at + 41]) = (next, 0);
            }
        }
    }
    match shape.upper {
        "udp" => put16(&mut packet, upper_at + 4, end - upper_at),
        "tcp" => packet[upper_at + 12] = 0x50,
        _ => {}
    }
    set_checksums(&mut packet, shape, n);
    packet
}

/// Writes checksums that are right, or in one packet of three wrong by some number.
fn set_checksums(packet: &mut [u8], shape: &Shape, n: &mut SplitMix64) {
    let mut fields: Vec<usize> = Vec::new();
    for (index, &version) in shape.ips.iter().enumerate() {
        if version == 4 {
            fields.push(shape.ip_at(index) + 10);
        }
    }
    let field = shape.upper_at()
        + match shape.upper {
            "tcp" => 16,
            "udp" => 6,
            _ => 2,
        };
    fields.push(field);
    let wrong = n.below(3) == 0;
    for (index, &at) in fields.iter().enumerate() {
        // So that it counts as a checksum.
        put16(packet, at, 1);
        let error = super::oracle::checksums(packet)[index].error.expect("there is one");
        // What is to be added for the sum to be 0.
        let right = (1 + 0xffff - error) % 0xffff;
        let off = if wrong { n.below(0xffff) } else { 0 };
        let value = (right + off) % 0xffff;
        put16(packet, at, if value == 0 { 0xffff } else { value as usize });
    }
    if shape.upper == "udp" && shape.bare {
        put16(packet, field, 0);
    }
}
