//! Operations with so many segments in the catalogue.

use std::thread;
use std::time::{Duration, Instant};

use media_cache::{Arrival, Cache, Durability, Settings};

use super::{Directory, packet, source};
use crate::results::Results;
use crate::{Effort, text};

/// Segments of a recording at most.
const SEGMENTS: u64 = 100;
const COUNTS: [u64; 3] = [10, 1000, 100_000];
const SMOKE: [u64; 2] = [10, 200];
/// Operations that are timed together, and in a smoke run.
const OPERATIONS: u32 = 200;
const FEW: u32 = 5;
/// From one packet to the next, in microseconds: each is a segment of its own.
const APART: u64 = 2_500_000;

fn settings() -> Settings {
    let (block, sync) = (64 << 10, Durability::Never);
    Settings { block, sync, direct: false, free_space: 0, segment_seconds: 1, linger_ms: 10, ..Settings::default() }
}

/// Records a stream with segments of a packet each.
fn fill(cache: &Cache, key: &str, segments: u64, most: usize) -> Result<(), String> {
    let mut recorder = cache.record(source(key));
    for number in 0..segments {
        let at = number * APART;
        recorder.put(Arrival { monotonic: at, clock: at }, &packet(number)).map_err(text)?;
        // Of a recording 64 blocks may wait for the disk, of 128 that there are.
        while cache.status().free_blocks < most * 3 / 4 {
            thread::sleep(Duration::from_micros(100));
        }
    }
    recorder.finish();
    while cache.status().recordings > 0 {
        thread::sleep(Duration::from_micros(100));
    }
    Ok(())
}

/// Microseconds of an operation, of many.
fn time(count: u32, mut operation: impl FnMut(u32) -> Result<(), String>) -> Result<f64, String> {
    let start = Instant::now();
    (0..count).try_for_each(&mut operation)?;
    Ok(start.elapsed().as_secs_f64() * 1e6 / f64::from(count))
}

/// All of it.
pub fn measure(effort: Effort, results: &mut Results) -> Result<(), String> {
    let (counts, operations) = if effort.quick { (&SMOKE[..], FEW) } else { (&COUNTS[..], OPERATIONS) };
    for count in counts {
        let directory = Directory::new("entries")?;
        let buffers = settings().buffers;
        let cache = Cache::open(directory.path(), settings()).map_err(text)?;
        let recordings = count.div_ceil(SEGMENTS);
        for number in 0..recordings {
            fill(&cache, &format!("stream-{number}"), (*count).min(SEGMENTS), buffers)?;
        }
        let mut times: [Vec<f64>; 5] = Default::default();
        let mut cache = cache;
        for run in 0..effort.runs {
            drop(cache);
            let start = Instant::now();
            cache = Cache::open(directory.path(), settings()).map_err(text)?;
            times[0].push(start.elapsed().as_secs_f64() * 1e6);
            // Spread over all that there is, in no order.
            let any = |at: u32| (u64::from(at) * 7919 + run as u64 * 31) % recordings;
            let found = |at: u32| {
                let own = cache.summaries_of(&format!("stream-{}", any(at)), 0, 0, 2).map_err(text)?;
                own.last().map(|own| own.recording.id).ok_or_else(|| "it is not found".to_owned())
            };
            times[1].push(time(operations, |at| found(at).map(drop))?);
            times[2].push(time(operations, |at| {
                let opened = cache.open_segment(found(at)?, at % 10).map_err(text)?;
                opened.map(drop).ok_or_else(|| "there is no such segment".to_owned())
            })?);
            times[3].push(time(operations, |at| {
                let mut reader = cache.read(found(at)?).map_err(text)?;
                reader.seek_npt(u64::from(at % 10) * APART).map_err(text)?;
                reader.next_item().map(drop).map_err(text)
            })?);
            times[4].push(time(operations.min(20), |at| fill(&cache, &format!("new-{run}-{at}"), 2, buffers))?);
        }
        let case = format!("{count} entries");
        let names = ["open", "find", "find_and_open_segment", "find_and_seek", "record_two_segments"];
        for (name, times) in names.iter().zip(times) {
            results.add(&case, "millrace", name, "us", times);
        }
    }
    Ok(())
}
