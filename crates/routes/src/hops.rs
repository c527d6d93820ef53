//! The next hops of a program: which number each has, and what the tables say of it.
//!
//! A number means the same for as long as a packet may hold it: it is given to another next hop only after all look-ups
//! that began before have ended. So a packet that has found a route finds the next hop that the route was set to.

use std::collections::{BTreeSet, HashMap};
use std::net::{IpAddr, Ipv6Addr};

use baker::ir::TableError;
use dataplane::controller::NamedTables;

use crate::blocks::{Blocks, MOST, spread};
use crate::decide::{Reason, Way};
use crate::program::{FIRST, HOPS, Hop, HopAction, Tables, mapped};

/// What a next hop is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Key {
    Host,
    Drop(Reason),
    Way(Way),
    /// Numbers of the ways, and their weights.
    Group(Vec<(u32, u16)>),
}

/// What the tables say of one that is no group: the next hop, and the host's address towards it.
pub type Rendered = (Hop, Option<IpAddr>);

#[derive(Debug)]
struct Slot {
    key: Key,
    /// Routes and groups that lead to it.
    refs: u32,
    /// A group's places in `ways`.
    block: Option<(u32, u32)>,
    /// What the tables say.
    written: Option<(Hop, Ipv6Addr)>,
}

/// There is no room for one more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// The next hops.
#[derive(Debug)]
pub struct Hops {
    by_key: HashMap<Key, u32>,
    slots: Vec<Option<Slot>>,
    by_neighbour: HashMap<(IpAddr, u32), Vec<u32>>,
    free: Vec<u32>,
    /// From here on no number was ever given.
    fresh: u32,
    /// Numbers and places that packets may still hold.
    cooling: Vec<u32>,
    cooling_blocks: Vec<(u32, u32)>,
    blocks: Blocks,
    /// Numbers of the instance or program before, by what they say; those of groups; and the places that are free when
    /// nothing leads to these any more.
    stale: HashMap<(Hop, Ipv6Addr), Vec<u32>>,
    stale_groups: Vec<u32>,
    stale_blocks: Vec<(u32, u32)>,
    /// To be written.
    dirty: BTreeSet<u32>,
    /// Some have numbers that packets in flight can't know yet.
    unsettled: bool,
    /// Ways that the kernel has not been asked for yet.
    pub unasked: Vec<u32>,
}

impl Hops {
    /// Those that the tables have are kept where they say what is needed.
    pub fn adopt(tables: &Tables) -> Hops {
        let mut hops = Hops {
            by_key: HashMap::new(),
            slots: Vec::new(),
            by_neighbour: HashMap::new(),
            free: Vec::new(),
            fresh: FIRST,
            cooling: Vec::new(),
            cooling_blocks: Vec::new(),
            blocks: Blocks::new(0, HOPS),
            stale: HashMap::new(),
            stale_groups: Vec::new(),
            stale_blocks: Vec::new(),
            dirty: BTreeSet::new(),
            unsettled: false,
            unasked: Vec::new(),
        };
        let (mut groups, mut first, mut end) = (Vec::new(), HOPS, 0);
        for (number, hop) in tables.hops.entries().into_iter().filter(|(number, _)| *number >= FIRST) {
            hops.fresh = hops.fresh.max(number + 1);
            if hop.action == HopAction::Group {
                first = first.min(hop.first);
                end = end.max(hop.first.saturating_add(hop.ways.into()).min(HOPS));
                groups.push(number);
            } else {
                let source = tables.sources.get(&number).unwrap_or(Ipv6Addr::UNSPECIFIED);
                hops.stale.entry((Hop { number: 0, ..hop }, source)).or_default().push(number);
            }
        }
        let known: BTreeSet<u32> = hops.stale.values().flatten().copied().chain(groups.iter().copied()).collect();
        hops.free = (FIRST..hops.fresh).filter(|number| !known.contains(number)).collect();
        hops.slots.resize_with((hops.fresh - FIRST) as usize, || None);
        hops.stale_groups = groups;
        // In front of the places that are in use, or behind them.
        let own = if HOPS - end >= first || end == 0 { end..HOPS } else { 0..first };
        let own = own.start.next_multiple_of(MOST)..own.end / MOST * MOST;
        hops.blocks = Blocks::new(own.start, own.end);
        let others = (0..HOPS).step_by(MOST as usize).filter(|place| !own.contains(place));
        hops.stale_blocks = others.map(|place| (place, MOST)).collect();
        hops
    }

    /// Numbers of before that nothing leads to any more are free; to be called when all routes are written.
    pub fn forget_stale(&mut self) {
        self.cooling.extend(std::mem::take(&mut self.stale).into_values().flatten());
        self.cooling.append(&mut self.stale_groups);
        self.cooling_blocks.append(&mut self.stale_blocks);
    }

    /// Number of next hops.
    pub fn known(&self) -> usize {
        self.by_key.len()
    }

    fn slot(&mut self, number: u32) -> &mut Option<Slot> {
        let index = (number - FIRST) as usize;
        if index >= self.slots.len() {
            self.slots.resize_with(index + 1, || None);
        }
        &mut self.slots[index]
    }

    /// One route or group more leads there.
    fn count(&mut self, number: u32) {
        if let Some(slot) = self.slot(number) {
            slot.refs += 1;
        }
    }

    /// What a number stands for.
    pub fn key(&self, number: u32) -> Option<&Key> {
        self.slots.get(number.checked_sub(FIRST)? as usize)?.as_ref().map(|slot| &slot.key)
    }

    /// The number of a next hop, for one route more, which leads to `before` as yet; `rendered` is what the tables will
    /// say of it.
    pub fn acquire(&mut self, key: Key, before: Option<u32>, rendered: impl FnOnce() -> Rendered) -> Result<u32, Full> {
        if let Some(number) = self.by_key.get(&key).copied() {
            self.count(number);
            return Ok(number);
        }
        let block = match &key {
            Key::Group(ways) => {
                let size = spread(ways).len() as u32;
                Some((self.blocks.take(size).ok_or(Full)?, size))
            }
            _ => None,
        };
        let adopted = if block.is_none() {
            let (hop, source) = rendered();
            let content = (hop, source.map_or(Ipv6Addr::UNSPECIFIED, mapped));
            let number = self.stale.get_mut(&content).and_then(|numbers| {
                let own = numbers.iter().position(|number| Some(*number) == before);
                own.map(|own| numbers.swap_remove(own)).or_else(|| numbers.pop())
            });
            number.map(|number| (number, (Hop { number, ..content.0 }, content.1)))
        } else {
            None
        };
        let number = match adopted {
            Some((number, _)) => number,
            None => match self.free.pop() {
                Some(number) => number,
                None if self.fresh < HOPS => {
                    self.fresh += 1;
                    self.fresh - 1
                }
                None => {
                    block.iter().for_each(|(first, size)| self.blocks.give_back(*first, *size));
                    return Err(Full);
                }
            },
        };
        match &key {
            Key::Way(Way { neighbour: Some(neighbour), interface, .. }) => {
                self.by_neighbour.entry((*neighbour, *interface)).or_default().push(number);
                self.unasked.push(number);
            }
            Key::Group(ways) => {
                let ways = ways.clone();
                ways.iter().for_each(|(way, _)| self.count(*way));
            }
            _ => {}
        }
        self.by_key.insert(key.clone(), number);
        let written = adopted.map(|(_, written)| written);
        if written.is_none() {
            self.dirty.insert(number);
            self.unsettled = true;
        }
        *self.slot(number) = Some(Slot { key, refs: 1, block, written });
        Ok(number)
    }

    /// One route less leads there.
    pub fn release(&mut self, number: u32) {
        if number < FIRST {
            return;
        }
        let Some(slot) = self.slot(number) else { return };
        slot.refs = slot.refs.saturating_sub(1);
        if slot.refs > 0 {
            return;
        }
        let Some(Slot { key, block, .. }) = self.slot(number).take() else { return };
        self.by_key.remove(&key);
        self.dirty.remove(&number);
        self.cooling.push(number);
        self.cooling_blocks.extend(block);
        match key {
            Key::Way(Way { neighbour: Some(neighbour), interface, .. }) => {
                if let Some(numbers) = self.by_neighbour.get_mut(&(neighbour, interface)) {
                    numbers.retain(|own| *own != number);
                    if numbers.is_empty() {
                        self.by_neighbour.remove(&(neighbour, interface));
                    }
                }
            }
            Key::Group(ways) => ways.iter().for_each(|(way, _)| self.release(*way)),
            _ => {}
        }
    }

    /// What the tables say of a neighbour may be otherwise.
    pub fn touch_neighbour(&mut self, neighbour: (IpAddr, u32)) {
        let numbers = self.by_neighbour.get(&neighbour);
        self.dirty.extend(numbers.into_iter().flatten());
    }

    /// The same of all ways for which this holds.
    pub fn touch(&mut self, which: impl Fn(&Way) -> bool) {
        let touched = self.by_key.iter().filter(|(key, _)| matches!(key, Key::Way(way) if which(way)));
        self.dirty.extend(touched.map(|(_, number)| *number));
    }

    /// What was changed in the tables from outside is written again.
    pub fn verify(&mut self, tables: &Tables) {
        let found: HashMap<u32, Hop> = tables.hops.entries().into_iter().collect();
        for (index, slot) in self.slots.iter_mut().enumerate() {
            let (Some(slot), number) = (slot, index as u32 + FIRST) else { continue };
            let is_same = slot.written.is_none_or(|(hop, source)| {
                let known = tables.sources.get(&number).unwrap_or(Ipv6Addr::UNSPECIFIED);
                found.get(&number).copied().unwrap_or_default() == hop && known == source
            });
            if !is_same {
                slot.written = None;
                self.dirty.insert(number);
            }
        }
    }

    /// Ways that lead to neighbours.
    pub fn ways(&self) -> impl Iterator<Item = &Way> {
        self.by_key.keys().filter_map(|key| if let Key::Way(way) = key { Some(way) } else { None })
    }

    /// Writes what is to be written. Afterwards each number means to all packets what it means here.
    pub fn write(
        &mut self,
        (named, tables): (&NamedTables, &mut Tables),
        rendered: impl Fn(&Key) -> Rendered,
    ) -> Result<(), TableError> {
        let (mut hops, mut sources, mut ways) = (Vec::new(), Vec::new(), Vec::new());
        for number in std::mem::take(&mut self.dirty) {
            let Some(Some(slot)) = self.slots.get_mut((number - FIRST) as usize) else { continue };
            let (hop, source) = match (&slot.key, slot.block) {
                (Key::Group(members), Some((first, _))) => {
                    let spread = spread(members);
                    let count = spread.len() as u16;
                    ways.extend(spread.into_iter().zip(first..).map(|(way, place)| (place, way)));
                    (Hop { action: HopAction::Group, ways: count, first, ..Hop::default() }, None)
                }
                (key, _) => rendered(key),
            };
            let hop = Hop { number, ..hop };
            let source = source.map_or(Ipv6Addr::UNSPECIFIED, mapped);
            if slot.written != Some((hop, source)) {
                hops.push((number, hop));
                sources.push((number, source));
                slot.written = Some((hop, source));
            }
        }
        tables.ways.set_all(&ways)?;
        tables.sources.set_all(&sources)?;
        tables.hops.set_all(&hops)?;
        if std::mem::take(&mut self.unsettled) {
            self.settle(named, tables)?;
        }
        Ok(())
    }

    /// Waits until packets hold no numbers of before, and frees what was released before.
    pub fn settle(&mut self, named: &NamedTables, tables: &mut Tables) -> Result<(), TableError> {
        if !named.settle() {
            return Err(TableError::Busy);
        }
        let numbers = std::mem::take(&mut self.cooling);
        let zeros: Vec<(u32, Hop)> = numbers.iter().map(|number| (*number, Hop::default())).collect();
        self.free.extend(numbers);
        for (first, size) in std::mem::take(&mut self.cooling_blocks) {
            self.blocks.give_back(first, size);
        }
        tables.hops.set_all(&zeros)
    }

    /// Whether something waits to be free.
    pub fn is_cooling(&self) -> bool {
        !self.cooling.is_empty() || !self.cooling_blocks.is_empty()
    }
}
