//! Controllers that are lent to the workers while they wait: where their work is done, and what ends the wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use baker::ir::Program;

use super::controllers::{ENGINES, PATIENCE, controller, options, whole};
use crate::controller::{Event, Link, Punted};
use crate::ports::{Driver, MemPort};
use crate::testing::{TO_HOST, compiled, frame};
use crate::{EngineKind, Instance, PollMode, PortConfig};

/// Packets for the controller, also those that it injects. Look-ups keep writers of the tables waiting.
fn program() -> Arc<Program> {
    compiled(
        "import \"net/ether\";
        struct pair_t { a : u64; b : u64; }
        module m {
            in  ether input, again;
            out ether punt;
            array<pair_t> pairs[4];
            hash<u32, pair_t> known[8];
            ppf sort(ether_packet_t *pkt) from input {
                if (pairs[2].a != pairs[2].b) { packet_drop(pkt, malformed); return; }
                channel_put(punt, pkt);
            }
            ppf back(ether_packet_t *pkt) from again {
                pair_t *found = known[7];
                if (found != null && found->a != found->b) { packet_drop(pkt, malformed); return; }
                channel_put(punt, pkt);
            }
        }
        program { rx -> m.input; m.punt -> controller c; controller c -> m.again; }",
    )
}

/// A port by which this many packets come, with a controller.
fn start(
    (engine, workers): (EngineKind, usize),
    count: u64,
    run: impl FnMut(&mut Link) -> Result<(), String> + Send + 'static,
) -> Instance {
    let packets = (0..64).map(|number| frame(TO_HOST, number, 60)).collect();
    let ports = [PortConfig::new("a", 0, Driver::Mem(MemPort::generator(packets, count)))];
    let options = options(engine, workers, PollMode::Interrupt);
    Instance::prepare_with(program(), &options, &ports, controller(run)).unwrap().run().unwrap()
}

/// How many packets were worked on by workers, and by others.
#[derive(Default)]
struct Places([AtomicU64; 2]);

impl Places {
    fn note(&self) {
        let by_worker = thread::current().name().is_some_and(|name| name.starts_with("worker"));
        self.0[usize::from(!by_worker)].fetch_add(1, Ordering::Relaxed);
    }

    fn counts(&self) -> [u64; 2] {
        [0, 1].map(|place| self.0[place].load(Ordering::Relaxed))
    }
}

#[test]
fn workers_do_the_work_and_may_change_tables_that_they_look_at() {
    const ROUNDS: u64 = 20_000;
    for way in ENGINES.into_iter().flat_map(|engine| [(engine, 1), (engine, 2)]) {
        let places = Arc::new(Places::default());
        let counted = places.clone();
        let run = move |link: &mut Link| {
            let again = link.input("m.again").unwrap();
            let mut pairs = link.tables().table::<u32, (u64, u64)>("m.pairs").unwrap();
            let mut known = link.tables().table::<u32, (u64, u64)>("m.known").unwrap();
            let injector = link.injector();
            let mut number = 0;
            loop {
                let mut each = |packet: Punted| {
                    counted.note();
                    number += 1;
                    // Both copies of the array, and more entries than the table has numbers for.
                    pairs.set(&2, &(number, number)).unwrap();
                    known.set(&7, &(number, number)).unwrap();
                    if number < ROUNDS {
                        injector.inject_on(packet.worker(), again, packet.bytes(), &[]).unwrap();
                    }
                };
                let event = link.receive_or_lend(PATIENCE, &mut |packets| {
                    packets.for_each(&mut each);
                    PATIENCE
                });
                match event {
                    Event::Packet(packet) => each(packet),
                    Event::Stop => return Ok(()),
                    _ => {}
                }
            }
        };
        let report = start(way, 16, run).wait();
        whole(&report);
        let [by_workers, by_controller] = places.counts();
        // Those that are left when enough have come come once more.
        assert_eq!(by_workers + by_controller, ROUNDS + 15, "{way:?}");
        assert!(by_workers > 0, "{by_controller} by the controller: {way:?}");
        assert_eq!(report.snapshot.channel("m.punt"), ROUNDS + 15);
        assert_eq!(report.snapshot.dropped("malformed"), 0);
    }
}

#[test]
fn what_is_due_early_ends_the_wait() {
    let idle = Arc::new(AtomicU64::new(0));
    let seen = idle.clone();
    let run = move |link: &mut Link| {
        loop {
            let event = link.receive_or_lend(PATIENCE, &mut |packets| {
                packets.for_each(drop);
                Duration::from_millis(1)
            });
            match event {
                Event::Idle => _ = seen.fetch_add(1, Ordering::Relaxed),
                Event::Stop => return Ok(()),
                _ => {}
            }
        }
    };
    let begin = Instant::now();
    let instance = start((EngineKind::NATIVE, 1), 1_000_000, run);
    whole(&instance.wait());
    assert!(begin.elapsed() < PATIENCE && idle.load(Ordering::Relaxed) > 0);
}

#[test]
fn a_panic_of_the_work_is_the_controller_s() {
    let places = Arc::new(Places::default());
    let counted = places.clone();
    let run = move |link: &mut Link| {
        loop {
            let event = link.receive_or_lend(PATIENCE, &mut |packets| {
                if packets.next().is_some() {
                    counted.note();
                    panic!("it went wrong");
                }
                PATIENCE
            });
            match event {
                Event::Packet(_) => {}
                Event::Stop => return Ok(()),
                _ => {}
            }
        }
    };
    let instance = start((EngineKind::NATIVE, 1), 1_000_000, run);
    let report = instance.wait();
    // The worker goes on.
    assert_eq!(report.snapshot.channel("m.punt"), 1_000_000);
    assert_eq!(report.free_frames, report.frames);
    let [known] = &report.snapshot.controllers[..] else { panic!("{:?}", report.snapshot.controllers) };
    let [by_workers, by_controller] = places.counts();
    assert_eq!((known.failures, by_controller), (by_workers, 0), "each was the controller's");
    assert!(by_workers > 0 && known.error.as_deref() == Some("it went wrong"), "{known:?}");
}
