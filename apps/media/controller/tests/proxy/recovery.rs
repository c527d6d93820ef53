//! An origin that fails in mid-stream: sessions go on from another one, or end when there is none.

use std::time::Duration;

use control::admin_state::AdminState;
use media::tables::{Leads, Progress};
use wire::rtp::Rewrite;
use wire::rtsp::framing::Item;
use wire::rtsp::message::Request;

use crate::model::{CLIENT, Model, OTHER, URL};
use crate::origin::Options;
use crate::pools::{A, B, DOOR, plays, pooled_model};

fn live() -> Options {
    Options { live: true, tracks: 1, ..Options::default() }
}

/// The track's place and its only receiver's numbers, with the host that packets come from.
#[track_caller]
fn receiver(model: &Model) -> (u32, Rewrite, String) {
    let (key, flow) = model.flow_from(6970);
    let Leads::Receiver { rewrite, .. } = flow.leads else { panic!("{flow:?}") };
    (flow.track, rewrite, key.src.ip().to_string())
}

/// Ten packets have come, the last one now.
fn come(model: &mut Model, track: u32) {
    let heard = model.now.as_nanos() as u64;
    let progress =
        Progress { packets: 10, seen: 0x3ff, highest: 65539, timestamp: 77_000, ssrc: 7, heard, ..Progress::default() };
    model.proxy.world.progress.insert(track, progress);
}

/// The first packet of another origin.
const FIRST: [u8; 13] = [0x80, 33, 0, 100, 0, 0, 0x13, 0x88, 1, 2, 3, 4, 42];

/// The stream goes on from a host, with numbers behind those of [`come`], `seconds` later.
#[track_caller]
fn goes_on_from(model: &mut Model, host: &str, before: Rewrite, seconds: u32) {
    let (key, flow) = model.flow_from(6970);
    assert_eq!((key.src.ip().to_string(), flow.leads, flow.tapped), (host.to_owned(), Leads::Nobody, true));
    model.datagrams.clear();
    model.proxy.deliver(flow.track, 0, &FIRST);
    model.run();
    let (_, after, _) = receiver(model);
    let rtp: Vec<_> = model.datagrams.iter().filter(|(_, to, _)| to.port() == 5000).collect();
    assert_eq!(rtp.len(), 1);
    let got = wire::rtp::Header::read(&rtp[0].2).unwrap();
    assert_eq!(got.ssrc, before.ssrc);
    assert_eq!(got.sequence, 4u16.wrapping_add(before.sequence));
    assert_eq!(got.timestamp, (77_000 + seconds * 90_000).wrapping_add(before.timestamp));
    let then = after.apply(wire::rtp::Header { sequence: 101, timestamp: 5000, ssrc: 0 });
    assert_eq!((then.ssrc, then.sequence), (got.ssrc, got.sequence.wrapping_add(1)));
}

/// Nobody was told an end.
#[track_caller]
fn no_bye(model: &Model) {
    let to_viewer = model.datagrams.iter().filter(|(_, to, _)| to.port() == 5001);
    assert!(to_viewer.map(|(.., bytes)| wire::rtcp::parse(bytes).unwrap()).all(|own| own.ended.is_empty()));
}

#[test]
fn a_stream_goes_on_from_another_server_of_its_pool() {
    let mut model = pooled_model(live());
    plays(&mut model, CLIENT, 5000);
    let (track, before, host) = receiver(&model);
    assert_eq!(host, A);
    come(&mut model, track);
    model.wait(Duration::from_secs(1));
    model.kill(A);
    // Packets of the first are nobody's now, and a report of the second would have times from before.
    model.proxy.deliver(track, 0, &FIRST);
    let report = wire::rtcp::SenderReport { ssrc: 9, ntp: 1, rtp: 5000, packets: 1, octets: 1 }.to_bytes("c", false);
    let key = model.flow_from(6970).0;
    model.proxy.report_from_origin(key.dst.ip(), key.dst.port(), "10.0.2.12:6971".parse().unwrap(), &report);
    model.run();
    assert!(!model.datagrams.iter().any(|(_, to, _)| [5000, 5001].contains(&to.port())), "{:?}", model.datagrams);
    model.wait(Duration::from_secs(1));
    no_bye(&model);
    goes_on_from(&mut model, B, before, 2);
    assert_eq!((model.proxy.counts.replaced, model.proxy.counts.failed), (1, 1));
    // Reports have the new times.
    model.proxy.report_from_origin(key.dst.ip(), key.dst.port(), "10.0.2.12:6971".parse().unwrap(), &report);
    model.run();
    let (.., bytes) = model.datagrams.iter().find(|(_, to, _)| to.port() == 5001).unwrap();
    let rtp = wire::rtcp::parse(bytes).unwrap().senders[0].rtp;
    assert_eq!(rtp, (77_000u32 + 2 * 90_000).wrapping_add(before.timestamp));
    // And back again: the first one is there once more.
    let (track, before, _) = receiver(&model);
    come(&mut model, track);
    model.hosts.insert(A.into(), live());
    for _ in 0..4 {
        model.wait(Duration::from_secs(5));
        come(&mut model, track);
    }
    model.kill(B);
    goes_on_from(&mut model, A, before, 0);
}

#[test]
fn what_ends_or_falls_silent_is_replaced() {
    type How = fn(&mut Model, u32);
    let ways: [(&str, How); 4] = [
        ("TEARDOWN", |model, _| {
            let id =
                *model.places.iter().rfind(|(id, host)| *host == A && !model.closed_origins.contains(id)).unwrap().0;
            let mut request = Request::new("TEARDOWN", "*");
            request.headers.push("CSeq", "1");
            model.proxy.origin_item(id, Item::Request(request));
        }),
        ("BYE", |model, _| {
            let key = model.flow_from(6970).0;
            for (ssrc, from) in [(8, "10.0.2.11:6971"), (7, "10.0.2.12:6971"), (7, "10.0.2.11:6971")] {
                assert_eq!(model.proxy.counts.failed, 0, "one of another source, or from elsewhere, means nothing");
                let bye = wire::rtcp::bye(ssrc, "camera", "");
                model.proxy.report_from_origin(key.dst.ip(), key.dst.port(), from.parse().unwrap(), &bye);
            }
        }),
        ("nothing", |model, track| {
            model.wait(Duration::from_secs(9));
            assert_eq!(model.proxy.counts.failed, 0);
            // Its reports are a sign of life.
            let key = model.flow_from(6970).0;
            let report = wire::rtcp::SenderReport { ssrc: 7, ntp: 1, rtp: 5000, packets: 1, octets: 1 };
            let bytes = report.to_bytes("c", false);
            model.proxy.report_from_origin(key.dst.ip(), key.dst.port(), "10.0.2.11:6971".parse().unwrap(), &bytes);
            model.wait(Duration::from_secs(9));
            assert_eq!(model.proxy.counts.failed, 0);
            model.wait(Duration::from_secs(1));
            come(model, track);
        }),
        ("down", |model, _| {
            let a = model.proxy.pools().named("cameras/a").unwrap();
            model.proxy.set_admin_state(a, AdminState::Down);
        }),
    ];
    for (name, how) in ways {
        let mut model = pooled_model(live());
        plays(&mut model, CLIENT, 5000);
        let (track, before, _) = receiver(&model);
        come(&mut model, track);
        model.datagrams.clear();
        how(&mut model, track);
        model.run();
        no_bye(&model);
        assert_eq!(model.proxy.counts.failed, 1, "{name}");
        // It is told, as its connection is there.
        assert_eq!(model.count(A, "TEARDOWN"), 1, "{name}");
        goes_on_from(&mut model, B, before, 0);
    }
}

#[test]
fn a_stream_with_one_server_waits_for_it() {
    let mut model = Model::new(live());
    let client = model.client(CLIENT);
    let session = model.set_up(client, URL, 1, 5000);
    model.good(client, "PLAY", URL, &[("Session", &session)]);
    let (track, before, _) = receiver(&model);
    come(&mut model, track);
    model.kill(A);
    assert!(model.flows.is_empty());
    // One that joins meanwhile waits, and one that pauses and leaves does not.
    let other = model.client(OTHER);
    model.good(other, "DESCRIBE", URL, &[]);
    let transport = [("Transport", "RTP/AVP;unicast;client_port=6000-6001")];
    assert_eq!(model.try_ask(other, "SETUP", URL, &transport), None);
    model.good(client, "GET_PARAMETER", URL, &[("Session", &session)]);
    model.wait(Duration::from_secs(10));
    let tries = model.proxy.origin_states()[0].asked - 1;
    assert!((3..=7).contains(&tries), "{tries} tries");
    model.hosts.insert(A.into(), live());
    model.wait(Duration::from_secs(8));
    assert_eq!(model.answer(other).unwrap().status, 200);
    let waited = model.now.as_secs() as u32;
    goes_on_from(&mut model, A, before, waited);
}

#[test]
fn without_an_origin_sessions_end_with_a_reason() {
    let mut model = pooled_model(live());
    let session = plays(&mut model, CLIENT, 5000);
    let (track, ..) = receiver(&model);
    come(&mut model, track);
    model.kill(A);
    model.kill(B);
    model.wait(Duration::from_secs(25));
    assert_eq!(model.proxy.sizes().1, 1);
    let client = model.client(CLIENT);
    model.good(client, "GET_PARAMETER", DOOR, &[("Session", &session)]);
    model.datagrams.clear();
    model.wait(Duration::from_secs(20));
    let bye = model.datagrams.iter().find(|(_, to, _)| to.port() == 5001).expect("BYE");
    assert_eq!(wire::rtcp::parse(&bye.2).unwrap().reason.as_deref(), Some("origin_lost"));
    model.proxy.end();
    model.run();
    model.is_empty();
}

#[test]
fn bad_origins_are_not_tried_without_end() {
    // Each plays, and is gone at once.
    let mut model = pooled_model(live());
    plays(&mut model, CLIENT, 5000);
    let mut lost = 0;
    for _ in 0..200 {
        if model.proxy.sizes().1 == 0 {
            break;
        }
        if let Some((key, _)) = model.flows.values().next().copied() {
            let host = key.src.ip().to_string();
            model.kill(&host);
            model.hosts.insert(host, live());
            lost += 1;
        }
        model.wait(Duration::from_millis(500));
    }
    assert!((4..=20).contains(&lost), "{lost}");
    assert_eq!(model.proxy.sizes().1, 0);
    // One that has another stream in its place takes nobody's.
    let mut model = pooled_model(live());
    model.hosts.insert(B.into(), Options { tracks: 2, ..live() });
    plays(&mut model, CLIENT, 5000);
    model.kill(A);
    model.wait(Duration::from_secs(45));
    assert_eq!((model.proxy.sizes().1, model.count(B, "SETUP")), (0, 0));
}

#[test]
fn many_streams_do_not_flood_the_server_that_is_left() {
    let mut model = pooled_model(Options { tracks: 1, ..Options::default() });
    for port in 0..400 {
        let from = format!("10.0.3.{}:4000", port % 200);
        plays(&mut model, &from, 5000 + 2 * port);
    }
    // They are asked, and do not answer yet.
    model.hosts.insert(B.into(), Options { silent: vec!["OPTIONS".into()], ..Options::default() });
    let before = model.count(B, "OPTIONS");
    model.kill(A);
    model.wait(Duration::from_secs(5));
    let asked = model.count(B, "OPTIONS") - before;
    assert!((64..=70).contains(&asked), "{asked} of 200, and a few checks");
}

#[test]
fn films_go_on_where_they_were() {
    let film = || Options { tracks: 1, jump: 100, ..Options::default() };
    let mut model = pooled_model(film());
    let client = model.client(CLIENT);
    let session = model.set_up(client, DOOR, 1, 5000);
    model.good(client, "PLAY", DOOR, &[("Session", &session), ("Range", "npt=20-")]);
    let (track, before, _) = receiver(&model);
    model.wait(Duration::from_secs(5));
    come(&mut model, track);
    model.wait(Duration::from_secs(1));
    model.kill(A);
    let range = |model: &Model, host: &str| {
        let of_host = model.origins.iter().filter(|(id, _)| model.places[id] == host);
        let plays = of_host.flat_map(|(_, (own, _))| &own.asked).filter(|own| own.method == "PLAY");
        plays.map(|own| own.headers.get("range").unwrap_or("").to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(range(&model, B), ["npt=25.000-"]);
    goes_on_from(&mut model, B, before, 1);
    // One that is paused is set up, and played when its viewer wants it.
    model.good(client, "PAUSE", DOOR, &[("Session", &session)]);
    model.hosts.insert(A.into(), film());
    model.wait(Duration::from_secs(20));
    model.kill(B);
    assert_eq!(range(&model, A), ["npt=20-"]);
    model.good(client, "PLAY", DOOR, &[("Session", &session)]);
    assert_eq!(range(&model, A), ["npt=20-", "npt=3.500-"]);
    // A request that nobody answered is asked of the next one.
    model.hosts.insert(B.into(), film());
    model.wait(Duration::from_secs(20));
    let connection =
        model.origins.keys().rfind(|id| model.places[id] == A && !model.closed_origins.contains(id)).copied().unwrap();
    model.origins.get_mut(&connection).unwrap().0.options.silent = vec!["PLAY".into()];
    let seek = [("Session", session.as_str()), ("Range", "npt=90-")];
    assert_eq!(model.try_ask(client, "PLAY", DOOR, &seek), None);
    model.kill(A);
    assert_eq!(model.answer(client).unwrap().status, 200);
    assert_eq!(range(&model, B).last().unwrap(), "npt=90-");
}

#[test]
fn all_viewers_of_a_stream_go_on_together() {
    let mut model = pooled_model(live());
    plays(&mut model, CLIENT, 5000);
    plays(&mut model, OTHER, 6000);
    let carried = model.client(CLIENT);
    let answer = model.good(carried, "SETUP", DOOR, &[("Transport", "RTP/AVP/TCP;unicast;interleaved=0-1")]);
    let session = answer.headers.get("session").unwrap().split(';').next().unwrap().to_owned();
    model.good(carried, "PLAY", DOOR, &[("Session", &session)]);
    let (_, flow) = model.flow_from(6970);
    assert_eq!((flow.leads, flow.tapped), (Leads::Group, true));
    let members = |model: &Model, track: u32| -> Vec<_> {
        model.proxy.world.members.iter().filter(|((of, _), _)| *of == track).map(|(_, own)| *own).collect()
    };
    let before = members(&model, flow.track);
    assert_eq!(before.len(), 2);
    come(&mut model, flow.track);
    model.data(carried);
    model.kill(A);
    assert!(members(&model, flow.track).is_empty(), "nobody gets what still comes from there");
    let (_, pending) = model.flow_from(6970);
    assert_eq!((pending.leads, pending.tapped), (Leads::Nobody, true));
    // Two packets come before the program knows where to: each viewer gets both, once.
    model.datagrams.clear();
    model.proxy.deliver(pending.track, 0, &FIRST);
    let second: Vec<u8> = [&[0x80, 33, 0, 101], &FIRST[4..]].concat();
    model.proxy.deliver(pending.track, 0, &second);
    model.run();
    let data = model.data(carried);
    assert_eq!(data.iter().filter(|(channel, _)| *channel == 0).count(), 2);
    let (_, flow) = model.flow_from(6970);
    assert_eq!((flow.leads, flow.tapped), (Leads::Group, true));
    let after = members(&model, flow.track);
    assert_eq!(after.len(), 2);
    for (own, then) in before.iter().zip(&after) {
        assert_eq!((own.to, own.rewrite.ssrc), (then.to, then.rewrite.ssrc));
        let sent: Vec<_> = model.datagrams.iter().filter(|(_, to, _)| *to == own.to).collect();
        let numbers: Vec<u16> =
            sent.iter().map(|(.., bytes)| wire::rtp::Header::read(bytes).unwrap().sequence).collect();
        assert_eq!(numbers, [4, 5].map(|next| own.rewrite.sequence.wrapping_add(next)));
        assert_eq!(then.rewrite.sequence.wrapping_add(101), numbers[1]);
    }
    // From then on the group gets them from the program, and the controller serves the connection alone.
    model.wait(Duration::from_millis(500));
    model.datagrams.clear();
    model.proxy.deliver(flow.track, flow.generation, &second);
    model.run();
    assert!(!model.datagrams.iter().any(|(_, to, _)| [5000, 6000].contains(&to.port())));
    assert_eq!(model.data(carried).len(), 1);
}
