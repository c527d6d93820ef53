//! A model of a TCP client that reads a stream: its own reassembly, acknowledgements and options (RFC 9293, RFC 2018).

use std::collections::BTreeMap;

pub const FIN: u8 = 1;
pub const SYN: u8 = 2;
pub const RST: u8 = 4;
pub const ACK: u8 = 16;

pub const CLIENT: [u8; 4] = [10, 0, 1, 11];
pub const OWN: [u8; 4] = [10, 0, 1, 1];
const PORTS: (u16, u16) = (50000, 80);

/// Adds up 16-bit words (RFC 1071).
pub fn sum(bytes: &[u8]) -> u32 {
    bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0))).sum()
}

pub fn fold(mut sum: u32) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// A frame with an IPv4 packet.
pub fn frame(src: [u8; 4], dst: [u8; 4], protocol: u8, upper: &[u8]) -> Vec<u8> {
    let mut ip = vec![0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, protocol, 0, 0];
    ip[2..4].copy_from_slice(&(20 + upper.len() as u16).to_be_bytes());
    ip.extend(src);
    ip.extend(dst);
    let checksum = !fold(sum(&ip));
    ip[10..12].copy_from_slice(&checksum.to_be_bytes());
    [&[2, 0, 0, 0, 1, 1, 2, 0, 0, 0, 1, 0x11, 8, 0], &ip[..], upper].concat()
}

/// The sum of a pseudo header.
pub fn pseudo(src: [u8; 4], dst: [u8; 4], protocol: u8, length: usize) -> u32 {
    sum(&src) + sum(&dst) + u32::from(protocol) + length as u32
}

/// A segment that has come out of the program, checked.
#[derive(Clone, Debug)]
pub struct Segment {
    pub seq: u32,
    pub ack: u32,
    pub flags: u8,
    pub window: u16,
    pub options: Vec<u8>,
    pub payload: Vec<u8>,
}

/// Whether a segment's checksum is right.
pub fn is_whole(frame: &[u8]) -> bool {
    let tcp = &frame[34..];
    fold(sum(tcp) + pseudo(OWN, CLIENT, 6, tcp.len())) == 0xffff
}

pub fn parse(frame: &[u8]) -> Segment {
    assert_eq!(&frame[12..14], [8, 0], "IPv4");
    let ip = &frame[14..];
    assert_eq!(fold(sum(&ip[..20])), 0xffff, "the checksum of the IP header");
    assert_eq!(usize::from(u16::from_be_bytes([ip[2], ip[3]])), ip.len(), "total length");
    assert_eq!((ip[9], &ip[12..16], &ip[16..20]), (6, &OWN[..], &CLIENT[..]));
    let tcp = &ip[20..];
    assert_eq!(fold(sum(tcp) + pseudo(OWN, CLIENT, 6, tcp.len())), 0xffff, "the TCP checksum");
    let number = |at: usize| u32::from_be_bytes(tcp[at..at + 4].try_into().unwrap());
    assert_eq!(number(0), u32::from(PORTS.1) << 16 | u32::from(PORTS.0), "ports");
    let header = usize::from(tcp[12] >> 4) * 4;
    Segment {
        seq: number(4),
        ack: number(8),
        flags: tcp[13],
        window: u16::from_be_bytes([tcp[14], tcp[15]]),
        options: tcp[20..header].to_vec(),
        payload: tcp[header..].to_vec(),
    }
}

/// How a client is.
#[derive(Clone, Debug)]
pub struct Options {
    pub sack: bool,
    /// The greatest segment that it takes.
    pub mss: u16,
    /// Milliseconds that it waits for a second segment before it acknowledges one; 0: it does not wait.
    pub delays: u64,
    pub scale: Option<u8>,
    /// Bytes that wait to be read, at most.
    pub buffer: usize,
    /// Initial sequence number.
    pub first: u32,
    /// Forgets what has come out of order when so many segments have (RFC 2018 section 8); 0: never.
    pub reneges: u32,
}

#[derive(Clone)]
pub struct Client {
    /// What a stranger's segment says.
    pub flags: u8,
    pub options: Options,
    pub sent: u32,
    /// The next byte, counted from the first one; its number is `base` more.
    pub received: u64,
    base: u32,
    pub open: bool,
    out_of_order: BTreeMap<u64, Vec<u8>>,
    latest: u64,
    /// What is read, all in all.
    pub data: Vec<u8>,
    /// Bytes that wait to be read.
    pub unread: usize,
    pub finished: bool,
    pub reset: bool,
    /// Segments that are not acknowledged yet, and until when they may wait.
    waiting: u32,
    pub delayed_until: Option<u64>,
    disordered: u32,
    pub duplicates: u64,
    /// Bytes of the longest payload that has come.
    pub longest: usize,
    /// It has taken a part of a segment for want of room.
    pub took_part: bool,
    /// A FIN, and data or a second FIN behind it, or another number for it.
    pub broken_end: bool,
}

impl Client {
    pub fn new(options: Options) -> Client {
        Client {
            flags: ACK,
            sent: options.first,
            options,
            received: 0,
            base: 0,
            open: false,
            out_of_order: BTreeMap::new(),
            latest: 0,
            data: Vec::new(),
            unread: 0,
            finished: false,
            reset: false,
            waiting: 0,
            delayed_until: None,
            disordered: 0,
            duplicates: 0,
            longest: 0,
            took_part: false,
            broken_end: false,
        }
    }

    fn window(&self) -> usize {
        self.options.buffer.saturating_sub(self.unread)
    }

    pub fn segment(&self, flags: u8, payload: &[u8]) -> Vec<u8> {
        let mut options = Vec::new();
        let syn = flags & SYN != 0;
        if syn {
            options.extend([2, 4]);
            options.extend(self.options.mss.to_be_bytes());
            if self.options.sack {
                options.extend([1, 1, 4, 2]);
            }
            if let Some(scale) = self.options.scale {
                options.extend([1, 3, 3, scale]);
            }
        } else if self.options.sack && !self.out_of_order.is_empty() {
            let blocks = self.blocks();
            options.extend([1, 1, 5, 2 + 8 * blocks.len() as u8]);
            for (left, right) in blocks {
                options.extend(self.number(left).to_be_bytes());
                options.extend(self.number(right).to_be_bytes());
            }
        }
        let scale = if syn { 0 } else { self.options.scale.unwrap_or(0) };
        let window = (self.window() >> scale).min(65535) as u16;
        let mut tcp = Vec::new();
        tcp.extend(PORTS.0.to_be_bytes());
        tcp.extend(PORTS.1.to_be_bytes());
        tcp.extend(self.sent.to_be_bytes());
        tcp.extend(if flags & ACK == 0 { 0 } else { self.number(self.received) }.to_be_bytes());
        tcp.extend([(5 + options.len() as u8 / 4) << 4, flags]);
        tcp.extend(window.to_be_bytes());
        tcp.extend([0; 4]);
        tcp.extend(options);
        tcp.extend(payload);
        let checksum = !fold(sum(&tcp) + pseudo(CLIENT, OWN, 6, tcp.len()));
        tcp[16..18].copy_from_slice(&checksum.to_be_bytes());
        frame(CLIENT, OWN, 6, &tcp)
    }

    fn number(&self, offset: u64) -> u32 {
        self.base.wrapping_add(offset as u32).wrapping_add(u32::from(self.finished))
    }

    /// Ranges out of order: that of the latest segment first.
    fn blocks(&self) -> Vec<(u64, u64)> {
        let mut blocks: Vec<(u64, u64)> = Vec::new();
        for (left, bytes) in &self.out_of_order {
            let right = left + bytes.len() as u64;
            match blocks.last_mut() {
                Some(last) if last.1 == *left => last.1 = right,
                _ => blocks.push((*left, right)),
            }
        }
        let is_latest = |block: &(u64, u64)| block.0 <= self.latest && self.latest < block.1;
        blocks.sort_by_key(|block| (!is_latest(block), u64::MAX - block.1));
        blocks.truncate(4);
        blocks
    }

    /// Reads so many bytes. Gives an update of the window, where it has become much larger.
    pub fn read(&mut self, most: usize) -> Option<Vec<u8>> {
        let before = self.window();
        self.unread = self.unread.saturating_sub(most);
        let small = self.options.buffer / 2;
        (self.open && before < small.min(1460) && self.window() >= small.min(1460)).then(|| self.segment(ACK, &[]))
    }

    /// Takes a segment, and answers.
    pub fn take(&mut self, segment: &Segment, now: u64) -> Vec<Vec<u8>> {
        if segment.flags & RST != 0 {
            self.reset = true;
            return Vec::new();
        }
        if segment.flags & SYN != 0 {
            self.sent = self.options.first.wrapping_add(1);
            self.base = segment.seq.wrapping_add(1);
            self.open = true;
            return vec![self.segment(ACK, &[])];
        }
        self.longest = self.longest.max(segment.payload.len());
        let from = self.received as i64 + i64::from(segment.seq.wrapping_sub(self.number(self.received)) as i32);
        let length = segment.payload.len() as i64;
        let is_behind = from + length > self.received as i64;
        if self.finished && is_behind {
            self.broken_end = true;
        }
        if length == 0 && segment.flags & FIN == 0 {
            // An old number is answered (keep-alive, probes).
            return if from < self.received as i64 { vec![self.segment(ACK, &[])] } else { Vec::new() };
        }
        if from + length <= self.received as i64 && length > 0 {
            self.duplicates += 1;
            return vec![self.segment(ACK, &[])];
        }
        let mut at_once = from != self.received as i64 || !self.out_of_order.is_empty();
        let room = self.window() as i64 - (from - self.received as i64);
        let skip = (self.received as i64 - from).max(0);
        let taken = (length - skip).min(room - skip.min(0)).max(0);
        if taken < length - skip {
            at_once = true;
            self.took_part |= taken > 0;
        }
        if taken > 0 {
            let at = (from + skip) as u64;
            let bytes = segment.payload[skip as usize..(skip + taken) as usize].to_vec();
            // What came first stays.
            self.out_of_order.entry(at).or_insert(bytes);
            self.latest = at;
            if at > self.received {
                self.disordered += 1;
            }
        }
        while let Some((&at, _)) = self.out_of_order.first_key_value() {
            if at > self.received {
                break;
            }
            let bytes = self.out_of_order.remove(&at).unwrap();
            let known = (self.received - at) as usize;
            if known < bytes.len() {
                self.data.extend(&bytes[known..]);
                self.unread += bytes.len() - known;
                self.received = at + bytes.len() as u64;
            }
        }
        if self.options.reneges != 0 && self.disordered >= self.options.reneges && !self.out_of_order.is_empty() {
            self.disordered = 0;
            self.out_of_order.clear();
        }
        if segment.flags & FIN != 0 && from + length == self.received as i64 && !self.finished {
            self.finished = true;
            return vec![self.segment(ACK, &[])];
        }
        self.waiting += 1;
        if at_once || self.waiting >= 2 || self.options.delays == 0 {
            return vec![self.acknowledge()];
        }
        self.delayed_until.get_or_insert(now + self.options.delays * 1_000_000);
        Vec::new()
    }

    pub fn acknowledge(&mut self) -> Vec<u8> {
        self.waiting = 0;
        self.delayed_until = None;
        self.segment(ACK, &[])
    }
}
