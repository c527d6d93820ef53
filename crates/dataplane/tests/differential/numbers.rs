//! A repeatable source of numbers: the same on every machine and for ever, so that a seed names a test.

/// splitmix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014).
pub struct SplitMix64(u64);

impl SplitMix64 {
    pub fn new(seed: u64) -> Self {
        let mut numbers = SplitMix64(seed ^ 0x6d69_6c6c_7261_6365);
        // Neighbouring seeds begin with neighbouring states: one step takes them apart.
        SplitMix64(numbers.next())
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Below `n`; 0 for 0.
    pub fn below(&mut self, n: usize) -> usize {
        if n == 0 { 0 } else { (self.next() % n as u64) as usize }
    }

    /// From `least` to `most`.
    pub fn range(&mut self, least: usize, most: usize) -> usize {
        least + self.below(most - least + 1)
    }

    /// True with this chance in a hundred.
    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }

    /// A number of at most `width` bits: mostly a small or an extreme one, for those find the mistakes.
    pub fn bits(&mut self, width: u32) -> u128 {
        let mask = u128::MAX >> (128 - width);
        let wide = u128::from(self.next()) << 64 | u128::from(self.next());
        let value = match self.below(8) {
            0..=2 => wide % 10,
            3 => mask,
            4 => mask >> 1,
            5 => (mask >> 1) + 1,
            6 => 1u128 << (wide % u128::from(width)),
            _ => wide,
        };
        value & mask
    }
}
