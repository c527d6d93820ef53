//! Two servers of a pool: drained, killed in mid-stream, both gone.

use crate::network::Media;
use crate::origin::Options;
use crate::server::{Sent, Server};
use crate::viewer::{Viewer, compare};
use crate::{PROXIES, viewer};

const POOL: &str = r#"
[controllers.media.pools.p]
servers = [{ name = "a", address = "10.0.2.11:8554" }, { name = "b", address = "[2001:db8:2::11]:8554" }]
check = { path = "/live", interval = "1s" }

[controllers.media.streams.pooled]
pool = "p"
path = "/live"

[controllers.media.limits]
"#;

type Packets = Vec<(u16, u32, Vec<u8>)>;

fn sent(server: &Server) -> Sent {
    server.log.lock().unwrap().sent.get(&0).cloned().unwrap_or_default()
}

/// Those that another server has sent, and that come after those of the first, as the viewer counts.
fn split(packets: Packets, first: &Sent) -> (Packets, Packets) {
    let of_first: std::collections::HashSet<&Vec<u8>> = first.values().map(|(_, payload)| payload).collect();
    packets.into_iter().partition(|(_, _, payload)| of_first.contains(payload))
}

/// Receives packets until so many are of another server than the first; both parts.
fn receive_past(viewer: &mut Viewer, first: &Server, count: usize) -> (Packets, Packets) {
    let mut all = Packets::new();
    loop {
        all.extend(viewer.receive(0, 10));
        let (before, after) = split(all.clone(), &sent(first));
        if after.len() >= count {
            return (before, after);
        }
    }
}

#[test]
fn a_server_is_drained_and_killed_under_its_viewers() {
    let log = std::env::temp_dir().join(format!("millrace-media-{}.log", std::process::id()));
    let _ = std::fs::remove_file(&log);
    let own = format!("[controllers.media.log]\nfile = \"{}\"\nformat = \"json\"\n{POOL}", log.display());
    let changes = [("[controllers.media.limits]\n", own.as_str()), ("retry = \"30s\"", "retry = \"1s\"")];
    let media = Media::start("xdp", &changes);
    let live = Options { live: true, tracks: 1, ..Options::default() };
    let a = Server::start(&media.servers, &["10.0.2.11:8554"], &live);
    let other = Options { first: 30_000, ..live };
    let b = Server::start(&media.servers, &["[2001:db8:2::11]:8554"], &other);
    let up = |media: &Media, name: &str| {
        let shown = media.json(&["media", "origins"]);
        let all = shown.as_array().unwrap().clone();
        all.into_iter().find(|own| own["server"]["name"] == name).unwrap()
    };
    media.wait("checks do not succeed", |media| ["a", "b"].iter().all(|name| up(media, name)["server"]["up"] == true));
    let mut first = viewer(&media, PROXIES[0], "pooled", 1);
    first.play();
    let mut before = first.receive(0, 30);
    let of_a = [&a, &b].iter().position(|own| own.count("PLAY") == 1).unwrap() == 0;
    let (origin, left, name) = if of_a { (&a, &b, "p/a") } else { (&b, &a, "p/b") };

    // A drained server keeps what it has, and the next viewer gets the stream from the other one.
    assert!(media.millrace(&["media", "origins", "drain", name]).ok().contains("up, drain, 1 streams"));
    let mut second = viewer(&media, PROXIES[1], "pooled", 1);
    second.play();
    assert_eq!(compare(&second.receive(0, 30), &sent(left)), 0);
    before.extend(first.receive(0, 30));
    assert_eq!(compare(&before, &sent(origin)), 0);
    assert_eq!((origin.count("PLAY"), left.count("PLAY"), origin.count("TEARDOWN")), (1, 1, 0));
    second.good("TEARDOWN", &second.url.clone(), &[]);
    let watched = media.millrace(&["media", "origins", "--watch", "--count", "2"]).ok();
    assert_eq!(watched.matches("up, drain").count(), 2, "{watched}");

    // Killed, its viewer goes on from the other: same source, and the numbers that follow.
    origin.kill();
    let (rest, after) = receive_past(&mut first, origin, 60);
    before.extend(rest);
    assert_eq!(compare(&before, &sent(origin)), 0);
    assert_eq!(compare(&after, &sent(left)), 0);
    let place = |packet: &(u16, u32, Vec<u8>)| packet.0.wrapping_sub(before[0].0).wrapping_add(1000);
    let (last, next) = (before.iter().map(place).max().unwrap(), after.iter().map(place).min().unwrap());
    assert_eq!(next, last + 1, "the next number");
    media.wait("the drained server is not known to be down", |media| up(media, &name[2..])["server"]["up"] == false);
    assert_eq!(media.metric("media_streams_replaced_total"), 1);
    // In the kernel again.
    let tapped = media.metric("media_packets_tapped_total");
    first.receive(0, 50);
    assert_eq!(media.metric("media_packets_tapped_total"), tapped);

    // Without any, it ends.
    left.kill();
    media.wait("its session is left", |media| media.json(&["media", "sessions"]).as_array().unwrap().is_empty());
    let byes = first.reports_until_bye(0);
    assert_eq!(byes.as_deref(), Some("origin_lost"));
    media.stop();
    // Both sessions are logged.
    let text = std::fs::read_to_string(&log).unwrap();
    let lines: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let ended: Vec<_> = lines.iter().map(|line| line["ended"].as_str().unwrap()).collect();
    assert_eq!(ended, ["teardown", "origin_lost"], "{text}");
    assert_eq!((&lines[0]["client"], &lines[0]["transport"]), (&"2001:db8:1::11".into(), &"udp".into()));
    let received = (before.len() + after.len()) as u64;
    assert!(lines.iter().all(|line| line["bytes"] == line["packets"].as_u64().unwrap() * 1328), "{text}");
    assert!(lines[1]["packets"].as_u64().unwrap() >= received && lines[0]["packets"].as_u64().unwrap() >= 30, "{text}");
    let _ = std::fs::remove_file(&log);
}
