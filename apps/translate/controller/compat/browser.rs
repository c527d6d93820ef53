//! Chromium plays a stream by mpegts.js, from a page of the host's own server: real playback, in real time.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread;

use crate::network::{PATIENCE, PROXIES, Proxy, must};
use crate::process::Scratch;
use crate::{RATE, clients, send};

/// Longer than what is looked at.
const SECONDS: u32 = 30;

/// The player, from the registry that npm is set up for.
fn player(scratch: &Scratch) -> Vec<u8> {
    let folder = scratch.path("npm");
    std::fs::create_dir(&folder).unwrap();
    let shell = "npm pack --silent mpegts.js@1 && tar -xzf mpegts.js-*.tgz";
    let done = Command::new("sh").args(["-c", shell]).current_dir(&folder).output().unwrap();
    assert!(done.status.success(), "{done:?}");
    std::fs::read(folder + "/package/dist/mpegts.js").unwrap()
}

/// Answers one request; what is told goes to `results`.
fn serve(mut stream: TcpStream, script: &[u8], results: &Sender<String>) {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        if stream.read_exact(&mut byte).is_err() {
            return;
        }
        head.extend(byte);
    }
    let head = String::from_utf8(head).unwrap();
    let target = head.split(' ').nth(1).unwrap_or_default();
    let (status, kind, body) = match target.split_once('?').unwrap_or((target, "")) {
        ("/player.html", _) => ("200 OK", "text/html", include_bytes!("player.html").as_slice()),
        ("/mpegts.js", _) => ("200 OK", "text/javascript", script),
        ("/result", told) => {
            results.send(told.to_owned()).unwrap();
            ("200 OK", "text/plain", &b""[..])
        }
        _ => ("404 Not Found", "text/plain", &b""[..]),
    };
    let fields = format!("Content-Type: {kind}\r\nContent-Length: {}", body.len());
    // A browser may have gone.
    let _ = write!(stream, "HTTP/1.1 {status}\r\n{fields}\r\n\r\n").and_then(|()| stream.write_all(body));
}

#[test]
fn chromium_plays_a_stream() {
    let server = "http_server = \"10.0.2.11:80\"";
    let proxy = Proxy::start("xdp", &[("# http_server = \"127.0.0.1:80\"", server)]);
    let scratch = Scratch::new();
    let (script, path) = (player(&scratch), scratch.path("film.ts"));
    clients::film(&proxy.viewers, &path, SECONDS, RATE);
    let film = std::fs::read(&path).unwrap();
    let listener = must(proxy.servers.enter(|| TcpListener::bind("10.0.2.11:80"))).unwrap();
    let socket = must(proxy.servers.enter(|| UdpSocket::bind("10.0.2.11:7100"))).unwrap();
    let (begins, sent, ends) = (AtomicBool::new(false), AtomicBool::new(false), AtomicBool::new(false));
    let (results, told) = channel();
    // It waits for connections to its end.
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (script, results) = (script.clone(), results.clone());
            thread::spawn(move || serve(stream, &script, &results));
        }
    });
    let told = thread::scope(|scope| {
        scope.spawn(|| send(&socket, &film, &begins, &sent, &ends));
        let seen = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let folder = format!("--user-data-dir={}", scratch.path("chromium"));
            let url = format!("http://{}/player.html?/tower", PROXIES[0]);
            let fixed = ["--no-sandbox", "--disable-gpu", "--autoplay-policy=no-user-gesture-required"];
            let command = proxy.viewers.command("chromium-headless-shell").args(fixed);
            let browser = must(command.args(["--remote-debugging-port=0", &folder, &url]).spawn());
            proxy.wait("it views nothing", |proxy| proxy.metric("translate_viewers_total") > 0);
            begins.store(true, Ordering::Relaxed);
            let told = told.recv_timeout(2 * PATIENCE);
            told.unwrap_or_else(|error| panic!("{error}: {}", browser.both()))
        }));
        ends.store(true, Ordering::Relaxed);
        seen.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    });
    println!("seconds, frames, dropped, corrupted, width: {told}");
    let numbers: Vec<f64> = told.split('&').map(|own| own.parse().unwrap_or_else(|_| panic!("{told}"))).collect();
    let [played, frames, dropped, corrupted, width] = numbers[..] else { panic!("{told}") };
    assert!(played > 5.0 && frames > 100.0 && width == 320.0, "{told}");
    // What is decoded is shown, but where this machine is too slow.
    assert!(dropped < frames / 2.0 && corrupted == 0.0, "{told}");
    proxy.stop();
}
