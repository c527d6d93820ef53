//! Servers of streams: one that is lost in mid-stream, and comes back.

use std::io::{Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use wire::rtsp::framing::{Framer, Item, interleaved};

use crate::Client;
use crate::network::{PROXIES, Proxy, must};
use crate::origin::{Options, Origin};
use crate::sender::{PACKET, compare, payload};

const PORT: &str = "10.0.2.11:8554";

/// What servers have sent and were asked, one after the other.
#[derive(Default)]
struct Log {
    sent: Mutex<Vec<Vec<u8>>>,
    asked: Mutex<Vec<String>>,
}

/// Serves one connection, until its client ends it or it is told to. RTP begins at a sequence number: another one each
/// time, as of all servers (RFC 3550 section 5.1), else a stream that is there again could be taken for late packets of
/// the one before.
fn serve(listener: &TcpListener, log: &Log, ends: &AtomicBool, (mut sequence, tcp_only): (u16, bool)) {
    let (mut stream, peer) = listener.accept().unwrap();
    stream.set_read_timeout(Some(Duration::from_millis(2))).unwrap();
    let options = Options { live: true, tracks: 1, coding: Some(("MP2T", 33)), tcp_only, ..Options::default() };
    let mut origin = Origin::new(options);
    let media = UdpSocket::bind(("10.0.2.11", origin.first_port)).unwrap();
    let (mut framer, mut buffer, mut plays) = (Framer::default(), [0; 4096], false);
    while !ends.load(Ordering::Relaxed) {
        match stream.read(&mut buffer) {
            Ok(0) => return,
            Ok(count) => framer.push(&buffer[..count]),
            Err(_) => {}
        }
        while let Ok(Some(item)) = framer.next_item() {
            let Item::Request(request) = item else { continue };
            log.asked.lock().unwrap().push(request.method.clone());
            let answer = origin.answer(&request);
            answer.iter().for_each(|answer| _ = stream.write_all(&answer.to_bytes()));
            plays = (plays || request.method == "PLAY") && request.method != "TEARDOWN";
        }
        if plays {
            let mut sent = log.sent.lock().unwrap();
            let payload = payload(sent.len() as u32);
            let mut packet = vec![0x80, 33];
            packet.extend(sequence.to_be_bytes());
            packet.extend([0, 0, 0, 1, 1, 2, 3, 4]);
            packet.extend(&payload);
            match origin.channels.first() {
                Some(channel) => _ = stream.write_all(&interleaved(*channel, &packet).unwrap()),
                None => _ = media.send_to(&packet, (peer.ip(), origin.ports[0].0)).unwrap(),
            }
            sent.push(payload);
            sequence = sequence.wrapping_add(1);
        }
    }
}

pub fn streams(proxy: &Proxy, tcp_only: bool) {
    let log = Log::default();
    let listener = must(proxy.servers.enter(|| TcpListener::bind(PORT))).unwrap();
    let (first, second) = (AtomicBool::new(false), AtomicBool::new(false));
    thread::scope(|scope| {
        let path = proxy.servers.path();
        let serving = scope.spawn(|| {
            // Sockets of this thread are those of the host.
            let file = std::fs::File::open(path).unwrap();
            nix::sched::setns(&file, nix::sched::CloneFlags::CLONE_NEWNET).unwrap();
            serve(&listener, &log, &first, (100, tcp_only));
            // It is there again; viewers notice a gap and nothing else.
            serve(&listener, &log, &second, (50_000, tcp_only));
        });
        let mut client = Client::ask(proxy, PROXIES[0], "/rtsp/10.0.2.11:8554/live");
        assert!(client.head().starts_with("HTTP/1.1 200 OK\r\n"));
        let mut taken = client.take(PACKET * 100);
        first.store(true, Ordering::Relaxed);
        proxy.wait("it was not asked again", |_| {
            log.asked.lock().unwrap().iter().filter(|method| *method == "PLAY").count() == 2
        });
        taken.extend(client.take(PACKET * 100));
        compare(&taken, &log.sent.lock().unwrap(), 50);
        drop(client);
        proxy.wait("the server was not told the end", |_| {
            log.asked.lock().unwrap().iter().any(|method| method == "TEARDOWN")
        });
        second.store(true, Ordering::Relaxed);
        serving.join().unwrap();
    });
}
