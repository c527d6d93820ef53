//! Streams are recorded while they are viewed, and viewed again: every byte is compared with what was sent.

use std::path::PathBuf;

use serde_json::Value as Json;

use crate::network::{Media, must};
use crate::process::millrace;
use crate::publisher::Publisher;
use crate::source::Sender;
use crate::viewer::{Viewer, compare};
use crate::{PROXIES, viewer};

/// A directory for recordings that ends with the test.
pub struct Directory(PathBuf);

impl Directory {
    pub fn new(name: &str) -> Directory {
        let path = std::env::temp_dir().join(format!("millrace-cache-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        Directory(path)
    }

    pub fn text(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A proxy that records a group's stream and a published one.
fn start(driver: &str, directory: &Directory) -> Media {
    start_with(driver, directory, "")
}

/// The same with more settings of the cache, and sections behind them.
pub fn start_with(driver: &str, directory: &Directory, more: &str) -> Media {
    start_changed(driver, directory, more, &[])
}

/// The same with other changes of the example.
pub fn start_changed(driver: &str, directory: &Directory, more: &str, changes: &[(&str, &str)]) -> Media {
    let limits = "[controllers.media.limits]";
    let sections = format!(
        "[controllers.media.cache]\ndirectory = \"{}\"\nfree = \"0 B\"\n{more}\n\
         [controllers.media.streams.hall]\nurl = \"rtp://239.1.2.3:5004\"\npayload = \"mp2t\"\n\
         interface = \"servers\"\nrecord = \"always\"\n\n\
         [controllers.media.streams.stage]\npublish.addresses = \"10.0.2.0/24\"\nrecord = true\n\n{limits}",
        directory.text()
    );
    let media = Media::start(driver, &[&[(limits, &*sections)], changes].concat());
    must(media.servers.check(&["ip", "route", "add", "239.0.0.0/8", "dev", "eth0"]));
    media
}

/// Recordings of a stream that have something.
pub fn recordings(media: &Media, stream: &str) -> Vec<Json> {
    let all = media.json(&["media", "cache", "ls"]);
    all.as_array().unwrap().iter().filter(|own| own["stream"] == stream && own["packets"] != 0).cloned().collect()
}

/// The only one.
fn recording(media: &Media, stream: &str) -> Json {
    let all = recordings(media, stream);
    assert_eq!(all.len(), 1, "{all:?}");
    all[0].clone()
}

fn recorded(driver: &str) {
    const PACKETS: u16 = 400;
    let directory = Directory::new(driver);
    let mut media = start(driver, &directory);
    let mut sender = Sender::new(&media, "10.0.2.11:7100", "239.1.2.3:5004", false);
    let mut live = viewer(&media, PROXIES[0], "hall", 1);
    live.play();
    sender.begin(&media);
    sender.send(PACKETS);
    assert_eq!(compare(&live.receive(0, PACKETS.into()), &sender.sent), 0, "the live stream is whole");
    // From the beginning, while it is recorded: over UDP to both versions of IP, and on a connection.
    let mut later: Vec<Viewer> = PROXIES.map(|proxy| viewer(&media, proxy, "hall?start=0", 1)).into();
    let mut carried = Viewer::connect(&media.viewers, PROXIES[0].0, "hall?start=-1h");
    carried.set_up_interleaved(0);
    later.push(carried);
    for own in &mut later {
        own.play();
        let received = own.receive(0, PACKETS.into());
        assert_eq!(compare(&received, &sender.sent), 0, "the recording is whole");
        assert_eq!((received[0].0, received[0].1), own.begin(0).unwrap(), "where PLAY said that it begins");
    }
    // It grows, and its viewers have all of it.
    sender.send(PACKETS);
    for own in &mut later {
        assert_eq!(compare(&own.receive(0, PACKETS.into()), &sender.sent), 0, "what was recorded meanwhile");
    }
    live.receive(0, PACKETS.into());
    let shown = recording(&media, "hall");
    let id = shown["id"].to_string();
    assert_eq!((shown["ended"].as_str(), shown["lost"].as_u64()), (None, Some(0)), "{shown}");
    let refused = media.millrace(&["media", "cache", "rm", &id]);
    assert!(refused.status != Some(0) && refused.stderr.starts_with("error"), "it is written now: {refused:?}");
    // Behind an `afpacket` port the packet by which the sender is known may be one of them.
    let recorded = media.metric("media_recorded_packets_total") - 2 * u64::from(PACKETS);
    assert!(recorded == 0 || (recorded == 1 && driver == "afpacket"), "{recorded} packets too many");
    let memory = media.metric("media_cache_memory_bytes");
    assert!(memory <= media.metric("media_cache_memory_limit_bytes"), "{memory}");
    assert!(media.metric("media_cache_wakeups_total") < u64::from(PACKETS) / 10);
    // A seek begins there, and numbers go on.
    let url = later[0].url.clone();
    let answer = later[0].good("PLAY", &url, &[("Range", "npt=0.2-")]);
    assert!(answer.headers.get("range").unwrap().starts_with("npt=0."), "{answer:?}");
    let first = later[0].receive(0, 50);
    assert!(first.windows(2).all(|two| two[1].0 == two[0].0.wrapping_add(1)));
    drop(later);
    // What a crash leaves is played again.
    media.kill();
    media.start_again();
    let shown = recording(&media, "hall");
    assert_eq!(shown["ended"], "interrupted", "{shown}");
    // It is recorded again, and both are one film: numbers go on.
    sender.send(PACKETS);
    media.wait("it is not recorded again", |media| {
        recordings(media, "hall").iter().map(|own| own["packets"].as_u64().unwrap()).sum::<u64>()
            >= 3 * u64::from(PACKETS)
    });
    let mut after = viewer(&media, PROXIES[0], "hall?start=0", 1);
    after.play();
    let all = after.receive(0, 3 * usize::from(PACKETS));
    let at = all.iter().position(|own| own.2 == sender.payload(1 + 2 * PACKETS)).unwrap();
    for part in [&all[..at], &all[at..]] {
        assert_eq!(compare(part, &sender.sent), 0);
    }
    let (last, next) = (&all[at - 1], &all[at]);
    assert_eq!(next.0, last.0.wrapping_add(1));
    assert!(next.1.wrapping_sub(last.1) < 90_000 * 60, "{} {}", last.1, next.1);
    // Behind an `afpacket` port there may be one more.
    std::thread::sleep(std::time::Duration::from_millis(200));
    after.come(0);
    // By the wall clock, and told so: the second recording's beginning, from which on all is new.
    let url = after.url.clone();
    let began = recordings(&media, "hall")[1]["began_ms"].as_u64().unwrap();
    let began = wire::rtsp::range::clock_text(std::time::Duration::from_millis(began - 500));
    let answer = after.good("PLAY", &url, &[("Range", &format!("clock={began}-"))]);
    assert!(answer.headers.get("range").unwrap().starts_with("clock=2"), "{answer:?}");
    let again = after.receive(0, PACKETS.into());
    assert_eq!((compare(&again, &sender.sent), &again[0].2), (0, &next.2));
    assert_eq!(after.ask("DESCRIBE", &format!("rtsp://{}/stage?start=0", PROXIES[0].0), &[]).status, 404);
    drop(after);
    media.millrace(&["media", "cache", "pin", &id]).ok();
    let shown = media.json(&["media", "cache", "show", &id]);
    assert_eq!(
        (&shown["recording"]["pinned"], &shown["tracks"][0]),
        (&true.into(), &"video MP2T/90000".into()),
        "{shown}"
    );
    let packets = shown["segments"].as_array().unwrap().iter().map(|own| own["packets"].as_u64().unwrap());
    assert_eq!(Some(packets.sum()), shown["recording"]["packets"].as_u64(), "{shown}");
    let said = media.millrace(&["media", "cache", "show", &id]).ok();
    assert!(said.contains("interrupted, pinned") && said.contains("access points"), "{said}");
    media.millrace(&["media", "cache", "unpin", &id]).ok();
    media.millrace(&["media", "cache", "rm", &id]).ok();
    assert_ne!(recording(&media, "hall")["id"].to_string(), id, "the other one is left");
    // One directory is one proxy's.
    let refused = millrace(&["media", "cache", "check", directory.text()]);
    assert!(refused.status != Some(0) && refused.stderr.contains("another instance"), "{refused:?}");
    media.stop();
}

#[test]
fn recorded_in_the_kernel() {
    recorded("xdp");
}

#[test]
fn recorded_on_workers() {
    recorded("afpacket");
}

/// What comes on a connection is recorded, too; and its RTP, where it is no MPEG-TS.
#[test]
fn published_streams_are_recorded() {
    const PACKETS: u16 = 300;
    let directory = Directory::new("published");
    let media = start("xdp", &directory);
    for udp in [true, false] {
        let mut publisher = Publisher::of_video(&media.servers, "10.0.2.1:8554", "stage", udp);
        let mut own = viewer(&media, PROXIES[1], "stage", 1);
        own.play();
        publisher.send(PACKETS);
        assert_eq!(compare(&own.receive(0, PACKETS.into()), &publisher.sent), 0);
        let sent = publisher.sent.clone();
        drop(publisher);
        media.wait("the stream is there", |media| media.json(&["media", "streams"]).as_array().unwrap().is_empty());
        media.wait("it is recorded", |media| recordings(media, "stage").iter().any(|own| !own["ended"].is_null()));
        let shown = recording(&media, "stage");
        assert_eq!((&shown["ended"], &shown["packets"]), (&"finished".into(), &PACKETS.into()), "{shown}");
        let mut again = viewer(&media, PROXIES[0], "stage?start=0", 1);
        again.play();
        assert_eq!(compare(&again.receive(0, PACKETS.into()), &sent), 0, "udp: {udp}");
        again.good("TEARDOWN", &again.url.clone(), &[]);
        if udp {
            media.millrace(&["media", "cache", "rm", &shown["id"].to_string()]).ok();
        }
    }
    media.stop();
    let said = millrace(&["media", "cache", "check", directory.text()]).ok();
    assert!(said.contains("1 recordings, 1 of 1 segments are whole"), "{said}");
    // A lost description is told of once, and made anew.
    let mut all = std::fs::read_dir(directory.0.join("recordings")).unwrap().map(|entry| entry.unwrap().path());
    let about = all.next().unwrap().join("recording.toml");
    std::fs::remove_file(&about).unwrap();
    let said = millrace(&["media", "cache", "check", directory.text()]).ok();
    let line = format!("mended: {}: lost, and made anew: as the catalogue has it\n", about.display());
    assert_eq!(said, format!("{line}1 recordings, 1 of 1 segments are whole\n"));
    // A directory without a cache stays without one.
    let other = Directory::new("none");
    std::fs::create_dir_all(&other.0).unwrap();
    let refused = millrace(&["media", "cache", "check", other.text()]).failed_in_one_line(2);
    assert!(refused.ends_with("there is no cache in this directory\n"), "{refused}");
    assert_eq!(std::fs::read_dir(&other.0).unwrap().count(), 0);
}
