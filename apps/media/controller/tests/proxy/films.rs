//! Films that may be in the cache: it is asked first, and the origin for what it has not.

use std::time::Duration;

use media::cache::seam::{Known, Rest, Seam, Tail};
use media::settings::cache::Films;
use media::tables::Leads;
use wire::rtsp::framing::Item;

use crate::model::{CLIENT, Model, URL, cache};
use crate::origin::Options;

/// The origin, and where the cache answers.
const HOST: &str = "10.0.2.11";
const CACHE: &str = "films.invalid";

/// With a cache that answers DESCRIBE so.
fn model(options: Options, after: u32, status: Option<u16>) -> Model {
    let films = Films { prefixes: vec![format!("rtsp://{HOST}:8554/")], after, ..Films::default() };
    let mut model = Model::with(options.clone(), |settings| {
        settings.cache = Some(cache(films));
    });
    model.proxy.world.keeps_films = true;
    let status = status.map(|status| ("DESCRIBE".to_owned(), status)).into_iter().collect();
    model.hosts.insert(CACHE.into(), Options { status, said: Vec::new(), ..options });
    model
}

fn recorded(model: &Model) -> Vec<&str> {
    model.proxy.world.recorded.values().map(String::as_str).collect()
}

#[test]
fn what_is_not_there_is_recorded_while_it_is_viewed() {
    let mut model = model(Options::default(), 1, Some(302));
    let client = model.client(CLIENT);
    let session = model.set_up(client, URL, 2, 5000);
    assert_eq!(["OPTIONS", "DESCRIBE", "SETUP"].map(|own| model.count(HOST, own)), [1, 1, 2]);
    assert_eq!((model.proxy.counts.film_misses, recorded(&model)), (1, vec![]));
    let play = |model: &mut Model, headers: &[(&str, &str)]| {
        let headers = [&[("Session", session.as_str())], headers].concat();
        model.good(client, "PLAY", URL, &headers);
    };
    play(&mut model, &[("Range", "npt=2.5-")]);
    let film = format!("film rtsp://{HOST}:8554/film");
    let both = |from: u64| [0, 1].map(|track| format!("{film} {track} from {from}"));
    assert_eq!(recorded(&model), both(2_500_000));
    let (_, flow) = model.flow_from(6970);
    assert!(flow.tapped, "the controller gets copies");
    // A seek is another part, and so is what follows a pause.
    play(&mut model, &[("Range", "npt=7-")]);
    assert_eq!(recorded(&model), both(7_000_000));
    model.good(client, "PAUSE", URL, &[("Session", &session)]);
    assert_eq!(recorded(&model), [""; 0]);
    assert!(!model.flow_from(6970).1.tapped);
    play(&mut model, &[("Range", "npt=1-")]);
    // What is played at another speed is not as it is.
    play(&mut model, &[("Scale", "2"), ("Range", "npt=3-")]);
    assert_eq!(recorded(&model), [""; 0]);
    play(&mut model, &[("Range", "npt=0-")]);
    assert_eq!(recorded(&model), both(0));
    model.good(client, "TEARDOWN", URL, &[("Session", &session)]);
    assert_eq!(model.logged.last().unwrap().cache, Some("miss"));
    model.is_empty();
}

#[test]
fn some_films_are_not_recorded() {
    let no_store = Options { said: vec![("Cache-Control", "max-age=9, no-store")], ..Options::default() };
    let live = Options { live: true, ..Options::default() };
    for (options, after, count) in [(Options::default(), 2, 1), (no_store, 1, 2), (live, 1, 2)] {
        let mut model = model(options, after, Some(302));
        for time in 0..2 {
            let client = model.client(CLIENT);
            let session = model.set_up(client, URL, 1, 5000);
            model.good(client, "PLAY", URL, &[("Session", &session), ("Range", "npt=0-")]);
            assert_eq!(recorded(&model).len(), usize::from(time >= count), "{time}");
            model.good(client, "TEARDOWN", URL, &[("Session", &session)]);
            model.proxy.client_closed(client);
            model.run();
        }
        model.is_empty();
    }
}

#[test]
fn the_origin_has_the_rest() {
    let mut model = model(Options::default(), 1, None);
    let client = model.client(CLIENT);
    let session = model.set_up(client, URL, 2, 5000);
    model.good(client, "PLAY", URL, &[("Session", &session), ("Range", "npt=0-")]);
    assert_eq!((model.count(HOST, "OPTIONS"), model.proxy.counts.film_hits), (0, 1));
    let connection = *model.places.iter().find(|(_, host)| *host == CACHE).unwrap().0;
    let (from, until) = (Duration::from_millis(7500), Some(Duration::from_secs(9)));
    model.proxy.copy_ended(connection, Rest { from, until, scale: 4, seam: Seam::default() });
    model.run();
    model.wait(Duration::from_secs(1));
    let (origin, _) = model.origins.values().last().unwrap();
    let play = origin.asked.iter().find(|own| own.method == "PLAY").unwrap();
    assert_eq!((play.headers.get("range"), play.headers.get("scale")), (Some("npt=7.500-9.000"), Some("4")));
    // What is played at another speed is not as it is.
    assert_eq!((model.proxy.counts.film_partial, recorded(&model).len()), (1, 0));
    // It is the origin's from now on, over UDP.
    model.good(client, "PAUSE", URL, &[("Session", &session)]);
    assert_eq!((model.count(HOST, "PAUSE"), model.count(CACHE, "PAUSE")), (1, 0));
    model.good(client, "TEARDOWN", URL, &[("Session", &session)]);
    assert_eq!(model.logged.last().unwrap().cache, Some("partial"));
    model.is_empty();
}

/// What the origin sends again is left out, and what follows has the numbers that it would have had in the copy.
#[test]
fn what_viewers_had_does_not_come_again() {
    let mut model = model(Options { tracks: 1, ..Options::default() }, 1, None);
    let client = model.client(CLIENT);
    let session = model.set_up(client, URL, 1, 5000);
    model.good(client, "PLAY", URL, &[("Session", &session), ("Range", "npt=0-")]);
    let connection = *model.places.iter().find(|(_, host)| *host == CACHE).unwrap().0;
    let rtp = |sequence: u16, timestamp: u32, payload: &[u8]| {
        let mut packet = vec![0x80, 33, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4];
        wire::rtp::Header { sequence, timestamp, ssrc: 77 }.write(&mut packet);
        [&packet, payload].concat()
    };
    // Three packets come from the copy; a fourth one is there.
    let mut tail = Tail::default();
    for number in 0..4 {
        let packet = rtp(10 + number, 9000 * u32::from(number), &[number as u8; 8]);
        let known = Known { timestamp: 9000 * u32::from(number), is_sent: number < 3 };
        tail.note(&packet, known);
        if known.is_sent {
            model.proxy.origin_item(connection, Item::Data { channel: 0, packet });
        }
    }
    model.run();
    let sent = |model: &Model| -> Vec<(u16, u32, u8)> {
        let read = |bytes: &[u8]| Some((wire::rtp::Header::read(bytes)?, *bytes.last()?));
        let all = model.datagrams.iter().filter(|own| own.1.port() == 5000).filter_map(|own| read(&own.2));
        all.map(|(header, last)| (header.sequence, header.timestamp, last)).collect()
    };
    let before = sent(&model);
    assert_eq!(before.len(), 3);
    let (from, seam) = (Duration::from_millis(7500), Seam::from([(0, tail)]));
    model.proxy.copy_ended(connection, Rest { from, until: None, scale: 1, seam });
    model.run();
    model.wait(Duration::from_secs(1));
    // The origin begins a little before, with numbers of its own.
    let (_, flow) = model.flow_from(6970);
    assert_eq!((flow.leads, flow.tapped), (Leads::Nobody, true));
    for number in 1..5u8 {
        model.proxy.deliver(
            flow.track,
            0,
            &rtp(500 + u16::from(number), 70_000 + 9000 * u32::from(number), &[number; 8]),
        );
        model.run();
        let (_, flow) = model.flow_from(6970);
        assert_eq!(flow.leads == Leads::Nobody, number < 3, "the program has it from the first new one on");
    }
    let all = sent(&model);
    let (first, time, _) = before[0];
    let due: Vec<_> =
        (0..5).map(|own: u8| (first.wrapping_add(own.into()), time.wrapping_add(9000 * u32::from(own)), own)).collect();
    assert_eq!((all, model.proxy.counts.film_repeated), (due, 2));
    model.good(client, "TEARDOWN", URL, &[("Session", &session)]);
    model.is_empty();
}

#[test]
fn a_place_that_the_cache_has_not_is_the_origins() {
    let mut model = model(Options::default(), 1, None);
    model.hosts.get_mut(CACHE).unwrap().status.push(("PLAY".into(), 302));
    let client = model.client(CLIENT);
    let session = model.set_up(client, URL, 1, 5000);
    let answer = model.good(client, "PLAY", URL, &[("Session", &session), ("Range", "npt=5-")]);
    assert_eq!(answer.headers.get("range"), Some("npt=5-"));
    assert_eq!((model.count(HOST, "PLAY"), recorded(&model).len()), (1, 1));
    model.good(client, "TEARDOWN", URL, &[("Session", &session)]);
    assert_eq!(model.logged.last().unwrap().cache, Some("miss"));
    model.is_empty();
}

/// Two viewers of a film at a time are recorded once.
#[test]
fn what_several_play_is_recorded_once() {
    let mut model = model(Options { length: 600.0, ..Options::default() }, 1, Some(302));
    let begins = |model: &mut Model, port: u16, range: &str| {
        let client = model.client(CLIENT);
        let session = model.set_up(client, URL, 1, port);
        model.good(client, "PLAY", URL, &[("Session", &session), ("Range", range)]);
        (client, session)
    };
    let film = |from: u64| format!("film rtsp://{HOST}:8554/film 0 from {from}");
    let first = begins(&mut model, 5000, "npt=0-");
    // At the same place, a little ahead, and where the first one has been.
    begins(&mut model, 5010, "npt=0-");
    begins(&mut model, 5020, "npt=4-");
    model.wait(Duration::from_secs(20));
    begins(&mut model, 5030, "npt=11-");
    assert_eq!(recorded(&model), [film(0)]);
    // Far ahead: the first one comes there, and is recorded no more.
    begins(&mut model, 5040, "npt=60-");
    assert_eq!(recorded(&model), [film(0), film(60_000_000)]);
    model.good(first.0, "GET_PARAMETER", URL, &[("Session", &first.1)]);
    model.wait(Duration::from_secs(38));
    assert_eq!(recorded(&model).len(), 2);
    model.wait(Duration::from_secs(4));
    assert_eq!(recorded(&model), [film(60_000_000)]);
    // In front of that one.
    model.good(first.0, "PLAY", URL, &[("Session", &first.1), ("Range", "npt=300-")]);
    assert_eq!(recorded(&model).len(), 2);
}

/// Who is recorded leaves: the one behind it is recorded from there on, as soon as it comes there.
#[test]
fn who_is_behind_goes_on_where_another_one_has_left() {
    let mut model = model(Options { length: 600.0, ..Options::default() }, 1, Some(302));
    let begins = |model: &mut Model, port: u16| {
        let client = model.client(CLIENT);
        let session = model.set_up(client, URL, 1, port);
        model.good(client, "PLAY", URL, &[("Session", &session), ("Range", "npt=0-")]);
        (client, session)
    };
    let start = |own: &str| own.rsplit(' ').next().unwrap().parse::<u64>().unwrap();
    let first = begins(&mut model, 5000);
    let waits = |model: &mut Model, all: &[&(_, String)], seconds: u64| {
        for _ in 0..seconds {
            model.wait(Duration::from_secs(1));
            all.iter().for_each(|own| _ = model.good(own.0, "GET_PARAMETER", URL, &[("Session", &own.1)]));
        }
    };
    waits(&mut model, &[&first], 20);
    let (second, third) = (begins(&mut model, 5010), begins(&mut model, 5020));
    waits(&mut model, &[&first, &second, &third], 10);
    assert_eq!(recorded(&model).len(), 1);
    model.good(first.0, "TEARDOWN", URL, &[("Session", &first.1)]);
    // It has thirty seconds; they are ten seconds in.
    waits(&mut model, &[&second, &third], 16);
    assert_eq!(recorded(&model), [""; 0]);
    waits(&mut model, &[&second, &third], 5);
    let now = recorded(&model);
    assert_eq!(now.len(), 1, "{now:?}");
    assert!((27_000_000..30_000_000).contains(&start(now[0])), "{now:?}");
    // It pauses, and the other one that is there goes on.
    model.good(second.0, "PAUSE", URL, &[("Session", &second.1)]);
    assert_eq!(recorded(&model).len(), 0);
    waits(&mut model, &[&third], 2);
    let after = recorded(&model);
    assert_eq!(after.len(), 1, "{after:?}");
    assert!(start(after[0]) > 30_000_000, "{after:?}");
}

/// The cache is gone in the middle of a film.
#[test]
fn without_the_cache_there_is_the_origin() {
    let mut model = model(Options::default(), 1, None);
    model.kill(CACHE);
    let client = model.client(CLIENT);
    // Its connection can't be made.
    let transport = [("Transport", "RTP/AVP;unicast;client_port=5000-5001")];
    assert_eq!(model.ask(client, "SETUP", &format!("{URL}/trackID=0"), &transport).status, 200);
    assert_eq!(model.count(HOST, "SETUP"), 1);
}
