//! Sources without RTSP, and origins that send to groups.

use std::sync::Arc;
use std::time::Duration;

use media::proxy::world::{From, Interface, Listening};
use media::settings::Named;
use media::settings::plain::{MP2T, Plain, place};
use media::tables::{Leads, Progress};
use wire::rtp;
use wire::rtp::Rewrite;
use wire::rtsp::rtp_info;
use wire::sdp::Description;

use crate::model::{CLIENT, Model, OTHER};
use crate::origin::Options;

pub const HALL: &str = "rtsp://proxy/hall";
pub const A: &str = "10.0.2.11:7000";
pub const B: &str = "10.0.2.12:7000";

/// A stream without RTSP.
pub fn hall(url: &str, source: Option<&str>) -> Named {
    let (first, bare) = place(url).unwrap();
    let plain = Plain {
        places: vec![first],
        source: source.map(|text| text.parse().unwrap()),
        interface: Some("servers".into()),
        bare,
        description: Description::parse(MP2T.as_bytes()).unwrap(),
    };
    let plain = Some(Arc::new(plain));
    Named { name: "hall".into(), url: url.into(), live: Some(true), plain, ..Named::default() }
}

pub fn model(url: &str, source: Option<&str>) -> Model {
    Model::with(Options::default(), |settings| settings.streams.push(hall(url, source)))
}

pub fn plays(model: &mut Model, from: &str, port: u16) -> String {
    let client = model.client(from);
    let session = model.set_up(client, HALL, 1, port);
    model.good(client, "PLAY", HALL, &[("Session", &session)]);
    session
}

/// A datagram comes to the group's socket.
pub fn comes(model: &mut Model, from: &str, bytes: &[u8]) {
    model.proxy.media_at_socket("239.1.2.3".parse().unwrap(), 5004, from.parse().unwrap(), bytes);
    model.run();
}

pub fn rtp(sequence: u16, timestamp: u32, ssrc: u32) -> Vec<u8> {
    let mut packet = vec![0; 12 + 188];
    (packet[0], packet[1], packet[12]) = (0x80, 33, 0x47);
    rtp::Header { sequence, timestamp, ssrc }.write(&mut packet);
    packet
}

#[track_caller]
pub fn receiver(model: &Model) -> (u32, Rewrite, String) {
    let (key, flow) = model.flow_from(7000);
    assert_eq!(key.dst.to_string(), "239.1.2.3:5004");
    let Leads::Receiver { rewrite, .. } = flow.leads else { panic!("{flow:?}") };
    (flow.track, rewrite, key.src.ip().to_string())
}

#[test]
fn a_group_is_joined_for_its_viewers_and_left_behind_them() {
    let mut model = model("rtp://239.1.2.3:5004", None);
    let client = model.client(CLIENT);
    let answer = model.good(client, "DESCRIBE", HALL, &[]);
    let description = Description::parse(&answer.body).unwrap();
    assert_eq!((description.media(), description.is_live(), description.clock_rate(0)), (1, true, Some(90_000)));
    let listening = Listening {
        address: "239.1.2.3".parse().unwrap(),
        port: 5004,
        source: None,
        interface: Interface::Named("servers".into()),
        reports: true,
    };
    assert_eq!(model.proxy.world.listening, [listening]);
    let session = model.set_up(client, HALL, 1, 5000);
    model.good(client, "PLAY", HALL, &[("Session", &session)]);
    assert!(model.flows.is_empty(), "nobody has sent");
    comes(&mut model, A, &rtp(9, 900, 7));
    let (track, rewrite, from) = receiver(&model);
    assert_eq!((from.as_str(), model.proxy.counts.at_sockets), ("10.0.2.11", 1));
    // Another viewer is told what comes next, and both get it by a worker.
    let progress = Progress { packets: 5, seen: 31, highest: 14, timestamp: 1800, ssrc: 7, ..Progress::default() };
    model.proxy.world.progress.insert(track, progress);
    let other = model.client(OTHER);
    let own = model.set_up(other, HALL, 1, 6000);
    let answer = model.good(other, "PLAY", HALL, &[("Session", &own)]);
    let (_, flow) = model.flow_from(7000);
    assert_eq!((flow.leads, flow.rate), (Leads::Group, 90_000));
    assert!(rtp_info::parse(answer.headers.get("rtp-info").unwrap())[0].seq.is_some());
    assert_eq!(model.proxy.world.listening.len(), 1, "it is joined once");
    // Its reports are passed on, and nothing is sent to it.
    let report = wire::rtcp::SenderReport { ssrc: 7, ntp: 1 << 32, rtp: 900, packets: 2, octets: 10 };
    model.datagrams.clear();
    let group = "239.1.2.3".parse().unwrap();
    model.proxy.report_from_origin(group, 5004, "10.0.2.11:7001".parse().unwrap(), &report.to_bytes("x", false));
    model.proxy.report_from_origin(group, 5004, "10.0.2.12:7001".parse().unwrap(), &report.to_bytes("x", false));
    model.run();
    let got: Vec<_> = model.datagrams.iter().filter(|(_, to, _)| to.port() == 5001).collect();
    assert_eq!(got.len(), 1);
    assert_eq!(wire::rtcp::parse(&got[0].2).unwrap().senders[0].ssrc, rewrite.ssrc);
    model.wait(Duration::from_secs(7));
    assert!(!model.datagrams.iter().any(|(from, ..)| matches!(from, From::Pair(..))), "{:?}", model.datagrams);
    model.good(other, "TEARDOWN", HALL, &[("Session", &own)]);
    model.good(client, "TEARDOWN", HALL, &[("Session", &session)]);
    model.is_empty();
    // Who only asks what it is does not keep it.
    model.good(client, "DESCRIBE", HALL, &[]);
    model.wait(Duration::from_secs(12));
    model.is_empty();
}

#[test]
fn one_sender_is_listened_to_and_another_takes_its_place() {
    let mut model = model("rtp://239.1.2.3:5004", None);
    plays(&mut model, CLIENT, 5000);
    comes(&mut model, A, &rtp(9, 900, 7));
    // Another one at once changes nothing, nor does what is no RTP.
    comes(&mut model, B, &rtp(50, 50, 8));
    comes(&mut model, B, &[0x47; 188]);
    comes(&mut model, A, b"hello");
    let (track, before, from) = receiver(&model);
    assert_eq!(from, "10.0.2.11");
    assert_eq!((model.proxy.counts.strangers, model.proxy.counts.malformed), (1, 2));
    for _ in 0..3 {
        let heard = (model.now.as_nanos() as u64).max(1);
        let progress = Progress {
            packets: 10,
            bytes: 2000,
            seen: 0x3ff,
            highest: 18,
            timestamp: 2700,
            ssrc: 7,
            heard,
            ..Progress::default()
        };
        model.proxy.world.progress.insert(track, progress);
        comes(&mut model, B, &rtp(51, 51, 8));
        assert_eq!(receiver(&model).2, "10.0.2.11");
        model.wait(Duration::from_secs(1));
    }
    // It falls silent, and the other one goes on with the next numbers.
    model.wait(Duration::from_secs(1));
    comes(&mut model, B, &rtp(52, 52, 8));
    assert_eq!(model.proxy.counts.senders, 1);
    let (key, flow) = model.flow_from(7000);
    assert_eq!((key.src.ip().to_string(), flow.leads, flow.tapped), ("10.0.2.12".into(), Leads::Nobody, true));
    assert_ne!(flow.track, track);
    model.datagrams.clear();
    model.proxy.deliver(flow.track, 0, &rtp(53, 10_000, 8));
    model.run();
    let got = model.datagrams.iter().find(|(_, to, _)| to.port() == 5000).unwrap();
    let got = rtp::Header::read(&got.2).unwrap();
    assert_eq!((got.ssrc, got.sequence), (before.ssrc, 19u16.wrapping_add(before.sequence)));
    assert_eq!(got.timestamp, (2700u32 + 2 * 90_000).wrapping_add(before.timestamp));
    let (_, after, from) = receiver(&model);
    assert_eq!((from.as_str(), after.ssrc), ("10.0.2.12", before.ssrc));
    // One that says BYE may be followed at once.
    model.proxy.world.progress.insert(flow.track, Progress { seen: 1, ssrc: 8, heard: 1, ..Progress::default() });
    let bye = wire::rtcp::bye(8, "x", "");
    model.proxy.report_from_origin("239.1.2.3".parse().unwrap(), 5004, "10.0.2.12:7001".parse().unwrap(), &bye);
    model.run();
    assert!(model.flows.is_empty());
    comes(&mut model, A, &rtp(1, 1, 9));
    assert_eq!(model.flow_from(7000).0.src.ip().to_string(), "10.0.2.11");
    assert_eq!(model.proxy.counts.failed, 0);
    // What the session had of all of them is counted.
    let id = model.proxy.session_states()[0].id;
    model.proxy.kill(id);
    model.run();
    assert_eq!((model.logged[0].packets, model.logged[0].bytes), (10, 2000));
    model.is_empty();
}

#[test]
fn silence_is_noticed_and_ends_viewers_after_a_while() {
    let mut model = model("rtp://239.1.2.3:5004", None);
    let session = plays(&mut model, CLIENT, 5000);
    comes(&mut model, A, &rtp(9, 900, 7));
    let (track, ..) = receiver(&model);
    let heard = model.now.as_nanos() as u64 + 1;
    model.proxy.world.progress.insert(track, Progress { seen: 1, heard, ..Progress::default() });
    model.wait(Duration::from_secs(9));
    assert_eq!(model.proxy.counts.silences, 0);
    model.wait(Duration::from_secs(2));
    assert_eq!(model.proxy.counts.silences, 1);
    assert!(model.flows.is_empty());
    let shown = model.proxy.origin_states();
    let own = shown.iter().find(|own| own.origin == "rtp://239.1.2.3:5004").unwrap();
    assert_eq!((own.sessions, own.last_error.as_str()), (1, "nothing has come for 10 s"));
    // It comes again.
    comes(&mut model, A, &rtp(10, 900, 7));
    let (_, flow) = model.flow_from(7000);
    model.proxy.deliver(flow.track, 0, &rtp(11, 900, 7));
    let heard = model.now.as_nanos() as u64;
    model.proxy.world.progress.insert(flow.track, Progress { seen: 1, heard, ..Progress::default() });
    model.wait(Duration::from_secs(9));
    assert_eq!(model.proxy.counts.silences, 1);
    // And no more: the client keeps asking, and is told the end after `retry`.
    let client = model.client(CLIENT);
    for _ in 0..5 {
        model.wait(Duration::from_secs(6));
        model.good(client, "GET_PARAMETER", HALL, &[("Session", &session)]);
    }
    assert_eq!(model.proxy.counts.silences, 2);
    model.datagrams.clear();
    model.wait(Duration::from_secs(2));
    let bye = model.datagrams.iter().find(|(_, to, _)| to.port() == 5001).expect("BYE");
    assert_eq!(wire::rtcp::parse(&bye.2).unwrap().reason.as_deref(), Some("origin_lost"));
    assert_eq!(model.logged[0].ended, "origin_lost");
    model.is_empty();
}

#[test]
fn bare_transport_streams_get_a_header() {
    let mut model = model("udp://239.1.2.3:5004", None);
    plays(&mut model, CLIENT, 5000);
    let stream: Vec<u8> = (0..7 * 188u32).map(|at| if at % 188 == 0 { 0x47 } else { ((at * 7) >> 3) as u8 }).collect();
    let mut got = Vec::new();
    for count in 0..3 {
        model.datagrams.clear();
        let payload = &stream[count * 188..];
        comes(&mut model, A, payload);
        let [(from, to, bytes)] = &model.datagrams[..] else { panic!("{:?}", model.datagrams) };
        assert_eq!((*from, to.to_string()), (From::Media("10.0.1.1".parse().unwrap()), "10.0.1.11:5000".into()));
        assert_eq!((&bytes[..2], &bytes[12..]), (&[0x80, 33][..], payload));
        got.push(rtp::Header::read(bytes).unwrap());
        model.wait(Duration::from_millis(500));
    }
    for two in got.windows(2) {
        assert_eq!(two[1].sequence.wrapping_sub(two[0].sequence), 1);
        assert_eq!(two[1].timestamp.wrapping_sub(two[0].timestamp), 45_000);
        assert_eq!(two[1].ssrc, two[0].ssrc);
    }
    // The program has sent them on.
    assert_eq!((model.proxy.counts.relayed, model.proxy.counts.delivered, model.to_groups), (3, 0, 3));
    assert!(model.flows.is_empty());
    // What is cut, or no transport stream; and another sender.
    comes(&mut model, A, &stream[..187]);
    comes(&mut model, A, &[0; 188]);
    comes(&mut model, A, b"");
    comes(&mut model, B, &stream);
    assert_eq!((model.proxy.counts.malformed, model.proxy.counts.strangers), (3, 1));
    model.wait(Duration::from_secs(2));
    // Another one goes on, and RTP is taken as such.
    comes(&mut model, B, &stream);
    assert_eq!((model.proxy.counts.senders, model.proxy.counts.relayed), (1, 4));
    model.wait(Duration::from_secs(2));
    comes(&mut model, A, &rtp(1, 1, 1));
    assert_eq!(model.flow_from(7000).0.src.to_string(), A);
    assert!(!model.proxy.world.listening[0].reports);
}

#[test]
fn each_stream_of_a_description_has_a_place() {
    let sdp = "v=0\nm=video 0 RTP/AVP 96\na=rtpmap:96 H264/90000\nm=audio 0 RTP/AVP 0\n";
    let plain = Plain {
        places: vec![("239.1.2.3".parse().unwrap(), 5004), ("239.1.2.4".parse().unwrap(), 6000)],
        source: None,
        interface: None,
        bare: false,
        description: Description::parse(sdp.as_bytes()).unwrap(),
    };
    let mut model = Model::with(Options::default(), |settings| {
        settings.streams.push(Named { plain: Some(Arc::new(plain)), ..hall("rtp://239.1.2.3:5004", None) });
    });
    let client = model.client(CLIENT);
    let session = model.set_up(client, HALL, 2, 5000);
    model.good(client, "PLAY", HALL, &[("Session", &session)]);
    comes(&mut model, A, &rtp(9, 900, 7));
    model.proxy.media_at_socket("239.1.2.4".parse().unwrap(), 6000, "10.0.2.12:9".parse().unwrap(), &rtp(1, 1, 1));
    model.run();
    let (key, flow) = model.flow_from(9);
    assert_eq!((key.dst.to_string(), flow.rate), ("239.1.2.4:6000".into(), 8000));
    assert!(matches!(flow.leads, Leads::Receiver { to, .. } if to.port() == 5002));
    assert_eq!((receiver(&model).2.as_str(), model.flow_from(7000).1.rate), ("10.0.2.11", 90_000));
    // The second one can't be had: the first is given back.
    model.good(client, "TEARDOWN", HALL, &[("Session", &session)]);
    model.is_empty();
    model.proxy.world.no_port.insert(6000);
    assert_eq!(model.ask(client, "DESCRIBE", HALL, &[]).status, 503);
    model.is_empty();
}

#[test]
fn who_is_not_the_source_is_not_listened_to() {
    let mut model = model("rtp://239.1.2.3:5004", Some("10.0.2.12"));
    plays(&mut model, CLIENT, 5000);
    assert_eq!(model.proxy.world.listening[0].source, Some("10.0.2.12".parse().unwrap()));
    comes(&mut model, A, &rtp(9, 900, 7));
    assert!(model.flows.is_empty());
    comes(&mut model, B, &rtp(9, 900, 7));
    assert_eq!(receiver(&model).2, "10.0.2.12");
    assert_eq!(model.proxy.counts.strangers, 1);
}

#[test]
fn ports_that_cannot_be_had_are_told() {
    let mut model = model("rtp://239.1.2.3:5004", None);
    model.proxy.world.no_port.insert(5004);
    let client = model.client(CLIENT);
    assert_eq!(model.ask(client, "DESCRIBE", HALL, &[]).status, 503);
    assert_eq!(model.proxy.origin_states()[0].last_error, "taken");
    model.is_empty();
    model.proxy.world.no_port.clear();
    model.good(client, "DESCRIBE", HALL, &[]);
}

pub const DOOR: &str = "rtsp://proxy/door";

pub fn grouped(group: &str) -> Model {
    let options = Options { live: true, group: Some(group.into()), ..Options::default() };
    Model::with(options, |settings| (settings.streams[0].multicast, settings.streams[0].carried) = (true, Some(false)))
}

#[test]
fn servers_send_to_groups_where_the_configuration_wants_it() {
    let mut model = grouped("239.9.9.9");
    let client = model.client(CLIENT);
    let session = model.set_up(client, DOOR, 2, 5000);
    model.good(client, "PLAY", DOOR, &[("Session", &session)]);
    let (origin, _) = model.origins.values().last().unwrap();
    let asked: Vec<_> = origin.asked.iter().filter_map(|request| request.headers.get("transport")).collect();
    assert_eq!(asked, ["RTP/AVP;multicast"; 2]);
    let listening: Vec<_> = model.proxy.world.listening.iter().map(|own| (own.address, own.port)).collect();
    let group = "239.9.9.9".parse().unwrap();
    assert_eq!(listening, [(group, 6100), (group, 6102)]);
    assert_eq!(model.proxy.world.listening[0].interface, Interface::Of("10.0.2.1".parse().unwrap()));
    // The port it is sent from is known by the first packet, which only the server sends.
    for (from, flows) in [("10.0.2.12:9000", 0), ("10.0.2.99:9000", 1)] {
        model.proxy.media_at_socket(group, 6102, from.parse().unwrap(), &rtp(1, 1, 1));
        model.run();
        assert_eq!(model.flows.len(), flows, "{from}");
    }
    let (key, flow) = model.flow_from(9000);
    assert_eq!(key.dst.to_string(), "239.9.9.9:6102");
    assert!(matches!(flow.leads, Leads::Receiver { to, .. } if to.port() == 5002));
    model.good(client, "TEARDOWN", DOOR, &[("Session", &session)]);
    model.is_empty();
    // What is no group is not joined.
    for wrong in ["10.0.2.5", "224.0.0.5", "127.0.0.1", "x"] {
        let mut model = grouped(wrong);
        let client = model.client(CLIENT);
        let transport = [("Transport", "RTP/AVP;unicast;client_port=5000-5001")];
        assert_eq!(model.ask(client, "SETUP", "rtsp://proxy/door/trackID=0", &transport).status, 502, "{wrong}");
        assert!(model.proxy.world.listening.is_empty());
    }
}
