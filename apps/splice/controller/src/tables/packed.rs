//! Flow entries as the program's tables have them: what many of them have in common they share, see [`NextHop`].

use std::collections::HashSet;
use std::net::Ipv6Addr;

use baker::ir::TableError;
use dataplane::controller::Record;
use wire::flow_key::FlowKey;

use crate::tables::flow_entry::{FlowEntry, Mode};
use crate::tables::next_hops::{NextHop, NextHops};

/// A flow entry as the program has it (`flow_t` of `apps/splice`).
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
    next_hop: u16,
    src_port: u16,
    dst_port: u16,
    bits: u8,
    scales: u8,
}

/// The bits of a flow entry that are its mode, and how far left those are that say what has ended.
const MODE: u8 = 7;
const ENDED: u32 = 3;

impl Record for Packed {
    const FIELDS: usize = 16;

    fn to_fields(&self, fields: &mut [u128]) {
        (self.dst, self.framing).to_fields(&mut fields[..2]);
        (self.seq, self.ack, self.tsval, self.tsecr).to_fields(&mut fields[2..6]);
        (self.limit, self.acked, self.seen).to_fields(&mut fields[6..9]);
        (self.window, self.facts, self.next_hop).to_fields(&mut fields[9..12]);
        (self.src_port, self.dst_port, self.bits, self.scales).to_fields(&mut fields[12..]);
    }

    fn from_fields(fields: &[u128]) -> Option<Self> {
        if fields.len() != Self::FIELDS {
            return None;
        }
        let (dst, framing) = Record::from_fields(&fields[..2])?;
        let (seq, ack, tsval, tsecr) = Record::from_fields(&fields[2..6])?;
        let (limit, acked, seen) = Record::from_fields(&fields[6..9])?;
        let (window, facts, next_hop) = Record::from_fields(&fields[9..12])?;
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
            next_hop,
            src_port,
            dst_port,
            bits,
            scales,
        })
    }
}

impl Packed {
    /// A flow entry that is found by `flow_key`, with the next hop of this number.
    fn of(flow_key: &FlowKey, flow: &FlowEntry, next_hop: u16) -> Packed {
        let to = if leads_on(flow_key, flow) { flow.to } else { FlowKey::UNSPECIFIED };
        // A window that was cut short by an acknowledgement ends a little too early, until the next one.
        let window = (flow.edge.wrapping_sub(flow.acked) as i32).max(0) >> (flow.scale & 15);
        Packed {
            dst: to.dst,
            framing: flow.framing,
            seq: flow.seq,
            ack: flow.ack,
            tsval: flow.tsval,
            tsecr: flow.tsecr,
            limit: flow.limit,
            acked: flow.acked,
            seen: flow.seen,
            window: window.min(0xffff) as u16,
            facts: flow.facts,
            next_hop,
            src_port: to.src_port,
            dst_port: to.dst_port,
            bits: flow.mode as u8 | (flow.ended & 3) << ENDED,
            scales: flow.scale & 15 | flow.advertised_scale << 4,
        }
    }

    /// As [`FlowEntry::ended`].
    fn ended(&self) -> u8 {
        self.bits >> ENDED & 3
    }

    fn unpacked(&self, flow_key: &FlowKey, next_hop: NextHop) -> FlowEntry {
        let to = if self.dst.is_unspecified() {
            flow_key.reversed()
        } else {
            let src = if next_hop.src.is_unspecified() { flow_key.src } else { next_hop.src };
            FlowKey { src, dst: self.dst, src_port: self.src_port, dst_port: self.dst_port }
        };
        let scale = self.scales & 15;
        FlowEntry {
            mode: MODES.get(usize::from(self.bits & MODE)).copied().unwrap_or_default(),
            ended: self.ended(),
            port: next_hop.port,
            scale,
            advertised_scale: self.scales >> 4,
            dst_mac: next_hop.mac,
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

/// Whether a flow entry leads to another host than to the one that its segments come from.
fn leads_on(flow_key: &FlowKey, flow: &FlowEntry) -> bool {
    flow.to != flow_key.reversed()
}

/// By number, as `mode_t` has them.
const MODES: [Mode; 8] = [
    Mode::Held,
    Mode::Limited,
    Mode::Open,
    Mode::Closing,
    Mode::Finishing,
    Mode::Awaiting,
    Mode::Answered,
    Mode::Acknowledging,
];

/// The program's tables of flow entries (`spliced.flows`) and of next hops (`spliced.next_hops`).
pub trait Tables {
    /// A flow entry.
    fn entry(&self, flow_key: &FlowKey) -> Option<Packed>;
    /// Makes or replaces a flow entry; what it was until then.
    ///
    /// # Errors
    /// Where there is no room.
    fn set_entry(&mut self, flow_key: &FlowKey, flow: &Packed) -> Result<Option<Packed>, TableError>;
    /// Removes one, where it is there.
    fn remove_entry(&mut self, flow_key: &FlowKey);
    /// All of them.
    fn entries(&self) -> Vec<(FlowKey, Packed)>;
    /// The next hops that are not the default.
    fn next_hops(&self) -> Vec<(u32, NextHop)>;
    /// Sets a next hop that no flow entry has; false where that failed.
    fn add_next_hop(&mut self, number: u32, next_hop: &NextHop) -> bool;
    /// Makes next hops that no flow entry has the default's, and waits until no packet has one of them; false where
    /// that failed.
    fn clear_next_hops(&mut self, numbers: &[u32]) -> bool;
}

/// Flow entries in such tables.
#[derive(Debug)]
pub struct FlowTable<T> {
    tables: T,
    next_hops: NextHops,
    /// How many more next hops are refused before all flow entries are looked at for those that no entry has.
    patience: u32,
}

impl<T: Tables> FlowTable<T> {
    /// Refused next hops per look at all flow entries.
    const PATIENCE: u32 = 1000;

    /// With what is in them.
    pub fn new(tables: T) -> Self {
        FlowTable { next_hops: NextHops::of(tables.next_hops()), tables, patience: 0 }
    }

    /// The tables.
    pub fn tables(&self) -> &T {
        &self.tables
    }

    /// The flow entry of segments with this key.
    pub fn get(&self, flow_key: &FlowKey) -> Option<FlowEntry> {
        Some(self.unpacked(flow_key, &self.tables.entry(flow_key)?))
    }

    /// Makes or replaces one. False where there is no room.
    pub fn set(&mut self, flow_key: &FlowKey, flow: &FlowEntry) -> bool {
        self.exchange(flow_key, flow).is_ok()
    }

    /// As [`FlowTable::set`], with what it was by then.
    fn exchange(&mut self, flow_key: &FlowKey, flow: &FlowEntry) -> Result<Option<Packed>, TableError> {
        let keeps_source = !leads_on(flow_key, flow) || flow.to.src == flow_key.src;
        let src = if keeps_source { Ipv6Addr::UNSPECIFIED } else { flow.to.src };
        let next_hop = NextHop { src, mac: flow.dst_mac, port: flow.port };
        let number = self.next_hops.number(&next_hop).or_else(|| self.add(next_hop)).ok_or(TableError::Full)?;
        self.tables.set_entry(flow_key, &Packed::of(flow_key, flow, number))
    }

    /// Replaces one that was read a moment ago. What has passed since is not forgotten: a FIN or a reset, and a
    /// response whose head was read. Packets note that in the flow entry that they have found. False where there is no
    /// room.
    pub fn update(&mut self, flow_key: &FlowKey, flow: &FlowEntry) -> bool {
        let before = match self.exchange(flow_key, flow) {
            Ok(Some(before)) => self.unpacked(flow_key, &before),
            Ok(None) => return true,
            Err(_) => return false,
        };
        let late = FlowEntry { ended: flow.ended | before.ended, ..flow.clone().keep_answer(&before) };
        late == *flow || self.update(flow_key, &late)
    }

    /// Removes one, where it is there.
    pub fn remove(&mut self, flow_key: &FlowKey) {
        self.tables.remove_entry(flow_key);
    }

    /// All of them.
    pub fn entries(&self) -> Vec<(FlowKey, FlowEntry)> {
        self.tables.entries().iter().map(|(flow_key, packed)| (*flow_key, self.unpacked(flow_key, packed))).collect()
    }

    fn unpacked(&self, flow_key: &FlowKey, packed: &Packed) -> FlowEntry {
        packed.unpacked(flow_key, self.next_hops.next_hop(packed.next_hop))
    }

    /// Gives a next hop a number before a flow entry has it.
    fn add(&mut self, next_hop: NextHop) -> Option<u16> {
        let number = self.next_hops.add(next_hop).or_else(|| {
            self.take_back();
            self.next_hops.add(next_hop)
        })?;
        if !self.tables.add_next_hop(number.into(), &next_hop) {
            self.next_hops.forget(&next_hop);
            return None;
        }
        Some(number)
    }

    /// Takes the numbers back that no flow entry has.
    fn take_back(&mut self) {
        if self.patience > 0 {
            self.patience -= 1;
            return;
        }
        self.patience = Self::PATIENCE;
        let used: HashSet<u16> = self.tables.entries().iter().map(|(_, packed)| packed.next_hop).collect();
        let unused = self.next_hops.unused(&used);
        let numbers: Vec<u32> = unused.iter().map(|(number, _)| u32::from(*number)).collect();
        if self.tables.clear_next_hops(&numbers) {
            unused.iter().for_each(|(_, next_hop)| self.next_hops.forget(next_hop));
        } else {
            // They keep their numbers, and may be used again.
            unused.iter().for_each(|(number, next_hop)| _ = self.tables.add_next_hop((*number).into(), next_hop));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use dataplane::controller::fields_of;

    use super::*;

    /// Tables in memory.
    #[derive(Default)]
    struct Mock {
        flows: HashMap<FlowKey, Packed>,
        next_hops: HashMap<u32, NextHop>,
        /// Bits that a packet sets while the next flow entry is replaced.
        ended: u8,
    }

    impl Tables for Mock {
        fn entry(&self, flow_key: &FlowKey) -> Option<Packed> {
            self.flows.get(flow_key).copied()
        }

        fn set_entry(&mut self, flow_key: &FlowKey, flow: &Packed) -> Result<Option<Packed>, TableError> {
            // Just then a packet is on its way that ends it.
            let before = self.flows.insert(*flow_key, *flow);
            Ok(before.map(|before| Packed { bits: before.bits | std::mem::take(&mut self.ended), ..before }))
        }

        fn remove_entry(&mut self, flow_key: &FlowKey) {
            self.flows.remove(flow_key);
        }

        fn entries(&self) -> Vec<(FlowKey, Packed)> {
            self.flows.iter().map(|(flow_key, flow)| (*flow_key, *flow)).collect()
        }

        fn next_hops(&self) -> Vec<(u32, NextHop)> {
            self.next_hops.iter().map(|(number, next_hop)| (*number, *next_hop)).collect()
        }

        fn add_next_hop(&mut self, number: u32, next_hop: &NextHop) -> bool {
            self.next_hops.insert(number, *next_hop);
            true
        }

        fn clear_next_hops(&mut self, numbers: &[u32]) -> bool {
            self.next_hops.retain(|number, _| !numbers.contains(number));
            true
        }
    }

    fn flow_key(src: u128, dst: u128) -> FlowKey {
        FlowKey { src: src.into(), dst: dst.into(), src_port: 7, dst_port: 80 }
    }

    /// All of whose fields differ.
    fn flow(to: FlowKey) -> FlowEntry {
        FlowEntry {
            mode: Mode::Closing,
            ended: 2,
            port: 3,
            scale: 4,
            advertised_scale: 14,
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
    fn a_flow_entry_is_the_same_behind_the_tables() {
        let mut flows = FlowTable::new(Mock::default());
        let own = flow_key(1, 2);
        let translated = flow(FlowKey { src_port: 1000, ..flow_key(3, 4) });
        let transparent = flow(FlowKey { src_port: 1000, ..flow_key(1, 4) });
        let nowhere = flow(own.reversed());
        for flow in [translated, transparent, nowhere, FlowEntry::held(own.reversed(), 9)] {
            assert!(flows.set(&own, &flow));
            let packed = flows.tables.entry(&own).unwrap();
            assert_eq!(Packed::from_fields(&fields_of(&packed)), Some(packed));
            assert_eq!(flows.get(&own), Some(flow.clone()));
            // Another process finds the same.
            let again = FlowTable::new(Mock {
                flows: flows.tables.flows.clone(),
                next_hops: flows.tables.next_hops.clone(),
                ended: 0,
            });
            assert_eq!(again.entries(), [(own, flow)]);
        }
        // What a client's address is in is no next hop.
        assert_eq!(flows.tables.next_hops.len(), 2);
    }

    #[test]
    fn what_ends_a_connection_while_its_flow_entry_is_replaced_is_kept() {
        let mut flows = FlowTable::new(Mock::default());
        let own = flow_key(1, 2);
        let open = FlowEntry { ended: 0, ..flow(own.reversed()) };
        assert!(flows.set(&own, &open));
        for (late, kept) in [(0, 0), (1, 1), (2, 3)] {
            flows.tables.ended = late << ENDED;
            let read = flows.get(&own).unwrap();
            assert!(flows.update(&own, &FlowEntry { limit: read.limit + 1, ..read }));
            assert_eq!(flows.get(&own).unwrap().ended, kept);
        }
        // A flow entry that is made anew is meant.
        assert!(flows.set(&own, &open));
        assert_eq!(flows.get(&own), Some(open));
    }

    #[test]
    fn a_window_is_no_wider_than_it_was() {
        let mut flows = FlowTable::new(Mock::default());
        let own = flow_key(1, 2);
        for (edge, found) in [(1015, 1000), (1016, 1016), (999, 1000), (u32::MAX, 1000), (1 << 30, 1000 + 0xf_fff0)] {
            let flow = FlowEntry { acked: 1000, edge, scale: 4, ..FlowEntry::held(own.reversed(), 1) };
            assert!(flows.set(&own, &flow));
            assert_eq!(flows.get(&own).unwrap().edge, found, "{edge}");
        }
    }

    #[test]
    fn next_hops_of_flow_entries_that_have_gone_make_room() {
        let mut flows = FlowTable::new(Mock::default());
        let own = |number: u16| FlowKey { src_port: number, ..flow_key(1, 2) };
        let by = |number: u16| {
            let [high, low] = number.to_be_bytes();
            FlowEntry { dst_mac: [2, 0, 0, 0, high, low], ..flow(FlowKey { src_port: 1000, ..flow_key(3, 4) }) }
        };
        for number in 1..=u16::MAX {
            assert!(flows.set(&own(number), &by(number)), "{number}");
        }
        let more = FlowEntry { port: 9, ..by(0) };
        assert!(!flows.set(&own(0), &more), "all numbers are in use");
        flows.remove(&own(77));
        // All flow entries are looked at again after a while only.
        let tries = (0..).take_while(|_| !flows.set(&own(0), &more)).count();
        assert_eq!(tries, 1000);
        assert_eq!(flows.get(&own(0)), Some(more));
        assert_eq!(flows.get(&own(78)), Some(by(78)));
    }
}
