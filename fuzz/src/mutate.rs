//! Mutations that are the same in every run.

/// Longest input.
const LONGEST: usize = 64 << 10;
/// Bytes that are more likely wrong than others.
const EDGES: [u8; 10] = [0, 1, 0x7f, 0x80, 0xff, b'"', b'{', b'\n', b'-', b'9'];

/// Makes inputs of seeds; splitmix64 (Steele, Lea, Flood 2014).
pub struct Mutator<'s> {
    state: u64,
    seeds: &'s [Vec<u8>],
    words: &'s [&'s str],
}

impl<'s> Mutator<'s> {
    /// Makes inputs of at least one seed. The same number makes the same inputs.
    pub fn new(number: u64, seeds: &'s [Vec<u8>], words: &'s [&'s str]) -> Self {
        Mutator { state: number, seeds, words }
    }

    fn random(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.random() % end.max(1) as u64) as usize
    }

    /// A part of some bytes, of up to so many.
    fn part(&mut self, bytes: &[u8], most: usize) -> std::ops::Range<usize> {
        let start = self.below(bytes.len() + 1);
        let length = self.below(most.min(bytes.len() - start) + 1);
        start..start + length
    }

    /// The next input.
    pub fn next_input(&mut self) -> Vec<u8> {
        let chosen = self.below(self.seeds.len());
        let mut input = self.seeds[chosen].clone();
        for _ in 0..1 + self.below(4) {
            self.change(&mut input);
        }
        input.truncate(LONGEST);
        input
    }

    fn change(&mut self, input: &mut Vec<u8>) {
        let at = self.below(input.len());
        match self.below(if self.words.is_empty() { 7 } else { 9 }) {
            0 if !input.is_empty() => input[at] ^= 1 << self.below(8),
            1 if !input.is_empty() => input[at] = self.random() as u8,
            2 if !input.is_empty() => input[at] = EDGES[self.below(EDGES.len())],
            3 => drop(input.drain(self.part(&input.clone(), 16))),
            4 => input.truncate(at),
            5 => {
                // A part of itself once more, somewhere.
                let copy = input[self.part(input, 64)].to_vec();
                input.splice(at..at, copy);
            }
            6 => {
                // A part of another seed.
                let other = self.below(self.seeds.len());
                let seeds = self.seeds;
                let part = seeds[other][self.part(&seeds[other], 256)].to_vec();
                input.splice(at..at, part);
            }
            7 | 8 => {
                let word = self.words[self.below(self.words.len())];
                let end = (at + self.below(word.len() + 1)).min(input.len());
                input.splice(at..end, word.bytes());
            }
            _ => input.push(self.random() as u8),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Mutator;

    #[test]
    fn inputs_repeat_and_differ() {
        let seeds = [b"one".to_vec(), b"two and more".to_vec(), Vec::new()];
        let make = |number| -> Vec<_> {
            let mut mutator = Mutator::new(number, &seeds, &["word"]);
            (0..200).map(|_| mutator.next_input()).collect()
        };
        assert_eq!(make(1), make(1));
        assert_ne!(make(1), make(2));
        let mut all = make(1);
        all.sort();
        all.dedup();
        assert!(all.len() > 150, "{} different ones of 200", all.len());
    }
}
