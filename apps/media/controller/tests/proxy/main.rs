//! The proxy's state machine between models of clients and origins, without sockets.

mod access;
mod accounts;
mod always;
mod films;
mod forward;
mod groups;
mod hostile;
mod http;
mod late;
mod leavings;
mod members;
mod model;
#[path = "../support/origin.rs"]
mod origin;
mod peers;
mod pools;
mod publish;
mod recovery;
mod refusals;
mod sharing;
mod sides;
mod source;
mod take_up;
mod take_up_sources;
mod tunnel;
mod way;

use std::time::Duration;

use media::proxy::world::From;
use media::tables::{Leads, Progress};
use wire::rtsp::rtp_info;
use wire::rtsp::transport;
use wire::sdp::Description;

use model::{CLIENT, Model, URL};
use origin::{Options, Origin};

#[test]
fn one_viewer_gets_a_film() {
    let mut model = Model::new(Options::default());
    let client = model.client(CLIENT);
    let public = model.good(client, "OPTIONS", URL, &[]);
    assert!(public.headers.list("public").any(|method| method == "PLAY"));

    let answer = model.good(client, "DESCRIBE", URL, &[("Accept", "application/sdp")]);
    assert_eq!(answer.headers.get("content-base"), Some(&*format!("{URL}/")));
    let text = String::from_utf8(answer.body).unwrap();
    let description = Description::parse(text.as_bytes()).unwrap();
    assert_eq!((description.media(), description.is_live()), (2, false));
    assert_eq!(description.media_control(1, "rtsp://x/"), format!("{URL}/trackID=1"));
    // Its own URLs name the origin, as the client's does; addresses are the proxy's.
    assert!(
        text.contains("o=- ") && text.contains("IN IP4 10.0.1.1\r\n") && text.contains("c=IN IP4 0.0.0.0"),
        "{text}"
    );

    let session = model.set_up(client, URL, 2, 5000);
    assert!(session.len() >= 32);
    for (_, flow) in model.flows.values() {
        assert_eq!(flow.leads, Leads::Nobody);
    }
    let answer = model.good(client, "PLAY", URL, &[("Session", &session), ("Range", "npt=0.000-")]);
    let infos = rtp_info::parse(answer.headers.get("rtp-info").unwrap());
    assert_eq!(infos.len(), 2);
    for (track, info) in infos.iter().enumerate() {
        let (key, flow) = model.flow_from(Origin::server_port(track));
        assert_eq!(key.src.ip().to_string(), "10.0.2.11");
        assert_eq!(key.dst.to_string(), format!("10.0.2.1:{}", 20000 + 2 * track));
        let Leads::Receiver { to, from, rewrite } = flow.leads else { panic!("{flow:?}") };
        assert_eq!(
            (to.to_string(), from.to_string()),
            (format!("10.0.1.11:{}", 5000 + 2 * track), "10.0.1.1:8000".into())
        );
        // What the client is told of numbers is what packets will have.
        let (seq, time) = (100 + 1000 * track as u16, 5000u32);
        assert_eq!(info.seq, Some(seq.wrapping_add(rewrite.sequence)));
        assert_eq!(info.rtptime, Some(time.wrapping_add(rewrite.timestamp)));
        assert_eq!(info.url, format!("{URL}/trackID={track}"));
    }
    let answer = model.good(client, "PAUSE", URL, &[("Session", &session)]);
    assert_eq!(answer.headers.get("range"), Some("npt=3.5-12.5"));
    assert!(model.flows.values().all(|(_, flow)| flow.leads == Leads::Nobody));
    model.good(client, "PLAY", &format!("{URL}/"), &[("Session", &session)]);
    model.good(client, "TEARDOWN", URL, &[("Session", &session)]);
    let methods = ["OPTIONS", "DESCRIBE", "SETUP", "SETUP", "PLAY", "PAUSE", "PLAY", "TEARDOWN"];
    assert_eq!(model.methods(), methods);
    let (origin, _) = model.origins.values().last().unwrap();
    // The origin's own session, its URLs as it has given them, and the client's range.
    let play = &origin.asked[4];
    assert_eq!((&*play.url, play.headers.get("session")), ("rtsp://10.0.2.11:8554/film/", Some("a$b.17")));
    assert_eq!(play.headers.get("range"), Some("npt=0.000-"));
    assert!(play.headers.get("via").is_some());
    assert_eq!(origin.asked[3].url, "rtsp://10.0.2.11:8554/film/trackID=1");
    assert_eq!(model.ask(client, "PLAY", URL, &[("Session", &session)]).status, 454);
    model.is_empty();
}

#[test]
fn transports_say_what_the_proxy_does() {
    let mut model = Model::new(Options::default());
    let client = model.client(CLIENT);
    let answer = model.good(
        client,
        "SETUP",
        &format!("{URL}/trackID=0"),
        &[("Transport", "RTP/AVP/UDP;unicast;client_port=5000-5001;mode=play")],
    );
    let said = &transport::parse(answer.headers.get("transport").unwrap())[0];
    assert_eq!((said.client_port, said.server_port), (Some((5000, 5001)), Some((8000, 8001))));
    assert_eq!(said.source.as_deref(), Some("10.0.1.1"));
    assert!(said.ssrc.is_some());
    let session = answer.headers.get("session").unwrap().split(';').next().unwrap().to_owned();
    assert!(answer.headers.get("session").unwrap().ends_with(";timeout=60"));
    // The other track on the connection.
    let answer = model.good(
        client,
        "SETUP",
        &format!("{URL}/trackID=1"),
        &[("Transport", "RTP/AVP/TCP;unicast;interleaved=4-5"), ("Session", &session)],
    );
    assert!(answer.headers.get("transport").unwrap().contains("RTP/AVP/TCP;unicast;interleaved=4-5"));
    model.good(client, "PLAY", URL, &[("Session", &session)]);
    assert!(matches!(model.flow_from(6970).1.leads, Leads::Receiver { .. }));
    let (_, carried) = model.flow_from(6972);
    assert_eq!((carried.leads, carried.tapped), (Leads::Nobody, true));
    // The session is its connection's.
    model.proxy.client_closed(client);
    model.run();
    model.is_empty();
}

#[test]
fn packets_on_the_connection_are_the_clients_own() {
    let mut model = Model::new(Options { tracks: 1, ..Options::default() });
    let client = model.client(CLIENT);
    let answer = model.good(client, "SETUP", URL, &[("Transport", "RTP/AVP/TCP;unicast")]);
    let said = &transport::parse(answer.headers.get("transport").unwrap())[0];
    assert_eq!(said.interleaved, Some((0, 1)));
    let session = answer.headers.get("session").unwrap().split(';').next().unwrap().to_owned();
    let answer = model.good(client, "PLAY", URL, &[("Session", &session)]);
    let info = &rtp_info::parse(answer.headers.get("rtp-info").unwrap())[0];
    let (_, flow) = model.flow_from(6970);
    let mut packet = vec![0x80, 33, 0, 100, 0, 0, 0x13, 0x88, 1, 2, 3, 4];
    packet.extend(b"payload");
    model.proxy.deliver(flow.track, 0, &packet);
    model.run();
    let data = model.data(client);
    assert_eq!(data.len(), 1);
    let (channel, own) = &data[0];
    let mut expected = vec![0x80, 33];
    expected.extend(info.seq.unwrap().to_be_bytes());
    expected.extend(info.rtptime.unwrap().to_be_bytes());
    expected.extend(said.ssrc.unwrap().to_be_bytes());
    expected.extend(b"payload");
    assert_eq!((*channel, own), (0, &expected));
}

/// Players pass over what comes in front of the answer to PLAY.
#[test]
fn packets_do_not_overtake_the_answer() {
    let mut model = Model::new(Options { tracks: 1, silent: vec!["PLAY".into()], ..Options::default() });
    let client = model.client(CLIENT);
    let answer = model.good(client, "SETUP", URL, &[("Transport", "RTP/AVP/TCP;unicast")]);
    let session = answer.headers.get("session").unwrap().split(';').next().unwrap().to_owned();
    assert_eq!(model.try_ask(client, "PLAY", URL, &[("Session", &session)]), None);
    let (_, flow) = model.flow_from(6970);
    let packet =
        |number: u16| [&[0x80, 33][..], &number.to_be_bytes(), &[0, 0, 0, 1, 1, 2, 3, 4, number as u8]].concat();
    (0..600).for_each(|number| model.proxy.deliver(flow.track, 0, &packet(number)));
    model.run();
    assert!(model.data(client).is_empty());
    let (id, (origin, _)) = model.origins.iter_mut().last().unwrap();
    origin.options.silent.clear();
    let (id, asked) = (*id, origin.asked.last().unwrap().clone());
    let answer = origin.answer(&asked).unwrap();
    model.proxy.origin_item(id, wire::rtsp::framing::Item::Response(answer));
    model.proxy.deliver(flow.track, 0, &packet(600));
    model.run();
    let (_, items) = &model.got[&client];
    assert!(matches!(items[0], wire::rtsp::framing::Item::Response(_)), "the answer comes first");
    let data = model.data(client);
    assert_eq!((data.len(), data[0].1[12], data[511].1[12], data[512].1[12]), (513, 0, 255, 88));
    assert_eq!(model.proxy.counts.slow, 88);
}

#[test]
fn numbers_go_on_where_the_origin_begins_anew() {
    let mut model = Model::new(Options { tracks: 1, jump: 20_000, ..Options::default() });
    let client = model.client(CLIENT);
    let session = model.set_up(client, URL, 1, 5000);
    let infos = |answer: wire::rtsp::message::Response| rtp_info::parse(answer.headers.get("rtp-info").unwrap());
    let first = infos(model.good(client, "PLAY", URL, &[("Session", &session)]));
    let (_, flow) = model.flow_from(6970);
    let Leads::Receiver { rewrite: before, .. } = flow.leads else { panic!() };
    // Ten packets came, the last two seconds ago.
    let progress = Progress {
        packets: 10,
        seen: 0x3ff,
        highest: 109,
        timestamp: 5000 + 9 * 3000,
        heard: 0,
        ..Progress::default()
    };
    model.proxy.world.progress.insert(flow.track, progress);
    model.wait(Duration::from_secs(2));
    model.good(client, "PAUSE", URL, &[("Session", &session)]);
    let next = infos(model.good(client, "PLAY", URL, &[("Session", &session), ("Range", "npt=8-")]));
    assert_eq!(next[0].seq.unwrap(), first[0].seq.unwrap().wrapping_add(10));
    let time = next[0].rtptime.unwrap().wrapping_sub(first[0].rtptime.unwrap());
    assert_eq!(time, 9 * 3000 + 2 * 90_000);
    let Leads::Receiver { rewrite, .. } = model.flow_from(6970).1.leads else { panic!() };
    assert_eq!(rewrite.ssrc, before.ssrc);
    assert_eq!(rewrite.sequence.wrapping_add(20_100), before.sequence.wrapping_add(110));
}

#[test]
fn reports_are_passed_on_and_ended() {
    let mut model = Model::new(Options { tracks: 1, ..Options::default() });
    let client = model.client(CLIENT);
    let session = model.set_up(client, URL, 1, 5000);
    model.good(client, "PLAY", URL, &[("Session", &session)]);
    let (key, flow) = model.flow_from(6970);
    let Leads::Receiver { rewrite, .. } = flow.leads else { panic!() };
    model.wait(Duration::from_secs(1));
    // The sender's report gets the receiver's source and times.
    let report =
        wire::rtcp::SenderReport { ssrc: 0x0a0b0c0d, ntp: 0x1111_2222_3333_4444, rtp: 6000, packets: 3, octets: 30 };
    let origin = "10.0.2.11:6971".parse().unwrap();
    model.proxy.report_from_origin(key.dst.ip(), key.dst.port(), origin, &report.to_bytes("camera", false));
    // One from elsewhere is nobody's.
    model.proxy.report_from_origin(
        key.dst.ip(),
        key.dst.port(),
        "10.0.2.12:6971".parse().unwrap(),
        &report.to_bytes("x", false),
    );
    model.run();
    let sent: Vec<_> =
        std::mem::take(&mut model.datagrams).into_iter().filter(|(_, to, _)| to.port() == 5001).collect();
    assert_eq!(sent.len(), 1);
    let (from, to, bytes) = &sent[0];
    assert_eq!((*from, to.to_string()), (From::Reports("10.0.1.1".parse().unwrap()), "10.0.1.11:5001".into()));
    let got = wire::rtcp::parse(bytes).unwrap().senders[0];
    assert_eq!((got.ssrc, got.rtp), (rewrite.ssrc, 6000u32.wrapping_add(rewrite.timestamp)));
    assert_eq!((got.ntp, got.packets, got.octets), (report.ntp, 3, 30));

    // What the receiver says ends here, and is shown.
    let own = wire::rtcp::Report {
        ssrc: rewrite.ssrc,
        fraction_lost: 64,
        lost: 2,
        highest: 7,
        jitter: 900,
        last_sender_report: 0x2222_3333,
        delay: 65536,
    };
    model.wait(Duration::from_millis(1500));
    model.proxy.report_from_client("10.0.1.12".parse().unwrap(), &wire::rtcp::receiver_report(1, "other", Some(&own)));
    assert_eq!(model.proxy.session_states()[0].tracks[0].lost, None);
    model.proxy.report_from_client("10.0.1.11".parse().unwrap(), &wire::rtcp::receiver_report(1, "viewer", Some(&own)));
    let shown = model.proxy.session_states().remove(0).tracks.remove(0);
    assert_eq!((shown.loss_percent, shown.lost, shown.jitter_ms), (Some(25.0), Some(2), Some(10.0)));
    assert_eq!(shown.round_trip_ms, Some(500.0));

    // The origin gets a report of how the proxy receives.
    let progress = Progress {
        packets: 90,
        seen: 1,
        highest: 199,
        ssrc: 0x0a0b0c0d,
        lost: 10,
        jitter: 16 * 45,
        ..Progress::default()
    };
    model.proxy.world.progress.insert(flow.track, progress);
    model.datagrams.clear();
    model.wait(Duration::from_secs(6));
    let to_origin: Vec<_> = model.datagrams.iter().filter(|(_, to, _)| *to == origin).collect();
    assert!((1..=2).contains(&to_origin.len()), "{}", to_origin.len());
    assert_eq!(to_origin[0].0, From::Pair("10.0.2.1".parse().unwrap(), 20000));
    let said = wire::rtcp::parse(&to_origin[0].2).unwrap().reports[0];
    assert_eq!((said.ssrc, said.lost, said.highest, said.jitter), (0x0a0b0c0d, 10, 199, 45));
    assert_eq!((said.fraction_lost, said.last_sender_report), (25, 0x2222_3333));

    // Both sides are told the end.
    model.datagrams.clear();
    model.good(client, "TEARDOWN", URL, &[("Session", &session)]);
    let bye = model.datagrams.iter().find(|(_, to, _)| *to == origin).expect("BYE");
    assert_eq!(wire::rtcp::parse(&bye.2).unwrap().ended.len(), 1);
    model.is_empty();
}
