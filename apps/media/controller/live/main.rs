//! The media proxy on live network namespaces: real connections and datagrams, in the kernel and on workers.
//!
//! They need root (`afpacket` alone does with `unshare --user --map-root-user`), and fail without.

mod api_server;
mod cache;
mod crowd;
mod disk;
mod films;
mod flows;
mod hls;
mod late;
mod many;
mod members;
mod neighbours;
mod network;
#[path = "../tests/support/origin.rs"]
mod origin;
mod parents;
mod peers;
mod pools;
mod publisher;
mod restart;
mod room;
mod server;
mod slow;
mod source;
mod viewer;

#[allow(dead_code)]
#[path = "../../../../tests/support/instance.rs"]
mod instance;
#[path = "../../../../tests/support/ipfix.rs"]
mod ipfix;
#[allow(dead_code)]
#[path = "../../../../tests/support/process.rs"]
mod process;

use std::net::IpAddr;
use std::time::Duration;

use network::Media;
use origin::Options;
use publisher::Publisher;
use server::{SSRC, Server};
use viewer::{Viewer, compare};

const ORIGINS: [&str; 2] = ["10.0.2.11:8554", "[2001:db8:2::11]:8554"];
/// The proxy's address for viewers, and that of the viewer, of both versions of IP.
const PROXIES: [(&str, &str); 2] = [("10.0.1.1:8554", "10.0.1.11"), ("[2001:db8:1::1]:8554", "2001:db8:1::11")];

fn viewer(media: &Media, (proxy, own): (&str, &str), path: &str, tracks: usize) -> Viewer {
    let own: IpAddr = own.parse().unwrap();
    let mut viewer = Viewer::connect(&media.viewers, proxy, path);
    viewer.good("OPTIONS", &viewer.url.clone(), &[]);
    viewer.good("DESCRIBE", &viewer.url.clone(), &[("Accept", "application/sdp")]);
    (0..tracks).for_each(|track| viewer.set_up(&media.viewers, own, track));
    viewer
}

/// A film with two tracks, from origins and to viewers of both versions of IP; every byte is compared.
fn films(driver: &str) {
    const PACKETS: usize = 60;
    let media = Media::start(driver, &[]);
    let server = Server::start(&media.servers, &ORIGINS, &Options::default());
    let mut passed = 0;
    for origin in ORIGINS {
        for proxy in PROXIES {
            let mut own = viewer(&media, proxy, &format!("{origin}/film"), 2);
            own.play();
            for track in 0..2 {
                let received = own.receive(track, PACKETS);
                let sent = server.log.lock().unwrap().sent[&track].clone();
                assert_eq!(compare(&received, &sent), 0, "{origin} to {proxy:?}: nothing is missing");
                let (first, time) = own.begin(track).unwrap();
                assert_eq!((received[0].0, received[0].1), (first, time), "where PLAY said that it begins");
            }
            let report = wire::rtcp::parse(&own.report(1)).unwrap().senders[0];
            assert_eq!(report.ssrc, own.ssrc(1));
            own.good("TEARDOWN", &own.url.clone(), &[]);
            passed += 2 * PACKETS as u64;
            server.log.lock().unwrap().sent.clear();
        }
    }
    media.wait("something is left", |media| {
        media.json(&["media", "sessions"]).as_array().unwrap().is_empty()
            && media.json(&["media", "streams"]).as_array().unwrap().is_empty()
    });
    if driver == "xdp" {
        // No packet of a stream came to a socket, to a worker or to the controller.
        assert_eq!(media.metric("media_packets_at_sockets_total"), 0);
        assert_eq!(media.metric("media_packets_tapped_total"), 0);
        for channel in ["to_controller", "shared"] {
            assert_eq!(["forward4", "forward6"].map(|own| media.channel(&format!("{own}.{channel}"))), [0, 0]);
        }
    }
    let sent: u64 = ["forward4", "forward6", "translate46", "translate64"]
        .map(|module| media.channel(&format!("{module}.output")))
        .iter()
        .sum();
    assert!(sent >= passed, "{sent} of {passed}");
    media.stop();
}

#[test]
fn films_pass_in_the_kernel() {
    films("xdp");
}

#[test]
fn films_pass_on_workers() {
    films("afpacket");
}

#[test]
fn one_live_stream_serves_all_its_viewers() {
    let media = Media::start("xdp", &[]);
    let live = Options { live: true, tracks: 1, ..Options::default() };
    let server = Server::start(&media.servers, &ORIGINS, &live);
    let path = format!("{}/live", ORIGINS[0]);
    let mut first = viewer(&media, PROXIES[0], &path, 1);
    first.play();
    let mut before = first.receive(0, 50);
    // One over IPv6, one on its connection; the first goes on without a gap.
    let mut second = viewer(&media, PROXIES[1], &path, 1);
    second.play();
    let mut third = Viewer::connect(&media.viewers, PROXIES[0].0, &path);
    third.set_up_interleaved(0);
    third.play();
    let all = [second.receive(0, 100), third.receive(0, 100)];
    before.extend(first.receive(0, 200));
    let sent = || server.log.lock().unwrap().sent[&0].clone();
    assert_eq!(compare(&before, &sent()), 0, "others join and disturb nobody");
    for (received, viewer) in all.iter().zip([&second, &third]) {
        assert_eq!(compare(received, &sent()), 0);
        let begin = viewer.begin(0).unwrap().0;
        assert!(received[0].0.wrapping_sub(begin) < 1000, "it begins about where PLAY said");
    }
    assert_eq!((server.count("PLAY"), server.count("SETUP")), (1, 1));
    let shown = media.json(&["media", "streams"]);
    assert_eq!((&shown[0]["sessions"], &shown[0]["live"]), (&3.into(), &true.into()), "{shown}");
    // What receivers say is shown, and one report of all goes to the origin.
    let report = wire::rtcp::Report {
        ssrc: first.ssrc(0),
        fraction_lost: 128,
        lost: 3,
        highest: 9,
        jitter: 90,
        last_sender_report: 0,
        delay: 0,
    };
    first.send_report(0, "10.0.1.1:8001".parse().unwrap(), &wire::rtcp::receiver_report(1, "v", Some(&report)));
    media.wait("no report of the receiver", |media| {
        media.json(&["media", "sessions"])[0]["tracks"][0]["loss_percent"] == 50.0
    });
    media.wait("no report to the origin", |_| {
        let log = server.log.lock().unwrap();
        log.reports
            .iter()
            .filter_map(|(_, bytes)| wire::rtcp::parse(bytes))
            .any(|own| own.reports.iter().any(|report| report.ssrc == SSRC && report.lost == 0))
    });
    // One over UDP and one on its connection: the first one's packets stay in the kernel, the other gets copies.
    second.good("TEARDOWN", &second.url.clone(), &[]);
    let direct = media.channel("forward4.output");
    media.wait("packets do not stay in the kernel", |media| media.channel("forward4.output") > direct);
    let by_worker = media.channel("forward4.shared");
    assert_eq!(compare(&[first.receive(0, 150), first.receive(0, 50)].concat(), &sent()), 0);
    assert_eq!(compare(&third.receive(0, 200), &sent()), 0);
    assert_eq!(media.channel("forward4.shared"), by_worker);
    // The last one that leaves ends the stream.
    third.good("TEARDOWN", &third.url.clone(), &[]);
    drop(third);
    assert_eq!(compare(&first.receive(0, 100), &sent()), 0);
    assert_eq!(server.count("TEARDOWN"), 0);
    first.good("TEARDOWN", &first.url.clone(), &[]);
    media.wait("the origin was not told", |_| server.count("TEARDOWN") == 1);
    media.stop();
}

#[test]
fn forty_viewers_come_and_go() {
    crowd::comes_and_goes(40, Duration::from_millis(20), 60);
}

/// `cargo test --release --package millrace --test media -- --ignored --nocapture thousand`.
#[test]
#[ignore = "it takes minutes"]
fn a_thousand_viewers_come_and_go() {
    crowd::comes_and_goes(1000, Duration::from_millis(50), 1000);
}

#[test]
fn an_origin_that_dies_ends_its_sessions() {
    let media = Media::start("xdp", &[("retry = \"30s\"", "retry = \"0s\"")]);
    let server = Server::start(&media.servers, &ORIGINS, &Options { live: true, tracks: 1, ..Options::default() });
    let path = format!("{}/live", ORIGINS[0]);
    let mut carried = Viewer::connect(&media.viewers, PROXIES[0].0, &path);
    carried.set_up_interleaved(0);
    carried.play();
    carried.receive(0, 20);
    server.kill();
    assert!(carried.is_closed());
    media.wait("sessions are left", |media| media.json(&["media", "sessions"]).as_array().unwrap().is_empty());
    let origins = media.json(&["media", "origins"]);
    assert_eq!((&origins[0]["origin"], &origins[0]["failed"]), (&"10.0.2.11:8554".into(), &1.into()), "{origins}");
    media.stop();
}

#[test]
fn a_client_that_vanishes_is_noticed() {
    let media = Media::start("xdp", &[("session = \"60s\"", "session = \"6s\"")]);
    let server = Server::start(&media.servers, &ORIGINS, &Options { live: true, tracks: 1, ..Options::default() });
    let mut own = Viewer::connect(&media.viewers, PROXIES[0].0, &format!("{}/live", ORIGINS[0]));
    own.set_up(&media.viewers, PROXIES[0].1.parse().unwrap(), 0);
    own.play();
    own.receive(0, 20);
    drop(own);
    media.wait("it was not noticed", |media| media.metric("media_vanished_total") == 1);
    media.wait("the origin was not told", |_| server.count("TEARDOWN") == 1);
    // Operators end sessions, too.
    let mut own = viewer(&media, PROXIES[1], &format!("{}/live", ORIGINS[1]), 1);
    own.play();
    let id = media.json(&["media", "sessions"])[0]["id"].to_string();
    assert!(media.millrace(&["media", "kill", &id]).ok().contains(&id));
    assert_eq!(own.ask("PLAY", &own.url.clone(), &[]).status, 454);
    let streams = media.millrace(&["media", "streams"]).ok();
    assert!(streams.contains("duplicate"), "{streams}");
    media.stop();
}

#[test]
fn who_is_not_allowed_is_refused() {
    let media = Media::start("afpacket", &[]);
    let mut own = Viewer::connect(&media.viewers, PROXIES[0].0, "127.0.0.1:22/x");
    assert_eq!(own.ask("DESCRIBE", &own.url.clone(), &[]).status, 403);
    // Nobody is at the named stream's origin.
    let mut own = Viewer::connect(&media.viewers, PROXIES[0].0, "door");
    assert_eq!(own.ask("DESCRIBE", &own.url.clone(), &[]).status, 502);
    assert_eq!(own.ask("OPTIONS", "*", &[]).status, 200);
    media.stop();
}

/// Over UDP packets are forwarded in the kernel; those on a connection are relayed, and its end is the stream's.
#[test]
fn published_streams_are_viewed() {
    const PACKETS: u16 = 100;
    let section = "[controllers.media.limits]";
    let stage = format!("[controllers.media.streams.stage]\npublish.addresses = \"10.0.2.0/24\"\n\n{section}");
    let media = Media::start("xdp", &[(section, &stage)]);
    for udp in [true, false] {
        let mut publisher = Publisher::start(&media.servers, "10.0.2.1:8554", "stage", udp);
        let mut own = viewer(&media, PROXIES[1], "stage", 1);
        own.play();
        publisher.send(PACKETS);
        assert_eq!(compare(&own.receive(0, PACKETS.into()), &publisher.sent), 0);
        let mut carried = Viewer::connect(&media.viewers, PROXIES[0].0, "stage");
        carried.set_up_interleaved(0);
        carried.play();
        publisher.send(PACKETS);
        assert_eq!(compare(&carried.receive(0, PACKETS.into()), &publisher.sent), 0);
        if udp {
            assert_eq!(media.metric("media_packets_at_sockets_total"), 0);
            assert_eq!(media.metric("media_packets_relayed_total"), 0);
        } else {
            assert_eq!(media.metric("media_packets_relayed_total"), 2 * u64::from(PACKETS));
        }
        drop(publisher);
        assert!(carried.is_closed());
        media.wait("the stream is there", |media| media.json(&["media", "streams"]).as_array().unwrap().is_empty());
    }
    let origins = media.json(&["media", "origins"]).to_string();
    assert!(origins.contains("the connection of its publisher has ended"), "{origins}");
    media.stop();
}

/// Streams and answers go by the GET, requests and reports by POSTs, of which another one takes the place of the first.
#[test]
fn streams_pass_by_tunnels_over_http() {
    let media = Media::start("xdp", &[]);
    let server = Server::start(&media.servers, &ORIGINS, &Options { live: true, tracks: 1, ..Options::default() });
    for (proxy, _) in PROXIES {
        let mut own = Viewer::tunnel(&media.viewers, proxy, &format!("{}/live", ORIGINS[0]));
        own.good("DESCRIBE", &own.url.clone(), &[("Accept", "application/sdp")]);
        own.set_up_interleaved(0);
        own.play();
        let first = own.receive(0, 100);
        own.post(&media.viewers, proxy);
        own.good("GET_PARAMETER", &own.url.clone(), &[]);
        let received = [first, own.receive(0, 100)].concat();
        let sent = server.log.lock().unwrap().sent[&0].clone();
        assert_eq!(compare(&received, &sent), 0);
        assert_eq!(media.json(&["media", "sessions"])[0]["tracks"][0]["to"], "tunnelled");
        own.good("TEARDOWN", &own.url.clone(), &[]);
        drop(own);
    }
    media.wait("something is left", |media| media.metric("media_connections") == 0);
    assert_eq!(media.metric("media_tunnels_total"), 2);
    assert_eq!(media.metric("media_packets_slow_total"), 0);
    media.stop();
}

/// Clients that send the origin's own URL to the proxy, and prove the origin's password.
#[test]
fn an_origins_password_passes() {
    let media = Media::start("xdp", &[]);
    let password = Some(("viewer".to_owned(), "secret".to_owned()));
    let options = Options { live: true, tracks: 1, password, ..Options::default() };
    let server = Server::start(&media.servers, &ORIGINS, &options);
    let connect = |(proxy, _), origin, password: &str| {
        let mut own = Viewer::connect(&media.viewers, proxy, "");
        own.url = format!("rtsp://{origin}/live");
        let answer = own.ask("DESCRIBE", &own.url.clone(), &[]);
        assert_eq!(answer.status, 401);
        let challenge = answer.headers.get("www-authenticate").unwrap();
        let nonce = challenge.split("nonce=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap();
        own.password = Some(["viewer", password, nonce].map(str::to_owned));
        own
    };
    for (proxy, origin) in PROXIES.into_iter().zip(ORIGINS) {
        let mut own = connect(proxy, origin, "secret");
        own.good("DESCRIBE", &own.url.clone(), &[]);
        own.set_up(&media.viewers, proxy.1.parse().unwrap(), 0);
        own.play();
        let received = own.receive(0, 100);
        // Somebody else is not let in, though the stream is there.
        let mut other = connect(proxy, origin, "guess");
        assert_eq!(other.ask("DESCRIBE", &other.url.clone(), &[]).status, 401);
        let sent = server.log.lock().unwrap().sent[&0].clone();
        assert_eq!(compare(&received, &sent), 0);
        own.good("TEARDOWN", &own.url.clone(), &[]);
        media.wait("the origin was not told", |_| {
            let asked = &server.log.lock().unwrap().asked;
            asked.iter().any(|own| own.method == "TEARDOWN" && own.headers.get("authorization").is_some())
        });
        server.log.lock().unwrap().sent.clear();
        server.log.lock().unwrap().asked.clear();
    }
    assert_eq!(media.metric("media_packets_tapped_total"), 0);
    media.stop();
}
