//! What etcd and the API server of Kubernetes say, where members of pools are found: bytes of any kind, in pieces.

use std::collections::{BTreeMap, BTreeSet};

use media::members::found::{Judged, Kept, MOST_MEMBERS, judge};
use media::members::lines::{Line, Lines};
use media::members::{etcd, kubernetes};
use media::settings::members::ServicePort;

/// Pieces of both.
pub const WORDS: &[&str] = &[
    "\"result\":",
    "\"events\":[",
    "\"kv\":{",
    "\"type\":\"DELETE\"",
    "\"compact_revision\":\"1\"",
    "\"canceled\":true",
    "\"conditions\":{\"terminating\":true}",
    "\"addresses\":[\"10.1.0.9\"]",
    "\"port\":8554",
    "\"BOOKMARK\"",
    "410",
    "null",
    "\n",
    "L3Mv",
];

const PREFIX: &str = "/s/";
/// The longest line here.
const LONGEST: usize = 2048;

/// Reads some bytes as each answer, and as lines of each watch.
pub fn run(bytes: &[u8]) {
    let mut kept = Kept::default();
    let mut slices = BTreeMap::new();
    let port = ServicePort::Named("rtsp".into());
    if let Ok(page) = etcd::page(bytes) {
        for entry in &page.entries {
            let (name, found) = entry.member(PREFIX);
            kept.set(&name, found);
            entry.place();
        }
    }
    let _ = (etcd::granted(bytes), etcd::is_alive(bytes), etcd::is_set(bytes));
    for said in [etcd::failure(500, bytes), kubernetes::failure(500, bytes)] {
        assert!(!said.is_empty() && said.chars().count() < 300 && !said.contains('\n'), "{said:?}");
    }
    if let Ok(page) = kubernetes::page(bytes, Some(&port)) {
        slices.extend(page.slices);
    }
    let mut lines = Lines::new(LONGEST);
    // The length of the pieces is the input's, too.
    let length = 1 + usize::from(bytes.first().copied().unwrap_or(0));
    for piece in bytes.chunks(length) {
        lines.push(piece);
        while let Some(line) = lines.next_line() {
            let Line::Whole(line) = line else { continue };
            assert!(line.len() <= LONGEST && !line.contains(&b'\n'));
            if let Ok(etcd::Said::Changes(_, changes)) = etcd::line(&line, PREFIX) {
                for change in changes {
                    match change.found {
                        Some(found) => kept.set(&change.name, found),
                        None => _ = kept.remove(&change.name),
                    }
                }
            }
            if let Ok(kubernetes::Said::Slice(name, slice, _)) = kubernetes::line(&line, Some(&port)) {
                match slice {
                    Some(slice) => _ = slices.insert(name, slice),
                    None => _ = slices.remove(&name),
                }
            }
        }
    }
    check(&kept.judge());
    let found = kubernetes::found(&slices);
    check(&judge(found.iter().map(|(name, found)| (name.as_str(), found))));
}

/// Members differ, and each can stand where names and hosts stand.
fn check(judged: &Judged) {
    let servers = &judged.servers;
    assert!(servers.len() <= MOST_MEMBERS);
    let names: BTreeSet<&str> = servers.iter().map(|own| own.name.as_str()).collect();
    let places: BTreeSet<_> = servers.iter().map(|own| (own.host.as_str(), own.port)).collect();
    assert_eq!((names.len(), places.len()), (servers.len(), servers.len()));
    for text in servers.iter().flat_map(|own| [&own.name, &own.host]) {
        assert!((1..=253).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic()), "{text:?}");
    }
}

/// Answers and watches, as they are.
pub fn seeds() -> Vec<Vec<u8>> {
    let slice = r#"{"metadata":{"name":"edge-x","resourceVersion":"9"},"addressType":"IPv4","ports":[{"name":"rtsp","port":8554,"protocol":"TCP"}],"endpoints":[{"addresses":["10.1.0.5"],"conditions":{"ready":true,"serving":true,"terminating":false},"targetRef":{"kind":"Pod","name":"edge-0"}},{"addresses":["10.1.0.6"],"hostname":"edge-1"}]}"#;
    [
        r#"{"header":{"revision":"4"},"kvs":[{"key":"L3MvZTE=","mod_revision":"4","value":"eyJob3N0IjoiMTAuMC4yLjEiLCJwb3J0Ijo4NTU0fQ==","lease":"7"}],"more":true,"count":"3"}"#.to_owned(),
        r#"{"header":{"revision":"5"},"responses":[{"response_range":{"kvs":[{"key":"YQ==","value":"Yg=="}]}}]}"#.to_owned(),
        r#"{"header":{"revision":"1"},"ID":"7587883212297104648","TTL":"15"}"#.to_owned(),
        "{\"result\":{\"header\":{\"revision\":\"4\"},\"created\":true}}\n{\"result\":{\"header\":{\"revision\":\"6\"},\"events\":[{\"kv\":{\"key\":\"L3MvZTE=\",\"value\":\"eyJob3N0IjoiaCJ9\"}},{\"type\":\"DELETE\",\"kv\":{\"key\":\"L3MvZTI=\"}}]}}\n".to_owned(),
        "{\"result\":{\"header\":{\"revision\":\"9\"},\"canceled\":true,\"compact_revision\":\"7\"}}\n{\"error\":{\"grpc_code\":14,\"message\":\"no leader\"}}\n".to_owned(),
        format!("{{\"metadata\":{{\"resourceVersion\":\"12\",\"continue\":\"\"}},\"items\":[{slice}]}}"),
        format!("{{\"type\":\"ADDED\",\"object\":{slice}}}\n{{\"type\":\"BOOKMARK\",\"object\":{{\"metadata\":{{\"resourceVersion\":\"15\"}}}}}}\n"),
        "{\"type\":\"DELETED\",\"object\":{\"metadata\":{\"name\":\"edge-x\",\"resourceVersion\":\"16\"}}}\n{\"type\":\"ERROR\",\"object\":{\"code\":410,\"message\":\"too old\"}}\n".to_owned(),
    ]
    .map(String::into_bytes)
    .to_vec()
}
