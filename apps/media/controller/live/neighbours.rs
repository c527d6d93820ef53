//! Viewers whose neighbour entries the kernel has lost, or does not trust, when they are to play: no packet is missing.

use serde_json::Value as Json;

use crate::network::{Media, must};
use crate::origin::Options;
use crate::server::Server;
use crate::viewer::compare;
use crate::{ORIGINS, PROXIES, viewer};

/// Packets that were dropped for want of a neighbour.
fn unresolved(media: &Media) -> u64 {
    media.json(&["counters"])["drops"]["neighbour_unresolved"].as_u64().unwrap_or(0)
}

fn neighbour(media: &Media, words: &str) {
    let words: Vec<&str> = ["ip", "neighbour"].into_iter().chain(words.split(' ')).collect();
    must(media.proxy.check(&words));
}

/// A film sends at once when it is played, so there is no time to lose.
fn films(driver: &str) {
    const PACKETS: usize = 60;
    let media = Media::start(driver, &[]);
    let server = Server::start(&media.servers, &ORIGINS, &Options { tracks: 1, ..Options::default() });
    let link: Json =
        serde_json::from_str(&must(media.viewers.check(&["ip", "-j", "link", "show", "eth0"])).text()).unwrap();
    let mac = link[0]["address"].as_str().unwrap();
    let mut sought = 0;
    for state in ["gone", "failed", "stale"] {
        for (proxy, own) in PROXIES {
            let mut viewer = viewer(&media, (proxy, own), &format!("{}/film", ORIGINS[0]), 1);
            media.wait("no way to the viewer", |media| media.json(&["routes", own])["to"] == "port");
            match state {
                "gone" => neighbour(&media, &format!("del {own} dev viewers")),
                "failed" => neighbour(&media, &format!("change {own} dev viewers nud failed")),
                _ => neighbour(&media, &format!("change {own} lladdr {mac} dev viewers nud stale")),
            }
            if state != "stale" {
                sought += 1;
                media.wait("the program knows the way", |media| media.json(&["routes", own])["to"] != "port");
            }
            viewer.play();
            let received = viewer.receive(0, PACKETS);
            let sent = server.log.lock().unwrap().sent[&0].clone();
            assert_eq!(compare(&received, &sent), 0, "{state}, {own}");
            let (first, time) = viewer.begin(0).unwrap();
            assert_eq!((received[0].0, received[0].1), (first, time), "{state}, {own}: the first packet is there");
            viewer.good("TEARDOWN", &viewer.url.clone(), &[]);
            media.wait("the server was not told", |_| server.count("TEARDOWN") > 0);
            server.log.lock().unwrap().sent.clear();
            server.log.lock().unwrap().asked.clear();
        }
    }
    assert_eq!(unresolved(&media), 0);
    // The kernel's answers to the viewer may have found the way before.
    let own = media.metric("media_ways_sought_total");
    assert!((1..=sought).contains(&own), "{own} of {sought}");
    media.stop();
}

#[test]
fn films_begin_whole_in_the_kernel() {
    films("xdp");
}

#[test]
fn films_begin_whole_on_workers() {
    films("afpacket");
}
