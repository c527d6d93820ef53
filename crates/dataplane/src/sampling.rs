//! Samples of packets as they come in: one of N on average, at random, for monitoring that estimates traffic by them
//! (sFlow version 5). A worker looks once per batch whether any are wanted, and then counts packets down; it copies
//! those that are due into slots that are there already, and neither waits nor wakes anybody.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crossbeam_queue::ArrayQueue;

/// Bytes of a packet that are copied at most.
pub const MOST_BYTES: usize = 256;
/// Samples that wait for who wants them, at most.
const WAITING: usize = 1024;

/// The first bytes of a packet that came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Number of the port.
    pub port: u8,
    /// Bytes from the frame's first one to its last.
    pub length: u32,
    bytes: [u8; MOST_BYTES],
    used: u16,
}

impl Sample {
    /// Of a packet of so many bytes, of which these are the first.
    pub fn new(port: u8, length: usize, first: &[u8]) -> Sample {
        let used = first.len().min(MOST_BYTES);
        let mut bytes = [0; MOST_BYTES];
        bytes[..used].copy_from_slice(&first[..used]);
        Sample { port, length: u32::try_from(length).unwrap_or(u32::MAX), bytes, used: used as u16 }
    }

    /// Its first bytes, [`MOST_BYTES`] at most.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.used.into()]
    }
}

/// Where samples go.
#[derive(Debug)]
pub struct Samples {
    /// One of so many packets; 0: none.
    one_in: AtomicU32,
    queue: ArrayQueue<Sample>,
    lost: AtomicU64,
}

impl Default for Samples {
    fn default() -> Self {
        Samples { one_in: AtomicU32::new(0), queue: ArrayQueue::new(WAITING), lost: AtomicU64::new(0) }
    }
}

impl Samples {
    /// From now on one of so many packets is wanted, of 0 none.
    pub fn set(&self, one_in: u32) {
        self.one_in.store(one_in, Ordering::Relaxed);
        if one_in == 0 {
            while self.take().is_some() {}
        }
    }

    /// One of how many is wanted; 0: none.
    #[inline]
    pub fn one_in(&self) -> u32 {
        self.one_in.load(Ordering::Relaxed)
    }

    /// A packet that was drawn.
    pub fn offer(&self, sample: Sample) {
        if self.queue.push(sample).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The next one, if there is one.
    pub fn take(&self) -> Option<Sample> {
        self.queue.pop()
    }

    /// Samples for which there was no room.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

/// Draws samples for a worker: between two are 1 to 2N-1 packets, each number as likely, as the sFlow specification
/// wants it (version 5, §3.1).
#[derive(Debug)]
pub struct Draw {
    /// Of how many one is drawn.
    one_in: u32,
    left: u32,
    /// Of a xorshift generator (Marsaglia 2003); never 0.
    state: u64,
}

impl Default for Draw {
    fn default() -> Self {
        Draw { one_in: 0, left: 0, state: RandomState::new().hash_one(0) | 1 }
    }
}

impl Draw {
    /// Which of so many packets are drawn, where one in `one_in` is, which is not 0.
    pub fn of_batch(&mut self, packets: usize, one_in: u32) -> impl Iterator<Item = usize> {
        if self.one_in != one_in {
            self.one_in = one_in;
            self.left = self.skip();
        }
        let mut at = 0;
        std::iter::from_fn(move || {
            let behind = packets - at;
            if self.left as usize >= behind {
                self.left -= behind as u32;
                at = packets;
                return None;
            }
            at += self.left as usize;
            self.left = self.skip();
            at += 1;
            Some(at - 1)
        })
    }

    /// Packets that are passed over until the next one, 0 to 2N-2.
    fn skip(&mut self) -> u32 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        let range = 2 * u64::from(self.one_in) - 1;
        ((self.state >> 32) % range) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Packets come in batches of all sizes; over many, one in N is drawn, and any may be.
    #[test]
    fn one_in_n_is_drawn() {
        for one_in in [1, 2, 10, 1000] {
            let (mut draw, mut drawn, mut all) = (Draw::default(), 0u64, 0u64);
            let mut gaps = Vec::new();
            let mut last = 0;
            for round in 0..200_000u64 {
                let batch = (round * 7 % 65) as usize;
                for at in draw.of_batch(batch, one_in) {
                    assert!(at < batch);
                    gaps.push(all + at as u64 + 1 - last);
                    last = all + at as u64 + 1;
                    drawn += 1;
                }
                all += batch as u64;
            }
            let wanted = all / u64::from(one_in);
            assert!(drawn.abs_diff(wanted) * 20 <= wanted, "{one_in}: {drawn} of {all}");
            assert!(gaps.iter().all(|gap| (1..2 * u64::from(one_in)).contains(gap)), "{one_in}");
            assert!(one_in < 2 || gaps.iter().any(|gap| *gap != gaps[0]), "{one_in}");
        }
    }

    #[test]
    fn what_has_no_room_is_counted() {
        let samples = Samples::default();
        samples.set(1);
        (0..WAITING + 5).for_each(|at| samples.offer(Sample::new(3, 1500, &at.to_be_bytes())));
        assert_eq!(samples.lost(), 5);
        let first = samples.take().unwrap();
        assert_eq!((first.port, first.length, first.bytes()), (3, 1500, &0usize.to_be_bytes()[..]));
        assert_eq!(Sample::new(0, 9000, &[7; 9000]).bytes(), [7; MOST_BYTES]);
        samples.set(0);
        assert_eq!(samples.take(), None);
    }
}
