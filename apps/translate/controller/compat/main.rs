//! Streams for other people's HTTP clients: curl, wget, ffmpeg, mpv, VLC and GStreamer, and Linux' TCP with and without
//! its options. `make compat` runs this. Every decoded frame is compared with the same of what was sent; what Chromium
//! plays is counted.
//!
//! Needs root and these programs (`tools/setup compat` installs them), and fails without.

mod browser;
mod clients;

#[allow(dead_code)]
#[path = "../live/network.rs"]
mod network;

#[path = "../../../../tests/support/chromium.rs"]
mod chromium;
#[allow(dead_code)]
#[path = "../../../../tests/support/instance.rs"]
mod instance;
#[allow(dead_code)]
#[path = "../../../../tests/support/process.rs"]
mod process;

use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use clients::{CLIENTS, Client, Sink};
use network::{PATIENCE, PROXIES, Proxy, must};
use process::Scratch;

const PACKET: usize = 1316;
/// Bit/s of the film, with all that a transport stream adds, and its length.
const RATE: u64 = 1_500_000;
const SECONDS: u32 = 4;

/// Sends the film as RTP once it is to begin, and null packets before and after it.
fn send(socket: &UdpSocket, film: &[u8], begins: &AtomicBool, sent: &AtomicBool, ends: &AtomicBool) {
    let mut null = [0xff; PACKET];
    null.chunks_mut(188).for_each(|packet| packet[..4].copy_from_slice(&[0x47, 0x1f, 0xff, 0x10]));
    let pause = Duration::from_nanos(PACKET as u64 * 8 * 1_000_000_000 / RATE);
    let (mut next, mut number, mut packets) = (Instant::now(), 0u32, film.chunks_exact(PACKET));
    while !ends.load(Ordering::Relaxed) {
        next += pause;
        thread::sleep(next.saturating_duration_since(Instant::now()));
        let payload = if begins.load(Ordering::Relaxed) { packets.next() } else { Some(&null[..]) };
        if payload.is_none() {
            sent.store(true, Ordering::Relaxed);
        }
        let mut packet = vec![0x80, 33];
        packet.extend((number as u16).to_be_bytes());
        packet.extend(number.wrapping_mul(900).to_be_bytes());
        packet.extend([0, 0, 0, 7]);
        packet.extend(payload.unwrap_or(&null));
        // Where nobody listens yet the kernel says so.
        let _ = socket.send_to(&packet, "239.1.2.3:5004");
        number = number.wrapping_add(1);
    }
}

/// Has clients see a film, all at once; `prepare` makes the viewers' host what it is to be before each of them.
fn films(driver: &str, all: &[(&str, Client)], prepare: impl Fn(&Proxy, &str)) {
    let proxy = Proxy::start(driver, &[]);
    let scratch = Scratch::new();
    let path = scratch.path("film.ts");
    clients::film(&proxy.viewers, &path, SECONDS, RATE);
    let expected = clients::frames(&proxy.viewers, &path);
    assert_eq!(expected.len(), 25 * SECONDS as usize);
    let mut film = std::fs::read(&path).unwrap();
    // Whole packets of the stream: the rest are null packets.
    while film.len() % PACKET != 0 {
        film.extend([0x47, 0x1f, 0xff, 0x10]);
        film.extend([0xff; 184]);
    }
    let socket = must(proxy.servers.enter(|| UdpSocket::bind("10.0.2.11:7100"))).unwrap();
    let (begins, sent, ends) = (AtomicBool::new(false), AtomicBool::new(false), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| send(&socket, &film, &begins, &sent, &ends));
        let seen = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let mut running: Vec<(String, Sink)> = Vec::new();
            for (name, client) in all {
                for address in PROXIES {
                    prepare(&proxy, name);
                    let file = scratch.path(&format!("{}.out", running.len()));
                    running.push((format!("{name} at {address}"), client(&proxy.viewers, address, &file)));
                    let count = running.len() as u64;
                    proxy.wait(name, |proxy| proxy.metric("translate_viewers_total") >= count);
                }
            }
            begins.store(true, Ordering::Relaxed);
            proxy.wait("the film does not end", |_| sent.load(Ordering::Relaxed));
            thread::sleep(Duration::from_secs(2));
            println!("{}", proxy.json(&["translate", "sessions"]));
            // Streams are at their end (FIN), so clients are.
            proxy.stop();
            running.into_iter().map(|(name, sink)| (name, sink.frames())).collect::<Vec<_>>()
        }));
        begins.store(true, Ordering::Relaxed);
        ends.store(true, Ordering::Relaxed);
        let seen = seen.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let mut wrong = Vec::new();
        for (name, frames) in seen {
            let same = frames.iter().zip(&expected).take_while(|(own, sent)| own == sent).count();
            println!("{driver}, {name}: {same} of {} frames", expected.len());
            if frames != expected {
                wrong.push(format!("{name}: {} frames, {same} of them as they were sent", frames.len()));
            }
        }
        assert!(wrong.is_empty(), "{wrong:?}");
    });
}

#[test]
fn clients_see_films_frame_by_frame_in_the_kernel() {
    films("xdp", &CLIENTS, |_, _| {});
}

#[test]
fn clients_see_films_frame_by_frame_on_workers() {
    films("afpacket", &CLIENTS, |_, _| {});
}

/// Linux' TCP with all of its options, without each of them, and with little memory.
#[test]
fn tcp_of_all_kinds_has_all_of_it() {
    let kinds: [(&str, &[(&str, &str)]); 5] = [
        ("as it comes", &[]),
        ("without SACK", &[("tcp_sack", "0")]),
        ("without scaled windows", &[("tcp_window_scaling", "0")]),
        ("with nothing", &[("tcp_sack", "0"), ("tcp_window_scaling", "0"), ("tcp_timestamps", "0")]),
        ("with little memory", &[("tcp_rmem", "4096 16384 16384")]),
    ];
    let all = kinds.map(|(name, _)| (name, clients::curl as Client));
    films("xdp", &all, |proxy, name| {
        let common = [
            ("tcp_sack", "1"),
            ("tcp_window_scaling", "1"),
            ("tcp_timestamps", "1"),
            ("tcp_rmem", "4096 131072 6291456"),
        ];
        let own = kinds.iter().find(|(own, _)| *own == name).map_or(&[][..], |(_, own)| own);
        for (key, value) in common.iter().chain(own) {
            must(proxy.viewers.set_sysctl(&format!("net.ipv4.{key}"), value));
        }
    });
}

#[test]
fn what_ffprobe_finds_is_what_was_sent() {
    let proxy = Proxy::start("xdp", &[]);
    let scratch = Scratch::new();
    let path = scratch.path("film.ts");
    clients::film(&proxy.viewers, &path, 2 * SECONDS, RATE);
    let film = std::fs::read(&path).unwrap();
    let socket = must(proxy.servers.enter(|| UdpSocket::bind("10.0.2.11:7100"))).unwrap();
    let (begins, sent, ends) = (AtomicBool::new(true), AtomicBool::new(false), AtomicBool::new(false));
    let found = thread::scope(|scope| {
        scope.spawn(|| send(&socket, &film, &begins, &sent, &ends));
        let show = ["-loglevel", "error", "-show_entries", "stream=codec_name,width,height", "-of", "csv=p=0"];
        let command = proxy.viewers.command("ffprobe").args(show).arg(format!("http://{}/tower", PROXIES[0]));
        let found = command.limit(PATIENCE).run();
        ends.store(true, Ordering::Relaxed);
        must(found).text()
    });
    assert!(found.contains("h264,320,180"), "{found}");
    proxy.stop();
}
