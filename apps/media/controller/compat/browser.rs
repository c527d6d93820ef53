//! Chromium plays a stream by hls.js, from a page of another web site: while it is recorded, and from its beginning
//! when it is over.

use std::net::TcpListener;
use std::thread;
use std::time::Duration;

use crate::network::{Media, PATIENCE, must};
use crate::process::Scratch;
use crate::{chromium, players};

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
    let section = "[controllers.media.limits]";
    let sections = format!(
        "[controllers.media.cache]\ndirectory = \"{}\"\nfree = \"0 B\"\nsegment = \"1s\"\n\n\
         [controllers.media.http]\nlisten = \"10.0.1.1:8080\"\nlinger = \"10s\"\n\
         allow_origins = \"http://10.0.1.11\"\n\n\
         [controllers.media.streams.hall]\nurl = \"rtp://239.1.2.3:5004\"\npayload = \"mp2t\"\n\
         interface = \"servers\"\nrecord = true\n\n{section}",
        scratch.path("cache")
    );
    let media = Media::start("xdp", &[(section, &sections)]);
    must(media.servers.check(&["ip", "route", "add", "239.0.0.0/8", "dev", "eth0"]));
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
    let sender = media.servers.command("ffmpeg").args(["-loglevel", "error", "-re", "-i", &film, "-c", "copy"]);
    thread::scope(|scope| {
        let send = scope.spawn(|| {
            media.wait("nobody has it come", |media| {
                must(media.proxy.check(&["ip", "maddress", "show", "dev", "servers"])).text().contains("239.1.2.3")
            });
            let mut sender = must(sender.args(["-f", "rtp_mpegts", "rtp://239.1.2.3:5004"]).spawn());
            must(sender.wait(PATIENCE));
        });
        see("live", playlist);
        send.join().unwrap();
    });
    media.wait("the recording does not end", |media| !media.json(&["media", "cache", "ls"])[0]["ended"].is_null());
    // So long nothing must follow a recording that is over.
    thread::sleep(Duration::from_secs(11));
    see("recorded", &format!("{playlist}?start=0"));
    media.stop();
}
