//! A controller with a link for each worker: a thread beside each, with a state of its own.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use super::link::Link;
use super::rings::Rings;
use crate::sys::panic_text;

/// Runs a part of a controller for each of its links ([`Links::PerWorker`](super::Links::PerWorker)), each on a thread
/// of its own, which is pinned to its worker's CPU where that is; until all have returned. The states are in the order
/// of the workers, and are what outlasts a run: a controller keeps them.
///
/// Where one part fails, by an error or a panic, the others are told to stop, and the error is that of all. A part that
/// returns earlier without an error has ended: packets for it are dropped as `controller_gone`.
///
/// # Errors
/// The first of the parts, with the number of its worker; that there are not as many states as links; that a thread is
/// not to be had.
pub fn run_per_worker<S: Send>(
    link: &mut Link,
    states: &mut [S],
    part: impl Fn(&mut S, &mut Link) -> Result<(), String> + Sync,
) -> Result<(), String> {
    let mut others = link.take_others();
    if states.len() != others.len() + 1 {
        return Err(format!("{} states for {} links: one for each is needed", states.len(), others.len() + 1));
    }
    let rings: Vec<Arc<Rings>> = [&*link].into_iter().chain(&others).map(|link| link.rings().clone()).collect();
    let first_error = Mutex::new(None);
    let fail = |worker: usize, error: String| {
        let mut first = first_error.lock().unwrap_or_else(PoisonError::into_inner);
        first.get_or_insert_with(|| format!("worker {worker}: {error}"));
        rings.iter().for_each(|rings| rings.halt());
    };
    let run = |worker: usize, state: &mut S, link: &mut Link| {
        let run = || {
            link.pin().map_err(|error| format!("it cannot run beside its worker: {error}"))?;
            part(state, link)
        };
        match catch_unwind(AssertUnwindSafe(run)) {
            Ok(Ok(())) if link.is_stopping() => {}
            Ok(Ok(())) => rings[worker].close(),
            Ok(Err(error)) => fail(worker, error),
            Err(panic) => fail(worker, panic_text(&*panic).to_owned()),
        }
    };
    let name = thread::current().name().unwrap_or("ctl").to_owned();
    thread::scope(|scope| {
        let Some((own, rest)) = states.split_first_mut() else { return };
        for (worker, (state, link)) in (1..).zip(rest.iter_mut().zip(&mut others)) {
            let (run, fail) = (&run, &fail);
            let thread = thread::Builder::new().name(format!("{name}-{worker}"));
            if let Err(error) = thread.spawn_scoped(scope, move || run(worker, state, link)) {
                fail(worker, format!("no thread: {error}"));
            }
        }
        run(0, own, link);
    });
    first_error.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
}
