//! Timers of a controller: a hierarchical timing wheel (Varghese and Lauck, 1987), as the kernel and tokio have one.
//!
//! Time is counted in ticks of [`TICK`]. Level 0 has a slot for each of the next 64 ticks, level 1 a slot for each 64
//! of those, and so on. A timer lies in the level of the highest 6 bits in which its tick differs from the present one;
//! when time comes to the slot, its timers move to lower levels. Setting and cancelling a timer take constant time: a
//! hash of its key, and a doubly linked list.
//!
//! A timer is never early. It is late by less than a tick, and by the time that the controller takes to look.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::time::{Duration, Instant};

use ahash::RandomState;

/// The resolution of timers: 65.536 µs. A power of two, so that a tick is found by a shift.
pub const TICK: Duration = Duration::from_nanos(1 << TICK_BITS);
const TICK_BITS: u32 = 16;

const SLOT_BITS: u32 = 6;
const SLOTS: usize = 1 << SLOT_BITS;
const LEVELS: usize = 6;
/// Ticks that are looked ahead: 26 days. Half of what the levels could, so that no slot of the highest one has timers
/// of two rounds. A later timer lies in the last slot and is put in again from there.
const MOST: u64 = 1 << (SLOT_BITS * LEVELS as u32 - 1);

/// The list of timers that are due, behind those of the slots.
const DUE: u16 = (LEVELS * SLOTS) as u16;
/// No timer.
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Timer {
    key: u64,
    tick: u64,
    list: u16,
    before: u32,
    /// Also the next free one.
    after: u32,
}

#[derive(Clone, Copy, Debug)]
struct List {
    first: u32,
    last: u32,
}

const EMPTY: List = List { first: NONE, last: NONE };

/// The timers of one link.
#[derive(Debug)]
pub struct Wheel {
    start: Instant,
    /// The tick up to which slots were emptied.
    now: u64,
    timers: Vec<Timer>,
    /// The first of those in `timers` that are not in use.
    free: u32,
    by_key: HashMap<u64, u32, RandomState>,
    lists: Box<[List]>,
    /// A bit for each slot that has timers, by level.
    occupied: [u64; LEVELS],
}

impl Wheel {
    /// Without timers; time begins now.
    pub fn new(start: Instant) -> Self {
        Wheel {
            start,
            now: 0,
            timers: Vec::new(),
            free: NONE,
            by_key: HashMap::default(),
            lists: vec![EMPTY; DUE as usize + 1].into(),
            occupied: [0; LEVELS],
        }
    }

    /// Number of timers.
    pub fn len(&self) -> usize {
        self.by_key.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    /// Sets the timer of this key, in place of the one that it may have.
    pub fn set(&mut self, key: u64, at: Instant) {
        let tick = self.tick_of(at);
        let index = match self.by_key.entry(key) {
            Entry::Occupied(entry) => {
                let index = *entry.get();
                self.unlink(index);
                index
            }
            Entry::Vacant(entry) => {
                let timer = Timer { key, tick, list: DUE, before: NONE, after: NONE };
                let index = self.free;
                match self.timers.get_mut(index as usize) {
                    Some(free) => {
                        self.free = free.after;
                        *free = timer;
                        *entry.insert(index)
                    }
                    None => {
                        self.timers.push(timer);
                        *entry.insert(self.timers.len() as u32 - 1)
                    }
                }
            }
        };
        self.timers[index as usize].tick = tick;
        self.place(index);
    }

    /// Takes a timer out; whether there was one.
    pub fn cancel(&mut self, key: u64) -> bool {
        let Some(index) = self.by_key.remove(&key) else { return false };
        self.unlink(index);
        self.release(index);
        true
    }

    /// The key of a timer that is due at this time; it is then no longer set.
    pub fn expire(&mut self, now: Instant) -> Option<u64> {
        if self.by_key.is_empty() {
            return None;
        }
        if self.lists[DUE as usize].first == NONE {
            self.advance(self.ticks_until(now));
        }
        let index = self.lists[DUE as usize].first;
        let key = self.timers.get(index as usize)?.key;
        self.unlink(index);
        self.release(index);
        self.by_key.remove(&key);
        Some(key)
    }

    /// When to look again: not later than the next timer is due. Some time earlier where that is far away. The past
    /// where one is due.
    pub fn next(&self) -> Option<Instant> {
        if self.lists[DUE as usize].first != NONE {
            return Some(self.start);
        }
        let (_, tick) = self.next_slot()?;
        Some(self.start + Duration::from_nanos(tick << TICK_BITS))
    }

    /// The first tick that begins at a time or after it.
    fn tick_of(&self, at: Instant) -> u64 {
        nanoseconds(at.saturating_duration_since(self.start)).div_ceil(1 << TICK_BITS)
    }

    /// Ticks that have begun by a time.
    fn ticks_until(&self, now: Instant) -> u64 {
        nanoseconds(now.saturating_duration_since(self.start)) >> TICK_BITS
    }

    /// Puts a timer into the list for its tick.
    fn place(&mut self, index: u32) {
        let tick = self.timers[index as usize].tick.min(self.now + MOST);
        let list = if tick <= self.now {
            DUE
        } else {
            // Only where time moves from the last slot of the highest level to its first is the difference beyond that.
            let level = ((63 - (tick ^ self.now).leading_zeros()) / SLOT_BITS).min(LEVELS as u32 - 1);
            let slot = (tick >> (SLOT_BITS * level)) as usize % SLOTS;
            self.occupied[level as usize] |= 1 << slot;
            (level as usize * SLOTS + slot) as u16
        };
        let last = std::mem::replace(&mut self.lists[list as usize].last, index);
        match self.timers.get_mut(last as usize) {
            Some(timer) => timer.after = index,
            None => self.lists[list as usize].first = index,
        }
        let timer = &mut self.timers[index as usize];
        (timer.list, timer.before, timer.after) = (list, last, NONE);
    }

    /// Takes a timer out of its list.
    fn unlink(&mut self, index: u32) {
        let Timer { list, before, after, .. } = self.timers[index as usize];
        match self.timers.get_mut(before as usize) {
            Some(timer) => timer.after = after,
            None => self.lists[list as usize].first = after,
        }
        match self.timers.get_mut(after as usize) {
            Some(timer) => timer.before = before,
            None => self.lists[list as usize].last = before,
        }
        if list != DUE && self.lists[list as usize].first == NONE {
            self.occupied[list as usize / SLOTS] &= !(1 << (list as usize % SLOTS));
        }
    }

    /// Makes room for another timer.
    fn release(&mut self, index: u32) {
        self.timers[index as usize].after = self.free;
        self.free = index;
    }

    /// The list that time comes to next, and when.
    fn next_slot(&self) -> Option<(usize, u64)> {
        // A timer of a lower level is due before all of higher ones.
        let level = self.occupied.iter().position(|slots| *slots != 0)?;
        let bits = SLOT_BITS * level as u32;
        let present = (self.now >> bits) as usize % SLOTS;
        let ahead = self.occupied[level].rotate_right(present as u32).trailing_zeros();
        let slot = (present + ahead as usize) % SLOTS;
        Some((level * SLOTS + slot, ((self.now >> bits) + u64::from(ahead)) << bits))
    }

    /// Moves time on. Timers that are due by then are in their list, in the order of their ticks.
    fn advance(&mut self, to: u64) {
        while let Some((list, tick)) = self.next_slot().filter(|(_, tick)| *tick <= to) {
            self.now = self.now.max(tick);
            self.occupied[list / SLOTS] &= !(1 << (list % SLOTS));
            let mut index = std::mem::replace(&mut self.lists[list], EMPTY).first;
            while let Some(timer) = self.timers.get(index as usize) {
                let after = timer.after;
                self.place(index);
                index = after;
            }
        }
        self.now = self.now.max(to);
    }
}

/// Whole nanoseconds; 584 years at most.
fn nanoseconds(time: Duration) -> u64 {
    // So far from the end that a tick more is no overflow.
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).min(u64::MAX >> 1)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::testing::SplitMix64;

    const NS: u64 = 1 << TICK_BITS;

    fn at(start: Instant, ns: u64) -> Instant {
        start + Duration::from_nanos(ns)
    }

    #[test]
    fn a_timer_is_never_early_and_late_by_less_than_a_tick() {
        assert!(TICK <= Duration::from_micros(100));
        let start = Instant::now();
        for ns in [0, 1, NS - 1, NS, NS + 1, 63 * NS, 64 * NS, 64 * NS + 1, 4096 * NS - 1, 4096 * NS, 1 << 40, 1 << 54]
        {
            let mut wheel = Wheel::new(start);
            wheel.set(7, at(start, ns));
            if ns > 0 {
                assert_eq!(wheel.expire(at(start, ns - 1)), None, "{ns}");
            }
            assert_eq!((wheel.expire(at(start, ns + NS - 1)), wheel.len()), (Some(7), 0), "{ns}");
            assert_eq!((wheel.expire(at(start, ns + NS)), wheel.next()), (None, None));
        }
    }

    /// Against a sorted list of all timers, over times from a tick to years.
    #[test]
    fn it_is_as_a_sorted_list() {
        for seed in 0..12 {
            let (start, mut numbers) = (Instant::now(), SplitMix64(seed));
            let (mut wheel, mut model, mut now) = (Wheel::new(start), BTreeMap::<u64, u64>::new(), 0u64);
            for step in 0..20_000 {
                match numbers.below(8) {
                    0..4 => {
                        // Of every magnitude, and in the past, too.
                        let bits = numbers.below(56);
                        let (key, after) = (numbers.below(300), numbers.below(1 << bits));
                        let ns = if numbers.below(16) == 0 { now.saturating_sub(after) } else { now + after };
                        wheel.set(key, at(start, ns));
                        model.insert(key, ns.div_ceil(NS));
                    }
                    4 => {
                        let key = numbers.below(300);
                        assert_eq!(wheel.cancel(key), model.remove(&key).is_some(), "seed {seed} step {step}");
                    }
                    _ => {
                        // To what it says, where nothing may be missed, or anywhere.
                        let next = wheel.next().map(|next| next.duration_since(start).as_nanos() as u64);
                        now = match next.filter(|_| numbers.below(2) == 0) {
                            Some(next) => now.max(next),
                            None => {
                                let bits = 10 + numbers.below(44);
                                now + numbers.below(1 << bits)
                            }
                        };
                        let mut due: Vec<u64> = std::iter::from_fn(|| wheel.expire(at(start, now))).collect();
                        let mut wanted: Vec<u64> =
                            model.iter().filter(|(_, tick)| **tick <= now / NS).map(|(key, _)| *key).collect();
                        due.sort_unstable();
                        wanted.sort_unstable();
                        assert_eq!(due, wanted, "seed {seed} step {step}");
                        due.iter().for_each(|key| _ = model.remove(key));
                    }
                }
                assert_eq!(wheel.len(), model.len());
                let earliest = model.values().min().map(|tick| tick * NS);
                let next = wheel.next().map(|next| next.duration_since(start).as_nanos() as u64);
                assert_eq!(next.is_some(), earliest.is_some());
                assert!(next <= earliest, "seed {seed} step {step}: {next:?} is later than {earliest:?}");
            }
        }
    }

    #[test]
    fn timers_come_in_the_order_of_their_ticks() {
        let (start, mut numbers) = (Instant::now(), SplitMix64(1));
        let mut wheel = Wheel::new(start);
        let ticks: Vec<u64> = (0..5000).map(|_| 1 + numbers.below(100_000)).collect();
        (0..).zip(&ticks).for_each(|(key, tick)| wheel.set(key, at(start, tick * NS)));
        let found: Vec<u64> = std::iter::from_fn(|| wheel.expire(at(start, 100_000 * NS))).collect();
        let mut wanted: Vec<u64> = (0..5000).collect();
        wanted.sort_by_key(|key| ticks[*key as usize]);
        let tick = |keys: &[u64]| keys.iter().map(|key| ticks[*key as usize]).collect::<Vec<_>>();
        assert_eq!((found.len(), tick(&found)), (5000, tick(&wanted)));
    }

    /// Tens of thousands that are set again and again, as those of sessions are: the memory stays, and the time is that
    /// of a hash.
    #[test]
    fn setting_and_cancelling_take_constant_time() {
        let start = Instant::now();
        let time = |timers: u64| {
            let (mut wheel, mut numbers) = (Wheel::new(start), SplitMix64(3));
            (0..timers).for_each(|key| wheel.set(key, at(start, numbers.below(1 << 36))));
            let (began, rounds) = (Instant::now(), 200_000);
            for _ in 0..rounds {
                let key = numbers.below(timers);
                assert!(wheel.cancel(key));
                wheel.set(key, at(start, numbers.below(1 << 36)));
                wheel.set(key, at(start, numbers.below(1 << 36)));
            }
            assert_eq!((wheel.len(), wheel.timers.len()), (timers as usize, timers as usize));
            began.elapsed().as_nanos() as u64 / rounds / 3
        };
        let (few, many) = (time(100), time(50_000));
        println!("ns for each operation: {few} with 100 timers, {many} with 50,000");
        // What is more are caches that miss.
        assert!(many < 50 * few.max(20), "{few} ns with 100 timers, {many} ns with 50,000");
    }
}
