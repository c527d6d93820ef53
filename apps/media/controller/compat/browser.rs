//! Chromium plays a stream by hls.js, from a page of another web site: while it is recorded, and from its beginning
//! when it is over.

use std::net::TcpListener;
use std::thread;

use crate::network::{PATIENCE, must};
use crate::process::Scratch;
use crate::{chromium, hall_is_over, players, recorded_hall, send_to_hall};

/// What a page has seen.
#[track_caller]
fn check(told: &str) {
    let numbers: Vec<f64> = told.split('&').map(|own| own.parse().unwrap_or_else(|_| panic!("{told}"))).collect();
    let [played, frames, dropped, width, fatal] = numbers[..] else { panic!("{told}") };
    assert!(played >= 5.0 && frames > 100.0 && width == 320.0 && fatal == 0.0, "{told}");
    // What is decoded is shown, but where this machine is too slow.
    assert!(dropped < frames / 2.0, "{told}");
}

#[test]
fn chromium_plays_recordings() {
    const SECONDS: u32 = 20;
    let scratch = Scratch::new();
    let media = recorded_hall(&scratch, "allow_origins = \"http://10.0.1.11\"\n");
    let film = scratch.path("film.ts");
    players::film(&media.viewers, &film, SECONDS);
    let listener = must(media.viewers.enter(|| TcpListener::bind("10.0.1.11:80"))).unwrap();
    let script = chromium::from_npm(&scratch.path("npm"), "hls.js@1", "dist/hls.min.js");
    let page = include_bytes!("player.html").to_vec();
    let told =
        chromium::serve(listener, vec![("/player.html", "text/html", page), ("/hls.js", "text/javascript", script)]);
    let playlist = "http://10.0.1.1:8080/hall/index.m3u8";
    let see = |name: &str, playlist: &str| {
        let page = format!("http://10.0.1.11/player.html?{playlist}");
        let browser = chromium::open(&media.viewers, &scratch.path(name), &page);
        let told = told.recv_timeout(2 * PATIENCE);
        let told = told.unwrap_or_else(|error| panic!("{name}: {error}: {}", browser.both()));
        println!("{name}: seconds, frames, dropped, width, errors: {told}");
        check(&told);
    };
    thread::scope(|scope| {
        let send = scope.spawn(|| send_to_hall(&media, &film));
        see("live", playlist);
        send.join().unwrap();
    });
    hall_is_over(&media);
    see("recorded", &format!("{playlist}?start=0"));
    media.stop();
}
