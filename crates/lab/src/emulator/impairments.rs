//! What a link does to the packets of one direction.

use std::time::Duration;

use crate::error::{Error, Result};

/// Longest delay, jitter or hold.
pub const MAX_DELAY: Duration = Duration::from_secs(60);
/// Slowest rate in bit/s.
pub const MIN_RATE: u64 = 1_000;
/// Fastest rate in bit/s.
pub const MAX_RATE: u64 = 1_000_000_000_000;
/// Most packets that may overtake a reordered one.
pub const MAX_GAP: u32 = 10_000;

/// What a link does to the packets of one direction, in the order of the fields, as a real one does: a packet waits in
/// the queue, is sent at the rate, and only then may be lost, corrupted, doubled, and takes its time to arrive.
///
/// The default does nothing at all. Probabilities are from 0 to 1.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Impairments {
    /// Rate in bit/s; an Ethernet frame counts with its header, without preamble, checksum (FCS) and gap.
    pub rate: Option<u64>,
    /// The queue before the rate.
    pub queue: QueueLimit,
    /// Which packets are lost.
    pub loss: Loss,
    /// Probability that one bit after the Ethernet addresses and type is flipped.
    pub corrupt: f64,
    /// Probability that a packet arrives twice.
    pub duplicate: f64,
    /// Delay of every packet, [`MAX_DELAY`] at most.
    pub delay: Duration,
    /// What is added to the delay or taken from it, anew for each packet.
    pub jitter: Jitter,
    /// Which packets are overtaken.
    pub reorder: Reorder,
}

/// How much waits before a rate; what comes when it is full is dropped (tail drop). The packet that is being sent
/// counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueLimit {
    /// Most packets.
    pub packets: u32,
    /// Most bytes; one packet is always taken, however long.
    pub bytes: u64,
}

impl Default for QueueLimit {
    fn default() -> Self {
        QueueLimit { packets: 1000, bytes: u64::MAX }
    }
}

/// Which packets are lost.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Loss {
    /// None.
    #[default]
    None,
    /// Each with the same probability.
    Random(f64),
    /// In bursts: a chain of two states, which each packet moves first (Gilbert 1960, Elliott 1963).
    GilbertElliott {
        /// Probability to go from the good state to the bad one.
        to_bad: f64,
        /// Probability to go from the bad state to the good one; its inverse is the mean length of a burst in packets.
        to_good: f64,
        /// Probability of loss in the good state.
        good_loss: f64,
        /// Probability of loss in the bad state.
        bad_loss: f64,
    },
}

impl Loss {
    /// The share of packets lost in the long run.
    pub fn mean(&self) -> f64 {
        match *self {
            Loss::None => 0.0,
            Loss::Random(probability) => probability,
            // A chain that never leaves a state stays in the good one, where it starts.
            Loss::GilbertElliott { to_bad: 0.0, good_loss, .. } => good_loss,
            Loss::GilbertElliott { to_bad, to_good, good_loss, bad_loss } => {
                let bad = to_bad / (to_bad + to_good);
                bad * bad_loss + (1.0 - bad) * good_loss
            }
        }
    }
}

/// Variation of the delay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Jitter {
    /// Most of it (uniform) or its standard deviation (normal), [`MAX_DELAY`] at most.
    pub spread: Duration,
    /// How it is distributed around 0. A packet never leaves before it came.
    pub distribution: Distribution,
    /// A packet may overtake one that got a longer delay. Otherwise it leaves right after that one, as in a queue.
    pub overtake: bool,
}

/// How jitter is distributed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Distribution {
    /// Evenly from minus the spread to the spread.
    #[default]
    Uniform,
    /// Normal, cut off at three standard deviations.
    Normal,
}

/// Which packets are overtaken by later ones.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reorder {
    /// Probability that a packet is held back.
    pub probability: f64,
    /// How many packets overtake it then, 1 to [`MAX_GAP`].
    pub gap: u32,
    /// Longest time that it is held back; then it goes, whether it was overtaken or not. [`MAX_DELAY`] at most.
    pub hold: Duration,
}

impl Default for Reorder {
    fn default() -> Self {
        Reorder { probability: 0.0, gap: 1, hold: Duration::from_millis(10) }
    }
}

impl Impairments {
    /// Whether nothing is done to any packet.
    pub fn is_none(&self) -> bool {
        self.rate.is_none()
            && self.loss == Loss::None
            && self.corrupt == 0.0
            && self.duplicate == 0.0
            && self.delay.is_zero()
            && self.jitter.spread.is_zero()
            && self.reorder.probability == 0.0
    }

    /// Whether all values are within their ranges; the error names the first that is not.
    pub fn validate(&self) -> Result<()> {
        let probability = |name: &str, value: f64| match (0.0..=1.0).contains(&value) {
            true => Ok(()),
            false => Err(Error::Invalid(format!("{name} = {value}: a probability is from 0 to 1"))),
        };
        let time = |name: &str, value: Duration| match value <= MAX_DELAY {
            true => Ok(()),
            false => Err(Error::Invalid(format!("{name} = {value:?}: at most {MAX_DELAY:?}"))),
        };
        if let Some(rate) = self.rate
            && !(MIN_RATE..=MAX_RATE).contains(&rate)
        {
            return Err(Error::Invalid(format!("rate = {rate}: from {MIN_RATE} to {MAX_RATE} bit/s")));
        }
        if self.queue.packets == 0 || self.queue.bytes == 0 {
            return Err(Error::Invalid("a queue takes at least one packet and one byte".to_owned()));
        }
        match self.loss {
            Loss::None => {}
            Loss::Random(value) => probability("loss", value)?,
            Loss::GilbertElliott { to_bad, to_good, good_loss, bad_loss } => {
                probability("to_bad", to_bad)?;
                probability("to_good", to_good)?;
                probability("good_loss", good_loss)?;
                probability("bad_loss", bad_loss)?;
            }
        }
        probability("corrupt", self.corrupt)?;
        probability("duplicate", self.duplicate)?;
        time("delay", self.delay)?;
        time("jitter", self.jitter.spread)?;
        probability("reorder", self.reorder.probability)?;
        time("hold", self.reorder.hold)?;
        if !(1..=MAX_GAP).contains(&self.reorder.gap) {
            return Err(Error::Invalid(format!("gap = {}: from 1 to {MAX_GAP}", self.reorder.gap)));
        }
        Ok(())
    }
}
