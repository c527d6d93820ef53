//! Viewers over UDP to which the program does not know the way when they are to play.

use std::net::IpAddr;

use media::proxy::world::From;
use media::tables::Leads;

use crate::model::{CLIENT, Model, OTHER, URL};
use crate::origin::Options;

/// A viewer whose neighbour is not resolved: its address.
fn unknown(model: &mut Model, from: &str) -> IpAddr {
    let address = from.parse::<std::net::SocketAddr>().unwrap().ip();
    model.proxy.world.unknown.insert(address);
    address
}

/// What was looked for ends.
fn sought(model: &mut Model, address: IpAddr, found: bool) {
    if found {
        model.proxy.world.unknown.remove(&address);
    }
    model.proxy.way_sought(address);
    model.run();
}

#[test]
fn a_film_begins_when_the_way_to_its_viewer_is_known() {
    for found in [true, false] {
        let mut model = Model::new(Options::default());
        let client = model.client(CLIENT);
        let session = model.set_up(client, URL, 2, 5000);
        let address = unknown(&mut model, CLIENT);
        assert_eq!(model.try_ask(client, "PLAY", URL, &[("Session", &session)]), None);
        // The kernel has something to send to the viewer, and the origin sends nothing yet.
        let [(From::Reports(local), to, report)] = &model.datagrams[..] else { panic!("{:?}", model.datagrams) };
        assert_eq!((local.to_string(), to.to_string()), ("10.0.1.1".into(), "10.0.1.11:5001".into()));
        let said = wire::rtcp::parse(report).unwrap();
        assert!(said.senders.is_empty() && said.reports.is_empty() && said.ended.is_empty());
        assert_eq!((&model.sought[..], model.proxy.counts.sought), (&[address][..], 1));
        assert_eq!(model.count("10.0.2.11", "PLAY"), 0);
        assert!(model.flows.values().all(|(_, flow)| flow.leads == Leads::Nobody));
        // Its next request waits behind it.
        assert_eq!(model.try_ask(client, "GET_PARAMETER", URL, &[("Session", &session)]), None);
        // It plays then, also where no way was found.
        sought(&mut model, address, found);
        let answers = [model.answer(client).unwrap(), model.answer(client).unwrap()];
        assert_eq!(answers.map(|own| own.status), [200, 200]);
        assert_eq!((model.count("10.0.2.11", "PLAY"), model.sought.len()), (1, 1));
        assert!(matches!(model.flow_from(6970).1.leads, Leads::Receiver { .. }));
        // What plays does not wait to be searched.
        model.proxy.world.unknown.insert(address);
        model.good(client, "PLAY", URL, &[("Session", &session), ("Range", "npt=5-")]);
        model.good(client, "TEARDOWN", URL, &[("Session", &session)]);
        model.is_empty();
    }
}

#[test]
fn each_viewer_is_looked_for_once_and_others_do_not_wait() {
    let mut model = Model::new(Options { live: true, tracks: 1, ..Options::default() });
    let clients = [CLIENT, CLIENT, CLIENT, OTHER].map(|from| model.client(from));
    let sessions: Vec<_> =
        clients.iter().zip([5000, 5002, 5004, 6000]).map(|(own, port)| model.set_up(*own, URL, 1, port)).collect();
    let address = unknown(&mut model, CLIENT);
    for at in 0..3 {
        assert_eq!(model.try_ask(clients[at], "PLAY", URL, &[("Session", &sessions[at])]), None);
    }
    model.good(clients[3], "PLAY", URL, &[("Session", &sessions[3])]);
    assert_eq!((model.sought.len(), model.audience().len()), (1, 1));
    // One that has left meanwhile, and a session that has ended.
    model.proxy.client_closed(clients[0]);
    let more = model.client(CLIENT);
    model.good(more, "TEARDOWN", URL, &[("Session", &sessions[1])]);
    sought(&mut model, address, true);
    assert!(model.answer(clients[0]).is_none());
    assert_eq!(model.answer(clients[1]).unwrap().status, 454);
    assert_eq!(model.answer(clients[2]).unwrap().status, 200);
    assert_eq!(model.audience().len(), 2);
    // Viewers on connections need no way.
    unknown(&mut model, CLIENT);
    let answer = model.good(more, "SETUP", &format!("{URL}/trackID=0"), &[("Transport", "RTP/AVP/TCP;unicast")]);
    let session = answer.headers.get("session").unwrap().split(';').next().unwrap().to_owned();
    model.good(more, "PLAY", URL, &[("Session", &session)]);
    assert_eq!(model.sought.len(), 1);
}
