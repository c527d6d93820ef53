//! Sessions outlast the process: the next one goes on with what the one before has left.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use media::tables::{Flow, FlowKey, Leads, Progress, Receiver};
use wire::rtp::Rewrite;
use wire::rtsp::rtp_info;

use crate::model::{CLIENT, Model, OTHER, URL};
use crate::origin::Options;
use crate::pools::{A, B, DOOR, plays, pooled_model};
use crate::publish::{STAGE, published};

const SOON: Duration = Duration::from_secs(2);

fn live() -> Options {
    Options { live: true, tracks: 1, ..Options::default() }
}

/// Addresses from texts.
fn addresses(all: &[&str]) -> BTreeSet<SocketAddr> {
    all.iter().map(|own| own.parse().unwrap()).collect()
}

/// Sessions that went on, and that did not.
fn counts(model: &Model) -> (u64, u64) {
    (model.proxy.counts.taken_up, model.proxy.counts.not_taken_up)
}

/// A viewer of [`URL`] that plays one track: its session.
#[track_caller]
fn plays_one(model: &mut Model, from: &str, port: u16) -> String {
    let client = model.client(from);
    let session = model.set_up(client, URL, 1, port);
    model.good(client, "PLAY", URL, &[("Session", &session)]);
    session
}

#[test]
fn viewers_over_udp_notice_nothing() {
    let mut model = Model::with(live(), |settings| settings.timeouts.silence = Duration::ZERO);
    let first = plays_one(&mut model, CLIENT, 5000);
    let second = plays_one(&mut model, OTHER, 6000);
    // One on its connection, and one that has set up and not played.
    let client = model.client(CLIENT);
    let answer = model.good(client, "SETUP", &format!("{URL}/trackID=0"), &[("Transport", "RTP/AVP/TCP;unicast")]);
    let carried = answer.headers.get("session").unwrap().split(';').next().unwrap().to_owned();
    model.good(client, "PLAY", URL, &[("Session", &carried)]);
    let client = model.client(OTHER);
    let third = model.set_up(client, URL, 1, 7000);
    let (flow, members) = (model.flow_from(6970), model.proxy.world.members.clone());
    assert!(flow.1.tapped);
    // Packets come without end.
    let heard = u64::MAX;
    let progress = Progress { packets: 10, seen: 1, highest: 109, timestamp: 6000, heard, ..Progress::default() };
    model.proxy.world.progress.insert(flow.1.track, progress);
    let mut shown = model.proxy.session_states();
    shown.remove(2);
    model.audiences.clear();
    model.die(SOON, |_, _| {});

    // Both got each packet meanwhile, as before; copies for connections are not made any more.
    let both = addresses(&["10.0.1.11:5000", "10.0.1.12:6000"]);
    assert!(model.audiences.iter().all(|own| *own == both), "{:?}", model.audiences);
    assert_eq!(model.flow_from(6970), (flow.0, Flow { tapped: false, ..flow.1 }));
    assert_eq!(model.proxy.world.members, members);
    assert!(model.datagrams.is_empty());
    assert_eq!(model.proxy.world.pairs, BTreeSet::from([20000]));
    assert_eq!((counts(&model), model.proxy.counts.failed), ((3, 1), 0));
    assert_eq!(model.logged.iter().map(|own| own.ended).collect::<Vec<_>>(), ["connection_closed"]);
    let again = model.proxy.session_states();
    assert_eq!(again.iter().map(|own| own.id).collect::<Vec<_>>(), shown.iter().map(|own| own.id).collect::<Vec<_>>());
    assert!(again.iter().zip(&shown).all(|(now, then)| now.age_ms == then.age_ms + 2000 && now.tracks == then.tracks));

    // The origin is asked whether the session is there; numbers of requests begin anew.
    let (origin, _) = model.origins.values().last().unwrap();
    assert_eq!((model.origins.len(), &*origin.asked[0].method), (1, "GET_PARAMETER"));
    assert_eq!((origin.asked[0].headers.get("session"), origin.asked[0].cseq()), (Some("a$b.17"), Some(1)));

    // Viewers come back, pause, play, and are told what comes next.
    let client = model.client(CLIENT);
    assert_eq!(model.ask(client, "PAUSE", URL, &[("Session", &second)]).status, 454, "it is another client's");
    model.good(client, "PAUSE", URL, &[("Session", &first)]);
    assert_eq!(model.audience(), addresses(&["10.0.1.12:6000"]));
    let answer = model.good(client, "PLAY", URL, &[("Session", &first)]);
    let info = &rtp_info::parse(answer.headers.get("rtp-info").unwrap())[0];
    let rewrite = model.proxy.world.members.values().find(|own| own.to.port() == 5000).unwrap().rewrite;
    assert_eq!(info.seq, Some(110u16.wrapping_add(rewrite.sequence)));
    assert_eq!(model.audience(), both);
    let other = model.client(OTHER);
    model.good(other, "PLAY", URL, &[("Session", &third)]);
    // New ones join the same stream, on places that nobody has.
    let fourth = plays_one(&mut model, CLIENT, 8000);
    assert_eq!((model.audience().len(), model.origins.len()), (4, 1));
    // It is kept alive, and all of it ends as ever; who never comes is ended by its timeout.
    model.wait(Duration::from_secs(40));
    assert!(model.count("10.0.2.11", "GET_PARAMETER") >= 2);
    model.good(other, "TEARDOWN", URL, &[("Session", &third)]);
    model.good(client, "TEARDOWN", URL, &[("Session", &fourth)]);
    model.good(client, "TEARDOWN", URL, &[("Session", &first)]);
    assert_eq!(model.audience(), addresses(&["10.0.1.12:6000"]));
    model.wait(Duration::from_secs(25));
    assert_eq!(model.logged.last().unwrap().ended, "vanished");
    assert_eq!(model.count("10.0.2.11", "TEARDOWN"), 1);
    model.is_empty();
}

#[test]
fn a_film_goes_on_where_it_is() {
    let mut model = Model::new(Options::default());
    let client = model.client(CLIENT);
    let session = model.set_up(client, URL, 2, 5000);
    model.good(client, "PLAY", URL, &[("Session", &session), ("Range", "npt=0-")]);
    let flows = model.flows.clone();
    for _ in 0..3 {
        model.die(SOON, |_, _| {});
        assert_eq!(model.flows, flows);
    }
    let client = model.client(CLIENT);
    model.good(client, "PAUSE", URL, &[("Session", &session)]);
    assert!(model.flows.values().all(|(_, flow)| flow.leads == Leads::Nobody));
    model.die(SOON, |_, _| {});
    assert!(model.flows.values().all(|(_, flow)| flow.leads == Leads::Nobody));
    let client = model.client(CLIENT);
    model.good(client, "PLAY", URL, &[("Session", &session), ("Range", "npt=8-")]);
    let (origin, _) = model.origins.values().last().unwrap();
    assert_eq!(origin.asked.last().unwrap().headers.get("range"), Some("npt=8-"));
    // It lost no time by that: what it has played counts once.
    model.good(client, "TEARDOWN", URL, &[("Session", &session)]);
    assert_eq!((model.logged[0].duration_ms, model.logged[0].playing_ms), (8000, 6000));
    model.is_empty();
}

/// Origins that end their sessions with the connection, or are gone: streams are set up again, and numbers go on.
#[test]
fn an_origin_that_has_forgotten_is_asked_anew() {
    for kind in ["live", "film", "tcp", "pool"] {
        let options = Options { live: kind != "film", tcp_only: kind == "tcp", tracks: 1, ..Options::default() };
        let mut model = if kind == "pool" { pooled_model(options) } else { Model::new(options) };
        let (url, session) = match kind {
            "pool" => (DOOR, plays(&mut model, CLIENT, 5000)),
            _ => (URL, plays_one(&mut model, CLIENT, 5000)),
        };
        if kind != "tcp" {
            let heard = model.now.as_nanos() as u64;
            let progress =
                Progress { packets: 10, seen: 1, highest: 65539, timestamp: 77_000, heard, ..Progress::default() };
            let track = model.flow_from(6970).1.track;
            model.proxy.world.progress.insert(track, progress);
        }
        let ssrc = model.proxy.session_states()[0].tracks[0].ssrc;
        for options in model.hosts.values_mut() {
            options.status = vec![("OPTIONS".into(), 454), ("GET_PARAMETER".into(), 454)];
        }
        if kind == "pool" {
            model.hosts.remove(A);
        }
        model.die(SOON, |_, _| {});
        for options in model.hosts.values_mut() {
            options.status.clear();
        }
        model.wait(Duration::from_secs(1));
        let host = if kind == "pool" { B } else { A };
        assert_eq!((model.count(host, "PLAY"), model.proxy.counts.replaced), (1, 1), "{kind}");
        assert_eq!((counts(&model), model.proxy.session_states()[0].tracks[0].ssrc), ((1, 0), ssrc));
        if kind == "film" {
            let (origin, _) = model.origins.values().last().unwrap();
            let range = origin.asked.last().unwrap().headers.get("range");
            assert_eq!(range, Some("npt=0.000-"), "nothing was played since the last packet");
        }
        if kind != "tcp" {
            let (key, flow) = model.flow_from(6970);
            assert_eq!((key.src.ip().to_string(), flow.leads, flow.tapped), (host.to_owned(), Leads::Nobody, true));
            model.proxy.deliver(flow.track, 0, &[0x80, 33, 0, 100, 0, 0, 0x13, 0x88, 1, 2, 3, 4, 42]);
            model.run();
            let Leads::Receiver { rewrite, .. } = model.flow_from(6970).1.leads else { panic!("{kind}") };
            let Rewrite { ssrc: source, sequence, .. } = rewrite;
            let known = rtp_before(&model, sequence);
            assert_eq!((source, known), (ssrc, 4), "numbers follow the last one that was counted");
        }
        let client = model.client(CLIENT);
        model.good(client, "TEARDOWN", url, &[("Session", &session)]);
        model.is_empty();
    }
}

/// The number behind the last one that was counted, as seen without the offset that the viewer had at the beginning.
fn rtp_before(model: &Model, sequence: u16) -> u16 {
    let (.., sent) = model.datagrams.iter().rfind(|(_, to, _)| to.port() == 5000).unwrap();
    let header = wire::rtp::Header::read(sent).unwrap();
    assert_eq!(header.sequence, 100u16.wrapping_add(sequence));
    header.sequence.wrapping_sub(first_offset(model))
}

/// The offset of the viewer's numbers before the process died, as its record had it.
fn first_offset(model: &Model) -> u16 {
    model.first_offset.expect("a viewer was there")
}

/// Origins that know the session, and have ended its streams with the connection.
#[test]
fn what_does_not_come_any_more_is_asked_anew() {
    for live in [true, false] {
        let mut model = Model::new(Options { live, tracks: 1, ..Options::default() });
        let session = plays_one(&mut model, CLIENT, 5000);
        let track = model.flow_from(6970).1.track;
        let heard = model.now.as_nanos() as u64;
        model.proxy.world.progress.insert(track, Progress { packets: 9, seen: 1, heard, ..Progress::default() });
        model.die(SOON, |_, _| {});
        model.wait(Duration::from_millis(1500));
        assert_eq!((model.count(A, "PLAY"), model.proxy.counts.failed), (0, 0));
        model.wait(Duration::from_millis(1500));
        assert_eq!((model.count(A, "PLAY"), model.proxy.counts.failed), (1, 1));
        // Once, also where it says nothing.
        model.wait(Duration::from_secs(5));
        assert_eq!((model.count(A, "PLAY"), model.proxy.counts.failed), (1, 1));
        let client = model.client(CLIENT);
        model.good(client, "TEARDOWN", URL, &[("Session", &session)]);
        model.is_empty();
    }
}

#[test]
fn a_stream_without_an_origin_finds_one() {
    let mut model = pooled_model(live());
    let session = plays(&mut model, CLIENT, 5000);
    let track = model.flow_from(6970).1.track;
    model.proxy.world.progress.insert(track, Progress { packets: 9, seen: 1, highest: 7, ..Progress::default() });
    model.hosts.remove(B);
    model.kill(A);
    assert!(model.flows.is_empty());
    model.die(SOON, |_, _| {});
    model.hosts.insert(B.into(), live());
    model.wait(Duration::from_secs(10));
    assert_eq!(model.flow_from(6970).0.src.ip().to_string(), B);
    // It dies once more before the first packet of that one has come.
    model.die(SOON, |_, _| {});
    let (_, flow) = model.flow_from(6970);
    assert_eq!((flow.leads, flow.tapped), (Leads::Nobody, true));
    model.proxy.deliver(flow.track, 0, &[0x80, 33, 0, 100, 0, 0, 0, 0, 1, 2, 3, 4, 42]);
    model.run();
    let Leads::Receiver { rewrite, .. } = model.flow_from(6970).1.leads else { panic!() };
    assert_eq!(100u16.wrapping_add(rewrite.sequence).wrapping_sub(first_offset(&model)), 8);
    let client = model.client(CLIENT);
    model.good(client, "TEARDOWN", DOOR, &[("Session", &session)]);
    model.is_empty();
}

#[test]
fn what_can_not_go_on_ends() {
    // Its clients have had no one to tell that they are there.
    let mut model = Model::new(live());
    plays_one(&mut model, CLIENT, 5000);
    model.die(Duration::from_secs(75), |_, _| {});
    assert_eq!((counts(&model), model.logged[0].ended), ((0, 1), "vanished"));
    model.is_empty();
    // Its publisher's connection has ended.
    let mut model = published();
    let client = model.client(CLIENT);
    let session = model.set_up(client, STAGE, 1, 5000);
    model.good(client, "PLAY", STAGE, &[("Session", &session)]);
    model.die(SOON, |_, _| {});
    assert_eq!((counts(&model), model.logged[0].ended), ((0, 1), "origin_lost"));
    model.is_empty();
    // All its viewers were on connections: the origin is told.
    let mut model = Model::new(live());
    let client = model.client(CLIENT);
    let answer = model.good(client, "SETUP", &format!("{URL}/trackID=0"), &[("Transport", "RTP/AVP/TCP;unicast")]);
    let session = answer.headers.get("session").unwrap().split(';').next().unwrap().to_owned();
    model.good(client, "PLAY", URL, &[("Session", &session)]);
    model.die(SOON, |_, _| {});
    assert_eq!((counts(&model), model.methods()), ((0, 1), vec!["TEARDOWN"]));
    model.is_empty();
    // Damaged records, and what is nobody's.
    let mut model = Model::new(live());
    plays_one(&mut model, CLIENT, 5000);
    model.records.values_mut().for_each(|own| own.truncate(own.len() / 2));
    let own = |text: &str| text.parse().unwrap();
    let receiver =
        Receiver { to: own("10.9.9.9:9"), from: own("10.0.1.1:8000"), rewrite: Rewrite::default(), since: 0 };
    model.proxy.world.members.insert((77, 3), receiver);
    let key = FlowKey { src: own("10.9.9.9:9"), dst: own("10.0.2.1:20000") };
    let flow = Flow { leads: Leads::Group, again: false, tapped: false, rate: 0, track: 77, generation: 0 };
    model.flows.insert(format!("{key:?}"), (key, flow));
    model.die(SOON, |_, _| {});
    assert_eq!(counts(&model), (0, 1));
    model.is_empty();
}

/// Another version may know more of a session, or less.
#[test]
fn records_of_other_versions() {
    for (from, to, taken_up) in
        [("{", "{\"later\":[1],", 1), ("\"numbers\"", "\"figures\"", 0), ("\"url\"", "\"at\"", 0)]
    {
        let mut model = Model::new(live());
        plays_one(&mut model, CLIENT, 5000);
        for record in model.records.iter_mut().filter(|(key, _)| *key != "alive").map(|(_, record)| record) {
            let text = String::from_utf8(std::mem::take(record)).unwrap();
            *record = text.replacen(from, to, 1).into_bytes();
        }
        model.die(SOON, |_, _| {});
        assert_eq!(counts(&model), (taken_up, 1 - taken_up), "{to}");
        if taken_up == 0 {
            model.is_empty();
        }
    }
}

#[test]
fn own_ports_that_are_taken_and_other_settings() {
    // Another program has the ports: the stream comes to others.
    let mut model = Model::new(live());
    let session = plays_one(&mut model, CLIENT, 5000);
    model.die(SOON, |_, world| _ = world.refused_pairs.insert(20000));
    model.proxy.world.pairs.insert(20000);
    model.wait(Duration::from_secs(1));
    assert_eq!(model.flow_from(6970).0.dst.port(), 20002);
    model.proxy.world.pairs.remove(&20000);
    // There may be one receiver of a track now, and there were two.
    plays_one(&mut model, OTHER, 6000);
    model.die(SOON, |settings, _| settings.limits.receivers = 1);
    assert_eq!((counts(&model), model.audience()), ((1, 1), addresses(&["10.0.1.11:5000"])));
    let client = model.client(CLIENT);
    model.good(client, "TEARDOWN", URL, &[("Session", &session)]);
    model.is_empty();
    // The server of the pool is no more: its streams go on, and nobody joins them.
    let mut model = pooled_model(live());
    let session = plays(&mut model, CLIENT, 5000);
    model.die(SOON, |settings, _| _ = settings.pools[0].servers.remove(0));
    assert_eq!(model.flow_from(6970).0.src.ip().to_string(), A);
    let client = model.client(CLIENT);
    model.good(client, "TEARDOWN", DOOR, &[("Session", &session)]);
    model.is_empty();
}
