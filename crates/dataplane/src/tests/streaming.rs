//! What a controller that streams needs of its link: a descriptor to wait for, batches, room, timers, packets that are
//! handed on, time to end.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use baker::ir::Program;

use super::controllers::{PATIENCE, controller, options, ports, until, whole};
use crate::controller::{ControllerState, Event, InjectError, Link, LinkFd, MOST_DRAIN, Named, Punted, Stop};
use crate::ports::{Driver, MemPort};
use crate::sys::check;
use crate::testing::{SplitMix64, TO_HOST, compiled, frame};
use crate::{EngineKind, FrameConfig, Instance, Options, PollMode, PortConfig, Report};

/// [`TO_HOST`] goes to the controller. What it injects leaves, or comes back, or comes back with a label more.
pub(super) fn program() -> Arc<Program> {
    compiled(
        "import \"net/ether\"; import \"net/mpls\";
        metadata { mark : u20; }
        module m {
            in  ether input, again, back, longer;
            out ether output, punt;
            array<u32> unused[4];
            ppf sort(ether_packet_t *pkt) from input {
                pkt->metadata.mark = 0xabcde;
                pkt->metadata.tx.port = 1;
                if (pkt->type == 0x0806) channel_put(punt, pkt);
                else channel_put(output, pkt);
            }
            ppf send(ether_packet_t *pkt) from again { channel_put(output, pkt); }
            ppf returned(ether_packet_t *pkt) from back { channel_put(punt, pkt); }
            ppf label(ether_packet_t *pkt) from longer {
                mpls_packet_t *label = packet_decap(pkt, 14);
                mpls_packet_t *outer = packet_encap(label);
                ether_packet_t *whole = packet_encap(outer);
                whole->type = 0x8847;
                channel_put(punt, whole);
            }
        }
        program {
            rx -> m.input; m.output -> tx; m.punt -> controller c;
            controller c -> m.again; controller c -> m.back; controller c -> m.longer;
        }",
    )
}

fn native(workers: usize) -> Options {
    options(EngineKind::NATIVE, workers, PollMode::Interrupt)
}

pub(super) fn start(options: &Options, ports: &[PortConfig], controllers: Vec<Named>) -> Instance {
    Instance::prepare_with(program(), options, ports, controllers).unwrap().run().unwrap()
}

/// Runs a controller until it returns, without any packet from a port; what the instance did and sent.
fn alone(run: impl FnMut(&mut Link) -> Result<(), String> + Send + 'static) -> (Report, Vec<Vec<u8>>) {
    let (ports, sent) = ports(Vec::new(), 0);
    let instance = start(&native(1), &ports, controller(run));
    let observer = instance.observer();
    until("it has ended", || observer.controllers()[0].state != ControllerState::Running);
    let report = instance.stop();
    whole(&report);
    let sent = std::mem::take(&mut *sent.lock().unwrap());
    (report, sent)
}

fn packet(link: &mut Link) -> Result<Punted, String> {
    match link.receive(PATIENCE) {
        Event::Packet(packet) => Ok(packet),
        other => Err(format!("{other:?}")),
    }
}

#[test]
fn a_punted_packet_is_handed_on_where_it_lies() {
    let rounds = 300u32;
    let (report, sent) = alone(move |link| {
        let inputs = ["m.again", "m.longer"].map(|name| link.input(name).unwrap());
        let (tx, mark) = (link.field("tx.port").unwrap(), link.field("mark").unwrap());
        let injector = link.injector();
        let mut first = frame(TO_HOST, 7, 60);
        first.extend([0; 60]);
        injector.inject(link.input("m.back").unwrap(), &first, &[(tx, 1), (mark, 5)]).unwrap();
        let mut held = packet(link)?;
        let mut moves = 0;
        for round in 0..rounds {
            let (len, before) = (held.bytes().len(), held.bytes().as_ptr() as usize);
            held.bytes_mut()[len - 1] = round as u8;
            injector.inject_punted(0, inputs[1], held, &[]).unwrap();
            held = packet(link)?;
            assert_eq!((held.bytes().len(), held.bytes()[len + 3]), (len + 4, round as u8));
            // A label more in front, at the same place, until there is no room in front.
            moves += u32::from(before - 4 != held.bytes().as_ptr() as usize);
            assert_eq!(held.metadata(mark), 5, "it is what it was");
        }
        assert!((1..=20).contains(&moves), "{moves} moves in {rounds} rounds");
        // It comes back where it is refused, as it was.
        let refused = injector.inject_punted(1, inputs[0], held, &[]).unwrap_err();
        assert_eq!(refused.error, InjectError::Worker(1));
        let refused = injector.inject_punted(0, inputs[0], refused.packet, &[(mark, 1 << 20)]).unwrap_err();
        assert_eq!(refused.error, InjectError::OutOfRange);
        injector.inject_punted(0, inputs[0], refused.packet, &[]).map_err(|refused| refused.to_string())
    });
    let len = 120 + 4 * rounds as usize;
    assert_eq!(sent.iter().map(Vec::len).collect::<Vec<_>>(), [len]);
    assert_eq!(sent[0][len - 1], (rounds - 1) as u8);
    assert_eq!(report.snapshot.drops.iter().map(|(_, count)| count).sum::<u64>(), 0);
}

/// A packet of the program before is not one of this, where its metadata would lie elsewhere.
#[test]
fn a_packet_of_another_program_is_refused() {
    let (ports, _sent) = ports(vec![frame(TO_HOST, 1, 60)], 1);
    let kept: Arc<Mutex<Option<Punted>>> = Arc::default();
    let refused = Arc::new(AtomicBool::new(false));
    let (own, seen) = (kept.clone(), refused.clone());
    let given = || {
        let (own, seen) = (own.clone(), seen.clone());
        controller(move |link| {
            let input = link.input("m.again").unwrap();
            if let Some(packet) = own.lock().unwrap().take() {
                let refusal = link.injector().inject_punted(0, input, packet, &[]).unwrap_err();
                assert_eq!(refusal.error, InjectError::Foreign);
                seen.store(true, Ordering::Relaxed);
            }
            loop {
                match link.receive(PATIENCE) {
                    Event::Packet(packet) => *own.lock().unwrap() = Some(packet),
                    Event::Stop => return Ok(()),
                    other => return Err(format!("{other:?}")),
                }
            }
        })
    };
    let mut instance = start(&native(1), &ports, given());
    until("it has the packet", || kept.lock().unwrap().is_some());
    let next = instance.next(&program(), given()).unwrap();
    assert_eq!(instance.take_over(next), [""; 0]);
    until("it was refused", || refused.load(Ordering::Relaxed));
    whole(&instance.stop());
}

/// More than there is room for, by every way to inject: whenever one says `Busy`, the link says when there is room
/// again.
#[test]
fn there_is_room_again() {
    const COUNT: u32 = 60_000;
    for seed in 0..3 {
        let waits = Arc::new(AtomicU64::new(0));
        let counted = waits.clone();
        let (report, sent) = alone(move |link| {
            let (input, tx) = (link.input("m.again").unwrap(), link.field("tx.port").unwrap());
            let (injector, metadata) = (link.injector(), [(tx, 1)]);
            let mut numbers = SplitMix64(seed);
            let mut next = 0;
            while next < COUNT {
                let batch: Vec<_> = (next..COUNT).take(1 + numbers.below(200) as usize).collect();
                let packets: Vec<_> = batch.iter().map(|number| frame(0x0800, *number, 60)).collect();
                let (count, result) = if numbers.below(2) == 0 {
                    injector.inject_many(0, input, packets.iter().map(|packet| (&packet[..], &metadata[..])))
                } else {
                    let mut packets = packets.iter().map(|packet| injector.inject(input, packet, &metadata));
                    let refused = packets.position(|result| result.is_err());
                    (refused.unwrap_or(batch.len()), refused.map_or(Ok(()), |_| Err(InjectError::Busy)))
                };
                next += count as u32;
                match result {
                    Ok(()) => {}
                    Err(InjectError::Busy) => match link.receive(PATIENCE) {
                        Event::Room => _ = counted.fetch_add(1, Ordering::Relaxed),
                        other => return Err(format!("{other:?} after {next}")),
                    },
                    Err(error) => return Err(error.to_string()),
                }
            }
            Ok(())
        });
        assert_eq!(report.errors, [""; 0]);
        assert!(waits.load(Ordering::Relaxed) > 10, "{waits:?}");
        let numbers: Vec<u32> = sent.iter().map(|p| u32::from_be_bytes(p[8..12].try_into().unwrap())).collect();
        assert!(numbers.iter().copied().eq(0..COUNT), "{} of {COUNT}, or not in order", numbers.len());
    }
}

#[test]
fn an_injector_of_a_link_that_has_ended_says_so() {
    let kept = Arc::new(Mutex::new(None));
    let own = kept.clone();
    alone(move |link| {
        *own.lock().unwrap() = Some((link.injector(), link.input("m.again").unwrap()));
        Ok(())
    });
    let (injector, input) = kept.lock().unwrap().take().unwrap();
    assert_eq!(injector.inject(input, &[0; 60], &[]), Err(InjectError::Gone));
}

#[test]
fn timers_come_once_and_not_early_between_packets() {
    let (_, _) = alone(|link| {
        let back = link.input("m.back").unwrap();
        let mut numbers = SplitMix64(5);
        let start = Instant::now() + Duration::from_millis(2);
        let at: Vec<Instant> = (0..2000).map(|_| start + Duration::from_micros(numbers.below(150_000))).collect();
        (0..).zip(&at).for_each(|(key, at)| link.set_timer(key, *at));
        assert_eq!(link.timers(), 2000);
        // Every tenth is taken back, every other tenth is set to later.
        assert!((0..2000).step_by(10).all(|key| link.cancel_timer(key)));
        let later = start + Duration::from_millis(160);
        (5..2000).step_by(10).for_each(|key| link.set_timer(key, later));
        let (mut seen, mut packets) = (vec![false; 2000], 0);
        while seen.iter().filter(|seen| **seen).count() < 1800 {
            match link.receive(PATIENCE) {
                Event::Timer(key) => {
                    let at = if key % 10 == 5 { later } else { at[key as usize] };
                    let early = Instant::now() < at;
                    assert!(!early && !std::mem::replace(&mut seen[key as usize], true), "timer {key}");
                    let _ = link.inject(back, &[0; 60], &[]);
                }
                Event::Packet(_) => packets += 1,
                other => return Err(format!("{other:?}")),
            }
        }
        assert!(packets > 100 && link.timers() == 0 && (0..2000).step_by(10).all(|key| !seen[key]));
        Ok(())
    });
}

/// As tokio has a descriptor: in an epoll instance, edge-triggered.
pub(super) struct Reactor(OwnedFd);

impl Reactor {
    pub fn of(fd: &LinkFd) -> Reactor {
        let mut event = libc::epoll_event { events: (libc::EPOLLIN | libc::EPOLLET) as u32, u64: 0 };
        // SAFETY: a new descriptor, and an event that outlives the call.
        unsafe {
            let own = OwnedFd::from_raw_fd(check(libc::epoll_create1(libc::EPOLL_CLOEXEC)).unwrap());
            check(libc::epoll_ctl(own.as_raw_fd(), libc::EPOLL_CTL_ADD, fd.as_raw_fd(), &raw mut event)).unwrap();
            Reactor(own)
        }
    }

    /// The next event, as an asynchronous controller waits for it, for so long at most; how often it had to wait.
    pub fn next(&self, link: &mut Link, waits: &mut u64, time: Duration) -> Option<Event> {
        loop {
            if let Some(event) = link.poll() {
                return Some(event);
            }
            if link.arm() {
                let mut event = libc::epoll_event { events: 0, u64: 0 };
                // SAFETY: room for one event.
                let found = unsafe { libc::epoll_wait(self.0.as_raw_fd(), &raw mut event, 1, time.as_millis() as i32) };
                link.disarm();
                if found != 1 {
                    return None;
                }
                *waits += 1;
            }
        }
    }
}

/// A packet at a time goes round, so that each is a wake-up; and timers, and calls of another thread.
#[test]
fn a_loop_that_waits_for_edges_loses_no_event() {
    const ROUNDS: u64 = 20_000;
    let (_, _) = alone(|link| {
        let reactor = Reactor::of(&link.fd());
        let back = link.input("m.back").unwrap();
        let (waker, stop) = (link.waker(), Arc::new(AtomicBool::new(false)));
        let stopped = stop.clone();
        let caller = thread::spawn(move || {
            let mut calls = 0;
            while !stopped.load(Ordering::Relaxed) {
                waker.wake();
                calls += 1;
                thread::sleep(Duration::from_micros(300));
            }
            calls
        });
        let (mut rounds, mut timers, mut calls, mut waits) = (0, 0, 0, 0);
        link.inject(back, &[0; 60], &[]).unwrap();
        link.set_timer(1, Instant::now());
        while rounds < ROUNDS || timers < 50 || calls < 10 {
            match reactor.next(link, &mut waits, PATIENCE).ok_or("a wake-up was lost")? {
                Event::Packet(packet) => {
                    rounds += 1;
                    link.inject(back, packet.bytes(), &[]).map_err(|error| error.to_string())?;
                }
                Event::Timer(_) => {
                    timers += 1;
                    link.set_timer(1, Instant::now() + Duration::from_micros(700));
                }
                Event::Idle => calls += 1,
                other => return Err(format!("{other:?}")),
            }
        }
        stop.store(true, Ordering::Relaxed);
        let called: u64 = caller.join().unwrap();
        println!("{rounds} packets, {timers} timers, {calls} of {called} calls in {waits} waits");
        Ok(())
    });
}

#[test]
fn packets_come_in_batches() {
    let (ports, _) = ports((0..64).map(|n| frame(TO_HOST, n, 60)).collect(), 30_000);
    let seen = Arc::new(AtomicU64::new(0));
    let count = seen.clone();
    let run = controller(move |link| {
        let mut packets = Vec::new();
        loop {
            assert_eq!(link.receive_many(&mut packets, 0), 0);
            let most = 40;
            let found = link.receive_many(&mut packets, most);
            assert_eq!((found <= most, packets.len()), (true, found));
            for packet in packets.drain(..) {
                let number = u32::from_be_bytes(packet.bytes()[8..12].try_into().unwrap());
                assert_eq!(number as usize % 2, packet.worker());
                count.fetch_add(1, Ordering::Relaxed);
            }
            if found == 0 {
                match link.receive(PATIENCE) {
                    Event::Packet(_) => _ = count.fetch_add(1, Ordering::Relaxed),
                    Event::Stop => return Ok(()),
                    other => return Err(format!("{other:?}")),
                }
            }
        }
    });
    let report = start(&native(2), &ports, run).wait();
    whole(&report);
    assert_eq!(seen.load(Ordering::Relaxed) + report.snapshot.dropped("controller_busy"), 30_000);
}

/// Packets come without end, and faster than they are taken: calls, timers and the order to stop come through all the
/// same.
#[test]
fn packets_without_end_hide_nothing() {
    let (mut ports, _) = ports((0..64).map(|n| frame(TO_HOST, n, 60)).collect(), u64::MAX);
    ports[1] = PortConfig::new("b", 1, Driver::Mem(MemPort::default()));
    let seen = Arc::new([(); 3].map(|()| AtomicU64::new(0)));
    let counts = seen.clone();
    let run = controller(move |link| {
        let waker = link.waker();
        thread::spawn(move || {
            (0..1000).for_each(|_| {
                waker.wake();
                thread::sleep(Duration::from_millis(2));
            })
        });
        link.set_timer(1, Instant::now());
        loop {
            let event = link.receive(PATIENCE);
            let count = |which: usize| counts[which].fetch_add(1, Ordering::Relaxed);
            match event {
                Event::Packet(_) => {
                    count(0);
                    thread::sleep(Duration::from_millis(1));
                }
                Event::Timer(_) => {
                    count(1);
                    link.set_timer(1, Instant::now());
                }
                Event::Idle => _ = count(2),
                Event::Room => {}
                Event::Stop => return Ok(()),
            }
        }
    });
    let instance = start(&native(1), &ports, run);
    until("all kinds of events come", || seen.iter().all(|count| count.load(Ordering::Relaxed) > 20));
    assert!(instance.snapshot().dropped("controller_busy") > 0);
    whole(&instance.stop());
}

/// Ends with what is under way, longer than others may, and says so.
#[test]
fn one_that_drains_has_time_to_end() {
    let (ports, sent) = ports(Vec::new(), 0);
    let longer_than_usual = Duration::from_millis(5500);
    let has_begun = Arc::new(AtomicBool::new(false));
    let begins = has_begun.clone();
    let run = controller(move |link| {
        let (input, tx) = (link.input("m.again").unwrap(), link.field("tx.port").unwrap());
        assert!(!link.drain(MOST_DRAIN), "not before it is told to stop");
        begins.store(true, Ordering::Relaxed);
        assert!(matches!(link.receive(PATIENCE), Event::Stop));
        assert_eq!(link.stopping(), Some(Stop::End));
        let end = Instant::now() + longer_than_usual;
        assert!(link.drain(2 * MOST_DRAIN));
        link.set_timer(1, end);
        loop {
            match link.receive(Duration::from_millis(100)) {
                Event::Idle => link.inject(input, &[0; 60], &[(tx, 1)]).map_err(|error| error.to_string())?,
                Event::Timer(1) => return Ok(()),
                other => return Err(format!("{other:?}")),
            }
        }
    });
    let instance = start(&native(1), &ports, run);
    let observer = instance.observer();
    until("it begins", || has_begun.load(Ordering::Relaxed));
    let began = Instant::now();
    let stopped = thread::spawn(move || instance.stop());
    until("it drains", || observer.controllers()[0].state == ControllerState::Draining);
    let left = observer.controllers()[0].drain.unwrap();
    assert!(left <= MOST_DRAIN && left > MOST_DRAIN / 2, "{left:?}");
    let report = stopped.join().unwrap();
    whole(&report);
    assert!(began.elapsed() >= longer_than_usual);
    assert!(sent.lock().unwrap().len() >= 20, "the workers run what it injects");
}

/// The time that it has asked for is over: it is told again.
#[test]
fn a_drain_ends() {
    let (ports, _) = ports(Vec::new(), 0);
    let run = controller(|link| {
        assert!(matches!(link.receive(PATIENCE), Event::Stop));
        let began = Instant::now();
        assert!(link.drain(Duration::from_millis(200)));
        assert!(matches!(link.receive(PATIENCE), Event::Stop));
        assert!(matches!(link.receive(PATIENCE), Event::Stop));
        assert!(began.elapsed() >= Duration::from_millis(200));
        Ok(())
    });
    whole(&start(&native(1), &ports, run).stop());
}

/// Frames that are given to a controller, and to one that is not named.
#[test]
fn controllers_have_the_frames_that_they_are_given() {
    for (given, most) in [(None, 100), (Some(40), 20), (Some(600), 300)] {
        let (ports, _) = ports((0..64).map(|n| frame(TO_HOST, n, 60)).collect(), 10_000);
        let kept: Arc<Mutex<Vec<Punted>>> = Arc::default();
        let keeping = kept.clone();
        let keep = controller(move |link| {
            loop {
                match link.receive(PATIENCE) {
                    Event::Packet(packet) => keeping.lock().unwrap().push(packet),
                    Event::Stop => return Ok(()),
                    other => return Err(format!("{other:?}")),
                }
            }
        });
        let controller_frames = given.map(|given| ("c".to_owned(), given)).into_iter().collect();
        let options = Options { controller_frames, ..native(1) };
        let report = start(&options, &ports, keep).wait();
        assert_eq!(kept.lock().unwrap().len(), most, "{given:?}");
        assert_eq!(report.snapshot.dropped("controller_busy"), 10_000 - most as u64);
        kept.lock().unwrap().clear();
    }
    let error = |count: u32, given: u32, workers: usize| {
        let (ports, _) = ports(Vec::new(), 0);
        let frames = FrameConfig { count, ..FrameConfig::default() };
        let options = Options { frames, controller_frames: vec![("c".into(), given)], ..native(workers) };
        Instance::prepare_with(program(), &options, &ports, controller(|_| Ok(()))).err().unwrap().to_string()
    };
    assert_eq!(
        error(100, 99, 2),
        "100 frames, without those that ports need: 99 are for controllers (c: 99), and 2 workers need at least 2: use more frames, or \
         give controllers fewer"
    );
    assert_eq!(error(100, 3, 2), "controller c: 3 frames: at least 4 are needed, one from each worker and one to it");
}
