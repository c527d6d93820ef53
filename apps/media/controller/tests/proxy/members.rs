//! Members that are found: they come and go under streams, as servers of a configuration do.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use media::pools::learnt::News;
use media::settings::members::{Endpoint, Etcd, Source, TlsFiles};
use media::settings::peers::Peers;
use media::settings::pools::{Balance, Check, Kind, Pool, Server};

use crate::model::{CLIENT, Model, OTHER};
use crate::origin::Options;
use crate::pools::plays;

const ALL: [(&str, &str); 3] = [("e1", "10.0.3.1"), ("e2", "10.0.3.2"), ("e3", "10.0.3.3")];
const ORIGIN: &str = "camera.example";

fn source(prefix: &str) -> Arc<Source> {
    let endpoints = vec![Endpoint { secure: false, host: "10.0.9.9".into(), port: 2379 }];
    Arc::new(Source::Etcd(Etcd { endpoints, prefix: prefix.into(), tls: TlsFiles::default(), credentials: None }))
}

/// A proxy with a name that finds its siblings.
fn model(own: &str) -> Model {
    let live = Options { live: true, tracks: 1, ..Options::default() };
    let mut model = Model::with(live.clone(), |settings| {
        settings.pools = vec![Pool {
            name: "siblings".into(),
            kind: Kind::Siblings,
            balance: Balance::RoundRobin,
            servers: Vec::new(),
            source: Some(source("/s/")),
            check: Check { fall: 1, ..Check::default() },
        }];
        settings.peers = Some(Peers { name: Some(own.into()), weight: 1, ..Peers::default() });
    });
    model.hosts = ALL.iter().map(|own| own.1).chain([ORIGIN]).map(|host| (host.to_owned(), live.clone())).collect();
    model
}

fn servers(names: &[&str]) -> Vec<Server> {
    let server = |name: &&str| {
        let host = ALL.iter().find(|own| own.0 == *name).unwrap().1.to_owned();
        Server { name: (*name).to_owned(), host, port: None, weight: 1 }
    };
    names.iter().map(server).collect()
}

fn tell(model: &mut Model, names: &[&str]) {
    let news = News::Members { servers: servers(names), left_out: BTreeMap::new(), revision: "7".into() };
    model.proxy.members_told("siblings", &source("/s/"), news);
    model.run();
}

/// Who has the stream `door`, as a proxy says that knows these.
fn owner(own: &str, names: &[&str]) -> String {
    let mut model = model(own);
    tell(&mut model, names);
    let asked = model.proxy.peers_state(Some("door")).asked;
    asked.first().map_or_else(|| own.to_owned(), |first| first.replace("siblings/", ""))
}

fn host_of(name: &str) -> &'static str {
    ALL.iter().find(|own| own.0 == name).unwrap().1
}

#[test]
fn all_agree_once_they_know_each_other() {
    let names = ["e1", "e2", "e3"];
    let said = names.map(|own| owner(own, &names));
    assert!(said.iter().all(|own| *own == said[0]), "{said:?}");
    // One that is not known to the others has no stream: they would not ask it.
    let others: Vec<&str> = names.into_iter().filter(|own| **own != said[0]).collect();
    let without = owner(&said[0], &others);
    assert_ne!(without, said[0]);
    assert!(others.iter().all(|own| owner(own, &others) == without));
    // But it serves its viewers where nobody else is known.
    assert_eq!(owner("e2", &[]), "e2");
    assert_eq!(owner("e2", &["e2"]), "e2");
}

#[test]
fn streams_of_who_goes_go_on_and_no_others_begin() {
    let names = ["e1", "e2", "e3"];
    let has = owner("e1", &names);
    let own = names.into_iter().find(|own| *own != has).unwrap();
    let others: Vec<&str> = names.into_iter().filter(|own| **own != has).collect();
    let mut model = model(own);
    // Nobody is known: the origin is asked.
    plays(&mut model, CLIENT, 5000);
    assert_eq!(model.count(ORIGIN, "PLAY"), 1);
    let first: Vec<_> = model.got.keys().copied().collect();
    first.into_iter().for_each(|client| model.proxy.client_closed(client));
    model.wait(Duration::from_secs(200));
    assert!(model.proxy.stream_states().is_empty());

    tell(&mut model, &names);
    plays(&mut model, CLIENT, 5010);
    assert_eq!(model.count(host_of(&has), "PLAY"), 1);
    // What was lost is the watch, and what another source says is not asked for.
    model.proxy.members_told("siblings", &source("/s/"), News::Lost("it is gone".into()));
    let news = News::Members { servers: Vec::new(), left_out: BTreeMap::new(), revision: "9".into() };
    model.proxy.members_told("siblings", &source("/other/"), news.clone());
    model.proxy.members_told("parents", &source("/s/"), news);
    let state = model.proxy.peers_state(None);
    assert_eq!((state.peers.len(), state.sources[0].members), (2, 3));
    assert_eq!((state.sources[0].lost, state.sources[0].last_error.as_str()), (1, "it is gone"));
    // A reload forgets nothing of it.
    let settings = Arc::new((**model.proxy.settings()).clone());
    model.proxy.set_settings(settings);
    assert_eq!(model.proxy.peers_state(None).peers.len(), 2);

    // Who has the stream goes: its viewer stays, the next one gets it from who has it now.
    tell(&mut model, &others);
    let of = |model: &Model, name: &str| {
        let peers = model.proxy.peers_state(None).peers;
        peers.into_iter().find(|own| own.server.as_ref().unwrap().name == name)
    };
    let gone = of(&model, &has).unwrap();
    assert_eq!((gone.streams, gone.sessions, gone.server.unwrap().configured), (1, 1, false));
    model.wait(Duration::from_secs(30));
    plays(&mut model, OTHER, 6000);
    assert_eq!(model.count(host_of(&has), "PLAY"), 1);
    assert_eq!(model.proxy.sizes().1, 2);
    assert_eq!(model.proxy.counts.failed, 0);
    // It comes back while it has a stream: it is the same.
    tell(&mut model, &names);
    let back = of(&model, &has).unwrap();
    assert_eq!((back.streams, back.asked, back.server.unwrap().configured), (1, 1, true));
}

#[test]
fn the_next_process_knows_them_until_it_has_found_out() {
    let names = ["e1", "e2", "e3"];
    let has = owner("e1", &names);
    let own = names.into_iter().find(|own| *own != has).unwrap();
    let mut model = model(own);
    tell(&mut model, &names);
    plays(&mut model, CLIENT, 5000);
    model.die(Duration::from_secs(2), |_, _| {});
    let state = model.proxy.peers_state(None);
    assert_eq!((state.sources[0].members, &state.sources[0].revision), (3, &None));
    let of_owner = state.peers.iter().find(|own| own.server.as_ref().unwrap().name == has).unwrap();
    assert_eq!((of_owner.streams, of_owner.sessions), (1, 1));
    // What it is told then is what counts, and is kept in turn.
    tell(&mut model, &[own]);
    model.die(Duration::from_secs(2), |_, _| {});
    let state = model.proxy.peers_state(None);
    let configured = |own: &&media::proxy::origins::OriginState| own.server.as_ref().unwrap().configured;
    assert_eq!((state.sources[0].members, state.peers.iter().filter(configured).count()), (1, 0));
    // Members of another source are none of this one's.
    model.die(Duration::from_secs(2), |settings, _| settings.pools[0].source = Some(source("/t/")));
    assert_eq!(model.proxy.peers_state(None).sources[0].members, 0);
    assert!(model.records.contains_key("members siblings"));
    // Where they are listed nothing is kept.
    model.die(Duration::from_secs(2), |settings, _| settings.pools[0].source = None);
    assert!(!model.records.contains_key("members siblings"));
}

#[test]
fn another_source_begins_with_nobody() {
    let mut model = model("e1");
    tell(&mut model, &["e1", "e2"]);
    let mut settings = (**model.proxy.settings()).clone();
    settings.pools[0].source = Some(source("/t/"));
    model.proxy.set_settings(Arc::new(settings));
    let state = model.proxy.peers_state(None);
    assert!(state.peers.is_empty() && state.sources[0].revision.is_none(), "{state:?}");
}
