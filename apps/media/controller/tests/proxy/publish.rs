//! Streams that clients publish.

use std::sync::Arc;
use std::time::Duration;

use http_auth::{PasswordClient, PasswordParams};
use media::proxy::ClientId;
use media::proxy::world::From;
use media::settings::access::Access;
use media::settings::{Credentials, Named, Settings};
use media::tables::{Leads, Progress};
use wire::rtsp::framing::Item;
use wire::rtsp::message::Response;
use wire::rtsp::transport;
use wire::sdp::Description;

use crate::model::{CLIENT, Model, OTHER};
use crate::origin::Options;

pub const STAGE: &str = "rtsp://proxy/stage";
const PUBLISHER: &str = "10.0.1.50:40000";
const SDP: &str = "v=0\r\no=- 0 0 IN IP4 10.0.1.50\r\ns=Stage\r\nc=IN IP4 10.0.1.1\r\nt=0 0\r\n\
    m=video 0 RTP/AVP 96\r\na=rtpmap:96 H264/90000\r\na=control:streamid=0\r\n\
    m=audio 0 RTP/AVP 8\r\na=control:streamid=1\r\n";

pub fn stage(settings: &mut Settings) {
    let addresses = vec![("10.0.1.0".parse().unwrap(), 24)];
    settings.streams.push(Named {
        name: "stage".into(),
        url: "publish:stage".into(),
        live: Some(true),
        publish: Some(Arc::new(Access { addresses, ..Access::default() })),
        ..Named::default()
    });
}

fn model() -> Model {
    Model::with(Options::default(), stage)
}

/// A stream that is published over UDP from now on.
pub fn published() -> Model {
    let mut model = model();
    let (publisher, session, _) = publish(&mut model, UDP);
    model.good(publisher, "RECORD", STAGE, &[("Session", &session)]);
    model
}

fn announce(model: &mut Model, client: ClientId, headers: &[(&str, &str)], body: &str) -> Response {
    model.announced = body.as_bytes().to_vec();
    model.ask(client, "ANNOUNCE", STAGE, headers)
}

const IS_SDP: (&str, &str) = ("Content-Type", "application/sdp");

/// Announces a stream and sets up its tracks by these transports; the publisher, its session, and the transports.
fn publish(model: &mut Model, transports: [&str; 2]) -> (ClientId, String, Vec<transport::Transport>) {
    let publisher = model.client(PUBLISHER);
    let answer = announce(model, publisher, &[IS_SDP], SDP);
    assert_eq!(answer.status, 200);
    let session = answer.headers.get("session").unwrap().split(';').next().unwrap().to_owned();
    let mut said = Vec::new();
    for (track, transport) in transports.into_iter().enumerate() {
        let headers = [("Transport", transport), ("Session", &*session)];
        let answer = model.good(publisher, "SETUP", &format!("{STAGE}/streamid={track}"), &headers);
        said.push(transport::parse(answer.headers.get("transport").unwrap()).remove(0));
    }
    (publisher, session, said)
}

const UDP: [&str; 2] =
    ["RTP/AVP/UDP;unicast;client_port=7000-7001;mode=record", "RTP/AVP/UDP;unicast;client_port=7002-7003;mode=record"];
const TCP: [&str; 2] = ["RTP/AVP/TCP;unicast;interleaved=0-1;mode=record", "RTP/AVP/TCP;unicast;mode=record"];

#[test]
fn what_comes_over_udp_is_viewed_as_any_stream() {
    let mut model = model();
    let (publisher, session, said) = publish(&mut model, UDP);
    assert_eq!(said[1].server_port, Some((20002, 20003)));
    let viewer = model.client(CLIENT);
    assert_eq!(model.ask(viewer, "DESCRIBE", STAGE, &[]).status, 404, "nothing is there before RECORD");
    model.good(publisher, "RECORD", STAGE, &[("Session", &session), ("Range", "npt=0.000-")]);
    let answer = model.good(viewer, "DESCRIBE", STAGE, &[]);
    let text = String::from_utf8(answer.body).unwrap();
    assert!(!text.contains("10.0.1.50") && text.contains("a=rtpmap:96 H264/90000"), "{text}");
    let description = Description::parse(text.as_bytes()).unwrap();
    assert_eq!((description.media(), description.is_live()), (2, true));
    let own = model.set_up(viewer, STAGE, 2, 5000);
    model.good(viewer, "PLAY", STAGE, &[("Session", &own)]);
    let (key, flow) = model.flow_from(7000);
    assert_eq!((key.src.to_string(), key.dst.to_string()), ("10.0.1.50:7000".into(), "10.0.1.1:20000".into()));
    let Leads::Receiver { to, .. } = flow.leads else { panic!("{flow:?}") };
    assert_eq!((to.to_string(), flow.rate), ("10.0.1.11:5000".into(), 90000));
    // It goes on without viewers, and as long as it comes.
    model.good(viewer, "TEARDOWN", STAGE, &[("Session", &own)]);
    for _ in 0..10 {
        model.wait(Duration::from_secs(30));
        let progress = Progress { heard: model.proxy.world.clock, seen: 1, ..Progress::default() };
        model.proxy.world.progress.insert(flow.track, progress);
    }
    let viewer = model.client(CLIENT);
    let own = model.set_up(viewer, STAGE, 1, 5000);
    model.good(viewer, "PLAY", STAGE, &[("Session", &own)]);
    // Its end is told to viewers, and is no fault.
    model.datagrams.clear();
    model.good(publisher, "TEARDOWN", STAGE, &[("Session", &session)]);
    let byes = model.datagrams.iter().filter(|(from, ..)| *from == From::Reports("10.0.1.1".parse().unwrap()));
    assert_eq!(byes.filter(|(.., bytes)| !wire::rtcp::parse(bytes).unwrap().ended.is_empty()).count(), 1);
    assert_eq!(model.proxy.counts.failed, 0);
    model.is_empty();
    // The name is free again, on the same connection, too.
    assert_eq!(announce(&mut model, publisher, &[IS_SDP], SDP).status, 200);
}

#[test]
fn what_comes_on_a_connection_is_relayed() {
    let mut model = model();
    let (publisher, session, said) = publish(&mut model, TCP);
    assert_eq!((said[0].interleaved, said[1].interleaved), (Some((0, 1)), Some((2, 3))));
    model.good(publisher, "RECORD", STAGE, &[("Session", &session)]);
    let (viewer, carried) = (model.client(CLIENT), model.client(OTHER));
    let own = model.set_up(viewer, STAGE, 2, 5000);
    model.good(viewer, "PLAY", STAGE, &[("Session", &own)]);
    let url = format!("{STAGE}/trackID=1");
    let answer = model.good(carried, "SETUP", &url, &[("Transport", "RTP/AVP/TCP;unicast;interleaved=8-9")]);
    let own = answer.headers.get("session").unwrap().split(';').next().unwrap().to_owned();
    let ssrc = transport::parse(answer.headers.get("transport").unwrap())[0].ssrc.unwrap();
    model.good(carried, "PLAY", STAGE, &[("Session", &own)]);
    assert!(model.flows.is_empty());
    model.datagrams.clear();
    for sequence in [100u16, 101] {
        let mut packet = vec![0x80, 8];
        packet.extend(sequence.to_be_bytes());
        packet.extend([0, 0, 0, 160, 9, 9, 9, 9]);
        packet.extend(b"sound");
        model.proxy.client_item(publisher, Item::Data { channel: 2, packet });
    }
    // On no track's channel, and what is no packet.
    model.proxy.client_item(publisher, Item::Data { channel: 9, packet: vec![0x80; 20] });
    model.proxy.client_item(publisher, Item::Data { channel: 2, packet: vec![1, 2] });
    model.run();
    let data = model.data(carried);
    assert_eq!(data.len(), 2);
    assert_eq!((data[0].0, &data[0].1[8..12], &data[0].1[12..]), (8, &ssrc.to_be_bytes()[..], &b"sound"[..]));
    let number = |bytes: &[u8]| u16::from_be_bytes([bytes[2], bytes[3]]);
    assert_eq!(number(&data[1].1).wrapping_sub(number(&data[0].1)), 1);
    let sent: Vec<_> = model.datagrams.iter().map(|(from, to, bytes)| (*from, to.to_string(), bytes.len())).collect();
    let expected = (From::Media("10.0.1.1".parse().unwrap()), "10.0.1.11:5002".to_owned(), 17);
    assert_eq!(sent, [expected.clone(), expected]);
    let shown = model.proxy.stream_states();
    assert_eq!((shown[0].tracks[1].packets, shown[0].tracks[1].bytes, shown[0].sessions), (2, 34, 2));
    // Reports of the sender are passed on.
    let report = wire::rtcp::SenderReport { ssrc: 0x0909_0909, ntp: 1 << 32, rtp: 160, packets: 2, octets: 10 };
    model.proxy.client_item(publisher, Item::Data { channel: 3, packet: report.to_bytes("x", false) });
    model.run();
    let (channel, bytes) = &model.data(carried)[0];
    assert_eq!((*channel, wire::rtcp::parse(bytes).unwrap().senders[0].ssrc), (9, ssrc));
}

#[test]
fn the_program_sends_on_what_it_can() {
    let mut model = model();
    let (publisher, session, _) = publish(&mut model, TCP);
    model.good(publisher, "RECORD", STAGE, &[("Session", &session)]);
    let (near, far): (&str, &str) = ("10.0.1.11:5000", "10.0.1.12:5000");
    model.proxy.world.unknown.insert("10.0.1.12".parse().unwrap());
    for from in [CLIENT, OTHER] {
        let client = model.client(from);
        let own = model.set_up(client, STAGE, 1, 5000);
        let answer = model.try_ask(client, "PLAY", STAGE, &[("Session", &own)]);
        // PLAY waits for the way, and not for ever.
        assert_eq!(answer.is_some(), from == CLIENT);
    }
    model.proxy.way_sought("10.0.1.12".parse().unwrap());
    model.run();
    let mut sequence = 0u16;
    // Who gets a packet of so many bytes, and how often the program is given one.
    let mut sends = |model: &mut Model, bytes: usize| {
        let mut packet = vec![0x80, 96];
        sequence += 1;
        packet.extend(sequence.to_be_bytes());
        packet.resize(bytes, 7);
        model.datagrams.clear();
        model.to_groups = 0;
        model.proxy.client_item(publisher, Item::Data { channel: 0, packet: packet.clone() });
        model.run();
        assert!(model.datagrams.iter().all(|(.., own)| own.len() == bytes && own[12..] == packet[12..]));
        let to = model.datagrams.iter().map(|(_, to, _)| to.to_string());
        let mut to: Vec<_> = to.collect();
        to.sort();
        (to, model.to_groups)
    };
    let both = vec![near.to_owned(), far.to_owned()];
    assert_eq!(sends(&mut model, 1000), (both.clone(), 1));
    assert_eq!(model.proxy.world.members.len(), 1, "the program knows no way to the other one");
    // What would have to be cut into fragments is the kernel's.
    assert_eq!(sends(&mut model, 1453), (both.clone(), 0));
    model.proxy.world.unknown.clear();
    model.wait(Duration::from_millis(500));
    assert_eq!(model.proxy.world.members.len(), 2);
    assert_eq!(sends(&mut model, 1452), (both.clone(), 1));
    model.proxy.world.unknown.insert("10.0.1.11".parse().unwrap());
    model.wait(Duration::from_millis(500));
    assert_eq!((model.proxy.world.members.len(), sends(&mut model, 1452)), (1, (both, 1)));
}

#[test]
fn publishers_that_go_end_their_streams() {
    let reason = |model: &Model| {
        model.proxy.origin_states().iter().find(|own| own.origin == "publish:stage").unwrap().last_error.clone()
    };
    for transports in [UDP, TCP] {
        let mut model = model();
        let (publisher, session, _) = publish(&mut model, transports);
        model.good(publisher, "RECORD", STAGE, &[("Session", &session)]);
        let viewer = model.client(CLIENT);
        let own = model.set_up(viewer, STAGE, 2, 5000);
        model.good(viewer, "PLAY", STAGE, &[("Session", &own)]);
        model.proxy.client_closed(publisher);
        model.run();
        assert_eq!(reason(&model), "the connection of its publisher has ended");
        assert_eq!(model.ask(viewer, "PLAY", STAGE, &[("Session", &own)]).status, 454);
        model.is_empty();
        // One that says nothing any more, though its connection is there.
        let (publisher, session, _) = publish(&mut model, transports);
        model.good(publisher, "RECORD", STAGE, &[("Session", &session)]);
        model.wait(Duration::from_secs(59));
        model.good(publisher, "GET_PARAMETER", STAGE, &[("Session", &session)]);
        model.wait(Duration::from_secs(59));
        assert_eq!(model.proxy.stream_states().len(), 1);
        model.wait(Duration::from_secs(5));
        assert_eq!(reason(&model), "its publisher is not heard of any more");
        assert!(model.closed_clients.contains(&publisher));
        model.is_empty();
    }
}

#[test]
fn who_may_not_publish_or_does_it_wrong_is_refused() {
    let mut model = Model::with(Options::default(), |settings| {
        stage(settings);
        settings.users = vec![Credentials { user: "band".into(), password: "loud".into() }];
        let access = Access { users: vec!["band".into()], ..Access::default() };
        settings.streams.last_mut().unwrap().publish = Some(Arc::new(access));
    });
    let client = model.client(PUBLISHER);
    let answer = announce(&mut model, client, &[IS_SDP], SDP);
    assert_eq!(answer.status, 401);
    let challenge = answer.headers.all("www-authenticate").find(|own| own.contains("MD5")).unwrap();
    let mut asked = PasswordClient::try_from(challenge).unwrap();
    let mut with = |model: &mut Model, kind: &str, body: &str| {
        let parameters =
            PasswordParams { username: "band", password: "loud", uri: STAGE, method: "ANNOUNCE", body: None };
        let proof = asked.respond(&parameters).unwrap();
        announce(model, client, &[("Content-Type", kind), ("Authorization", &proof)], body).status
    };
    assert_eq!(with(&mut model, "text/plain", SDP), 415);
    for wrong in [
        "",
        "v=0\r\n",
        &SDP.replace("streamid=1", "streamid=0"),
        &SDP.replace("RTP/AVP 8", "RTP/AVP"),
        &SDP.replace("RTP/AVP 96", "RTP/SAVP 96"),
    ] {
        assert_eq!(with(&mut model, "application/sdp", wrong), 400, "{wrong}");
    }
    assert_eq!(with(&mut model, "application/sdp", SDP), 200);
    // It is being published, by nobody else, and nothing else by this one.
    assert_eq!(with(&mut model, "application/sdp", SDP), 455);
    for (method, url, headers, status) in [
        ("RECORD", STAGE, &[][..], 455),
        ("DESCRIBE", STAGE, &[], 455),
        ("SETUP", "rtsp://proxy/stage/streamid=7", &[("Transport", UDP[0])], 404),
        ("SETUP", "rtsp://proxy/stage/streamid=0", &[("Transport", "RTP/AVP;unicast;client_port=80-81")], 461),
        ("SETUP", "rtsp://proxy/stage/streamid=0", &[("Transport", "RTP/AVP/TCP;interleaved=0-1;mode=PLAY")], 461),
        ("SETUP", "rtsp://proxy/stage/streamid=0", &[("Transport", "RTP/AVP/TCP;interleaved=4-4")], 461),
        ("SETUP", "rtsp://proxy/stage/streamid=0", &[("Transport", UDP[0]), ("Session", "1")], 454),
        ("SETUP", "rtsp://proxy/stage/streamid=0", &[("Transport", TCP[0])], 200),
        ("SETUP", "rtsp://proxy/stage/streamid=0", &[("Transport", TCP[0])], 455),
        ("SETUP", "rtsp://proxy/stage/streamid=1", &[("Transport", TCP[0])], 461),
        ("RECORD", STAGE, &[], 200),
    ] {
        assert_eq!(model.ask(client, method, url, headers).status, status, "{method} {url} {headers:?}");
    }
    let viewer = model.client(CLIENT);
    let track = |track| format!("{STAGE}/trackID={track}");
    let headers = [("Transport", "RTP/AVP;unicast;client_port=5000-5001")];
    assert_eq!(model.ask(viewer, "SETUP", &track(1), &headers).status, 404, "it was announced and does not come");
    assert_eq!(model.ask(viewer, "SETUP", &track(0), &headers).status, 200);
    // Names that are nobody's to publish.
    for url in ["rtsp://proxy/door", "rtsp://proxy/10.0.2.11/x"] {
        assert_eq!(model.ask(viewer, "ANNOUNCE", url, &[]).status, 403);
    }
    let second = model_of_second();
    assert_eq!(second, (455, 403));
}

/// What a second publisher, and one from elsewhere, are told.
fn model_of_second() -> (u16, u16) {
    let mut model = model();
    publish(&mut model, UDP);
    let (second, far) = (model.client(OTHER), model.client("10.0.9.9:1"));
    (announce(&mut model, second, &[IS_SDP], SDP).status, announce(&mut model, far, &[IS_SDP], SDP).status)
}
