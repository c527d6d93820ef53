//! Other proxies that are asked before origins: siblings, of which one has each stream, and parents.

use std::collections::BTreeMap;
use std::time::Duration;

use media::settings::cache::{Films, Record};
use media::settings::peers::Peers;
use media::settings::pools::{Balance, Check, Kind, Pool, Server};
use media::settings::{Credentials, Settings};

use crate::model::{CLIENT, Model, OTHER, cache};
use crate::origin::Options;
use crate::pools::plays;

const ORIGIN: &str = "camera.example";
const SIBLINGS: [(&str, &str); 3] = [("e1", "10.0.3.1"), ("e2", "10.0.3.2"), ("e3", "10.0.3.3")];
const PARENTS: [(&str, &str); 2] = [("p1", "10.0.4.1"), ("p2", "10.0.4.2")];

fn pool(kind: Kind, servers: &[(&str, &str)]) -> Pool {
    let server =
        |(name, host): &(&str, &str)| Server { name: (*name).into(), host: (*host).into(), port: None, weight: 1 };
    let check = Check { fall: 1, ..Check::default() };
    Pool {
        name: kind.name().into(),
        kind,
        balance: Balance::RoundRobin,
        servers: servers.iter().map(server).collect(),
        source: None,
        check,
    }
}

/// `own` among the siblings, with both parents.
fn peered(settings: &mut Settings, own: &str) {
    let others: Vec<_> = SIBLINGS.into_iter().filter(|(name, _)| *name != own).collect();
    settings.pools = vec![pool(Kind::Siblings, &others), pool(Kind::Parents, &PARENTS)];
    let credentials = Some(Credentials { user: "edge".into(), password: "hidden".into() });
    settings.peers = Some(Peers { name: Some(own.into()), weight: 1, credentials, announce: None });
}

fn live() -> Options {
    Options { live: true, tracks: 1, ..Options::default() }
}

/// A model of one of the siblings, with all peers and the origin there.
fn model(own: &str, change: impl FnOnce(&mut Settings)) -> Model {
    let mut model = Model::with(live(), |settings| {
        peered(settings, own);
        change(settings);
    });
    model.hosts = SIBLINGS.iter().chain(&PARENTS).map(|(_, host)| ((*host).to_owned(), live())).collect();
    model.hosts.extend([ORIGIN, "10.0.2.11"].map(|host| (host.to_owned(), live())));
    model
}

/// The sibling that all of them say has the stream `door`, and one that has it not.
fn owner() -> (&'static str, &'static str) {
    let says = |own: &str| {
        let asked = model(own, |_| {}).proxy.peers_state(Some("door")).asked;
        assert!(PARENTS.iter().all(|(name, _)| asked.contains(&format!("parents/{name}"))), "{asked:?}");
        asked.first().and_then(|first| first.strip_prefix("siblings/")).unwrap_or(own).to_owned()
    };
    let said: Vec<String> = SIBLINGS.iter().map(|(name, _)| says(name)).collect();
    assert!(said.iter().all(|own| *own == said[0]), "{said:?}");
    let owner = SIBLINGS.iter().find(|own| own.0 == said[0]).unwrap().0;
    (owner, SIBLINGS.iter().find(|own| own.0 != owner).unwrap().0)
}

fn host_of(name: &str) -> &'static str {
    SIBLINGS.iter().chain(&PARENTS).find(|own| own.0 == name).unwrap().1
}

/// Hosts that were asked to describe something, and how often.
fn described(model: &Model) -> BTreeMap<&'static str, usize> {
    let count = |host: &&str| model.count(host, "DESCRIBE");
    let hosts = SIBLINGS.iter().chain(&PARENTS).map(|own| own.1).chain([ORIGIN, "10.0.2.11"]);
    hosts.map(|host| (host, count(&host))).filter(|own| own.1 != 0).collect()
}

#[test]
fn one_sibling_has_each_stream() {
    let (owner, other) = owner();
    // Who has it not asks the one that has, once for all of its viewers, by the same path, and as itself.
    let mut model = model(other, |_| {});
    plays(&mut model, CLIENT, 5000);
    plays(&mut model, OTHER, 5010);
    assert_eq!(described(&model), [(host_of(owner), 1)].into());
    let asked = model.origins.values().flat_map(|own| &own.0.asked).find(|own| own.method == "DESCRIBE").unwrap();
    assert_eq!(asked.url, format!("rtsp://{}/door", host_of(owner)));
    assert_eq!(asked.headers.get("via"), Some(&*format!("RTSP/1.0 {other}")));
    let state = model.proxy.peers_state(None);
    assert_eq!((state.name.as_deref(), state.peers.len()), (Some(other), 4));
    let of_owner = state.peers.iter().find(|own| own.server.as_ref().unwrap().name == owner).unwrap();
    assert_eq!((of_owner.streams, of_owner.sessions, of_owner.asked), (1, 2, 1));
    // When all have left it leaves the sibling.
    let clients: Vec<_> = model.got.keys().copied().collect();
    clients.into_iter().for_each(|client| model.proxy.client_closed(client));
    model.wait(Duration::from_secs(200));
    assert!(model.proxy.stream_states().is_empty());
    assert_eq!(model.count(host_of(owner), "TEARDOWN"), 1);
}

#[test]
fn who_has_it_asks_a_parent_and_does_not_ask_siblings_back() {
    let (owner, other) = owner();
    let mut model = model(owner, |_| {});
    plays(&mut model, CLIENT, 5000);
    let first = described(&model);
    assert_eq!(first.values().sum::<usize>(), 1, "{first:?}");
    assert!(PARENTS.iter().any(|own| first.contains_key(own.1)), "{first:?}");
    // A sibling shares what viewers here have.
    let sibling = model.client(OTHER);
    let via = format!("RTSP/1.0 {other}");
    model.good(sibling, "DESCRIBE", "rtsp://proxy/door", &[("Via", &via)]);
    assert_eq!(described(&model), first);
    // The other way round, too: what a sibling has asked for is for viewers here.
    let mut turned = self::model(owner, |_| {});
    let sibling = turned.client(OTHER);
    turned.good(sibling, "DESCRIBE", "rtsp://proxy/door", &[("Via", &via)]);
    plays(&mut turned, CLIENT, 5000);
    assert_eq!(described(&turned), first);
    // One that is wrong about who has a stream is served, and not sent on.
    let mut model = self::model(other, |_| {});
    let wrong = SIBLINGS.iter().find(|own| own.0 != owner && own.0 != other).unwrap().0;
    let sibling = model.client(OTHER);
    model.good(sibling, "DESCRIBE", "rtsp://proxy/door", &[("Via", &format!("RTSP/1.0 child, RTSP/1.0 {wrong}"))]);
    assert_eq!(described(&model), first, "the same parent, by the same rule");
    // But what comes from a sibling here is not for it.
    plays(&mut model, CLIENT, 5000);
    assert_eq!(described(&model), first, "viewers join what is there");
    let mut model = self::model(other, |_| {});
    plays(&mut model, CLIENT, 5000);
    let sibling = model.client(OTHER);
    model.good(sibling, "DESCRIBE", "rtsp://proxy/door", &[("Via", &format!("RTSP/1.0 {owner}"))]);
    assert_eq!(model.count(host_of(owner), "DESCRIBE"), 1);
    assert_eq!(described(&model).len(), 2, "a parent is asked, too");
    // Who comes through this one itself is in a loop.
    let looped = model.client(CLIENT);
    let via = format!("RTSP/1.0 {other}");
    assert_eq!(model.ask(looped, "DESCRIBE", "rtsp://proxy/door", &[("Via", &via)]).status, 502);
}

#[test]
fn peers_that_fail_are_passed_by() {
    let (owner, other) = owner();
    for fault in ["gone", "404", "401", "503", "silent"] {
        let mut model = model(other, |_| {});
        let mut bad = live();
        match fault {
            "silent" => bad.silent = vec!["DESCRIBE".into()],
            "gone" => {}
            status => bad.status = vec![("DESCRIBE".into(), status.parse().unwrap())],
        }
        // All siblings and the parents are so: the origin is left, which asks for no password of the proxy's at peers.
        for (_, host) in SIBLINGS.iter().chain(&PARENTS) {
            match fault {
                "gone" => _ = model.hosts.remove(*host),
                _ => _ = model.hosts.insert((*host).to_owned(), bad.clone()),
            }
        }
        let client = model.client(CLIENT);
        let asked = model.try_ask(client, "DESCRIBE", "rtsp://proxy/door", &[]);
        let answer = asked.unwrap_or_else(|| {
            model.wait(Duration::from_secs(60));
            model.answer(client).expect("an answer")
        });
        assert_eq!(answer.status, 200, "{fault}");
        let found = described(&model);
        assert_eq!(found[ORIGIN], 1, "{fault}: {found:?}");
        if fault == "gone" {
            // The next one is sent there at once.
            let state = model.proxy.peers_state(Some("door"));
            assert_eq!(state.asked, [""; 0]);
        } else {
            assert_eq!(found[host_of(owner)], 1, "{fault}: {found:?}");
            assert!(PARENTS.iter().all(|own| found[own.1] == 1), "{fault}: {found:?}");
        }
    }
}

#[test]
fn passwords_are_those_of_the_place() {
    let (owner, other) = owner();
    let mut model = model(other, |_| {});
    let guarded = |user: &str, password: &str| Options { password: Some((user.into(), password.into())), ..live() };
    model.hosts.insert(host_of(owner).to_owned(), guarded("edge", "hidden"));
    model.hosts.insert(ORIGIN.to_owned(), guarded("viewer", "secret"));
    plays(&mut model, CLIENT, 5000);
    assert_eq!(model.count(ORIGIN, "DESCRIBE"), 0);
    assert_eq!(model.count(host_of(owner), "PLAY"), 1);
    // It goes on from a parent, then from the origin.
    for (_, host) in SIBLINGS.iter().chain(&PARENTS) {
        model.kill(host);
    }
    model.wait(Duration::from_secs(20));
    assert_eq!(model.count(ORIGIN, "PLAY"), 1);
    let failed: u64 = model.proxy.peers_state(None).peers.iter().map(|own| own.failed).sum();
    assert_eq!(failed, model.proxy.counts.failed, "each failure is a peer's");
}

#[test]
fn who_has_a_stream_records_it() {
    let (owner, other) = owner();
    let records = |record: Record| {
        move |settings: &mut Settings| {
            settings.streams[0].record = record;
            settings.cache = Some(cache(Films::default()));
        }
    };
    for (name, record, viewed) in [
        (owner, Record::Viewed, true),
        (other, Record::Viewed, true),
        (owner, Record::Always, false),
        (other, Record::Always, false),
    ] {
        let mut model = model(name, records(record));
        if viewed {
            plays(&mut model, CLIENT, 5000);
        }
        model.wait(Duration::from_secs(3));
        let recorded: Vec<&str> = model.proxy.world.recorded.values().map(String::as_str).collect();
        let expected: &[&str] = if name == owner { &["door 0"] } else { &[] };
        assert_eq!(recorded, expected, "{name} {record:?}");
        assert_eq!(model.proxy.stream_states().len(), usize::from(viewed || name == owner), "{name} {record:?}");
    }
    // When the one that has it is gone another one records it, and no longer than that.
    let mut model = model(other, records(Record::Always));
    let others: Vec<&str> = SIBLINGS.iter().filter(|own| own.0 != other).map(|own| own.1).collect();
    others.iter().for_each(|host| _ = model.hosts.remove(*host));
    model.wait(Duration::from_secs(10));
    assert_eq!(model.proxy.world.recorded.len(), 1);
    others.iter().for_each(|host| _ = model.hosts.insert((*host).to_owned(), live()));
    model.wait(Duration::from_secs(30));
    assert!(model.proxy.world.recorded.is_empty());
}

/// Streams that clients name by their origins are shared as those with names of their own are, by the whole path.
#[test]
fn streams_without_names_are_shared_out() {
    let mut model = model("e1", |_| {});
    let client = model.client(CLIENT);
    for stream in 0..60 {
        let url = format!("rtsp://proxy:8554/10.0.2.11:8554/live?channel={stream}");
        model.good(client, "DESCRIBE", &url, &[]);
    }
    let found = described(&model);
    assert_eq!(found.values().sum::<usize>(), 60);
    assert!(found.len() == 4 && found.values().all(|own| *own > 3), "{found:?}");
    let asked = model.origins.values().flat_map(|own| own.0.asked.iter().map(|own| own.url.as_str()));
    assert_eq!(asked.filter(|own| own.ends_with("/10.0.2.11:8554/live?channel=1")).count(), 2, "OPTIONS and DESCRIBE");
}

#[test]
fn a_process_after_this_one_goes_on_with_a_peer() {
    let (owner, other) = owner();
    let mut model = model(other, |_| {});
    plays(&mut model, CLIENT, 5000);
    model.die(Duration::from_secs(2), |_, _| {});
    model.run();
    let state = model.proxy.peers_state(None);
    let of_owner = state.peers.iter().find(|own| own.server.as_ref().unwrap().name == owner).unwrap();
    assert_eq!((of_owner.streams, of_owner.sessions), (1, 1));
    // The next viewer shares it.
    plays(&mut model, OTHER, 5010);
    assert_eq!(model.proxy.stream_states().len(), 1);
}
