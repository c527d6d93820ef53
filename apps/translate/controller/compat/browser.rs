//! Chromium plays a stream by mpegts.js, from a page of the host's own server: real playback, in real time.

use std::net::{TcpListener, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::network::{PATIENCE, PROXIES, Proxy, must};
use crate::process::Scratch;
use crate::{RATE, chromium, clients, send};

/// Longer than what is looked at.
const SECONDS: u32 = 30;

#[test]
fn chromium_plays_a_stream() {
    let server = "http_server = \"10.0.2.11:80\"";
    let proxy = Proxy::start("xdp", &[("# http_server = \"127.0.0.1:80\"", server)]);
    let scratch = Scratch::new();
    let script = chromium::from_npm(&scratch.path("npm"), "mpegts.js@1", "dist/mpegts.js");
    let path = scratch.path("film.ts");
    clients::film(&proxy.viewers, &path, SECONDS, RATE);
    let film = std::fs::read(&path).unwrap();
    let listener = must(proxy.servers.enter(|| TcpListener::bind("10.0.2.11:80"))).unwrap();
    let socket = must(proxy.servers.enter(|| UdpSocket::bind("10.0.2.11:7100"))).unwrap();
    let (begins, sent, ends) = (AtomicBool::new(false), AtomicBool::new(false), AtomicBool::new(false));
    let page = include_bytes!("player.html").to_vec();
    let files = vec![("/player.html", "text/html", page), ("/mpegts.js", "text/javascript", script)];
    let told = chromium::serve(listener, files);
    let told = thread::scope(|scope| {
        scope.spawn(|| send(&socket, &film, &begins, &sent, &ends));
        let seen = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let url = format!("http://{}/player.html?/tower", PROXIES[0]);
            let browser = chromium::open(&proxy.viewers, &scratch.path("chromium"), &url);
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
