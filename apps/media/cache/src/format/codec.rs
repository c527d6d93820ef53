//! Numbers, as files have them: little-endian, or 7 bits a byte with the lowest first.

/// Takes numbers off bytes; none where they are not there.
#[derive(Clone, Copy, Debug)]
pub struct Input<'b>(pub &'b [u8]);

impl Input<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (own, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*own)
    }

    /// A byte.
    pub fn byte(&mut self) -> Option<u8> {
        self.take::<1>().map(|own| own[0])
    }

    /// 16 bits.
    pub fn half(&mut self) -> Option<u16> {
        self.take().map(u16::from_le_bytes)
    }

    /// 32 bits.
    pub fn word(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    /// 64 bits.
    pub fn long(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    /// A number of variable length.
    pub fn variable(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return None;
            }
            number |= bits << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    /// A difference to a number before; the number.
    pub fn follows(&mut self, before: u64) -> Option<u64> {
        let coded = self.variable()?;
        let difference = (coded >> 1) as i64 ^ -((coded & 1) as i64);
        Some(before.wrapping_add(difference as u64))
    }
}

/// Appends a number of variable length.
pub fn put_variable(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// Appends a number as its difference to one before.
pub fn put_following(bytes: &mut Vec<u8>, before: u64, number: u64) {
    let difference = number.wrapping_sub(before) as i64;
    put_variable(bytes, ((difference << 1) ^ (difference >> 63)) as u64);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn numbers_come_back(numbers in prop::collection::vec((any::<u64>(), 0u32..64), 0..50)) {
            let numbers: Vec<u64> = numbers.into_iter().map(|(number, shift)| number >> shift).collect();
            let (mut bytes, mut before) = (Vec::new(), 7);
            for number in &numbers {
                put_variable(&mut bytes, *number);
                put_following(&mut bytes, before, *number);
                before = *number;
            }
            let (mut input, mut before) = (Input(&bytes), 7);
            for number in &numbers {
                prop_assert_eq!(input.variable(), Some(*number));
                prop_assert_eq!(input.follows(before), Some(*number));
                before = *number;
            }
            prop_assert!(input.0.is_empty());
        }
    }

    #[test]
    fn what_is_cut_off_or_too_long_is_none() {
        assert_eq!(Input(&[0x80; 3]).variable(), None);
        assert_eq!(Input(&[0xff; 12]).variable(), None);
        assert_eq!(Input(&[1, 2, 3]).word(), None);
    }
}
