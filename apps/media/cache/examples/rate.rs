//! What recording a stream of 1 Gbit/s costs, against one write for each packet: `rate DIRECTORY [SECONDS] [SYNC]`.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use media_cache::{Arrival, Cache, Durability, Kind, Settings, Source};
use nix::sys::resource::{UsageWho, getrusage};

const PAYLOAD: usize = 1316;
/// Packets in a second at 1 Gbit/s.
const RATE: u64 = 1_000_000_000 / 8 / PAYLOAD as u64;

/// CPU time of the process, in milliseconds.
fn cpu() -> f64 {
    let usage = getrusage(UsageWho::RUSAGE_SELF).expect("usage");
    let sum = |time: nix::sys::time::TimeVal| time.tv_sec() as f64 * 1e3 + time.tv_usec() as f64 / 1e3;
    sum(usage.user_time()) + sum(usage.system_time())
}

fn packet(number: u64) -> Vec<u8> {
    let mut bytes = vec![0x80, 33];
    bytes.extend((number as u16).to_be_bytes());
    bytes.extend((number as u32).to_be_bytes());
    bytes.extend([0, 0, 0, 1]);
    for _ in 0..7 {
        bytes.extend([0x47, 1, 0, 0x10]);
        bytes.extend([number as u8; 184]);
    }
    bytes
}

/// Hands on packets at the rate, as they come in batches of a millisecond; how many were taken.
fn paced(seconds: u64, mut put: impl FnMut(u64) -> bool) -> u64 {
    let begin = Instant::now();
    for number in 0..seconds * RATE {
        if number.is_multiple_of(RATE / 1000) {
            let due = Duration::from_micros(number * 1_000_000 / RATE);
            std::thread::sleep(due.saturating_sub(begin.elapsed()));
        }
        if !put(number) {
            return number;
        }
    }
    seconds * RATE
}

fn main() {
    let all: Vec<String> = std::env::args().collect();
    let directory = Path::new(all.get(1).expect("a directory"));
    let seconds = all.get(2).map_or(5, |own| own.parse().expect("seconds"));
    let sync = match all.get(3).map(String::as_str) {
        None | Some("block") => Durability::Block,
        Some("segment") => Durability::Segment,
        _ => Durability::Never,
    };
    let template = packet(7);
    let stamp = |bytes: &mut Vec<u8>, number: u64| bytes[2..4].copy_from_slice(&(number as u16).to_be_bytes());
    let own = directory.join("rate-cache");
    let cache = Cache::open(&own, Settings { sync, free_space: 0, ..Settings::default() }).expect("a cache");
    let source = Source {
        key: "rate".to_owned(),
        track: 0,
        kind: Kind::Mp2t,
        encoding: "MP2T".to_owned(),
        clock_rate: 90_000,
        format: String::new(),
        film: None,
        sdp: String::new(),
    };
    let (mut recorder, mut bytes, before) = (cache.record(source), template.clone(), cpu());
    let count = paced(seconds, |number| {
        stamp(&mut bytes, number);
        let now = number * 1_000_000 / RATE;
        recorder.put(Arrival { monotonic: now, clock: now }, &bytes).inspect_err(|ended| println!("{ended}")).is_ok()
    });
    recorder.finish();
    while cache.status().recordings > 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    let (mib, used, status) = ((count * PAYLOAD as u64) as f64 / f64::from(1 << 20), cpu() - before, cache.status());
    let row = |name: &str, writes: f64, wakes: f64, cpu: f64| {
        println!(
            "{name}: writes_per_mib {:.2}, wakeups_per_mib {:.2}, cpu_ms_per_mib {:.3}",
            writes / mib,
            wakes / mib,
            cpu / mib
        );
    };
    println!("{mib:.0} MiB, {status:?}");
    row("millrace", status.writes as f64, status.wake_ups as f64, used);
    // One write for each packet, by a thread that is woken for each.
    let path = directory.join("rate-plain");
    let mut file = File::create(&path).expect("a file");
    let (sender, packets) = std::sync::mpsc::sync_channel::<Vec<u8>>(1024);
    let before = cpu();
    let writer =
        std::thread::spawn(move || packets.iter().for_each(|own| file.write_all(&own[12..]).expect("written")));
    paced(seconds, |_| sender.send(template.clone()).is_ok());
    drop(sender);
    writer.join().expect("the writer");
    row("write per packet", (seconds * RATE) as f64, (seconds * RATE) as f64, cpu() - before);
    drop(cache);
    let _ = (fs::remove_file(path), fs::remove_dir_all(own));
}
