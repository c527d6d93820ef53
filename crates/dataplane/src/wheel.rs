//! A hierarchical timing wheel (Varghese and Lauck, 1987), as the kernel and tokio have one, with bounded steps.
//!
//! Time is counted in ticks of [`TICK`]. A slot of level 0 is a tick wide, one of each further level 64 times as wide
//! as one of the level below. Each level has 128 slots: so it reaches over two slots of the level above, and a slot's
//! timers can be moved down a few at a time during the whole slot before it ([`Wheel::work_ahead`]), whatever their
//! number. Where that was not done, they are moved when time comes to the slot.
//!
//! Timers are known by number, and lie in doubly linked lists. Setting, cancelling and expiring one take constant time
//! and no memory. A timer is never early. It is late by less than a tick, and by the time that the caller takes to
//! look.

use std::time::Duration;

/// The resolution of timers: 16.384 µs. A power of two, so that a tick is found by a shift.
pub const TICK: Duration = Duration::from_nanos(1 << TICK_BITS);
pub const TICK_BITS: u32 = 14;

/// By how many bits the slots of a level are wider than those of the level below.
const LEVEL_BITS: u32 = 6;
const SLOTS: u64 = 128;
const LEVELS: usize = 6;
/// Ticks that are looked ahead: 25 days. A later timer lies in the last slot and is put in again from there.
const MOST: u64 = (SLOTS - 2) << (LEVEL_BITS * (LEVELS as u32 - 1));

/// The list of timers that are due, behind those of the slots.
const DUE: u32 = LEVELS as u32 * SLOTS as u32;
/// In a link: the head of a list, not a timer.
const HEAD: u32 = 1 << 31;

/// Where a timer lies: before and after it (a timer's number and one, or a list with [`HEAD`]), zeros where it is not
/// set; then when it is due, in two words. All zeros at first, so that memory which no timer uses is not touched.
type Node = [u32; 4];

/// Timers by number.
#[derive(Debug)]
pub struct Wheel {
    /// The tick up to which slots were emptied.
    now: u64,
    nodes: Vec<Node>,
    /// The last and the first one of each list.
    heads: Box<[[u32; 2]]>,
    /// A bit for each slot that has timers, by level.
    occupied: [u128; LEVELS],
    set: usize,
}

impl Wheel {
    /// For timers 0 to `room` − 1, none of which is set; the time in nanoseconds is `start` now.
    pub fn new(start: u64, room: usize) -> Self {
        Wheel {
            now: start >> TICK_BITS,
            nodes: vec![[0; 4]; room],
            heads: (0..=DUE).map(|list| [HEAD | list; 2]).collect(),
            occupied: [0; LEVELS],
            set: 0,
        }
    }

    /// Room for another timer; its number.
    pub fn grow(&mut self) -> u32 {
        self.nodes.push([0; 4]);
        self.nodes.len() as u32 - 1
    }

    /// Sets a timer, in place of what it was set to.
    pub fn set(&mut self, timer: u32, due: u64) {
        self.cancel(timer);
        self.nodes[timer as usize] = [0, 0, due as u32, (due >> 32) as u32];
        self.place(timer + 1);
        self.set += 1;
    }

    /// Whether it was set; it is no more.
    pub fn cancel(&mut self, timer: u32) -> bool {
        let is_set = self.nodes[timer as usize][0] != 0;
        if is_set {
            self.unlink(timer + 1);
            self.set -= 1;
        }
        is_set
    }

    /// A timer that is due at this time, and since when; it is then no longer set. Moves at most `budget` timers to
    /// other lists, and less is left of that: where none is left others may be due.
    pub fn expire(&mut self, now: u64, budget: &mut u32) -> Option<(u32, u64)> {
        if self.set == 0 {
            self.now = self.now.max(now >> TICK_BITS);
            return None;
        }
        if self.first(DUE) & HEAD != 0 {
            self.advance(now >> TICK_BITS, budget);
        }
        let id = self.first(DUE);
        if id & HEAD != 0 {
            return None;
        }
        self.unlink(id);
        self.set -= 1;
        Some((id - 1, self.due(id)))
    }

    /// Moves at most `budget` timers towards where time will come to them soon; whether there were any.
    pub fn work_ahead(&mut self, budget: &mut u32) -> bool {
        let before = *budget;
        for level in 1..LEVELS as u32 {
            let slot = (self.now >> (LEVEL_BITS * level)) + 1;
            if self.occupied[level as usize] >> (slot % SLOTS) & 1 != 0 {
                self.empty(level, slot, budget);
            }
        }
        *budget < before
    }

    /// When to look again: not later than the next timer is due. Some time earlier where that is far away, for the sake
    /// of [`Wheel::work_ahead`]. The past where one is due.
    pub fn next(&self) -> Option<u64> {
        if self.first(DUE) & HEAD == 0 {
            return Some(0);
        }
        let slots = (0..LEVELS as u32).filter_map(|level| {
            let slot = self.first_slot(level)?;
            Some(slot.saturating_sub((level > 0).into()) << (LEVEL_BITS * level))
        });
        slots.min().map(|tick| tick << TICK_BITS)
    }

    /// Moves time on. Timers that are due by then are in their list, in the order of their ticks; only some of them
    /// where the budget is used up.
    fn advance(&mut self, to: u64, budget: &mut u32) {
        loop {
            // Of two that begin at once the wider one, which may have timers for the other.
            let slots = (0..LEVELS as u32).rev().filter_map(|level| Some((level, self.first_slot(level)?)));
            let next = slots.min_by_key(|(level, slot)| slot << (LEVEL_BITS * level));
            let next = next.filter(|(level, slot)| slot << (LEVEL_BITS * level) <= to);
            let Some((level, slot)) = next else { break };
            self.now = self.now.max(slot << (LEVEL_BITS * level));
            match level {
                0 => self.make_due(slot),
                _ if !self.empty(level, slot, budget) => return,
                _ => {}
            }
        }
        self.now = self.now.max(to);
    }

    /// The first slot of a level that has timers, by its number since time began.
    fn first_slot(&self, level: u32) -> Option<u64> {
        let occupied = self.occupied[level as usize];
        let present = self.now >> (LEVEL_BITS * level);
        let ahead = occupied.rotate_right((present % SLOTS) as u32).trailing_zeros();
        (occupied != 0).then_some(present + u64::from(ahead))
    }

    /// Puts timers of a slot where they belong now; whether all.
    fn empty(&mut self, level: u32, slot: u64, budget: &mut u32) -> bool {
        let list = level * SLOTS as u32 + (slot % SLOTS) as u32;
        loop {
            let id = self.first(list);
            if id & HEAD != 0 {
                return true;
            }
            let Some(left) = budget.checked_sub(1) else { return false };
            *budget = left;
            self.unlink(id);
            self.place(id);
        }
    }

    /// Puts all timers of a slot of level 0 behind those that are due.
    fn make_due(&mut self, slot: u64) {
        let list = (slot % SLOTS) as u32;
        let [last, first] = std::mem::replace(&mut self.heads[list as usize], [HEAD | list; 2]);
        self.occupied[0] &= !(1 << (slot % SLOTS));
        let before = self.heads[DUE as usize][0];
        self.set_after(before, first);
        self.set_before(first, before);
        self.set_after(last, HEAD | DUE);
        self.heads[DUE as usize][0] = last;
    }

    fn due(&self, id: u32) -> u64 {
        let [.., low, high] = self.nodes[id as usize - 1];
        u64::from(low) | u64::from(high) << 32
    }

    /// Puts a timer that lies in no list into that of its tick.
    fn place(&mut self, id: u32) {
        let tick = self.due(id).div_ceil(1 << TICK_BITS).min(self.now + MOST);
        let list = if tick <= self.now {
            DUE
        } else {
            let distance = |level: u32| (tick >> (LEVEL_BITS * level)) - (self.now >> (LEVEL_BITS * level));
            let level = (0..LEVELS as u32 - 1).find(|level| distance(*level) < SLOTS).unwrap_or(LEVELS as u32 - 1);
            let slot = (tick >> (LEVEL_BITS * level)) % SLOTS;
            self.occupied[level as usize] |= 1 << slot;
            level * SLOTS as u32 + slot as u32
        };
        let last = std::mem::replace(&mut self.heads[list as usize][0], id);
        self.set_after(last, id);
        let node = &mut self.nodes[id as usize - 1];
        (node[0], node[1]) = (last, HEAD | list);
    }

    /// Takes a timer out of its list.
    fn unlink(&mut self, id: u32) {
        let node = &mut self.nodes[id as usize - 1];
        let [before, after, ..] = *node;
        (node[0], node[1]) = (0, 0);
        self.set_after(before, after);
        self.set_before(after, before);
        let list = after & !HEAD;
        if before == after && after & HEAD != 0 && list != DUE {
            self.occupied[list as usize / SLOTS as usize] &= !(1 << (u64::from(list) % SLOTS));
        }
    }

    fn first(&self, list: u32) -> u32 {
        self.heads[list as usize][1]
    }

    fn set_after(&mut self, id: u32, after: u32) {
        match id & HEAD {
            0 => self.nodes[id as usize - 1][1] = after,
            _ => self.heads[(id & !HEAD) as usize][1] = after,
        }
    }

    fn set_before(&mut self, id: u32, before: u32) {
        match id & HEAD {
            0 => self.nodes[id as usize - 1][0] = before,
            _ => self.heads[(id & !HEAD) as usize][0] = before,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::testing::SplitMix64;

    const NS: u64 = 1 << TICK_BITS;

    /// Against a sorted list of all timers, over times from a tick to months, with steps of any size.
    #[test]
    fn it_is_as_a_sorted_list_however_little_is_done_at_a_time() {
        for seed in 0..12 {
            let mut numbers = SplitMix64(seed);
            let start = numbers.below(1 << 60);
            let (mut wheel, mut now) = (Wheel::new(start, 300), start);
            let mut model = BTreeMap::<u32, u64>::new();
            for step in 0..20_000 {
                match numbers.below(8) {
                    0..4 => {
                        let bits = numbers.below(54);
                        let (timer, after) = (numbers.below(300) as u32, numbers.below(1 << bits));
                        let due = if numbers.below(16) == 0 { now.saturating_sub(after) } else { now + after };
                        wheel.set(timer, due);
                        model.insert(timer, due);
                    }
                    4 => {
                        let timer = numbers.below(300) as u32;
                        assert_eq!(wheel.cancel(timer), model.remove(&timer).is_some(), "seed {seed} step {step}");
                    }
                    5 => _ = wheel.work_ahead(&mut (numbers.below(20) as u32)),
                    _ => {
                        now = match wheel.next().filter(|_| numbers.below(2) == 0) {
                            Some(next) => now.max(next),
                            None => {
                                let bits = 10 + numbers.below(42);
                                now + numbers.below(1 << bits)
                            }
                        };
                        // What is done in small steps is done in the end.
                        let mut due = Vec::new();
                        loop {
                            let mut budget = 1 + numbers.below(3) as u32;
                            due.extend(std::iter::from_fn(|| wheel.expire(now, &mut budget)));
                            if budget > 0 {
                                break;
                            }
                        }
                        let wanted = model.iter().filter(|(_, due)| due.div_ceil(NS) <= now / NS);
                        let wanted: BTreeMap<u32, u64> = wanted.map(|(timer, due)| (*timer, *due)).collect();
                        assert_eq!(due.iter().copied().collect::<BTreeMap<_, _>>(), wanted, "seed {seed} step {step}");
                        due.iter().for_each(|(timer, _)| _ = model.remove(timer));
                    }
                }
                assert_eq!(wheel.set, model.len());
                let earliest = model.values().min().map(|due| due.next_multiple_of(NS));
                assert_eq!(wheel.next().is_some(), earliest.is_some());
                assert!(wheel.next() <= earliest, "seed {seed} step {step}");
            }
        }
    }

    /// A sleeper that looks when it is told to, and works ahead until there is nothing to do, gets on.
    #[test]
    fn a_timer_far_away_takes_few_looks() {
        for after in [1, NS, 1 << 20, 1 << 30, 1 << 40, 1 << 50] {
            let mut wheel = Wheel::new(12345, 1);
            wheel.set(0, 12345 + after);
            let mut looks = 0;
            while let Some(next) = wheel.next() {
                looks += 1;
                assert!(next <= (12345 + after).next_multiple_of(NS) && looks < 20, "{after}: {next}, look {looks}");
                while wheel.work_ahead(&mut 1) {}
                if let Some(found) = wheel.expire(next, &mut 1) {
                    assert_eq!(found, (0, 12345 + after));
                    assert!(next >= found.1);
                }
            }
        }
    }

    /// A million timers over ten seconds: no look moves more than it may, and those that work ahead never have to
    /// catch up.
    #[test]
    fn the_work_is_spread() {
        const STEP: u64 = 100_000;
        let mut numbers = SplitMix64(5);
        let mut wheel = Wheel::new(0, 1_000_000);
        (0..1_000_000).for_each(|timer| wheel.set(timer, numbers.below(10_000_000_000)));
        let (mut fired, mut late) = (0, 0);
        for now in (0..10_000_000_000 + 2 * STEP).step_by(STEP as usize) {
            let mut budget = 16;
            while let Some((_, due)) = wheel.expire(now, &mut budget) {
                fired += 1;
                late = late.max(now - due);
            }
            wheel.work_ahead(&mut 64);
        }
        assert_eq!(fired, 1_000_000);
        assert!(late <= STEP + 2 * NS, "{late} ns late");
    }
}
