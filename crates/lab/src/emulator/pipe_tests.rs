//! What a pipe does to packets, to the nanosecond.

use std::time::Duration;

use super::*;
use crate::emulator::impairments::{Distribution, Jitter, Loss, QueueLimit, Reorder};

const MS: u64 = 1_000_000;

/// Sends packets numbered from 0 at the given times and collects when each left, and its number.
fn carry(impairments: Impairments, seed: u64, times: impl IntoIterator<Item = u64>) -> (Vec<(u64, u32)>, LinkCounters) {
    impairments.validate().unwrap();
    let mut pipe = Pipe::new(impairments, seed, 0);
    let mut pool = Pool::new(256 << 20);
    let mut left = Vec::new();
    let mut collect = |pipe: &mut Pipe, pool: &mut Pool, until: u64| {
        while let Some(due) = pipe.next_due().filter(|due| *due <= until) {
            while let Some(packet) = pipe.leave(due) {
                let number = u32::from_be_bytes(pool.bytes(&packet)[14..18].try_into().unwrap());
                left.push((due, number));
                pipe.left(packet.len(), true);
                pool.give_back(packet);
            }
        }
    };
    for (number, now) in times.into_iter().enumerate() {
        collect(&mut pipe, &mut pool, now);
        pipe.take(&[&[0; 14], &(number as u32).to_be_bytes(), &[0; 46]], now, &mut pool);
    }
    collect(&mut pipe, &mut pool, u64::MAX);
    let counters = pipe.counters();
    assert_eq!(counters.in_flight, 0);
    assert_eq!(counters.received + counters.duplicated, counters.sent + counters.dropped());
    (left, counters)
}

fn order(left: &[(u64, u32)]) -> Vec<u32> {
    left.iter().map(|(_, number)| *number).collect()
}

#[test]
fn without_impairments_packets_leave_as_they_come() {
    let (left, counters) = carry(Impairments::default(), 1, [10, 20, 20]);
    assert_eq!(left, [(10, 0), (20, 1), (20, 2)]);
    assert_eq!((counters.sent, counters.sent_bytes), (3, 3 * 64));
}

#[test]
fn delay_is_exact_and_follows_the_rate() {
    let delay = Duration::from_millis(10);
    let (left, _) = carry(Impairments { delay, ..Default::default() }, 1, [0, MS]);
    assert_eq!(left, [(10 * MS, 0), (11 * MS, 1)]);
    // 64 bytes are 512 bits.
    let (left, _) = carry(Impairments { delay, rate: Some(512_000), ..Default::default() }, 1, [0, 0, 20 * MS]);
    assert_eq!(left, [(11 * MS, 0), (12 * MS, 1), (31 * MS, 2)]);
}

#[test]
fn a_full_queue_drops_the_newest() {
    let queue = QueueLimit { packets: 2, bytes: u64::MAX };
    let (left, counters) =
        carry(Impairments { rate: Some(512_000), queue, ..Default::default() }, 1, [0, 0, 0, MS, MS]);
    assert_eq!(order(&left), [0, 1, 3]);
    assert_eq!((counters.queue_full, counters.dropped()), (2, 2));
}

#[test]
fn loss_is_repeatable_and_has_its_probability() {
    let impairments = Impairments { loss: Loss::Random(0.1), ..Default::default() };
    let (first, counters) = carry(impairments.clone(), 42, 0..100_000);
    // Standard deviation: sqrt(100000 · 0.1 · 0.9) = 95.
    assert!(counters.lost.abs_diff(10_000) < 500, "{counters:?}");
    let (again, _) = carry(impairments.clone(), 42, 0..100_000);
    assert_eq!(first, again);
    // Time between packets does not matter.
    let (slow, _) = carry(impairments.clone(), 42, (0..100_000).map(|i| i * 1000));
    assert_eq!(order(&first), order(&slow));
    let (other, _) = carry(impairments, 43, 0..100_000);
    assert_ne!(order(&first), order(&other));
}

#[test]
fn duplicates_follow_their_original() {
    let (left, counters) = carry(Impairments { duplicate: 1.0, ..Default::default() }, 1, [5, 6]);
    assert_eq!(left, [(5, 0), (5, 0), (6, 1), (6, 1)]);
    assert_eq!((counters.received, counters.duplicated, counters.sent), (2, 2, 4));
}

#[test]
fn a_held_packet_is_overtaken_by_exactly_gap_packets() {
    let hold = Duration::from_millis(10);
    let reorder = Reorder { probability: 0.1, gap: 3, hold };
    let (left, counters) = carry(Impairments { reorder, ..Default::default() }, 9, (0..1000).map(|i| i * 1000));
    let order = order(&left);
    let mut held = 0;
    for (position, &number) in order.iter().enumerate() {
        let overtaken_by = order[..position].iter().filter(|&&earlier| earlier > number).count();
        held += u64::from(overtaken_by > 0);
        // Packets that are held themselves do not count as overtaking, but may slip in.
        assert!(overtaken_by == 0 || (3..=6).contains(&overtaken_by), "{number}: {overtaken_by}");
    }
    assert!(held > 50 && held == counters.reordered, "{held}: {counters:?}");
}

#[test]
fn a_held_packet_goes_at_its_deadline_when_nothing_follows() {
    let reorder = Reorder { probability: 1.0, gap: 1, hold: Duration::from_millis(10) };
    let (left, counters) = carry(Impairments { reorder, ..Default::default() }, 1, [0, MS]);
    assert_eq!(left, [(10 * MS, 0), (11 * MS, 1)]);
    assert_eq!(counters.reordered, 0, "nothing overtook it");
}

#[test]
fn a_packet_overtaken_by_less_than_gap_counts_too() {
    // A seed that holds the first packet and not the second.
    let reorder = Reorder { probability: 0.5, gap: 5, hold: Duration::from_millis(10) };
    let seed = (0..100).find(|&seed| {
        let mut random = Streams::new(seed, 0);
        random.is_held(0.5) && !random.is_held(0.5)
    });
    let (left, counters) = carry(Impairments { reorder, ..Default::default() }, seed.unwrap(), [0, MS]);
    assert_eq!(left, [(MS, 1), (10 * MS, 0)]);
    assert_eq!(counters.reordered, 1);
}

#[test]
fn jitter_keeps_the_order_unless_packets_may_overtake() {
    let delay = Duration::from_millis(10);
    for distribution in [Distribution::Uniform, Distribution::Normal] {
        let jitter = Jitter { spread: Duration::from_millis(5), distribution, overtake: false };
        let times = || (0..1000).map(|i| i * 100_000);
        let (left, _) = carry(Impairments { delay, jitter, ..Default::default() }, 3, times());
        assert_eq!(order(&left), (0..1000).collect::<Vec<u32>>());
        let jitter = Jitter { overtake: true, ..jitter };
        let (left, _) = carry(Impairments { delay, jitter, ..Default::default() }, 3, times());
        assert_ne!(order(&left), (0..1000).collect::<Vec<u32>>());
        for (time, number) in left {
            assert!(time >= u64::from(number) * 100_000, "{number} left before it came");
            assert!(time <= u64::from(number) * 100_000 + 25 * MS);
        }
    }
}

#[test]
fn corruption_flips_one_bit_behind_the_ethernet_header() {
    let mut pipe = Pipe::new(Impairments { corrupt: 1.0, ..Default::default() }, 1, 0);
    let mut pool = Pool::new(1 << 20);
    for _ in 0..200 {
        pipe.take(&[&[0xaa; 60]], 0, &mut pool);
        let packet = pipe.leave(0).unwrap();
        let flipped: u32 = pool.bytes(&packet).iter().map(|byte| (byte ^ 0xaa).count_ones()).sum();
        assert_eq!(flipped, 1);
        assert_eq!(pool.bytes(&packet)[..14], [0xaa; 14]);
        pool.give_back(packet);
    }
    pipe.take(&[&[0xaa; 14]], 0, &mut pool);
    assert_eq!(pipe.counters().corrupted, 200, "no bit to flip in a bare header");
}

#[test]
fn memory_is_bounded() {
    let mut pipe = Pipe::new(Impairments { delay: Duration::from_secs(1), ..Default::default() }, 1, 0);
    let mut pool = Pool::new(256 * 1024);
    for now in 0..2000 {
        pipe.take(&[&[0; 60]], now, &mut pool);
    }
    let counters = pipe.counters();
    assert_eq!((counters.in_flight, counters.no_memory), (1024, 976));
}

#[test]
fn new_settings_apply_to_packets_that_come_later() {
    let mut pipe = Pipe::new(Impairments { delay: Duration::from_millis(10), ..Default::default() }, 1, 0);
    let mut pool = Pool::new(1 << 20);
    pipe.take(&[&[0; 60]], 0, &mut pool);
    pipe.set(Impairments { loss: Loss::Random(1.0), ..Default::default() });
    pipe.take(&[&[0; 60]], MS, &mut pool);
    assert_eq!(pipe.counters().lost, 1);
    // A shorter delay does not let a packet overtake those before it.
    pipe.set(Impairments::default());
    pipe.take(&[&[1; 60]], MS, &mut pool);
    assert_eq!(pipe.next_due(), Some(10 * MS));
    let first = pipe.leave(10 * MS).unwrap();
    assert_eq!(pool.bytes(&first)[0], 0);
    let second = pipe.leave(10 * MS).unwrap();
    assert_eq!(pool.bytes(&second)[0], 1);
}
