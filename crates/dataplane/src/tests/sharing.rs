//! Copies that share bytes with their originals: what leaves is what was meant, whatever holds it and however long, and
//! all frames come back.

use std::sync::Arc;

use baker::ir::CounterSlots;
use baker::ir::interp::Machine;
use baker::opt::Level;
use codegen::OptLevel;

use super::live::{AFPACKET, AFXDP, Host, Make, eventually, in_namespace};
use crate::controller::Event;
use crate::counters::CounterBlock;
use crate::engine::engine;
use crate::packets::{FramePool, Received, RxBatch, WorkerContext};
use crate::ports::{Driver, MemPort};
use crate::testing::{SplitMix64, compiled, frame};
use crate::{Access, EngineKind, FrameConfig, Instance, Options, PollMode, PortConfig};

/// As many copies as the first byte says, which are numbered; some of them are dropped, copied again, or get another
/// header, and then the original.
const FAN: &str = "import \"net/ether\";
protocol inner { a : 32; b : 32; demux { 8 }; }
module m {
    in ether input;
    out ether output, host;
    channel inner inners;
    ppf fan(ether_packet_t *pkt) from input {
        u8 n = (u8) (pkt->dst >> 40);
        pkt->metadata.tx.port = 1;
        for (u32 i = 0; i < 200; i++) {
            if (i >= n)
                break;
            ether_packet_t *copy = packet_copy(pkt);
            copy->dst = i;
            if ((i & 7) == 3) {
                packet_drop(copy, malformed);
                continue;
            }
            if ((i & 7) == 5) {
                ether_packet_t *second = packet_copy(copy);
                second->src = i;
                channel_put(host, second);
            }
            if ((i & 15) == 6) {
                inner_packet_t *in = packet_decap(copy);
                in->b = i;
                channel_put(inners, in);
                continue;
            }
            channel_put(output, copy);
        }
        pkt->src = 99;
        if (pkt->type == 0xdead) {
            packet_drop(pkt, malformed);
            return;
        }
        channel_put(output, pkt);
    }
    ppf on(inner_packet_t *in) from inners {
        ether_packet_t *pkt = packet_encap(in);
        pkt->type = 0x0101;
        channel_put(output, pkt);
    }
}
program { rx -> m.input; m.output -> tx; m.host -> host; }
";

fn fanned(copies: u8, kind: u16, number: u32, len: usize) -> Vec<u8> {
    let mut packet = frame(kind, number, len);
    packet[0] = copies;
    packet
}

/// What is held of a packet, and the bytes that are to be there as long as it is.
enum Held {
    /// A packet of the worker's.
    Packet(u32, Vec<u8>),
    /// A piece of one, as the kernel has it to send: a frame, and where in the region.
    Piece(u32, usize, Vec<u8>),
}

struct World {
    pool: Arc<FramePool>,
    context: WorkerContext,
    held: Vec<Held>,
    random: SplitMix64,
}

impl World {
    fn check(&self, held: &Held) {
        // SAFETY: what is held is the test's; nothing writes.
        let (bytes, expected) = unsafe {
            match held {
                Held::Packet(frame, expected) => (self.pool.bytes(*frame).to_vec(), expected),
                Held::Piece(_, at, expected) => {
                    let bytes = std::slice::from_raw_parts(self.pool.region().add(*at), expected.len());
                    (bytes.to_vec(), expected)
                }
            }
        };
        assert!(bytes == *expected, "bytes that are held have changed");
    }

    fn take(&mut self) -> Option<Held> {
        let count = self.held.len() as u64;
        (count > 0).then(|| self.held.swap_remove(self.random.below(count) as usize))
    }

    /// Something becomes of something that is held.
    fn step(&mut self) {
        let Some(held) = self.take() else { return };
        self.check(&held);
        let pool = self.pool.clone();
        match held {
            Held::Piece(frame, ..) => {
                if pool.let_go(frame) {
                    self.context.push(frame);
                }
            }
            Held::Packet(frame, mut expected) => match self.random.below(4) {
                0 => self.context.let_go(frame),
                // The kernel gets it in several pieces.
                1 => {
                    // SAFETY: the packet is the test's.
                    let (bytes, rest) = unsafe {
                        let bytes = pool.bytes(frame);
                        let at = |piece: &[u8]| (piece.as_ptr() as usize).wrapping_sub(pool.region() as usize);
                        let pieces = [bytes.head, bytes.rest].map(|piece| (at(piece), piece.to_vec()));
                        (pieces, pool.take_rest(frame))
                    };
                    let frames = [Some(frame), rest];
                    for (frame, (at, bytes)) in frames.into_iter().zip(bytes).filter_map(|(f, b)| Some((f?, b))) {
                        let parts = 1 + self.random.below(3) as u32;
                        pool.hold(frame, parts - 1);
                        let size = bytes.len().div_ceil(parts as usize);
                        for part in 0..parts as usize {
                            let from = (part * size).min(bytes.len());
                            let piece = bytes[from..(from + size).min(bytes.len())].to_vec();
                            self.held.push(Held::Piece(frame, at + from, piece));
                        }
                    }
                }
                // A controller gets it, and changes it.
                2 => match self.context.make_own(frame) {
                    None => self.context.let_go(frame),
                    Some(own) => {
                        assert!(!pool.is_shared(own));
                        self.check(&Held::Packet(own, expected.clone()));
                        // SAFETY: the packet is the test's alone, and in one piece.
                        unsafe {
                            let to = pool.packet(own).as_ptr().cast_mut();
                            for (index, byte) in expected.iter_mut().enumerate() {
                                *byte = byte.wrapping_add(self.random.next() as u8);
                                to.add(index).write(*byte);
                            }
                        }
                        self.held.push(Held::Packet(own, expected));
                    }
                },
                _ => {
                    self.context.join(frame, self.random.below(64) as usize);
                    self.held.push(Held::Packet(frame, expected));
                }
            },
        }
    }
}

/// Random packets, of which random things become, in a random order, against the interpreter's packets.
fn random_ends(kind: EngineKind, seed: u64) {
    let program = compiled(FAN);
    let config = FrameConfig { count: 6000, ..FrameConfig::default() };
    let pool = Arc::new(FramePool::new(&program, config).unwrap());
    let (mut engine, tables) = engine(&program, kind, None).unwrap();
    let counters = Arc::new(CounterBlock::new(CounterSlots::new(&program).len()));
    let context = WorkerContext::new(&program, pool.clone(), tables.native().cloned(), counters).unwrap();
    let mut world = World { pool: pool.clone(), context, held: Vec::new(), random: SplitMix64(seed) };
    let mut machine = Machine::new(program.clone());
    let (mut shared, mut most) = (0, 0);
    for round in 0..150 {
        world.context.set_share_least(Some([1, 256, 700][world.random.below(3) as usize]));
        let mut received = Received::default();
        let mut expected = Vec::new();
        let mut batch = RxBatch::new(&mut world.context, &mut received, 3);
        let room = batch.room().min(1 + world.random.below(8) as usize);
        for _ in 0..room {
            let (copies, kind) = (world.random.below(201) as u8, [0x0800, 0xdead][world.random.below(2) as usize]);
            let len = 14 + world.random.below(1500) as usize;
            let packet = fanned(copies, kind, round, len);
            batch.push(&[&packet]);
            expected.extend(machine.receive(3, &packet).into_iter().map(|output| output.packet));
        }
        // SAFETY: the batch came from `RxBatch` over the context, which is that of the engine's program and tables.
        unsafe { engine.run(&mut world.context, received.frames()) };
        let outputs: Vec<u32> = world.context.outputs().iter().map(|output| output.frame).collect();
        world.context.clear_outputs();
        assert_eq!(outputs.len(), expected.len());
        for (frame, expected) in outputs.into_iter().zip(expected) {
            // SAFETY: the packet is the test's.
            shared += usize::from(!unsafe { pool.bytes(frame) }.rest.is_empty());
            let held = Held::Packet(frame, expected);
            world.check(&held);
            world.held.push(held);
        }
        most = most.max(world.held.len());
        for _ in 0..world.random.below(1500) {
            world.step();
        }
        for index in 0..world.held.len().min(50) {
            world.check(&world.held[index]);
        }
    }
    assert!(shared > 5000 && most > 700, "{shared} packets shared bytes, {most} were held at once");
    while !world.held.is_empty() {
        world.step();
    }
    assert!(pool.is_unshared());
    world.context.release();
    let mut all = vec![0; pool.count() as usize + 1];
    assert_eq!(pool.take(&mut all), pool.count() as usize, "no frame is lost, and none was freed twice");
    all.truncate(pool.count() as usize);
    all.sort_unstable();
    assert!(all.into_iter().eq(0..pool.count()));
}

#[test]
fn hundreds_hold_frames_and_end_in_any_order() {
    for seed in 0..4 {
        random_ends(EngineKind::NATIVE, seed);
    }
    random_ends(EngineKind::Native(OptLevel::O0, Level::Base), 10);
    random_ends(EngineKind::Native(OptLevel::O3, Level::Pac), 11);
}

#[test]
fn the_last_of_several_threads_gets_the_frame() {
    let pool = Arc::new(FramePool::new(&compiled(FAN), FrameConfig::default()).unwrap());
    const HOLDERS: u32 = 200;
    let freed = std::sync::atomic::AtomicU32::new(0);
    for _ in 0..20 {
        let mut frames = [0; 64];
        assert_eq!(pool.take(&mut frames), frames.len());
        frames.iter().for_each(|frame| pool.hold(*frame, 4 * HOLDERS - 1));
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (pool, frames, freed) = (&pool, &frames, &freed);
                scope.spawn(move || {
                    for index in 0..frames.len() * HOLDERS as usize {
                        let frame = frames[(index + thread * 16) % frames.len()];
                        if pool.let_go(frame) {
                            freed.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                            pool.put_back(&[frame]);
                        }
                    }
                });
            }
        });
        assert_eq!((freed.swap(0, std::sync::atomic::Ordering::Relaxed), pool.free_frames()), (64, pool.count()));
        assert!(pool.is_unshared());
    }
}

fn ports(packets: Vec<Vec<u8>>, count: u64, access: Access) -> (Vec<PortConfig>, [crate::ports::MemSink; 2]) {
    let (b, sent) = MemPort::default().collect();
    let (h, host) = MemPort::default().fail_above(1000).collect();
    let a = PortConfig {
        host: Some(7),
        access,
        ..PortConfig::new("a", 0, Driver::Mem(MemPort::generator(packets, count)))
    };
    (vec![a, PortConfig::new("b", 1, Driver::Mem(b)), PortConfig::new("h", 7, Driver::Mem(h))], [sent, host])
}

#[test]
fn the_same_packets_leave_with_every_engine_and_access_mode() {
    let packets: Vec<_> = (0..60u32)
        .map(|n| {
            fanned((n * 7 % 201) as u8, if n % 5 == 0 { 0xdead } else { 0x0800 }, n, 14 + (n as usize * 97) % 1500)
        })
        .collect();
    let mut all = Vec::new();
    let engines = [EngineKind::Interp, EngineKind::Native(OptLevel::O0, Level::Base), EngineKind::NATIVE];
    for (engine, access) in engines.into_iter().flat_map(|engine| Access::ALL.map(|access| (engine, access))) {
        let (ports, sinks) = ports(packets.clone(), 180, access);
        let frames = FrameConfig { count: 4000, ..FrameConfig::default() };
        let report =
            Instance::start(compiled(FAN), &Options { engine, frames, ..Options::default() }, &ports).unwrap().wait();
        assert_eq!((report.errors, report.free_frames), (Vec::new(), report.frames), "{engine:?} {access}");
        let sent = sinks.map(|sink| std::mem::take(&mut *sink.lock().unwrap()));
        assert!(sent[0].len() > 10_000 && sent[1].len() > 1000);
        all.push((sent, report.snapshot.drops));
        assert!(all[0] == all[all.len() - 1], "{engine:?} {access}");
    }
}

/// A packet and its copies at the other end of a port, byte for byte and in order; all frames come back.
fn leaves_whole(driver: Make, workers: usize) {
    let program = compiled(FAN);
    let (left, right) = (Host::on("left"), Host::on("right"));
    let ports = [("a", 0), ("b", 1)].map(|(name, number)| PortConfig::new(name, number, driver(name)));
    for engine in [EngineKind::Native(OptLevel::O0, Level::Base), EngineKind::NATIVE] {
        let frames = FrameConfig { count: 16384, ..FrameConfig::default() };
        let options = Options { engine, workers, frames, poll: PollMode::Interrupt, ..Options::default() };
        let instance = Instance::start(program.clone(), &options, &ports).unwrap();
        let mut machine = Machine::new(program.clone());
        for number in 0..200u32 {
            let packet = fanned((number % 120) as u8, 0x0800, number, 14 + (number as usize * 139) % 1501);
            left.send(&packet);
            let outputs = machine.receive(0, &packet).into_iter();
            for output in outputs.filter(|output| output.end == baker::ir::interp::End::Tx) {
                let (bytes, _) = right.receive().expect("the packet arrives");
                assert!(bytes == output.packet, "{number}: {} bytes, {}", bytes.len(), output.packet.len());
            }
        }
        eventually(&instance, |s| s.port("a").unwrap().rx_packets == 200);
        let report = instance.stop();
        assert_eq!((report.errors, report.free_frames), (Vec::new(), report.frames));
    }
}

#[test]
fn what_is_shared_leaves_through_af_xdp() {
    in_namespace(1, || leaves_whole(AFXDP, 1));
}

#[test]
fn what_is_shared_leaves_through_af_xdp_in_two_pieces() {
    crate::ports::SPLITS.store(true, std::sync::atomic::Ordering::Relaxed);
    in_namespace(1, || leaves_whole(AFXDP, 1));
    in_namespace(1, || leaves_whole(AFXDP, 2));
}

#[test]
fn what_is_shared_comes_back_to_workers_that_share_a_queue() {
    in_namespace(1, || leaves_whole(AFXDP, 2));
}

#[test]
fn what_is_shared_leaves_through_af_packet() {
    in_namespace(1, || leaves_whole(AFPACKET, 1));
}

#[test]
fn frames_are_back_where_an_interface_goes_down_meanwhile() {
    crate::ports::SPLITS.store(true, std::sync::atomic::Ordering::Relaxed);
    in_namespace(1, || {
        let left = Host::on("left");
        let ports = [("a", 0), ("b", 1)].map(|(name, number)| PortConfig::new(name, number, AFXDP(name)));
        let instance = Instance::start(compiled(FAN), &Options::default(), &ports).unwrap();
        for round in 0..20u32 {
            for number in 0..20 {
                left.send(&fanned(150, 0x0800, number, 1400));
            }
            let state = ["down", "up"][round as usize % 2];
            super::live::ip(&format!("link set dev {} {state}", ["right", "b"][round as usize / 2 % 2]));
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        let report = instance.stop();
        assert_eq!(report.free_frames, report.frames);
    });
}

#[test]
fn an_instance_says_who_holds_its_frames() {
    in_namespace(1, || {
        let text = FAN.replace("m.host -> host;", "m.host -> controller c;");
        let (held, done) = (std::sync::mpsc::channel(), std::sync::mpsc::channel::<()>());
        let keep = super::controllers::controller(move |link| {
            let mut packets = Vec::new();
            loop {
                match link.receive(std::time::Duration::from_millis(10)) {
                    Event::Packet(mut packet) => {
                        // What it writes has no other holder.
                        packet.bytes_mut().fill(7);
                        packets.push(packet);
                    }
                    Event::Stop => break,
                    _ => {}
                }
                let _ = held.0.send(packets.len());
                if done.1.try_recv().is_ok() {
                    packets.clear();
                }
            }
            Ok(())
        });
        let ports = [("a", 0), ("b", 1)].map(|(name, number)| PortConfig::new(name, number, AFXDP(name)));
        let (left, right) = (Host::on("left"), Host::on("right"));
        let prepared = Instance::prepare_with(compiled(&text), &Options::default(), &ports, keep).unwrap();
        let instance = prepared.run().unwrap();
        let observer = instance.observer();
        // Waits until nothing passes; frames of the ports are those that they have to receive into.
        let settled = |controllers: std::ops::RangeInclusive<u32>| {
            let until = std::time::Instant::now() + std::time::Duration::from_secs(5);
            loop {
                let frames = observer.frames();
                let (ports, workers) = (frames.ports > 1000, frames.workers > 0);
                if frames.passing == 0 && ports && workers && controllers.contains(&frames.controllers) {
                    return;
                }
                assert!(std::time::Instant::now() < until, "{frames:?}");
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
        };
        settled(0..=0);
        let mut machine = Machine::new(compiled(&text));
        for number in 0..5 {
            let packet = fanned(80, 0x0800, number, 1400);
            left.send(&packet);
            for output in machine.receive(0, &packet) {
                if output.end == baker::ir::interp::End::Tx {
                    let (bytes, _) = right.receive().expect("the packet arrives");
                    assert!(bytes == output.packet);
                }
            }
        }
        // Ten copies of each packet are the controller's.
        while held.1.recv_timeout(std::time::Duration::from_secs(5)).unwrap() < 50 {}
        settled(50..=50);
        done.0.send(()).unwrap();
        settled(0..=64);
        let report = instance.stop();
        assert_eq!((report.errors, report.free_frames), (Vec::new(), report.frames));
    });
}
