//! Controllers of a running instance: packets to them and from them, what they may hold, and how they end.

use std::collections::HashMap;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use baker::ir::{Program, TableId, TableStore};

use crate::controller::{
    Controller, ControllerState, Event, ExternFn, InjectError, Link, NameError, Named, PaceSnapshot, Prefix, Punted,
};
use crate::ports::{Driver, MemPort, MemSink};
use crate::testing::{TO_DROP, TO_HOST, compiled, frame};
use crate::{EngineKind, FrameConfig, Instance, Options, PollMode, PortConfig, Report, TableAccess};

pub(super) const ENGINES: [EngineKind; 2] = [EngineKind::Interp, EngineKind::NATIVE];
pub(super) const PATIENCE: Duration = Duration::from_secs(20);

/// Frames of type [`TO_HOST`] go to the controller, others to port 1; what the controller injects goes where it says.
fn program() -> Arc<Program> {
    compiled(
        "import \"net/ether\";
        metadata { mark : u20; }
        module m {
            in  ether input, again;
            out ether output, punt;
            hash<mac_addr_t, u32> noted[64];
            lpm<u32, u8> routes[64];
            ppf sort(ether_packet_t *pkt) from input {
                pkt->metadata.mark = 0xabcde;
                if (pkt->type == 0x0806) { channel_put(punt, pkt); return; }
                pkt->metadata.tx.port = 1;
                channel_put(output, pkt);
            }
            ppf send(ether_packet_t *pkt) from again {
                channel_put(output, pkt);
            }
        }
        program { rx -> m.input; m.output -> tx; m.punt -> controller c; controller c -> m.again; }",
    )
}

pub(super) fn options(engine: EngineKind, workers: usize, poll: PollMode) -> Options {
    let frames = FrameConfig { count: 800, ..FrameConfig::default() };
    Options { engine, workers, poll, frames, ..Options::default() }
}

/// A controller that is a function.
pub(super) struct Run<F>(pub F);

impl<F: FnMut(&mut Link) -> Result<(), String> + Send> Controller for Run<F> {
    fn run(&mut self, link: &mut Link) -> Result<(), String> {
        (self.0)(link)
    }
}

pub(super) fn controller(run: impl FnMut(&mut Link) -> Result<(), String> + Send + 'static) -> Vec<Named> {
    vec![("c".into(), Box::new(Run(run)))]
}

/// A port that receives these packets, and one that keeps what is sent.
pub(super) fn ports(packets: Vec<Vec<u8>>, count: u64) -> ([PortConfig; 2], MemSink) {
    let (sink, sent) = MemPort::default().collect();
    let source = PortConfig::new("a", 0, Driver::Mem(MemPort::generator(packets, count)));
    ([source, PortConfig::new("b", 1, Driver::Mem(sink))], sent)
}

pub(super) fn start(options: &Options, ports: &[PortConfig], controllers: Vec<Named>) -> Instance {
    Instance::prepare_with(program(), options, ports, controllers).unwrap().run().unwrap()
}

pub(super) fn whole(report: &Report) {
    assert_eq!((&report.errors[..], report.free_frames), (&[][..], report.frames));
}

/// Waits until something is so.
pub(super) fn until(what: &str, is_so: impl Fn() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Injects every packet again on the worker that it came from, to port 1; says how many could not be. While it waits,
/// workers do that where it lends.
fn echo(refused: Sender<u64>, lends: bool) -> Vec<Named> {
    controller(move |link| {
        let input = link.input("m.again").unwrap();
        let (tx, mark) = (link.field("tx.port").unwrap(), link.field("mark").unwrap());
        let injector = link.injector();
        let mut count = 0;
        loop {
            let mut again = |packet: Punted| {
                assert_eq!((packet.channel(), packet.metadata(mark)), ("m.punt", 0xabcde));
                match injector.inject_on(packet.worker(), input, packet.bytes(), &[(tx, 1)]) {
                    Ok(()) => {}
                    Err(InjectError::Busy) => count += 1,
                    Err(error) => panic!("{error}"),
                }
            };
            let event = match lends {
                false => link.receive(PATIENCE),
                true => link.receive_or_lend(PATIENCE, &mut |packets| {
                    packets.for_each(&mut again);
                    PATIENCE
                }),
            };
            match event {
                Event::Packet(packet) => again(packet),
                Event::Room | Event::Timer(_) => {}
                Event::Idle => return Err("no packet, and no end".into()),
                Event::Stop => break,
            }
        }
        refused.send(count).unwrap();
        Ok(())
    })
}

#[test]
fn packets_go_to_the_controller_and_come_back_in_order() {
    for engine in ENGINES {
        let ways = [(1, PollMode::Interrupt), (2, PollMode::Interrupt), (2, PollMode::Busy)];
        for ((workers, poll), lends) in ways.into_iter().flat_map(|way| [(way, false), (way, true)]) {
            let count = if engine == EngineKind::Interp { 2_000 } else { 50_000 };
            let packets: Vec<_> = (0..count).map(|n| frame(TO_HOST, n, 60 + n as usize % 1000)).collect();
            let (ports, sent) = ports(packets, count.into());
            let (sender, refused) = channel();
            let report = start(&options(engine, workers, poll), &ports, echo(sender, lends)).wait();
            whole(&report);
            let refused = refused.recv().unwrap();
            let (busy, sent) = (report.snapshot.dropped("controller_busy"), sent.lock().unwrap());
            assert_eq!(sent.len() as u64 + busy + refused, u64::from(count), "{engine:?} {workers} {poll:?} {lends}");
            assert!(sent.len() >= 100, "{busy} were dropped");
            assert_eq!(report.snapshot.channel("c -> m.again"), sent.len() as u64);
            // Each packet is as it was, and those of a worker come in order.
            let mut last: HashMap<u32, u32> = HashMap::new();
            for packet in sent.iter() {
                let number = u32::from_be_bytes(packet[8..12].try_into().unwrap());
                assert_eq!(*packet, frame(TO_HOST, number, 60 + number as usize % 1000));
                let before = last.insert(number % workers as u32, number);
                assert!(before.is_none_or(|before| before < number), "{engine:?}: {number} after {before:?}");
            }
        }
    }
}

#[test]
fn a_controller_that_keeps_all_it_gets_starves_nobody() {
    for engine in ENGINES {
        for workers in [1, 2] {
            let count = if engine == EngineKind::Interp { 5_000 } else { 200_000 };
            let packets: Vec<_> = (0..64).map(|n| frame(if n % 4 < 2 { TO_HOST } else { 0x0800 }, n, 60)).collect();
            let (ports, sent) = ports(packets, count);
            let kept: Arc<Mutex<Vec<Punted>>> = Arc::default();
            let keeping = kept.clone();
            let keep = controller(move |link| {
                let input = link.input("m.again").unwrap();
                loop {
                    match link.receive(PATIENCE) {
                        Event::Packet(packet) => {
                            // It also injects as much as it can: to no port, so those are dropped.
                            let _ = link.inject(input, packet.bytes(), &[]);
                            keeping.lock().unwrap().push(packet);
                        }
                        Event::Room | Event::Timer(_) | Event::Idle => {}
                        Event::Stop => return Ok(()),
                    }
                }
            });
            let instance = start(&options(engine, workers, PollMode::Interrupt), &ports, keep);
            let observer = instance.observer();
            until("what is not for the controller goes on", || observer.snapshot().channel("m.output") >= count / 2);
            until("all was seen", || observer.snapshot().channel("rx") == count);
            let report = instance.stop();
            let forwarded = sent.lock().unwrap().iter().filter(|p| p[12..14] == [8, 0]).count() as u64;
            assert_eq!(forwarded, count / 2, "{engine:?}");
            let held = kept.lock().unwrap().len() as u64;
            let dropped = |reason: &str| report.snapshot.dropped(reason);
            assert_eq!(held + dropped("controller_busy") + dropped("controller_gone"), count / 2);
            // A fourth of the frames is for controllers, half of that for what comes to them.
            assert!((90..=100).contains(&held), "{held}");
            // What it held it gives back last of all.
            assert_eq!(u64::from(report.frames - report.free_frames), held);
            let packet: Punted = kept.lock().unwrap().pop().unwrap();
            assert_eq!(packet.bytes()[12..14], TO_HOST.to_be_bytes());
        }
    }
}

#[test]
fn a_controller_that_ends_or_fails_is_counted_and_told() {
    for (fails, error) in [
        (None, None),
        (Some(false), Some("controller c: out of ideas")),
        (Some(true), Some("controller c: it went wrong")),
    ] {
        let (ports, sent) =
            ports((0..64).map(|n| frame(if n % 2 == 0 { TO_HOST } else { 0x0800 }, n, 60)).collect(), 6400);
        let controllers = controller(move |_| match fails {
            None => Ok(()),
            Some(false) => Err("out of ideas".into()),
            Some(true) => panic!("it went wrong"),
        });
        let report = start(&options(EngineKind::NATIVE, 1, PollMode::Interrupt), &ports, controllers).wait();
        assert_eq!(report.errors, error.into_iter().collect::<Vec<_>>());
        let [known] = &report.snapshot.controllers[..] else { panic!("{:?}", report.snapshot.controllers) };
        assert_eq!((known.failures > 0, known.in_a_row > 0), (error.is_some(), error.is_some()));
        assert_eq!(known.error.as_ref().map(|own| format!("controller c: {own}")).as_deref(), error);
        let state = if error.is_some() { ControllerState::Waiting } else { ControllerState::Ended };
        assert_eq!(known.state, state);
        assert_eq!(report.free_frames, report.frames);
        assert_eq!((sent.lock().unwrap().len(), report.snapshot.channel("m.punt")), (3200, 3200));
        // Some may have come before it ended, and were never looked at.
        assert_eq!(report.snapshot.dropped("controller_gone") + report.snapshot.dropped("controller_busy"), 3200);
        assert!(report.snapshot.dropped("controller_gone") > 0);
    }
}

#[test]
fn one_that_does_not_end_is_left_behind() {
    let (ports, _) = ports(Vec::new(), 0);
    let (sender, ended) = channel::<()>();
    let ended = Mutex::new(ended);
    let stubborn = controller(move |_| {
        // Until the test lets it go.
        let _ = ended.lock().unwrap().recv();
        Ok(())
    });
    let instance = start(&options(EngineKind::NATIVE, 1, PollMode::Interrupt), &ports, stubborn);
    let start = Instant::now();
    let report = instance.stop();
    assert_eq!(report.errors, ["controller c did not end within 5 s"]);
    assert!(start.elapsed() < PATIENCE);
    drop(sender);
}

#[test]
fn promises_of_injected_packets_are_checked() {
    for engine in ENGINES {
        let (ports, sent) = ports(Vec::new(), 0);
        let controllers = controller(|link| {
            let (input, tx) = (link.input("m.again").unwrap(), link.field("tx.port").unwrap());
            let mark = link.field("mark").unwrap();
            link.inject(input, &[7; 13], &[(tx, 1)]).unwrap();
            link.inject(input, &[], &[(tx, 1)]).unwrap();
            link.inject(input, &[8; 14], &[(tx, 1), (mark, 0xfffff)]).unwrap();
            link.inject(input, &[9; 1700], &[(tx, 1)]).unwrap();
            // There are no ports 8 and 9.
            link.inject(input, &[5; 60], &[(tx, 8)]).unwrap();
            link.inject(input, &[5; 60], &[(tx, 9)]).unwrap();
            let error = |bytes: &[u8], metadata: &[_]| link.inject(input, bytes, metadata).unwrap_err();
            assert_eq!(error(&[0; 60], &[(mark, 0x100000)]), InjectError::OutOfRange);
            assert_eq!(error(&[0; 60], &[(tx, 256)]), InjectError::OutOfRange);
            assert_eq!(error(&[0; 2000], &[]), InjectError::TooLong { len: 2000, most: 2048 - 256 });
            assert_eq!(link.injector().inject_on(1, input, &[0; 60], &[]), Err(InjectError::Worker(1)));
            match link.receive(PATIENCE) {
                Event::Stop => Ok(()),
                other => Err(format!("{other:?}")),
            }
        });
        let instance = start(&options(engine, 1, PollMode::Interrupt), &ports, controllers);
        let observer = instance.observer();
        until("all were run", || {
            observer.snapshot().dropped("no_port") == 2 && observer.snapshot().channel("m.output") == 4
        });
        let report = instance.stop();
        whole(&report);
        assert_eq!(report.snapshot.dropped("truncated"), 2);
        let lengths: Vec<usize> = sent.lock().unwrap().iter().map(Vec::len).collect();
        assert_eq!(lengths, [14, 1700], "{engine:?}");
        let counted = ["c -> m.again", "m.output"].map(|channel| report.snapshot.channel(channel));
        assert_eq!(counted, [4, 4]);
    }
}

#[test]
fn names_and_tables() {
    for engine in ENGINES {
        let (ports, _) = ports(Vec::new(), 0);
        let controllers = controller(|link| {
            let unknown = |error: NameError| error.to_string();
            let errors = [
                link.input("m.input").map_err(unknown).unwrap_err(),
                link.field("marc").map_err(unknown).unwrap_err(),
                link.tables().table::<u32, u32>("m.none").map_err(unknown).unwrap_err(),
                link.tables().table::<(u32, u8), u32>("m.noted").map_err(unknown).unwrap_err(),
                link.tables().table::<u32, u8>("m.routes").map_err(unknown).unwrap_err(),
            ];
            assert_eq!(
                errors,
                [
                    "there is no input wired from this controller m.input; there is m.again",
                    "there is no metadata marc; there is rx.port, tx.port, mark",
                    "there is no table m.none; there is m.noted, m.routes",
                    "table m.noted: its key has 1 fields, its value 1",
                    "table m.routes: its key has 1 fields and a prefix length, its value 1",
                ]
            );
            let mut noted = link.tables().table::<[u8; 6], u32>("m.noted").unwrap();
            assert!(noted.is_empty());
            noted.set(&[2, 0, 0, 0, 0, 9], &7).unwrap();
            noted.set(&[2, 0, 0, 0, 0, 1], &8).unwrap();
            noted.set(&[2, 0, 0, 0, 0, 9], &9).unwrap();
            assert_eq!(noted.get(&[2, 0, 0, 0, 0, 9]), Some(9));
            assert_eq!(noted.get(&[2, 0, 0, 0, 0, 8]), None);
            assert_eq!(noted.entries(), [([2, 0, 0, 0, 0, 1], 8), ([2, 0, 0, 0, 0, 9], 9)]);
            let mut each = Vec::new();
            noted.for_each(|key, value| each.push((key, value)));
            each.sort_unstable();
            assert_eq!(each, noted.entries());
            assert!(noted.remove(&[2, 0, 0, 0, 0, 1]) && !noted.remove(&[2, 0, 0, 0, 0, 1]));
            noted.set_all(&[([2, 0, 0, 0, 0, 3], 1), ([2, 0, 0, 0, 0, 4], 2), ([2, 0, 0, 0, 0, 3], 5)]).unwrap();
            assert_eq!((noted.len(), noted.get(&[2, 0, 0, 0, 0, 3])), (3, Some(5)));
            let mut routes = link.tables().table::<Prefix<u32>, u8>("m.routes").unwrap();
            routes.set(&Prefix(0x0a00_0000, 8), &3).unwrap();
            assert_eq!((routes.entries(), routes.len()), (vec![(Prefix(0x0a00_0000, 8), 3)], 1));
            let mut each = Vec::new();
            routes.for_each(|prefix, value| each.push((prefix, value)));
            assert_eq!(each, routes.entries());
            Ok(())
        });
        let report = start(&options(engine, 1, PollMode::Interrupt), &ports, controllers).stop();
        whole(&report);
    }
}

#[test]
fn a_program_without_its_controller_does_not_start() {
    let (ports, _) = ports(Vec::new(), 0);
    let options = options(EngineKind::NATIVE, 1, PollMode::Interrupt);
    let error = Instance::prepare(program(), &options, &ports).err().unwrap().to_string();
    assert_eq!(error, "the program is wired to a controller c, which is not there");
    let few = Options { frames: FrameConfig { count: 2, ..FrameConfig::default() }, ..options };
    let error = Instance::prepare_with(program(), &few, &ports, controller(|_| Ok(()))).err().unwrap().to_string();
    assert!(error.starts_with("2 frames: at least 3 are needed"), "{error}");
}

/// Has `m.double`, which fails for 13 and looks into a table for 14.
struct Doubles(Arc<OnceLock<TableAccess>>);

impl Controller for Doubles {
    fn externs(&mut self) -> Vec<(String, ExternFn)> {
        let tables = self.0.clone();
        let double: ExternFn = Box::new(move |numbers| match numbers[0] {
            13 => panic!("thirteen"),
            14 => tables.get().unwrap().count(TableId(0)) as u128,
            number => 2 * number,
        });
        vec![("m.double".into(), double)]
    }

    fn run(&mut self, link: &mut Link) -> Result<(), String> {
        match link.receive(PATIENCE) {
            Event::Stop => Ok(()),
            other => Err(format!("{other:?}")),
        }
    }
}

#[test]
fn a_function_that_fails_gives_zero_and_is_counted() {
    let program = compiled(
        "import \"net/ether\";
        module m {
            in  ether input;
            out ether output;
            array<u32> some[4];
            counter sums[256];
            extern u16 double(u8 n);
            ppf p(ether_packet_t *pkt) from input {
                u16 twice = double((u8) pkt->src);
                counter_add(sums[twice], 1);
                pkt->type = twice;
                pkt->metadata.tx.port = 1;
                channel_put(output, pkt);
            }
        }
        program { rx -> m.input; m.output -> tx; }",
    );
    for engine in ENGINES {
        let packets: Vec<_> = (0..32).map(|n| frame(TO_DROP, n, 60)).collect();
        let (ports, sent) = ports(packets, 3200);
        let options = options(engine, 1, PollMode::Interrupt);
        let tables: Arc<OnceLock<TableAccess>> = Arc::default();
        let controllers: Vec<Named> = vec![("c".into(), Box::new(Doubles(tables.clone())))];
        let prepared = Instance::prepare_with(program.clone(), &options, &ports, controllers).unwrap();
        tables.set(prepared.tables()).unwrap();
        let instance = prepared.run().unwrap();
        let observer = instance.observer();
        until("all came through", || observer.snapshot().channel("m.output") == 3200);
        let report = instance.stop();
        whole(&report);
        assert_eq!(report.snapshot.externs_failed, [("m.double".to_string(), 200)], "{engine:?}");
        for packet in sent.lock().unwrap().iter() {
            let wanted = if matches!(packet[11], 13 | 14) { 0 } else { 2 * u16::from(packet[11]) };
            assert_eq!(packet[12..14], wanted.to_be_bytes());
        }
    }
}

#[test]
fn it_is_noted_how_soon_a_controller_runs_and_for_how_long() {
    const CALLS: u64 = 5;
    const WORK: Duration = Duration::from_millis(20);
    let (waker, slept) = (Arc::new(OnceLock::new()), Arc::new(Mutex::new(0)));
    let (own, done) = (waker.clone(), slept.clone());
    let controllers = controller(move |link| {
        own.set(link.waker()).unwrap_or_else(|_| panic!("it runs once"));
        loop {
            match link.receive(PATIENCE) {
                Event::Stop => return Ok(()),
                _ => std::thread::sleep(WORK),
            }
            *done.lock().unwrap() += 1;
        }
    });
    let (ports, _) = ports(Vec::new(), 0);
    let instance = start(&options(EngineKind::NATIVE, 1, PollMode::Interrupt), &ports, controllers);
    let began = Instant::now();
    until("it does not run", || waker.get().is_some());
    let pace = || instance.snapshot().controllers[0].pace.clone();
    for call in 1..=CALLS {
        // It waits again some time after it has worked.
        std::thread::sleep(WORK);
        waker.get().unwrap().wake();
        until("it is not woken", || *slept.lock().unwrap() == call);
    }
    until("it does not wait", || pace().busy.counts.iter().sum::<u64>() == CALLS);
    let (pace, all) = (pace(), began.elapsed().as_nanos() as u64);
    assert_eq!((pace.wakes, pace.wake.counts.iter().sum::<u64>()), (CALLS, CALLS));
    let worked = CALLS * WORK.as_nanos() as u64;
    assert!((worked..all).contains(&pace.busy.nanoseconds), "{pace:?} of {all}");
    assert!((1..all - worked).contains(&pace.wake.nanoseconds), "{pace:?} of {all}");
    // Each loop is at least as long as its bucket says.
    let counts = pace.busy.counts.iter().enumerate().filter(|(_, count)| **count > 0);
    assert!(counts.map(|(bucket, _)| PaceSnapshot::bound(bucket)).all(|bound| bound > WORK.as_nanos() as u64));
    whole(&instance.stop());
}
