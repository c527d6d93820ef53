//! Work on as many threads as there are CPUs: machine code of a program's parts, and what the kernel's verifier does
//! for each of them.

use std::num::NonZero;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, available_parallelism};

/// Does something with each item; the results in the items' order. After a failure no more are begun.
///
/// # Errors
/// Of the failures that of the first item, as if they were done one after the other.
pub fn each<I: Sync, T: Send, E: Send>(items: &[I], run: impl Fn(&I) -> Result<T, E> + Sync) -> Result<Vec<T>, E> {
    let threads = available_parallelism().map_or(1, NonZero::get).min(items.len());
    if threads <= 1 {
        return items.iter().map(run).collect();
    }
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        loop {
            // Items are begun in order, so all that are before a failure are done.
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(at) else { return done };
            let result = run(item);
            if result.is_err() {
                next.store(items.len(), Ordering::Relaxed);
            }
            done.push((at, result));
        }
    };
    let mut all = thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
        let mut all = work();
        others.into_iter().for_each(|own| all.extend(own.join().unwrap_or_else(|panic| resume_unwind(panic))));
        all
    });
    all.sort_unstable_by_key(|(at, _)| *at);
    all.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_order_and_the_first_failure_counts() {
        let items: Vec<u32> = (0..200).collect();
        assert_eq!(each(&items, |own| Ok::<_, u32>(own * 2)), Ok((0..200).map(|own| own * 2).collect()));
        let fails = |own: &u32| if own % 7 == 3 { Err(*own) } else { Ok(*own) };
        (0..50).for_each(|_| assert_eq!(each(&items, fails), Err(3)));
        assert_eq!(each(&[] as &[u32], fails), Ok(Vec::new()));
    }
}
