//! Pictures of real MPEG-TS, as ffmpeg makes it: which packets a viewer can do without, and where one begins. What
//! pictures there are says ffprobe (`pictures/*.frames`: place of each in the file; K: key, D: no other refers to it).
//! `pictures/make.sh` makes them.

use baker::ir::{TableId, TableStore};
use dataplane::EngineKind;
use dataplane::step::Stepper;

use crate::inputs::{SOURCE, rtp, udp};
use crate::world::{Scene, World};
use crate::{program, quiet};

const TS: usize = 188;
/// Bytes of a datagram's payload.
const DATAGRAM: usize = 7 * TS;
/// Packet identifier of the pictures in all files.
const PICTURES: u16 = 0x100;

/// Marks of `ring.log`.
const DISCARDABLE: u128 = 1;
const ACCESS_POINT: u128 = 2;
const TABLES: u128 = 4;

struct File {
    name: &'static str,
    bytes: &'static [u8],
    /// Where pictures begin, and what they are.
    frames: Vec<(usize, char)>,
}

fn files() -> Vec<File> {
    let frames = |text: &str| {
        let line = |line: &str| {
            let (at, kind) = line.split_once(' ').unwrap();
            (at.parse().unwrap(), kind.chars().next().unwrap())
        };
        text.lines().map(line).collect()
    };
    macro_rules! file {
        ($name:literal) => {
            File {
                name: $name,
                bytes: include_bytes!(concat!("pictures/", $name, ".ts")),
                frames: frames(include_str!(concat!("pictures/", $name, ".frames"))),
            }
        };
    }
    vec![file!("h264"), file!("mpeg2"), file!("h265")]
}

/// A datagram of the source, with a number.
fn datagram(number: u16, payload: &[u8]) -> Vec<u8> {
    udp(SOURCE, &rtp(number, payload))
}

/// What a datagram is, by what ffprobe says.
fn expected(file: &File, at: usize) -> u128 {
    let (mut pictures, mut others, mut marks) = (Vec::new(), 0, 0);
    for at in (at..file.bytes.len().min(at + DATAGRAM)).step_by(TS) {
        let ts = &file.bytes[at..at + TS];
        let id = u16::from_be_bytes([ts[1] & 0x1f, ts[2]]);
        match id {
            PICTURES if ts[3] & 0x10 != 0 => {
                let (begins, kind) = *file.frames.iter().rfind(|own| own.0 <= at).expect("a picture");
                pictures.push(kind);
                if begins == at && kind == 'K' {
                    marks |= ACCESS_POINT;
                }
            }
            0 => marks |= TABLES,
            _ => {}
        }
        others += u32::from(id != PICTURES || ts[3] & 0x10 == 0);
    }
    let discardable = others == 0 && !pictures.is_empty() && pictures.iter().all(|kind| *kind == 'D');
    marks | if discardable { DISCARDABLE } else { 0 }
}

/// The marks of a stream's packets in the ring.
fn marks(stepper: &Stepper) -> Vec<u128> {
    let program = program();
    let at = program.tables.iter().position(|table| table.name == "ring.log").unwrap();
    let id = TableId(at as u32);
    let first = 3 * 2048u128;
    let entry = |index| stepper.get(id, &[first + index], None).unwrap()[2] & 7;
    (0..2048).map(entry).collect()
}

fn world(engine: EngineKind) -> World {
    world_of(Scene { engine, pictures: true, start_ms: 2000, settings: [20, 500, 3000], ..quiet() })
}

fn world_of(scene: Scene) -> World {
    let mut world = World::new(&program(), scene);
    world.running = false;
    world.run(10);
    world
}

#[test]
fn marks_agree_with_ffprobe() {
    for engine in [EngineKind::NATIVE, EngineKind::Interp] {
        for file in files() {
            let mut world = world(engine);
            let starts: Vec<usize> = (0..file.bytes.len()).step_by(DATAGRAM).collect();
            // The second half comes with neighbours changed in places; what there is of H.265 is known by what comes.
            let mut order: Vec<usize> = (0..starts.len()).collect();
            let changed = if file.name == "h265" { starts.len() } else { starts.len() / 2 };
            (changed..starts.len() - 1).step_by(5).for_each(|at| order.swap(at, at + 1));
            for index in order {
                let payload = &file.bytes[starts[index]..file.bytes.len().min(starts[index] + DATAGRAM)];
                assert!(world.stepper.receive(2, &datagram(index as u16, payload)).is_empty());
                world.run(1);
            }
            let found = marks(&world.stepper);
            let wanted: Vec<u128> = starts.iter().map(|at| expected(&file, *at)).collect();
            for (index, (found, wanted)) in found.iter().zip(&wanted).enumerate() {
                assert_eq!(found, wanted, "{} packet {index}", file.name);
            }
            let count = |bit| wanted.iter().filter(|own| *own & bit != 0).count();
            println!("{}: {} packets, {} can be left out", file.name, wanted.len(), count(DISCARDABLE));
            assert!(count(DISCARDABLE) >= 2 && count(ACCESS_POINT) >= 2, "{}", file.name);
        }
    }
}

#[test]
fn what_goes_on_behind_a_loss_is_another_picture() {
    let file = &files()[1];
    let starts: Vec<usize> = (0..file.bytes.len()).step_by(DATAGRAM).collect();
    // Each packet in which a picture begins is lost in turn: what follows must not be taken for a part of the one
    // before.
    let begins = |at: &usize| file.frames.iter().any(|own| (*at..at + DATAGRAM).contains(&own.0));
    for lost in starts.iter().positions_of(begins).into_iter().skip(3).take(30) {
        let mut world = world(EngineKind::NATIVE);
        let mut kept = Vec::new();
        for (index, at) in starts.iter().enumerate().filter(|own| own.0 != lost) {
            let payload = &file.bytes[*at..file.bytes.len().min(at + DATAGRAM)];
            world.stepper.receive(2, &datagram(index as u16, payload));
            world.run(1);
            kept.push(*at);
        }
        world.run(50);
        let found = marks(&world.stepper);
        for (found, at) in found.iter().zip(kept) {
            assert!(found & DISCARDABLE <= expected(file, at) & DISCARDABLE, "{at} behind {lost}");
        }
    }
}

/// Places of what is so.
trait Places {
    fn positions_of(self, is: impl Fn(&usize) -> bool) -> Vec<usize>;
}

impl<'a, I: Iterator<Item = &'a usize>> Places for I {
    fn positions_of(self, is: impl Fn(&usize) -> bool) -> Vec<usize> {
        self.enumerate().filter(|(_, own)| is(own)).map(|(index, _)| index).collect()
    }
}

/// The body that a viewer has got.
fn body(world: &World) -> &[u8] {
    world.client.data.strip_prefix(crate::world::HEAD).unwrap()
}

#[test]
fn a_late_viewer_begins_at_the_last_access_point() {
    for file in files() {
        let mut world = world(EngineKind::NATIVE);
        // The whole file at its pace, but its last tenth comes when the viewer is there.
        let starts: Vec<usize> = (0..file.bytes.len()).step_by(DATAGRAM).collect();
        let late = starts.len() * 9 / 10;
        let send = |world: &mut World, index: usize| {
            let payload = &file.bytes[starts[index]..file.bytes.len().min(starts[index] + DATAGRAM)];
            let frame = datagram(index as u16, payload);
            world.receive_source(&frame);
        };
        for index in 0..late {
            send(&mut world, index);
            world.run(1600 / starts.len() as u64);
        }
        world.connect();
        for index in late..starts.len() {
            send(&mut world, index);
            world.run(1600 / starts.len() as u64);
        }
        world.run(1000);
        let key = file.frames.iter().rfind(|own| own.1 == 'K' && own.0 < starts[late]).unwrap().0;
        let place = key / DATAGRAM;
        let tables = (0..=place).rev().find(|index| expected(&file, starts[*index]) & TABLES != 0).unwrap();
        assert!(place - tables < 3);
        assert_eq!(body(&world), &file.bytes[starts[tables]..], "{}", file.name);
    }
}

#[test]
fn an_access_point_that_is_too_old_is_none() {
    let file = &files()[0];
    let mut world = world(EngineKind::NATIVE);
    let send = |world: &mut World, index: usize| {
        let frame = datagram(index as u16, &file.bytes[index * DATAGRAM..(index + 1) * DATAGRAM]);
        world.receive_source(&frame);
    };
    // The first access point is of the first packets; the last of these comes late.
    for index in 0..9 {
        send(&mut world, index);
        world.run(if index == 7 { 2100 } else { 1 });
    }
    world.connect();
    world.run(300);
    assert_eq!(body(&world), &file.bytes[8 * DATAGRAM..9 * DATAGRAM]);
}

#[test]
fn pictures_that_no_other_refers_to_are_left_out_first() {
    let file = &files()[1];
    // Three quarters of what the stream takes: all of it can't pass.
    let settings = [20, 500, 700];
    let mut world = world_of(Scene { pictures: true, policy: 2, rate: 1, rate_bytes: 26_000, settings, ..quiet() });
    world.connect();
    let starts: Vec<usize> = (0..file.bytes.len()).step_by(DATAGRAM).collect();
    for (index, at) in starts.iter().enumerate() {
        let payload = &file.bytes[*at..file.bytes.len().min(at + DATAGRAM)];
        world.receive_source(&datagram(index as u16, payload));
        world.run(1600 / starts.len() as u64);
    }
    world.run(3000);
    let mut got = body(&world).chunks(DATAGRAM).peekable();
    let mut left_out = Vec::new();
    for at in &starts {
        let own = &file.bytes[*at..file.bytes.len().min(at + DATAGRAM)];
        match got.peek() {
            Some(next) if *next == own => _ = got.next(),
            _ => left_out.push(expected(file, *at)),
        }
    }
    assert!(got.next().is_none(), "in order");
    let needed = left_out.iter().filter(|own| *own & DISCARDABLE == 0).count();
    assert!(needed == 0 && left_out.len() >= 3, "{needed} of {} are needed", left_out.len());
}
