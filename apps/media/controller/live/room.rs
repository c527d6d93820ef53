//! Room is made while a stream is recorded, viewed and served: what is used stays, and nobody gets a wrong byte.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrStorage, connect, setsockopt, socket, sockopt};

use crate::cache::{Directory, recordings, start_with};
use crate::hls::get;
use crate::network::{Media, PATIENCE};
use crate::source::Sender;
use crate::viewer::{Packet, Viewer, compare};
use crate::{PROXIES, viewer};

const QUOTA: u64 = 16 << 20;
/// A segment may be half as long again as it is to be.
const SEGMENT: u64 = 3 << 19;
/// Packets in a millisecond.
const RATE: u16 = 4;
/// Packets of 1316 bytes that fill the quota.
const FULL: u16 = (QUOTA / 1316) as u16;

/// Bytes of all files in a directory.
fn bytes(path: &Path) -> u64 {
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    entries
        .map(|own| if own.path().is_dir() { bytes(&own.path()) } else { own.metadata().map_or(0, |own| own.len()) })
        .sum()
}

/// Numbers of the segments that a recording has.
fn segments(media: &Media, id: &str) -> Vec<u64> {
    let shown = media.json(&["media", "cache", "show", id]);
    shown["segments"].as_array().unwrap().iter().map(|own| own["number"].as_u64().unwrap()).collect()
}

/// Who takes a segment so slowly that it is held for as long as it likes.
struct Slow(BufReader<TcpStream>, usize);

impl Slow {
    fn begin(media: &Media, path: &str) -> Slow {
        let to: SocketAddr = "10.0.1.1:8080".parse().unwrap();
        let open = || {
            let socket = socket(AddressFamily::Inet, SockType::Stream, SockFlag::empty(), None).unwrap();
            // So little is on its way that the server has most of it still to read.
            setsockopt(&socket, sockopt::RcvBuf, &4096).unwrap();
            connect(std::os::fd::AsRawFd::as_raw_fd(&socket), &SockaddrStorage::from(to)).unwrap();
            TcpStream::from(socket)
        };
        let mut stream = media.viewers.enter(open).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: proxy\r\nConnection: close\r\n\r\n").unwrap();
        let mut reader = BufReader::with_capacity(512, stream);
        let (mut line, mut length) = (String::new(), 0);
        while reader.read_line(&mut line).unwrap() > 2 {
            let lower = line.to_ascii_lowercase();
            if let Some(own) = lower.strip_prefix("content-length: ") {
                length = own.trim().parse().unwrap();
            }
            line.clear();
        }
        Slow(reader, length)
    }

    /// The rest of it.
    fn finish(mut self) -> Vec<u8> {
        let mut body = Vec::new();
        self.0.read_to_end(&mut body).unwrap();
        assert_eq!(body.len(), self.1, "all of it");
        body
    }
}

/// Where packets are in the order in which they were sent.
#[track_caller]
fn places(received: &[Packet], sender: &Sender) -> Vec<u16> {
    let sent: HashMap<&[u8], u16> = (0..sender.count()).map(|at| (sender.payload(at), at)).collect();
    received.iter().map(|own| *sent.get(&own.2[..]).expect("a payload that was sent, byte by byte")).collect()
}

#[test]
fn room_is_made_under_viewers() {
    let directory = Directory::new("room");
    let more = "quota = \"16 MiB\"\nsegment_size = \"1 MiB\"\nblock = \"64 KiB\"\n\n\
                [controllers.media.http]\nlisten = \"10.0.1.1:8080\"\n";
    let media = start_with("xdp", &directory, more);
    let mut sender = Sender::new(&media, "10.0.2.11:7100", "239.1.2.3:5004", false);
    let mut live = viewer(&media, PROXIES[0], "hall", 1);
    live.play();
    sender.begin(&media);
    sender.send_at(FULL / 4, RATE);
    let id = recordings(&media, "hall")[0]["id"].to_string();
    let path = format!("/hall/{id}/0.ts");
    let whole = get(&media, &path);
    assert_eq!(whole.status, 200, "{}", get(&media, "/hall/index.m3u8").uris().join(" "));
    // One is two seconds behind and stays so, one stops near the beginning, and one takes its segment slowly.
    let carried = || {
        let mut own = Viewer::connect(&media.viewers, PROXIES[0].0, "hall?start=0");
        own.set_up_interleaved(0);
        own.play();
        own
    };
    let (mut behind, mut stopped) = (carried(), carried());
    let before = stopped.receive(0, 100);
    stopped.good("PAUSE", &stopped.url.clone(), &[]);
    let slow = Slow::begin(&media, &path);
    let sent = 2 * FULL;
    std::thread::scope(|scope| {
        let source = scope.spawn(|| {
            sender.send_at(sent, RATE);
            sender
        });
        let behind = scope.spawn(|| behind.receive(0, sent.into()));
        let (mut most, mut received) = (0, Vec::new());
        while !source.is_finished() {
            most = most.max(bytes(Path::new(directory.text())));
            received.extend(live.receive(0, 1000.min(usize::from(sent + FULL / 4) - received.len())));
        }
        let sender = source.join().unwrap();
        received.extend(live.receive(0, usize::from(sent + FULL / 4) - received.len()));
        assert_eq!(compare(&received, &sender.sent), 0, "what is viewed live is whole");
        // What was over is removed within a moment: what is written meanwhile, and indexes, come on top of it.
        assert!(most > QUOTA / 2 && most < QUOTA + 3 * SEGMENT, "{most} bytes");
        media.wait("nothing is removed", |media| media.metric("media_cache_removed_total") > 0);
        let kept = segments(&media, &id);
        assert!(kept[0] == 0 && kept[1] > 1, "the one that is served is there, others are not: {kept:?}");
        assert!(slow.finish() == whole.body, "a segment that is served");
        assert_eq!(compare(&behind.join().unwrap(), &sender.sent), 0, "a viewer that is behind");
        // Its segment is there, as long as it pauses; then it goes on with what there is.
        stopped.good("PLAY", &stopped.url.clone(), &[]);
        let all = places(&[before, stopped.receive(0, 2000)].concat(), &sender);
        let steps: Vec<u16> = all.windows(2).map(|two| two[1] - two[0]).filter(|own| *own != 1).collect();
        assert!(steps.len() == 1 && steps[0] > 1000, "{steps:?}");
    });
    media.wait("what nobody uses is not removed", |media| {
        std::thread::sleep(Duration::from_millis(200));
        get(media, &path).status != 200 || segments(media, &id)[0] != 0
    });
    let used = bytes(Path::new(directory.text()));
    assert!(used < QUOTA + 3 * SEGMENT, "{used} bytes");
    media.stop();
}
