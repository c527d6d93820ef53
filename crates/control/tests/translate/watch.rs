//! What everybody may see of a connection: segments as they leave, acknowledgements as they come, packets of the source
//! as they come. It knows nothing of the program, and says what no program may do.

use std::collections::BTreeMap;

use crate::client::{FIN, RST, SYN, Segment, sum};
use crate::stream::{number_of, payload_of};
use crate::world::{HEAD, MS, Scene};

/// Bytes of a packet of MPEG-TS.
const TS: usize = 188;

/// Packets that a stream's ring holds.
const RING: u32 = 2048;

/// Nanoseconds that the program's clock may be coarse by.
const COARSE: u64 = 2 * MS;

pub struct Watch {
    scene: Scene,
    /// Sequence number of the first byte.
    base: u32,
    /// What every segment had when it left first.
    pub first: Vec<u8>,
    /// Bytes of the document in front of the stream.
    pub document: usize,
    /// Where segments begin, and all that was ever sent in their place.
    segments: BTreeMap<usize, Vec<Vec<u8>>>,
    /// Where the FIN is.
    pub fin: Option<usize>,
    /// Resets before the end was told; what comes later belongs to no connection.
    pub resets: u32,
    pub over: bool,
    /// The last edge of what the program knows the client to have, and of what it may send; what is acknowledged.
    has: usize,
    takes: usize,
    acked: usize,
    /// When packets of the source came, by number, and the newest one.
    came: BTreeMap<u32, u64>,
    pub newest: u32,
    pub nulls: u32,
    pub fresh: u32,
    pub again: u32,
    /// How long after it came a packet left for the first time, at most; milliseconds.
    pub lag: u64,
    /// The newest one when the viewer came.
    pub viewed: u32,
    /// A router has said that packets are too long for it.
    pub is_narrow: bool,
}

/// Whether bytes are nothing but null packets.
pub fn is_null(bytes: &[u8]) -> bool {
    let is_null = |ts: &[u8]| ts[..4] == [0x47, 0x1f, 0xff, 0x10] && ts[4..].iter().all(|byte| *byte == 0);
    bytes.len().is_multiple_of(TS) && bytes.chunks(TS).all(is_null)
}

/// Whether bytes are a packet as the source has sent it.
fn is_original(bytes: &[u8]) -> bool {
    let (number, _, parts) = number_of(bytes);
    bytes == payload_of(number, parts)
}

/// Whether bytes begin with the first part of a packet as the source has sent it.
fn begins_packet(bytes: &[u8]) -> bool {
    bytes.len() >= TS && {
        let (number, _, parts) = number_of(bytes);
        (1..=7).contains(&parts) && bytes.starts_with(&payload_of(number, parts)[..TS])
    }
}

impl Watch {
    pub fn new(scene: &Scene) -> Watch {
        Watch {
            scene: scene.clone(),
            base: 0,
            first: Vec::new(),
            document: HEAD.len(),
            segments: BTreeMap::new(),
            fin: None,
            resets: 0,
            over: false,
            has: 0,
            takes: 0,
            acked: 0,
            came: BTreeMap::new(),
            newest: 0,
            nulls: 0,
            fresh: 0,
            again: 0,
            lag: 0,
            viewed: 0,
            is_narrow: false,
        }
    }

    /// A packet of the source comes to the program.
    pub fn came(&mut self, frame: &[u8], now: u64) {
        let found = (42..90).filter_map(|at| frame.get(at..)).find(|bytes| begins_packet(bytes)).expect("a payload");
        let number = number_of(found).0;
        self.came.entry(number).or_insert(now);
        self.newest = self.newest.max(number);
    }

    /// A segment of the client comes to the program.
    pub fn acknowledged(&mut self, frame: &[u8]) {
        // What is no TCP is what a router says.
        if frame[12..14] != [8, 0] || frame[23] != 6 {
            self.is_narrow = true;
            return;
        }
        let tcp = &frame[34..];
        let number = |at: usize| u32::from_be_bytes(tcp[at..at + 4].try_into().unwrap());
        let edge = |number: u32| number.wrapping_sub(self.base) as usize;
        if tcp[13] & SYN != 0 || sum(&tcp[8..12]) == 0 {
            return;
        }
        let acked = edge(number(8));
        let scale = self.scene.client.scale.unwrap_or(0);
        self.acked = self.acked.max(acked);
        self.takes = self.takes.max(acked + (usize::from(u16::from_be_bytes([tcp[14], tcp[15]])) << scale));
        self.has = self.has.max(acked);
        let header = usize::from(tcp[12] >> 4) * 4;
        if header > 24 && tcp[22] == 5 {
            for at in (24..header).step_by(8) {
                self.has = self.has.max(edge(number(at + 4)));
            }
        }
    }

    /// A segment leaves for the client.
    pub fn segment(&mut self, segment: &Segment, now: u64) {
        if segment.flags & SYN != 0 {
            if self.first.is_empty() {
                self.base = segment.seq.wrapping_add(1);
            }
            return;
        }
        if segment.flags & RST != 0 {
            self.resets += u32::from(!self.over);
            return;
        }
        let end = self.first.len();
        let ahead = segment.seq.wrapping_sub(self.base.wrapping_add(end as u32)) as i32;
        let bytes = &segment.payload;
        if segment.flags & FIN != 0 {
            let at = usize::try_from(end as i64 + i64::from(ahead)).expect("a FIN in the stream") + bytes.len();
            assert_eq!(*self.fin.get_or_insert(at), at, "a FIN is where it was");
            assert!(at >= end, "a FIN comes behind all data");
        }
        if bytes.is_empty() {
            // An answer, or a probe of what is acknowledged.
            let most = i32::from(self.fin.is_some());
            assert!(ahead <= most, "an answer with {} for {end}", segment.seq);
            return;
        }
        let at = usize::try_from(end as i64 + i64::from(ahead)).expect("a segment in front of the stream");
        let may = at + bytes.len() <= self.takes || at <= self.acked;
        assert!(may, "{at}..{} does not fit into a window that ends at {}", at + bytes.len(), self.takes);
        if ahead == 0 {
            assert!(self.fin.is_none(), "data behind a FIN");
            if at >= self.document
                && let Some(came) = self.came.get(&number_of(bytes).0)
            {
                self.lag = self.lag.max((now - came) / MS);
            }
            self.first.extend(bytes);
            self.segments.insert(at, vec![bytes.clone()]);
            return;
        }
        assert!(ahead < 0, "{ahead} bytes are left out");
        self.again += 1;
        let sent = self.segments.get_mut(&at).unwrap_or_else(|| panic!("a boundary that was none: {at}"));
        // What is too long for a way that has become narrow goes on in parts: the same bytes at the same places.
        if self.is_narrow && bytes.len() < sent[0].len() {
            let rest = sent.iter_mut().map(|sent| sent.split_off(bytes.len())).collect();
            self.segments.insert(at + bytes.len(), rest);
        }
        let sent = self.segments.get_mut(&at).expect("it was there");
        let first = sent[0].clone();
        assert_eq!(first.len(), bytes.len(), "a segment at {at} has another length");
        if !sent.contains(bytes) {
            sent.push(bytes.clone());
        }
        if first == *bytes {
            // What it is filled with where it is `empty`: the original only for the rest of a part.
            let begun = self.acked > at;
            assert!(self.scene.fill != 1 || at < self.document || begun, "an original at {at}");
            return;
        }
        assert!(at >= self.document && self.scene.fill != 3, "other bytes at {at}");
        let number = number_of(&first).0;
        if is_null(bytes) {
            self.nulls += 1;
            if self.scene.fill == 0 {
                let age = now - self.came[&number];
                let gone = self.newest.wrapping_sub(number) >= RING - 1;
                let playout = u64::from(self.scene.settings[1]) * MS;
                assert!(gone || age + COARSE >= playout, "nulls for {number} after {} ms", age / MS);
            }
            return;
        }
        assert!(self.scene.fill == 2 && self.scene.client.sack, "bytes of another packet at {at}");
        assert!(is_original(bytes), "what was never sent, at {at}");
        self.fresh += 1;
        assert!(self.has <= at || self.scene.client.reneges != 0, "newer data at {at} in front of {}", self.has);
        let other = number_of(bytes).0;
        // Packets may wait for those in front of them.
        let waiting = if self.scene.source_reordered != 0 || self.scene.source_loss != 0 { 32 } else { 0 };
        assert!(other + waiting >= self.newest && other <= self.newest, "{other} is not {}, the newest", self.newest);
    }

    /// What left first is the source's stream: packets that are whole, each once, in order.
    pub fn check_stream(&self) -> Vec<u32> {
        let mut numbers = Vec::new();
        let mut expected = None;
        // Of what goes in parts the last one may be missing: packets of the transport stream are whole all the same.
        let in_parts = self.is_narrow || self.scene.client.mss < 1380;
        for ts in self.first[self.document.min(self.first.len())..].chunks(TS) {
            let (number, part, parts) = number_of(ts);
            let whole = payload_of(number, parts);
            assert_eq!(ts, &whole[usize::from(part) * TS..][..TS], "part {part} of packet {number}");
            // The rest of a packet is left out where the stream's ring has it no more: a viewer that is so far behind
            // loses half of what it is behind by.
            let is_gone = |(before, _): &(u32, u8)| part == 0 && number >= before + (RING - 64) / 2;
            match expected.filter(|own| !(in_parts && is_gone(own))) {
                Some(next) => assert_eq!((number, part), next, "the rest of a packet follows"),
                None => {
                    assert_eq!(part, 0, "a packet {number} begins with its first part");
                    assert!(numbers.last().is_none_or(|last| *last < number), "{number} comes after {numbers:?}");
                    assert!(self.came.contains_key(&number), "{number} was not sent");
                    numbers.push(number);
                }
            }
            expected = (part + 1 < parts).then_some((number, part + 1));
        }
        assert!(expected.is_none() || self.fin.is_none() || in_parts, "the last packet is not whole");
        numbers
    }

    /// What a client has read is, at each place, what was sent there.
    pub fn check_read(&self, data: &[u8], took_part: bool) {
        assert!(data.len() <= self.first.len(), "{} bytes of {}", data.len(), self.first.len());
        for (at, sent) in self.segments.range(..data.len()) {
            let own = &data[*at..data.len().min(at + sent[0].len())];
            let whole = sent.iter().any(|sent| sent[..own.len()] == *own);
            // Of what it took in parts each may be of another one.
            let mixed = took_part && (0..own.len()).all(|at| sent.iter().any(|sent| sent[at] == own[at]));
            assert!(whole || mixed, "what was sent at {at} is not what came");
        }
    }
}
