//! Streams of pools: which server each comes from, checks, and what operators say.

use std::sync::Arc;
use std::time::Duration;

use control::admin_state::AdminState;
use media::proxy::origins::{OriginState, ServerShown};
use media::settings::Settings;
use media::settings::pools::{Balance, Check, Kind, Pool, Server};

use crate::model::{CLIENT, Model, OTHER};
use crate::origin::Options;

pub const DOOR: &str = "rtsp://proxy/door";
pub const A: &str = "10.0.2.11";
pub const B: &str = "10.0.2.12";

/// Settings with a pool `cameras` of servers `a` and `b`, from which the stream `door` comes.
fn pooled(settings: &mut Settings) {
    let server =
        |(name, host): (&str, &str)| Server { name: name.into(), host: host.into(), port: Some(8554), weight: 1 };
    let servers = [("a", A), ("b", B)].map(server).into();
    let check = Check { fall: 2, ..Check::default() };
    let (name, kind) = ("cameras".into(), Kind::Origins);
    settings.pools = vec![Pool { name, kind, balance: Balance::RoundRobin, servers, source: None, check }];
    let door = &mut settings.streams[0];
    (door.url, door.pool, door.credentials) = ("rtsp://cameras/1".into(), Some("cameras".into()), None);
}

/// A model with that pool, and both servers there.
pub fn pooled_model(options: Options) -> Model {
    let mut model = Model::with(options.clone(), pooled);
    model.hosts = [A, B].map(|host| (host.to_owned(), options.clone())).into();
    model
}

/// A viewer of `door` that plays: its session.
#[track_caller]
pub fn plays(model: &mut Model, from: &str, port: u16) -> String {
    let client = model.client(from);
    let session = model.set_up(client, DOOR, 1, port);
    model.good(client, "PLAY", DOOR, &[("Session", &session)]);
    session
}

fn shown(model: &Model, name: &str) -> (OriginState, ServerShown) {
    let mut states = model.proxy.origin_states().into_iter();
    let state = states.find(|own| own.server.as_ref().is_some_and(|own| own.name == name)).expect(name);
    (state.clone(), state.server.unwrap())
}

fn live() -> Options {
    Options { live: true, tracks: 1, ..Options::default() }
}

#[test]
fn films_come_from_servers_in_turn() {
    let mut model = pooled_model(Options { tracks: 1, ..Options::default() });
    for port in [5000, 5010, 5020, 5030] {
        plays(&mut model, CLIENT, port);
    }
    assert_eq!((model.count(A, "PLAY"), model.count(B, "PLAY")), (2, 2));
    let (_, connection) = model.origins.iter().find(|(id, _)| model.places[id] == B).unwrap();
    assert_eq!(connection.0.asked[1].url, "rtsp://10.0.2.12:8554/1");
    let (state, server) = shown(&model, "b");
    assert_eq!((state.origin.as_str(), state.streams, state.sessions, state.asked), ("10.0.2.12:8554", 2, 2, 2));
    assert_eq!((server.pool.as_str(), server.admin.as_str(), server.up), ("cameras", "ready", None));
    assert_eq!(model.proxy.origin_states().len(), 2);
}

#[test]
fn checks_find_out_who_works() {
    for path in [None, Some("/health")] {
        let mut model = Model::with(live(), |settings| {
            pooled(settings);
            let check = &mut settings.pools[0].check;
            (check.path, check.status) = (path.map(str::to_owned), path.map(|_| 200));
        });
        model.hosts = [A, B].map(|host| (host.to_owned(), live())).into();
        model.wait(Duration::from_secs(1));
        assert_eq!(["a", "b"].map(|name| shown(&model, name).1.up), [Some(true); 2]);
        let method = if path.is_some() { "DESCRIBE" } else { "OPTIONS" };
        assert_eq!((model.count(A, method), model.closed_origins.len()), (1, 2));
        // One that can't be reached, does not answer, or answers something else is down after `fall` checks.
        for gone in [
            None,
            Some(Options { silent: vec![method.into()], ..live() }),
            Some(Options { status: vec![(method.into(), 503)], ..live() }),
        ] {
            match gone {
                None => _ = model.hosts.remove(A),
                Some(options) => _ = model.hosts.insert(A.into(), options),
            }
            model.wait(Duration::from_secs(2));
            assert_eq!(shown(&model, "a").1.up, Some(true));
            model.wait(Duration::from_secs(5));
            let (_, server) = shown(&model, "a");
            assert_eq!(server.up, Some(false), "{server:?}");
            assert!(server.checks_failed >= 2 && server.why != "checks succeed", "{server:?}");
            model.hosts.insert(A.into(), live());
            model.wait(Duration::from_secs(4));
            assert_eq!(shown(&model, "a").1.up, Some(true));
        }
        model.hosts.remove(A);
        model.wait(Duration::from_secs(5));
        plays(&mut model, CLIENT, 5000);
        assert_eq!((model.count(A, "PLAY"), model.count(B, "PLAY")), (0, 1));
    }
}

#[test]
fn who_asks_for_a_stream_gets_it_from_who_has_it() {
    // The first does not have it, does not answer, or is not there: the next one is asked.
    for (options, later) in [
        (Some(Options { status: vec![("DESCRIBE".into(), 404)], ..live() }), 0),
        (Some(Options { silent: vec!["DESCRIBE".into()], ..live() }), 11),
        (None, 0),
    ] {
        let mut model = pooled_model(live());
        match options {
            Some(options) => _ = model.hosts.insert(A.into(), options),
            None => _ = model.hosts.remove(A),
        }
        let client = model.client(CLIENT);
        let answer = model.try_ask(client, "DESCRIBE", DOOR, &[]);
        model.wait(Duration::from_secs(later));
        let answer = answer.or_else(|| model.answer(client)).unwrap();
        assert_eq!(answer.status, 200);
        assert_eq!(model.count(B, "DESCRIBE"), 1);
    }
    // Nobody has it: each was asked once, and the client is told.
    let mut model = pooled_model(Options { status: vec![("DESCRIBE".into(), 404)], ..live() });
    let client = model.client(CLIENT);
    assert_eq!(model.ask(client, "DESCRIBE", DOOR, &[]).status, 404);
    assert_eq!((model.count(A, "DESCRIBE"), model.count(B, "DESCRIBE")), (1, 1));
    for host in [A, B] {
        model.kill(host);
    }
    model.wait(Duration::from_secs(5));
    assert_eq!(model.ask(client, "DESCRIBE", DOOR, &[]).status, 503);
    assert_eq!(model.proxy.sizes().2, 0);
}

#[test]
fn a_drained_server_keeps_its_streams_and_gets_no_more() {
    let mut model = pooled_model(live());
    plays(&mut model, CLIENT, 5000);
    let a = model.proxy.pools().named("cameras/a").unwrap();
    model.proxy.set_admin_state(a, AdminState::Drain);
    model.run();
    // Else it would never be free.
    plays(&mut model, OTHER, 6000);
    plays(&mut model, OTHER, 6010);
    assert_eq!((model.count(A, "PLAY"), model.count(B, "PLAY")), (1, 1));
    assert_eq!(["a", "b"].map(|name| shown(&model, name).0.sessions), [1, 2]);
    model.proxy.set_admin_state(a, AdminState::Ready);
    let b = model.proxy.pools().named("cameras/b").unwrap();
    model.proxy.set_admin_state(b, AdminState::Drain);
    plays(&mut model, OTHER, 6020);
    assert_eq!((model.count(A, "PLAY"), model.count(B, "PLAY")), (2, 1));
}

#[test]
fn a_reload_changes_pools_under_streams() {
    let mut model = pooled_model(live());
    plays(&mut model, CLIENT, 5000);
    let mut settings = (**model.proxy.settings()).clone();
    // `a` is gone, `b` has another name, `c` is new.
    let servers = &mut settings.pools[0].servers;
    (servers[0].name, servers[0].host) = ("c".into(), "10.0.2.13".into());
    servers[1].name = "z".into();
    model.hosts.insert("10.0.2.13".into(), live());
    model.proxy.set_settings(Arc::new(settings.clone()));
    model.run();
    let (state, server) = shown(&model, "a");
    assert_eq!((state.streams, server.configured), (1, false));
    // The viewer there stays; others come to servers that there are.
    for (from, port) in [(OTHER, 6000), (OTHER, 6010)] {
        plays(&mut model, from, port);
    }
    assert_eq!(model.count(A, "PLAY"), 1);
    assert_eq!(model.count(B, "PLAY") + model.count("10.0.2.13", "PLAY"), 1);
    // With its server gone, too, it comes from another one.
    model.kill(A);
    assert_eq!(model.proxy.sizes().1, 3);
    assert_eq!(model.proxy.counts.replaced, 1);
    model.proxy.set_settings(Arc::new(settings));
    assert_eq!(model.proxy.origin_states().len(), 2);
}
