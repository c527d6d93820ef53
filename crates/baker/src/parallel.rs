//! Work on as many threads as there are CPUs: passes over a program's bodies, machine code of its parts, and what the
//! kernel's verifier does for each of them.

use std::cmp::Reverse;
use std::num::NonZero;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, available_parallelism};

/// Items that cost less together, in instructions, are not worth another thread.
pub const SMALL: usize = 1000;

/// Does something with each item; the results in the items' order. Those that cost most are begun first, so that no
/// thread is left with one of them at the end.
///
/// # Errors
/// Of the failures that of the first item, as if they were done one after the other. What is behind it may not be done.
pub fn each<I: Sync, T: Send, E: Send>(
    items: &[I],
    cost: impl Fn(&I) -> usize,
    run: impl Fn(&I) -> Result<T, E> + Sync,
) -> Result<Vec<T>, E> {
    let all = items.iter().map(&cost).fold(0, usize::saturating_add);
    let threads = if all < SMALL { 1 } else { available_parallelism().map_or(1, NonZero::get).min(items.len()) };
    if threads <= 1 {
        return items.iter().map(run).collect();
    }
    let mut order: Vec<usize> = (0..items.len()).collect();
    order.sort_by_key(|at| Reverse(cost(&items[*at])));
    let (next, failed) = (AtomicUsize::new(0), AtomicUsize::new(items.len()));
    let work = || {
        let mut done = Vec::new();
        while let Some(&at) = order.get(next.fetch_add(1, Ordering::Relaxed)) {
            if at > failed.load(Ordering::Relaxed) {
                continue;
            }
            let result = run(&items[at]);
            if result.is_err() {
                failed.fetch_min(at, Ordering::Relaxed);
            }
            done.push((at, result));
        }
        done
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
        for cost in [|_: &u32| 0, |_: &u32| SMALL, |own: &u32| *own as usize * 50] {
            assert_eq!(each(&items, cost, |own| Ok::<_, u32>(own * 2)), Ok((0..200).map(|own| own * 2).collect()));
            let fails = |own: &u32| if own % 7 == 3 { Err(*own) } else { Ok(*own) };
            (0..50).for_each(|_| assert_eq!(each(&items, cost, fails), Err(3)));
            assert_eq!(each(&[] as &[u32], cost, fails), Ok(Vec::new()));
        }
    }
}
