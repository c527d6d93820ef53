//! Which members each group has: a bit for each number, beside the hash table whose entries are the members.
//!
//! ```text
//! group 3  → │1 1 0 1 …│   members 0, 1 and 3: whoever joins becomes 2
//! ```
//!
//! Whoever goes over the members of a group goes by their numbers, so that nothing is missed or doubled however many
//! come and go meanwhile: who stays keeps the number, and a cursor is a number. A word is 64 members, so holes cost
//! next to nothing. Workers read without a lock. Where a group outgrows its words it gets twice as many elsewhere, and
//! the old ones are freed when no worker can read them any more.

use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use baker::ir::TableError;

use super::epoch::Epochs;

/// Members of a word.
const BITS: u32 = u64::BITS;

/// The members of one group, by number.
type Words = Box<[AtomicU64]>;

/// What there is between the begin and the end of a group's members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextMember {
    /// The next one.
    Member(u32),
    /// None so far: the search goes on from here.
    From(u32),
    /// There is no further one.
    End,
}

/// The members of all groups of a table.
#[derive(Debug)]
pub struct Members {
    /// By group: null where it never had any, or has none any more.
    groups: Box<[AtomicPtr<Words>]>,
    /// No number is as great as this.
    most: u32,
    /// Whoever changes members holds it.
    writer: Mutex<Writer>,
    epochs: Arc<Epochs>,
}

#[derive(Debug, Default)]
struct Writer {
    /// By group: how many members it has, and a word in front of which all words are full.
    groups: Box<[(u32, u32)]>,
    /// Words that workers may still read, with their stamps.
    #[allow(clippy::vec_box)] // Workers have the boxes' addresses.
    retired: Vec<(u64, Box<Words>)>,
}

/// The right to change members.
pub struct Change<'a> {
    members: &'a Members,
    writer: MutexGuard<'a, Writer>,
}

impl Members {
    /// So many groups, all without members, whose numbers are below `most`.
    pub fn new(groups: u32, most: u32, epochs: Arc<Epochs>) -> Self {
        let writer = Writer { groups: vec![(0, 0); groups as usize].into(), retired: Vec::new() };
        let groups = (0..groups).map(|_| AtomicPtr::default()).collect();
        Members { groups, most, writer: Mutex::new(writer), epochs }
    }

    /// The first member of a group from a number on, which looks at no more than `words` words and takes those off. To
    /// be called by a worker, between whose quiescent states no words are freed.
    pub fn next(&self, group: u32, from: u32, words: &mut u32) -> NextMember {
        let Some(found) = self.groups.get(group as usize) else { return NextMember::End };
        // SAFETY: words that are freed were unlinked before the worker's last quiescent state.
        let Some(all) = (unsafe { found.load(Ordering::Acquire).as_ref() }) else { return NextMember::End };
        let (first, mut mask) = (from / BITS, u64::MAX << (from % BITS));
        for (index, word) in (first..).zip(all.get(first as usize..).unwrap_or_default()) {
            if *words == 0 {
                return NextMember::From(from.max(index * BITS));
            }
            *words -= 1;
            match word.load(Ordering::Relaxed) & mask {
                0 => mask = u64::MAX,
                bits => return NextMember::Member(index * BITS + bits.trailing_zeros()),
            }
        }
        NextMember::End
    }

    /// Keeps others from changing members. For the control plane.
    pub fn change(&self) -> Change<'_> {
        Change { members: self, writer: self.writer.lock().unwrap_or_else(PoisonError::into_inner) }
    }

    /// Whether a group may have a member of this number.
    pub fn has_place(&self, group: u32, member: u32) -> bool {
        (group as usize) < self.groups.len() && member < self.most
    }
}

impl Drop for Members {
    fn drop(&mut self) {
        for group in &self.groups {
            let words = group.swap(ptr::null_mut(), Ordering::Relaxed);
            if !words.is_null() {
                // SAFETY: it came from a box, and nobody else has it any more.
                drop(unsafe { Box::from_raw(words) });
            }
        }
    }
}

impl Change<'_> {
    /// The members of a group, by number.
    pub fn all(&self, group: u32) -> Vec<u32> {
        let Some(words) = self.members.groups.get(group as usize) else { return Vec::new() };
        // SAFETY: only whoever has this right unlinks words.
        let words = unsafe { words.load(Ordering::Relaxed).as_ref() }.map_or(&[][..], |words| words);
        let of_word = |(index, word): (u32, &AtomicU64)| {
            let word = word.load(Ordering::Relaxed);
            (0..BITS).filter(move |bit| word >> bit & 1 != 0).map(move |bit| index * BITS + bit)
        };
        (0..).zip(words).flat_map(of_word).collect()
    }

    /// The least number of a group that no member has.
    pub fn free(&mut self, group: u32) -> Result<u32, TableError> {
        let (_, full) = self.writer.groups.get_mut(group as usize).ok_or(TableError::OutOfRange)?;
        let words = self.members.groups[group as usize].load(Ordering::Relaxed);
        // SAFETY: only whoever has this right unlinks words.
        let all = unsafe { words.as_ref() }.map_or(&[][..], |words| words);
        let free = |word: &AtomicU64| word.load(Ordering::Relaxed) != u64::MAX;
        let found = all[(*full as usize).min(all.len())..].iter().position(free);
        *full = found.map_or(all.len() as u32, |ahead| *full + ahead as u32);
        let ahead = all.get(*full as usize).map_or(0, |word| word.load(Ordering::Relaxed).trailing_ones());
        let member = *full * BITS + ahead;
        if member < self.members.most { Ok(member) } else { Err(TableError::Full) }
    }

    /// Notes that a group has a member of this number, whose entry is there.
    pub fn joined(&mut self, group: u32, member: u32) {
        let words = self.words(group, member / BITS + 1);
        let bit = 1 << (member % BITS);
        // What was done with the entry comes before: see the load of whoever finds the member's entry.
        let before = words[(member / BITS) as usize].fetch_or(bit, Ordering::Release);
        self.writer.groups[group as usize].0 += u32::from(before & bit == 0);
    }

    /// Notes that it has none of this number any more; its entry is still there.
    pub fn left(&mut self, group: u32, member: u32) {
        let Some(at) = self.members.groups.get(group as usize) else { return };
        // SAFETY: only whoever has this right unlinks words.
        let words = unsafe { at.load(Ordering::Relaxed).as_ref() };
        let (index, bit) = (member / BITS, 1 << (member % BITS));
        let Some(word) = words.and_then(|words| words.get(index as usize)) else { return };
        if word.fetch_and(!bit, Ordering::Release) & bit == 0 {
            return;
        }
        let (count, full) = &mut self.writer.groups[group as usize];
        (*count, *full) = (*count - 1, index.min(*full));
        if *count == 0 {
            *full = 0;
            let old = at.swap(ptr::null_mut(), Ordering::Release);
            self.retire(old);
        }
    }

    /// A group's words, so many at least.
    fn words(&mut self, group: u32, least: u32) -> &Words {
        let at = &self.members.groups[group as usize];
        let old = at.load(Ordering::Relaxed);
        // SAFETY: only whoever has this right unlinks words.
        let words = unsafe { old.as_ref() };
        let len = words.map_or(0, |words| words.len() as u32);
        if len < least {
            let copied = words.into_iter().flat_map(|words| words.iter().map(|word| word.load(Ordering::Relaxed)));
            let zeros = std::iter::repeat_n(0, least.next_power_of_two() as usize - len as usize);
            let new: Words = copied.chain(zeros).map(AtomicU64::new).collect();
            at.store(Box::into_raw(Box::new(new)), Ordering::Release);
            self.retire(old);
        }
        // SAFETY: as above, and there are some now.
        unsafe { &*at.load(Ordering::Relaxed) }
    }

    /// Frees words that were unlinked, now or with later ones.
    fn retire(&mut self, words: *mut Words) {
        if !words.is_null() {
            // SAFETY: it came from a box, and is unlinked; the box is not dropped while a worker may read it.
            self.writer.retired.push((self.members.epochs.retire(), unsafe { Box::from_raw(words) }));
        }
        let safe = self.members.epochs.safe();
        self.writer.retired.retain(|(stamp, _)| *stamp > safe);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::Space;
    use crate::testing::SplitMix64;

    fn members(groups: u32, most: u32) -> Members {
        Members::new(groups, most, Arc::new(Epochs::new(&Space::Private).unwrap()))
    }

    fn all(members: &Members, group: u32) -> Vec<u32> {
        let (mut found, mut from) = (Vec::new(), 0);
        loop {
            match members.next(group, from, &mut 3) {
                NextMember::Member(member) => (found, from) = ([found, vec![member]].concat(), member + 1),
                NextMember::From(next) => from = next,
                NextMember::End => return found,
            }
        }
    }

    #[test]
    fn those_who_join_fill_the_holes() {
        let members = members(2, 200);
        for wanted in 0..200 {
            assert_eq!(members.change().free(1), Ok(wanted));
            members.change().joined(1, wanted);
        }
        assert_eq!(members.change().free(1), Err(TableError::Full));
        assert_eq!(members.change().free(2), Err(TableError::OutOfRange));
        members.change().left(2, 0);
        members.change().left(1, 5000);
        for hole in [150, 3, 64] {
            members.change().left(1, hole);
            members.change().left(1, hole);
        }
        for wanted in [3, 64, 150] {
            assert_eq!(members.change().free(1), Ok(wanted));
            members.change().joined(1, wanted);
        }
        assert!(all(&members, 1).into_iter().eq(0..200));
        assert_eq!(members.change().all(1), all(&members, 1));
        assert!(all(&members, 0).is_empty() && all(&members, 7).is_empty());
    }

    #[test]
    fn groups_are_sets_of_numbers() {
        let (members, mut random) = (members(5, 1000), SplitMix64(7));
        let mut wanted = vec![std::collections::BTreeSet::new(); 5];
        for _ in 0..20_000 {
            let (group, member) = (random.below(5), random.below(1000) >> random.below(10));
            if random.below(5) < 2 {
                members.change().joined(group as u32, member as u32);
                wanted[group as usize].insert(member as u32);
            } else {
                members.change().left(group as u32, member as u32);
                wanted[group as usize].remove(&(member as u32));
            }
            let free = (0..).find(|member| !wanted[group as usize].contains(member)).unwrap();
            assert_eq!(members.change().free(group as u32), Ok(free));
        }
        for (group, wanted) in (0..).zip(wanted) {
            assert!(all(&members, group).into_iter().eq(wanted));
        }
    }

    #[test]
    fn words_that_a_worker_reads_are_not_freed() {
        let members = members(1, 1 << 16);
        let reader = members.epochs.register().unwrap();
        reader.quiescent();
        for member in 0..1 << 12 {
            members.change().joined(0, member);
        }
        assert!(members.change().writer.retired.len() > 4);
        reader.quiescent();
        members.change().joined(0, (1 << 16) - 1);
        assert!(members.change().writer.retired.len() <= 1);
    }
}
