//! Datagrams that come in fragments (RFC 791 section 3.2, RFC 8200 section 4.5), put together for the program, which
//! takes whole ones alone.
//!
//! Fragments are kept for half a minute, and there is room for a bounded number of datagrams and bytes: where more is
//! wanted the oldest ones go, for what belongs together comes together. A datagram whose fragments say different things
//! about the same bytes is dropped with all of it that is still to come (RFC 5722), of IPv4 as well.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};

use super::bytes::{at, u16_at};
use super::checksum::checksum;
use super::keyed_map::KeyedMap;

/// Fragments that are waited for, in nanoseconds: as Linux does it (RFC 1122 section 3.3.2 and RFC 8200 section 4.5
/// want 60 s, of hosts).
const LIFE: u64 = 30_000_000_000;
/// Datagrams that fragments are kept of at most.
const MOST: usize = 1024;
/// Bytes of all of them.
const MEMORY: usize = 4 << 20;
/// Bytes of one, without headers: no link of a web cluster takes more.
const LONGEST: usize = 9216;

/// Bytes of headers.
const ETHER: usize = 14;
const IPV4: usize = 20;
const IPV6: usize = 40;
const FRAGMENT: usize = 8;
/// Protocols.
const TCP: u8 = 6;
const IPV6_FRAGMENT: u8 = 44;
/// Explicit congestion notification (RFC 3168 section 5): not used, and congestion experienced.
const NOT_ECT: u8 = 0;
const CE: u8 = 3;

/// What becomes of datagrams; of what is no fragment it is a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is whole.
    Reassembled,
    /// Some of it has not come in time.
    Expired,
    /// There was no room for it any more.
    Evicted,
    /// Its fragments contradict each other.
    Overlapping,
    /// It is longer than can be taken.
    TooLong,
    /// It is none, or its fragments are not to be understood.
    Malformed,
}

impl Fate {
    /// All of them.
    pub const ALL: [Fate; 6] =
        [Fate::Reassembled, Fate::Expired, Fate::Evicted, Fate::Overlapping, Fate::TooLong, Fate::Malformed];

    /// Its name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Fate::Reassembled => "reassembled",
            Fate::Expired => "expired",
            Fate::Evicted => "evicted",
            Fate::Overlapping => "overlapping",
            Fate::TooLong => "too_long",
            Fate::Malformed => "malformed",
        }
    }
}

/// What fragments of one datagram have in common: the port, both addresses, the identification.
type Key = (u8, Ipv6Addr, Ipv6Addr, u32);

/// All that has come in part.
#[derive(Clone, Debug, Default)]
pub struct Fragments {
    open: KeyedMap<Key, Datagram>,
    /// By the order in which they began.
    order: BTreeMap<u64, Key>,
    begun: u64,
    memory: usize,
    /// By [`Fate::ALL`].
    counts: [u64; Fate::ALL.len()],
}

/// One of them.
#[derive(Clone, Debug)]
struct Datagram {
    number: u64,
    due: u64,
    /// Its headers, of the fragment that comes first.
    head: Option<Vec<u8>>,
    /// What has come behind them, in its place.
    bytes: Vec<u8>,
    /// Where that is: first bytes, and behind the last, in order. Between two of them is a gap.
    had: Vec<(usize, usize)>,
    /// Where it ends.
    end: Option<usize>,
    /// Congestion notifications that it has come with, a bit for each.
    marks: u8,
    /// Whether it is not wanted any more.
    dropped: bool,
}

/// A fragment.
struct Fragment<'f> {
    key: Key,
    /// Headers of the datagram, as it comes with the fragment.
    head: Vec<u8>,
    offset: usize,
    more: bool,
    mark: u8,
    bytes: &'f [u8],
}

impl<'f> Fragment<'f> {
    /// Reads a frame that the program has taken for one.
    fn parse(port: u8, frame: &'f [u8]) -> Option<Fragment<'f>> {
        let ip = frame.get(ETHER..)?;
        match u16_at(frame, 12)? {
            0x0800 if *ip.first()? == 0x45 && *ip.get(9)? == TCP => {
                let place = u16_at(ip, 6)?;
                let address = |place| Some(Ipv4Addr::from(at::<4>(ip, place)?).to_ipv6_mapped());
                Some(Fragment {
                    key: (port, address(12)?, address(16)?, u16_at(ip, 4)?.into()),
                    head: frame.get(..ETHER + IPV4)?.to_vec(),
                    offset: usize::from(place & 0x1fff) * 8,
                    more: place & 0x2000 != 0,
                    mark: ip[1] & 3,
                    bytes: ip.get(IPV4..usize::from(u16_at(ip, 2)?))?,
                })
            }
            0x86dd if *ip.get(6)? == IPV6_FRAGMENT && *ip.get(IPV6)? == TCP => {
                let place = u16_at(ip, IPV6 + 2)?;
                let address = |place| Some(Ipv6Addr::from(at::<16>(ip, place)?));
                Some(Fragment {
                    key: (port, address(8)?, address(24)?, u32::from_be_bytes(at(ip, IPV6 + 4)?)),
                    head: frame.get(..ETHER + IPV6)?.to_vec(),
                    offset: usize::from(place & 0xfff8),
                    more: place & 1 != 0,
                    mark: ip[1] >> 4 & 3,
                    bytes: ip.get(IPV6 + FRAGMENT..IPV6 + usize::from(u16_at(ip, 4)?))?,
                })
            }
            _ => None,
        }
    }

    /// Whether it can be one: not empty, and where more follows of a length that others can begin at.
    fn is_sound(&self) -> bool {
        !self.bytes.is_empty() && (!self.more || self.bytes.len().is_multiple_of(8))
    }
}

impl Datagram {
    /// Takes a fragment that belongs to it.
    fn take(&mut self, fragment: &Fragment) -> Result<(), Fate> {
        let (from, to) = (fragment.offset, fragment.offset + fragment.bytes.len());
        if to > LONGEST {
            return Err(Fate::TooLong);
        }
        let end = if fragment.more { self.end } else { Some(to) };
        let last = self.had.last().map_or(0, |(_, last)| *last).max(to);
        if self.end.is_some_and(|known| end != Some(known)) || end.is_some_and(|end| last > end) {
            return Err(Fate::Overlapping);
        }
        self.end = end;
        self.marks |= 1 << fragment.mark;
        let behind = self.had.partition_point(|(start, _)| *start <= from);
        if let Some(&(_, known)) = behind.checked_sub(1).map(|before| &self.had[before])
            && known > from
        {
            // The same once more is nothing new.
            let same = to <= known && self.bytes[from..to] == *fragment.bytes;
            return if same { Ok(()) } else { Err(Fate::Overlapping) };
        }
        if self.had.get(behind).is_some_and(|(start, _)| *start < to) {
            return Err(Fate::Overlapping);
        }
        if self.bytes.len() < to {
            self.bytes.reserve_exact(to - self.bytes.len());
            self.bytes.resize(to, 0);
        }
        self.bytes[from..to].copy_from_slice(fragment.bytes);
        self.had.insert(behind, (from, to));
        // Those that touch are one.
        for second in [behind + 1, behind] {
            if second > 0 && second < self.had.len() && self.had[second - 1].1 == self.had[second].0 {
                self.had[second - 1].1 = self.had[second].1;
                self.had.remove(second);
            }
        }
        if from == 0 {
            self.head = Some(fragment.head.clone());
        }
        Ok(())
    }

    /// The frame with all of it, once all has come.
    fn whole(&mut self) -> Option<Result<Vec<u8>, Fate>> {
        if self.end.is_none_or(|end| self.had != [(0, end)]) {
            return None;
        }
        let mut frame = self.head.take()?;
        let marked = self.marks & 1 << CE != 0;
        if marked && self.marks & 1 << NOT_ECT != 0 {
            // RFC 3168 section 5.3.
            return Some(Err(Fate::Malformed));
        }
        let length = self.bytes.len();
        if frame.len() == ETHER + IPV4 {
            frame[ETHER + 1] |= if marked { CE } else { 0 };
            frame[ETHER + 2..ETHER + 4].copy_from_slice(&((IPV4 + length) as u16).to_be_bytes());
            frame[ETHER + 6..ETHER + 8].fill(0);
            frame[ETHER + 10..ETHER + 12].fill(0);
            let sum = checksum(&frame[ETHER..], 0);
            frame[ETHER + 10..ETHER + 12].copy_from_slice(&sum.to_be_bytes());
        } else {
            frame[ETHER + 1] |= if marked { CE << 4 } else { 0 };
            frame[ETHER + 4..ETHER + 6].copy_from_slice(&(length as u16).to_be_bytes());
            frame[ETHER + 6] = TCP;
        }
        frame.append(&mut self.bytes);
        Some(Ok(frame))
    }
}

impl Fragments {
    /// Takes a frame with a fragment: the frame with all of its datagram, where it was the last that was missing.
    pub fn take(&mut self, port: u8, frame: &[u8], now: u64) -> Option<Vec<u8>> {
        self.expire(now);
        let Some(fragment) = Fragment::parse(port, frame).filter(Fragment::is_sound) else {
            self.count(Fate::Malformed);
            return None;
        };
        if !self.open.contains_key(&fragment.key) {
            self.begin(fragment.key, now);
        }
        let own = self.open.get_mut(&fragment.key).filter(|own| !own.dropped)?;
        let before = own.bytes.capacity();
        let result = own.take(&fragment);
        self.memory += own.bytes.capacity() - before;
        let whole = result.and_then(|()| own.whole().transpose());
        match whole {
            Ok(Some(frame)) => {
                self.remove(fragment.key, None);
                return Some(frame);
            }
            Ok(None) => {}
            Err(fate) => {
                self.memory -= own.bytes.capacity();
                (own.bytes, own.had, own.head, own.dropped) = (Vec::new(), Vec::new(), None, true);
                self.count(fate);
            }
        }
        while self.memory > MEMORY {
            self.evict();
        }
        None
    }

    fn begin(&mut self, key: Key, now: u64) {
        if self.open.len() >= MOST {
            self.evict();
        }
        self.begun += 1;
        let (number, due) = (self.begun, now + LIFE);
        let (bytes, had) = (Vec::new(), Vec::new());
        self.order.insert(number, key);
        self.open.insert(key, Datagram { number, due, head: None, bytes, had, end: None, marks: 0, dropped: false });
    }

    fn evict(&mut self) {
        if let Some((_, key)) = self.order.first_key_value() {
            self.remove(*key, Some(Fate::Evicted));
        }
    }

    /// When the oldest one is to be forgotten.
    pub fn due(&self) -> u64 {
        let oldest = self.order.first_key_value().and_then(|(_, key)| self.open.get(key));
        oldest.map_or(u64::MAX, |own| own.due)
    }

    /// Forgets what has not come in time.
    pub fn expire(&mut self, now: u64) {
        while self.due() <= now {
            let Some((_, key)) = self.order.first_key_value() else { return };
            self.remove(*key, Some(Fate::Expired));
        }
    }

    /// One is over. What was dropped has been counted.
    fn remove(&mut self, key: Key, fate: Option<Fate>) {
        let Some(own) = self.open.remove(&key) else { return };
        self.order.remove(&own.number);
        self.memory -= own.bytes.capacity();
        if let Some(fate) = fate.filter(|_| !own.dropped) {
            self.count(fate);
        }
    }

    /// Counts what became of a datagram.
    pub fn count(&mut self, fate: Fate) {
        self.counts[fate as usize] += 1;
    }

    /// Datagrams by what became of them.
    pub fn counts(&self) -> impl Iterator<Item = (Fate, u64)> {
        Fate::ALL.into_iter().zip(self.counts)
    }
}

#[cfg(test)]
mod tests;
