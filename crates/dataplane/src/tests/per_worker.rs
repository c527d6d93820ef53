//! A controller with a link for each worker: which packets each gets, where its threads run, what outlasts failures and
//! programs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::controllers::{ENGINES, PATIENCE, options, ports, until, whole};
use super::streaming::{program, start};
use crate::controller::{Controller, ControllerState, Event, Link, Links, Named, run_per_worker};
use crate::ports::{Driver, MemPort};
use crate::testing::{TO_HOST, frame};
use crate::{EngineKind, PollMode, PortConfig, sys};

/// What one part knows; it outlasts runs.
#[derive(Default)]
struct Part {
    seen: u32,
    runs: u32,
}

/// Sends everything back by the worker that it came from. The last part fails with its tenth packet, if it is told to.
struct Parts {
    parts: Vec<Part>,
    fails: bool,
    /// Packets of all parts, and runs of all, for the test.
    seen: Arc<AtomicU32>,
    runs: Arc<AtomicU32>,
}

impl Parts {
    fn part(
        part: &mut Part,
        link: &mut Link,
        (fails, seen, runs): (bool, &AtomicU32, &AtomicU32),
    ) -> Result<(), String> {
        part.runs += 1;
        runs.fetch_add(1, Ordering::Relaxed);
        let (again, tx) = (link.input("m.again").unwrap(), link.field("tx.port").unwrap());
        let worker = link.worker().expect("it has one of its own");
        if link.workers() > 1 {
            assert!(link.pin().unwrap());
            assert_eq!(sys::allowed_cpus().unwrap().len(), 1, "beside its worker");
        }
        let last = worker + 1 == link.workers();
        loop {
            match link.receive(PATIENCE) {
                Event::Packet(packet) => {
                    part.seen += 1;
                    seen.fetch_add(1, Ordering::Relaxed);
                    let number = u32::from_be_bytes(packet.bytes()[8..12].try_into().unwrap()) as usize;
                    assert_eq!((packet.worker(), number % link.workers()), (worker, worker));
                    if fails && last && part.seen == 10 {
                        return Err("out of ideas".into());
                    }
                    let _ = link.inject(again, packet.bytes(), &[(tx, 1)]);
                }
                Event::Room => {}
                Event::Stop => return Ok(()),
                other => return Err(format!("{other:?}")),
            }
        }
    }
}

impl Controller for Parts {
    fn links(&self) -> Links {
        Links::PerWorker
    }

    fn run(&mut self, link: &mut Link) -> Result<(), String> {
        self.parts.resize_with(link.workers(), Part::default);
        let shared = (self.fails, &*self.seen, &*self.runs);
        run_per_worker(link, &mut self.parts, |part, link| Self::part(part, link, shared))
    }
}

fn parts(fails: bool) -> (Vec<Named>, [Arc<AtomicU32>; 2]) {
    let [seen, runs] = [(); 2].map(|()| Arc::new(AtomicU32::new(0)));
    let parts = Parts { parts: Vec::new(), fails, seen: seen.clone(), runs: runs.clone() };
    (vec![("c".into(), Box::new(parts))], [seen, runs])
}

#[test]
fn each_part_has_the_packets_of_its_worker() {
    for engine in ENGINES {
        for workers in [1, 2] {
            let count = if engine == EngineKind::Interp { 2_000 } else { 40_000 };
            let (ports, sent) = ports((0..64).map(|n| frame(TO_HOST, n, 60)).collect(), count);
            let (controllers, [seen, runs]) = parts(false);
            let report = start(&options(engine, workers, PollMode::Interrupt), &ports, controllers).wait();
            whole(&report);
            let (seen, busy) = (u64::from(seen.load(Ordering::Relaxed)), report.snapshot.dropped("controller_busy"));
            assert_eq!(seen + busy, count, "{engine:?} {workers}");
            assert!(seen >= 40 && sent.lock().unwrap().len() as u64 <= seen);
            assert_eq!(runs.load(Ordering::Relaxed), workers as u32);
        }
    }
}

/// One part fails: all are run again, with what they know. Then another program takes over, and they still know it.
#[test]
fn what_parts_know_outlasts_failures_and_programs() {
    // Packets without end.
    let (mut ports, _) = ports((0..64).map(|n| frame(TO_HOST, n, 60)).collect(), u64::MAX);
    ports[1] = PortConfig::new("b", 1, Driver::Mem(MemPort::default()));
    let (controllers, [seen, runs]) = parts(true);
    let mut instance = start(&options(EngineKind::NATIVE, 2, PollMode::Interrupt), &ports, controllers);
    let observer = instance.observer();
    let known = || observer.controllers().remove(0);
    until("it fails", || known().failures == 1);
    assert_eq!(known().error.as_deref(), Some("worker 1: out of ideas"));
    // It fails once: with its tenth packet, which it remembers.
    until("both run again", || runs.load(Ordering::Relaxed) == 4);
    let before = seen.load(Ordering::Relaxed);
    until("packets come again", || seen.load(Ordering::Relaxed) > before + 1000);
    for number in 0..5 {
        let (unused, [unseen, _]) = parts(true);
        let next = instance.next(&program(), unused).unwrap();
        assert_eq!(instance.take_over(next), [""; 0]);
        until("both run with it", || runs.load(Ordering::Relaxed) == 4 + 2 * (number + 1));
        let before = seen.load(Ordering::Relaxed);
        until("packets come", || seen.load(Ordering::Relaxed) > before + 1000);
        assert_eq!(unseen.load(Ordering::Relaxed), 0);
    }
    // Had one forgotten what it had seen, it would have failed again.
    assert_eq!((known().state, known().failures), (ControllerState::Running, 1));
    whole(&instance.stop());
}

/// A panic of one is an error of all, and states must be as many as links.
#[test]
fn parts_that_panic_or_are_too_few_are_errors() {
    struct Few(usize);
    impl Controller for Few {
        fn links(&self) -> Links {
            Links::PerWorker
        }

        fn run(&mut self, link: &mut Link) -> Result<(), String> {
            run_per_worker(link, &mut vec![(); self.0], |(), link| match link.worker() {
                Some(0) => panic!("it went wrong"),
                _ => match link.receive(PATIENCE) {
                    Event::Stop => Ok(()),
                    other => Err(format!("{other:?}")),
                },
            })
        }
    }
    for (states, error) in [(1, "1 states for 2 links: one for each is needed"), (2, "worker 0: it went wrong")] {
        let (ports, _) = ports(Vec::new(), 0);
        let controllers: Vec<Named> = vec![("c".into(), Box::new(Few(states)))];
        let instance = start(&options(EngineKind::NATIVE, 2, PollMode::Interrupt), &ports, controllers);
        let observer = instance.observer();
        until("it fails", || observer.controllers()[0].failures > 0);
        assert_eq!(instance.stop().errors, [format!("controller c: {error}")]);
    }
}
