//! Flows that a collector of IPFIX gets of sessions that are over, against what viewers have received.

use std::net::{SocketAddr, UdpSocket};

use crate::ipfix::{Collected, address, number};
use crate::network::{Media, PATIENCE, must};
use crate::publisher::Publisher;
use crate::viewer::{Packet, Viewer};
use crate::{PROXIES, viewer};

/// Bytes of a header of RTP in front of each packet, as the publisher sends them.
const HEADER: u64 = 12;

#[test]
fn a_collector_gets_sessions_as_flows() {
    const PACKETS: u16 = 100;
    let section = "[controllers.media.limits]";
    let more = format!(
        "[ipfix]\ncollectors = [\"127.0.0.1\"]\ntemplates = \"1s\"\ndomain = 7\n\n\
         [controllers.media.streams.stage]\npublish.addresses = \"10.0.2.0/24\"\n\n{section}"
    );
    let media = Media::start("xdp", &[(section, &more)]);
    let collector = must(media.proxy.enter(|| UdpSocket::bind("127.0.0.1:4739").unwrap()));
    let mut seen = Collected::default();
    seen.learn_templates(&collector, PATIENCE);
    let mut publisher = Publisher::start(&media.servers, "10.0.2.1:8554", "stage", true);
    let bytes = |received: &[Packet]| received.iter().map(|packet| packet.2.len() as u64 + HEADER).sum::<u64>();
    for (proxy, own) in PROXIES {
        // Over UDP: a flow for its track.
        let mut viewer = viewer(&media, (proxy, own), "stage", 1);
        viewer.play();
        publisher.send(PACKETS);
        let received = viewer.receive(0, PACKETS.into());
        let client = viewer.media_address(0);
        viewer.good("TEARDOWN", &viewer.url.clone(), &[]);
        let port = |own: SocketAddr| u64::from(own.port());
        let record = seen.find(&collector, PATIENCE, |own| number(own, 7) == port(client));
        assert_eq!(address(&record, [8, 27]), client.ip());
        let proxy: SocketAddr = proxy.parse().unwrap();
        assert_eq!((address(&record, [12, 28]), number(&record, 11)), (proxy.ip(), 8000));
        assert_eq!([4, 136, 231, 298].map(|element| number(&record, element)), [17, 3, 0, 0]);
        assert_eq!((number(&record, 299), number(&record, 232)), (PACKETS.into(), bytes(&received)));
        assert_eq!(record[&96], b"stage");
        // On its connection, where four bytes are in front of each packet. It goes without a word.
        let mut carried = Viewer::connect(&media.viewers, &proxy.to_string(), "stage");
        carried.set_up_interleaved(0);
        carried.play();
        publisher.send(PACKETS);
        let received = carried.receive(0, PACKETS.into());
        let client = carried.address();
        drop(carried);
        let record = seen.find(&collector, PATIENCE, |own| number(own, 7) == port(client));
        assert_eq!(address(&record, [8, 27]), client.ip());
        assert_eq!((address(&record, [12, 28]), number(&record, 11)), (proxy.ip(), port(proxy)));
        assert_eq!([4, 136].map(|element| number(&record, element)), [6, 4]);
        let framed = bytes(&received) + 4 * u64::from(PACKETS);
        assert_eq!((number(&record, 299), number(&record, 232)), (PACKETS.into(), framed));
    }
    media.stop();
}
