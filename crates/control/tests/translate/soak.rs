//! A day of one connection, in simulated time: sequence numbers, ticks, RTP's numbers and indices wrap around many
//! times, the link fails, the client stands still, the source begins anew. `make soak APP=translate`.

use crate::stream::{number_of, payload_of};
use crate::watch::is_null;
use crate::world::{HEAD, MS, Scene, World};
use crate::{program, quiet};

const SECOND: u64 = 1000;
const HOUR: u64 = 3600 * SECOND;
/// Milliseconds by which a packet may be late that a client reads on a link that works: what it may be behind by, what
/// is sent again until then, and the way.
const MOST_LATE: u64 = 4 * SECOND;

/// What a client has read of a stream, packet by packet.
#[derive(Debug, Default)]
struct Reader {
    /// Bytes that are no whole packet yet.
    rest: Vec<u8>,
    has_head: bool,
    last: Option<u32>,
    packets: u64,
    nulls: u64,
    missing: u64,
}

impl Reader {
    /// Takes what was read, and holds it to what the source has sent.
    fn take(&mut self, data: Vec<u8>) {
        self.rest.extend(data);
        if !self.has_head && self.rest.len() >= HEAD.len() {
            let body = self.rest.split_off(HEAD.len());
            assert_eq!(self.rest, HEAD);
            (self.rest, self.has_head) = (body, true);
        }
        let whole = if self.has_head { self.rest.len() / 1316 * 1316 } else { 0 };
        let rest = self.rest.split_off(whole);
        for packet in std::mem::replace(&mut self.rest, rest).chunks(1316) {
            if is_null(packet) {
                self.nulls += 1;
                continue;
            }
            let number = number_of(packet).0;
            assert_eq!(packet, payload_of(number, 7), "packet {number}");
            assert!(self.last.is_none_or(|last| last < number), "{number} comes after {:?}", self.last);
            self.missing += self.last.map_or(0, |last| u64::from(number - last - 1));
            (self.last, self.packets) = (Some(number), self.packets + 1);
        }
    }
}

/// Time goes by; what the client reads is checked.
fn pass(world: &mut World, reader: &mut Reader, ms: u64) {
    for _ in 0..ms / 100 {
        world.run(100);
        reader.take(std::mem::take(&mut world.client.data));
    }
}

/// All goes well now: within so many milliseconds the client is where it must be.
fn assert_close(world: &mut World, reader: &mut Reader, what: &str) {
    pass(world, reader, 30 * SECOND);
    let ended = world.notices.iter().any(|notice| notice[0] == 3);
    assert!(!world.client.reset && !ended, "{what}: the connection has ended: {:?}", world.notices);
    let behind = u64::from(world.source - reader.last.unwrap_or(0)) * world.scene.period;
    assert!(behind <= MOST_LATE, "{what}: {behind} ms behind");
    world.stepper.check_frames().unwrap();
}

#[test]
#[ignore = "24 simulated hours: make soak APP=translate"]
fn a_day() {
    let hours: u64 = std::env::var("HOURS").ok().and_then(|hours| hours.parse().ok()).unwrap_or(24);
    // A clock of milliseconds, as the ring has it, wraps around within the first hour.
    let start = (u64::from(u32::MAX) - 40 * 60 * SECOND) * MS;
    let scene = Scene { start, period: 10, delay: 25, loss: 3, reordered: 2, source_loss: 1, rate: 0, ..quiet() };
    let mut world = World::new(&program(), scene.clone());
    world.watched = false;
    let mut reader = Reader::default();
    world.run(100);
    world.connect();
    for hour in 0..hours {
        pass(&mut world, &mut reader, HOUR - 8 * 60 * SECOND);
        assert_close(&mut world, &mut reader, "a quiet hour");
        // Nothing passes for a while.
        world.scene.loss = 1000;
        pass(&mut world, &mut reader, 5 * SECOND);
        world.scene.loss = scene.loss;
        pass(&mut world, &mut reader, 60 * SECOND);
        assert_close(&mut world, &mut reader, "behind an outage");
        // The client stands still.
        world.scene.reads = 0;
        pass(&mut world, &mut reader, 40 * SECOND);
        world.scene.reads = scene.reads;
        pass(&mut world, &mut reader, 60 * SECOND);
        assert_close(&mut world, &mut reader, "behind a client that stood still");
        // The source begins anew, and is silent for a while.
        world.restart_source(hour as u16 * 2311, hour % 2 == 0);
        pass(&mut world, &mut reader, 30 * SECOND);
        world.running = false;
        pass(&mut world, &mut reader, 60 * SECOND);
        world.running = true;
        assert_close(&mut world, &mut reader, "behind a source that was silent");
        println!("hour {}: {} of {} packets, {} nulls", hour + 1, reader.packets, world.source, reader.nulls);
    }
    // 0.1 % are lost by the source, an outage and a client that stands still cost up to 45 s of each hour.
    let all = f64::from(world.source);
    assert!(reader.packets as f64 > all * 0.97, "{} of {all}", reader.packets);
    assert!((reader.nulls as f64) < all * 0.001, "{} null packets of {all}", reader.nulls);
    assert_eq!(world.entries("clients.flows"), 1);
    println!("{reader:?}");
}
