//! Many streams that are recorded while many viewers are served by HTTP: sources and viewers on one CPU, the proxy on
//! the other.

use std::net::{Shutdown, UdpSocket};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::client::{Client, segments};
use super::{Directory, files, packet};
use crate::media::network::{ENDS_CPU, Network};
use crate::media::systems::Millrace;
use crate::results::Results;
use crate::stream::stay;
use crate::{Effort, text};

const STREAMS: usize = 40;
const VIEWERS: usize = 400;
/// bit/s of a stream, and of what a viewer takes.
const RATE: u64 = 25_000_000;
const PAYLOAD: u64 = 1316;
const MILLRACE: &str = "10.0.1.1:8080";
/// Before viewers come, so that there is something whole.
const BEFORE: Duration = Duration::from_secs(8);
const WINDOW: [Duration; 2] = [Duration::from_secs(20), Duration::from_secs(3)];

/// One run without viewers, and one with them.
pub fn measure(effort: Effort, results: &mut Results) -> Result<(), String> {
    let window = WINDOW[usize::from(effort.quick)];
    for viewers in [0, VIEWERS] {
        let case = format!("{STREAMS} streams of 25 Mbit/s recorded, {viewers} viewers");
        one(viewers, window, |metric, unit, value| results.add(&case, "millrace", metric, unit, vec![value]))?;
    }
    Ok(())
}

fn one(viewers: usize, window: Duration, mut add: impl FnMut(&str, &str, f64)) -> Result<(), String> {
    let network = Network::new()?;
    let directory = Directory::new("many")?;
    let path = std::path::absolute(directory.path()).map_err(text)?;
    let mut more = format!(
        "\n[controllers.media.cache]\ndirectory = \"{}\"\nfree = \"0 B\"\nsegment = \"1s\"\n\n\
         [controllers.media.http]\nlisten = \"{MILLRACE}\"\nconnections = {}\n",
        path.display(),
        VIEWERS + 10
    );
    for number in 0..STREAMS {
        more += &format!(
            "\n[controllers.media.streams.s{number}]\nurl = \"rtp://10.0.2.1:{}\"\npayload = \"mp2t\"\nrecord = \"always\"\n",
            port(number)
        );
    }
    let millrace = Millrace::start(&network, false, &more)?;
    let (stop, sent) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        let source = network.servers.enter(|| scope.spawn(|| send(&stop, &sent))).map_err(text)?;
        let result = watch(&network, viewers, window, &sent, &path, &mut add);
        stop.store(true, Ordering::Relaxed);
        source.join().map_err(|_| "the source has panicked")??;
        result
    })?;
    // Where packets are lost, if they are.
    for (name, metric) in [
        ("broken", "media_recordings_broken_total"),
        ("tapped", "media_packets_tapped_total"),
        ("lost_before", "media_recorded_lost_total"),
    ] {
        add(name, "since the start", millrace.metric(&network, metric)? as f64);
    }
    add("memory", "bytes of the process", millrace.memory()?);
    millrace.end()
}

/// The port that a stream comes to.
fn port(number: usize) -> u16 {
    5004 + 2 * number as u16
}

/// Packets of all streams at even times.
fn send(stop: &AtomicBool, sent: &AtomicU64) -> Result<(), String> {
    stay(ENDS_CPU, false)?;
    // Hundreds of viewers have the same CPU, and a source that has no turn sends nothing.
    let own = nix::unistd::gettid().to_string();
    let first = std::process::Command::new("chrt").args(["--fifo", "--pid", "1", &own]).status().map_err(text)?;
    if !first.success() {
        return Err("the source can't be given a real-time priority".into());
    }
    let socket = UdpSocket::bind("10.0.2.11:5004").map_err(text)?;
    let (begin, mut bytes) = (Instant::now(), packet(7));
    let mut number = 0u64;
    while !stop.load(Ordering::Relaxed) {
        let due = Duration::from_nanos(number * PAYLOAD * 8 * 1_000_000_000 / RATE);
        thread::sleep(due.saturating_sub(begin.elapsed()));
        bytes[2..4].copy_from_slice(&(number as u16).to_be_bytes());
        for stream in 0..STREAMS {
            // Where nobody listens yet the kernel says so: that is no end of the stream.
            let _ = socket.send_to(&bytes, ("10.0.2.1", port(stream)));
        }
        number += 1;
        sent.store(number * STREAMS as u64, Ordering::Relaxed);
    }
    Ok(())
}

/// Viewers that take a segment each time that its bytes are due.
fn watch(
    network: &Network,
    viewers: usize,
    window: Duration,
    sent: &AtomicU64,
    path: &std::path::Path,
    add: &mut impl FnMut(&str, &str, f64),
) -> Result<(), String> {
    thread::sleep(BEFORE);
    let known = |number: usize| segments(MILLRACE, &format!("s{number}"));
    let streams = || (0..STREAMS).map(known).collect::<Result<Vec<_>, _>>();
    let streams = network.viewers.enter(streams).map_err(text)??;
    let (packets, bytes, start) = (sent.load(Ordering::Relaxed), files::recorded(path), Instant::now());
    let connections = Mutex::new(Vec::new());
    let viewer = |number: usize| {
        stay(ENDS_CPU, false)?;
        let (mut client, mut body, mut taken) = (Client::new(MILLRACE)?, Vec::new(), 0u64);
        connections.lock().map_err(text)?.push(client.connection()?);
        for (uri, expected) in streams[number % STREAMS].iter().cycle() {
            let due = Duration::from_nanos(taken * 8 * 1_000_000_000 / RATE);
            thread::sleep(due.min(window).saturating_sub(start.elapsed()));
            if start.elapsed() >= window {
                break;
            }
            match client.get(uri, &mut body) {
                Ok((200, _)) if body == *expected => {}
                // Where more is asked for than there is CPU time, some connections are slow, and are ended.
                Err(_) if start.elapsed() >= window => break,
                Ok(_) => return Err(format!("{uri} is not as it was before")),
                Err(error) => return Err(error),
            }
            taken += body.len() as u64;
        }
        Ok::<_, String>(taken)
    };
    let serve = || {
        thread::scope(|scope| {
            let viewer = &viewer;
            let all: Vec<_> = (0..viewers).map(|number| scope.spawn(move || viewer(number))).collect();
            thread::sleep(window.saturating_sub(start.elapsed()));
            for own in connections.lock().map_err(text)?.iter() {
                // Who has ended by itself is not connected any more.
                let _ = own.shutdown(Shutdown::Both);
            }
            let join =
                |own: thread::ScopedJoinHandle<'_, _>| own.join().map_err(|_| "a viewer has panicked".to_owned())?;
            all.into_iter().map(join).sum::<Result<u64, String>>()
        })
    };
    let taken = network.viewers.enter(serve).map_err(text)??;
    let seconds = start.elapsed().as_secs_f64();
    let sent = (sent.load(Ordering::Relaxed) - packets) * PAYLOAD;
    let recorded = files::recorded(path) - bytes;
    add("sent", "Gbit/s of payload", sent as f64 * 8.0 / 1e9 / seconds);
    add("recorded", "% of it", recorded as f64 / sent.max(1) as f64 * 100.0);
    add("served", "Gbit/s of bodies", taken as f64 * 8.0 / 1e9 / seconds);
    Ok(())
}
