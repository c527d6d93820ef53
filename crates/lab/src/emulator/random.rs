//! Random decisions that a seed repeats.
//!
//! Each cause draws from a stream of its own, once per packet. So the n-th packet meets the same fate in every run with
//! the same seed, whatever the time between packets, and changing one cause leaves the others' decisions as they were.

use std::f64::consts::TAU;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use super::impairments::{Distribution, Jitter, Loss};

/// One stream; xoshiro256++ (Blackman and Vigna, "Scrambled linear pseudorandom number generators", 2021).
struct Stream(Xoshiro256PlusPlus);

impl Stream {
    /// A number from 0 up to, without, 1: the upper 53 bits, as many as an `f64` holds.
    fn unit(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// True with this probability; draws in any case, to stay in step.
    fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }
}

/// The streams of one direction of a link.
pub(super) struct Streams {
    loss: Stream,
    corrupt: Stream,
    duplicate: Stream,
    jitter: Stream,
    reorder: Stream,
    /// State of the Gilbert-Elliott chain.
    bad: bool,
}

impl Streams {
    /// The streams of direction number `direction` for this seed.
    pub(super) fn new(seed: u64, direction: u64) -> Streams {
        let mut source = Xoshiro256PlusPlus::seed_from_u64(seed);
        for _ in 0..direction {
            source.long_jump();
        }
        let mut next = || {
            let stream = Stream(source.clone());
            source.jump();
            stream
        };
        Streams { loss: next(), corrupt: next(), duplicate: next(), jitter: next(), reorder: next(), bad: false }
    }

    pub(super) fn is_lost(&mut self, loss: &Loss) -> bool {
        match *loss {
            Loss::None => false,
            Loss::Random(probability) => self.loss.chance(probability),
            Loss::GilbertElliott { to_bad, to_good, good_loss, bad_loss } => {
                let leave = if self.bad { to_good } else { to_bad };
                self.bad ^= self.loss.chance(leave);
                self.loss.chance(if self.bad { bad_loss } else { good_loss })
            }
        }
    }

    /// The bit to flip, of `bits`.
    pub(super) fn corrupted_bit(&mut self, probability: f64, bits: usize) -> Option<usize> {
        let hit = self.corrupt.chance(probability);
        let position = self.corrupt.unit();
        (hit && bits > 0).then(|| ((position * bits as f64) as usize).min(bits - 1))
    }

    pub(super) fn is_duplicated(&mut self, probability: f64) -> bool {
        self.duplicate.chance(probability)
    }

    pub(super) fn is_held(&mut self, probability: f64) -> bool {
        self.reorder.chance(probability)
    }

    /// Nanoseconds to add to the delay.
    pub(super) fn jitter(&mut self, jitter: &Jitter) -> i64 {
        let spread = jitter.spread.as_nanos() as f64;
        let factor = match jitter.distribution {
            Distribution::Uniform => 2.0 * self.jitter.unit() - 1.0,
            Distribution::Normal => {
                // Box and Muller 1958; 1 - unit() is never 0, of which there is no logarithm.
                let (a, b) = (1.0 - self.jitter.unit(), self.jitter.unit());
                ((-2.0 * a.ln()).sqrt() * (TAU * b).cos()).clamp(-3.0, 3.0)
            }
        };
        (factor * spread) as i64
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_seed_repeats_its_decisions_and_directions_differ() {
        let draw = |seed, direction| -> Vec<bool> {
            let mut streams = Streams::new(seed, direction);
            (0..200).map(|_| streams.is_lost(&Loss::Random(0.5))).collect()
        };
        assert_eq!(draw(7, 1), draw(7, 1));
        assert_ne!(draw(7, 1), draw(7, 0));
        assert_ne!(draw(7, 1), draw(8, 1));
    }

    #[test]
    fn causes_do_not_disturb_each_other() {
        let (mut a, mut b) = (Streams::new(1, 0), Streams::new(1, 0));
        for _ in 0..200 {
            a.is_duplicated(0.5);
            a.corrupted_bit(0.5, 100);
            assert_eq!(a.is_lost(&Loss::Random(0.5)), b.is_lost(&Loss::Random(0.5)));
        }
    }

    #[test]
    fn probabilities_0_and_1_are_certain() {
        let mut streams = Streams::new(3, 0);
        for _ in 0..1000 {
            assert!(!streams.is_duplicated(0.0) && streams.is_duplicated(1.0));
            let bit = streams.corrupted_bit(1.0, 9).unwrap();
            assert!(bit < 9);
            assert_eq!(streams.corrupted_bit(1.0, 0), None);
        }
    }

    #[test]
    fn bursts_have_their_mean_loss_and_length() {
        let loss = Loss::GilbertElliott { to_bad: 0.02, to_good: 0.25, good_loss: 0.0, bad_loss: 1.0 };
        let mut streams = Streams::new(11, 0);
        let lost: Vec<bool> = (0..200_000).map(|_| streams.is_lost(&loss)).collect();
        let share = lost.iter().filter(|&&lost| lost).count() as f64 / lost.len() as f64;
        assert!((share - loss.mean()).abs() < 0.005, "{share} and not {}", loss.mean());
        let bursts = lost.windows(2).filter(|pair| !pair[0] && pair[1]).count() as f64;
        let length = share * lost.len() as f64 / bursts;
        assert!((length - 4.0).abs() < 0.25, "bursts of {length} packets");
    }

    #[test]
    fn jitter_has_its_mean_and_spread() {
        let spread = Duration::from_micros(100);
        for (distribution, expected) in [(Distribution::Uniform, 1.0 / 3f64.sqrt()), (Distribution::Normal, 1.0)] {
            let mut streams = Streams::new(5, 0);
            let jitter = Jitter { spread, distribution, overtake: false };
            let drawn: Vec<f64> = (0..100_000).map(|_| streams.jitter(&jitter) as f64 / 1e5).collect();
            let mean = drawn.iter().sum::<f64>() / 1e5;
            let deviation = (drawn.iter().map(|x| x * x).sum::<f64>() / 1e5).sqrt();
            assert!(mean.abs() < 0.02, "{distribution:?}: mean {mean}");
            assert!((deviation - expected).abs() < 0.02, "{distribution:?}: deviation {deviation}");
            let limit = if distribution == Distribution::Uniform { 1.0 } else { 3.0 };
            assert!(drawn.iter().all(|x| x.abs() <= limit));
        }
    }
}
