//! What clients must not do, and how it is answered.

use std::time::Duration;

use wire::refused::Refused;
use wire::rtsp::message::Request;

use crate::model::{CLIENT, Model, OTHER, URL};
use crate::origin::Options;

const UDP: (&str, &str) = ("Transport", "RTP/AVP;unicast;client_port=5000-5001");

#[test]
fn mistakes_have_their_status() {
    let mut model = Model::new(Options::default());
    let client = model.client(CLIENT);
    let session = model.set_up(client, URL, 1, 5000);
    let own = ("Session", session.as_str());
    let track = &*format!("{URL}/trackID=1");
    for (method, url, headers, status) in [
        ("DESCRIBE", "rtsp://proxy/10.0.3.1/x", &[][..], 403),
        ("DESCRIBE", "rtsp://proxy/nobody", &[], 403),
        ("DESCRIBE", "rtsp://proxy/", &[], 404),
        ("DESCRIBE", URL, &[("Accept", "application/rtsl")], 406),
        ("DESCRIBE", URL, &[("Require", "implicit-play")], 551),
        ("SETUP", URL, &[UDP], 459),
        ("SETUP", &format!("{URL}/trackID=7"), &[UDP], 404),
        ("SETUP", track, &[], 461),
        ("SETUP", track, &[("Transport", "RTP/AVP;multicast")], 461),
        ("SETUP", track, &[("Transport", "RTP/AVP;unicast;client_port=5000-5001;destination=10.0.1.99")], 461),
        ("SETUP", track, &[UDP, ("Session", "12345678")], 454),
        ("SETUP", "rtsp://proxy/10.0.2.11:8554/other/trackID=0", &[UDP, own], 459),
        ("PLAY", URL, &[], 454),
        ("PLAY", URL, &[own, ("Range", "npt=9-5")], 457),
        ("PLAY", URL, &[own, ("Range", "bananas")], 457),
        ("PLAY", "rtsp://proxy/10.0.2.11/other", &[own], 454),
        ("PAUSE", URL, &[own], 455),
        ("TEARDOWN", URL, &[("Session", "x")], 454),
        ("ANNOUNCE", URL, &[], 403),
        ("REDIRECT", URL, &[], 405),
        ("RECORD", URL, &[own], 455),
        ("BREW", URL, &[], 501),
        ("OPTIONS", URL, &[own], 200),
        ("OPTIONS", "*", &[], 200),
        ("GET_PARAMETER", URL, &[own], 200),
        ("SET_PARAMETER", URL, &[], 200),
    ] {
        assert_eq!(model.ask(client, method, url, headers).status, status, "{method} {url} {headers:?}");
    }
    let answer = model.ask(client, "DESCRIBE", URL, &[("Proxy-Require", "a, b")]);
    assert_eq!(answer.headers.get("unsupported"), Some("a, b"));
    // Another address can't use the session, whatever it knows.
    let thief = model.client(OTHER);
    for method in ["PLAY", "TEARDOWN", "OPTIONS", "GET_PARAMETER", "PAUSE"] {
        assert_eq!(model.ask(thief, method, URL, &[own]).status, 454, "{method}");
    }
    // While it plays, transports stay.
    model.good(client, "PLAY", URL, &[own]);
    assert_eq!(model.ask(client, "SETUP", track, &[UDP, own]).status, 455);
}

#[test]
fn tracks_of_several_are_played_together() {
    let mut model = Model::new(Options::default());
    let client = model.client(CLIENT);
    let session = model.set_up(client, URL, 2, 5000);
    let own = ("Session", session.as_str());
    assert_eq!(model.ask(client, "PLAY", &format!("{URL}/trackID=0"), &[own]).status, 460);
    model.good(client, "PLAY", URL, &[own]);
    // One is given up, the other goes on.
    model.good(client, "TEARDOWN", &format!("{URL}/trackID=1"), &[own]);
    assert_eq!(model.proxy.session_states()[0].tracks.len(), 1);
    model.good(client, "PAUSE", &format!("{URL}/trackID=0"), &[own]);
}

#[test]
fn versions_and_numbers_are_asked_for() {
    let mut model = Model::new(Options::default());
    let client = model.client(CLIENT);
    let mut request = Request::new("OPTIONS", URL);
    model.send(client, request.clone());
    assert_eq!(model.answer(client).unwrap().status, 400);
    request.version = (2, 0);
    model.send(client, request);
    assert_eq!(model.answer(client).unwrap().status, 505);
    model.proxy.client_failed(client, Refused(431));
    model.run();
    assert_eq!(model.answer(client).unwrap().status, 431);
    assert!(model.closed_clients.contains(&client));
}

#[test]
fn a_request_that_comes_round_is_refused() {
    let mut model = Model::new(Options { live: true, ..Options::default() });
    let client = model.client(CLIENT);
    model.good(client, "DESCRIBE", URL, &[]);
    let (origin, _) = model.origins.values().last().unwrap();
    let via = origin.asked[0].headers.get("via").unwrap().to_owned();
    assert_eq!(model.ask(client, "DESCRIBE", URL, &[("Via", &format!("RTSP/1.0 other, {via}"))]).status, 502);
    assert_eq!(model.proxy.counts.loops, 1);
    assert_eq!(model.ask(client, "DESCRIBE", URL, &[("Via", "RTSP/1.0 other")]).status, 200);
    // Through 16 proxies, but no more, nor through some that say too much.
    let through = |count: usize, name: &str| vec![format!("RTSP/1.0 {name}"); count].join(", ");
    for (via, status) in [(through(16, "p"), 200), (through(17, "p"), 502), (through(1, &"p".repeat(1024)), 502)] {
        assert_eq!(model.ask(client, "DESCRIBE", URL, &[("Via", &via)]).status, status, "{via}");
    }
    assert_eq!(model.proxy.counts.loops, 3);
}

#[test]
fn a_loop_through_another_proxy_is_found() {
    // What the origin is told names all proxies, so one of them that is asked again knows itself.
    let mut model = Model::new(Options { live: true, ..Options::default() });
    let client = model.client(CLIENT);
    let via = [("Via", "RTSP/1.0 first:554"), ("Via", "RTSP/1.0 second (a comment)")];
    assert_eq!(model.ask(client, "DESCRIBE", URL, &via).status, 200);
    let (origin, _) = model.origins.values().last().unwrap();
    let said: Vec<String> = origin.asked.iter().map(|own| own.headers.get("via").unwrap().to_owned()).collect();
    assert_eq!(origin.asked[1].method, "DESCRIBE");
    for via in &said {
        let hops: Vec<&str> = via.split(", ").collect();
        assert_eq!((hops.len(), hops[0], hops[1]), (3, "RTSP/1.0 first:554", "RTSP/1.0 second (a comment)"));
        // It comes round by a third one.
        let answer = model.ask(client, "DESCRIBE", URL, &[("Via", &format!("{via}, RTSP/1.0 third"))]);
        assert_eq!(answer.status, 502);
    }
    assert_eq!(model.proxy.counts.loops, said.len() as u64);
}

#[test]
fn limits_are_kept() {
    let mut model = Model::with(Options { tracks: 1, live: true, ..Options::default() }, |settings| {
        settings.limits.connections = 3;
        settings.limits.sessions = 3;
        settings.limits.per_client = 2;
    });
    let first = model.client(CLIENT);
    model.client(CLIENT);
    assert_eq!(model.proxy.client_opened(CLIENT.parse().unwrap(), "10.0.1.1:8554".parse().unwrap()), None);
    let other = model.client(OTHER);
    assert_eq!(model.proxy.client_opened("10.0.1.13:1".parse().unwrap(), "10.0.1.1:8554".parse().unwrap()), None);
    for (client, port, status) in
        [(first, 5000, 200), (first, 5002, 200), (first, 5004, 453), (other, 5006, 200), (other, 5008, 503)]
    {
        let transport = format!("RTP/AVP;unicast;client_port={port}-{}", port + 1);
        assert_eq!(model.ask(client, "SETUP", URL, &[("Transport", &transport)]).status, status, "{port}");
    }
    // No client has origins asked for more than that, whether or not it wants their streams.
    for (film, status) in [("a", 200), ("b", 200), ("c", 503)] {
        let url = format!("rtsp://proxy/10.0.2.11/{film}");
        assert_eq!(model.ask(first, "DESCRIBE", &url, &[]).status, status, "{film}");
    }
    // Without own ports left there is no stream.
    let mut model = Model::new(Options { tracks: 2, ..Options::default() });
    model.proxy.world.most_pairs = 1;
    let client = model.client(CLIENT);
    let session = model.set_up(client, URL, 1, 5000);
    let headers = [("Transport", "RTP/AVP;unicast;client_port=5002-5003"), ("Session", session.as_str())];
    assert_eq!(model.ask(client, "SETUP", &format!("{URL}/trackID=1"), &headers).status, 503);
}

#[test]
fn who_says_nothing_is_closed() {
    let mut model = Model::new(Options { tracks: 1, ..Options::default() });
    let (silent, asks) = (model.client(CLIENT), model.client(CLIENT));
    for _ in 0..3 {
        model.wait(Duration::from_secs(40));
        model.good(asks, "OPTIONS", URL, &[]);
    }
    assert!(model.closed_clients.contains(&silent) && !model.closed_clients.contains(&asks));
    // What was described and not asked for is forgotten.
    model.good(asks, "DESCRIBE", URL, &[]);
    assert_eq!(model.proxy.sizes().2, 1);
    model.wait(Duration::from_secs(12));
    model.is_empty();
}

#[test]
fn requests_in_a_row_are_answered_in_order() {
    let mut model = Model::new(Options { silent: vec!["DESCRIBE".into()], ..Options::default() });
    let client = model.client(CLIENT);
    assert_eq!(model.try_ask(client, "DESCRIBE", URL, &[]), None);
    assert_eq!(model.try_ask(client, "OPTIONS", URL, &[]), None);
    model.wait(Duration::from_secs(11));
    assert_eq!([1, 2].map(|_| model.answer(client).unwrap().status), [504, 200]);
    // Too many at once are an end.
    let client = model.client(CLIENT);
    for _ in 0..40 {
        model.try_ask(client, "DESCRIBE", URL, &[]);
    }
    assert!(model.closed_clients.contains(&client));
}
