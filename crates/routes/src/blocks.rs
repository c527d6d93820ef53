//! Places of the table `ways`, handed out in blocks of powers of two.

/// Ways of a group at most.
pub const MOST: u32 = 256;
/// Sizes of blocks: 1 to [`MOST`].
const CLASSES: usize = MOST.ilog2() as usize + 1;

/// What is free.
#[derive(Debug)]
pub struct Blocks {
    free: [Vec<u32>; CLASSES],
    /// From here on nothing was ever handed out.
    fresh: u32,
    end: u32,
}

fn class(size: u32) -> usize {
    size.clamp(1, MOST).next_power_of_two().ilog2() as usize
}

impl Blocks {
    /// Places from `start` to `end`.
    pub fn new(start: u32, end: u32) -> Blocks {
        Blocks { free: Default::default(), fresh: start.next_multiple_of(MOST), end }
    }

    /// The first of so many places; `None` where there is no room.
    pub fn take(&mut self, size: u32) -> Option<u32> {
        let class = class(size);
        if let Some(first) = self.free[class].pop() {
            return Some(first);
        }
        // A larger one is halved.
        if let Some(larger) = (class + 1..CLASSES).find(|larger| !self.free[*larger].is_empty()) {
            let first = self.free[larger].pop()?;
            (class..larger).for_each(|class| self.free[class].push(first + (1 << class)));
            return Some(first);
        }
        let first = self.fresh.next_multiple_of(1 << class);
        let end = first.checked_add(1 << class).filter(|end| *end <= self.end)?;
        self.fresh = end;
        Some(first)
    }

    /// Takes them back.
    pub fn give_back(&mut self, first: u32, size: u32) {
        self.free[class(size)].push(first);
    }
}

/// The ways of a group in a table: each as often as its weight says, no more than [`MOST`] in all.
pub fn spread(ways: &[(u32, u16)]) -> Vec<u32> {
    let divisor = ways.iter().fold(0, |divisor, (_, weight)| gcd(divisor, u32::from(*weight))).max(1);
    let total: u32 = ways.iter().map(|(_, weight)| u32::from(*weight) / divisor).sum();
    let part = |weight: u16| {
        let weight = u32::from(weight) / divisor;
        if total <= MOST { weight } else { (weight * (MOST - ways.len() as u32) / total) + 1 }
    };
    ways.iter().flat_map(|(way, weight)| std::iter::repeat_n(*way, part(*weight) as usize)).collect()
}

fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn blocks_never_overlap_and_come_back() {
        let mut blocks = Blocks::new(100, 4096);
        let mut taken: BTreeMap<u32, u32> = BTreeMap::new();
        let mut random = 1u64;
        for round in 0..20_000 {
            random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let size = (random >> 33) as u32 % MOST + 1;
            match blocks.take(size) {
                Some(first) if round % 3 != 2 => {
                    assert!(first >= 100 && first + size <= 4096);
                    let before = taken.range(..first + size).next_back();
                    assert!(before.is_none_or(|(other, size)| other + size <= first), "{first} {size} {before:?}");
                    taken.insert(first, size);
                }
                Some(first) => blocks.give_back(first, size),
                None => {
                    let all: Vec<_> = std::mem::take(&mut taken).into_iter().collect();
                    all.into_iter().for_each(|(first, size)| blocks.give_back(first, size));
                }
            }
        }
        assert!(Blocks::new(0, 255).take(256).is_none());
    }

    #[test]
    fn weights_are_parts() {
        assert_eq!(spread(&[(7, 2), (9, 4)]), [7, 9, 9]);
        let many = spread(&[(1, 256), (2, 255), (3, 1)]);
        let count = |way| many.iter().filter(|own| **own == way).count();
        assert!(many.len() <= MOST as usize && count(3) == 1 && count(1).abs_diff(count(2)) <= 1, "{many:?}");
        assert_eq!(spread(&[(1, 1); 256]).len(), 256);
    }
}
