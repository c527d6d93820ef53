//! Reads a film ahead of what is played: the disk may be waited for once for many packets, and not where packets are
//! paced.

use std::collections::VecDeque;
use std::time::Duration;

use super::film::{Film, Next, Reading};

/// So much of the film is read at a time, in packets at most: each viewer has so much in memory.
const AHEAD: Duration = Duration::from_millis(100);
const MOST: usize = 64;

/// What was read of a film and is not played yet.
#[derive(Debug, Default)]
pub struct Ahead {
    read: VecDeque<Next>,
    /// What is behind these, where that is known.
    behind: Option<Result<Reading, String>>,
    /// When the film was read last there was nothing yet.
    waits: bool,
}

impl Ahead {
    /// The next packet, if it is in memory.
    pub fn at_hand(&mut self) -> Option<Next> {
        self.read.pop_front()
    }

    /// A packet is not to be played yet.
    pub fn put_back(&mut self, next: Next) {
        self.read.push_front(next);
    }

    /// Whether there is still nothing to read.
    pub fn is_waiting(&self, film: &impl Film) -> bool {
        self.waits && !film.may_have_more()
    }

    /// The next packet, for which the film is read if it is not in memory; or what is there in its place.
    ///
    /// # Errors
    /// Why no more can be read.
    pub fn read(&mut self, film: &mut impl Film) -> Result<Reading, String> {
        if self.read.is_empty() && self.behind.is_none() {
            self.fill(film);
        }
        let reading = match self.read.pop_front() {
            Some(next) => Ok(Reading::Packet(next)),
            // What it was may be another thing the next time.
            None => self.behind.take().unwrap_or(Ok(Reading::Wait)),
        };
        self.waits = reading == Ok(Reading::Wait);
        reading
    }

    fn fill(&mut self, film: &mut impl Film) {
        while self.read.len() < MOST {
            match film.read() {
                Ok(Reading::Packet(next)) => {
                    let from = self.read.front().map_or(next.npt, |own| own.npt);
                    let is_far = next.npt >= from + AHEAD;
                    self.read.push_back(next);
                    if is_far {
                        return;
                    }
                }
                other => {
                    self.behind = Some(other);
                    return;
                }
            }
        }
    }
}
