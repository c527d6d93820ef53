//! What sessions have had, as it is logged, and limits of bandwidth.

use std::time::Duration;

use media::tables::Progress;

use crate::model::{CLIENT, Model, OTHER, URL};
use crate::origin::Options;
use crate::pools::{A, plays, pooled_model};

fn live() -> Options {
    Options { live: true, tracks: 1, ..Options::default() }
}

/// So many packets of 1000 bytes have come since the beginning.
fn come(model: &mut Model, packets: u64) {
    let (_, flow) = model.flow_from(6970);
    let heard = model.now.as_nanos() as u64;
    let progress = Progress { packets, bytes: 1000 * packets, seen: 1, heard, ..Progress::default() };
    model.proxy.world.progress.insert(flow.track, progress);
}

#[test]
fn each_session_is_logged_with_what_it_had() {
    let mut model = pooled_model(live());
    let client = model.client(CLIENT);
    let url = "rtsp://proxy/door";
    let first = model.set_up(client, url, 1, 5000);
    let session = [("Session", first.as_str()), ("User-Agent", "player/1")];
    model.wait(Duration::from_secs(1));
    model.good(client, "PLAY", url, &session);
    come(&mut model, 10);
    model.wait(Duration::from_secs(2));
    // Another one has what comes from then on.
    let second = plays(&mut model, OTHER, 6000);
    come(&mut model, 15);
    model.good(client, "PAUSE", url, &session);
    come(&mut model, 22);
    model.wait(Duration::from_secs(3));
    model.good(client, "PLAY", url, &session);
    come(&mut model, 30);
    let report = |model: &Model| {
        let ssrc = model.proxy.session_states()[0].tracks[0].ssrc;
        let own = wire::rtcp::Report {
            ssrc,
            fraction_lost: 0,
            lost: 4,
            highest: 1,
            jitter: 0,
            last_sender_report: 0,
            delay: 0,
        };
        wire::rtcp::receiver_report(1, "x", Some(&own))
    };
    let report = report(&model);
    model.proxy.report_from_client("10.0.1.11".parse().unwrap(), &report);
    // Both go on from the other server.
    model.kill(A);
    come(&mut model, 5);
    model.good(client, "TEARDOWN", url, &session);
    let own = &model.logged[0];
    assert_eq!((own.client.as_str(), own.url.as_str(), own.stream.as_deref()), ("10.0.1.11", url, Some("door")));
    assert_eq!((own.origin.as_str(), own.server.as_deref()), ("rtsp://10.0.2.12:8554/1", Some("cameras/b")));
    assert_eq!((own.duration_ms, own.playing_ms), (6000, 2000));
    assert_eq!((own.packets, own.bytes, own.lost), (15 + 8 + 5, 28_000, Some(4)));
    assert_eq!((own.ended, own.transport), ("teardown", "udp"));
    come(&mut model, 6);
    let id = model.proxy.session_states()[0].id;
    assert!(model.proxy.kill(id));
    model.run();
    let own = &model.logged[1];
    assert_eq!((own.packets, own.ended, own.user_agent.as_deref()), (20 + 6, "killed", None));
    assert!(!second.is_empty() && model.logged.len() == 2);
}

#[test]
fn endings_have_their_names() {
    type How = fn(&mut Model, u64);
    let ways: [(&str, How); 5] = [
        ("connection_closed", |model, client| model.proxy.client_closed(client)),
        ("vanished", |model, _| model.wait(Duration::from_secs(70))),
        ("origin_lost", |model, _| {
            model.kill(A);
            model.wait(Duration::from_secs(50));
        }),
        ("stopped", |model, _| model.proxy.end()),
        // It asks for it, below.
        ("teardown", |_, _| {}),
    ];
    for (name, how) in ways {
        let mut model = Model::new(live());
        let client = model.client(CLIENT);
        let carried = name == "connection_closed";
        let transport = if carried { "RTP/AVP/TCP;unicast" } else { "RTP/AVP;unicast;client_port=5000-5001" };
        let answer = model.good(client, "SETUP", URL, &[("Transport", transport)]);
        let session = answer.headers.get("session").unwrap().split(';').next().unwrap().to_owned();
        model.good(client, "PLAY", URL, &[("Session", &session)]);
        come(&mut model, 1);
        how(&mut model, client);
        model.run();
        if name == "teardown" {
            model.good(client, "TEARDOWN", URL, &[("Session", &session)]);
        }
        let named: Vec<_> = model.logged.iter().map(|own| (own.ended, own.transport)).collect();
        assert_eq!(named, [(name, if carried { "interleaved" } else { "udp" })]);
    }
}

#[test]
fn bandwidth_is_given_as_far_as_it_goes() {
    let options = Options { bandwidth: Some(500), ..live() };
    let mut model = Model::with(options, |settings| {
        settings.limits.client_bandwidth = Some(1_000_000);
        settings.limits.bandwidth = Some(1_500_000);
    });
    let setup = |model: &mut Model, client, port: u16| {
        let transport = format!("RTP/AVP;unicast;client_port={port}-{}", port + 1);
        let answer = model.ask(client, "SETUP", URL, &[("Transport", &transport)]);
        (answer.status, answer.headers.get("session").map(|own| own.split(';').next().unwrap().to_owned()))
    };
    let (client, other) = (model.client(CLIENT), model.client(OTHER));
    let (status, first) = setup(&mut model, client, 5000);
    assert_eq!((status, setup(&mut model, client, 5010).0, setup(&mut model, client, 5020).0), (200, 200, 453));
    assert_eq!((setup(&mut model, other, 6000).0, setup(&mut model, other, 6010).0), (200, 453));
    // The same once more takes the place of the one before.
    let session = first.unwrap();
    let again = [("Transport", "RTP/AVP;unicast;client_port=5002-5003"), ("Session", session.as_str())];
    model.good(client, "SETUP", URL, &again);
    model.good(client, "TEARDOWN", URL, &[("Session", &session)]);
    let (status, session) = setup(&mut model, client, 5000);
    assert_eq!(status, 200);
    // What is measured counts where it is more: 1.2 Mbit/s, with headers, leave no room for anybody.
    model.good(client, "PLAY", URL, &[("Session", &session.unwrap())]);
    come(&mut model, 0);
    model.wait(Duration::from_secs(2));
    come(&mut model, 292);
    model.wait(Duration::from_secs(2));
    let rate = model.proxy.stream_states()[0].tracks[0].rate;
    assert_eq!(rate, 292 * (1000 + 28) * 8 / 2);
    assert_eq!(setup(&mut model, other, 6010).0, 453);
    // Without a limit nobody is refused for it.
    let mut model = Model::new(Options { bandwidth: Some(4_000_000), ..live() });
    let client = model.client(CLIENT);
    assert_eq!(setup(&mut model, client, 5000).0, 200);
}
