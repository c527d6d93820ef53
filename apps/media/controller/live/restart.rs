//! Sessions outlast the process: it is killed in mid-stream, or ended and started again.

use std::time::Duration;

use crate::network::{Media, must};
use crate::origin::Options;
use crate::server::{SSRC, Server};
use crate::viewer::{Viewer, compare};
use crate::{ORIGINS, PROXIES, source, viewer};

fn sessions(media: &Media) -> usize {
    media.json(&["media", "sessions"]).as_array().unwrap().len()
}

/// The numbers that go on, and the origin's offset, are compared by `compare`: the same for all packets.
fn killed(driver: &str, kills: usize) {
    let mut media = Media::start(driver, &[]);
    let live = Options { live: true, tracks: 1, timeout: 8, ..Options::default() };
    let server = Server::outlasting(&media.servers, &ORIGINS, &live);
    let path = format!("{}/live", ORIGINS[0]);
    let mut own = viewer(&media, PROXIES[0], &path, 1);
    own.play();
    let mut received = own.receive(0, 50);
    for kill in 0..kills {
        media.kill();
        if driver == "xdp" {
            // Nothing is there but the program in the kernel.
            let meanwhile = own.receive(0, 100);
            received.extend(meanwhile);
        }
        media.start_again();
        received.extend(own.receive(0, 100));
        assert_eq!(media.metric("media_sessions_taken_up_total"), 1, "kill {kill}");
    }
    let sent = || server.log.lock().unwrap().sent[&0].clone();
    let missing = compare(&received, &sent());
    assert!(driver != "xdp" || missing == 0, "{missing} of {} packets are missing", received.len());
    assert_eq!((server.count("SETUP"), server.count("PLAY")), (1, 1), "the origin was asked nothing anew");
    if driver == "xdp" {
        assert_eq!(media.metric("media_packets_at_sockets_total"), 0);
    }
    // The origin is told that the proxy is there, on a new connection, more than once in its timeout.
    let before = server.count("GET_PARAMETER") + server.count("OPTIONS");
    media.wait("the session at the origin is not kept", |_| {
        server.count("GET_PARAMETER") + server.count("OPTIONS") >= before + 2
    });
    media.wait("no report to the origin", |_| {
        let log = server.log.lock().unwrap();
        let mut said = log.reports.iter().filter_map(|(_, bytes)| wire::rtcp::parse(bytes));
        said.any(|own| own.reports.iter().any(|report| report.ssrc == SSRC))
    });
    // Its reports come to the viewer with the source that this one knows.
    let report = wire::rtcp::parse(&own.report(0)).unwrap().senders[0];
    assert_eq!(report.ssrc, own.ssrc(0));
    // The viewer comes back on a new connection: it pauses, plays on, and leaves.
    own.connect_again(&media.viewers);
    own.good("PAUSE", &own.url.clone(), &[]);
    own.come(0);
    std::thread::sleep(Duration::from_millis(100));
    assert!(own.come(0).is_empty());
    own.play();
    let again = own.receive(0, 50);
    assert!(compare(&[&received[..], &again].concat(), &sent()) > 0, "it has left some out");
    assert_eq!(compare(&again, &sent()), 0);
    let (first, time) = own.begin(0).unwrap();
    assert!(again[0].0.wrapping_sub(first) < 100 && again[0].1.wrapping_sub(time) < 90_000);
    // Another one joins the same stream.
    let mut other = viewer(&media, PROXIES[1], &path, 1);
    other.play();
    assert_eq!(compare(&other.receive(0, 50), &sent()), 0);
    assert_eq!(compare(&own.receive(0, 50), &sent()), 0);
    // Both are taken up from a worker's group.
    media.kill();
    media.start_again();
    assert_eq!(media.metric("media_sessions_taken_up_total"), 2);
    for own in [&mut own, &mut other] {
        own.come(0);
        assert_eq!(compare(&own.receive(0, 50), &sent()), 0);
        own.connect_again(&media.viewers);
        own.good("TEARDOWN", &own.url.clone(), &[]);
    }
    media.wait("the origin was not told", |_| server.count("TEARDOWN") == 1);
    media.wait("something is left", |media| media.json(&["media", "streams"]).as_array().unwrap().is_empty());
    assert_eq!((server.count("SETUP"), server.count("PLAY")), (1, 1));
    media.stop();
}

#[test]
fn killed_in_the_kernel() {
    killed("xdp", 3);
}

#[test]
fn killed_on_workers() {
    killed("afpacket", 1);
}

/// A source without RTSP sends on to a group; the kernel forwards what comes while nobody is there.
#[test]
fn a_source_without_rtsp_outlasts_the_process() {
    for (name, to) in [("hall", "239.1.2.3:5004"), ("own", "10.0.2.1:5010")] {
        let mut media = source::start("xdp");
        let mut sender = source::Sender::new(&media, "10.0.2.11:7100", to, false);
        let mut own = viewer(&media, PROXIES[0], name, 1);
        own.play();
        sender.begin(&media);
        sender.send(50);
        let mut received = own.receive(0, 50);
        for _ in 0..2 {
            media.kill();
            sender.send(50);
            received.extend(own.receive(0, 50));
            media.start_again();
            sender.send(50);
            received.extend(own.receive(0, 50));
            assert_eq!(media.metric("media_sessions_taken_up_total"), 1, "{name}");
        }
        assert_eq!(compare(&received, &sender.sent), 0, "{name}: nothing is missing");
        assert_eq!(media.metric("media_packets_at_sockets_total"), 0);
        assert_eq!(source::groups(&media).contains("239.1.2.3"), name == "hall");
        // Another one joins.
        let mut other = viewer(&media, PROXIES[1], name, 1);
        other.play();
        sender.send(50);
        for own in [&mut own, &mut other] {
            assert_eq!(compare(&own.receive(0, 50), &sender.sent), 0);
            own.connect_again(&media.viewers);
            own.good("TEARDOWN", &own.url.clone(), &[]);
        }
        media.wait("the group is not left", |media| !source::groups(media).contains("239.1.2.3"));
        media.stop();
    }
}

#[test]
fn a_group_of_a_server_outlasts_the_process() {
    let mut media = Media::start("xdp", &[("# transport = \"tcp\"", "transport = \"multicast\"")]);
    must(media.servers.check(&["ip", "route", "add", "239.0.0.0/8", "dev", "eth0"]));
    let options = Options { live: true, tracks: 1, group: Some("239.7.7.7".into()), ..Options::default() };
    let server = Server::outlasting(&media.servers, &ORIGINS, &options);
    let mut own = viewer(&media, PROXIES[0], "door", 1);
    own.play();
    let mut received = own.receive(0, 50);
    media.kill();
    received.extend(own.receive(0, 50));
    media.start_again();
    received.extend(own.receive(0, 100));
    assert!(source::groups(&media).contains("239.7.7.7"), "{}", source::groups(&media));
    assert_eq!(media.metric("media_sessions_taken_up_total"), 1);
    let sent = server.log.lock().unwrap().sent[&0].clone();
    assert_eq!(compare(&received, &sent), 0);
    assert_eq!((server.count("SETUP"), server.count("PLAY")), (1, 1), "the server was asked nothing anew");
    own.connect_again(&media.viewers);
    own.good("TEARDOWN", &own.url.clone(), &[]);
    media.wait("the server was not told", |_| server.count("TEARDOWN") == 1);
    media.wait("the group is not left", |media| !source::groups(media).contains("239.7.7.7"));
    media.stop();
}

/// What is named in the kernel with a state in this directory, or below.
fn pins(directory: &str) -> usize {
    let all = std::fs::read_dir("/sys/fs/bpf/millrace").into_iter().flatten().flatten();
    let states = all.filter_map(|own| std::fs::read_link(own.path().join("state")).ok());
    states.filter(|state| state.starts_with(directory)).count()
}

/// A test that fails ends its instance as `kill -9` does.
#[test]
fn a_test_that_ends_early_leaves_nothing_in_the_kernel() {
    let media = Media::start("xdp", &[]);
    let state = media.state("");
    assert_eq!(pins(&state), 1);
    drop(media);
    assert_eq!(pins(&state), 0);
}

#[test]
fn what_ends_with_connections() {
    let mut media = Media::start("xdp", &[("session = \"60s\"", "session = \"6s\"")]);
    let live = Options { live: true, tracks: 1, ..Options::default() };
    // This origin's streams end with their connections: it is asked anew, and numbers go on.
    let server = Server::start(&media.servers, &ORIGINS, &live);
    let path = format!("{}/live", ORIGINS[1]);
    let mut carried = Viewer::connect(&media.viewers, PROXIES[0].0, &path);
    carried.set_up_interleaved(0);
    carried.play();
    carried.receive(0, 10);
    let mut own = viewer(&media, PROXIES[0], &path, 1);
    own.play();
    let received = own.receive(0, 50);
    let before = server.log.lock().unwrap().sent[&0].clone();
    assert_eq!(compare(&received, &before), 0);
    server.forget_sessions();
    media.kill();
    media.start_again();
    assert!(carried.is_closed());
    assert_eq!(media.metric("media_sessions_taken_up_total"), 1);
    assert_eq!(media.metric("media_sessions_not_taken_up_total"), 1);
    own.come(0);
    let again = own.receive(0, 50);
    let sent = server.log.lock().unwrap().sent[&0].clone();
    assert_eq!(compare(&again, &sent), 0);
    assert!(again[0].0.wrapping_sub(received.last().unwrap().0) < 1000, "numbers go on");
    assert_eq!((server.count("PLAY"), sessions(&media)), (2, 1));
    // Its viewer never comes back.
    let told = server.count("TEARDOWN");
    media.wait("it was not noticed", |media| media.metric("media_vanished_total") == 1);
    media.wait("the origin was not told", |_| server.count("TEARDOWN") == told + 1);
    media.stop();
}

#[test]
fn an_orderly_end_keeps_what_it_is_told_to() {
    let mut media = Media::start("xdp", &[("# at_end = ", "at_end = ")]);
    let live = Options { live: true, tracks: 1, ..Options::default() };
    let server = Server::outlasting(&media.servers, &ORIGINS, &live);
    let mut own = viewer(&media, PROXIES[1], &format!("{}/live", ORIGINS[0]), 1);
    own.play();
    let mut received = own.receive(0, 50);
    media.interrupt();
    assert_eq!(server.count("TEARDOWN"), 0);
    media.start_again();
    received.extend(own.come(0));
    received.extend(own.receive(0, 50));
    compare(&received, &server.log.lock().unwrap().sent[&0]);
    own.connect_again(&media.viewers);
    own.good("TEARDOWN", &own.url.clone(), &[]);
    media.wait("the origin was not told", |_| server.count("TEARDOWN") == 1);
    media.stop();
}
