//! Packets that wait in queues: in order, not before their time, dropped where there is no room, on each engine.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use baker::ir::{CounterSlots, DropId, Program};
use baker::opt::Level;
use codegen::OptLevel;

use crate::ports::{Driver, MemPort};
use crate::step::Stepper;
use crate::testing::{SplitMix64, compiled};
use crate::{EngineKind, FrameConfig, Instance, Options, PollMode, PortConfig};

const ENGINES: [EngineKind; 3] =
    [EngineKind::Interp, EngineKind::Native(OptLevel::O0, Level::Base), EngineKind::NATIVE];
const MS: u64 = 1_000_000;

fn program(queues: &str, body: &str) -> Arc<Program> {
    compiled(&format!(
        "import \"net/ether\";
        metadata {{ weight : u8; }}
        module m {{
            in  ether input;
            out ether output;
            channel ether paced;
            {queues}
            ppf p(ether_packet_t *pkt) from input {{ {body} }}
            ppf after(ether_packet_t *pkt) from paced {{
                pkt->dst = (u48) now_ns();
                channel_put(output, packet_copy(pkt));
                channel_put(output, pkt);
            }}
        }}
        program {{ rx -> m.input; m.output -> tx; }}"
    ))
}

fn packet(line: u16, time: u64, number: u64) -> Vec<u8> {
    let mut packet = time.to_be_bytes()[2..].to_vec();
    packet.extend(&number.to_be_bytes()[2..]);
    packet.extend(line.to_be_bytes());
    packet.resize(60, 0);
    packet
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// Four lines that drop the oldest, and one that drops the newest, by number 4.
const DEPTHS: [usize; 5] = [3, 3, 3, 3, 2];

#[test]
fn packets_go_on_in_order_and_not_before_their_time() {
    let program = program(
        "queue line[4] of 3 drop oldest; queue other of 2;",
        "if (pkt->type == 4)
            channel_put_at(output, other, pkt, pkt->dst);
        else
            channel_put_at(paced, line[pkt->type], pkt, now_ns() + pkt->dst);",
    );
    let slots = CounterSlots::new(&program);
    let full = program.drop_reasons.iter().position(|reason| reason.name == "queue_full").unwrap();
    for seed in 0..6 {
        for engine in ENGINES {
            let mut numbers = SplitMix64(seed);
            let mut stepper = Stepper::new(program.clone(), engine).unwrap();
            let mut lines: [VecDeque<(u64, u64)>; 5] = Default::default();
            let (mut now, mut dropped, mut released) = (0u64, 0, 0);
            for step in 0..2000 {
                if numbers.below(4) == 0 {
                    let to = now + numbers.below(3 * MS);
                    let mut wanted = Vec::new();
                    loop {
                        let first = (0..5).filter_map(|line| Some((lines[line].front()?.0, line))).min();
                        let Some((at, line)) = first.filter(|(at, _)| *at <= to) else { break };
                        now = now.max(at);
                        let (_, number) = lines[line].pop_front().unwrap();
                        released += 1;
                        if line < 4 {
                            wanted.extend([(number, Some(now)); 2]);
                        } else {
                            wanted.push((number, None));
                        }
                    }
                    now = to;
                    let found = stepper.advance(to);
                    let found = found.iter().zip(&wanted).map(|(output, (_, at))| {
                        (number(&output.bytes[6..12]), at.map(|_| number(&output.bytes[..6])))
                    });
                    assert_eq!(found.collect::<Vec<_>>(), wanted, "{engine:?} seed {seed} step {step}");
                } else {
                    // One line there is not.
                    let line = numbers.below(6) as usize;
                    let line = if line == 5 { 7 } else { line };
                    let time = numbers.below(10) * MS / 4;
                    let (given, at) = if line == 4 { (now + time, now + time) } else { (time, now + time) };
                    let outputs = stepper.receive(1, &packet(line as u16, given, step));
                    assert!(outputs.is_empty());
                    match lines.get_mut(line) {
                        None => dropped += 1,
                        Some(waiting) => {
                            let is_full = waiting.len() == DEPTHS[line];
                            dropped += u64::from(is_full);
                            if is_full && line < 4 {
                                waiting.pop_front();
                            }
                            if !is_full || line < 4 {
                                waiting.push_back((at, step));
                            }
                        }
                    }
                }
                stepper.check_frames().unwrap();
            }
            assert_eq!(stepper.counters()[slots.drop(DropId(full as u32))], dropped, "{engine:?}");
            assert!(released > 500 && dropped > 100, "{released}, {dropped}");
        }
    }
}

/// The packet with the lowest metadata goes, the first one of several, and the order of the others stays.
#[test]
fn the_lowest_is_dropped() {
    let program = program(
        "queue line[2] of 4 drop lowest weight;",
        "pkt->metadata.weight = (u8) pkt->dst & 7;
        channel_put_at(output, line[pkt->type], pkt, now_ns() + 1ms);",
    );
    let slots = CounterSlots::new(&program);
    let full = program.drop_reasons.iter().position(|reason| reason.name == "queue_full").unwrap();
    for engine in ENGINES {
        let mut stepper = Stepper::new(program.clone(), engine).unwrap();
        let (mut numbers, mut dropped) = (SplitMix64(11), 0);
        for round in 0..200 {
            let mut lines: [Vec<(u64, u64)>; 2] = Default::default();
            for step in 0..numbers.below(20) {
                let (line, weight, number) = (numbers.below(2), numbers.below(4), round * 100 + step);
                assert!(stepper.receive(1, &packet(line as u16, weight, number)).is_empty());
                let waiting = &mut lines[line as usize];
                waiting.push((weight, number));
                if waiting.len() > 4 {
                    let lowest = waiting.iter().map(|(weight, _)| *weight).min().unwrap();
                    let first = waiting.iter().position(|(weight, _)| *weight == lowest).unwrap();
                    waiting.remove(first);
                    dropped += 1;
                }
            }
            stepper.check_frames().unwrap();
            let found = stepper.advance((round + 1) * 2 * MS);
            let mut found: Vec<u64> = found.iter().map(|output| number(&output.bytes[6..12])).collect();
            // Lines take turns.
            let mut wanted: Vec<u64> = lines.iter().flatten().map(|(_, number)| *number).collect();
            let in_order = |line: &Vec<(u64, u64)>| {
                let of_line: Vec<u64> = line.iter().map(|(_, number)| *number).collect();
                found.iter().copied().filter(|number| of_line.contains(number)).eq(of_line.iter().copied())
            };
            assert!(lines.iter().all(in_order), "{engine:?} {found:?} {lines:?}");
            found.sort();
            wanted.sort();
            assert_eq!(found, wanted, "{engine:?}");
        }
        assert_eq!(stepper.counters()[slots.drop(DropId(full as u32))], dropped, "{engine:?}");
        assert!(dropped > 200, "{dropped}");
    }
}

fn options(frames: u32, poll: PollMode) -> Options {
    let frames = FrameConfig { count: frames, ..FrameConfig::default() };
    Options { engine: EngineKind::NATIVE, workers: 1, poll, frames, ..Options::default() }
}

const PACED: &str = "channel_put_at(paced, line[pkt->type], pkt, now_ns() + pkt->dst);";
const TO_ONE: &str = "pkt->metadata.tx.port = 2;";

#[test]
fn workers_hold_them_and_their_frames_come_back() {
    const PACKETS: u64 = 2000;
    let program = program("queue line[8] of 250;", &format!("{TO_ONE} {PACED}"));
    for poll in [PollMode::Busy, PollMode::Interrupt] {
        // Each line gets one each 100 µs.
        let packets = (0..PACKETS).map(|n| packet((n % 8) as u16, 20 * MS + n / 8 * 100_000, n)).collect();
        let (b, sent) = MemPort::default().collect();
        let ports = [
            PortConfig::new("a", 1, Driver::Mem(MemPort::generator(packets, PACKETS))),
            PortConfig::new("b", 2, Driver::Mem(b)),
        ];
        let start = Instant::now();
        let instance = Instance::start(program.clone(), &options(4096, poll), &ports).unwrap();
        // It ends when all have gone on.
        let report = instance.wait();
        assert!(start.elapsed() >= Duration::from_micros(20_000 + 249 * 100));
        assert_eq!((report.errors, report.free_frames), (Vec::new(), report.frames));
        let sent = sent.lock().unwrap();
        assert_eq!(sent.len() as u64, 2 * PACKETS);
        for line in 0..8 {
            let of_line = sent.iter().filter(|packet| number(&packet[12..14]) == line);
            let numbers: Vec<u64> = of_line.map(|packet| number(&packet[6..12])).collect();
            assert!(numbers.chunks(2).map(|copies| copies[0]).eq((0..PACKETS).filter(|n| n % 8 == line)));
        }
    }
}

#[test]
fn those_that_wait_at_the_end_give_their_frames_back() {
    let program = program("queue line[8] of 250;", &format!("{TO_ONE} {PACED}"));
    let packets = (0..1000).map(|n| packet((n % 8) as u16, 3600 * 1000 * MS, n)).collect();
    let ports = [
        PortConfig::new("a", 1, Driver::Mem(MemPort::generator(packets, 1000))),
        PortConfig::new("b", 2, Driver::Mem(MemPort::default())),
    ];
    let mut instance = Instance::start(program.clone(), &options(4096, PollMode::Interrupt), &ports).unwrap();
    let observer = instance.observer();
    let start = Instant::now();
    while observer.snapshot().channel("rx") < 1000 {
        assert!(start.elapsed() < Duration::from_secs(20));
        std::thread::sleep(Duration::from_millis(1));
    }
    // They go over to the program that takes over.
    let next = instance.next(&program, Vec::new()).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(instance.take_over(next), [""; 0]);
    let report = instance.stop();
    assert_eq!((report.errors, report.free_frames), (Vec::new(), report.frames));
    assert_eq!(report.snapshot.dropped("queue_full"), 0);
}

#[test]
fn too_few_frames_are_refused() {
    let program = program("queue line[8] of 250;", PACED);
    let ports = [PortConfig::new("a", 1, Driver::Mem(MemPort::default()))];
    let error = Instance::start(program, &options(2001, PollMode::Interrupt), &ports).map(|_| ()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "2001 frames, without those that ports need: 2000 are for packets that wait (m.line: 2000), and 1 workers need at \
         least 2: use more frames, or declare smaller queues"
    );
}
