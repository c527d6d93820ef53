//! Which numbers of a flow have come.

/// How far a packet may come behind the latest one and still be told apart from one that comes twice.
const WINDOW: u32 = 8192;
const WORDS: usize = WINDOW as usize / 64;

/// What a number that came says about its packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    /// It is the latest so far.
    Latest,
    /// Later ones have come before it (RFC 4737 section 3: it is less than the next number expected).
    Reordered,
    /// It has come before.
    Duplicate,
    /// So far behind that it is one of the two, but it is not kept which.
    Stale,
}

/// The latest numbers of a flow, a bit each.
#[derive(Clone, Debug)]
pub(super) struct Window {
    /// One more than the latest number.
    next: u64,
    seen: Box<[u64; WORDS]>,
}

impl Default for Window {
    fn default() -> Self {
        Window { next: 0, seen: Box::new([0; WORDS]) }
    }
}

impl Window {
    pub(super) fn take(&mut self, number: u32) -> Arrival {
        let number = u64::from(number);
        if number >= self.next {
            if number - self.next >= u64::from(WINDOW) {
                self.seen.fill(0);
            } else {
                (self.next..number).for_each(|skipped| self.clear(skipped));
            }
            self.next = number + 1;
            self.set(number);
            return Arrival::Latest;
        }
        if self.next - number > u64::from(WINDOW) {
            return Arrival::Stale;
        }
        if self.set(number) { Arrival::Duplicate } else { Arrival::Reordered }
    }

    /// Numbers up to the latest one.
    pub(super) fn expected(&self) -> u64 {
        self.next
    }

    /// Whether it was set already.
    fn set(&mut self, number: u64) -> bool {
        let (word, bit) = place(number);
        let before = self.seen[word] & bit != 0;
        self.seen[word] |= bit;
        before
    }

    fn clear(&mut self, number: u64) {
        let (word, bit) = place(number);
        self.seen[word] &= !bit;
    }
}

fn place(number: u64) -> (usize, u64) {
    let number = (number % u64::from(WINDOW)) as usize;
    (number / 64, 1 << (number % 64))
}

#[cfg(test)]
mod tests {
    use super::Arrival::*;
    use super::*;

    #[test]
    fn lost_doubled_and_overtaken_are_told_apart() {
        let mut window = Window::default();
        let arrivals: Vec<_> = [0, 1, 1, 4, 2, 4, 2, 6].into_iter().map(|number| window.take(number)).collect();
        assert_eq!(arrivals, [Latest, Latest, Duplicate, Latest, Reordered, Duplicate, Duplicate, Latest]);
        assert_eq!(window.expected(), 7);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut window = Window::default();
        assert_eq!(window.take(0), Latest);
        assert_eq!(window.take(WINDOW), Latest);
        assert_eq!(window.take(1), Reordered, "just inside");
        assert_eq!(window.take(0), Stale);
        // A jump further than the window forgets everything, and numbers reuse their places.
        assert_eq!(window.take(10 * WINDOW), Latest);
        assert_eq!(window.take(9 * WINDOW + 1), Reordered);
        assert_eq!(window.take(u32::MAX), Latest);
        assert_eq!(window.take(u32::MAX - 1), Reordered);
        assert_eq!(window.expected(), 1 << 32);
    }

    #[test]
    fn it_agrees_with_a_set() {
        let (mut window, mut set) = (Window::default(), std::collections::HashSet::new());
        let (mut state, mut next) = (1u64, 0u32);
        for _ in 0..100_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            next += 1 + (state >> 61) as u32;
            let number = next.saturating_sub((state >> 33) as u32 % 6000);
            let latest = set.iter().max().is_none_or(|max| number > *max);
            let expected = match set.insert(number) {
                _ if latest => Latest,
                true => Reordered,
                false => Duplicate,
            };
            assert_eq!(window.take(number), expected, "{number}");
            set.retain(|kept| kept + 20_000 > number);
        }
    }
}
