//! A stream and other flows at one bottleneck, and a bottleneck whose rate changes.

use std::io::{Read, Write};
use std::net::{SocketAddrV4, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use lab::{Impairments, QueueLimit};
use nix::sys::socket::{setsockopt, sockopt};

use super::client::{self, BIN};
use super::millrace::Start;
use super::sites::{SERVER, Site, Sites};
use super::systems::{Line, System};
use super::throughput::allowed;
use super::{chosen, is_chosen_case};
use crate::results::Results;
use crate::{Effort, text};

/// Flows beside the stream.
const FLOWS: [usize; 3] = [1, 4, 16];
/// bit/s of frames that each of them and the stream has, if all have the same.
const SHARE: u64 = 1_000_000;
/// bit/s of the stream, which is more.
const RATE: u64 = 4_000_000;
const ROUND_TRIP: Duration = Duration::from_millis(100);
/// Where the flows come from.
const BULK: SocketAddrV4 = SocketAddrV4::new(SERVER, 81);
/// Until flows have found what they get.
const BEFORE: Duration = Duration::from_secs(10);
/// bit/s of the step: before and after, and between.
const STEP: [u64; 2] = [6_000_000, 2_000_000];
const SYSTEMS: [(&str, System); 2] = [("millrace", System::Millrace), ("cubic", System::EndToEnd("cubic"))];
/// Of the flows.
const CONTROL: &str = "cubic";

/// A bottleneck with room for a round trip's worth of bytes.
fn bottleneck(rate: u64) -> Impairments {
    let bytes = rate as f64 / 8.0 * ROUND_TRIP.as_secs_f64();
    let queue = QueueLimit { packets: 1000, bytes: bytes as u64 };
    Impairments { rate: Some(rate), queue, delay: ROUND_TRIP / 2, ..Impairments::default() }
}

/// Both, all cases at one time.
pub fn measure(effort: Effort, results: &mut Results) -> Result<(), String> {
    let mut cases = Vec::new();
    for (name, system) in SYSTEMS.into_iter().filter(|(name, _)| chosen("SYSTEM", name)) {
        cases.extend(FLOWS.map(|flows| (name, system, flows)));
        cases.push((name, system, 0));
    }
    cases.retain(|case| is_chosen_case(&title(case.2)));
    let sites = Sites::new(cases.len())?;
    let mut lines = Vec::new();
    for ((_, system, flows), (number, site)) in cases.iter().zip(sites.sites.iter().enumerate()) {
        let rate = if *flows == 0 { STEP[0] } else { SHARE * (*flows as u64 + 1) };
        sites.set_way(number, &bottleneck(rate), ROUND_TRIP / 2)?;
        lines.push(Line::start(site, *system, RATE, Start { frames: 98_304, ..Start::default() })?);
    }
    lines.iter_mut().try_for_each(Line::wait)?;
    let window = Duration::from_secs(if effort.quick { 5 } else { 60 });
    let found: Vec<_> = std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for (number, ((_, system, flows), line)) in cases.iter().zip(&lines).enumerate() {
            let (sites, system, flows, line) = (&sites, *system, *flows, line.millrace());
            threads.push(scope.spawn(move || match flows {
                0 => step(sites, number, system, window / 3),
                _ => share(sites, number, system, flows, window, line),
            }));
        }
        threads.into_iter().map(|own| own.join().unwrap_or_else(|_| Err("a thread has panicked".into()))).collect()
    });
    for ((name, _, flows), rows) in cases.iter().zip(found) {
        for (metric, unit, value) in rows.map_err(|error| format!("{}: {name}: {error}", title(*flows)))? {
            results.add(&title(*flows), name, metric, unit, vec![value]);
        }
    }
    lines.into_iter().try_for_each(Line::end)
}

fn title(flows: usize) -> String {
    match flows {
        0 => "6, 2 and 6 Mbit/s".into(),
        1 => "beside 1 flow".into(),
        _ => format!("beside {flows} flows"),
    }
}

type Rows = Vec<(&'static str, &'static str, f64)>;

/// A stream beside flows.
fn share(
    sites: &Sites,
    number: usize,
    system: System,
    flows: usize,
    window: Duration,
    millrace: Option<&super::millrace::Millrace>,
) -> Result<Rows, String> {
    let site = &sites.sites[number];
    let bulk = Bulk::start(site, flows)?;
    let (from, path) = system.place();
    let middle = BEFORE + window / 2;
    let (stream, others, lost, round_trip) = std::thread::scope(|scope| {
        let stream = scope.spawn(|| site.viewers.enter(|| client::read(from, &path, BEFORE, window)).map_err(text)?);
        std::thread::sleep(BEFORE);
        let (before, passed) = (bulk.read.load(Ordering::Relaxed), sites.passed(number));
        std::thread::sleep(middle - BEFORE);
        let asked = millrace.map(|own| own.ask(&["translate", "sessions"])).transpose()?;
        std::thread::sleep(window - (middle - BEFORE));
        let others = bulk.read.load(Ordering::Relaxed) - before;
        let now = sites.passed(number);
        let lost = (now.queue_full - passed.queue_full) as f64 / (now.received - passed.received).max(1) as f64;
        let stream = stream.join().map_err(|_| "a reader has panicked")??;
        let round_trip = asked.and_then(|all| all[0]["round_trip_ms"].as_f64());
        Ok::<_, String>((stream, others, lost, round_trip))
    })?;
    bulk.end();
    let own = stream.read.iter().sum::<u64>() as f64;
    let fair = (own + others as f64) / (flows as f64 + 1.0);
    let mbit = |bytes: f64| bytes * 8.0 / window.as_secs_f64() / 1e6;
    let mut rows = vec![
        ("share", "of what each had if all had the same", own / fair),
        ("mbit_per_s", "10^6 bit/s of payload", mbit(own)),
        ("flow_mbit_per_s", "10^6 bit/s of payload of each flow", mbit(others as f64 / flows as f64)),
        ("lost", "% of the packets at the bottleneck", lost * 100.0),
    ];
    if let Some(ms) = round_trip {
        rows.push(("round_trip_ms", "ms, of the connection", ms));
        rows.push(("of_equation", "of RFC 5348's equation, by these", mbit(own) / allowed(lost, ms / 1e3)));
    }
    Ok(rows)
}

/// Flows of the servers to clients of theirs.
struct Bulk {
    stop: Arc<AtomicBool>,
    read: Arc<AtomicU64>,
}

impl Bulk {
    fn start(site: &Site, flows: usize) -> Result<Bulk, String> {
        let own = Bulk { stop: Arc::default(), read: Arc::default() };
        let listener = site.servers.enter(|| TcpListener::bind(BULK)).map_err(text)?.map_err(text)?;
        std::thread::spawn(move || {
            for client in listener.incoming().take(flows).flatten() {
                std::thread::spawn(move || {
                    let set = setsockopt(&client, sockopt::TcpCongestion, &CONTROL.to_owned().into());
                    let (mut client, block) = (client, vec![0xff; 65536]);
                    // It ends when the client goes.
                    while set.is_ok() && client.write_all(&block).is_ok() {}
                });
            }
        });
        for _ in 0..flows {
            let mut stream = site.viewers.enter(|| TcpStream::connect(BULK)).map_err(text)?.map_err(text)?;
            let (stop, read) = (own.stop.clone(), own.read.clone());
            std::thread::spawn(move || {
                let mut buffer = vec![0; 65536];
                while let (false, Ok(count @ 1..)) = (stop.load(Ordering::Relaxed), stream.read(&mut buffer)) {
                    read.fetch_add(count as u64, Ordering::Relaxed);
                }
            });
            // They do not begin as one.
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(own)
    }

    fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// What comes to the bottleneck, when its rate falls and when it rises again.
fn step(sites: &Sites, number: usize, system: System, each: Duration) -> Result<Rows, String> {
    let site = &sites.sites[number];
    let (from, path) = system.place();
    let bins = (each.as_millis() / BIN.as_millis()) as usize;
    let series = std::thread::scope(|scope| {
        let reader =
            scope.spawn(|| site.viewers.enter(|| client::read(from, &path, BEFORE, 3 * each)).map_err(text)?);
        std::thread::sleep(BEFORE);
        let (begin, mut all) = (Instant::now(), Vec::new());
        let mut before = sites.passed(number).received_bytes;
        for bin in 0..3 * bins {
            if bin == bins || bin == 2 * bins {
                sites.set_way(number, &bottleneck(STEP[if bin == bins { 1 } else { 0 }]), ROUND_TRIP / 2)?;
            }
            std::thread::sleep((begin + BIN * (bin as u32 + 1)).saturating_duration_since(Instant::now()));
            let now = sites.passed(number).received_bytes;
            all.push((now - before) as f64 * 8.0 / BIN.as_secs_f64() / 1e6);
            before = now;
        }
        reader.join().map_err(|_| "a reader has panicked")??;
        Ok::<_, String>(all)
    })?;
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len().max(1) as f64;
    let half = bins / 2;
    let until = |values: &[f64], near: &dyn Fn(f64) -> bool| {
        // Of half a second.
        let at = values.windows(5).position(|own| near(mean(own)));
        at.map_or(each.as_secs_f64(), |at| (at + 5) as f64 * BIN.as_secs_f64())
    };
    let narrow = STEP[1] as f64 / 1e6;
    let usual = mean(&series[half..bins]);
    Ok(vec![
        ("mbit_before", "10^6 bit/s of frames that come to the bottleneck", usual),
        ("mbit_between", "the same, in the second half of the time", mean(&series[bins + half..2 * bins])),
        ("mbit_after", "the same, in the second half of the time", mean(&series[2 * bins + half..])),
        (
            "seconds_down",
            "until half a second is within 20 % of 2 Mbit/s",
            until(&series[bins..2 * bins], &|mbit| (mbit - narrow).abs() <= 0.2 * narrow),
        ),
        (
            "seconds_up",
            "until half a second is within 20 % of what was before",
            until(&series[2 * bins..], &|mbit| mbit >= 0.8 * usual),
        ),
    ])
}
