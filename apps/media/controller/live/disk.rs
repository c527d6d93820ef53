//! Disks that are full under the state, and a state that is damaged: streams go on.

use std::fs;
use std::io::Write;
use std::time::Duration;

use crate::network::Media;
use crate::origin::Options;
use crate::server::Server;
use crate::viewer::{Viewer, compare};
use crate::{ORIGINS, PROXIES, viewer};

/// More sessions than there is room for in the pages that the database has.
const MOST: usize = 4000;
const FAILED: &str = "tables are not kept until it can be written again";

fn live() -> Options {
    Options { live: true, tracks: 1, ..Options::default() }
}

/// Fills the disk under the state; `full` is to be removed for that to end.
fn fill(media: &Media) {
    let mut full = fs::File::create(media.state("full")).unwrap();
    while full.write_all(&[1; 4096]).is_ok() {}
}

#[test]
fn a_full_disk_stops_no_stream() {
    let limits = [
        ("per_client = 64", "per_client = 8192"),
        ("\nsessions = 4096", "\nsessions = 8192"),
        ("receivers = 4096", "receivers = 8192"),
    ];
    let mut media = Media::start_on("xdp", &limits, Some("16m"));
    let server = Server::outlasting(&media.servers, &ORIGINS, &live());
    let sent = || server.log.lock().unwrap().sent[&0].clone();
    let path = format!("{}/live", ORIGINS[0]);
    let mut first = viewer(&media, PROXIES[0], &path, 1);
    first.play();
    let mut received = first.receive(0, 50);
    // It is written by then.
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(media.metric("media_state_failed_total"), 0);
    fill(&media);
    let mut many = Viewer::connect(&media.viewers, PROXIES[1].0, &path);
    for number in 0..MOST {
        let url = format!("{}/trackID=0", many.url);
        many.good("SETUP", &url, &[("Transport", "RTP/AVP;unicast;client_port=9000-9001")]);
        if number % 100 == 0 && media.metric("media_state_failed_total") > 0 {
            break;
        }
    }
    media.wait("the disk is not full", |media| media.metric("media_state_failed_total") > 0);
    let said = media.said();
    assert!(said.contains("No space left on device") && said.matches(FAILED).count() == 1, "{said}");
    // Who comes now is served as ever, and no packet of the others is missing.
    let mut second = viewer(&media, PROXIES[1], &path, 1);
    second.play();
    received.extend(first.receive(0, 100));
    assert_eq!(compare(&received, &sent()), 0);
    assert_eq!(compare(&second.receive(0, 50), &sent()), 0);
    // The next process knows what was written, and starts on the full disk.
    media.kill();
    media.start_again();
    assert!(media.metric("media_sessions_taken_up_total") >= 1);
    first.come(0);
    assert_eq!(compare(&first.receive(0, 50), &sent()), 0);
    first.connect_again(&media.viewers);
    first.good("GET_PARAMETER", &first.url.clone(), &[]);
    second.connect_again(&media.viewers);
    assert_eq!(second.ask("GET_PARAMETER", &second.url.clone(), &[]).status, 454);
    // When there is room again all is written.
    let mut third = viewer(&media, PROXIES[1], &path, 1);
    third.play();
    fs::remove_file(media.state("full")).unwrap();
    media.wait("it is not written again", |media| {
        let said = media.said();
        said.matches(FAILED).count() == said.matches("is written again, with all tables").count()
    });
    std::thread::sleep(Duration::from_millis(500));
    media.kill();
    media.start_again();
    for own in [&mut first, &mut third] {
        own.come(0);
        assert_eq!(compare(&own.receive(0, 50), &sent()), 0);
        own.connect_again(&media.viewers);
        own.good("TEARDOWN", &own.url.clone(), &[]);
    }
    media.stop();
}

/// Nobody knows what is left of tables that operators have filled, so they are asked; the kernel forwards meanwhile.
#[test]
fn a_damaged_state_is_told_and_the_kernel_forwards() {
    let mut media = Media::start("xdp", &[]);
    let server = Server::outlasting(&media.servers, &ORIGINS, &live());
    let sent = || server.log.lock().unwrap().sent[&0].clone();
    let path = format!("{}/live", ORIGINS[0]);
    let mut own = viewer(&media, PROXIES[0], &path, 1);
    own.play();
    let mut received = own.receive(0, 50);
    std::thread::sleep(Duration::from_millis(500));
    media.kill();
    let file = media.state("tables.redb");
    let good = fs::read(&file).unwrap();
    for damaged in [vec![0x5a; good.len()], good[..good.len() / 3].to_vec()] {
        fs::write(&file, damaged).unwrap();
        let said = media.start_in_vain();
        assert!(said.contains("tables.redb") && said.contains("to start without it, remove it"), "{said}");
        received.extend(own.receive(0, 50));
    }
    assert_eq!(compare(&received, &sent()), 0);
    // Without it the stream is nobody's, and ends.
    fs::remove_file(&file).unwrap();
    media.start_again();
    assert_eq!(media.metric("media_sessions_taken_up_total"), 0);
    own.connect_again(&media.viewers);
    assert_eq!(own.ask("GET_PARAMETER", &own.url.clone(), &[]).status, 454);
    own.come(0);
    std::thread::sleep(Duration::from_millis(200));
    assert!(own.come(0).is_empty());
    media.stop();
}

/// A full disk ends a recording, and its stream goes on, in the kernel alone as long as nothing is recorded. When there
/// is room again it is recorded again.
#[test]
fn a_full_disk_ends_a_recording_for_a_while() {
    let section = "[controllers.media.limits]";
    let sections = format!(
        "[controllers.media.cache]\ndirectory = \"STATE/media\"\nfree = \"0 B\"\nblock = \"64 KiB\"\n\n\
         [controllers.media.streams.hall]\nurl = \"rtsp://{}/live\"\nrecord = \"always\"\n\n{section}",
        ORIGINS[0]
    );
    let media = Media::start_on("xdp", &[(section, &sections)], Some("24m"));
    // What it sends is no MPEG-TS.
    let options = Options { coding: Some(("H264", 96)), ..live() };
    let server = Server::start(&media.servers, &ORIGINS, &options);
    media.wait("it is not recorded", |media| media.metric("media_recorded_packets_total") > 100);
    let mut own = viewer(&media, PROXIES[0], "hall", 1);
    own.play();
    fill(&media);
    media.wait("the recording goes on", |media| media.metric("media_recordings_broken_total") == 1);
    // In the kernel alone, as soon as the proxy has looked.
    std::thread::sleep(Duration::from_secs(1));
    own.receive(0, 50);
    let tapped = media.metric("media_packets_tapped_total");
    own.receive(0, 50);
    assert_eq!(media.metric("media_packets_tapped_total"), tapped);
    fs::remove_file(media.state("full")).unwrap();
    let before = media.metric("media_recorded_packets_total");
    media.wait("it is not recorded again", |media| media.metric("media_recorded_packets_total") > before + 100);
    assert_eq!(media.metric("media_recordings_begun_total"), media.metric("media_recordings_broken_total") + 1);
    let received = own.receive(0, 50);
    assert_eq!(compare(&received, &server.log.lock().unwrap().sent[&0].clone()), 0);
    let said = media.stop();
    assert!(said.contains("a recording has ended before its stream"), "{said}");
}
