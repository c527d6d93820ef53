//! Who gets a stream's packets while viewers come and go.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

use media::proxy::ClientId;
use media::tables::{Leads, Progress};

use crate::model::{CLIENT, Model, OTHER, URL};
use crate::origin::Options;

const TRANSPORT: [(&str, &str); 1] = [("Transport", "RTP/AVP;unicast;client_port=5000-5001")];

fn live() -> Options {
    Options { live: true, tracks: 1, ..Options::default() }
}

/// A viewer as the test knows it.
struct Viewer {
    client: ClientId,
    session: String,
    /// Where it wants its packets; none: on its connection.
    to: Option<SocketAddr>,
    plays: bool,
}

#[test]
fn viewers_come_and_go_and_disturb_nobody() {
    let mut model = Model::new(live());
    let (mut viewers, mut next, mut state) = (BTreeMap::<u16, Viewer>::new(), 0u16, 7u64);
    let mut random = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let over_udp = |viewers: &BTreeMap<u16, Viewer>| -> BTreeSet<SocketAddr> {
        viewers.values().filter(|own| own.plays).filter_map(|own| own.to).collect()
    };
    let mut most = 0;
    for _ in 0..600 {
        let before = over_udp(&viewers);
        model.audiences.clear();
        let chosen = viewers.keys().nth(random(8) as usize).copied();
        match (random(4), chosen) {
            (0, Some(id)) => {
                let own = viewers.remove(&id).unwrap();
                model.good(own.client, "TEARDOWN", URL, &[("Session", &own.session)]);
            }
            (1, Some(id)) => {
                let own = viewers.get_mut(&id).unwrap();
                let method = if own.plays { "PAUSE" } else { "PLAY" };
                own.plays = !own.plays;
                model.good(own.client, method, URL, &[("Session", &own.session)]);
            }
            (2, Some(id)) if viewers[&id].to.is_none() => {
                model.proxy.client_closed(viewers.remove(&id).unwrap().client);
                model.run();
            }
            _ if viewers.len() < 8 => {
                next += 1;
                let client = model.client(&format!("10.0.1.{}:50000", 100 + next % 100));
                let mut to = None;
                let session = if random(4) == 0 {
                    let answer = model.good(client, "SETUP", URL, &[("Transport", "RTP/AVP/TCP;unicast")]);
                    answer.headers.get("session").unwrap().split(';').next().unwrap().to_owned()
                } else {
                    to = Some(format!("10.0.1.{}:5000", 100 + next % 100).parse().unwrap());
                    model.set_up(client, URL, 1, 5000)
                };
                model.good(client, "PLAY", URL, &[("Session", &session)]);
                viewers.insert(next, Viewer { client, session, to, plays: true });
            }
            _ => model.wait(Duration::from_millis(500)),
        }
        let now = over_udp(&viewers);
        most = most.max(now.len());
        assert_eq!(model.audience(), now);
        // Whoever plays before and afterwards gets each packet that comes meanwhile, and nobody does who never played.
        for audience in &model.audiences {
            assert!(audience.is_superset(&before.intersection(&now).copied().collect()), "{audience:?}");
            assert!(before.union(&now).copied().collect::<BTreeSet<_>>().is_superset(audience), "{audience:?}");
        }
        let carried = viewers.values().any(|own| own.plays && own.to.is_none());
        assert_eq!(model.flows.values().any(|(_, flow)| flow.tapped), carried);
        assert_eq!(model.proxy.world.members.len(), now.len());
        assert_eq!(model.flows.values().any(|(_, flow)| flow.leads == Leads::Group), now.len() > 1);
    }
    assert!(most >= 5, "{most}");
    for own in viewers.into_values() {
        model.good(own.client, "TEARDOWN", URL, &[("Session", &own.session)]);
    }
    model.is_empty();
}

#[test]
fn back_to_one_viewer_when_the_worker_has_nothing_left() {
    let mut model = Model::new(live());
    let (first, second) = (model.client(CLIENT), model.client(OTHER));
    let (one, two) = (model.set_up(first, URL, 1, 5000), model.set_up(second, URL, 1, 6000));
    model.good(first, "PLAY", URL, &[("Session", &one)]);
    assert!(!model.flow_from(6970).1.again, "no packet has gone to the group");
    // With a pause of the stream, and without one.
    for (steps, pauses) in [(2, true), (10, false)] {
        model.good(second, "PLAY", URL, &[("Session", &two)]);
        let (_, flow) = model.flow_from(6970);
        assert_eq!((flow.leads, flow.again), (Leads::Group, false));
        model.wait(Duration::from_millis(500));
        let handed = |model: &mut Model| {
            let progress = Progress { handed: model.now.as_nanos() as u64, ..Progress::default() };
            model.proxy.world.progress.insert(flow.track, progress);
        };
        handed(&mut model);
        model.good(second, "PAUSE", URL, &[("Session", &two)]);
        for _ in 0..steps {
            let (_, flow) = model.flow_from(6970);
            assert!(flow.again && matches!(flow.leads, Leads::Receiver { to, .. } if to.port() == 5000), "{flow:?}");
            if !pauses {
                handed(&mut model);
            }
            model.wait(Duration::from_millis(500));
        }
        let (_, flow) = model.flow_from(6970);
        assert!(!flow.again && matches!(flow.leads, Leads::Receiver { to, .. } if to.port() == 5000), "{flow:?}");
        assert_eq!(model.proxy.counts.hasty, u64::from(!pauses));
    }
}

#[test]
fn there_is_room_for_who_was_not_refused() {
    let mut model = Model::with(live(), |settings| settings.limits.receivers = 2);
    let clients: Vec<_> = (1..=4).map(|last| model.client(&format!("10.0.1.{last}:50000"))).collect();
    let sessions: Vec<_> = clients[..2].iter().map(|client| model.set_up(*client, URL, 1, 5000)).collect();
    let url = format!("{URL}/trackID=0");
    assert_eq!(model.ask(clients[2], "SETUP", &url, &TRANSPORT).status, 453);
    // Who is refused has no session left. On the connection there is room, and once more for who has a place.
    assert_eq!(model.proxy.sizes().1, 2);
    let answer = model.good(clients[2], "SETUP", &url, &[("Transport", "RTP/AVP/TCP;unicast")]);
    let carried = answer.headers.get("session").unwrap().split(';').next().unwrap().to_owned();
    let again = [("Session", &*sessions[1]), ("Transport", "RTP/AVP;unicast;client_port=7000-7001")];
    model.good(clients[1], "SETUP", &url, &again);
    for (client, session) in clients.iter().zip(&sessions) {
        model.good(*client, "PLAY", URL, &[("Session", session)]);
    }
    assert_eq!(model.audience().len(), 2);
    model.good(clients[0], "TEARDOWN", URL, &[("Session", &sessions[0])]);
    let other = model.set_up(clients[3], URL, 1, 5000);
    assert_eq!(model.proxy.counts.group_full, 1);
    // All streams together.
    model.good(clients[3], "TEARDOWN", URL, &[("Session", &other)]);
    model.proxy.most_receivers = 1;
    assert_eq!(model.ask(clients[3], "SETUP", &url, &TRANSPORT).status, 503);
    assert_eq!(model.proxy.counts.group_full, 2);
    model.good(clients[1], "TEARDOWN", URL, &[("Session", &sessions[1])]);
    model.good(clients[2], "TEARDOWN", URL, &[("Session", &carried)]);
    model.is_empty();
    let session = model.set_up(clients[3], URL, 1, 5000);
    model.good(clients[3], "TEARDOWN", URL, &[("Session", &session)]);
    model.is_empty();
}
