//! The blocks of a pcapng file (draft-ietf-opsawg-pcapng): sections, interfaces and packets; others are passed over.

use std::io::{self, Read};
use std::sync::Arc;
use std::time::Duration;

use super::record::{ETHERNET, Found, LONGEST, Trouble};
use super::skipped::Skipped;
use super::window::Window;

/// What a file begins with: the type of its first block, in either order of bytes.
pub(super) const MAGIC: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];
/// Type, length, and the length again at the end.
const AROUND: usize = 12;
/// Bytes of a block at most.
const LARGEST: usize = 16 << 20;
/// Bytes of a block that is looked for behind damage.
const USUAL: usize = 1 << 20;

/// Types of blocks.
const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const OBSOLETE_PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const ENHANCED_PACKET: u32 = 6;
/// Those that other files have, too: names, statistics, journal entries, secrets, and private ones.
const OTHERS: [u32; 6] = [4, 5, 9, 10, 0xbad, 0x4000_0bad];

/// Options of an interface.
const IF_NAME: u16 = 2;
const IF_TSRESOL: u16 = 9;
const IF_TSOFFSET: u16 = 14;
/// Options of packets: their flags, whose lowest two bits say whether it was received (1) or sent (2).
const EPB_FLAGS: u16 = 2;
const PACK_FLAGS: u16 = 2;

/// Where a file is read.
pub(super) struct Blocks {
    /// Of the section.
    little: bool,
    /// Of the section.
    interfaces: Vec<Interface>,
    /// Packets so far.
    number: u64,
    last: Duration,
}

/// An interface of a section.
struct Interface {
    name: Option<Arc<str>>,
    link: u32,
    /// Bytes of a packet that are captured at most; 0: all.
    most: u32,
    /// Of times, to a second.
    units: u64,
    /// Seconds to be added to times.
    offset: i64,
}

/// What a block says about its packet.
struct Packet {
    interface: usize,
    /// In the interface's units; `None`: it does not say.
    stamp: Option<u64>,
    /// Where its bytes begin in the block's body, and how many are there.
    start: usize,
    captured: usize,
    original: u32,
    outgoing: bool,
}

impl Blocks {
    /// Of a file that begins with a section; `None`: its first block is none.
    pub fn open(window: &mut Window<impl Read>) -> io::Result<Option<Blocks>> {
        let mut blocks = Blocks { little: true, interfaces: Vec::new(), number: 0, last: Duration::ZERO };
        let Some((SECTION, len, little)) = blocks.head(window.peek(AROUND)?) else { return Ok(None) };
        blocks.little = little;
        let block = window.peek(len)?;
        Ok(blocks.body(block, len, little).is_some().then_some(blocks))
    }

    fn half(&self, bytes: &[u8], at: usize) -> Option<u16> {
        let half: [u8; 2] = bytes.get(at..at + 2)?.try_into().ok()?;
        Some(if self.little { u16::from_le_bytes(half) } else { u16::from_be_bytes(half) })
    }

    fn word(&self, bytes: &[u8], at: usize) -> Option<u32> {
        word(bytes, at, self.little)
    }

    /// Type and length of the block that begins with these bytes, and the order of bytes of its section; `None`: none
    /// can.
    fn head(&self, bytes: &[u8]) -> Option<(u32, usize, bool)> {
        let kind = self.word(bytes, 0)?;
        let little = match kind {
            SECTION => match bytes.get(8..12)? {
                [0x4d, 0x3c, 0x2b, 0x1a] => true,
                [0x1a, 0x2b, 0x3c, 0x4d] => false,
                _ => return None,
            },
            _ => self.little,
        };
        let len = word(bytes, 4, little)? as usize;
        (len.is_multiple_of(4) && (AROUND..=LARGEST).contains(&len)).then_some((kind, len, little))
    }

    /// What is in a block, where it ends as it began.
    fn body<'b>(&self, bytes: &'b [u8], len: usize, little: bool) -> Option<&'b [u8]> {
        let block = bytes.get(..len)?;
        (word(block, len - 4, little)? as usize == len).then(|| &block[8..len - 4])
    }

    /// Whether blocks go on here, behind damage.
    fn go_on(&self, bytes: &[u8]) -> bool {
        let Some((kind, len, little)) = self.head(bytes) else { return false };
        let known = [SECTION, INTERFACE, OBSOLETE_PACKET, SIMPLE_PACKET, ENHANCED_PACKET];
        (known.contains(&kind) || OTHERS.contains(&kind)) && self.body(bytes, len, little).is_some()
    }

    /// What begins at the window's beginning.
    pub fn next(&mut self, window: &mut Window<impl Read>, skipped: &mut Skipped) -> Result<Found, Trouble> {
        let (offset, ahead) = (window.offset(), window.peek(AROUND)?);
        if ahead.is_empty() {
            return Ok(Found::End);
        }
        let whole = ahead.len() >= AROUND;
        let Some((kind, len, little)) = self.head(ahead) else { return self.behind(window, skipped, offset, whole) };
        let ahead = window.peek(len)?;
        let whole = ahead.len() >= len;
        let Some(body) = self.body(ahead, len, little) else { return self.behind(window, skipped, offset, whole) };
        let packet = match kind {
            SECTION => {
                (self.little, self.interfaces) = (little, Vec::new());
                window.skip(len);
                return Ok(Found::Other);
            }
            INTERFACE => {
                let interface = self.interface(body);
                if interface.is_none() {
                    skipped.damaged(self.number, offset);
                }
                // Numbered, too, where nothing is known of it.
                self.interfaces.push(interface.unwrap_or(Interface::UNKNOWN));
                window.skip(len);
                return Ok(Found::Other);
            }
            ENHANCED_PACKET => self.enhanced(body),
            SIMPLE_PACKET => self.simple(body),
            OBSOLETE_PACKET => self.obsolete(body),
            _ => {
                window.skip(len);
                return Ok(Found::Other);
            }
        };
        let described = packet.and_then(|packet| Some((self.interfaces.get(packet.interface)?, packet)));
        self.number += 1;
        let Some((interface, packet)) = described else {
            skipped.damaged(self.number - 1, offset);
            window.skip(len);
            return Ok(Found::Other);
        };
        if interface.link != ETHERNET {
            return Err(Trouble::Link(interface.link));
        }
        self.last = packet.stamp.map_or(self.last, |stamp| interface.time(stamp));
        if packet.captured < packet.original as usize {
            skipped.cut(self.number, packet.captured, packet.original);
            window.skip(len);
            return Ok(Found::Other);
        }
        let start = 8 + packet.start;
        let (interface, outgoing) = (interface.name.clone(), packet.outgoing);
        let (bytes, number) = (start..start + packet.captured, Some(packet.interface as u32));
        Ok(Found::Packet { bytes, record: len, time: self.last, number, interface, outgoing })
    }

    /// Goes on behind what can't be read. `whole`: it is not that the file ends there.
    fn behind(
        &mut self,
        window: &mut Window<impl Read>,
        skipped: &mut Skipped,
        offset: u64,
        whole: bool,
    ) -> Result<Found, Trouble> {
        let found = window.seek(USUAL, |bytes, _| self.go_on(bytes))?;
        skipped.unreadable(self.number, offset, found || whole);
        self.number += 1;
        Ok(if found { Found::Other } else { Found::End })
    }

    fn interface(&self, body: &[u8]) -> Option<Interface> {
        let (link, most) = (self.half(body, 0)?, self.word(body, 4)?);
        let mut interface = Interface { link: link.into(), most, ..Interface::UNKNOWN };
        for (code, value) in self.options(body, 8) {
            match (code, value) {
                (IF_NAME, name) => {
                    let name = String::from_utf8_lossy(name);
                    interface.name = Some(name.trim_end_matches('\0').into());
                }
                (IF_TSRESOL, &[resolution]) => interface.units = units(resolution)?,
                (IF_TSOFFSET, value) => {
                    let value: [u8; 8] = value.try_into().ok()?;
                    interface.offset = if self.little { i64::from_le_bytes(value) } else { i64::from_be_bytes(value) };
                }
                _ => {}
            }
        }
        Some(interface)
    }

    fn enhanced(&self, body: &[u8]) -> Option<Packet> {
        let interface = self.word(body, 0)? as usize;
        self.with_stamp(body, interface, EPB_FLAGS)
    }

    fn obsolete(&self, body: &[u8]) -> Option<Packet> {
        let interface = self.half(body, 0)?.into();
        self.with_stamp(body, interface, PACK_FLAGS)
    }

    /// A packet whose time, lengths, bytes and options follow four bytes.
    fn with_stamp(&self, body: &[u8], interface: usize, flags: u16) -> Option<Packet> {
        let [high, low] = [self.word(body, 4)?, self.word(body, 8)?];
        let (captured, original) = (self.word(body, 12)? as usize, self.word(body, 16)?);
        let fits = captured <= LONGEST && captured <= original as usize && 20 + captured <= body.len();
        let mut options = fits.then(|| self.options(body, 20 + captured.next_multiple_of(4)))?;
        let flags = options.find_map(|(code, value)| if code == flags { self.word(value, 0) } else { None });
        let stamp = Some(u64::from(high) << 32 | u64::from(low));
        Some(Packet {
            interface,
            stamp,
            start: 20,
            captured,
            original,
            outgoing: flags.is_some_and(|bits| bits & 3 == 2),
        })
    }

    fn simple(&self, body: &[u8]) -> Option<Packet> {
        let original = self.word(body, 0)?;
        let most = match self.interfaces.first()?.most {
            0 => original,
            most => most,
        };
        let captured = original.min(most) as usize;
        let fits = captured <= LONGEST && 4 + captured <= body.len();
        let stamp = None;
        fits.then_some(Packet { interface: 0, stamp, start: 4, captured, original, outgoing: false })
    }

    /// Codes and values of options, up to the last that is there.
    fn options<'b>(&'b self, body: &'b [u8], mut at: usize) -> impl Iterator<Item = (u16, &'b [u8])> + use<'b> {
        std::iter::from_fn(move || {
            let (code, len) = (self.half(body, at)?, usize::from(self.half(body, at + 2)?));
            let value = body.get(at + 4..at + 4 + len)?;
            at += 4 + len.next_multiple_of(4);
            (code != 0).then_some((code, value))
        })
    }
}

impl Interface {
    /// As the format has it where a block says nothing.
    const UNKNOWN: Interface = Interface { name: None, link: ETHERNET, most: 0, units: 1_000_000, offset: 0 };

    /// The time of a packet; what lies before 1970 is 1970, what lies behind 2106 is then.
    fn time(&self, stamp: u64) -> Duration {
        let seconds = i128::from(stamp / self.units) + i128::from(self.offset);
        let nanoseconds = u128::from(stamp % self.units) * 1_000_000_000 / u128::from(self.units);
        // What a pcap file can say.
        Duration::new(seconds.clamp(0, u32::MAX.into()) as u64, nanoseconds as u32)
    }
}

/// Units to a second by the option that says so: a power of ten, or of two where the highest bit is set. `None`: finer
/// than times can be.
fn units(resolution: u8) -> Option<u64> {
    let power = u32::from(resolution & 0x7f);
    if resolution & 0x80 == 0 { 10u64.checked_pow(power) } else { 1u64.checked_shl(power) }
}

fn word(bytes: &[u8], at: usize, little: bool) -> Option<u32> {
    let word: [u8; 4] = bytes.get(at..at + 4)?.try_into().ok()?;
    Some(if little { u32::from_le_bytes(word) } else { u32::from_be_bytes(word) })
}
