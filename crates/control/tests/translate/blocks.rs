//! What connections share: blocks for segments under way, and pages for documents.

use baker::ir::{TableEntry, TableId, TableStore};
use dataplane::EngineKind;

use crate::client::Options;
use crate::world::{Scene, World};
use crate::{ends, program, quiet, read};

/// Words of 64 numbers, of `segment_blocks` and `document_pages`.
const BLOCK_WORDS: u32 = 40960 / 64;
const PAGE_WORDS: u32 = 4096 / 64;

fn table(name: &str) -> TableId {
    let at = program().tables.iter().position(|table| table.name == name).expect("a table");
    TableId(at as u32)
}

/// Numbers that are taken.
pub fn taken(world: &World, pool: &str) -> u32 {
    let entries = world.stepper.dump(table(&format!("{pool}.words")));
    entries.iter().map(|entry| entry.value[0].count_ones()).sum()
}

/// Takes all, or gives all back.
fn set_all(world: &mut World, pool: &str, words: u32, value: u64) {
    for word in 0..words {
        let entry = TableEntry { key: vec![word.into()], prefix_len: None, value: vec![value.into()] };
        world.stepper.insert(table(&format!("{pool}.words")), &entry).expect("a word");
    }
}

/// Without a block nothing is sent, and nothing is lost. It goes on as soon as there is one.
#[test]
fn a_connection_waits_for_a_block() {
    for engine in [EngineKind::NATIVE, EngineKind::Interp] {
        let mut world = World::new(&program(), Scene { engine, ..quiet() });
        world.connect();
        world.run(300);
        assert!((1..=2).contains(&taken(&world, "segment_blocks")), "{}", taken(&world, "segment_blocks"));
        // What it gives back others take.
        let without = |world: &mut World, ms: u64| {
            for _ in 0..ms * 2 {
                set_all(world, "segment_blocks", BLOCK_WORDS, u64::MAX);
                world.step();
            }
        };
        without(&mut world, 200);
        let (sent, frames) = (world.watch.first.len(), world.sent);
        without(&mut world, 200);
        assert_eq!((world.watch.first.len(), world.sent), (sent, frames));
        set_all(&mut world, "segment_blocks", BLOCK_WORDS, 0);
        world.run(500);
        world.running = false;
        world.run(1000);
        let read = read(&world.client.data);
        assert!(read.packets > 200 && (read.missing, read.nulls) == (0, 0), "{read:?}");
        assert_eq!((taken(&world, "segment_blocks"), taken(&world, "document_pages")), (0, 0));
    }
}

/// A document would not come again, so its connection ends.
#[test]
fn a_document_without_a_page_ends_its_connection() {
    let mut world = World::new(&program(), quiet());
    set_all(&mut world, "document_pages", PAGE_WORDS, u64::MAX);
    world.connect();
    world.run(100);
    assert!(world.client.reset && world.client.data.is_empty());
    assert_eq!(ends(&world), [4]);
}

/// As many packets of documents may wait as there are places, also where the first of them are not the first of a page.
#[test]
fn all_places_of_documents_are_of_use() {
    // They are not all sent at once.
    let client = Options { buffer: 1200, ..quiet().client };
    for before in 0..9 {
        let mut world = World::new(&program(), Scene { client: client.clone(), ..quiet() });
        let bytes = |number: usize| vec![number as u8; 200 + number];
        world.documents = (0..=before).map(|number| (bytes(number), 0)).collect();
        world.watch.document = usize::MAX;
        world.connect();
        world.run(200);
        let mut all: Vec<u8> = (0..=before).flat_map(bytes).collect();
        assert_eq!(world.client.data, all);
        for round in 0..3 {
            let first = before + 1 + round * 16;
            for number in first..first + 16 {
                world.document(number, &bytes(number), 0);
                all.extend(bytes(number));
            }
            world.run(1000);
        }
        assert!(!world.client.reset && ends(&world).is_empty(), "{before}: {:?}", ends(&world));
        assert_eq!(world.client.data, all, "{before}");
        assert_eq!(taken(&world, "document_pages"), 0);
    }
}

/// Packets that were left out take no room, however many they are.
#[test]
fn segments_behind_a_gap_are_noted_as_others() {
    for (period, silent) in [(1, 300), (1, 1500), (1, 30_000), (1, 90_000)] {
        let mut world = World::new(&program(), Scene { period, rate_bytes: 2_000_000, ..quiet() });
        world.connect();
        world.run(300);
        // The last segments get lost, and while they are under way the stream goes on.
        world.scene.loss = 1000;
        world.run(silent.min(2000));
        for _ in 2000..silent.max(2000) {
            world.skip_source();
        }
        world.scene.loss = 0;
        world.run(3000);
        world.running = false;
        world.run(3000);
        assert!(!world.client.reset, "{silent}");
        let numbers = world.watch.check_stream();
        world.watch.check_read(&world.client.data, world.client.took_part);
        assert!(numbers.last().is_some_and(|last| *last + 100 > world.source), "{silent}: {:?}", numbers.last());
        assert_eq!((taken(&world, "segment_blocks"), taken(&world, "document_pages")), (0, 0));
    }
}
