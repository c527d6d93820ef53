//! Checksums that were right stay right, whatever a program writes: random statements, and a full sum at the end.

use baker::ir::Program;
use dataplane::EngineKind;
use dataplane::step::Stepper;
use std::sync::Arc;

/// splitmix64 (Steele, Lea, Flood, 2014).
pub struct SplitMix64(pub u64);

impl SplitMix64 {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }

    /// Mostly an extreme number: those find mistakes with carries and zeros.
    pub fn bits(&mut self, width: u32) -> u64 {
        let mask = u64::MAX >> (64 - width);
        match self.below(4) {
            0 => 0,
            1 => mask,
            2 => self.below(3) & mask,
            _ => self.next() & mask,
        }
    }
}

/// Internet checksum (RFC 1071) of some bytes, plainly: right where it is 0.
fn checksum(parts: &[&[u8]]) -> u16 {
    let mut sum = 0u64;
    for part in parts {
        for pair in part.chunks(2) {
            sum += u64::from(pair[0]) << 8 | pair.get(1).map_or(0, |&b| u64::from(b));
        }
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

const HEADER: usize = 14;

/// Writes the checksums of an Ethernet, IPv4, TCP or UDP or ICMP packet.
fn fill(packet: &mut [u8]) {
    let (ip, rest) = packet[HEADER..].split_at_mut(24);
    let sum = checksum(&[ip]);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    let at = match ip[9] {
        6 => 16,
        17 => 6,
        _ => 2,
    };
    let sum = upper_sum(ip, rest);
    let sum = if sum == 0 && ip[9] == 17 { 0xffff } else { sum };
    rest[at..at + 2].copy_from_slice(&sum.to_be_bytes());
}

fn upper_sum(ip: &[u8], rest: &[u8]) -> u16 {
    if ip[9] == 1 {
        return checksum(&[rest]);
    }
    let length = (rest.len() as u16).to_be_bytes();
    checksum(&[&ip[12..20], &[0, ip[9]], &length, rest])
}

/// What is wrong with the checksums of a packet.
fn wrong(packet: &[u8]) -> Option<&'static str> {
    let (ip, rest) = packet[HEADER..].split_at(24);
    match (checksum(&[ip]), upper_sum(ip, rest)) {
        (0, 0) => (ip[9] == 17 && rest[6..8] == [0, 0]).then_some("UDP checksum of 0"),
        (0, _) => Some("checksum behind the IPv4 header"),
        _ => Some("IPv4 checksum"),
    }
}

/// A protocol behind IPv4.
#[derive(Clone, Copy)]
struct Upper {
    name: &'static str,
    number: u8,
    /// Fields with their widths, and bytes of the fixed header.
    fields: &'static [(&'static str, u32)],
    bytes: u64,
    /// Bytes of the header that a store may not change: they say how long it is, or that there is no checksum.
    kept: &'static [u64],
}

const UPPER: [Upper; 3] = [
    Upper {
        name: "tcp",
        number: 6,
        fields: &[("src_port", 16), ("dst_port", 16), ("seq", 32), ("ack_seq", 32), ("flags", 8), ("window", 16)],
        bytes: 20,
        kept: &[12],
    },
    Upper { name: "udp", number: 17, fields: &[("src_port", 16), ("dst_port", 16)], bytes: 8, kept: &[4, 5, 6, 7] },
    Upper { name: "icmp", number: 1, fields: &[("type", 8), ("code", 8), ("rest", 32)], bytes: 8, kept: &[] },
];

const IP_FIELDS: [(&str, u32); 8] = [
    ("src", 32),
    ("dst", 32),
    ("ttl", 8),
    ("identification", 16),
    ("dscp", 6),
    ("ecn", 2),
    ("flags", 3),
    ("fragment_offset", 13),
];

struct Writer {
    n: SplitMix64,
    upper: Upper,
    names: usize,
    out: String,
}

impl Writer {
    fn field(&mut self, handle: &str, fields: &[(&'static str, u32)]) {
        let (field, width) = self.n.pick(fields);
        let value = self.n.bits(width);
        self.out += &format!("{handle}->{field} = {value};\n");
    }

    fn store(&mut self, handle: &str, offset: u64, kept: &[u64]) {
        let width = self.n.pick(&[8, 16, 24, 32, 64]);
        if kept.iter().any(|at| (offset..offset + u64::from(width) / 8).contains(at)) {
            return;
        }
        let value = self.n.bits(width);
        self.out +=
            &format!("if (packet_store({handle}, {offset}, (u{width}) {value})) ether->metadata.done = true;\n");
    }

    fn statements(&mut self, count: u64, depth: u32) {
        for _ in 0..count {
            self.statement(depth);
        }
    }

    fn statement(&mut self, depth: u32) {
        let Upper { name, fields, bytes, kept, .. } = self.upper;
        let pseudo = if name == "icmp" {
            String::new()
        } else {
            ", ipv4_pseudo_sum(ip->src, ip->dst, ip->protocol, packet_length(up))".into()
        };
        match self.n.below(14) {
            0..=2 => self.field("ip", &IP_FIELDS),
            3 | 4 => self.field("up", fields),
            5 => {
                let offset = self.n.below(60);
                self.store("up", offset, kept);
            }
            // In the IPv4 header neither its length nor what the pseudo header is made of.
            6 => {
                let offset = self.n.pick(&[1, 4, 5, 6, 7, 8, 10, 20, 21, 22]);
                self.store("ip", offset, &[2, 3, 9, 12, 24]);
            }
            7 => {
                self.names += 1;
                let inner = format!("in{}", self.names);
                let offset = bytes + self.n.below(20);
                self.out += &format!("{{ rtp_packet_t *{inner} = packet_peek(up, {offset});\n");
                for _ in 0..self.n.below(3) {
                    self.field(&inner, &[("sequence", 16), ("timestamp", 32), ("marker", 1), ("payload_type", 7)]);
                }
                let offset = self.n.below(20);
                self.store(&inner, offset, &[]);
                self.out += "}\n";
            }
            8 => {
                self.names += 1;
                let again = format!("in{}", self.names);
                self.out += &format!("{{ {name}_packet_t *{again} = packet_peek(ip);\n");
                self.field(&again, fields);
                self.field("up", fields);
                self.out += "}\n";
            }
            9 => self.out += "ether->metadata.sum = up->checksum;\n",
            10 => {
                self.out += &format!("if (!checksum_ok(ip) || !checksum_ok(up{pseudo})) ether->metadata.bad = true;\n")
            }
            11 => {
                let (value, call) = (self.n.bits(32), self.n.pick(&["readdress(ip, ", "touch(up, (u8) "]));
                self.out += &format!("{call}{value});\n");
            }
            12 if depth > 0 => {
                self.out += self.n.pick(&["if ((ip->ttl & 1) == 1) {\n", "if (ip->src > ip->dst) {\n"]);
                let count = self.n.below(4);
                self.statements(count, depth - 1);
                self.out += "} else {\n";
                self.statements(1, depth - 1);
                self.out += "}\n";
            }
            13 if depth > 0 => {
                self.names += 1;
                let i = format!("i{}", self.names);
                self.out += &format!("for (u8 {i} = 0; {i} < {}; {i}++) {{\n", 1 + self.n.below(5));
                let count = self.n.below(3);
                self.statements(count, depth - 1);
                if self.n.below(2) == 0 {
                    let word = self.n.pick(&["break", "continue"]);
                    self.out += &format!("if (ip->ttl > {}) {word};\n", self.n.below(256));
                    self.statements(1, depth - 1);
                }
                self.out += "}\n";
            }
            _ => {}
        }
    }
}

fn program(seed: u64) -> (String, Arc<Program>, u8) {
    let mut n = SplitMix64(seed);
    let upper = n.pick(&UPPER);
    let name = upper.name;
    let mut writer = Writer { n, upper, names: 0, out: String::new() };
    let before = writer.n.below(3);
    for _ in 0..before {
        writer.field("ip", &IP_FIELDS);
    }
    writer.out += &format!("{name}_packet_t *up = packet_peek(ip);\n");
    let count = 3 + writer.n.below(10);
    writer.statements(count, 2);
    let body = format!("ipv4_packet_t *ip = packet_peek(ether);\n{}", writer.out);
    let imports = ["net/ipv4".to_string(), format!("net/{name}"), "media/rtp".into()];
    let value = if name == "tcp" {
        "up->window = x;"
    } else if name == "udp" {
        "up->dst_port = x;"
    } else {
        "up->code = x;"
    };
    let functions = format!(
        "void readdress(ipv4_packet_t *ip, u32 address) {{
            ip->dst = address;
            {name}_packet_t *up = packet_peek(ip);
            if (address > 5) {{ touch(up, 1); return; }}
            ip->src = address;
        }}
        void touch({name}_packet_t *up, u8 x) {{ {value} }}"
    );
    let text = format!("{functions}\n{body}");
    (text, super::program_with(&imports, "sum : u16; bad : bool;", &functions, &body), upper.number)
}

#[test]
fn right_checksums_stay_right() {
    for seed in 0..400 {
        let (text, program, number) = program(seed);
        let mut n = SplitMix64(!seed);
        let bad = program.metadata.iter().position(|field| field.name == "bad").expect("declared");
        // Native code is compared with the interpreter elsewhere; here a few programs are enough.
        let engines: &[EngineKind] = if seed % 20 == 0 { &super::ENGINES } else { &[EngineKind::Interp] };
        for engine in engines {
            let mut stepper = Stepper::new(program.clone(), *engine).expect("an engine");
            for _ in 0..5 {
                let length = HEADER + 24 + 60 + n.below(40) as usize;
                let mut packet: Vec<u8> = (0..length).map(|_| n.bits(8) as u8).collect();
                packet[HEADER] = 0x46;
                packet[HEADER + 2..HEADER + 4].copy_from_slice(&((length - HEADER) as u16).to_be_bytes());
                packet[HEADER + 24 + 4..HEADER + 24 + 6]
                    .copy_from_slice(&((length - HEADER - 24) as u16).to_be_bytes());
                packet[HEADER + 9] = number;
                packet[HEADER + 10..HEADER + 12].fill(0);
                packet[HEADER + 24 + 12] = 0x50;
                let field = match number {
                    6 => 16,
                    17 => 6,
                    _ => 2,
                };
                packet[HEADER + 24 + field..][..2].fill(0);
                fill(&mut packet);
                assert_eq!(wrong(&packet), None, "the test's own packet");
                let outputs = stepper.receive(1, &packet);
                let [output] = &outputs[..] else { panic!("seed {seed}: {} packets\n{text}", outputs.len()) };
                let found = wrong(&output.bytes).or((output.metadata[bad] != 0).then_some("checksum_ok said no"));
                assert_eq!(found, None, "seed {seed} on {engine:?}\n{text}\n{packet:02x?}\n{:02x?}", output.bytes);
            }
        }
    }
}
