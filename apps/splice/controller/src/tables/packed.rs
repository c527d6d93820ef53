//! Flow entries as the program's tables have them: what many of them have in common they share, see [`NextHop`].

use std::collections::HashSet;
use std::net::Ipv6Addr;

use baker::ir::TableError;
use dataplane::controller::{Fields, Record};
use wire::flow_key::FlowKey;

use crate::tables::flow_entry::{FlowEntry, Mode};
use crate::tables::next_hops::{NextHop, NextHops};

/// A control block as the program has it (`block_t` of `apps/splice`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packed {
    dst: Ipv6Addr,
    framing: u64,
    seq: u32,
    ack: u32,
    tsval: u32,
    tsecr: u32,
    limit: u32,
    acked: u32,
    seen: u32,
    window: u16,
    facts: u16,
    way: u16,
    src_port: u16,
    dst_port: u16,
    bits: u8,
    scales: u8,
}

/// The bits of a block that are its mode, and how far left those are that say what has ended.
const MODE: u8 = 7;
const ENDED: u32 = 3;

impl Record for Packed {
    const FIELDS: usize = 16;

    fn to_fields(&self, fields: &mut Fields) {
        (self.dst, self.framing).to_fields(fields);
        (self.seq, self.ack, self.tsval, self.tsecr).to_fields(fields);
        (self.limit, self.acked, self.seen).to_fields(fields);
        (self.window, self.facts, self.way).to_fields(fields);
        (self.src_port, self.dst_port, self.bits, self.scales).to_fields(fields);
    }

    fn from_fields(fields: &[u128]) -> Option<Self> {
        if fields.len() != Self::FIELDS {
            return None;
        }
        let (dst, framing) = Record::from_fields(&fields[..2])?;
        let (seq, ack, tsval, tsecr) = Record::from_fields(&fields[2..6])?;
        let (limit, acked, seen) = Record::from_fields(&fields[6..9])?;
        let (window, facts, way) = Record::from_fields(&fields[9..12])?;
        let (src_port, dst_port, bits, scales) = Record::from_fields(&fields[12..])?;
        Some(Packed {
            dst,
            framing,
            seq,
            ack,
            tsval,
            tsecr,
            limit,
            acked,
            seen,
            window,
            facts,
            way,
            src_port,
            dst_port,
            bits,
            scales,
        })
    }
}

impl Packed {
    /// A block that is found by `ends`, and leads a way with this number.
    fn of(ends: &FlowKey, block: &FlowEntry, way: u16) -> Packed {
        let to = if leads_on(ends, block) { block.to } else { FlowKey::NOWHERE };
        // A window that was cut short by an acknowledgement ends a little too early, until the next one.
        let window = (block.edge.wrapping_sub(block.acked) as i32).max(0) >> (block.scale & 15);
        Packed {
            dst: to.dst,
            framing: block.framing,
            seq: block.seq,
            ack: block.ack,
            tsval: block.tsval,
            tsecr: block.tsecr,
            limit: block.limit,
            acked: block.acked,
            seen: block.seen,
            window: window.min(0xffff) as u16,
            facts: block.facts,
            way,
            src_port: to.src_port,
            dst_port: to.dst_port,
            bits: block.mode as u8 | (block.ended & 3) << ENDED,
            scales: block.scale & 15 | block.told << 4,
        }
    }

    /// As [`FlowEntry::ended`].
    fn ended(&self) -> u8 {
        self.bits >> ENDED & 3
    }

    fn unpacked(&self, ends: &FlowKey, way: NextHop) -> FlowEntry {
        let to = if self.dst.is_unspecified() {
            ends.turned()
        } else {
            let src = if way.src.is_unspecified() { ends.src } else { way.src };
            FlowKey { src, dst: self.dst, src_port: self.src_port, dst_port: self.dst_port }
        };
        let scale = self.scales & 15;
        FlowEntry {
            mode: MODES.get(usize::from(self.bits & MODE)).copied().unwrap_or_default(),
            ended: self.ended(),
            port: way.port,
            scale,
            told: self.scales >> 4,
            dst_mac: way.mac,
            to,
            seq: self.seq,
            ack: self.ack,
            tsval: self.tsval,
            tsecr: self.tsecr,
            limit: self.limit,
            acked: self.acked,
            edge: self.acked.wrapping_add(u32::from(self.window) << scale),
            seen: self.seen,
            framing: self.framing,
            facts: self.facts,
        }
    }
}

/// Whether a block leads to another host than to the one that its segments come from.
fn leads_on(ends: &FlowKey, block: &FlowEntry) -> bool {
    block.to != ends.turned()
}

/// By number, as `mode_t` has them.
const MODES: [Mode; 5] = [Mode::Held, Mode::Limited, Mode::Open, Mode::Closing, Mode::Finishing];

/// The program's tables of flow entries (`spliced.blocks`) and of next hops (`spliced.ways`).
pub trait Tables {
    /// A block.
    fn entry(&self, ends: &FlowKey) -> Option<Packed>;
    /// Makes or replaces a block; what it was until then.
    ///
    /// # Errors
    /// Where there is no room.
    fn set_entry(&mut self, ends: &FlowKey, block: &Packed) -> Result<Option<Packed>, TableError>;
    /// Removes one, where it is there.
    fn remove_entry(&mut self, ends: &FlowKey);
    /// All of them.
    fn entries(&self) -> Vec<(FlowKey, Packed)>;
    /// The ways that are not the default.
    fn next_hops(&self) -> Vec<(u32, NextHop)>;
    /// Sets ways; false where that failed.
    fn set_next_hops(&mut self, ways: &[(u32, NextHop)]) -> bool;
}

/// Flow entries in such tables.
#[derive(Debug)]
pub struct FlowTable<T> {
    tables: T,
    ways: NextHops,
    /// How many more ways are refused before all blocks are looked at for those that nobody has.
    patience: u32,
}

impl<T: Tables> FlowTable<T> {
    /// Refused ways per look at all blocks.
    const PATIENCE: u32 = 1000;

    /// With what is in them.
    pub fn new(tables: T) -> Self {
        FlowTable { ways: NextHops::of(tables.next_hops()), tables, patience: 0 }
    }

    /// The tables.
    pub fn tables(&self) -> &T {
        &self.tables
    }

    /// The flow entry of segments with this key.
    pub fn get(&self, ends: &FlowKey) -> Option<FlowEntry> {
        Some(self.unpacked(ends, &self.tables.entry(ends)?))
    }

    /// Makes or replaces one. False where there is no room.
    pub fn set(&mut self, ends: &FlowKey, block: &FlowEntry) -> bool {
        self.exchange(ends, block).is_ok()
    }

    /// As [`FlowTable::set`], with the bits of what had ended it by then.
    fn exchange(&mut self, ends: &FlowKey, block: &FlowEntry) -> Result<u8, TableError> {
        let keeps_source = !leads_on(ends, block) || block.to.src == ends.src;
        let src = if keeps_source { Ipv6Addr::UNSPECIFIED } else { block.to.src };
        let way = NextHop { src, mac: block.dst_mac, port: block.port };
        let number = self.ways.number(&way).or_else(|| self.add(way)).ok_or(TableError::Full)?;
        let before = self.tables.set_entry(ends, &Packed::of(ends, block, number))?;
        Ok(before.map_or(0, |before| before.ended()))
    }

    /// Replaces one that was read a moment ago. A FIN or a reset that has passed since is not forgotten: packets note
    /// it in the block that they have found. False where there is no room.
    pub fn update(&mut self, ends: &FlowKey, block: &FlowEntry) -> bool {
        let Ok(ended) = self.exchange(ends, block) else { return false };
        let late = ended & !block.ended;
        late == 0 || self.update(ends, &FlowEntry { ended: block.ended | late, ..block.clone() })
    }

    /// Removes one, where it is there.
    pub fn remove(&mut self, ends: &FlowKey) {
        self.tables.remove_entry(ends);
    }

    /// All of them.
    pub fn entries(&self) -> Vec<(FlowKey, FlowEntry)> {
        self.tables.entries().iter().map(|(ends, packed)| (*ends, self.unpacked(ends, packed))).collect()
    }

    fn unpacked(&self, ends: &FlowKey, packed: &Packed) -> FlowEntry {
        packed.unpacked(ends, self.ways.way(packed.way))
    }

    /// Gives a way a number before a block has it. A packet that is on its way at that moment may find the table as it
    /// was before: it leaves by no port then, and comes again.
    fn add(&mut self, way: NextHop) -> Option<u16> {
        let number = self.ways.add(way).or_else(|| {
            self.take_back();
            self.ways.add(way)
        })?;
        if !self.tables.set_next_hops(&[(number.into(), way)]) {
            self.ways.forget(&way);
            return None;
        }
        Some(number)
    }

    /// Takes the numbers back that no block has.
    fn take_back(&mut self) {
        if self.patience > 0 {
            self.patience -= 1;
            return;
        }
        self.patience = Self::PATIENCE;
        let used: HashSet<u16> = self.tables.entries().iter().map(|(_, packed)| packed.way).collect();
        let unused = self.ways.unused(&used);
        // What is on its way when a number is given again finds nothing there, and not what it was before.
        let none: Vec<(u32, NextHop)> =
            unused.iter().map(|(number, _)| (u32::from(*number), NextHop::default())).collect();
        if self.tables.set_next_hops(&none) {
            unused.iter().for_each(|(_, way)| self.ways.forget(way));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    /// Tables in memory.
    #[derive(Default)]
    struct Mock {
        blocks: HashMap<FlowKey, Packed>,
        ways: HashMap<u32, NextHop>,
        /// Bits that a packet sets while the next block is replaced.
        ends: u8,
    }

    impl Tables for Mock {
        fn entry(&self, ends: &FlowKey) -> Option<Packed> {
            self.blocks.get(ends).copied()
        }

        fn set_entry(&mut self, ends: &FlowKey, block: &Packed) -> Result<Option<Packed>, TableError> {
            // Just then a packet is on its way that ends it.
            let before = self.blocks.insert(*ends, *block);
            Ok(before.map(|before| Packed { bits: before.bits | std::mem::take(&mut self.ends), ..before }))
        }

        fn remove_entry(&mut self, ends: &FlowKey) {
            self.blocks.remove(ends);
        }

        fn entries(&self) -> Vec<(FlowKey, Packed)> {
            self.blocks.iter().map(|(ends, block)| (*ends, *block)).collect()
        }

        fn next_hops(&self) -> Vec<(u32, NextHop)> {
            self.ways.iter().map(|(number, way)| (*number, *way)).collect()
        }

        fn set_next_hops(&mut self, ways: &[(u32, NextHop)]) -> bool {
            self.ways.extend(ways.iter().copied());
            true
        }
    }

    fn ends(src: u128, dst: u128) -> FlowKey {
        FlowKey { src: src.into(), dst: dst.into(), src_port: 7, dst_port: 80 }
    }

    /// All of whose fields differ.
    fn block(to: FlowKey) -> FlowEntry {
        FlowEntry {
            mode: Mode::Closing,
            ended: 2,
            port: 3,
            scale: 4,
            told: 14,
            dst_mac: [1, 2, 3, 4, 5, 6],
            to,
            seq: 5,
            ack: 6,
            tsval: 7,
            tsecr: 8,
            limit: 9,
            acked: u32::MAX,
            edge: 0x000f_ffef,
            seen: 10,
            framing: u64::MAX,
            facts: 11,
        }
    }

    #[test]
    fn a_block_is_the_same_behind_the_tables() {
        let mut blocks = FlowTable::new(Mock::default());
        let own = ends(1, 2);
        let translated = block(FlowKey { src_port: 1000, ..ends(3, 4) });
        let transparent = block(FlowKey { src_port: 1000, ..ends(1, 4) });
        let nowhere = block(own.turned());
        for block in [translated, transparent, nowhere, FlowEntry::held(own.turned(), 9)] {
            assert!(blocks.set(&own, &block));
            let packed = blocks.tables.entry(&own).unwrap();
            let mut fields = Fields::new();
            packed.to_fields(&mut fields);
            assert_eq!((fields.len(), Packed::from_fields(&fields)), (Packed::FIELDS, Some(packed)));
            assert_eq!(blocks.get(&own), Some(block.clone()));
            // Another process finds the same.
            let again = FlowTable::new(Mock {
                blocks: blocks.tables.blocks.clone(),
                ways: blocks.tables.ways.clone(),
                ends: 0,
            });
            assert_eq!(again.entries(), [(own, block)]);
        }
        // What a client's address is in is no way.
        assert_eq!(blocks.tables.ways.len(), 2);
    }

    #[test]
    fn what_ends_a_connection_while_its_block_is_replaced_is_kept() {
        let mut blocks = FlowTable::new(Mock::default());
        let own = ends(1, 2);
        let open = FlowEntry { ended: 0, ..block(own.turned()) };
        assert!(blocks.set(&own, &open));
        for (late, kept) in [(0, 0), (1, 1), (2, 3)] {
            blocks.tables.ends = late << ENDED;
            let read = blocks.get(&own).unwrap();
            assert!(blocks.update(&own, &FlowEntry { limit: read.limit + 1, ..read }));
            assert_eq!(blocks.get(&own).unwrap().ended, kept);
        }
        // Who makes a block anew means it.
        assert!(blocks.set(&own, &open));
        assert_eq!(blocks.get(&own), Some(open));
    }

    #[test]
    fn a_window_is_no_wider_than_it_was() {
        let mut blocks = FlowTable::new(Mock::default());
        let own = ends(1, 2);
        for (edge, found) in [(1015, 1000), (1016, 1016), (999, 1000), (u32::MAX, 1000), (1 << 30, 1000 + 0xf_fff0)] {
            let block = FlowEntry { acked: 1000, edge, scale: 4, ..FlowEntry::held(own.turned(), 1) };
            assert!(blocks.set(&own, &block));
            assert_eq!(blocks.get(&own).unwrap().edge, found, "{edge}");
        }
    }

    #[test]
    fn ways_of_blocks_that_have_gone_make_room() {
        let mut blocks = FlowTable::new(Mock::default());
        let own = |number: u16| FlowKey { src_port: number, ..ends(1, 2) };
        let by = |number: u16| {
            let [high, low] = number.to_be_bytes();
            FlowEntry { dst_mac: [2, 0, 0, 0, high, low], ..block(FlowKey { src_port: 1000, ..ends(3, 4) }) }
        };
        for number in 1..=u16::MAX {
            assert!(blocks.set(&own(number), &by(number)), "{number}");
        }
        let more = FlowEntry { port: 9, ..by(0) };
        assert!(!blocks.set(&own(0), &more), "all numbers are in use");
        blocks.remove(&own(77));
        // All blocks are looked at again after a while only.
        let tries = (0..).take_while(|_| !blocks.set(&own(0), &more)).count();
        assert_eq!(tries, 1000);
        assert_eq!(blocks.get(&own(0)), Some(more));
        assert_eq!(blocks.get(&own(78)), Some(by(78)));
    }
}
