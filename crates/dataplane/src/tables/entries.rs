//! Which entry of an lpm table holds which value. Where the program only reads them, routes of one length with equal
//! values share an entry: there are many routes and few neighbours.
//!
//! Of one length only, so that an entry says how long the prefix of a slot that leads to it is.

use std::collections::HashMap;
use std::io;

use baker::ir::TableError;

use super::epoch::Epochs;
use super::slots::Slots;
use super::space::Space;
use super::values::Values;

/// Entry by prefix length and value.
type ByValue = HashMap<(u8, Box<[u8]>), u32, ahash::RandomState>;

/// The entries in use.
#[derive(Debug)]
pub struct Entries {
    slots: Slots,
    shared: Option<ByValue>,
    /// Number of routes of each entry.
    uses: Vec<u32>,
    /// Prefix length of each entry.
    lengths: Vec<u8>,
    used: usize,
}

impl Entries {
    /// At most so many; whether routes share them.
    pub fn new(limit: u32, are_shared: bool) -> io::Result<Self> {
        Ok(Entries {
            slots: Slots::new(limit, &Space::Private)?,
            shared: are_shared.then(HashMap::default),
            uses: vec![0; limit as usize],
            lengths: vec![0; limit as usize],
            used: 0,
        })
    }

    /// Whether routes share entries, whose values then stay what they are.
    pub fn are_shared(&self) -> bool {
        self.shared.is_some()
    }

    /// Number of entries in use.
    pub fn used(&self) -> usize {
        self.used
    }

    /// Length of the prefixes of an entry's routes.
    pub fn length(&self, entry: u32) -> u8 {
        self.lengths[entry as usize]
    }

    /// An entry with this value, for one more route.
    pub fn take(&mut self, len: u8, value: &[u8], values: &Values, epochs: &Epochs) -> Result<u32, TableError> {
        let known = self.shared.as_ref().and_then(|shared| shared.get(&(len, value.into())).copied());
        let entry = match known {
            Some(entry) => entry,
            None => {
                let entry = self.slots.lock().take_patiently(epochs)?;
                values.write(entry, value);
                self.lengths[entry as usize] = len;
                self.used += 1;
                if let Some(shared) = &mut self.shared {
                    shared.insert((len, value.into()), entry);
                }
                entry
            }
        };
        self.uses[entry as usize] += 1;
        Ok(entry)
    }

    /// A route less for an entry. One that no route leads to any more may still be held by a batch.
    pub fn release(&mut self, entry: u32, values: &Values, epochs: &Epochs) {
        self.uses[entry as usize] -= 1;
        if self.uses[entry as usize] > 0 {
            return;
        }
        if let Some(shared) = &mut self.shared {
            shared.remove(&(self.lengths[entry as usize], values.read(entry)[..].into()));
        }
        self.used -= 1;
        self.slots.lock().retire(entry, epochs);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::Space;
    use crate::testing::scalar;

    #[test]
    fn equal_values_of_one_length_share_an_entry() {
        let epochs = Epochs::new(&Space::Private).unwrap();
        let values = Values::new(100, (&scalar(32), None), &Space::Private).unwrap();
        let mut entries = Entries::new(100, true).unwrap();
        let mut take = |len, value: u32| entries.take(len, &value.to_ne_bytes(), &values, &epochs).unwrap();
        let first = take(24, 7);
        assert_eq!(take(24, 7), first);
        assert_ne!(take(24, 8), first);
        assert_ne!(take(23, 7), first);
        assert_eq!((entries.used(), entries.length(first)), (3, 24));
        entries.release(first, &values, &epochs);
        assert_eq!(entries.used(), 3, "another route has it");
        entries.release(first, &values, &epochs);
        assert_eq!(entries.used(), 2);
    }

    #[test]
    fn entries_that_the_program_writes_are_not_shared() {
        let epochs = Epochs::new(&Space::Private).unwrap();
        let values = Values::new(100, (&scalar(32), None), &Space::Private).unwrap();
        let mut entries = Entries::new(100, false).unwrap();
        let mut take = || entries.take(24, &7u32.to_ne_bytes(), &values, &epochs).unwrap();
        assert_ne!(take(), take());
    }
}
