//! What a controller keeps beside tables: bytes by key, which outlast its process where the instance has a state on
//! disk (`--state DIR`), and in any case a controller that fails and is started again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// One controller's; clones are the same. Nothing here waits for a disk: a thread of the instance writes changes some
/// hundredths of a second later, those of one call of [`Kept::change`] in one transaction.
#[derive(Clone, Debug, Default)]
pub struct Kept(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// Attempts to write that failed.
    failed: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    all: BTreeMap<String, Vec<u8>>,
    /// Keys whose values are not on disk yet, or are there still; none as long as nobody writes them.
    changed: Option<BTreeSet<String>>,
}

impl Kept {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets values, and removes those of keys without one, all at once.
    pub fn change(&self, changes: impl IntoIterator<Item = (String, Option<Vec<u8>>)>) {
        let mut state = self.lock();
        for (key, value) in changes {
            let differs = match value {
                Some(value) if state.all.get(&key) == Some(&value) => false,
                Some(mut value) => {
                    // It stays, and was made by a writer that takes more room than it needs.
                    value.shrink_to_fit();
                    state.all.insert(key.clone(), value);
                    true
                }
                None => state.all.remove(&key).is_some(),
            };
            if let Some(changed) = state.changed.as_mut().filter(|_| differs) {
                changed.insert(key);
            }
        }
    }

    /// All that is kept, in the order of the keys.
    pub fn all(&self) -> Vec<(String, Vec<u8>)> {
        self.lock().all.iter().map(|(key, value)| (key.clone(), value.clone())).collect()
    }

    /// Whether it outlasts the process.
    pub fn is_on_disk(&self) -> bool {
        self.lock().changed.is_some()
    }

    /// Attempts to write it that failed, such as for want of room. What could not be written is written later, if it is
    /// kept still.
    pub fn failed(&self) -> u64 {
        self.0.failed.load(Ordering::Relaxed)
    }

    /// What was on disk when the instance started.
    pub fn load(&self, all: impl IntoIterator<Item = (String, Vec<u8>)>) {
        self.lock().all.extend(all);
    }

    /// The side that writes: all that is kept. From now on [`Kept::take_changes`] has what differs from it.
    pub(crate) fn take_all(&self) -> Vec<(String, Vec<u8>)> {
        self.lock().changed = Some(BTreeSet::new());
        self.all()
    }

    /// The side that writes: what has changed since it was asked last.
    pub(crate) fn take_changes(&self) -> Vec<(String, Option<Vec<u8>>)> {
        let mut state = self.lock();
        let changed = state.changed.as_mut().map(std::mem::take).unwrap_or_default();
        changed.into_iter().map(|key| (key.clone(), state.all.get(&key).cloned())).collect()
    }

    /// The side that writes: an attempt has failed.
    pub(crate) fn note_failure(&self) {
        self.0.failed.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_is_written_once() {
        let kept = Kept::default();
        let own = |key: &str, value: &[u8]| (key.to_owned(), Some(value.to_vec()));
        kept.load([("a".to_owned(), vec![1])]);
        kept.change([own("b", &[2]), own("c", &[3])]);
        // As long as nobody writes, nothing but what there is takes room.
        assert!(kept.take_changes().is_empty() && !kept.is_on_disk());
        assert_eq!((kept.take_all().len(), kept.is_on_disk()), (3, true));
        kept.change([own("a", &[1]), own("b", &[4]), ("c".to_owned(), None), ("d".to_owned(), None), own("e", &[5])]);
        kept.change([("e".to_owned(), None)]);
        let none = |key: &str| (key.to_owned(), None);
        assert_eq!(kept.take_changes(), [own("b", &[4]), none("c"), none("e")]);
        assert!(kept.take_changes().is_empty());
        assert_eq!(kept.all(), [("a".to_owned(), vec![1]), ("b".to_owned(), vec![4])]);
    }
}
