//! When what happens next: a tournament of times, so that one that changes plays against as many others as the number
//! of all has bits.

/// No time.
pub(super) const NEVER: u64 = u64::MAX;

/// Bits of a time that say whose it is. So the least is the next, and of two at the same time that with the lower
/// number.
const WHOSE: u32 = 10;

/// Times of so many things, by number.
pub(super) struct Agenda {
    /// The leaves are in the second half; each other place has the lesser of the two below.
    tree: Vec<u64>,
}

impl Agenda {
    /// For so many things; none has a time.
    ///
    /// # Panics
    /// Where they are more than 1024.
    pub(super) fn new(count: usize) -> Agenda {
        assert!(count <= 1 << WHOSE);
        Agenda { tree: vec![NEVER; 2 * count.next_power_of_two()] }
    }

    /// Sets the time of one, or takes it away.
    #[inline(always)]
    pub(super) fn set(&mut self, whose: usize, at: u64) {
        let mut least = if at == NEVER { NEVER } else { at << WHOSE | whose as u64 };
        let mut place = self.tree.len() / 2 + whose;
        self.tree[place] = least;
        while place > 1 {
            least = least.min(self.tree[place ^ 1]);
            place /= 2;
            self.tree[place] = least;
        }
    }

    /// The time of one.
    pub(super) fn get(&self, whose: usize) -> u64 {
        let time = self.tree[self.tree.len() / 2 + whose];
        if time == NEVER { NEVER } else { time >> WHOSE }
    }

    /// The least time, and whose it is.
    pub(super) fn first(&self) -> Option<(u64, usize)> {
        let first = self.tree[1];
        (first != NEVER).then_some((first >> WHOSE, (first & ((1 << WHOSE) - 1)) as usize))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_and_of_equals_the_lowest() {
        for count in [1, 2, 5, 64] {
            let mut agenda = Agenda::new(count);
            assert_eq!(agenda.first(), None);
            let mut times = vec![NEVER; count];
            let mut seed = 1u64;
            for _ in 0..1000 {
                seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                let (whose, at) = ((seed >> 33) as usize % count, (seed >> 50) % 20);
                times[whose] = if at == 19 { NEVER } else { at };
                agenda.set(whose, times[whose]);
                assert_eq!(agenda.get(whose), times[whose]);
                let wanted = (0..count).map(|whose| (times[whose], whose)).min().filter(|(at, _)| *at != NEVER);
                assert_eq!(agenda.first(), wanted);
            }
        }
    }
}
