//! One stream for all its viewers, and its end.

use std::time::Duration;

use media::tables::{Leads, Progress};
use wire::rtsp::rtp_info;

use crate::model::{CLIENT, Model, OTHER, URL};
use crate::origin::Options;

fn live() -> Options {
    Options { live: true, tracks: 1, ..Options::default() }
}

#[test]
fn equal_live_plays_are_one_stream() {
    let mut model = Model::new(live());
    let (first, second) = (model.client(CLIENT), model.client(OTHER));
    let one = model.set_up(first, URL, 1, 5000);
    model.good(first, "PLAY", URL, &[("Session", &one), ("Range", "npt=0.000-")]);
    let (_, flow) = model.flow_from(6970);
    let Leads::Receiver { rewrite: own, .. } = flow.leads else { panic!() };
    let progress = Progress { packets: 7, seen: 1, highest: 65535, timestamp: 9000, ..Progress::default() };
    model.proxy.world.progress.insert(flow.track, progress);

    model.good(second, "DESCRIBE", URL, &[]);
    let two = model.set_up(second, URL, 1, 6000);
    assert_eq!(
        model.flow_from(6970).1.leads,
        Leads::Receiver { rewrite: own, to: "10.0.1.11:5000".parse().unwrap(), from: "10.0.1.1:8000".parse().unwrap() }
    );
    let answer = model.good(second, "PLAY", URL, &[("Session", &two)]);
    assert_eq!(answer.headers.get("range"), Some("npt=now-"));
    let (_, flow) = model.flow_from(6970);
    assert_eq!((flow.leads, flow.tapped), (Leads::Group, false));
    assert_eq!(model.methods(), ["OPTIONS", "DESCRIBE", "SETUP", "PLAY"]);
    assert_eq!(model.origins.len(), 1);

    // Each has a source and numbers of its own; the late one's begin where it was told.
    let info = &rtp_info::parse(answer.headers.get("rtp-info").unwrap())[0];
    let members: Vec<_> = model.proxy.world.members.iter().filter(|((track, _), _)| *track == flow.track).collect();
    assert_eq!(members.len(), 2);
    let (_, late) = members.iter().find(|(_, own)| own.to.to_string() == "10.0.1.12:6000").unwrap();
    assert_eq!(late.rewrite.sequence, info.seq.unwrap(), "the next number is 65536");
    assert_eq!(late.rewrite.timestamp.wrapping_add(9000), info.rtptime.unwrap());
    assert_ne!(late.rewrite.ssrc, own.ssrc);
    assert_eq!(late.from.to_string(), "10.0.1.1:8000");

    // One pauses, and comes back; the stream goes on for the other, in the fast path meanwhile.
    model.good(first, "PAUSE", URL, &[("Session", &one)]);
    let Leads::Receiver { to, .. } = model.flow_from(6970).1.leads else { panic!() };
    assert_eq!(to.to_string(), "10.0.1.12:6000");
    model.good(first, "PLAY", URL, &[("Session", &one)]);
    model.good(second, "TEARDOWN", URL, &[("Session", &two)]);
    assert!(matches!(model.flow_from(6970).1.leads, Leads::Receiver { .. }));
    assert!(!model.methods().contains(&"TEARDOWN"));
    model.good(first, "TEARDOWN", URL, &[("Session", &one)]);
    assert_eq!(model.methods().last(), Some(&"TEARDOWN"));
    model.is_empty();
}

#[test]
fn one_that_wants_less_takes_nothing_from_others() {
    let mut model = Model::new(Options { tracks: 2, ..live() });
    let (first, second) = (model.client(CLIENT), model.client(OTHER));
    let one = model.set_up(first, URL, 1, 5000);
    model.good(first, "PLAY", URL, &[("Session", &one)]);
    let two = model.set_up(second, URL, 2, 6000);
    model.good(second, "PLAY", URL, &[("Session", &two)]);
    assert_eq!(model.methods(), ["OPTIONS", "DESCRIBE", "SETUP", "SETUP", "PLAY"]);
    model.good(first, "TEARDOWN", URL, &[("Session", &one)]);
    assert!(model.flows.values().all(|(_, flow)| matches!(flow.leads, Leads::Receiver { .. })));
    // What the origin does not give is missing, and what it gives goes on.
    let mut model = Model::new(Options { tracks: 2, most_setups: 1, ..live() });
    let client = model.client(CLIENT);
    let session = model.set_up(client, URL, 1, 5000);
    model.good(client, "PLAY", URL, &[("Session", &session)]);
    let other = model.client(OTHER);
    let transport = [("Transport", "RTP/AVP;unicast;client_port=5000-5001")];
    assert_eq!(model.ask(other, "SETUP", &format!("{URL}/trackID=1"), &transport).status, 453);
    assert!(matches!(model.flow_from(6970).1.leads, Leads::Receiver { .. }));
    model.good(client, "TEARDOWN", URL, &[("Session", &session)]);
    model.is_empty();
}

#[test]
fn films_are_each_viewers_own() {
    let mut model = Model::new(Options { tracks: 1, ..Options::default() });
    let (first, second) = (model.client(CLIENT), model.client(OTHER));
    for client in [first, second] {
        model.good(client, "DESCRIBE", URL, &[]);
    }
    assert_eq!(model.origins.len(), 1);
    for (client, port) in [(first, 5000), (second, 6000)] {
        let session = model.set_up(client, URL, 1, port);
        model.good(client, "PLAY", URL, &[("Session", &session), ("Range", "npt=3-")]);
    }
    assert_eq!(model.origins.len(), 2);
    assert!(model.flows.values().all(|(_, flow)| matches!(flow.leads, Leads::Receiver { .. })));
}

#[test]
fn who_vanishes_is_noticed() {
    let mut model = Model::new(live());
    let client = model.client(CLIENT);
    let session = model.set_up(client, URL, 1, 5000);
    model.good(client, "PLAY", URL, &[("Session", &session)]);
    // Its connection may end: the session does not.
    model.proxy.client_closed(client);
    model.wait(Duration::from_secs(50));
    let again = model.client(CLIENT);
    model.good(again, "GET_PARAMETER", URL, &[("Session", &session)]);
    model.wait(Duration::from_secs(50));
    // What it says of how it receives is a sign of life, too.
    let ssrc = model.proxy.session_states()[0].tracks[0].ssrc;
    let report =
        wire::rtcp::Report { ssrc, fraction_lost: 0, lost: 0, highest: 1, jitter: 0, last_sender_report: 0, delay: 0 };
    model.proxy.report_from_client("10.0.1.11".parse().unwrap(), &wire::rtcp::receiver_report(1, "x", Some(&report)));
    model.wait(Duration::from_secs(50));
    assert_eq!(model.proxy.sizes().1, 1);
    model.wait(Duration::from_secs(11));
    assert_eq!(model.proxy.counts.vanished, 1);
    assert_eq!(model.methods().last(), Some(&"TEARDOWN"));
    model.is_empty();
}

#[test]
fn origins_are_told_that_the_proxy_is_there() {
    for (public, method) in [("OPTIONS, GET_PARAMETER", "GET_PARAMETER"), ("OPTIONS, DESCRIBE", "OPTIONS")] {
        let mut model = Model::new(Options { timeout: 20, public: public.into(), ..live() });
        let client = model.client(CLIENT);
        let session = model.set_up(client, URL, 1, 5000);
        model.good(client, "PLAY", URL, &[("Session", &session)]);
        model.wait(Duration::from_secs(45));
        let (origin, _) = model.origins.values().last().unwrap();
        let kept: Vec<_> = origin.asked[4..].iter().collect();
        assert!((4..=5).contains(&kept.len()), "{}", kept.len());
        assert!(
            kept.iter().all(|own| own.method == method && own.headers.get("session") == Some("a$b.17")),
            "{kept:?}"
        );
    }
}

#[test]
fn an_origin_that_goes_is_told_to_viewers() {
    let mut model = Model::new(live());
    let (over_udp, carried) = (model.client(CLIENT), model.client(OTHER));
    let one = model.set_up(over_udp, URL, 1, 5000);
    model.good(over_udp, "PLAY", URL, &[("Session", &one)]);
    let answer = model.good(carried, "SETUP", URL, &[("Transport", "RTP/AVP/TCP;unicast;interleaved=0-1")]);
    let two = answer.headers.get("session").unwrap().split(';').next().unwrap().to_owned();
    model.good(carried, "PLAY", URL, &[("Session", &two)]);
    model.datagrams.clear();
    let connection = *model.origins.keys().last().unwrap();
    model.proxy.origin_closed(connection, "reset");
    model.run();
    assert_eq!(wire::rtcp::parse(&model.datagrams[0].2).unwrap().ended.len(), 1);
    let data = model.data(carried);
    assert_eq!(wire::rtcp::parse(&data[0].1).unwrap().ended.len(), 1);
    assert!(model.closed_clients.contains(&carried) && !model.closed_clients.contains(&over_udp));
    assert_eq!(model.ask(over_udp, "PLAY", URL, &[("Session", &one)]).status, 454);
    let (.., streams) = model.proxy.sizes();
    assert_eq!((streams, model.flows.len(), model.proxy.world.pairs.len()), (0, 0, 0));
    assert_eq!(model.proxy.origin_states()[0].failed, 1);
}
