//! A stream of 1 Gbit/s that comes in batches of a millisecond. What the source itself costs is measured alone, and
//! taken from what the process costs with either system behind it.

use std::fs::File;
use std::io::Write;
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::{Duration, Instant};

use media_cache::{Arrival, Cache, Durability, Settings};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;

use super::{Directory, packet, source};
use crate::results::Results;
use crate::{Effort, text};

const CASE: &str = "record 1 Gbit/s";
const PAYLOAD: u64 = 1316;
/// Packets in a second.
const RATE: u64 = 1_000_000_000 / 8 / PAYLOAD;
/// Packets that wait for the thread that writes each of them.
const QUEUE: usize = 1024;
/// How long each system records, and in a smoke run.
const SECONDS: u64 = 5;
const SMOKE: u64 = 1;

/// What a system has done and cost.
struct Cost {
    writes: f64,
    wakeups: f64,
    /// CPU time of the process in milliseconds.
    cpu: f64,
}

/// CPU time of the process, in milliseconds.
fn cpu() -> Result<f64, String> {
    let usage = getrusage(UsageWho::RUSAGE_SELF).map_err(text)?;
    Ok((usage.user_time() + usage.system_time()).num_microseconds() as f64 / 1e3)
}

/// Hands packets on at the rate.
fn paced(seconds: u64, mut put: impl FnMut(u64, &[u8]) -> Result<(), String>) -> Result<(), String> {
    let (begin, mut bytes) = (Instant::now(), packet(7));
    for number in 0..seconds * RATE {
        if number.is_multiple_of(RATE / 1000) {
            thread::sleep(Duration::from_micros(number * 1_000_000 / RATE).saturating_sub(begin.elapsed()));
        }
        bytes[2..4].copy_from_slice(&(number as u16).to_be_bytes());
        put(number, &bytes)?;
    }
    Ok(())
}

/// The source alone.
fn alone(seconds: u64) -> Result<f64, String> {
    let before = cpu()?;
    paced(seconds, |_, bytes| {
        std::hint::black_box(bytes);
        Ok(())
    })?;
    Ok(cpu()? - before)
}

fn millrace(seconds: u64, sync: Durability) -> Result<Cost, String> {
    let directory = Directory::new("record")?;
    let settings = Settings { sync, free_space: 0, ..Settings::default() };
    let cache = Cache::open(directory.path(), settings).map_err(text)?;
    let before = cpu()?;
    let mut recorder = cache.record(source("record"));
    paced(seconds, |number, bytes| {
        let now = number * 1_000_000 / RATE;
        recorder.put(Arrival { monotonic: now, clock: now }, bytes).map_err(text)
    })?;
    recorder.finish();
    while cache.status().recordings > 0 {
        thread::sleep(Duration::from_millis(1));
    }
    let (cpu, status) = (cpu()? - before, cache.status());
    if status.bytes < seconds * RATE * PAYLOAD {
        return Err(format!("{} bytes are recorded of {}", status.bytes, seconds * RATE * PAYLOAD));
    }
    Ok(Cost { writes: status.writes as f64, wakeups: status.wake_ups as f64, cpu })
}

/// One write for each packet, by a thread that is woken for each.
fn each(seconds: u64) -> Result<Cost, String> {
    let directory = Directory::new("each")?;
    let mut file = File::create(directory.path().join("packets")).map_err(text)?;
    let (sender, packets) = sync_channel::<Vec<u8>>(QUEUE);
    let before = cpu()?;
    let writer = thread::spawn(move || {
        let mut writes = 0u64;
        while let Ok(own) = packets.recv() {
            file.write_all(&own[12..])?;
            writes += 1;
        }
        Ok::<_, std::io::Error>(writes)
    });
    paced(seconds, |_, bytes| sender.send(bytes.to_vec()).map_err(text))?;
    drop(sender);
    let writes = writer.join().map_err(|_| "the writer has failed")?.map_err(text)? as f64;
    // It is asked for each packet, whether it sleeps in between or not.
    Ok(Cost { writes, wakeups: writes, cpu: cpu()? - before })
}

/// All of it.
pub fn measure(effort: Effort, results: &mut Results) -> Result<(), String> {
    let seconds = if effort.quick { SMOKE } else { SECONDS };
    let mib = (seconds * RATE * PAYLOAD) as f64 / f64::from(1 << 20);
    let names = ["millrace", "millrace, sync = never", "write per packet"];
    let mut all: [Vec<Cost>; 3] = Default::default();
    let mut sources = Vec::new();
    for _ in 0..effort.runs {
        sources.push(alone(seconds)?);
        all[0].push(millrace(seconds, Durability::Block)?);
        all[1].push(millrace(seconds, Durability::Never)?);
        all[2].push(each(seconds)?);
    }
    let costs = |own: &Vec<Cost>| -> Vec<f64> {
        own.iter().zip(&sources).map(|(own, source)| (own.cpu - source).max(0.0) / mib).collect()
    };
    for (name, own) in names.iter().zip(&all) {
        let of = |value: fn(&Cost) -> f64| own.iter().map(|own| value(own) / mib).collect();
        results.add(CASE, name, "writes_per_mib", "calls", of(|own| own.writes));
        results.add(CASE, name, "wakeups_per_mib", "of the thread that writes", of(|own| own.wakeups));
        results.add(CASE, name, "cpu_ms_per_mib", "ms, without the source's", costs(own));
    }
    results.add(CASE, "source alone", "cpu_ms_per_mib", "ms", sources.iter().map(|own| own / mib).collect());
    Ok(())
}
