//! A viewer on a connection that does not read: it loses pictures that no other refers to, before any other.

use std::collections::HashSet;

use crate::PROXIES;
use crate::network::Media;
use crate::publisher::Publisher;
use crate::viewer::{Viewer, compare};

/// With half of the backlog in front of the viewer, and what sockets hold, they fill more than half of the rest. The
/// last one is referred to.
const PACKETS: u16 = 25_001;

#[test]
fn slow_viewers_lose_what_nothing_refers_to() {
    let section = "[controllers.media.limits]";
    let stage = format!("[controllers.media.streams.stage]\npublish.addresses = \"10.0.2.0/24\"\n\n{section}");
    let media = Media::start("afpacket", &[(section, &stage), ("backlog = 262144 ", "backlog = 33554432 ")]);
    // On the connection none of its packets is lost on the way here.
    let mut publisher = Publisher::of_pictures(&media.servers, "10.0.2.1:8554", "stage");
    let mut slow = Viewer::connect(&media.viewers, PROXIES[0].0, "stage");
    slow.set_up_interleaved(0);
    slow.play();
    publisher.send(PACKETS);
    media.wait("they have not come", |media| media.metric("media_packets_relayed_total") == u64::from(PACKETS));
    let (thinned, lost) = (media.metric("media_packets_thinned_total"), media.metric("media_packets_slow_total"));
    assert_eq!(lost, 0);
    assert!((2000..u64::from(PACKETS) / 2).contains(&thinned), "{thinned}");
    let received = slow.receive(0, usize::from(PACKETS) - thinned as usize);
    assert_eq!(compare(&received, &publisher.sent) as u64, thinned);
    let there: HashSet<&[u8]> = received.iter().map(|(.., payload)| &payload[..]).collect();
    let missing = publisher.sent.values().filter(|(_, payload)| !there.contains(&payload[..]));
    assert!(missing.into_iter().all(|(_, payload)| payload[0] == 0x01), "only slices that nothing refers to");
    media.stop();
}
