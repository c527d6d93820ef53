//! Timers of a controller, by the keys that it gives them, over the wheel that workers have, too ([`crate::wheel`]).
//!
//! Setting and cancelling a timer take constant time: a hash of its key, and a doubly linked list.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::time::{Duration, Instant};

use ahash::RandomState;

pub use crate::wheel::TICK;
use crate::wheel::Wheel as Numbered;

/// The timers of one link.
#[derive(Debug)]
pub struct Wheel {
    start: Instant,
    wheel: Numbered,
    /// By number.
    keys: Vec<u64>,
    /// Numbers that are not in use.
    free: Vec<u32>,
    by_key: HashMap<u64, u32, RandomState>,
}

impl Wheel {
    /// Without timers; time begins now.
    pub fn new(start: Instant) -> Self {
        let wheel = Numbered::new(0, 0);
        Wheel { start, wheel, keys: Vec::new(), free: Vec::new(), by_key: HashMap::default() }
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
        let due = nanoseconds(at.saturating_duration_since(self.start));
        let number = match self.by_key.entry(key) {
            Entry::Occupied(entry) => *entry.get(),
            Entry::Vacant(entry) => *entry.insert(match self.free.pop() {
                Some(free) => {
                    self.keys[free as usize] = key;
                    free
                }
                None => {
                    self.keys.push(key);
                    self.wheel.grow()
                }
            }),
        };
        self.wheel.set(number, due);
    }

    /// Takes a timer out; whether there was one.
    pub fn cancel(&mut self, key: u64) -> bool {
        let Some(number) = self.by_key.remove(&key) else { return false };
        self.free.push(number);
        self.wheel.cancel(number)
    }

    /// The key of a timer that is due at this time; it is then no longer set.
    pub fn expire(&mut self, now: Instant) -> Option<u64> {
        let now = nanoseconds(now.saturating_duration_since(self.start));
        let Some((number, _)) = self.wheel.expire(now, &mut { u32::MAX }) else {
            self.wheel.work_ahead(&mut { u32::MAX });
            return None;
        };
        let key = self.keys[number as usize];
        self.by_key.remove(&key);
        self.free.push(number);
        Some(key)
    }

    /// When to look again: not later than the next timer is due. Some time earlier where that is far away. The past
    /// where one is due.
    pub fn next(&self) -> Option<Instant> {
        self.wheel.next().map(|next| self.start + Duration::from_nanos(next))
    }
}

/// Whole nanoseconds; 292 years at most, so far from the end that a tick more is no overflow.
fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).min(u64::MAX >> 1)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::testing::SplitMix64;
    use crate::wheel::TICK_BITS;

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
            assert_eq!((wheel.len(), wheel.keys.len()), (timers as usize, timers as usize));
            began.elapsed().as_nanos() as u64 / rounds / 3
        };
        let (few, many) = (time(100), time(50_000));
        println!("ns for each operation: {few} with 100 timers, {many} with 50,000");
        // What is more are caches that miss.
        assert!(many < 50 * few.max(20), "{few} ns with 100 timers, {many} ns with 50,000");
    }
}
