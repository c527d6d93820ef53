//! Reads a film ahead of what is played: the disk may be waited for once for many packets, and not where packets are
//! paced.

use std::collections::VecDeque;
use std::time::Duration;

use wire::sdp::Description;

use super::film::{Begin, Film, Next, Reading};

/// So much of the film is read at a time, in packets at most: each viewer has so much in memory.
const AHEAD: Duration = Duration::from_millis(100);
const MOST: usize = 64;

/// See the module.
#[derive(Debug)]
pub struct Ahead<F> {
    film: F,
    read: VecDeque<Next>,
    /// What is behind these, where that is known.
    behind: Option<Result<Reading, String>>,
    /// When it was read last there was nothing yet.
    waits: bool,
}

impl<F: Film> Ahead<F> {
    /// Nothing is read yet.
    pub fn new(film: F) -> Ahead<F> {
        Ahead { film, read: VecDeque::new(), behind: None, waits: false }
    }

    /// The next packet, if it is in memory.
    pub fn at_hand(&mut self) -> Option<Next> {
        self.read.pop_front()
    }

    /// Whether there is still nothing to read.
    pub fn is_waiting(&self) -> bool {
        self.waits && !self.film.may_have_more()
    }

    /// The film itself.
    #[cfg(test)]
    pub fn film(&mut self) -> &mut F {
        &mut self.film
    }

    fn fill(&mut self) {
        while self.read.len() < MOST {
            match self.film.read() {
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

impl<F: Film> Film for Ahead<F> {
    fn description(&self) -> &Description {
        self.film.description()
    }

    fn length(&self) -> Duration {
        self.film.length()
    }

    fn grows(&self) -> bool {
        self.film.grows()
    }

    fn has(&self, npt: Duration) -> bool {
        self.film.has(npt)
    }

    fn elsewhere(&self) -> u16 {
        self.film.elsewhere()
    }

    fn refresh(&mut self) {
        self.film.refresh();
    }

    fn around(&self, npt: Duration, tracks: &[usize], give: &mut dyn FnMut(&Next)) -> Result<(), String> {
        self.film.around(npt, tracks, give)
    }

    fn may_have_more(&self) -> bool {
        self.film.may_have_more()
    }

    fn clock_at(&self, npt: Duration) -> Option<Duration> {
        self.film.clock_at(npt)
    }

    fn npt_at(&self, clock: Duration) -> Option<Duration> {
        self.film.npt_at(clock)
    }

    fn seek(&mut self, to: Duration, tracks: &[usize], keys: bool) -> Result<Begin, String> {
        self.read.clear();
        (self.behind, self.waits) = (None, false);
        self.film.seek(to, tracks, keys)
    }

    fn read(&mut self) -> Result<Reading, String> {
        if self.read.is_empty() && self.behind.is_none() {
            self.fill();
        }
        let reading = match self.read.pop_front() {
            Some(next) => Ok(Reading::Packet(next)),
            // What it was may be another thing the next time.
            None => self.behind.take().unwrap_or(Ok(Reading::Wait)),
        };
        self.waits = reading == Ok(Reading::Wait);
        reading
    }
}
