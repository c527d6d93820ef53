//! The kernel's virtual machine, to count what a packet executes (RFC 9669): exactly, for any XDP code, and without
//! privilege.
//!
//! Memory is regions, each at a multiple of 2^40, and every access is tested. What functions of the kernel do inside is
//! not counted: a call is one instruction. The kernel's own compiler puts look-ups in arrays in line, which counts as a
//! call here, too. Packets may be divided into fragments, of which only the first lies between the packet's pointers.

mod arith;
mod functions;
mod region;
mod socket_buffer;

use std::collections::HashMap;

use crate::kernel::{Hook, MapUse, Object};
use arith::{arithmetic, decides};
pub use region::Borrowed;
use region::Region;
pub use socket_buffer::Offloads;

/// Instructions after which a packet is given up.
const MOST: u64 = 10_000_000;
/// Tail calls that one packet may make.
const MOST_CALLS: u32 = 33;
/// Bytes in front of a received frame, and behind one of the longest.
const HEADROOM: usize = 256;
const ROOM: usize = HEADROOM + 4096;
const STACK: usize = 512;
/// Records that rings take where nothing else is said.
const RING_ROOM: usize = 4096;
/// Bits of a distance in a region.
const SHIFT: u32 = 40;
/// Regions: the context, the stack, the packet, a record of a ring that is not submitted yet; behind them memories of
/// maps.
const CONTEXT: usize = 0;
const STACKS: usize = 1;
const PACKET: usize = 2;
const RECORD: usize = 3;
/// Regions from here on are maps themselves.
const MAPS: usize = 1 << 16;

/// A map that code refers to.
#[derive(Debug)]
pub enum Map {
    /// Memory whose address code loads.
    Memory(Vec<u8>),
    /// The same, of another owner.
    Borrowed(Borrowed),
    /// An array or hash table: keys of so many bytes, and the values there are; look-ups give their addresses.
    Table {
        /// Bytes of a key.
        key: usize,
        /// The values.
        values: HashMap<Vec<u8>, Vec<u8>>,
    },
    /// Whose entries packets are redirected to; all are there.
    Targets,
    /// Programs that tail calls go on with, by number.
    Programs(HashMap<u32, usize>),
    /// Rings by queue: one, whatever the queue ([`Machine::take_records`]).
    Rings,
}

/// Code with the slots that load maps, and their numbers.
#[derive(Clone, Debug)]
pub struct Image {
    /// Instructions of 8 bytes.
    pub code: Vec<u8>,
    /// Slot, and number of the map.
    pub maps: Vec<(usize, usize)>,
}

/// What came of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Executed {
    /// What the program returned.
    pub verdict: u32,
    /// The packet.
    pub packet: Vec<u8>,
    /// Instructions executed; a load of two slots is one.
    pub instructions: u64,
    /// Those of them that call the kernel.
    pub calls: u64,
}

/// Why a packet did not come to an end, with the instruction's number.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("instruction {at}: {what}")]
pub struct Fault {
    /// The instruction.
    pub at: usize,
    /// What is wrong.
    pub what: String,
}

/// Programs and their maps.
#[derive(Debug)]
pub struct Machine {
    images: Vec<Image>,
    maps: Vec<Map>,
    /// Where the memory of each map is, and of each value of a table.
    addresses: Vec<HashMap<Vec<u8>, u64>>,
    regions: Vec<Region>,
    /// Of the packet: its first byte, and the ends of its first fragment and of all.
    data: usize,
    first: usize,
    end: usize,
    /// The clock, in nanoseconds.
    pub now: u64,
    /// Records that rings take until some are taken out.
    pub ring_room: usize,
    records: Vec<Vec<u8>>,
    /// Whether a record is reserved.
    reserved: bool,
    /// Records that were submitted with a wake-up.
    wakes: u64,
    /// Where the program runs.
    pub hook: Hook,
    /// At [`Hook::Tc`]: what the packet's sender, or the device that it came by, has left to others or done.
    pub offloads: Offloads,
}

impl Machine {
    /// The first program is what packets enter.
    pub fn new(images: Vec<Image>, maps: Vec<Map>) -> Machine {
        let mut regions: Vec<_> =
            [socket_buffer::CONTEXT_BYTES, STACK, ROOM, 0].map(|len| Region::Own(vec![0; len])).into();
        let mut addresses = Vec::new();
        for map in &maps {
            let mut at = HashMap::new();
            let mut add = |key: &[u8], region: Region| {
                at.insert(key.to_vec(), (regions.len() as u64 + 1) << SHIFT);
                regions.push(region);
            };
            match map {
                Map::Memory(bytes) => add(&[], Region::Own(bytes.clone())),
                Map::Borrowed(borrowed) => add(&[], Region::Borrowed(*borrowed)),
                Map::Table { values, .. } => {
                    values.iter().for_each(|(key, value)| add(key, Region::Own(value.clone())));
                }
                Map::Targets | Map::Programs(_) | Map::Rings => {}
            }
            addresses.push(at);
        }
        let (data, first, end) = (HEADROOM, HEADROOM, HEADROOM);
        let (records, ring_room) = (Vec::new(), RING_ROOM);
        Machine {
            images,
            maps,
            addresses,
            regions,
            data,
            first,
            end,
            now: 0,
            ring_room,
            records,
            reserved: false,
            wakes: 0,
            hook: Hook::Xdp,
            offloads: Offloads::default(),
        }
    }

    /// A program and its parts by number, for a memory: [`Map::Memory`] or [`Map::Borrowed`].
    pub fn of(first: &Object, parts: &[(u32, &Object)], memory: Map) -> Machine {
        let number = |map: MapUse| match map {
            MapUse::Memory => 0,
            MapUse::Devices | MapUse::Sockets => 1,
            MapUse::Parts => 2,
            MapUse::Taps => 3,
        };
        let image = |object: &Object| Image {
            code: object.code.clone(),
            maps: object.maps.iter().map(|(slot, map)| (*slot, number(*map))).collect(),
        };
        let images = std::iter::once(image(first)).chain(parts.iter().map(|(_, object)| image(object)));
        let programs = parts.iter().zip(1..).map(|((number, _), index)| (*number, index)).collect();
        Machine::new(images.collect(), vec![memory, Map::Targets, Map::Programs(programs), Map::Rings])
    }

    /// Takes the records out of the rings, in order.
    pub fn take_records(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.records)
    }

    /// Records so far that were submitted with a wake-up of their reader.
    pub fn wakes(&self) -> u64 {
        self.wakes
    }

    /// The memory of a [`Map::Memory`].
    pub fn memory(&mut self, map: usize) -> Option<&mut [u8]> {
        let place = self.addresses.get(map)?.get(&Vec::new())?;
        Some(self.regions[(place >> SHIFT) as usize - 1].bytes())
    }

    /// Runs the program for a packet that came in by an interface and a queue.
    pub fn run(&mut self, packet: &[u8], interface: u32, queue: u32) -> Result<Executed, Fault> {
        self.run_divided(packet, packet.len(), interface, queue)
    }

    /// As [`Machine::run`], with so many bytes in the packet's first fragment.
    pub fn run_divided(&mut self, packet: &[u8], first: usize, interface: u32, queue: u32) -> Result<Executed, Fault> {
        let (first, end) = (HEADROOM + first.min(packet.len()), HEADROOM + packet.len());
        (self.data, self.first, self.end) = (HEADROOM, first, end);
        if first > ROOM && self.hook == Hook::Xdp {
            return Err(Fault { at: 0, what: format!("a first piece of {} bytes", first - HEADROOM) });
        }
        let mut region = vec![0; ROOM.max(end)];
        region[HEADROOM..end].copy_from_slice(packet);
        self.regions[PACKET] = Region::Own(region);
        match self.hook {
            Hook::Xdp => {
                let context = self.regions[CONTEXT].bytes();
                context[12..16].copy_from_slice(&interface.to_le_bytes());
                context[16..20].copy_from_slice(&queue.to_le_bytes());
            }
            Hook::Tc => self.socket_buffer(interface, queue),
        }
        let mut run = Run { machine: self, image: 0, at: 0, r: [0; 11], count: 0, calls: 0, tail_calls: 0 };
        run.start(0);
        let verdict = loop {
            let at = run.at;
            match run.step() {
                Ok(None) => {}
                Ok(Some(verdict)) => break verdict,
                Err(what) => return Err(Fault { at, what }),
            }
        };
        let (instructions, calls) = (run.count, run.calls);
        let packet = self.regions[PACKET].bytes()[self.data..self.end].to_vec();
        Ok(Executed { verdict, packet, instructions, calls })
    }

    fn bytes(&mut self, address: u64, len: usize) -> Result<&mut [u8], String> {
        let (region, at) = ((address >> SHIFT) as usize, (address & ((1 << SHIFT) - 1)) as usize);
        let bounds = if region == PACKET + 1 { self.data..self.first } else { 0..usize::MAX };
        let bytes = region.checked_sub(1).and_then(|region| self.regions.get_mut(region)).map(Region::bytes);
        let inside =
            bytes.filter(|_| at >= bounds.start && at + len <= bounds.end).and_then(|b| b.get_mut(at..at + len));
        inside.ok_or_else(|| format!("{len} bytes at {address:#x}"))
    }

    fn load(&mut self, address: u64, len: usize) -> Result<u64, String> {
        // Words of the context that are pointers.
        let packet = |at: usize| ((PACKET as u64 + 1) << SHIFT) + at as u64;
        match (self.hook, address.wrapping_sub((CONTEXT as u64 + 1) << SHIFT), len) {
            (Hook::Xdp, 0, 4) | (Hook::Tc, socket_buffer::DATA, 4) => return Ok(packet(self.data)),
            (Hook::Xdp, 4, 4) | (Hook::Tc, socket_buffer::DATA_END, 4) => return Ok(packet(self.first)),
            (Hook::Tc, socket_buffer::LEN, 4) => return Ok((self.end - self.data) as u64),
            _ => {}
        }
        let mut word = [0; 8];
        word[..len].copy_from_slice(self.bytes(address, len)?);
        Ok(u64::from_le_bytes(word))
    }

    fn store(&mut self, address: u64, len: usize, value: u64) -> Result<(), String> {
        if self.hook == Hook::Tc && address >> SHIFT == PACKET as u64 + 1 {
            return Err("a store into a packet that its sender may still have".into());
        }
        self.bytes(address, len)?.copy_from_slice(&value.to_le_bytes()[..len]);
        Ok(())
    }
}

/// A packet on the way.
struct Run<'m> {
    machine: &'m mut Machine,
    image: usize,
    at: usize,
    r: [u64; 11],
    count: u64,
    calls: u64,
    tail_calls: u32,
}

impl Run<'_> {
    fn start(&mut self, image: usize) {
        (self.image, self.at) = (image, 0);
        self.r[1] = (CONTEXT as u64 + 1) << SHIFT;
        self.r[10] = ((STACKS as u64 + 1) << SHIFT) + STACK as u64;
    }

    /// One instruction; what the program returns.
    fn step(&mut self) -> Result<Option<u32>, String> {
        self.count += 1;
        if self.count > MOST {
            return Err(format!("more than {MOST} instructions"));
        }
        let slot = |run: &Self, at: usize| -> Result<[u8; 8], String> {
            let slot = run.machine.images[run.image].code.get(at * 8..at * 8 + 8);
            slot.and_then(|slot| slot.try_into().ok()).ok_or_else(|| "the end of the code".to_owned())
        };
        let [op, registers, o0, o1, n0, n1, n2, n3] = slot(self, self.at)?;
        let (to, from) = ((registers & 15) as usize, (registers >> 4) as usize);
        if to > 10 || from > 10 {
            return Err(format!("registers {to} and {from}"));
        }
        let (offset, number) = (i16::from_le_bytes([o0, o1]), i32::from_le_bytes([n0, n1, n2, n3]));
        self.at += 1;
        let size = [4, 2, 1, 8][usize::from(op >> 3 & 3)];
        let address = |base: u64| base.wrapping_add(offset as i64 as u64);
        match op & 7 {
            // A number of 64 bits, or a map.
            0 => {
                let [.., h0, h1, h2, h3] = slot(self, self.at)?;
                let image = &self.machine.images[self.image];
                let map = image.maps.iter().find(|(at, _)| *at == self.at - 1).map(|(_, map)| *map);
                self.r[to] = match map {
                    Some(map) => match self.machine.addresses[map].get(&Vec::new()) {
                        Some(place) if matches!(self.machine.maps[map], Map::Memory(_) | Map::Borrowed(_)) => {
                            place + u64::from(u32::from_le_bytes([h0, h1, h2, h3]))
                        }
                        _ => ((MAPS + map) as u64) << SHIFT,
                    },
                    None => u64::from(u32::from_le_bytes([h0, h1, h2, h3])) << 32 | u64::from(number as u32),
                };
                self.at += 1;
            }
            1 => self.r[to] = self.machine.load(address(self.r[from]), size)?,
            2 => self.machine.store(address(self.r[to]), size, number as i64 as u64)?,
            3 if op >> 5 == 6 => self.atomic(address(self.r[to]), size, from, number)?,
            3 => self.machine.store(address(self.r[to]), size, self.r[from])?,
            4 | 7 => {
                let operand = if op & 8 == 0 { number as i64 as u64 } else { self.r[from] };
                self.r[to] = arithmetic(op, self.r[to], operand, number)?;
            }
            class => match op >> 4 {
                8 => {
                    self.calls += 1;
                    let [_, a, b, c, d, e, ..] = self.r;
                    if from != 0 {
                        return Err("a call within the code".to_owned());
                    }
                    if number == 12 {
                        let programs = (b >> SHIFT) as usize;
                        let Some(Map::Programs(programs)) =
                            programs.checked_sub(MAPS).and_then(|map| self.machine.maps.get(map))
                        else {
                            return Err(format!("a tail call to {b:#x}"));
                        };
                        match programs.get(&(c as u32)).copied() {
                            Some(image) if self.tail_calls < MOST_CALLS => {
                                self.tail_calls += 1;
                                self.start(image);
                            }
                            _ => self.r[0] = (-2i64) as u64,
                        }
                    } else {
                        self.r[0] = self.machine.help(number, [a, b, c, d, e])?;
                    }
                }
                9 if self.machine.reserved => return Err("the end, with a record that is not submitted".into()),
                9 => return Ok(Some(self.r[0] as u32)),
                condition => {
                    let operand = if op & 8 == 0 { number as i64 as u64 } else { self.r[from] };
                    let (a, b) = (self.r[to], operand);
                    let jumps =
                        if class == 6 { decides::<32>(condition, a, b)? } else { decides::<64>(condition, a, b)? };
                    if jumps {
                        let by = if class == 6 && condition == 0 { number as isize } else { offset as isize };
                        self.at = self.at.checked_add_signed(by).ok_or("a jump out of the code")?;
                    }
                }
            },
        }
        Ok(None)
    }

    fn atomic(&mut self, address: u64, size: usize, from: usize, what: i32) -> Result<(), String> {
        let old = self.machine.load(address, size)?;
        let by = self.r[from];
        let new = match what & 0xf0 {
            0x00 => old.wrapping_add(by),
            0x40 => old | by,
            0x50 => old & by,
            0xa0 => old ^ by,
            0xe0 => by,
            0xf0 if old == self.r[0] & (u64::MAX >> (64 - size * 8)) => by,
            0xf0 => old,
            _ => return Err(format!("atomic operation {what:#x}")),
        };
        self.machine.store(address, size, new)?;
        match what & 0xff {
            0xf1 => self.r[0] = old,
            what if what & 1 == 1 => self.r[from] = old,
            _ => {}
        }
        Ok(())
    }
}
