//! apps/translate between models of a source and of a TCP client: every byte that the client reads is what the source
//! has sent at that place, or a null packet, without a hole and without a repetition.

mod client;
#[path = "../../../../tests/support/compile.rs"]
mod common;
mod world;

use std::path::Path;
use std::sync::{Arc, OnceLock};

use baker::ir::Program;
use client::{ACK, FIN, Options, RST};
use dataplane::EngineKind;
use world::{HEAD, MS, Scene, World, payload};

fn program() -> Arc<Program> {
    static PROGRAM: OnceLock<Arc<Program>> = OnceLock::new();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../apps/translate/translate.baker");
    PROGRAM.get_or_init(|| common::compile(Path::new(path))).clone()
}

fn quiet() -> Scene {
    Scene {
        client: Options { sack: true, scale: Some(7), buffer: 1 << 20, first: 1000, reneges: 0 },
        delay: 10,
        loss: 0,
        reordered: 0,
        duplicated: 0,
        source_loss: 0,
        source_reordered: 0,
        fill: 0,
        rate: 2,
        period: 5,
        seed: 1,
        engine: EngineKind::NATIVE,
        reads: 1 << 20,
    }
}

/// Packets of the source that the client has, and null ones in their place.
#[derive(Debug, Default, PartialEq)]
struct Read {
    first: u32,
    packets: u32,
    nulls: u32,
    missing: u32,
}

/// What a client has read, checked.
fn read(data: &[u8]) -> Read {
    let body = data.strip_prefix(HEAD).expect("the head comes first");
    let mut read = Read::default();
    let mut last = None;
    for bytes in body.chunks(1316).filter(|bytes| bytes.len() == 1316) {
        if bytes.chunks(188).all(|ts| ts[..4] == [0x47, 0x1f, 0xff, 0x10] && ts[4..].iter().all(|byte| *byte == 0)) {
            read.nulls += 1;
            // One is in the place of a packet.
            last = last.map(|last: u32| last + 1);
            continue;
        }
        let number = u32::from_be_bytes(bytes[5..9].try_into().unwrap());
        assert_eq!(bytes, payload(number), "packet {number} is as the source has sent it");
        match last {
            None => read.first = number,
            Some(last) => {
                assert!(number > last, "{number} comes after {last}");
                read.missing += number - last - 1;
            }
        }
        (read.packets, last) = (read.packets + 1, Some(number));
    }
    read
}

#[test]
fn a_stream_without_loss_is_whole() {
    for engine in [EngineKind::Interp, EngineKind::NATIVE] {
        let mut world = World::new(&program(), Scene { engine, ..quiet() });
        world.run(100);
        world.connect();
        world.run(1000);
        let read = read(&world.client.data);
        assert!(read.packets > 190, "{read:?}");
        assert_eq!((read.missing, read.nulls, world.client.duplicates), (0, 0, 0), "{read:?}");
    }
}
