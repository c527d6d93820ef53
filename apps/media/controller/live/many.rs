//! Very many viewers of one recording, while it grows: each gets all of it, and it is read once for many of them.

use std::fs;
use std::thread;
use std::time::Duration;

use crate::cache::{Directory, start_changed};
use crate::network::Media;
use crate::source::Sender;
use crate::viewer::{Viewer, compare};
use crate::{PROXIES, viewer};

const VIEWERS: usize = 1000;
const PACKETS: u16 = 60;
/// Between two packets: to all viewers go 210 Mbit/s.
const PAUSE: Duration = Duration::from_millis(50);
/// Threads that are viewers, so that none of them reads too late.
const THREADS: usize = 8;

/// Bytes that the proxy has read by system calls, as the kernel counts them.
fn read_bytes(media: &Media) -> u64 {
    let text = fs::read_to_string(format!("/proc/{}/io", media.id())).unwrap();
    text.lines().find_map(|line| line.strip_prefix("rchar: ")).unwrap().parse().unwrap()
}

/// Half of them over UDP and half on connections, to both versions of IP.
fn connect(media: &Media, number: usize) -> Viewer {
    let proxy = PROXIES[number / 2 % 2];
    if number.is_multiple_of(2) {
        return viewer(media, proxy, "hall?start=0", 1);
    }
    let mut carried = Viewer::connect(&media.viewers, proxy.0, "hall?start=0");
    carried.set_up_interleaved(0);
    carried
}

fn send(sender: &mut Sender) {
    for _ in 0..PACKETS {
        sender.send(1);
        thread::sleep(PAUSE);
    }
}

#[test]
fn a_thousand_viewers_share_a_recording() {
    let directory = Directory::new("many");
    // On a busy machine viewers take longer to come than a source may be silent, and its recording ends.
    let silence = ("silence = \"10s\"", "silence = \"10min\"");
    let media = start_changed("xdp", &directory, "", &[("per_client = 64", "per_client = 4096"), silence]);
    let mut sender = Sender::new(&media, "10.0.2.11:7100", "239.1.2.3:5004", false);
    sender.begin(&media);
    send(&mut sender);
    let recorded = |times: u64| {
        media.wait("it is not recorded", |media| {
            let all = crate::cache::recordings(media, "hall");
            all.iter().any(|own| own["packets"].as_u64() >= Some(times * u64::from(PACKETS)))
        });
    };
    recorded(1);
    let part = |first| (first..VIEWERS).step_by(THREADS).map(|number| connect(&media, number)).collect();
    let mut parts: Vec<Vec<Viewer>> = thread::scope(|scope| {
        let all: Vec<_> = (0..THREADS).map(|first| scope.spawn(move || part(first))).collect();
        all.into_iter().map(|own| own.join().unwrap()).collect()
    });
    let before = read_bytes(&media);
    let all = |parts: &mut Vec<Vec<Viewer>>, act: &(dyn Fn(&mut Viewer) + Sync)| {
        thread::scope(|scope| parts.iter_mut().for_each(|part| drop(scope.spawn(|| part.iter_mut().for_each(act)))));
    };
    all(&mut parts, &Viewer::play);
    let sent = &sender.sent;
    all(&mut parts, &|own| assert_eq!(compare(&own.receive(0, PACKETS.into()), sent), 0, "what was recorded"));
    // It grows under them.
    send(&mut sender);
    recorded(2);
    let sent = &sender.sent;
    all(&mut parts, &|own| {
        assert_eq!(compare(&own.receive(0, PACKETS.into()), sent), 0, "what was recorded meanwhile")
    });
    let size: u64 = crate::cache::recordings(&media, "hall").iter().map(|own| own["bytes"].as_u64().unwrap()).sum();
    let times = (read_bytes(&media) - before) / size;
    assert!(times < VIEWERS as u64 / 10, "{size} bytes were read {times} times");
    drop(parts);
    media.stop();
}
