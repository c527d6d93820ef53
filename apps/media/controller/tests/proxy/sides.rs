//! Origins as they are: passwords, redirections, oddities.

use std::time::Duration;

use media::settings::Credentials;
use media::tables::Leads;

use crate::model::{CLIENT, Model, URL};
use crate::origin::Options;

#[test]
fn origins_get_the_password_of_the_configuration() {
    let password = Some(("viewer".to_owned(), "secret".to_owned()));
    let mut model = Model::new(Options { password, tracks: 1, ..Options::default() });
    let client = model.client(CLIENT);
    let answer = model.good(client, "DESCRIBE", "rtsp://proxy/door", &[]);
    let text = String::from_utf8(answer.body).unwrap();
    assert!(!text.contains("camera.example") && !text.contains("10.0.2"), "{text}");
    let session = model.set_up(client, "rtsp://proxy/door", 1, 5000);
    model.good(client, "PLAY", "rtsp://proxy/door", &[("Session", &session)]);
    // The same origin without a password of the client's own: it is not told anything.
    assert_eq!(model.ask(client, "DESCRIBE", URL, &[]).status, 502);
    // A wrong one is tried a few times, and no more.
    let wrong = |settings: &mut media::settings::Settings| {
        settings.streams[0].credentials = Some(Credentials { user: "viewer".into(), password: "guess".into() });
    };
    let password = Some(("viewer".to_owned(), "secret".to_owned()));
    let mut model = Model::with(Options { password, ..Options::default() }, wrong);
    let client = model.client(CLIENT);
    assert_eq!(model.ask(client, "DESCRIBE", "rtsp://proxy/door", &[]).status, 502);
    assert!(model.methods().len() <= 6, "{:?}", model.methods());
}

#[test]
fn redirections_are_followed_where_they_may_be() {
    let to = |url: &str| Options { redirect: Some(url.into()), tracks: 1, ..Options::default() };
    let mut model = Model::new(to("rtsp://10.0.2.12:554/other"));
    model.hosts.insert("10.0.2.12".into(), Options { tracks: 1, ..Options::default() });
    let client = model.client(CLIENT);
    let session = model.set_up(client, URL, 1, 5000);
    model.good(client, "PLAY", URL, &[("Session", &session)]);
    assert_eq!(model.flow_from(6970).0.src.to_string(), "10.0.2.12:6970");
    let (origin, _) = model.origins.values().last().unwrap();
    assert_eq!(origin.asked[1].url, "rtsp://10.0.2.12:554/other");
    assert_eq!(model.closed_origins.len(), 1);
    // Not to whom nobody may ask, not nowhere, and not for ever.
    for url in ["rtsp://10.0.3.1/other", "http://10.0.2.12/", "", "rtsp://10.0.2.11:8554/film"] {
        let mut model = Model::new(to(url));
        let client = model.client(CLIENT);
        assert_eq!(model.ask(client, "DESCRIBE", URL, &[]).status, 502, "{url}");
        assert!(model.origins.len() <= 6);
    }
}

#[test]
fn servers_send_their_clients_elsewhere() {
    let elsewhere = |model: &mut Model, location: &str| {
        let id = *model.origins.keys().last().unwrap();
        let mut request = wire::rtsp::message::Request::new("REDIRECT", "rtsp://10.0.2.11:8554/film");
        request.headers.push("CSeq", "7");
        request.headers.push("Location", location);
        model.proxy.origin_item(id, wire::rtsp::framing::Item::Request(request));
        model.run();
    };
    // While it thinks about the description.
    let mut model = Model::new(Options { silent: vec!["DESCRIBE".into()], ..Options::default() });
    model.hosts.insert("10.0.2.12".into(), Options::default());
    let client = model.client(CLIENT);
    assert_eq!(model.try_ask(client, "DESCRIBE", URL, &[]), None);
    elsewhere(&mut model, "rtsp://10.0.2.12/other");
    assert_eq!(model.answer(client).unwrap().status, 200);
    // Where there is a session, it goes on there: it is the same for its viewer, and is told where it was.
    let session = model.set_up(client, URL, 1, 5000);
    model.good(client, "PLAY", URL, &[("Session", &session)]);
    assert_eq!(model.flow_from(6970).0.src.ip().to_string(), "10.0.2.12");
    model.hosts.insert("10.0.2.11".into(), Options::default());
    model.wait(Duration::from_secs(3));
    elsewhere(&mut model, "rtsp://10.0.2.11/film");
    assert_eq!(model.flow_from(6970).0.src.ip().to_string(), "10.0.2.11");
    assert_eq!((model.proxy.counts.replaced, model.proxy.counts.failed), (1, 0));
    let (origin, _) = model.origins.values().last().unwrap();
    let play = origin.asked.last().unwrap();
    assert_eq!((&*play.method, play.headers.get("range")), ("PLAY", Some("npt=3.000-")));
    assert_eq!(model.count("10.0.2.12", "TEARDOWN"), 1, "it is left in order");
    // Two that send it to each other are left after a while.
    for turn in 0..4 {
        assert_eq!(model.proxy.sizes().1, 1, "{turn}");
        elsewhere(&mut model, ["rtsp://10.0.2.12/film", "rtsp://10.0.2.11/film"][turn % 2]);
    }
    let shown = model.proxy.origin_states();
    assert!(shown.iter().any(|own| own.last_error.contains("too many redirections")), "{shown:?}");
    assert_eq!(model.ask(client, "PLAY", URL, &[("Session", &session)]).status, 454);
    model.is_empty();
    // To who is not allowed, and to nowhere, it ends, and so do viewers'.
    for location in ["rtsp://10.0.3.1/film", "", "x"] {
        let mut model = Model::new(Options::default());
        let client = model.client(CLIENT);
        let session = model.set_up(client, URL, 1, 5000);
        model.good(client, "PLAY", URL, &[("Session", &session)]);
        elsewhere(&mut model, location);
        assert_eq!(model.ask(client, "PLAY", URL, &[("Session", &session)]).status, 454);
        let shown = model.proxy.origin_states();
        assert!(shown.iter().any(|own| own.last_error.contains("REDIRECT")), "{shown:?}");
        model.is_empty();
    }
    // Not to who is not allowed.
    let mut model = Model::new(Options { silent: vec!["DESCRIBE".into()], ..Options::default() });
    let client = model.client(CLIENT);
    assert_eq!(model.try_ask(client, "DESCRIBE", URL, &[]), None);
    elsewhere(&mut model, "rtsp://10.0.3.1/other");
    assert_eq!(model.answer(client).unwrap().status, 502);
    model.is_empty();
}

#[test]
fn odd_origins_are_understood() {
    for options in [
        Options { content_base: Some("10.0.2.11/film/".into()), ..Options::default() },
        Options { says_cseq: false, ..Options::default() },
        Options { control: "rtsp://192.168.0.9/film/streamid=".into(), ..Options::default() },
        Options { control: "/film/track".into(), ..Options::default() },
    ] {
        let mut model = Model::new(options.clone());
        let client = model.client(CLIENT);
        let session = model.set_up(client, URL, 2, 5000);
        let answer = model.good(client, "PLAY", URL, &[("Session", &session)]);
        let infos = wire::rtsp::rtp_info::parse(answer.headers.get("rtp-info").unwrap());
        let urls: Vec<_> = infos.iter().map(|info| info.url.as_str()).collect();
        assert_eq!(urls, [format!("{URL}/trackID=0"), format!("{URL}/trackID=1")], "{options:?}");
        let (origin, _) = model.origins.values().last().unwrap();
        let host = wire::rtsp::url::Url::parse(&origin.asked[2].url).unwrap().host;
        assert_eq!(host, "10.0.2.11", "the connection's own host is asked");
    }
}

#[test]
fn where_packets_come_from_is_learned() {
    let mut model = Model::new(Options { says_ports: false, tracks: 1, ..Options::default() });
    let client = model.client(CLIENT);
    let session = model.set_up(client, URL, 1, 5000);
    model.good(client, "PLAY", URL, &[("Session", &session)]);
    assert!(model.flows.is_empty());
    let packet = [0x80, 33, 0, 1, 0, 0, 0, 1, 1, 2, 3, 4, 42];
    let mut come = |from: &str, bytes: &[u8]| {
        model.proxy.media_at_socket("10.0.2.1".parse().unwrap(), 20000, from.parse().unwrap(), bytes);
        model.run();
        model.flows.len()
    };
    // Not from others, and not from what is no stream.
    assert_eq!(come("10.0.2.12:7000", &packet), 0);
    assert_eq!(come("10.0.2.11:7000", b"hello"), 0);
    assert_eq!(come("10.0.2.11:7000", &packet), 1);
    let (key, flow) = model.flow_from(7000);
    assert_eq!(key.dst.to_string(), "10.0.2.1:20000");
    assert!(matches!(flow.leads, Leads::Receiver { .. }));
    // Once packets are counted there, others change nothing.
    let progress = media::tables::Progress { seen: 1, ..Default::default() };
    model.proxy.world.progress.insert(flow.track, progress);
    model.proxy.media_at_socket("10.0.2.1".parse().unwrap(), 20000, "10.0.2.11:7002".parse().unwrap(), &packet);
    model.run();
    model.flow_from(7000);
    // Behind a balancer they come from another address, which the answer names.
    let mut model = Model::new(Options { source: Some("10.0.2.77".into()), tracks: 1, ..Options::default() });
    let client = model.client(CLIENT);
    model.set_up(client, URL, 1, 5000);
    assert_eq!(model.flow_from(6970).0.src.to_string(), "10.0.2.77:6970");
}

#[test]
fn origins_that_do_not_answer_are_given_up() {
    for (silent, status) in [("OPTIONS", 504), ("DESCRIBE", 504)] {
        let mut model = Model::new(Options { silent: vec![silent.into()], ..Options::default() });
        let client = model.client(CLIENT);
        assert_eq!(model.try_ask(client, "DESCRIBE", URL, &[]), None);
        model.wait(Duration::from_secs(11));
        assert_eq!(model.answer(client).unwrap().status, status);
        model.is_empty();
    }
    let mut model = Model::new(Options::default());
    model.hosts.clear();
    let client = model.client(CLIENT);
    assert_eq!(model.ask(client, "DESCRIBE", URL, &[]).status, 502);
    for (method, at_origin, status) in
        [("DESCRIBE", 404, 404), ("DESCRIBE", 403, 502), ("SETUP", 453, 453), ("PLAY", 457, 457), ("PAUSE", 501, 501)]
    {
        let mut model =
            Model::new(Options { status: vec![(method.into(), at_origin)], tracks: 1, ..Options::default() });
        let client = model.client(CLIENT);
        let transport = [("Transport", "RTP/AVP;unicast;client_port=5000-5001")];
        let answer = match method {
            "DESCRIBE" => model.ask(client, "DESCRIBE", URL, &[]),
            "SETUP" => model.ask(client, "SETUP", URL, &transport),
            _ => {
                let session = model.set_up(client, URL, 1, 5000);
                let headers = [("Session", session.as_str())];
                let play = model.ask(client, "PLAY", URL, &headers);
                if method == "PLAY" { play } else { model.ask(client, method, URL, &headers) }
            }
        };
        assert_eq!(answer.status, status, "{method} {at_origin}");
    }
}

#[test]
fn parameters_are_the_origins() {
    let mut model = Model::new(Options { tracks: 1, ..Options::default() });
    let client = model.client(CLIENT);
    let session = model.set_up(client, URL, 1, 5000);
    let mut request = wire::rtsp::message::Request::new("GET_PARAMETER", URL);
    request.headers.push("CSeq", "77");
    request.headers.push("Session", session);
    request.headers.push("Content-Type", "text/parameters");
    request.body = b"jitter\r\n".to_vec();
    model.send(client, request);
    let answer = model.answer(client).unwrap();
    assert_eq!((answer.status, answer.cseq(), &answer.body[..]), (200, Some(77), &b"jitter: 0.5\r\n"[..]));
    let (origin, _) = model.origins.values().last().unwrap();
    assert_eq!(origin.asked.last().unwrap().body, b"jitter\r\n");
}

#[test]
fn servers_without_udp_send_on_the_connection() {
    // Asked for over UDP first, unless the configuration says how it comes.
    for (url, transport, setups) in [(URL, None, 3), ("rtsp://proxy/door", Some(true), 2)] {
        let mut model = Model::with(Options { tcp_only: true, live: true, ..Options::default() }, |settings| {
            settings.streams[0].carried = transport;
        });
        let client = model.client(CLIENT);
        let session = model.set_up(client, url, 2, 5000);
        model.good(client, "PLAY", url, &[("Session", &session)]);
        let asked = model.methods().iter().filter(|method| **method == "SETUP").count();
        assert_eq!(asked, setups, "{url}: one is refused");
        assert!(model.proxy.world.pairs.is_empty() && model.flows.is_empty());
        let (id, (origin, _)) = model.origins.iter().last().map(|(id, own)| (*id, own)).unwrap();
        assert_eq!(origin.channels, [0, 2]);
        model.datagrams.clear();
        let packet = vec![0x80, 0, 0, 9, 0, 0, 0, 1, 1, 2, 3, 4, 42];
        model.proxy.origin_item(id, wire::rtsp::framing::Item::Data { channel: 2, packet });
        model.run();
        let [(_, to, bytes)] = &model.datagrams[..] else { panic!("{:?}", model.datagrams) };
        assert_eq!((to.to_string(), bytes[12..].to_vec()), ("10.0.1.11:5002".into(), vec![42]));
        // One that joins is told what comes next; and the origin, how it is received.
        let progress = model.proxy.stream_states();
        assert_eq!(progress[0].tracks[1].packets, 1);
        model.wait(Duration::from_secs(6));
        let reports: Vec<_> =
            model.origin_data.iter().filter_map(|(channel, own)| Some((*channel, wire::rtcp::parse(own)?))).collect();
        assert!(reports.iter().any(|(channel, own)| *channel == 3 && own.reports[0].highest == 9), "{reports:?}");
        model.good(client, "TEARDOWN", url, &[("Session", &session)]);
        model.is_empty();
    }
    // Tracks that the first viewer does not want are asked for on the connection, too, and before PLAY.
    let mut model = Model::new(Options { tcp_only: true, live: true, ..Options::default() });
    let client = model.client(CLIENT);
    let session = model.set_up(client, URL, 1, 5000);
    model.good(client, "PLAY", URL, &[("Session", &session)]);
    let (origin, _) = model.origins.values().last().unwrap();
    assert_eq!((&origin.channels[..], model.methods().last()), (&[0, 2][..], Some(&"PLAY")));
    // Where the configuration wants UDP, that is all that is asked for.
    let mut model = Model::with(Options { tcp_only: true, ..Options::default() }, |settings| {
        settings.streams[0].carried = Some(false);
    });
    let client = model.client(CLIENT);
    let transport = [("Transport", "RTP/AVP;unicast;client_port=5000-5001")];
    assert_eq!(model.ask(client, "SETUP", "rtsp://proxy/door/trackID=0", &transport).status, 502);
}
