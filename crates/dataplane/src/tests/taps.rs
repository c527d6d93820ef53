//! Copies that leave the kernel at live veth pairs, while the packets stay: to a controller and to workers, under
//! programs that take over from each other.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use baker::ir::Program;
use baker::opt::Level;
use codegen::OptLevel;

use super::controllers::{PATIENCE, controller, until};
use super::fanout::pass_in_order;
use super::live::{Host, XDP, eventually, gro, in_namespace};
use crate::controller::{Event, Named};
use crate::testing::{compiled, frame};
use crate::xdp::FastPath;
use crate::{EngineKind, FrameConfig, Instance, Options, PortConfig, Snapshot};

/// All packets go out of the other port; the controller gets a copy as they are before a change, and a PPF of workers
/// one from behind the header on. Each number is another program.
fn program(number: u32) -> Arc<Program> {
    // What lies where is different each time.
    let extra: String = (0..number % 3).map(|n| format!("extra_{n} : u64; ")).collect();
    let taps = "ether_packet_t *copy = packet_copy(pkt);
        copy->metadata.mark = 0xabc;
        channel_put(media, copy);
        inner_packet_t *inner = packet_peek(pkt);
        channel_put(inside, packet_copy(inner));";
    // One of them makes none.
    let taps = if number == 2 { "" } else { taps };
    compiled(&format!(
        "import \"net/ether\";
        protocol inner {{ first : u8; demux {{ 1 }}; }}
        metadata {{ {extra} mark : u16; }}
        module m {{
            in ether input; out ether output, media; channel inner inside; counter seen;
            ppf first(ether_packet_t *pkt) from input {{
                {taps}
                pkt->metadata.tx.port = 3 - pkt->metadata.rx.port;
                channel_put(output, pkt);
            }}
            @worker ppf look(inner_packet_t *inner) from inside {{
                counter_add(seen, packet_length(inner));
                packet_end(inner);
            }}
        }}
        program {{ rx -> m.input; m.output -> tx; m.media -> controller c batch 32 within 1ms; }}"
    ))
}

fn start(program: &Program, workers: usize, controllers: Vec<Named>) -> Instance {
    let fitted = FastPath::new(program, Level::Cgpc, Default::default()).unwrap_or_else(|error| panic!("{error}"));
    let (program, path) = fitted.expect("some of it runs in the kernel");
    let engine = EngineKind::Native(OptLevel::O0, Level::Base);
    let frames = FrameConfig { count: 32768 * workers as u32, ..FrameConfig::default() };
    let controller_frames = vec![("c".to_owned(), 8192)];
    let options =
        Options { engine, workers, frames, controller_frames, fast_path: Some(Arc::new(path)), ..Options::default() };
    let ports = [("a", 1), ("b", 2)].map(|(name, number)| PortConfig::new(name, number, XDP(name)));
    let prepared = Instance::prepare_with(program, &options, &ports, controllers);
    prepared.unwrap_or_else(|error| panic!("{error}")).run().unwrap()
}

#[test]
fn copies_reach_controllers_and_workers_and_packets_stay() {
    in_namespace(1, || {
        gro(&["left", "right"]);
        let (left, right) = (Host::on("left"), Host::on("right"));
        let seen: Arc<Mutex<Vec<Vec<u8>>>> = Arc::default();
        let own = seen.clone();
        let run = controller(move |link| {
            let mark = link.field("mark").unwrap();
            loop {
                match link.receive(PATIENCE) {
                    Event::Packet(packet) => {
                        assert_eq!((packet.channel(), packet.metadata(mark)), ("m.media", 0xabc));
                        own.lock().unwrap().push(packet.bytes().to_vec());
                    }
                    Event::Stop => return Ok(()),
                    _ => {}
                }
            }
        });
        let instance = start(&program(0), 1, run);
        let packets: Vec<_> = (0..1500).map(|n| frame(0x88b6, n, 60 + n as usize % 1400)).collect();
        for packet in &packets {
            left.send(packet);
            right.expect(packet);
        }
        let inside: u64 = packets.iter().map(|packet| packet.len() as u64 - 14).sum();
        let counted = |s: &Snapshot| s.user.iter().find(|(name, _)| name == "m.seen").map(|(_, cells)| cells[0]);
        let snapshot = eventually(&instance, |s| counted(s) == Some(inside) && seen.lock().unwrap().len() == 1500);
        assert!(*seen.lock().unwrap() == packets, "as they were, in order");
        let channels = ["m.output", "m.media", "m.inside", "kernel -> m.look", "kernel -> m.first"];
        assert_eq!(channels.map(|name| snapshot.channel(name)), [1500, 1500, 1500, 1500, 0]);
        assert_eq!((snapshot.dropped("tap_full"), snapshot.dropped("no_worker")), (0, 0));
        let wakes = snapshot.controllers[0].pace.wakes;
        assert!((1..=1500).contains(&wakes), "{wakes}");
        let report = instance.stop();
        assert_eq!((report.errors, report.free_frames), (Vec::new(), report.frames));
    });
}

#[test]
fn copies_of_programs_that_take_over_are_whole_and_in_order() {
    in_namespace(2, || {
        gro(&["left", "right"]);
        let (left, right) = (Host::on("left"), Host::on("right"));
        let got = Arc::new(AtomicU64::new(0));
        // Of each flow and direction the last number.
        let next: Arc<Mutex<HashMap<[u8; 2], u32>>> = Arc::default();
        let run = || {
            let (got, next) = (got.clone(), next.clone());
            controller(move |link| {
                let mark = link.field("mark").unwrap();
                loop {
                    match link.receive(PATIENCE) {
                        Event::Packet(packet) => {
                            let bytes = packet.bytes();
                            assert_eq!((packet.channel(), packet.metadata(mark)), ("m.media", 0xabc));
                            let number = u32::from_be_bytes(bytes[42..46].try_into().unwrap());
                            // Ten of each flow, again and again.
                            let before = next.lock().unwrap().insert([bytes[10], bytes[11]], number);
                            let in_order = before.is_none_or(|before| number == (before + 1) % 10);
                            assert!(in_order, "flow {}: {number} after {before:?}", bytes[11]);
                            got.fetch_add(1, Ordering::Relaxed);
                        }
                        Event::Stop => return Ok(()),
                        _ => {}
                    }
                }
            })
        };
        let mut instance = start(&program(2), 2, run());
        let done = Arc::new(AtomicBool::new(false));
        let (stop, observer, taken) = (done.clone(), instance.observer(), got.clone());
        let traffic = std::thread::spawn(move || {
            let mut rounds = 0;
            while !stop.load(Ordering::Relaxed) || rounds < 2 {
                pass_in_order(&left, &right, rounds % 2 == 1, 1);
                rounds += 1;
                // The kernel forwards whatever workers do, so it has to be waited for these.
                until("copies arrive", || observer.snapshot().channel("m.media") == taken.load(Ordering::Relaxed));
            }
            rounds
        });
        let mut take_over = |number| {
            let next = instance.next(&program(number), run()).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(instance.take_over(next), [""; 0]);
        };
        [0, 1, 3, 4, 0].into_iter().for_each(&mut take_over);
        done.store(true, Ordering::Relaxed);
        let packets = 2000 * traffic.join().expect("all packets in order");
        take_over(2);
        let snapshot = eventually(&instance, |s| s.channel("rx") == packets);
        let copies = got.load(Ordering::Relaxed);
        assert!(copies > 0 && copies <= packets, "{copies} of {packets}");
        assert_eq!((snapshot.channel("m.media"), snapshot.channel("m.inside")), (copies, copies));
        let drops = ["tap_full", "controller_busy", "no_worker"].map(|reason| snapshot.dropped(reason));
        assert_eq!(drops, [0; 3]);
        let report = instance.stop();
        assert_eq!((report.errors, report.free_frames), (Vec::new(), report.frames));
    });
}
