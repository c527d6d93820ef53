//! Several workers at one connection: its lock.

use std::path::Path;
use std::time::{Duration, Instant};

use baker::ir::{TableEntry, TableId, TableStore};
use dataplane::controller::{Controller, Event, Link};
use dataplane::ports::{Driver, MemPort};
use dataplane::{EngineKind, FrameConfig, Instance, Options, PortConfig};

use crate::world::{Scene, World};
use crate::{common, program, quiet as native, read};

fn quiet() -> Scene {
    Scene { engine: EngineKind::Interp, ..native() }
}

/// Lets a worker hold the lock of the connection; 0: none.
fn hold(world: &mut World, holder: u128) {
    let table = program().tables.iter().position(|table| table.name == "locks.holders").expect("locks");
    let entry = TableEntry { key: vec![1], prefix_len: None, value: vec![holder] };
    world.stepper.insert(TableId(table as u32), &entry).expect("an entry");
}

/// A worker that was put to sleep keeps its lock, however long that is, and nothing is lost meanwhile.
#[test]
fn a_connection_waits_for_the_worker_that_is_at_it() {
    let mut world = World::new(&program(), quiet());
    world.connect();
    world.run(300);
    hold(&mut world, 1);
    world.run(30);
    let sent = world.client.received;
    world.run(400);
    assert_eq!(world.client.received, sent, "nobody works on it");
    hold(&mut world, 0);
    world.run(500);
    world.running = false;
    world.run(1000);
    let read = read(&world.client.data);
    assert!(read.packets > 200 && (read.missing, read.nulls) == (0, 0), "{read:?}");
}

/// What a process has held that was killed is free.
#[test]
fn locks_of_another_process_are_free() {
    let mut world = World::new(&program(), quiet());
    world.connect();
    world.run(300);
    hold(&mut world, 7);
    world.run(300);
    world.running = false;
    world.run(1000);
    let read = read(&world.client.data);
    assert!(read.packets > 110 && (read.missing, read.nulls) == (0, 0), "{read:?}");
}

/// A controller that does nothing.
struct Nobody;

impl Controller for Nobody {
    fn run(&mut self, link: &mut Link) -> Result<(), String> {
        while !matches!(link.receive(Duration::from_secs(1)), Event::Stop) {}
        Ok(())
    }
}

/// Never are two at it, also where one is put to sleep meanwhile, as on a machine that has more to do.
#[test]
fn no_two_workers_have_a_lock() {
    const PACKETS: u64 = 200_000;
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../apps/translate/translate.baker");
    let text = std::fs::read_to_string(Path::new(path)).expect("the program");
    let text = text.replace("rx -> entry.input;", "rx -> stress.input;").replace(
        "program {",
        "module stress {
            in ether input;
            array<u64> sums[3];
            ppf work(ether_packet_t *pkt) from input {
                u64 *sum = sums[0];
                if (!lock_connection(1)) {
                    u64 *busy = sums[1];
                    critical (busy) {
                        *busy += 1;
                    }
                    packet_end(pkt);
                    return;
                }
                u64 was = *sum;
                u64 mixed = was;
                for (u32 i = 0; i < 1000; i++)
                    mixed = mixed * 3 + packet_length(pkt);
                sums[2] = mixed;
                *sum = was + 1;
                unlock_connection(1);
                packet_end(pkt);
            }
            ppf pass(ether_packet_t *pkt) from unused { channel_put(output, pkt); }
            out ether output;
            channel ether unused;
            timer never() every 1h { ether_packet_t *pkt = packet_create(); channel_put(unused, pkt); }
        }
        program { stress.output -> entry.input;",
    );
    let program = common::compile_text(path, &text);
    let frames = FrameConfig { count: 1 << 17, ..FrameConfig::default() };
    let options = Options { engine: EngineKind::NATIVE, workers: 2, frames, ..Options::default() };
    let packets = (0..64u8).map(|number| vec![number; 64]).collect();
    let ports = [
        PortConfig::new("a", 1, Driver::Mem(MemPort::generator(packets, PACKETS))),
        PortConfig::new("b", 2, Driver::Mem(MemPort::default())),
    ];
    let prepared =
        Instance::prepare_with(program, &options, &ports, vec![("translate".into(), Box::new(Nobody))]).unwrap();
    let tables = prepared.named_tables();
    let instance = prepared.run().unwrap();
    let observer = instance.observer();
    let began = Instant::now();
    while observer.snapshot().channel("rx") < PACKETS {
        assert!(began.elapsed() < Duration::from_secs(120), "all packets come in");
        std::thread::sleep(Duration::from_millis(20));
    }
    instance.stop();
    let busy = tables.table::<u32, u64>("stress.sums").unwrap().get(&1).unwrap();
    let worked = tables.table::<u32, u64>("stress.sums").unwrap().get(&0).unwrap();
    assert_eq!(worked + busy, PACKETS, "each is counted once");
    println!("{worked} have had the lock, {busy} have found it held");
    assert!(worked > 1000);
}
