//! Films are recorded while they are viewed, and viewed again from there: every byte is compared with what was sent.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::cache::Directory;
use crate::network::Media;
use crate::origin::Options;
use crate::server::{Sent, Server};
use crate::viewer::{Packet, Viewer, compare};
use crate::{ORIGINS, PROXIES, viewer};

/// The film is so long, in packets that are 5 ms apart at least, and in seconds.
const PACKETS: usize = 300;
const LENGTH: f64 = 1.5;
/// So much of another one is viewed, that is longer.
const PART: usize = 300;

fn start(driver: &str, directory: &Directory) -> Media {
    let limits = "[controllers.media.limits]";
    let section = format!(
        "[controllers.media.cache]\ndirectory = \"{}\"\nfree = \"0 B\"\nfilms = \"rtsp://10.0.2.11:8554/\"\n\
         fresh = \"0s\"\n\n{limits}",
        directory.text()
    );
    Media::start(driver, &[(limits, &section)])
}

fn path(name: &str) -> String {
    format!("{}/{name}", ORIGINS[0])
}

fn sent(server: &Server) -> Sent {
    server.log.lock().unwrap().sent[&0].clone()
}

/// The sequence numbers have no gap. Where another server takes over, packets may overtake each other.
#[track_caller]
fn goes_on(received: &[Packet]) {
    let mut places: Vec<u16> = received.iter().map(|own| own.0.wrapping_sub(received[0].0)).collect();
    places.sort_unstable();
    let gap = places.iter().enumerate().find(|(at, own)| usize::from(**own) != *at);
    assert_eq!(gap, None, "{:?}", &places[places.len().saturating_sub(110)..]);
}

/// What is counted of films: hits, those that went on at their origin, misses, revalidated.
fn counts(media: &Media) -> [u64; 4] {
    ["hits", "partial", "misses", "revalidated"].map(|name| media.metric(&format!("media_film_{name}_total")))
}

/// Somebody views so many packets of a film, and leaves; waits until that is recorded.
fn views(media: &Media, name: &str, packets: usize) -> Vec<Packet> {
    let mut own = viewer(media, PROXIES[0], &path(name), 1);
    own.play();
    let received = own.receive(0, packets);
    own.good("TEARDOWN", &own.url.clone(), &[]);
    is_recorded(media);
    received
}

/// Waits until nothing is recorded any more.
fn is_recorded(media: &Media) {
    media.wait("it is recorded", |media| {
        let all = media.json(&["media", "cache", "ls"]);
        let all = all.as_array().unwrap();
        !all.is_empty() && all.iter().all(|own| own["ended"] == "finished" && own["packets"] != 0)
    });
}

#[test]
fn films_are_kept() {
    let directory = Directory::new("films");
    let media = start("xdp", &directory);
    let modified = Arc::new(Mutex::new(None));
    // What it sends is no MPEG-TS.
    let coding = Some(("H264", 96));
    let options = Options { tracks: 1, length: LENGTH, modified: modified.clone(), coding, ..Options::default() };
    let server = Server::start(&media.servers, &ORIGINS, &options);
    // A film as a whole. The origin knows no end, so a little more than all of it is there.
    let first = views(&media, "kept", PACKETS + 40);
    assert_eq!((compare(&first, &sent(&server)), counts(&media)), (0, [0, 0, 1, 0]));
    let asked = server.log.lock().unwrap().asked.len();
    // Over both versions of IP, and on a connection, without the origin.
    let mut later: Vec<Viewer> = PROXIES.map(|proxy| viewer(&media, proxy, &path("kept"), 1)).into();
    let mut carried = Viewer::connect(&media.viewers, PROXIES[0].0, &path("kept"));
    carried.set_up_interleaved(0);
    later.push(carried);
    for own in &mut later {
        own.play();
        let received = own.receive(0, PACKETS);
        assert_eq!(compare(&received, &sent(&server)), 0);
        assert!(received.iter().zip(&first).all(|(own, first)| own.2 == first.2), "byte by byte, in order");
        assert_eq!((received[0].0, received[0].1), own.begin(0).unwrap());
    }
    assert_eq!(counts(&media), [3, 0, 1, 0]);
    assert_eq!(later[0].reports_until_bye(0), None, "its end");
    drop(later);
    assert_eq!(server.log.lock().unwrap().asked.len(), asked, "the origin was asked for nothing");
    assert_eq!((counts(&media), media.metric("media_film_bytes_total") > 0), ([3, 0, 1, 0], true));

    // A part of one, and the origin has the rest.
    *modified.lock().unwrap() = Some("Mon, 23 Nov 2026 10:00:00 GMT".to_owned());
    server.log.lock().unwrap().asked.clear();
    let part = views(&media, "part", PART);
    assert_eq!(counts(&media), [3, 0, 2, 0]);
    let mut own = viewer(&media, PROXIES[0], &path("part"), 1);
    assert_eq!((server.count("DESCRIBE"), server.count("PLAY")), (2, 1), "the origin says that it is as it was");
    own.play();
    let received = own.receive(0, PART + 100);
    goes_on(&received);
    // It is left at an access point. This origin plays from the beginning whatever it is asked for, and nothing comes
    // twice.
    assert!(received.iter().zip(&part).all(|(own, part)| own.2 == part.2));
    assert_eq!(compare(&received, &sent(&server)), 0);
    assert!(media.metric("media_film_repeated_total") > 0);
    assert_eq!((counts(&media), server.count("PLAY")), ([4, 1, 2, 1], 2));
    let asked = server.log.lock().unwrap().asked.iter().rfind(|own| own.method == "PLAY").cloned();
    let range = asked.unwrap().headers.get("range").unwrap().to_owned();
    let begin: f64 = range.strip_prefix("npt=").unwrap().strip_suffix('-').unwrap().parse().unwrap();
    // By its timestamps, which are not those of the pace.
    assert!((0.3..1.0).contains(&begin), "{range}");
    own.good("TEARDOWN", &own.url.clone(), &[]);
    is_recorded(&media);

    // One that was changed is another one.
    *modified.lock().unwrap() = Some("Tue, 24 Nov 2026 10:00:00 GMT".to_owned());
    views(&media, "part", PART);
    assert_eq!(counts(&media), [4, 1, 2, 1]);
    media.wait("the old one is there", |media| {
        let all = media.json(&["media", "cache", "ls"]);
        let of = format!("film rtsp://{}", path("part"));
        all.as_array().unwrap().iter().filter(|own| own["stream"] == of.as_str()).count() == 1
    });
    // Where the origin is gone, what there is of it is served.
    server.kill();
    std::thread::sleep(Duration::from_millis(20));
    let mut own = viewer(&media, PROXIES[0], &path("part"), 1);
    own.play();
    assert_eq!(compare(&own.receive(0, 50), &sent(&server)), 0);
    media.stop();
}
