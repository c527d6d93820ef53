//! Measurements, not tests: what it costs a controller to take a media stream's packets, and the kernel to copy them
//! for it. Run them by name, with `--ignored --nocapture`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use baker::opt::Level;

use super::controllers::{PATIENCE, controller, options, ports, whole};
use super::live::{Host, XDP, gro, in_namespace};
use super::streaming::{Reactor, start};
use crate::controller::{Event, Injector, Input, Link};
use crate::testing::{SplitMix64, TO_HOST, compiled, frame};
use crate::xdp::FastPath;
use crate::{EngineKind, FrameConfig, Instance, Options, PollMode, PortConfig, Snapshot};

/// Packets each second, and bytes of each: ten thousand sessions of RTP video.
const RATE: u64 = 94_000;
const BYTES: usize = 1328;
const TIME: Duration = Duration::from_secs(4);
/// Timers of sessions. One is moved with every packet.
const SESSIONS: u64 = 20_000;

/// CPU time of this thread, how often it has waited, and how often it was made to.
fn used() -> (Duration, i64, i64) {
    // SAFETY: rusage is plain data for which zero is valid; the call writes one.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage);
        usage
    };
    let time = |time: libc::timeval| Duration::new(time.tv_sec as u64, time.tv_usec as u32 * 1000);
    (time(usage.ru_utime) + time(usage.ru_stime), usage.ru_nvcsw, usage.ru_nivcsw)
}

/// Sends packets to the controller by way of a worker, a few every 200 µs; how many did not find room.
fn source(injector: Injector, input: Input, done: Arc<AtomicBool>) -> thread::JoinHandle<(u64, u64)> {
    thread::spawn(move || {
        let packet = frame(TO_HOST, 7, BYTES);
        let (began, mut sent, mut refused) = (Instant::now(), 0, 0);
        while began.elapsed() < TIME {
            let due = (began.elapsed().as_nanos() as u64 * RATE) / 1_000_000_000;
            let batch = (sent..due).map(|_| (&packet[..], &[][..]));
            refused += (due - sent) - injector.inject_many(0, input, batch).0 as u64;
            sent = due;
            thread::sleep(Duration::from_micros(200));
        }
        // What is under way arrives.
        thread::sleep(Duration::from_millis(20));
        done.store(true, Ordering::Release);
        (sent, refused)
    })
}

fn measure(
    what: &str,
    mut take: impl FnMut(&mut Link, &Reactor, &mut u64) -> Option<u64> + Send + 'static,
    timers: bool,
) {
    let (ports, _) = ports(Vec::new(), 0);
    let frames = FrameConfig { count: 16384, ..FrameConfig::default() };
    let options = Options {
        frames,
        controller_frames: vec![("c".into(), 8192)],
        ..options(EngineKind::NATIVE, 1, PollMode::Interrupt)
    };
    let what = what.to_owned();
    let run = controller(move |link| {
        let reactor = Reactor::of(&link.fd());
        let mut numbers = SplitMix64(1);
        let done = Arc::new(AtomicBool::new(false));
        let later =
            |numbers: &mut SplitMix64| Instant::now() + Duration::from_micros(500_000 + numbers.below(1_000_000));
        if timers {
            (0..SESSIONS).for_each(|session| link.set_timer(session, later(&mut numbers)));
        }
        let source = source(link.injector(), link.input("m.back").unwrap(), done.clone());
        let (before, began) = (used(), Instant::now());
        let (mut packets, mut due) = (0, 0);
        while !done.load(Ordering::Acquire) {
            let Some(count) = take(link, &reactor, &mut due) else { continue };
            packets += count;
            if timers {
                (0..count).for_each(|_| link.set_timer(numbers.below(SESSIONS), later(&mut numbers)));
            }
        }
        let (after, time) = (used(), began.elapsed().as_secs_f64());
        let (sent, refused) = source.join().unwrap();
        println!(
            "{what}: {:.0} packets/s of {BYTES} bytes, {:.1} % of a CPU ({:.0} ns/packet), {:.0} waits/s, {:.0} preemptions/s, {:.0} timers/s due; \
             of {sent} sent {refused} found no room, {} were lost",
            packets as f64 / time,
            (after.0 - before.0).as_secs_f64() / time * 100.0,
            (after.0 - before.0).as_nanos() as f64 / packets as f64,
            (after.1 - before.1) as f64 / time,
            (after.2 - before.2) as f64 / time,
            due as f64 / time,
            sent - refused - packets,
        );
        while !matches!(link.receive(PATIENCE), Event::Stop) {}
        Ok(())
    });
    let instance = start(&options, &ports, run);
    thread::sleep(TIME + Duration::from_secs(1));
    whole(&instance.stop());
}

/// What is in a batch, looked at as a controller would.
fn look(packets: &mut Vec<crate::controller::Punted>) -> u64 {
    let count = packets.len() as u64;
    let sum: u64 =
        packets.drain(..).map(|packet| packet.bytes().iter().step_by(64).map(|b| u64::from(*b)).sum::<u64>()).sum();
    std::hint::black_box(sum);
    count
}

#[test]
#[ignore = "a measurement of several seconds"]
fn the_cost_of_a_media_stream() {
    let blocking = |link: &mut Link, _: &Reactor, due: &mut u64| {
        let mut packets = Vec::with_capacity(64);
        match link.receive(Duration::from_millis(10)) {
            Event::Packet(packet) => packets.push(packet),
            Event::Timer(_) => {
                *due += 1;
                return None;
            }
            _ => return None,
        }
        link.receive_many(&mut packets, 63);
        Some(look(&mut packets))
    };
    let one_by_one = |link: &mut Link, _: &Reactor, _: &mut u64| match link.receive(Duration::from_millis(10)) {
        Event::Packet(packet) => Some(look(&mut vec![packet])),
        _ => None,
    };
    let edges = |link: &mut Link, reactor: &Reactor, due: &mut u64| {
        let mut packets = Vec::with_capacity(64);
        match reactor.next(link, &mut 0, Duration::from_millis(10)) {
            Some(Event::Packet(packet)) => packets.push(packet),
            Some(Event::Timer(_)) => {
                *due += 1;
                return None;
            }
            _ => return None,
        }
        link.receive_many(&mut packets, 63);
        Some(look(&mut packets))
    };
    measure("one by one", one_by_one, false);
    measure("in batches", blocking, false);
    measure("in batches, by the descriptor", edges, false);
    measure("in batches, by the descriptor, with timers", edges, true);
}

/// Packets that the fastest case sends.
const MANY: u64 = 400_000;

/// How often a thread of this process has waited, by its name.
fn waits(name: &str) -> u64 {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().map(|task| task.unwrap().path());
    let of_name =
        |task: &std::path::PathBuf| std::fs::read_to_string(task.join("comm")).is_ok_and(|own| own.trim() == name);
    let task = tasks.into_iter().find(of_name).expect("the thread");
    let status = std::fs::read_to_string(task.join("status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    line.and_then(|count| count.trim().parse().ok()).expect("a count")
}

/// Forwards a stream in the kernel, from `left` to `right`, with a copy of each packet for a controller where `tap` is
/// the statement that makes it: at the stream's rate, then as fast as one thread sends.
fn forward(what: &str, tap: &str, clause: &str) {
    let text = format!(
        "import \"net/ether\";
        module m {{
            in ether input; out ether output, media;
            ppf first(ether_packet_t *pkt) from input {{
                {tap}
                pkt->metadata.tx.port = 3 - pkt->metadata.rx.port;
                channel_put(output, pkt);
            }}
        }}
        program {{ rx -> m.input; m.output -> tx; m.media -> controller c {clause}; }}"
    );
    let what = what.to_owned();
    in_namespace(1, move || {
        gro(&["left", "right"]);
        let left = Host::on("left");
        let run = controller(move |link| {
            let mut packets = Vec::with_capacity(256);
            loop {
                match link.receive(Duration::from_secs(1)) {
                    Event::Packet(packet) => packets.push(packet),
                    Event::Stop => return Ok(()),
                    _ => continue,
                }
                link.receive_many(&mut packets, 255);
                look(&mut packets);
            }
        });
        let (program, path) = FastPath::new(&compiled(&text), Level::Cgpc, Default::default()).unwrap().unwrap();
        let frames = FrameConfig { count: 32768, ..FrameConfig::default() };
        let controller_frames = vec![("c".into(), 8192)];
        let fast_path = Some(Arc::new(path));
        let options = options(EngineKind::NATIVE, 1, PollMode::Interrupt);
        let options = Options { frames, controller_frames, fast_path, ..options };
        let ports = [("a", 1), ("b", 2)].map(|(name, number)| PortConfig::new(name, number, XDP(name)));
        let instance = Instance::prepare_with(program, &options, &ports, run).unwrap().run().unwrap();
        let packet = frame(TO_HOST, 7, BYTES + 42);
        for fast in [false, true] {
            let (before, waited, began, mut sent) = (instance.snapshot(), waits("worker-0"), Instant::now(), 0);
            while if fast { sent < MANY } else { began.elapsed() < TIME } {
                let due = if fast { sent + 64 } else { began.elapsed().as_nanos() as u64 * RATE / 1_000_000_000 };
                (sent..due).for_each(|_| left.send(&packet));
                sent = due;
                if !fast {
                    thread::sleep(Duration::from_micros(200));
                }
            }
            let time = began.elapsed().as_secs_f64();
            // What is under way arrives.
            thread::sleep(Duration::from_millis(50));
            let (after, waited) = (instance.snapshot(), waits("worker-0") - waited);
            let sent_on = |snapshot: &Snapshot| snapshot.port("b").unwrap().tx_packets;
            let dropped = |reason| after.dropped(reason) - before.dropped(reason);
            let per = |count: u64| count as f64 / sent as f64;
            println!(
                "{what}: {:.0} packets/s, {} of {sent} not forwarded; copies: {} made, {} tap_full, {} controller_busy; \
                 wake-ups per packet: controller {:.5}, worker {:.5} (its own looks included)",
                sent as f64 / time,
                sent - (sent_on(&after) - sent_on(&before)),
                after.channel("m.media") - before.channel("m.media"),
                dropped("tap_full"),
                dropped("controller_busy"),
                per(after.controllers[0].pace.wakes - before.controllers[0].pace.wakes),
                per(waited),
            );
        }
        whole(&instance.stop());
    });
}

#[test]
#[ignore = "a measurement of several seconds"]
fn the_cost_of_a_tap_in_the_kernel() {
    const TAP: &str = "channel_put(media, packet_copy(pkt));";
    forward("without a tap", "", "");
    forward("tap, woken for each", TAP, "");
    forward("tap, batch 256 within 5ms", TAP, "batch 256 within 5ms");
}
