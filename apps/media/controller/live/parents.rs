//! Two siblings below a parent:
//!
//! ```text
//! viewers ── e1 ──┐
//!                 ├── e3, the parent of both ── origins
//! viewers ── e2 ──┘
//! ```
//!
//! All three reach the origins, so that the siblings can do without their parent.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use crate::network::{Media, PATIENCE};
use crate::origin::Options;
use crate::peers::{NAMES, edge, origins};
use crate::server::Server;
use crate::viewer::{Viewer, compare};
use crate::{PROXIES, viewer};

/// Streams, each from a server of its own.
const STREAMS: usize = 4;

fn sibling(at: usize) -> String {
    format!(
        "[controllers.media.peers]\nname = \"{}\"\nsiblings = [{{ name = \"e1\", address = \"10.0.2.1:8554\" }}, \
         {{ name = \"e2\", address = \"10.0.2.2:8554\" }}]\nparents = [{{ name = \"e3\", address = \"10.0.2.3:8554\" }}]\n\
         check = {{ interval = \"1s\", fall = 1 }}",
        NAMES[at]
    )
}

/// Whether all peers of a proxy are up, or whether its parent is not.
fn sees(edge: &Media, parent: bool) -> bool {
    let shown = edge.json(&["media", "peers"]);
    let all = shown["peers"].as_array().unwrap();
    let is_up = |name: &str| all.iter().any(|own| own["server"]["name"] == name && own["server"]["up"] == true);
    is_up("e3") == parent && (NAMES[..2].iter().any(|name| is_up(name)))
}

fn parents_are_asked_before_origins(driver: &str) {
    let origin = origins();
    let mut parent = edge(driver, &origin, 2, "[controllers.media.peers]\nname = \"e3\"");
    let edges = [0, 1].map(|at| edge(driver, &origin, at, &sibling(at)));
    let options = Options { live: true, tracks: 1, ..Options::default() };
    let addresses: Vec<String> = (0..STREAMS).map(|at| format!("10.0.2.{}:8554", 11 + at)).collect();
    let servers: Vec<Server> = addresses.iter().map(|own| Server::start(&origin, &[own], &options)).collect();
    edges.iter().for_each(|edge| edge.wait("its peers are not seen", |edge| sees(edge, true)));
    let path = |stream: usize| format!("{}/live", addresses[stream]);
    let plays = || servers.iter().map(|own| own.count("PLAY")).collect::<Vec<_>>();
    let sent = |stream: usize| servers[stream].log.lock().unwrap().sent[&0].clone();
    // The last stream is for later.
    let mut viewers: Vec<(usize, Viewer)> = Vec::new();
    for number in 0..4 * (STREAMS - 1) {
        let stream = number / 2 % (STREAMS - 1);
        let mut own = viewer(&edges[number % 2], PROXIES[0], &path(stream), 1);
        own.play();
        viewers.push((stream, own));
    }
    for (stream, own) in &mut viewers {
        assert_eq!(compare(&own.receive(0, 20), &sent(*stream)), 0, "stream {stream}");
    }
    assert_eq!(plays(), [1, 1, 1, 0]);
    // It is the parent that asked, and it was asked by one of the two.
    assert_eq!(parent.json(&["media", "sessions"]).as_array().unwrap().len(), STREAMS - 1);
    let said = edges[0].millrace(&["media", "peers", &path(0)]).ok();
    assert!(said.contains("then parents/e3, then its origin"), "{said}");
    // Without it they ask the origins, and nobody's numbers begin anew.
    parent.kill();
    let begun = Instant::now();
    while plays() != [2, 2, 2, 0] {
        assert!(begun.elapsed() < PATIENCE, "{:?}: {}", plays(), edges[0].said());
        std::thread::sleep(Duration::from_millis(20));
    }
    for (stream, own) in &mut viewers {
        let (received, sent) = (own.receive(0, 40), sent(*stream));
        let payloads: HashSet<&Vec<u8>> = sent.values().map(|(_, payload)| payload).collect();
        assert!(received.iter().all(|(_, _, payload)| payloads.contains(payload)), "every byte was sent");
        let mut steps = received.windows(2).map(|two| two[1].0.wrapping_sub(two[0].0));
        assert!(steps.all(|step| (1..0x8000).contains(&step)), "its numbers go on");
    }
    edges.iter().for_each(|edge| edge.wait("its parent is not seen to be gone", |edge| sees(edge, false)));
    // It comes again, and new streams come from it.
    parent.start_again();
    edges.iter().for_each(|edge| edge.wait("its parent is not seen again", |edge| sees(edge, true)));
    let mut late = viewer(&edges[0], PROXIES[0], &path(STREAMS - 1), 1);
    late.play();
    assert_eq!(compare(&late.receive(0, 20), &sent(STREAMS - 1)), 0);
    assert_eq!(plays(), [2, 2, 2, 1]);
    // Beside those from before, which nobody keeps alive any more.
    let sessions = parent.json(&["media", "sessions"]);
    let of_late = |own: &&serde_json::Value| own["url"].as_str().is_some_and(|own| own.ends_with(&path(STREAMS - 1)));
    assert_eq!(sessions.as_array().unwrap().iter().filter(of_late).count(), 1, "{sessions}");
    assert_eq!(edges.iter().map(|edge| edge.metric("media_loops_total")).sum::<u64>(), 0);
    drop((viewers, late));
    edges.into_iter().for_each(|edge| drop(edge.stop()));
    parent.stop();
}

#[test]
fn parents_are_asked_before_origins_in_the_kernel() {
    parents_are_asked_before_origins("xdp");
}

#[test]
fn parents_are_asked_before_origins_on_workers() {
    parents_are_asked_before_origins("afpacket");
}
