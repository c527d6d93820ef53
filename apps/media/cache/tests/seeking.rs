//! Places in a recording, against a search through all packets.

mod support;

use media_cache::{Cache, Item, Kind, Reader};
use support::*;

struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % end
    }
}

/// The number of the packet that comes next, and which is before.
fn next(reader: &mut Reader) -> Option<u64> {
    match reader.next_item().unwrap() {
        Item::Packet(packet) => Some(packet.about.sequence),
        Item::End(_) | Item::Pending => None,
        Item::Gap(..) => panic!("a gap right behind a seek"),
    }
}

#[test]
fn ten_thousand_seeks() {
    for kind in [Kind::Mp2t, Kind::Rtp] {
        let directory = Directory::new();
        let cache = Cache::open(&directory.0, settings()).unwrap();
        let mut random = Random(7);
        let mut recorder = cache.record(source(kind));
        let id = recorder.recording().id;
        // Numbers and times of the packets as they were put in, in order: some are lost, some come late.
        let mut all: Vec<(u64, u64)> = Vec::new();
        let mut held: Option<u64> = None;
        for number in 1000..4000 {
            if number > 1000 && random.below(20) == 0 {
                continue;
            }
            if number > 1000 && held.is_none() && random.below(20) == 0 {
                held = Some(number);
                continue;
            }
            until("the disk is slow", || cache.status().free_blocks > 16);
            recorder.put(arrival(number), &packet(kind, number)).unwrap();
            all.push((number, number));
            if let Some(late) = held.take() {
                recorder.put(arrival(number), &packet(kind, late)).unwrap();
                all.push((late, number));
            }
        }
        recorder.finish();
        settle(&cache);
        all.sort_unstable();
        let npt = |time: u64| 1000 * (time - 1000);
        let mut reader = cache.read(id).unwrap();
        assert!(reader.all_segments().len() > 3);
        for round in 0..5000 {
            let time = random.below(3_100_000);
            let expected = match random.below(4) {
                0 => {
                    reader.seek_npt(time).unwrap();
                    all.iter().find(|(_, came)| npt(*came) >= time)
                }
                1 => {
                    reader.seek_clock(arrival(1000).clock + time).unwrap();
                    all.iter().find(|(_, came)| npt(*came) >= time)
                }
                2 => {
                    let number = 900 + random.below(3300);
                    reader.seek_sequence(number).unwrap();
                    all.iter().find(|(own, _)| *own >= number)
                }
                _ => {
                    let end = all.iter().position(|(_, came)| npt(*came) > time).unwrap_or(all.len());
                    let own = all[..end].iter().rev().find(|(own, _)| is_access_point(*own));
                    assert_eq!(reader.seek_access_point(time).unwrap(), own.is_some(), "{round}");
                    Some(own.unwrap_or(&all[0]))
                }
            };
            assert_eq!(next(&mut reader), expected.map(|(number, _)| *number), "{kind:?} {round} {time}");
            // Now and then all key frames from here on.
            if round % 500 == 0 {
                let from = expected.map_or(u64::MAX, |(number, _)| *number + 1);
                let mut found = Vec::new();
                while reader.skip_to_access_point().unwrap() {
                    found.extend(next(&mut reader));
                }
                let own = all.iter().map(|(number, _)| *number).filter(|own| *own >= from && is_access_point(*own));
                assert_eq!(found, own.collect::<Vec<_>>());
            }
        }
    }
}
