//! Two siblings between many viewers and a few origins on one host:
//!
//! ```text
//! viewers ── 10.0.1.1 e1 10.0.2.1 ──┐
//!                                   ├── 10.0.2.11 to 10.0.2.14, origins
//! viewers ── 10.0.1.1 e2 10.0.2.2 ──┘
//! ```

use std::collections::HashSet;
use std::sync::Arc;

use lab::{LinkConfig, Namespace, veth};

use crate::network::{Media, PATIENCE, example, must};
use crate::origin::Options;
use crate::server::Server;
use crate::viewer::compare;
use crate::{PROXIES, viewer};

/// In front of this section of the example others can stand.
pub const SECTION: &str = "[controllers.media.limits]";
/// Siblings.
pub const NAMES: [&str; 3] = ["e1", "e2", "e3"];

/// The origins' host.
pub fn origins() -> Arc<Namespace> {
    let origin = Arc::new(must(Namespace::new("origin")));
    must(origin.check(&["ip", "link", "add", "core", "type", "bridge"]));
    let core = (11..=14).fold(LinkConfig::host(), |own, last| own.address(format!("10.0.2.{last}/24")));
    must(origin.configure("core", &core));
    origin
}

/// A sibling, with a section of its own.
pub fn edge(driver: &str, origin: &Arc<Namespace>, at: usize, section: &str) -> Media {
    let (edge, viewers) = (must(Namespace::new(NAMES[at])), must(Namespace::new("viewers")));
    must(veth(&viewers, "eth0", &edge, "viewers"));
    must(veth(origin, NAMES[at], &edge, "servers"));
    must(viewers.configure("eth0", &LinkConfig::host().address("10.0.1.11/24")));
    must(edge.configure("viewers", &LinkConfig::host().address("10.0.1.1/24")));
    must(edge.configure("servers", &LinkConfig::host().address(format!("10.0.2.{}/24", at + 1))));
    must(origin.configure(NAMES[at], &LinkConfig::host()));
    must(origin.check(&["ip", "link", "set", NAMES[at], "master", "core"]));
    // Without it a veth device takes no packets from the kernel's fast path.
    must(viewers.check(&["ethtool", "-K", "eth0", "gro", "on"]));
    must(origin.check(&["ethtool", "-K", NAMES[at], "gro", "on"]));
    let section = format!("{section}\n\n{SECTION}");
    let changes =
        [(SECTION, section.as_str()), ("per_client = 64", "per_client = 1000"), ("\"[::]:8554\"", "\"[::1]:8554\"")];
    Media::start_at(edge, (viewers, origin.clone()), &example(driver, &changes), None)
}

/// Both siblings, and the origins' host.
fn siblings(driver: &str) -> ([Media; 2], Arc<Namespace>) {
    let origin = origins();
    let edges = [0, 1].map(|at| {
        let peers = format!(
            "[controllers.media.peers]\nname = \"{}\"\nsiblings = [{{ name = \"e1\", address = \"10.0.2.1:8554\" }}, \
             {{ name = \"e2\", address = \"10.0.2.2:8554\" }}]\ncheck = {{ interval = \"1s\", fall = 1 }}",
            NAMES[at]
        );
        edge(driver, &origin, at, &peers)
    });
    (edges, origin)
}

/// Who has a stream, as a sibling says.
pub fn has(edge: &Media, stream: &str) -> String {
    let said = edge.millrace(&["media", "peers", stream]).ok();
    let own = said.split(": ").nth(1).unwrap().split(' ').next().unwrap().replace("siblings/", "");
    assert!(NAMES.contains(&&*own), "{said}");
    own
}

/// Of four streams each is sent once, whatever sibling its viewers are at; each viewer has all of its bytes. When a
/// sibling dies the other one's viewers go on.
fn each_stream_is_sent_once(driver: &str, viewers: usize) {
    let ([one, other], origin) = siblings(driver);
    let mut edges = [Some(one), Some(other)];
    let options = Options { live: true, tracks: 1, ..Options::default() };
    let addresses: Vec<String> = (0..4).map(|at| format!("10.0.2.{}:8554", 11 + at)).collect();
    let servers: Vec<Server> = addresses.iter().map(|own| Server::start(&origin, &[own], &options)).collect();
    let is_up = |media: &Media| media.json(&["media", "peers"])["peers"][0]["server"]["up"] == true;
    edges.iter().flatten().for_each(|edge| edge.wait("its sibling is not seen", is_up));
    let mut all = Vec::new();
    for number in 0..viewers {
        let (at, stream) = (number % 2, number / 2 % 4);
        let edge = edges[at].as_ref().unwrap();
        let mut own = viewer(edge, PROXIES[0], &format!("{}/live", addresses[stream]), 1);
        own.play();
        all.push((at, stream, own));
    }
    let sent = |stream: usize| servers[stream].log.lock().unwrap().sent[&0].clone();
    for (at, stream, own) in &mut all {
        let received = own.receive(0, 20);
        assert_eq!(compare(&received, &sent(*stream)), 0, "stream {stream} at {}", NAMES[*at]);
    }
    let counts = |method: &str| servers.iter().map(|own| own.count(method)).collect::<Vec<_>>();
    assert_eq!([counts("DESCRIBE"), counts("PLAY")], [[1; 4], [1; 4]]);
    // Both say who has each stream, and the same.
    let has = |edge: &Media, stream: usize| has(edge, &format!("{}/live", addresses[stream]));
    let owners: Vec<String> = (0..4).map(|stream| has(edges[0].as_ref().unwrap(), stream)).collect();
    assert_eq!(owners, (0..4).map(|stream| has(edges[1].as_ref().unwrap(), stream)).collect::<Vec<_>>());
    assert!(NAMES[..2].iter().all(|name| owners.iter().any(|own| own == name)), "{owners:?}");
    // The one that has the first stream dies.
    let gone = NAMES.iter().position(|name| *name == owners[0]).unwrap();
    edges[gone].take().unwrap().kill();
    let left = edges[1 - gone].as_ref().unwrap();
    for (_, stream, own) in all.iter_mut().filter(|own| own.0 != gone) {
        // What was under way first, then what the origin sends again.
        let begun = std::time::Instant::now();
        let count = |stream: usize| servers[stream].count("PLAY");
        while owners[*stream] == NAMES[gone] && count(*stream) < 2 {
            assert!(begun.elapsed() < PATIENCE, "the origin is not asked for stream {stream}: {}", left.said());
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        let received = own.receive(0, 40);
        let sent = sent(*stream);
        if owners[*stream] != NAMES[gone] {
            assert_eq!(compare(&received, &sent), 0, "nobody notices who has another stream");
            continue;
        }
        let payloads: HashSet<&Vec<u8>> = sent.values().map(|(_, payload)| payload).collect();
        assert!(received.iter().all(|(_, _, payload)| payloads.contains(payload)), "every byte was sent");
        let numbers = received.windows(2).map(|two| two[1].0.wrapping_sub(two[0].0));
        assert!(numbers.into_iter().all(|step| (1..0x8000).contains(&step)), "its numbers go on");
    }
    let expected = owners.iter().map(|own| 1 + usize::from(*own == NAMES[gone])).collect::<Vec<_>>();
    assert_eq!(counts("PLAY"), expected, "{owners:?}");
    left.wait("it is not said who is gone", |left| {
        let shown = left.millrace(&["media", "peers"]).ok();
        assert!(shown.contains(&format!("this proxy: {}", NAMES[1 - gone])), "{shown}");
        shown.contains("down")
    });
    assert_eq!(left.metric("media_loops_total"), 0);
    edges[1 - gone].take().unwrap().stop();
}

#[test]
fn each_stream_is_sent_once_in_the_kernel() {
    each_stream_is_sent_once("xdp", 200);
}

#[test]
fn each_stream_is_sent_once_on_workers() {
    each_stream_is_sent_once("afpacket", 16);
}
